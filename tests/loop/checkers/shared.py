"""What the checkers of all protocols look at: JSON that can be sent, known keys, text that says something."""

import json
from collections.abc import Collection, Mapping
from typing import Any


def unsendable(body: object) -> list[str]:
    """Say whether a body is not strict JSON in UTF-8."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        return [f"not sendable: {error}"]
    return []


def unknown_keys(value: Mapping[str, Any], allowed: Collection[str], where: str) -> list[str]:
    """Say which keys the protocol does not know."""
    return [f"{where}: unknown key {key}" for key in value if key not in allowed]


def blank(text: object) -> bool:
    """Whether a value is no text or a text of white space."""
    return not isinstance(text, str) or not text.strip()


def is_object_text(text: object) -> bool:
    """Whether a value is the JSON text of an object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False
