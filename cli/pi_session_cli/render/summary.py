"""View of `show SESSION`: what a session is, in one screen."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.wire import branch_json, label_json, session_json
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Branch, Label, Session
    from pi_sessions.totals import Totals

KEY_CELLS = 10
UNKNOWN_MODEL = "unknown/unknown"  # of an answer that was typed, not made by a model


class Summary(Record):
    """A session and what can be counted about it.

    Attributes:
        entries: Entries in its tree.
        folder_gone: Its directory does not exist here.
        unpriced: Answers that used tokens and have no price.
    """

    session: Session
    branches: tuple[Branch, ...]
    tips: tuple[str, ...]
    labels: tuple[Label, ...]
    totals: Totals
    entries: int
    folder_gone: bool
    unpriced: int


def lines(data: Summary, screen: Screen) -> Iterator[str]:
    """Yield the facts, branches and labels."""
    session, totals = data.session, data.totals
    state = [
        word
        for word, holds in (("archived", session.archived), ("pinned", session.pinned), ("removed", session.deleted))
        if holds
    ]
    holds = f"{count(data.entries, 'entry', 'entries')}, {count(totals.total_messages, 'message')}"
    kinds = (
        (totals.input, "in"),
        (totals.output, "out"),
        (totals.cache_read, "from cache"),
        (totals.cache_write, "to cache"),
    )
    tokens = ", ".join(f"{number:,.0f} {word}" for number, word in kinds)
    origin = f"{session.origin or ''}{f' at {session.origin_entry}' if session.origin_entry else ''}"
    told = [
        ("session", session.id),
        ("name", session.name),
        ("begins", session.first_message),
        ("folder", (session.cwd or "none") + (" (not there any more)" if data.folder_gone else "")),
        ("created", screen.full_time(session.created_ms)),
        ("last", screen.full_time(session.updated_ms) if session.message_count else None),
        ("holds", f"{holds}, {count(totals.tool_calls, 'tool call')}"),
        ("model", None if session.model == UNKNOWN_MODEL else session.model),
        ("cost", f"{spent(data)} ({tokens})" if totals.cost or any(number for number, _ in kinds) else None),
        ("fork of", origin),
        ("state", ", ".join(state)),
    ]
    yield from facts(told, screen)
    yield ""
    yield screen.paint(count(len(data.branches), "branch", "branches"), "dim")
    for branch in data.branches:
        mark = screen.signs.leaf if branch.current else " "
        where = one_line(branch.leaf) if branch.leaf else "before the first entry"
        yield f"{mark} {where}  {screen.line(branch.name, len(where) + 4)}"
    if data.tips:
        yield screen.paint(f"{count(len(data.tips), 'tip')} left behind, on no branch", "dim")
        yield from (f"  {one_line(tip)}" for tip in data.tips)
    if data.labels:
        yield screen.paint(count(len(data.labels), "label"), "dim")
        for label in data.labels:
            yield f"  {one_line(label.entry_id)}  {screen.line(label.text, len(label.entry_id) + 4)}"


def spent(data: Summary) -> str:
    """Return what a session cost; a cost of nothing for tokens means that the price is not known."""
    cost = data.totals.cost
    if not data.unpriced:
        return f"${cost:.4f}"
    return f"${cost:.4f} + {count(data.unpriced, 'answer')} of unknown price" if cost else "unknown price"


def facts(told: Iterable[tuple[str, str | None]], screen: Screen) -> Iterator[str]:
    """Yield `key  value` lines; keys without a value are left out."""
    for key, value in told:
        if value:
            yield f"{screen.paint(f'{key:<{KEY_CELLS}}', 'dim')}{screen.whole(value)}"


def to_json(data: Summary) -> dict[str, object]:
    """Return the session with its branches, labels and totals."""
    totals = data.totals
    return session_json(data.session) | {
        "entries": data.entries,
        "folderGone": data.folder_gone,
        "branches": [branch_json(branch) for branch in data.branches],
        "tips": list(data.tips),
        "labels": [label_json(label) for label in data.labels],
        "totals": {
            "userMessages": totals.user_messages,
            "assistantMessages": totals.assistant_messages,
            "toolCalls": totals.tool_calls,
            "totalMessages": totals.total_messages,
            "input": totals.input,
            "output": totals.output,
            "cacheRead": totals.cache_read,
            "cacheWrite": totals.cache_write,
            "cost": totals.cost,
        },
    }
