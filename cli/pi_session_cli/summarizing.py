"""What the commands that make summaries share: their options, and a runner with a model, a script or neither."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import Option
from pi_sessions.errors import CannotError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeVar

    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import Moved, RunnerSettings
    from pi_loop.types import Model, StreamFn
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.model_access import ModelAccess
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

    T = TypeVar("T")

FOCUS = Option("focus", ("--focus",), "What the summary should pay attention to", "text", "TEXT")
OFFLINE = Option("offline", ("--offline",), "Take the summary from the messages' own words; needs no model and no key")
MODEL = Option("model", ("--model",), "Model for the summary instead of the session's", "text", "MODEL")
SCRIPT = Option("script", ("--script",), "Let a script (JSON) answer instead of a model", "text", "FILE")
SUMMARY_OPTIONS = (FOCUS, OFFLINE, MODEL, SCRIPT)


def check_options(
    *,
    offline: bool,
    model: str | None,
    script: str | None,
    command: str,
    focus: str | None = None,
    summarize: bool = True,
) -> None:
    """Raise UsageError unless at most one of the three ways to a summary was chosen, and only for one that is asked."""
    if not summarize and (offline or model or script or focus):
        raise UsageError(
            "--focus, --offline, --model and --script are for --summarize", hint=f"pi-session {command} --help"
        )
    if sum((offline, model is not None, script is not None)) > 1:
        raise UsageError("Give only one of --offline, --model and --script", hint=f"pi-session {command} --help")


def run_with_model(
    ctx: Invocation,
    store: SessionStore,
    here: Session,
    work: Callable[[SessionRunner], Coroutine[Any, Any, T]],
    *,
    offline: bool,
    model: str | None,
    script: str | None,
) -> T:
    """Let a runner of a session do a piece of work, and return its answer.

    Args:
        offline: The work needs no model.
        model: What `--model` says; the session's model by default.
        script: What `--script` says.

    Raises:
        CannotError: there is no usable model.
    """
    import anyio

    from pi_loop.runner import SessionRunner

    stream_fn, asked = opened(ctx, here, offline=offline, model=model, script=script)

    async def run() -> T:
        return await work(
            SessionRunner(
                store, here.id, stream_fn=stream_fn, model=asked, settings=runner_settings(ctx), clock=ctx.clock
            )
        )

    return anyio.run(run)


def moved_with_summary(here: Session, moved: Moved, again: str) -> Answer:
    """Tell of a move of the leaf that wrote a summary, or had nothing to sum up."""
    json = {
        "sessionId": here.id,
        "branch": moved.branch,
        "oldLeaf": moved.old_leaf,
        "newLeaf": moved.new_leaf,
        "op": moved.op,
        "summaryId": moved.entry_id,
        "editorText": moved.text,
    }
    said = (
        f"{moved.branch} now ends at {moved.new_leaf or 'its start, before the first entry'}",
        f"What was left behind is summed up in {moved.entry_id}"
        if moved.entry_id
        else "Nothing was left behind that could be summed up",
    )
    return Answer("done", Done(json, (), moved.text), said, (f"pi-session tree{again}", f"pi-session undo{again}"))


def runner_settings(ctx: Invocation) -> RunnerSettings:
    """Return the person's budgets for compaction, branch summaries and retries."""
    from pi_loop.runner_types import RunnerSettings

    return RunnerSettings(given={name: ctx.settings.table(name) for name in ("compaction", "branchSummary", "retry")})


def opened(
    ctx: Invocation, here: Session, *, offline: bool, model: str | None, script: str | None
) -> tuple[StreamFn, Model]:
    """Return a stream function and the model it is asked for.

    Raises:
        CannotError: no model is named, it is not known, or it cannot be asked now.
    """
    from pi_loop.providers.scripted import ScriptedModel
    from pi_loop.types import UNKNOWN_MODEL
    from pi_session_cli.model_access import SCRIPTED, ModelAccess, script_stream

    if offline:
        return ScriptedModel([]), UNKNOWN_MODEL
    if script is not None:
        return script_stream(script, ctx.place), SCRIPTED
    access = ModelAccess(ctx)
    asked = named_model(access, here, model, str(ctx.settings.get("model").value or ""))
    access.check(asked)
    return access.stream(), asked


def named_model(access: ModelAccess, here: Session, model: str | None, default: str | None = None) -> Model:
    """Return the model a person means, else the session's, else the settings'.

    Raises:
        CannotError: neither is known.
    """
    wanted = model or here.model or default
    if wanted is None:
        raise CannotError(
            "The session has not used a model yet", hint="name one with --model, or make the summary with --offline"
        )
    return access.find(wanted)
