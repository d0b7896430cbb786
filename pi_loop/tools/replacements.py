"""Finding the pieces an edit names and putting others in their place. Pure.

A piece is looked for as it is; where one is not found, all are looked for with the typographic differences that models
make by mistake levelled out (quotes, dashes, spaces, trailing blanks), and then the lines they touch are rewritten.

Source: Pi 1.6.0, tool `edit`.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

_LEVELLED = {
    **dict.fromkeys([0x2018, 0x2019, 0x201A, 0x201B], "'"),
    **dict.fromkeys([0x201C, 0x201D, 0x201E, 0x201F], '"'),
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"),
    **dict.fromkeys([0xA0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece to replace, and what goes there."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """A range of the text with line feeds, and what goes there."""

    start: int
    end: int
    new: str


def to_line_feeds(text: str) -> str:
    """Return a text whose lines all end in line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def apply_edits(content: str, edits: list[Edit], path: str) -> tuple[str, list[Replacement]]:
    """Apply edits, each matched against the text as it was.

    Args:
        content: Text with line feeds.
        edits: What to replace.
        path: For the words of errors.

    Returns:
        The new text, and what was replaced, in order.

    Raises:
        ValueError: a piece is empty, missing, not unique or overlaps another, or nothing would change.
    """
    many = len(edits) > 1
    edits = [Edit(to_line_feeds(one.old), to_line_feeds(one.new)) for one in edits]
    for number, edit in enumerate(edits):
        if not edit.old:
            raise ValueError(f"{f'edits[{number}].oldText' if many else 'oldText'} must not be empty in {path}.")
    loose = any(edit.old not in content for edit in edits)
    base = level(content) if loose else content
    found = sorted((_find(base, edit, number, many, path), number) for number, edit in enumerate(edits))
    for ((_, end), first), ((start, _), second) in pairwise(found):
        if end > start:
            raise ValueError(
                f"edits[{first}] and edits[{second}] overlap in {path}. Merge them into one edit or target disjoint "
                "regions."
            )
    replacements = [Replacement(start, end, edits[number].new) for (start, end), number in found]
    if loose:
        replacements = _widened(content, base, replacements)
    changed = _applied(content, replacements)
    if changed == content:
        raise ValueError(
            f"No changes made to {path}. The replacements produced identical content."
            if many
            else f"No changes made to {path}. The replacement produced identical content. This might indicate an issue "
            "with special characters or the text not existing as expected."
        )
    return changed, replacements


def level(text: str) -> str:
    """Return a text without the typographic differences that do not count; it has as many lines."""
    normal = unicodedata.normalize("NFKC", text)
    return "\n".join(line.rstrip() for line in normal.split("\n")).translate(_LEVELLED)


def splice(original: str, replacements: list[Replacement]) -> str:
    """Apply replacements of the text with line feeds to the text with its own line ends.

    Args:
        original: With `to_line_feeds` it gives the text the replacements are about.
        replacements: In order. New lines end as the line does where the range starts.
    """
    parts: list[str] = []
    position = 0

    def push(part: str) -> None:
        if part.startswith("\n") and parts and parts[-1].endswith("\r"):
            # Two line ends must not melt into one.
            parts.append("\n")
        if part:
            parts.append(part)

    returns = [match.start() for match in re.finditer("\r\n", original)]
    for one in replacements:
        start, end = (_original_offset(returns, offset) for offset in (one.start, one.end))
        push(original[position:start])
        push(one.new.replace("\n", _line_end(original, start)))
        position = end
    push(original[position:])
    return "".join(parts)


def _original_offset(returns: list[int], offset: int) -> int:
    # The line feed of the n-th CRLF, at p in the original, lies at p - n in the text with line feeds.
    low, high = 0, len(returns)
    while low < high:
        middle = (low + high) // 2
        if returns[middle] - middle < offset:
            low = middle + 1
        else:
            high = middle
    return offset + low


def _line_end(text: str, offset: int) -> str:
    feed = text.find("\n", offset)
    feed = text.rfind("\n", 0, offset + 1) if feed < 0 else feed
    if feed < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[feed - 1 : feed] == "\r" else "\n"


def _find(base: str, edit: Edit, number: int, many: bool, path: str) -> tuple[int, int]:
    old = edit.old
    start = base.find(old)
    if start < 0:
        old = level(old)
        start = base.find(old)
    if start < 0 or not old:
        raise ValueError(
            f"Could not find edits[{number}] in {path}. The oldText must match exactly including all whitespace and "
            "newlines."
            if many
            else f"Could not find the exact text in {path}. The old text must match exactly including all whitespace "
            "and newlines."
        )
    times = max(level(base).count(level(old)) if level(old) else 0, base.count(old))
    if times > 1:
        raise ValueError(
            f"Found {times} occurrences of edits[{number}] in {path}. Each oldText must be unique. Please provide more "
            "context to make it unique."
            if many
            else f"Found {times} occurrences of the text in {path}. The text must be unique. Please provide more "
            "context to make it unique."
        )
    return start, start + len(old)


def _applied(text: str, replacements: list[Replacement]) -> str:
    parts: list[str] = []
    position = 0
    for one in replacements:
        parts += [text[position : one.start], one.new]
        position = one.end
    return "".join([*parts, text[position:]])


def _widened(content: str, base: str, replacements: list[Replacement]) -> list[Replacement]:
    """Turn replacements of the levelled text into replacements of whole lines of the text itself."""
    own = [match.span() for match in _LINE.finditer(content)]
    levelled = [match.span() for match in _LINE.finditer(base)]
    if len(own) != len(levelled):
        raise ValueError("Cannot preserve unchanged lines because the base content has a different line count.")
    groups: list[tuple[int, int, list[Replacement]]] = []
    for one in replacements:
        first = next(place for place, (start, end) in enumerate(levelled) if start <= one.start < end)
        last = next((place for place in range(first, len(levelled)) if levelled[place][1] >= one.end), first)
        if groups and first <= groups[-1][1]:
            before, end, members = groups.pop()
            groups.append((before, max(end, last), [*members, one]))
        else:
            groups.append((first, last, [one]))
    widened = []
    for first, last, members in groups:
        start, end = levelled[first][0], levelled[last][1]
        moved = [Replacement(one.start - start, one.end - start, one.new) for one in members]
        widened.append(Replacement(own[first][0], own[last][1], _applied(base[start:end], moved)))
    return widened
