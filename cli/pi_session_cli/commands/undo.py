"""`undo`: take back what was done to a session."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import NothingToUndoError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import UndoResult

COMMAND = Command(
    name="undo",
    group="branch",
    help="Take back the latest operation",
    details=(
        "Only the pointers and facts that the operation changed are set back; no entry is ever lost. What was appended "
        "since is kept on a branch of its own, which is named. Undo is an operation, too: redo takes it back."
    ),
    examples=("pi-session undo", "pi-session undo --steps 3", "pi-session undo --op 3"),
    json="One object: sessionId, leaf, undone (operations with op, command, summary), ops, keptBranches, skipped.",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("op", ("--op",), "Take back this operation instead (see ops)", "int", "ID", least=1),
        Option("steps", ("--steps",), "Take back this many, one after the other", "int", "N", 1, least=1),
    ),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, op: int | None, steps: int) -> Answer:
    """Undo."""
    return take_back(ctx, session, op, steps, "undo")


def take_back(ctx: Invocation, session: str | None, op: int | None, steps: int, word: str) -> Answer:
    """Undo or redo a number of steps, or one operation by its number."""
    if op is not None and steps != 1:
        raise UsageError("Give either --op or --steps", hint=f"pi-session {word} --help")
    results: list[UndoResult] = []
    with ctx.move_store() as store:
        sid = ctx.session(store, session, removed=True).id if op is None else store.operation(op).session_id
        act = store.undo if word == "undo" else store.redo
        said: list[str] = []
        for _ in range(steps):
            try:
                results.append(act(sid, op=op))
            except NothingToUndoError:
                if not results:
                    raise
                said.append(f"Nothing more to {word}")
                break
    shown = told(results, word, named=session is not None)
    return Answer("done", shown, (*said, *notes(results)), after(results, session, word))


def told(results: list[UndoResult], word: str, *, named: bool) -> Done:
    """Return what was taken back or restored.

    Args:
        named: Whether the session was named, so that it need not be told.
    """
    from pi_session_cli.render.safe import one_line
    from pi_session_cli.render.wire import kept_json, operation_json

    last = results[-1].session
    lines = []
    for result in results:
        operation = result.undone
        lines.append(
            f"Undid operation {operation.id} ({operation.command}) which did: {operation.summary}"
            if word == "undo"
            else f"Redid what operation {operation.undoes} did (operation {operation.id} had undone it)"
        )
    place = f"{last.branch} ends at {last.leaf or 'its start, before the first entry'}"
    where = "" if named else f"In the session {last.id}{f' ({one_line(last.name)})' if last.name else ''}, "
    lines.append(f"The session {last.id} is removed" if last.deleted else where + place)
    json = {
        "sessionId": last.id,
        "branch": last.branch,
        "leaf": last.leaf,
        "undone": [operation_json(result.undone) for result in results],
        "ops": [result.op for result in results],
        "keptBranches": [kept_json(kept) for result in results for kept in result.kept],
        "skipped": [each for result in results for each in result.skipped],
    }
    return Done(json, tuple(lines))


def notes(results: list[UndoResult]) -> list[str]:
    """Return what a person should know: branches kept, facts left alone, files not touched."""
    said = [
        f"Kept {kept.entries} later {'entry' if kept.entries == 1 else 'entries'} on the branch {kept.name}"
        for result in results
        for kept in result.kept
    ]
    if any(result.closed for result in results):
        said.append("The run was cut off: each of its calls got its one result before it was taken back")
    said += [each[:1].upper() + each[1:] for result in results for each in result.skipped]
    if any(result.undone.command in ("run", "resume") for result in results):
        said.append("Files that the run changed are not restored")
    return said


def after(results: list[UndoResult], session: str | None, word: str) -> tuple[str, ...]:
    """Return what to type next."""
    last = results[-1].session
    back = "redo" if word == "undo" else "undo"
    if last.deleted:
        return (
            f"pi-session {back} --op {results[-1].undone.id if word == 'undo' else results[-1].op}",
            "pi-session ls",
        )
    again = argument(last, session)
    return (f"pi-session tree{again}", f"pi-session {back}{again}")
