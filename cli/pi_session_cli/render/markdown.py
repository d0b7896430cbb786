"""Markdown as it streams: line by line, made safe first, then lightly styled.

What a line means depends only on the lines before it, so nothing that was shown is ever drawn again.
"""

from __future__ import annotations

import re

from pi_session_cli.render.safe import block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.render.screen import Screen

_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s")
_BULLET = re.compile(r"(\s*)[-*+](\s+)")
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")


class MarkdownLines:
    """Styles one text after the other; each begins outside of code."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._fence = ""

    def begin(self) -> None:
        """A new text begins."""
        self._fence = ""

    def line(self, text: str) -> str:
        """Return one line of Markdown for the terminal.

        Args:
            text: Without its line feed.
        """
        safe = next(block(text.replace("\n", " ").removesuffix("\r")))
        if not self._screen.colour:
            return safe
        fence = _FENCE.match(safe)
        if fence and self._fence in ("", fence[1]):
            self._fence = "" if self._fence else fence[1]
            return self._screen.paint(safe, "dim")
        if self._fence:
            return self._screen.paint(safe, "cyan")
        if _HEADING.match(safe):
            return self._screen.paint(safe, "bold")
        return _INLINE.sub(self._inline, _BULLET.sub(rf"\1{self._screen.signs.active}\2", safe, count=1))

    def _inline(self, found: re.Match[str]) -> str:
        return self._screen.paint(found[1], "cyan") if found[1] else self._screen.paint(found[2], "bold")
