"""`ls`: list sessions."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import Command, Option
from pi_sessions.errors import StoreNotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

PREFIX_LENGTHS = (8, 13, 18, 23, 28, 32)
AGES = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
CLOCK_SLACK_MS = 60_000

COMMAND = Command(
    name="ls",
    group="inspect",
    help="List sessions",
    details=(
        "Newest message first, whatever the file times. The beginning of the id that is shown names the session. "
        "A session written with a clock that was ahead is marked and takes its place by when it was stored. "
        "A session with a run that was cut off is marked: show says which and what to do."
    ),
    examples=("pi-session ls", "pi-session ls --here --since 7d", "pi-session ls --named --page 2"),
    json=(
        "One object: sessions (id, name, cwd, created, updated, messageCount, firstMessage, branch, leaf, model, "
        "current, cutOff, ...), page, limit, more."
    ),
    options=(
        Option("here", ("--here",), "Only sessions of this directory"),
        Option("all", ("--all", "-a"), "Archived ones, too"),
        Option("named", ("--named",), "Only sessions with a name"),
        Option("archived", ("--archived",), "Only archived sessions"),
        Option("subagents", ("--subagents",), "Conversations of subagents, too"),
        Option("removed", ("--removed",), "Only removed sessions"),
        Option("since", ("--since",), "Only with a message since then: 30m, 12h, 7d, 2w, or a date", "text", "WHEN"),
        Option("model", ("--model",), "Only with a model whose name contains this", "text", "TEXT"),
        Option("limit", ("--limit", "-n"), "Sessions on a page (default: the setting)", "int", "N", least=1),
        Option("page", ("--page",), "Which page", "int", "N", 1, least=1),
    ),
)


def run(
    ctx: Invocation,
    *,
    here: bool,
    all: bool,
    named: bool,
    archived: bool,
    subagents: bool,
    removed: bool,
    since: str | None,
    model: str | None,
    limit: int | None,
    page: int,
) -> Answer:
    """List a page of sessions."""
    from pi_session_cli.render.ls import Listing

    size = limit or int(ctx.settings.get("limit").value or 1)
    since_ms = None if since is None else parse_since(since, ctx.clock())
    try:
        store = ctx.read_store()
    except StoreNotFoundError:
        if ctx.settings.get("db").source != "default":
            raise
        empty = Listing((), {}, None, {}, page, size, False, True)
        return Answer("ls", empty, ("No sessions yet",), ("pi-session import ~/.pi", "pi-session new"))
    with store:
        first = (page - 1) * size
        found = store.sessions(
            cwd=ctx.place if here else None,
            archived=all or archived,
            named=named,
            since_ms=since_ms,
            model=model,
            deleted=removed,
            children=subagents,
            limit=None if archived else size + 1,
            offset=0 if archived else first,
        )
        if archived:
            found = [session for session in found if session.archived][first : first + size + 1]
        shown = tuple(found[:size])
        current = store.current_session(ctx.place)
        cut_off = store.sessions_cut_off()
        listing = Listing(
            shown,
            {session.id: short_id(store, session.id) if ctx.screen.columns else session.id for session in shown},
            current.id if current is not None and not current.deleted else None,
            clocks_ahead(store, shown),
            page,
            size,
            len(found) > size,
            not here,
            cut_off,
        )
    said = () if shown else ("No such sessions" if page == 1 else "No more sessions",)
    after = (f"pi-session ls{' --here' if here else ''} --page {page + 1}",) if listing.more else ()
    return Answer("ls", listing, said, after)


def short_id(store: Reading, session_id: str) -> str:
    """Return the beginning of an id that no other session shares."""
    for length in PREFIX_LENGTHS:
        if length >= len(session_id):
            break
        if len(store.find_sessions(session_id[:length], limit=2)) < 2:
            return session_id[:length].rstrip("-")
    return session_id


def clocks_ahead(store: Reading, sessions: tuple[Session, ...]) -> dict[str, int]:
    """Return the times that sessions' last messages claim, where they are later than when they were stored."""
    ahead: dict[str, int] = {}
    for session in sessions:
        if session.leaf is None or not session.message_count:
            continue
        entry = store.entry(session.id, session.leaf)
        if (
            entry.type == "message"
            and entry.time_ms is not None
            and entry.time_ms > session.updated_ms + CLOCK_SLACK_MS
        ):
            ahead[session.id] = entry.time_ms
    return ahead


def parse_since(text: str, now_ms: int) -> int:
    """Return the Unix milliseconds an age (`7d`) or a date stands for.

    Raises:
        UsageError: it is neither.
    """
    from pi_sessions.times import parse_time

    number, unit = text[:-1], text[-1:]
    if unit in AGES and number.isascii() and number.isdigit() and len(number) < 7:
        return now_ms - int(number) * AGES[unit]
    moment = parse_time(text) if "-" in text else None
    if moment is None:
        raise UsageError(
            f"--since does not understand {text!r}", hint="an age such as 12h or 7d, or a date such as 2026-03-01"
        )
    return moment
