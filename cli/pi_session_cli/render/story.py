"""View of the demo: sentences for people, and the command lines they are about."""

from __future__ import annotations

import shlex
import textwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pi_session_cli.render.screen import Screen

WIDEST = 100


def spoken(sentence: str, screen: Screen) -> Iterator[str]:
    """Yield a blank line and a sentence as comment lines; nothing but the blank line for an empty sentence."""
    yield ""
    for line in textwrap.wrap(sentence, min(screen.columns or WIDEST, WIDEST) - 2):
        yield screen.paint(f"# {line}", "cyan")


def command_line(argv: Sequence[str]) -> str:
    """Return a command line as it would be typed."""
    return "$ pi-session " + shlex.join(argv)
