"""`fork`: a new session from a path of this one."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import InvalidForkTargetError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pi_session_cli.invocation import Invocation
    from pi_sessions.cut_off import UnfinishedRun
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

NEARBY = 5
NOT_IN_FORK = (
    "What the run that was cut off had accepted and finished is not in this fork; to have it, continue or close the "
    "run first and fork then"
)

COMMAND = Command(
    name="fork",
    group="branch",
    help="Start a new session from a path of this one",
    details=(
        "Nothing is copied: both sessions share the entries. Without --at or --before the fork ends at the leaf. "
        "It becomes the current session of this directory, and its id is printed; with --before the text of the user "
        "message follows, to be said anew. Removing the origin does not harm the fork."
    ),
    examples=("pi-session fork", "pi-session fork 7f3a --at @-2", "pi-session fork --before 5c0d9e12"),
    json=(
        "One object: the new session (id, name, leaf, origin, originEntry, ...), editorText, and unfinishedRuns of the "
        "origin."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("at", ("--at",), f"Last entry of the fork: {ENTRY_HELP}", "text", "ENTRY"),
        Option("before", ("--before",), "End before this user message and give its text back", "text", "ENTRY"),
        Option("all_branches", ("--all-branches",), "Take the whole tree, every branch and label"),
        Option("name", ("--name",), "Name of the fork (default: the origin's)", "text", "NAME"),
        Option("cwd", ("--cwd",), "Directory of the fork (default: the origin's)", "text", "DIR"),
        Option("id", ("--id",), "Id to use instead of a new one", "text", "ID"),
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    at: str | None,
    before: str | None,
    all_branches: bool,
    name: str | None,
    cwd: str | None,
    id: str | None,
) -> Answer:
    """Fork, and make the fork current here."""
    from pi_session_cli.render.wire import session_json

    if at is not None and before is not None:
        raise UsageError("Give either --at or --before", hint="--at keeps the entry, --before ends above it")
    with ctx.move_store() as store:
        text = None
        if at is not None:
            here, leaf = ctx.entry(store, at, session)
        elif before is not None:
            here, leaf, text = above(ctx, store, before, session)
        else:
            here = ctx.session(store, session)
            leaf = here.leaf
        cut_off = store.cut_off_runs(here.id)
        ends = {branch.leaf for branch in store.branches(here.id)} if all_branches and cut_off else {leaf}
        fork = store.fork(here.id, at=leaf, all_branches=all_branches, id=id, cwd=cwd, name=name, place=ctx.place)
    place = f"at {fork.leaf}" if fork.leaf else "before the first entry"
    said = [f"Forked {here.id} {place} (nothing was copied)", "The fork is the current session here"]
    said += not_in_fork(cut_off, ends)
    return Answer(
        "done",
        Done(session_json(fork) | {"editorText": text}, (fork.id,), text),
        tuple(said),
        ("pi-session tree", "pi-session undo  (takes the fork back)"),
        cut_off=cut_off,
    )


def not_in_fork(cut_off: Iterable[UnfinishedRun], ends: Container[str | None]) -> tuple[str, ...]:
    """Return the sentence about what a fork does not have, where a path of it ends in a run that was cut off.

    Args:
        cut_off: Runs of the origin.
        ends: Last entries of the fork's paths.
    """
    lacking = any(run.leaf in ends and (run.calls or run.accepted) for run in cut_off)
    return (NOT_IN_FORK,) if lacking else ()


def above(ctx: Invocation, store: Reading, reference: str, session: str | None) -> tuple[Session, str | None, str]:
    """Return the session, the entry above a user message, and the message's text.

    Raises:
        InvalidForkTargetError: the entry is no user message; the hint names some that are.
    """
    from pi_sessions.navigate import entry_text, gives_text_back

    here, target = ctx.entry(store, reference, session)
    entry = store.entry(here.id, target) if target is not None else None
    if entry is None or not gives_text_back(entry):
        what = f"it is a {entry.role or entry.type} entry" if entry else "there is no entry there"
        users = [each.id for each in store.path(here.id) if each.role == "user"][-NEARBY:]
        raise InvalidForkTargetError(
            f"Cannot fork before {target or reference} because {what}",
            hint=f"pass --at to keep it, or fork before a user message: {' '.join(users)}",
        )
    return here, entry.parent_id, entry_text(entry)
