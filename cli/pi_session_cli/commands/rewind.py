"""`rewind`: move the leaf to another entry of the same session."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_session_cli.summarizing import SUMMARY_OPTIONS, check_options
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="rewind",
    group="branch",
    help="Move the leaf to another entry",
    details=(
        "Nothing is deleted: the entries you leave stay in the tree. On a user message the leaf goes above it and its "
        "text is printed, to be changed and said again; --exact stays on it. --summarize writes down, where the leaf "
        "goes, what came of the entries you leave."
    ),
    examples=(
        "pi-session rewind @-2",
        "pi-session rewind checkpoint-1",
        "pi-session rewind --start",
        "pi-session rewind @-1 --summarize --offline",
    ),
    json="One object: sessionId, branch, oldLeaf, newLeaf, op, timestamp, editorText; with --summarize also summaryId.",
    arguments=(Argument("target", "ENTRY", ENTRY_HELP, required=False),),
    options=(
        SESSION_OPTION,
        Option("exact", ("--exact",), "Stay on the entry even if it is a user message"),
        Option("start", ("--start",), "Go before the first entry"),
        Option("summarize", ("--summarize",), "Write a summary of what is left behind at the new place"),
        *SUMMARY_OPTIONS,
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    target: str | None,
    *,
    session: str | None,
    exact: bool,
    start: bool,
    summarize: bool,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Move the leaf."""
    from pi_session_cli.render.wire import iso
    from pi_sessions.navigate import plan_rewind

    if (target is None) != start:
        raise UsageError("Give either ENTRY or --start", hint="pi-session tree shows the entries")
    check_options(offline=offline, model=model, script=script, focus=focus, command="rewind", summarize=summarize)
    if summarize:
        return rewind_with_summary(ctx, target, session, exact, focus, offline, model, script)
    with ctx.move_store() as store:
        if target is None:
            here, chosen = ctx.session(store, session), None
        else:
            here, chosen = ctx.entry(store, target, session)
        entry = store.entry(here.id, chosen) if chosen is not None else None
        # Pi's tree does nothing when the leaf itself is chosen; who types it wants to say that message anew.
        plan = plan_rewind(entry, exact=exact, start=entry is None)
        move = store.rewind(here.id, plan.leaf) if plan.leaf != here.leaf else None
    if move is None:
        told = {"sessionId": here.id, "branch": here.branch, "oldLeaf": here.leaf, "newLeaf": here.leaf, "op": None}
        said = (f"The leaf is there already: {here.leaf or 'before the first entry'}",)
        return Answer(
            "done", Done({**told, "timestamp": None, "editorText": plan.editor_text}, (), plan.editor_text), said
        )
    return Answer(
        "done",
        Done(
            {
                "sessionId": here.id,
                "branch": move.branch,
                "oldLeaf": move.old_leaf,
                "newLeaf": move.new_leaf,
                "op": move.op,
                "timestamp": iso(move.time_ms),
                "editorText": plan.editor_text,
            },
            (),
            plan.editor_text,
        ),
        (
            f"{move.branch} now ends at {move.new_leaf or 'its start, before the first entry'}",
            f"It ended at {move.old_leaf or 'its start'} (still in the tree)",
        ),
        (f"pi-session tree{argument(here, session)}", f"pi-session undo{argument(here, session)}"),
    )


def rewind_with_summary(
    ctx: Invocation,
    target: str | None,
    session: str | None,
    exact: bool,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Move the leaf and write a summary of what is left behind there, both or neither."""
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import Moved
    from pi_session_cli.summarizing import moved_with_summary, run_with_model

    with ctx.change_store() as store:
        here, chosen = (ctx.session(store, session), None) if target is None else ctx.entry(store, target, session)

        async def work(runner: SessionRunner) -> Moved:
            return await runner.rewind(chosen, exact=exact, summarize=True, focus=focus, offline=offline)

        moved = run_with_model(ctx, store, here, work, offline=offline, model=model, script=script)
    return moved_with_summary(here, moved, argument(here, session))
