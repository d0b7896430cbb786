"""`switch`: make another branch the current one."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_session_cli.summarizing import SUMMARY_OPTIONS, check_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="switch",
    group="branch",
    help="Make another branch the current one",
    details="The session's leaf becomes that branch's leaf; the branch you leave keeps its own.",
    examples=(
        "pi-session switch attempt-1",
        "pi-session switch main -s 7f3a",
        "pi-session switch main --summarize --offline",
    ),
    json="One object: sessionId, branch, oldLeaf, newLeaf, op, timestamp; with --summarize also summaryId.",
    arguments=(Argument("branch", "BRANCH", "Name of the branch"),),
    options=(
        SESSION_OPTION,
        Option("summarize", ("--summarize",), "Write a summary of the branch that is left at the new place"),
        *SUMMARY_OPTIONS,
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    branch: str,
    *,
    session: str | None,
    summarize: bool,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Switch."""
    from pi_session_cli.render.wire import iso

    check_options(offline=offline, model=model, script=script, focus=focus, command="switch", summarize=summarize)
    if summarize:
        return switch_with_summary(ctx, branch, session, focus, offline, model, script)
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        move = store.switch(here.id, branch)
    told = {
        "sessionId": here.id,
        "branch": move.branch,
        "oldLeaf": move.old_leaf,
        "newLeaf": move.new_leaf,
        "op": move.op,
        "timestamp": iso(move.time_ms),
    }
    line = f"On {branch}, which ends at {move.new_leaf or 'its start, before the first entry'}"
    again = argument(here, session)
    return Answer("done", Done(told, (line,)), (), (f"pi-session log{again} --last 5", f"pi-session undo{again}"))


def switch_with_summary(
    ctx: Invocation,
    branch: str,
    session: str | None,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Switch and write a summary of the branch that is left, both or neither."""
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import Moved
    from pi_session_cli.summarizing import moved_with_summary, run_with_model

    with ctx.change_store() as store:
        here = ctx.session(store, session)

        async def work(runner: SessionRunner) -> Moved:
            return await runner.switch(branch, summarize=True, focus=focus, offline=offline)

        moved = run_with_model(ctx, store, here, work, offline=offline, model=model, script=script)
    return moved_with_summary(here, moved, argument(here, session))
