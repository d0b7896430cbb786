"""View of `context`: what the model would get, entry by entry with token estimates."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.width import pad, width
from pi_session_cli.render.wire import session_json
from pi_session_cli.render.words import ROLES, STYLES, message_gist
from pi_sessions.records import Record
from pi_sessions.tokens import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.context import Context
    from pi_sessions.results import Session
    from pi_sessions.tokens import ContextEstimate

NAMES = {**ROLES, "compactionSummary": "compaction", "branchSummary": "branch summary"}


class Contents(Record):
    """A context to show.

    Attributes:
        at: Entry it is flattened at; None before the first entry.
        context: Messages, model and thinking level.
        size: Its size in tokens.
        omitted: Ids of entries a context edit leaves out.
    """

    session: Session
    at: str | None
    context: Context
    size: ContextEstimate
    omitted: tuple[str, ...]


def lines(data: Contents, screen: Screen) -> Iterator[str]:
    """Yield the settings, then one line per message: estimated tokens, entry, role, first words."""
    context = data.context
    model = f"{context.model.provider}/{context.model.model_id}" if context.model else "none yet"
    yield screen.whole(f"model {model}, thinking {context.thinking_level}")
    yield screen.whole(total_line(data))
    if not context.messages:
        return
    yield ""
    rows = [(estimate_tokens(each.message), one_line(each.entry_id), each.message) for each in context.messages]
    ids = max(width(entry_id) for _, entry_id, _ in rows)
    for tokens, entry_id, message in rows:
        role = str(message.get("role"))
        who = one_line(NAMES.get(role, role))
        start = f"{tokens:>8,}  {pad(entry_id, ids)}  "
        text = screen.line(message_gist(message), len(start) + len(who) + 2)
        shown = f"{tokens:>8,}  {screen.paint(pad(entry_id, ids), 'yellow')}  " if screen.colour else start
        yield f"{shown}{screen.paint(who + ':', *STYLES.get(who, ('dim',)))} {text}".rstrip()


def total_line(data: Contents) -> str:
    """Return the size of the context and how well it is known."""
    size = data.size
    told = f"{count(len(data.context.messages), 'message')}, about {count(size.tokens, 'token')}"
    if size.usage_tokens:
        told += f" ({size.usage_tokens:,} measured by the provider, {size.trailing_tokens:,} estimated since)"
    elif size.tokens:
        told += " (all estimated)"
    if data.omitted:
        told += f"; {count(len(data.omitted), 'entry', 'entries')} left out"
    return told


def to_json(data: Contents) -> dict[str, object]:
    """Return the messages with everything the view shows."""
    context = data.context
    return {
        "session": session_json(data.session),
        "leaf": data.at,
        "model": {"provider": context.model.provider, "modelId": context.model.model_id} if context.model else None,
        "thinkingLevel": context.thinking_level,
        "tokens": {
            "total": data.size.tokens,
            "measured": data.size.usage_tokens,
            "estimated": data.size.trailing_tokens,
        },
        "omitted": list(data.omitted),
        "messages": [
            {"entryId": each.entry_id, "tokens": estimate_tokens(each.message), "message": each.message}
            for each in context.messages
        ],
    }
