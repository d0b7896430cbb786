"""Markdown as it streams: line by line, made safe first, then lightly styled.

What a line means depends only on the lines before it, so nothing that was shown is ever drawn again. A list mark at the
beginning of a line becomes a bullet; everything else stays as it was written.
"""

from __future__ import annotations

import re

from pi_session_cli.render.prose import INLINE
from pi_session_cli.render.safe import block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.render.screen import Screen

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s")
_BULLET = re.compile(r"(\s*)[-*+](?=\s)")
_RULE = re.compile(r"\s*([-*])(?:\s*\1){2,}\s*")


class MarkdownLines:
    """Styles one text after the other; each begins outside of code."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._fence = ""

    def begin(self) -> None:
        """A new text begins."""
        self._fence = ""

    def line(self, text: str, *, goes_on: bool = False) -> str:
        """Return one line of Markdown for the terminal.

        Args:
            text: Without its line feed.
            goes_on: Whether it is a further piece of a line whose beginning was shown.
        """
        safe = next(block(text.replace("\n", " ").removesuffix("\r")))
        if not self._screen.colour:
            return safe
        fence = None if goes_on else _FENCE.match(safe)
        if fence and self._fence in ("", fence[1]):
            self._fence = "" if self._fence else fence[1]
            return self._screen.paint(safe, "dim")
        if self._fence:
            return self._screen.paint(safe, "cyan")
        if goes_on:
            return INLINE.sub(self._inline, safe)
        if _HEADING.match(safe):
            return self._screen.paint(safe, "bold")
        mark = None if _RULE.fullmatch(safe) else _BULLET.match(safe)
        lead = f"{mark[1]}{self._screen.signs.active}" if mark else ""
        return lead + INLINE.sub(self._inline, safe[mark.end() :] if mark else safe)

    def _inline(self, found: re.Match[str]) -> str:
        return self._screen.paint(found[0], "bold" if found[0][0] == "*" else "cyan")
