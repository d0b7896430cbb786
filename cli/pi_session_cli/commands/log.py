"""`log`: read a session as a transcript."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import EntryNotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading
    from pi_sessions.stored import StoredEntry

# What --role takes, and the speakers of `render.words` it stands for.
ROLES = {
    "user": ("user",),
    "assistant": ("assistant",),
    "tool": ("tool", "shell"),
    "system": ("system",),
    "summary": ("compaction", "branch summary", "compactionSummary", "branchSummary"),
}

COMMAND = Command(
    name="log",
    group="inspect",
    help="Read the path to the leaf as a transcript",
    details=(
        "A tool call is one line, its result the one below; --full shows thinking, arguments and results in "
        "full. On a terminal that it does not fit, the transcript goes through a pager (PI_SESSION_PAGER, PAGER, else "
        "less; empty or cat for none)."
    ),
    examples=(
        "pi-session log --last 10",
        "pi-session log 7f3a --at checkpoint-1",
        "pi-session log --role user",
        "pi-session log --from @-1 --to @",
        "pi-session log --full",
    ),
    json="One object: session, before (entries of the path not given), entries (as Pi writes them), unfinishedRuns.",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("last", ("--last", "-n"), "Only the last N entries", "int", "N", least=1),
        Option("start", ("--from",), "Begin at this entry of the path", "text", "ENTRY"),
        Option("end", ("--to",), "End at this entry of the path", "text", "ENTRY"),
        Option("role", ("--role",), "Only what this one says", "choice", "ROLE", None, tuple(ROLES)),
        Option("at", ("--at",), f"End here instead, on any branch: {ENTRY_HELP}", "text", "ENTRY"),
        Option("full", ("--full",), "Show thinking and long outputs in full"),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    last: int | None,
    start: str | None,
    end: str | None,
    role: str | None,
    at: str | None,
    full: bool,
) -> Answer:
    """Read a path."""
    from pi_session_cli.render.log import Transcript, readable
    from pi_session_cli.render.words import speaker

    if at is not None and end is not None:
        raise UsageError("--at and --to both say where it ends", hint="--at chooses a branch, --to a place on the path")
    with ctx.read_store() as store:
        here, leaf = (ctx.session(store, session), None) if at is None else ctx.entry(store, at, session)
        path = store.path(here.id, here.leaf if at is None else leaf)
        labels = store.labels(here.id)
        cut_off = store.cut_off_runs(here.id)
        first, past = place_on(ctx, store, path, here.id, start, end)
    entries = path if ctx.as_json else readable(path)
    inside = {entry.id for entry in path[first:past]}
    before = [entry for entry in path[:first] if ctx.as_json or entry in entries]
    shown = [entry for entry in entries if entry.id in inside]
    if role is not None:
        shown = [entry for entry in shown if speaker(entry) in ROLES[role]]
    left_out = 0 if last is None else max(len(shown) - last, 0)
    said = () if shown else ("Nothing was said yet" if not path else "Nothing fits",)
    transcript = Transcript(here, tuple(shown[left_out:]), labels, len(before) + left_out, full)
    return Answer("log", transcript, said, paged=True, cut_off=cut_off)


def place_on(
    ctx: Invocation, store: Reading, path: Sequence[StoredEntry], session_id: str, start: str | None, end: str | None
) -> tuple[int, int]:
    """Return where the part of a path begins and the place after its end.

    Raises:
        EntryNotFoundError: an entry is not on the path.
        UsageError: the end lies before the beginning.
    """
    places = {entry.id: place for place, entry in enumerate(path)}

    def place_of(reference: str) -> int:
        _, entry_id = ctx.entry(store, reference, session_id)
        if entry_id is None or entry_id not in places:
            raise EntryNotFoundError(f"{reference} is not on the path to the leaf", hint="name its branch: --at BRANCH")
        return places[entry_id]

    first = 0 if start is None else place_of(start)
    last = len(path) - 1 if end is None else place_of(end)
    if last < first and path:
        raise UsageError(f"{end} comes before {start}", hint="exchange --from and --to")
    return first, last + 1
