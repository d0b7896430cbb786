"""Makes text and JSON values that every provider can read: no lone surrogates, no numbers that JSON lacks."""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPLACEMENT = "\ufffd"
# Integers of more bits are infinite to who reads numbers as doubles, and too long for Python to write.
_DOUBLE_BITS = 1024


def well_formed_text(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD and each pair of halves joined.

    A text without any is returned as the same object.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_value(value: Any) -> Any:
    """Return a JSON value with well-formed texts and keys; numbers that JSON cannot write become null.

    A value that needs nothing is returned as the same object.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return _rebuilt(value)
    return value


def _rebuilt(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed_text(value)
    if isinstance(value, dict):
        return {well_formed_text(key): _rebuilt(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rebuilt(inner) for inner in value]
    if isinstance(value, int) and value.bit_length() > _DOUBLE_BITS:
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value
