"""`diff`: two branches, sessions or entries beside each other."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_OPTION, Argument, Command, Option
from pi_sessions.errors import CannotError, SessionNotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render.diff import End
    from pi_sessions.reading import Reading

COMMAND = Command(
    name="diff",
    group="inspect",
    help="Compare two branches, sessions or entries",
    details=(
        "Finds the last entry both paths share and shows what each did from there: turns, tool calls, files, models, "
        "tokens and cost, then the entries one below the other (- only left, + only right), or side by side. A branch "
        "of the current session is meant first, then a session, then an entry. Without the second one the current "
        "leaf is compared."
    ),
    examples=(
        "pi-session diff attempt-1",
        "pi-session diff attempt-1 main --stat",
        "pi-session diff 7f3a:5c0d9e12 7f3a:@ --side-by-side",
    ),
    json=(
        "One object: ancestor, shared, left and right (sessionId, branch, leaf, entries, turns, messages, toolCalls, "
        "tools, files, models, tokens, cost, unpriced), pairs (left, right, same)."
    ),
    arguments=(
        Argument("left", "A", f"Branch, SESSION, or ENTRY: {ENTRY_HELP}"),
        Argument("right", "B", "The other one; the current leaf when left out", required=False),
    ),
    options=(
        SESSION_OPTION,
        Option("stat", ("--stat",), "Only the figures"),
        Option("side_by_side", ("--side-by-side", "-y"), "Left and right beside each other"),
        Option("full", ("--full",), "Show every line of every entry"),
    ),
)


def run(
    ctx: Invocation, left: str, right: str | None, *, session: str | None, stat: bool, side_by_side: bool, full: bool
) -> Answer:
    """Compare two paths."""
    from pi_session_cli.render.diff import Difference
    from pi_sessions.diffing import compare_paths

    if stat and side_by_side:
        raise UsageError("--stat and --side-by-side exclude each other", hint="leave out one of the two")
    with ctx.read_store() as store:
        ends = [end_of(ctx, store, reference, session) for reference in (left, "@" if right is None else right)]
        paths = [store.path(end.session.id, end.leaf) for end in ends]
    compared = compare_paths(*paths)
    said = []
    if not compared.left.entries and not compared.right.entries:
        said.append("Both are the same path")
    elif not compared.shared:
        said.append("They share no entry")
    return Answer("diff", Difference(ends[0], ends[1], compared, stat, side_by_side, full), tuple(said))


def end_of(ctx: Invocation, store: Reading, reference: str, session: str | None) -> End:
    """Return the path a person means: a branch here, a session, or an entry.

    Raises:
        CannotError: it is none of these.
    """
    from pi_session_cli.render.diff import End
    from pi_sessions.errors import InvalidReferenceError

    if not reference.startswith("@") and ":" not in reference:
        try:
            here = ctx.session(store, session)
        except SessionNotFoundError:
            if session is not None:
                raise
        else:
            for branch in store.branches(here.id):
                if branch.name == reference:
                    return End(here, branch.leaf, branch.name, reference)
        if session is None:
            try:
                named = ctx.session(store, reference)
            except (SessionNotFoundError, InvalidReferenceError):
                pass
            else:
                return End(named, named.leaf, named.branch, reference)
    try:
        here, entry_id = ctx.entry(store, reference, session)
    except SessionNotFoundError as error:
        raise CannotError(
            f"{reference} is no session, and there is none here to look for a branch or an entry in",
            hint="say which session: SESSION:ENTRY, or -s SESSION",
        ) from error
    branch_name = next((branch.name for branch in store.branches(here.id) if branch.leaf == entry_id), None)
    return End(here, entry_id, branch_name, reference)
