"""Values as JavaScript reads and writes them: numbers, JSON text, regular expressions, key order.

Tool schemas and models come from a JavaScript world. What a text is as a number, how arguments are printed in an
error and what a `pattern` matches follow ECMAScript here, so that a model sees what it would see from Pi. Pure.

Source: ECMAScript 2025, "StringToNumber", "Number::toString", "JSON.stringify", "Patterns"; used by Pi 1.6.0,
"Argument validation".
"""

import json
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import inf, isfinite

from pi_sessions.messages import Number

# White space and line ends of ECMAScript.
_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_TRIM = "".join(
    chr(code)
    for code in (
        9,
        10,
        11,
        12,
        13,
        32,
        0xA0,
        0x1680,
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
        0xFEFF,
    )
)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RADIX = re.compile(r"0(?:[xX](?P<x>[0-9a-fA-F]+)|[oO](?P<o>[0-7]+)|[bB](?P<b>[01]+))")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
# Above this a double steps by more than one, and int and float must not be told apart by their digits.
_EXACT = 2**53
# Integers of more bits are Infinity.
_DOUBLE_BITS = 1024
_ARRAY_INDEX_LIMIT = 2**32 - 1


def text_to_number(text: str) -> Number | None:
    """Read a text as `Number(text)` does; None for what is not a finite number.

    Blanks around are allowed, an empty text is 0; hexadecimal, octal and binary take no sign.
    """
    trimmed = text.strip(_TRIM)
    if not trimmed:
        return 0
    radix = _RADIX.fullmatch(trimmed)
    if radix is not None:
        base = {"x": 16, "o": 8, "b": 2}[radix.lastgroup or "x"]
        return _as_double(int(radix[radix.lastgroup or "x"], base))
    if _DECIMAL.fullmatch(trimmed) is None:
        return None
    value = float(trimmed)
    if not isfinite(value):
        return None
    if _INTEGER.fullmatch(trimmed) is not None and abs(value) <= _EXACT:
        return int(value)
    return whole(value)


def _as_double(value: int) -> Number | None:
    if abs(value) <= _EXACT:
        return value
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: Number) -> Number:
    """Give a number as an int where JavaScript prints no fraction; infinite where no double holds it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, int) and value.bit_length() > _DOUBLE_BITS:
        return inf if value > 0 else -inf
    return value


def number_to_text(value: Number) -> str:
    """Write a number as `String(value)` does: 1 for 1.0, 1e+21, 1e-7."""
    if isinstance(value, int) and abs(value) > _EXACT:
        try:
            value = float(value)
        except OverflowError:
            return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int):
        return str(value)
    if not isfinite(value):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    integral, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (integral + fraction).lstrip("0")
    # Position of the decimal point, counted from the first significant digit.
    point = len(integral) + int(exponent or 0) - (len(integral + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"


def ordered_keys(value: Mapping[str, object]) -> list[str]:
    """Give the keys of an object in JavaScript's order: array indexes by size, then the others as they came."""
    indexes = [key for key in value if _is_array_index(key)]
    if not indexes:
        return list(value)
    indexes.sort(key=int)
    return indexes + [key for key in value if not _is_array_index(key)]


def _is_array_index(key: str) -> bool:
    if not (key.isascii() and key.isdigit() and len(key) <= len(str(_ARRAY_INDEX_LIMIT))):
        return False
    return (key == "0" or key[0] != "0") and int(key) < _ARRAY_INDEX_LIMIT


def json_text(value: object, indent: int = 0) -> str:
    """Write a JSON value as `JSON.stringify(value, null, indent)` does."""
    return "".join(_json_parts(value, indent, "\n"))


def _json_parts(value: object, indent: int, line: str) -> Iterator[str]:
    if isinstance(value, str):
        yield _json_string(value)
    elif isinstance(value, bool) or value is None:
        yield {True: "true", False: "false", None: "null"}[value]
    elif isinstance(value, int | float):
        text = number_to_text(value)
        yield text if text.lstrip("-")[:1].isdigit() else "null"
    elif isinstance(value, Mapping):
        inner = line + " " * indent
        keys = ordered_keys(value)
        yield "{"
        for position, key in enumerate(keys):
            yield ("," if position else "") + (inner if indent else "") + _json_string(key)
            yield ": " if indent else ":"
            yield from _json_parts(value[key], indent, inner)
        yield (line if indent and keys else "") + "}"
    elif isinstance(value, list | tuple):
        inner = line + " " * indent
        yield "["
        for position, item in enumerate(value):
            yield ("," if position else "") + (inner if indent else "")
            yield from _json_parts(item, indent, inner)
        yield (line if indent and value else "") + "]"
    else:
        raise TypeError(f"{type(value).__name__} is not a JSON value")


def _json_string(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in text):
        # A lone surrogate is escaped; a str of Python holds no pairs.
        return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in written)
    return written


# --- regular expressions ----------------------------------------------------------------------------------------

