"""Where you are when a session is opened: a few lines before the first prompt."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.words import gist, speaker
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.request import Repair
    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Session
    from pi_sessions.stored import StoredEntry

LAST_SHOWN = 2
REPAIRS_SHOWN = 3


class Opening(Record):
    """What to say about a session that was opened.

    Attributes:
        branch: Branch that is worked on.
        branches: How many there are.
        last: The last things said, oldest first.
        model: `provider/model` that will be asked.
        tokens: Size of the context.
        window: The model's window; 0 when unknown.
        repairs: What will be repaired in the request.
        notes: Further sentences.
        waits: Whether the last answer is to come later.
        history: What the person has said last, oldest first, for the history keys; not drawn.
    """

    session: Session
    branch: str
    branches: int
    last: tuple[StoredEntry, ...]
    model: str
    thinking: str
    tokens: int
    window: int
    repairs: tuple[Repair, ...]
    notes: tuple[str, ...]
    waits: bool
    history: tuple[str, ...]


def lines(data: Opening, screen: Screen) -> Iterator[str]:
    """Yield the lines."""
    session = data.session
    title = session.name or session.first_message or "New session"
    dot = f" {screen.signs.dot} "
    where = f"{data.branch} ({count(data.branches, 'branch', 'branches')})"
    start = dot.join((session.id, where))
    yield screen.paint(screen.line(title), "bold")
    yield start
    for entry in data.last[-LAST_SHOWN:]:
        told = f"{one_line(speaker(entry))}: "
        yield screen.paint(f"  {told}{screen.line(gist(entry), len(told) + 2)}", "dim")
    size = f"{data.tokens:,} of {data.window:,} tokens" if data.window else f"{data.tokens:,} tokens"
    yield dot.join((one_line(data.model), f"thinking {one_line(data.thinking)}", f"context about {size}"))
    faults = [each for each in data.repairs if each.fault]
    if faults:
        yield f"{count(len(faults), 'repair')} will apply to what is sent (/context --explain):"
        for each in faults[:REPAIRS_SHOWN]:
            yield screen.paint(f"  {screen.line(each.sentence, 2)}", "dim")
        if len(faults) > REPAIRS_SHOWN:
            yield screen.paint(f"  and {len(faults) - REPAIRS_SHOWN} more", "dim")
    yield from (screen.whole(note) for note in data.notes)
