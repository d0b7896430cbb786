"""`merge`: bring what came of another branch onto this one."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_session_cli.render.screen import count
from pi_session_cli.summarizing import SUMMARY_OPTIONS, check_options
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="merge",
    group="branch",
    help="Bring another branch's outcome onto this one",
    details=(
        "One entry is added that names its origin: a summary of what is new on the other branch, or the messages "
        "that --pick names, word for word. A second merge begins where the first one ended."
    ),
    examples=("pi-session merge attempt-1 --offline", "pi-session merge attempt-1 --pick a1b2,c3d4"),
    json="One object: sessionId, branch, from, entryId, oldLeaf, newLeaf, op.",
    arguments=(Argument("branch", "BRANCH", "Branch whose outcome is brought here"),),
    options=(
        SESSION_OPTION,
        Option("pick", ("--pick",), "Entries to bring over word for word, separated by commas", "text", "ENTRY,..."),
        *SUMMARY_OPTIONS,
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    branch: str,
    *,
    session: str | None,
    pick: str | None,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Merge."""
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import Moved
    from pi_session_cli.commands.compact import entry_id
    from pi_session_cli.summarizing import run_with_model

    check_options(offline=offline, model=model, script=script, command="merge")
    if pick is not None and (offline or model or script or focus):
        raise UsageError("--pick brings messages over as they are: no summary is made", hint="leave out the rest")
    words = [word.strip() for word in (pick or "").split(",") if word.strip()]
    if pick is not None and not words:
        raise UsageError(
            "--pick names no entry", hint="pi-session merge BRANCH --pick a1b2,c3d4; without it, a summary"
        )
    with ctx.change_store() as store:
        here = ctx.session(store, session)
        picked = tuple(entry_id(ctx, store, here, word) for word in words)

        async def work(runner: SessionRunner) -> Moved:
            return await runner.merge(branch, focus=focus, offline=offline, picked=picked)

        done = run_with_model(ctx, store, here, work, offline=offline or bool(picked), model=model, script=script)
    json = {
        "sessionId": here.id,
        "branch": done.branch,
        "from": branch,
        "entryId": done.entry_id,
        "oldLeaf": done.old_leaf,
        "newLeaf": done.new_leaf,
        "op": done.op,
    }
    what = count(len(picked), "message") if picked else "A summary"
    line = f"{what} of {branch} {'stand' if len(picked) > 1 else 'stands'} in {done.entry_id} on {done.branch}"
    again = argument(here, session)
    return Answer("done", Done(json, (line,)), (), (f"pi-session show {done.entry_id}", f"pi-session undo{again}"))
