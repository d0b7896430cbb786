"""Markdown as it was written, easier to read: signs in colour, long lines broken between words.

Nothing is left out, so what is copied from the terminal is what was said; without colour and width the lines stay as
they are. Lines come in safe already (`safe.block`).
"""

from __future__ import annotations

import re

from pi_session_cli.render.width import width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_session_cli.render.screen import Screen

NARROWEST = 24
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6}\s")
_LEAD = re.compile(r"\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*")
INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|\*\*[^*\s](?:[^*]*[^*\s])?\*\*")


def paint_lines(lines: Iterable[str], screen: Screen, *, indent: int) -> Iterator[str]:
    """Yield lines of Markdown, indented, broken to the screen's width and in colour where it has one.

    Args:
        lines: Safe lines.
        indent: Cells before each.
    """
    room = None if screen.columns is None else max(screen.columns - indent, NARROWEST)
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        in_code = bool(fence) or found is not None
        if found is not None:
            mark = found[1]
            closes = fence and mark[0] == fence[0] and len(mark) >= len(fence) and not line.strip(f" {mark[0]}")
            fence = "" if closes else fence or mark
        for piece in [line] if in_code or room is None else broken(line, room):
            painted = screen.paint(piece, "cyan") if in_code else paint_line(piece, screen)
            yield f"{' ' * indent}{painted}" if piece.strip() else ""


def paint_line(line: str, screen: Screen) -> str:
    """Return one line of prose in colour."""
    if not screen.colour:
        return line.rstrip()
    if _HEADING.match(line):
        return screen.paint(line.rstrip(), "bold")
    lead = _LEAD.match(line)
    start = lead[0] if lead else ""
    rest = line[len(start) :].rstrip()
    styled = INLINE.sub(lambda found: screen.paint(found[0], "bold" if found[0][0] == "*" else "cyan"), rest)
    return (screen.paint(start, "yellow") if start.strip() else start) + styled


def broken(line: str, room: int) -> Iterator[str]:
    """Yield a line in pieces of at most `room` cells, broken between words; list items go on under their text."""
    if len(line) <= room and width(line) <= room:
        yield line
        return
    lead = _LEAD.match(line)
    hang = " " * min(width(lead[0]) if lead else 0, room // 2)
    current, cells = "", 0
    for word in re.findall(r"\S+\s*|\s+", line):
        bare = width(word.rstrip())
        if cells and cells + bare > room:
            yield current.rstrip()
            current, cells = hang, len(hang)
        current += word
        cells += width(word)
    yield current.rstrip()
