"""How many terminal cells a text takes, and cutting it to fit.

Plain letters are counted at once; wcwidth, which costs more than a whole command, is loaded only for texts that need
it (a test compares the two over everything counted here).
"""

from __future__ import annotations

ELLIPSIS = "…"


def width(text: str) -> int:
    """Return the cells a safe line takes."""
    if text.isascii() or all(is_narrow(ord(char)) for char in text):
        return len(text)
    from wcwidth import wcswidth

    cells = wcswidth(text)
    return cells if cells >= 0 else len(text)


def is_narrow(point: int) -> bool:
    """Whether a printable code point is known to take one cell without asking wcwidth."""
    return 0x20 <= point < 0x300 or 0x2010 <= point <= 0x2027 or 0x2500 <= point <= 0x25FC


def fit(text: str, cells: int | None, ellipsis: str = ELLIPSIS) -> str:
    """Return a safe line cut to a number of cells, marked where it was cut.

    Args:
        cells: Room there is; None is unlimited.
    """
    if cells is None or (len(text) <= cells and width(text) <= cells):
        return text
    room = cells - len(ellipsis)
    if room < 0:
        return ellipsis[: max(cells, 0)]
    if text.isascii():
        return text[:room] + ellipsis
    kept = text[: room + 1]
    while kept and width(kept) > room:
        kept = kept[:-1]
    return kept.removesuffix("\u200d") + ellipsis


def pad(text: str, cells: int) -> str:
    """Return a safe line with spaces up to a number of cells."""
    return text + " " * (cells - width(text))
