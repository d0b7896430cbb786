"""`summarize`: print a summary of a stretch of a session; nothing is changed."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command
from pi_session_cli.summarizing import SUMMARY_OPTIONS, check_options
from pi_sessions.errors import CannotError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="summarize",
    group="run",
    help="Print a summary of a stretch of a session",
    details="ENTRY..ENTRY names the first and the last entry, ENTRY everything up to it. Nothing is changed.",
    examples=("pi-session summarize @-3..@ --offline", "pi-session summarize checkpoint-1 --offline"),
    json="One object: sessionId, from, to, summary, readFiles, modifiedFiles, usage.",
    arguments=(Argument("stretch", "ENTRY..ENTRY", "First and last entry; only the last one for all before it"),),
    options=(SESSION_OPTION, *SUMMARY_OPTIONS),
)


def run(
    ctx: Invocation,
    stretch: str,
    *,
    session: str | None,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Sum up."""
    from pi_loop.runner import SessionRunner
    from pi_session_cli.summarizing import run_with_model
    from pi_sessions.branch_summary import BranchSummary
    from pi_sessions.store import SessionStore

    check_options(offline=offline, model=model, script=script, command="summarize")
    begin, dots, end = stretch.rpartition("..")
    if dots and not begin:
        raise UsageError("An entry is missing before ..", hint="pi-session summarize ENTRY..ENTRY")
    with ctx.read_part(SessionStore) as store:
        here, last = ctx.entry(store, end, session)
        if last is None:
            raise CannotError("There is nothing to sum up before the first entry", hint="pi-session tree")
        first = ctx.entry(store, begin, here.id)[1] if begin else None

        async def work(runner: SessionRunner) -> BranchSummary | None:
            return await runner.summarize(first, last, focus=focus, offline=offline)

        made = run_with_model(ctx, store, here, work, offline=offline, model=model, script=script)
    if made is None:
        raise CannotError("There is no message to sum up there", hint="pi-session tree shows the entries")
    json = {
        "sessionId": here.id,
        "from": first,
        "to": last,
        "summary": made.summary,
        **made.details,
        "usage": made.usage,
    }
    return Answer("done", Done(json, (), made.summary))
