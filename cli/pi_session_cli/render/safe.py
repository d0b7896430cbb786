"""Text from conversations made safe for a terminal.

No escape sequence, control character or direction mark from content reaches the terminal: what could move the cursor,
change colours, hide or reorder text is shown as an escape (`\\x1b`, `\\u202e`) instead.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

TAB = "    "
LONGEST_ID = 12
# After these a line needs no full stop.
ENDS = (".", "!", "?", ":", ";", ",", "\u2026")


# Direction marks, embeddings, overrides and isolates; line and paragraph separators; invisible operators; the byte
# order mark; interlinear annotation. The zero-width joiner stays: emoji are made with it.
HIDDEN = (0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
ANNOTATIONS = range(0xFFF9, 0xFFFC)
BLANKS = "\t\n\r\u2028\u2029\x85"
_tables: dict[bool, dict[int, str]] = {}


def escapes(*, in_a_block: bool) -> dict[int, str]:
    """Return what stands for each unsafe character, made when first needed.

    Args:
        in_a_block: Tabs become spaces and all else is shown; otherwise what ends a line becomes a space, too.
    """
    table = _tables.get(in_a_block)
    if table is None:
        unsafe = [*range(0x20), *range(0x7F, 0xA0), *HIDDEN, *ANNOTATIONS]
        table = {point: f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" for point in unsafe}
        table |= {ord("\t"): TAB} if in_a_block else {ord(blank): " " for blank in BLANKS}
        _tables[in_a_block] = table
    return table


def one_line(text: str, limit: int = 1000) -> str:
    """Return text as a single safe line: runs of white space become one space, the rest is escaped.

    Args:
        limit: Characters of the text that are looked at; a preview never needs more.
    """
    head = text[: limit * 4]
    line = head if head.isascii() and head.isprintable() else hide_strange(head.translate(escapes(in_a_block=False)))
    return " ".join(line.split())[:limit]


def sentences(text: str, limit: int = 2000) -> str:
    """Return a text whose lines are sentences (what happened, then what to do) as a single safe line.

    Every sentence but the last gets the full stop that its end of line stood for.
    """
    parts = [part for part in (one_line(line, limit) for line in text.splitlines()) if part]
    return " ".join(part if part.endswith(ENDS) or part is parts[-1] else f"{part}." for part in parts)[:limit]


def short_id(entry_id: str, characters: int = LONGEST_ID) -> str:
    """Return an entry's id as a column shows it: whole, or the beginning of a very long one, still a good prefix."""
    return one_line(entry_id)[:characters]


def block(text: str) -> Iterator[str]:
    """Yield the safe lines of a text; only line feeds (and CRLF) end a line, tabs become spaces."""
    for line in text.replace("\r\n", "\n").split("\n"):
        yield line if line.isascii() and line.isprintable() else hide_strange(line.translate(escapes(in_a_block=True)))


def guarded(line: str, *, colour: bool) -> str:
    """Return a drawn line in which nothing but our own colours can do anything to a terminal.

    Views make what they show safe themselves, since only they can tell how wide it gets; this is for what one forgot.
    """
    if line.isprintable():
        return line
    if not colour:
        return hide_strange(line.translate(escapes(in_a_block=True)))
    import re

    parts = re.split("(\x1b\\[[0-9;]*m)", line)
    parts[::2] = [hide_strange(part.translate(escapes(in_a_block=True))) for part in parts[::2]]
    return "".join(parts)


def hide_strange(text: str) -> str:
    """Escape what no table lists: lone surrogates and the invisible tag characters."""
    if text.isascii():
        return text
    return "".join(char if is_plain(ord(char)) else f"\\u{ord(char):04x}" for char in text)


def is_plain(point: int) -> bool:
    """Whether a code point may go to a terminal as it is (table entries aside)."""
    return not (0xD800 <= point <= 0xDFFF or 0xE0000 <= point <= 0xE007F)
