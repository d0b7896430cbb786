"""Cuts JSON objects out of text without re-writing them, also out of damaged lines.

Pure. The invariant: a text that is valid JSON comes back exactly as it came, field by field (numbers such as `1.0`,
big integers, repeated keys and key order included); only what no JSON reader could use is re-written, and the caller is
told. Knows nothing about sessions.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError, JSONDecoder, scanstring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BLANK = " \t\r\n\0"
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(
    r"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_PADDING = re.compile(r"[ \t\n\r\0]*")
_OBJECT_START = re.compile(r'\{[ \t\r\n]*"')
_LONGEST_INTEGER = 4000


class NotJsonError(ValueError):
    """The text is no JSON value that can be kept; `position` is where reading stopped."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _bounded_integer(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_INTEGER else None


def _finite_number(text: str) -> float | None:
    number = float(text)
    return number if abs(number) != float("inf") else None


_strict = JSONDecoder(parse_constant=_refuse_constant).scan_once  # type: ignore[attr-defined]
# Reads what a careless writer leaves: raw control characters in strings; numbers that are none become null.
_lenient = JSONDecoder(  # type: ignore[attr-defined]
    parse_constant=lambda _name: None,
    parse_int=_bounded_integer,
    parse_float=_finite_number,
    strict=False,
).scan_once


def scan(text: str, position: int) -> tuple[Any, int]:
    """Decode the JSON value at a position.

    Returns:
        The value and the position behind it.

    Raises:
        NotJsonError: there is no complete JSON value there, or none that can be held (too deep, too long a number).
    """
    return _scan_with(_strict, text, position)


def _scan_with(scanner: Callable[[str, int], tuple[Any, int]], text: str, position: int) -> tuple[Any, int]:
    try:
        return scanner(text, position)
    except StopIteration as stop:
        raise NotJsonError("a value is missing", int(stop.value)) from stop
    except JSONDecodeError as error:
        raise NotJsonError(error.msg, error.pos) from error
    except RecursionError as error:
        raise NotJsonError("nested too deeply", len(text)) from error
    except ValueError as error:
        raise NotJsonError(str(error), len(text)) from error


class Field:
    """One field of an object as it stands in the text."""

    __slots__ = ("name", "raw_name", "raw_value", "value")

    def __init__(self, name: str, raw_name: str, value: Any, raw_value: str) -> None:
        self.name = name
        self.raw_name = raw_name
        self.value = value
        self.raw_value = raw_value


def scan_fields(text: str, position: int = 0) -> tuple[list[Field], int]:
    """Cut the object at a position into its fields.

    Returns:
        The fields in order (repeated names stay repeated) and the position behind the object.

    Raises:
        NotJsonError: there is no complete JSON object there.
    """
    if text[position : position + 1] != "{":
        raise NotJsonError("no object", position)
    fields: list[Field] = []
    at = _skip(text, position + 1)
    if text[at : at + 1] == "}":
        return fields, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise NotJsonError("a name is missing", at)
        try:
            name, behind = scanstring(text, at + 1, True)
        except JSONDecodeError as error:
            raise NotJsonError(error.msg, error.pos) from error
        raw_name = text[at:behind]
        at = _skip(text, behind)
        if text[at : at + 1] != ":":
            raise NotJsonError("a colon is missing", at)
        at = _skip(text, at + 1)
        value, behind = scan(text, at)
        fields.append(Field(name, raw_name, value, text[at:behind]))
        at = _skip(text, behind)
        mark = text[at : at + 1]
        if mark == "}":
            return fields, at + 1
        if mark != ",":
            raise NotJsonError("a comma is missing", at)
        at = _skip(text, at + 1)


def _skip(text: str, position: int) -> int:
    return _end(_SPACE, text, position)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def object_text(fields: list[Field]) -> str:
    """Return the object made of these fields, each as it stood in its source."""
    return "{" + ",".join(f"{field.raw_name}:{field.raw_value}" for field in fields) + "}"


def mend_surrogates(text: str) -> tuple[str, int]:
    """Replace escapes of half a surrogate pair by U+FFFD.

    Returns:
        The text and the number of halves replaced. Other escapes stay as they are written.
    """
    count = 0

    def mend(match: re.Match[str]) -> str:
        nonlocal count
        if match.group("lone") is None:
            return match.group()
        count += 1
        return "\ufffd"

    return _ESCAPE.sub(mend, text), count


def has_surrogate_escape(text: str) -> bool:
    """Whether a text may hold escaped surrogates, paired or not (cheap, may say yes too often)."""
    return "\\ud" in text or "\\uD" in text


class Piece:
    """A part of a damaged line: a whole JSON value (`value` set) or a torn fragment.

    Attributes:
        text: The part's text; for a re-written value its new JSON text.
        value: The decoded value of a whole part, None for a fragment.
        whole: Whether this is a whole value.
        rewritten: Whether the text had to be re-written to be JSON.
    """

    __slots__ = ("rewritten", "text", "value", "whole")

    def __init__(self, text: str, *, value: Any = None, whole: bool = False, rewritten: bool = False) -> None:
        self.text = text
        self.value = value
        self.whole = whole
        self.rewritten = rewritten


def split_damaged(text: str, is_record: Callable[[object], bool]) -> list[Piece]:
    """Take a line apart that is not one JSON value: whole objects and the torn fragments between them.

    An object inside a torn fragment counts only when it is a record (not merely a part of the torn one) and is not
    followed by what would follow a part.

    Args:
        text: The line without its line feed; runs of NUL count as space between parts.
        is_record: Whether a decoded object is a record of its own.

    Returns:
        The parts in order; padding between them is left out.
    """
    pieces: list[Piece] = []
    done = at = 0
    clear = _end(_PADDING, text, 0)
    # A hostile line could make each of many starts read to its end; past this much work the rest is one fragment.
    budget = 32 * len(text) + 1_000_000
    while budget > 0:
        found = _OBJECT_START.search(text, at)
        if found is None:
            break
        start = found.start()
        try:
            value, end, rewritten = _scan_object(text, start)
        except NotJsonError as error:
            # An error counts the lines before it, which costs an eighth of reading them at most.
            budget -= error.position - start + start // 8 + 1
            at = start + 1
            continue
        budget -= end - start
        at = end
        alone = clear == start
        behind = _end(_PADDING, text, end)
        if not alone and (text[behind : behind + 1] in (",", "]", "}", ":") or not is_record(value)):
            continue
        if not alone:
            pieces.append(Piece(text[done:start]))
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False) if rewritten else text[start:end]
        pieces.append(Piece(body, value=value, whole=True, rewritten=rewritten))
        done, clear = end, behind
    if text[done:].strip(BLANK):
        pieces.append(Piece(text[done:]))
    return pieces


def _scan_object(text: str, start: int) -> tuple[Any, int, bool]:
    try:
        return (*scan(text, start), False)
    except NotJsonError as error:
        if "control character" not in str(error) and error.position < len(text):
            raise
    value, end = _scan_with(_lenient, text, start)
    return value, end, True
