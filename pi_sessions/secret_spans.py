"""Finds a known secret in text that may be JSON: however its characters are escaped, and also where it was cut off.

Pure. Replacing in the text itself, not in the decoded value, leaves every other byte of an entry as it came.
"""

from __future__ import annotations

import re

BEGINNING = 10
# Signs that are written with backslashes. At the ends of a secret they are left alone: whose backslashes stand there,
# the secret's or its neighbours', cannot be told, and JSON must stay JSON.
ESCAPED = '"\\/\n\r\t\b\f\v\x00 '
# What follows where a text was cut: the end of a JSON string, three dots, the end.
_CUT = re.compile(r'\\*"|…|\\+u2026|\.{3}|\Z')
# The beginning of an escape of JSON: what follows belongs to it and is not the text's.
_IN_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{0,3}|(?<!\\)\\(?:\\\\)*)\Z")
_UNTOUCHED = re.compile(r"[A-Za-z0-9_\-.:+=]*")
# Backslashes and what follows them are matched together: which of them escape what comes next shows only there.
_PIECES = re.compile(r"\\*[^\\]|\\+\Z", re.DOTALL)
_units: dict[str, re.Pattern[str]] = {}


class SecretSpans:
    """Finds one secret.

    Args:
        value: The secret; `core` of it is looked for and must not be empty.
    """

    def __init__(self, value: str) -> None:
        value = self.value = core(value)
        pieces = _PIECES.findall(value)
        head = ""
        while pieces and len(head) < BEGINNING:
            head += pieces.pop(0)
        self._rest = pieces
        self._head = head
        self._plain = _UNTOUCHED.fullmatch(head) is not None
        self._begin = re.compile("".join(_unit_pattern(char) for char in head))

    def may_be_in(self, text: str) -> bool:
        """Whether a text needs to be looked at; quick, and sure only where it says no."""
        return self._head in text or not self._plain or "\\u00" in text

    def in_text(self, text: str) -> list[tuple[int, int]]:
        """Return the places of the secret in a text, those where it was cut included, in their order."""
        if not self.may_be_in(text):
            return []
        found: list[tuple[int, int]] = []
        match = self._begin.search(text)
        while match is not None:
            end = None if _begins_in_escape(text, match.start()) else self._end_from(text, match.end())
            if end is not None:
                found.append((match.start(), end))
            match = self._begin.search(text, end if end is not None else match.start() + 1)
        return found

    def _end_from(self, text: str, at: int) -> int | None:
        """Return where the secret ends whose beginning ends at a place; None when another text goes on there."""
        for piece in self._rest:
            match = _unit(piece).match(text, at)
            if match is None:
                return at if _CUT.match(text, at) else None
            at = match.end()
        return at


def _begins_in_escape(text: str, at: int) -> bool:
    """Whether a place in JSON text lies inside the escape of one character."""
    match = None if text[at] == "\\" or text[0] not in '{["' else _IN_ESCAPE.search(text, max(at - 64, 0), at)
    return match is not None and ("u" in match[0] or text[at] in "nrtbfu")


def core(value: str) -> str:
    """Return a secret without blanks, quotes and slashes at its ends."""
    return value.strip(ESCAPED)


def replaced(text: str, spans: list[tuple[int, int]], mark: str) -> str:
    """Return a text with a mark in each of the places."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], mark)
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _unit(piece: str) -> re.Pattern[str]:
    pattern = _units.get(piece)
    if pattern is None:
        pattern = _units[piece] = re.compile("".join(_unit_pattern(char) for char in piece))
    return pattern


def _unit_pattern(char: str) -> str:
    """Return a pattern for a character as it is, or escaped once or several times (JSON inside JSON)."""
    units = char.encode("utf-16-be", "surrogatepass")
    codes = "".join(rf"\\+u(?i:{units[at]:02x}{units[at + 1]:02x})" for at in range(0, len(units), 2))
    if char == "\\":
        return rf"(?:\\+|{codes})"
    if char in "\n\r\t\b\f":
        letter = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}[char]
        return rf"(?:{re.escape(char)}|\\+{letter}|{codes})"
    if char in '"/':
        return rf"(?:\\*{char}|{codes})"
    return rf"(?:{re.escape(char)}|{codes})"