_ESCAPES_OUTSIDE = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]",
    "s": f"[{_BLANKS}]",
    "S": f"[^{_BLANKS}]",
    "b": r"(?:(?<![A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?![A-Za-z0-9_]))",
    "B": r"(?:(?<![A-Za-z0-9_])(?![A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_]))",
}
_ESCAPES_INSIDE = {"d": "0-9", "w": "A-Za-z0-9_", "s": _BLANKS, "b": "\\x08"}
_CONTROL = {"t": "\\t", "n": "\\n", "v": "\\x0b", "f": "\\x0c", "r": "\\r", "0": "\\x00"}


@lru_cache(maxsize=256)
def regex(source: str) -> re.Pattern[str]:
    """Compile an ECMAScript pattern (flag `u`) for `search`.

    Raises:
        re.error: the pattern is invalid, or uses something Python's `re` cannot do.
    """
    return re.compile(_Translation(source).run())


class _Translation:
    """One pass over a pattern, writing the same pattern for Python."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._out: list[str] = []

    def run(self) -> str:
        while self._at < len(self._source):
            char = self._take()
            if char == "\\":
                self._out.append(self._escape_outside())
            elif char == "[":
                self._out.append(self._char_class())
            elif char == "$":
                # Python's $ also matches before a last line feed.
                self._out.append(r"\Z")
            elif char == ".":
                self._out.append("[^\\n\\r\u2028\u2029]")
            elif (
                char == "(" and self._source.startswith("?<", self._at) and self._source[self._at + 2 :][:1] not in "=!"
            ):
                self._at += 2
                self._out.append("(?P<")
            else:
                self._out.append(char)
        return "".join(self._out)

    def _take(self) -> str:
        if self._at >= len(self._source):
            raise re.error("unterminated pattern", self._source, self._at)
        char = self._source[self._at]
        self._at += 1
        return char

    def _escape_outside(self) -> str:
        char = self._take()
        if char in _ESCAPES_OUTSIDE:
            return _ESCAPES_OUTSIDE[char]
        if char == "k" and self._source.startswith("<", self._at):
            end = self._source.index(">", self._at)
            name = self._source[self._at + 1 : end]
            self._at = end + 1
            return f"(?P={name})"
        if char in "pP":
            return f"[{'^' if char == 'P' else ''}{self._property()}]"
        if char.isdigit() and char != "0":
            return "\\" + char
        return self._code_point(char)

    def _char_class(self) -> str:
        negated = self._source.startswith("^", self._at)
        if negated:
            self._at += 1
        parts: list[str] = []
        # A complement (\D, \P{..}) cannot stand inside a class of Python; it becomes an alternative beside it.
        beside: list[str] = []
        while (char := self._take()) != "]":
            if char != "\\":
                parts.append("\\" + char if char in "[&~|" else char)
                continue
            char = self._take()
            if char in _ESCAPES_INSIDE:
                parts.append(_ESCAPES_INSIDE[char])
            elif char in "DWS":
                beside.append(f"[^{_ESCAPES_INSIDE[char.lower()]}]")
            elif char == "p":
                parts.append(self._property())
            elif char == "P":
                beside.append(f"[^{self._property()}]")
            else:
                parts.append(self._code_point(char))
        if not parts and not beside:
            return "[\\s\\S]" if negated else "(?!)"
        inside = "".join(parts)
        if negated:
            refused = "".join(f"(?!{other})" for other in beside)
            return f"(?:{refused}[^{inside}])" if inside else f"(?:{refused}[\\s\\S])"
        return f"(?:{'|'.join([f'[{inside}]'] * bool(inside) + beside)})"

    def _code_point(self, char: str) -> str:
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "c":
            return re.escape(chr(ord(self._take()) % 32))
        if char == "x":
            return self._hexadecimal(2)
        if char == "u":
            if self._source.startswith("{", self._at):
                end = self._source.index("}", self._at)
                code = int(self._source[self._at + 1 : end], 16)
                self._at = end + 1
                return re.escape(chr(code))
            return self._hexadecimal(4)
        return re.escape(char)

    def _hexadecimal(self, length: int) -> str:
        digits = self._source[self._at : self._at + length]
        self._at += length
        code = int(digits, 16)
        if 0xD800 <= code < 0xDC00 and self._source.startswith("\\u", self._at):
            low = int(self._source[self._at + 2 : self._at + 6] or "0", 16)
            if 0xDC00 <= low < 0xE000:
                self._at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        return re.escape(chr(code))

    def _property(self) -> str:
        if not self._source.startswith("{", self._at):
            raise re.error("invalid property name", self._source, self._at)
        end = self._source.index("}", self._at)
        name = self._source[self._at + 1 : end]
        self._at = end + 1
        return _category(name.rpartition("=")[2])


_LONG_CATEGORIES = {
    "Letter": "L",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Number": "N",
    "Decimal_Number": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Mark": "M",
    "Other": "C",
    "Alphabetic": "L",
    "Uppercase": "Lu",
    "Lowercase": "Ll",
}


@lru_cache(maxsize=32)
def _category(name: str) -> str:
    """Give the inside of a character class for a general category of Unicode."""
    short = _LONG_CATEGORIES.get(name, name)
    if len(short) > 2 or short[:1] not in "LNPSZMC":
        raise re.error(f"unknown property {name}")
    ranges: list[str] = []
    first: int | None = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(short)
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            ranges.append(f"\\U{first:08x}-\\U{code - 1:08x}")
            first = None
    return "".join(ranges)
