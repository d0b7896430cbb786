"""View of a change that was made: its lines, then the text it gives back."""

from __future__ import annotations

from pi_session_cli.render.safe import block, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.answers import Done
    from pi_session_cli.render.screen import Screen


AS_IT_IS = True


def lines(data: Done, screen: Screen) -> Iterator[str]:
    """Yield the lines for people; text goes through a pipe as it is, on a terminal it is made safe."""
    for line in data.lines:
        yield one_line(line)
    if data.text is not None:
        if screen.columns is None:
            yield data.text
        else:
            yield from block(data.text)


def to_json(data: Done) -> dict[str, object]:
    """Return the object for programs."""
    return data.json
