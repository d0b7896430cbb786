"""`stats`: tokens and cost."""

from __future__ import annotations

import time

from pi_session_cli.answers import Answer
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading
    from pi_sessions.statistics import StatRow

GROUPS = ("session", "branch", "model", "tool", "day", "directory")

COMMAND = Command(
    name="stats",
    group="inspect",
    help="Show what conversations used: tokens and cost",
    details=(
        "Over the whole store, or of one session. Every entry counts once, for the session that wrote it, however many "
        "forks and branches share it, so a fork or branch is charged with what it cost beyond its fork point. Costs "
        "are those recorded with the answers; where none was recorded, that is said. What the cache saved is worked "
        "out from the recorded prices. A tool's row shares out the answers that called it."
    ),
    examples=(
        "pi-session stats",
        "pi-session stats --by day --since 30d",
        "pi-session stats 7f3a --by branch",
        "pi-session stats --by model --csv",
    ),
    json=(
        "One object: by, sessionId, rows (key, name, answers, input, output, cacheRead, cacheWrite, tokens, cost, "
        "unpriced, saved, savingUnknown, ...), total, unpricedModels."
    ),
    arguments=(SESSION_ARGUMENT.replace(help="Only this session (id, name or beginning of an id)"),),
    options=(
        Option(
            "by", ("--by",), "What the rows are (default: model; branch with a session)", "choice", "WHAT", None, GROUPS
        ),
        Option("here", ("--here",), "Only sessions of this directory"),
        Option("since", ("--since",), "Only entries since then: 30m, 12h, 7d, 2w, or a date", "text", "WHEN"),
        Option("limit", ("--limit", "-n"), "Rows shown (default: the setting)", "int", "N", least=1),
        Option("csv", ("--csv",), "Write the rows as CSV"),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    by: str | None,
    here: bool,
    since: str | None,
    limit: int | None,
    csv: bool,
) -> Answer:
    """Sum up and show."""
    from pi_session_cli.commands.ls import parse_since
    from pi_session_cli.render.stats import Table, csv_lines
    from pi_sessions.statistics import statistics

    if csv and ctx.as_json:
        raise UsageError("--csv and --json exclude each other", hint="leave out one of the two")
    since_ms = None if since is None else parse_since(since, ctx.clock())
    with ctx.read_store() as store:
        within = None
        if session is not None or by == "branch":
            within = ctx.session(store, session)
        chosen = by or ("branch" if session is not None else "model")
        found = statistics(
            store,
            chosen,
            session_id=within.id if within is not None else None,
            cwd=ctx.place if here else None,
            since_ms=since_ms,
            day=local_day,
        )
        names = {row.key: name_of(store, row) for row in found.rows} if chosen == "session" else {}
    if csv:
        return Answer("raw", csv_lines(found, names))
    size = limit or (len(found.rows) if ctx.as_json else int(ctx.settings.get("limit").value or 1))
    said = () if found.rows else ("Nothing was used",)
    return Answer("stats", Table(found, within, names, size), said)


def local_day(time_ms: int) -> str:
    """Return the day of a time in this time zone; of a time no calendar has, nothing."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(time_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return ""


def name_of(store: Reading, row: StatRow) -> str:
    """Return a session's name, or its first message."""
    session = store.session(row.key)
    return session.name or session.first_message or ""
