"""View of `context`: what fills the window, then what the model would get, entry by entry with token estimates."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line, short_id
from pi_session_cli.render.screen import count
from pi_session_cli.render.tree import id_characters
from pi_session_cli.render.width import pad, width
from pi_session_cli.render.wire import session_json
from pi_session_cli.render.words import ROLES, STYLES, message_gist
from pi_sessions.context import is_sent
from pi_sessions.context_shares import context_shares, dearest
from pi_sessions.records import Record
from pi_sessions.tokens import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.context import Context
    from pi_sessions.results import Session
    from pi_sessions.stored import JsonObject
    from pi_sessions.tokens import ContextEstimate

BAR_CELLS = 40
# Tokens, mark, speaker and the least of the words.
BESIDE_IDS = 36
DEAREST = 3
SHARE_STYLES = {
    "system": ("dim",),
    "tools": ("dim",),
    "summary": ("yellow",),
    "files read": ("cyan",),
    "tool output": ("cyan", "dim"),
    "conversation": ("green",),
    "not stored": ("dim",),
    "free": ("dim",),
}
NAMES = {**ROLES, "compactionSummary": "compaction", "branchSummary": "branch summary"}


class Contents(Record):
    """A context to show.

    Attributes:
        at: Entry it is flattened at; None before the first entry.
        context: Messages, model and thinking level.
        size: Its size in tokens.
        omitted: Ids of entries a context edit leaves out.
        window: The model's context window in tokens, None when it is unknown or was not asked for.
    """

    session: Session
    at: str | None
    context: Context
    size: ContextEstimate
    omitted: tuple[str, ...]
    window: int | None = None


def lines(data: Contents, screen: Screen) -> Iterator[str]:
    """Yield the settings, then one line per message: estimated tokens, entry, role, first words."""
    context = data.context
    model = f"{context.model.provider}/{context.model.model_id}" if context.model else "none yet"
    yield screen.whole(f"model {model}, thinking {context.thinking_level}")
    yield screen.whole(total_line(data))
    if not context.messages:
        return
    yield ""
    yield from share_lines(data, screen)
    yield ""
    characters = id_characters({each.entry_id for each in context.messages}, screen, BESIDE_IDS)
    rows = [(tokens_of(each.message), short_id(each.entry_id, characters), each.message) for each in context.messages]
    ids = max(width(entry_id) for _, entry_id, _ in rows)
    most = {short_id(each, characters) for each, _ in dearest(context, DEAREST)} if len(rows) > DEAREST else set()
    for tokens, entry_id, message in rows:
        role = str(message.get("role"))
        who = one_line(NAMES.get(role, role))
        mark = "*" if entry_id in most else " "
        start = f"{tokens:>8,}{mark} {pad(entry_id, ids)}  "
        said = message_gist(message) if is_sent(message) else f"(not sent) {message_gist(message)}"
        text = screen.line(said, len(start) + len(who) + 2)
        number = screen.paint(f"{tokens:>8,}{mark}", "bold") if entry_id in most else f"{tokens:>8,} "
        shown = f"{number} {screen.paint(pad(entry_id, ids), 'yellow')}  " if screen.colour else start
        yield f"{shown}{screen.paint(who + ':', *STYLES.get(who, ('dim',)))} {text}".rstrip()
    if most:
        yield screen.paint("* the dearest entries; omit leaves one out, compact sums up the older ones", "dim")


def share_lines(data: Contents, screen: Screen) -> Iterator[str]:
    """Yield a bar per kind of content, longest where most tokens are; against the window where that is known."""
    shares = context_shares(data.context)
    whole = sum(shares.values())
    if data.window:
        # What the provider counted beyond the entries: a prompt and tools that the agent sent and did not store.
        shares["not stored"] = max(data.size.tokens - whole, 0)
        shares["free"] = max(data.window - max(data.size.tokens, whole), 0)
        whole = max(data.window, whole)
    room = BAR_CELLS if screen.columns is None else max(min(screen.columns - 34, BAR_CELLS), 8)
    for name, tokens in shares.items():
        if tokens:
            cells = max(round(room * tokens / whole), 1)
            bar = screen.paint(screen.signs.bar * cells, *SHARE_STYLES[name])
            yield f"{name:<13} {tokens:>8,} {tokens / whole:>5.0%}  {bar}"
    if data.window:
        yield f"{'window':<13} {data.window:>8,}"


def tokens_of(message: JsonObject) -> int:
    """Return what a message takes in the window, estimated: nothing when no model gets it."""
    return estimate_tokens(message) if is_sent(message) else 0


def total_line(data: Contents) -> str:
    """Return the size of the context and how well it is known."""
    size = data.size
    sent = sum(is_sent(each.message) for each in data.context.messages)
    told = f"{count(sent, 'message')}, about {count(size.tokens, 'token')}"
    if size.usage_tokens:
        told += f" ({size.usage_tokens:,} measured by the provider, {size.trailing_tokens:,} estimated since)"
    elif size.tokens:
        told += " (all estimated)"
    if sent < len(data.context.messages):
        told += f"; {len(data.context.messages) - sent:,} not sent"
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
        "window": data.window,
        "shares": context_shares(context),
        "dearest": [{"entryId": entry_id, "tokens": tokens} for entry_id, tokens in dearest(context, DEAREST)],
        "omitted": list(data.omitted),
        "messages": [
            {
                "entryId": each.entry_id,
                "tokens": tokens_of(each.message),
                "sent": is_sent(each.message),
                "message": each.message,
            }
            for each in context.messages
        ],
    }
