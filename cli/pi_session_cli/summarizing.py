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
    from pi_loop.runner_types import Moved
    from pi_loop.types import Model, StreamFn
    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

    T = TypeVar("T")

FOCUS = Option("focus", ("--focus",), "What the summary should pay attention to", "text", "TEXT")
OFFLINE = Option("offline", ("--offline",), "Take the summary from the messages' own words; needs no model and no key")
MODEL = Option("model", ("--model",), "Model for the summary instead of the session's", "text", "MODEL")
SCRIPT = Option("script", ("--script",), "Let a script (JSON) answer instead of a model", "text", "FILE")
SUMMARY_OPTIONS = (FOCUS, OFFLINE, MODEL, SCRIPT)
SCRIPT_WINDOW = 200_000


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

    stream_fn, asked, key, headers = opened(ctx, here, offline=offline, model=model, script=script)

    async def run() -> T:
        from pi_loop.types import StreamOptions

        options = StreamOptions(api_key=key, headers=headers)
        runner = SessionRunner(
            store, here.id, stream_fn=stream_fn, model=asked, stream_options=options, clock=ctx.clock
        )
        return await work(runner)

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


def opened(
    ctx: Invocation, here: Session, *, offline: bool, model: str | None, script: str | None
) -> tuple[StreamFn, Model, str | None, dict[str, str | None]]:
    """Return a stream function, the model it is asked for, its key and its headers."""
    from pi_loop.providers.scripted import ScriptedModel
    from pi_loop.types import UNKNOWN_MODEL, Model

    if offline:
        return ScriptedModel([]), UNKNOWN_MODEL, None, {}
    if script is not None:
        return (
            read_script(script),
            Model(id="script", api="scripted", provider="scripted", context_window=SCRIPT_WINDOW),
            None,
            {},
        )
    return client_for(ctx, named_model(ctx, here, model))


def read_script(path: str) -> StreamFn:
    """Return the model that a script stands for.

    Raises:
        CannotError: it cannot be read, or is no script.
    """
    from pathlib import Path

    from pi_loop.providers.scripted import ScriptedModel

    try:
        return ScriptedModel.from_file(Path(path))
    except OSError as error:
        raise CannotError(f"Cannot read the script {path}: {error.strerror}", hint="name a JSON file") from error
    except ValueError as error:
        raise CannotError(f"{path} is no script: {error}", hint="a script is a JSON list of answers") from error


def named_model(ctx: Invocation, here: Session, model: str | None) -> Model:
    """Return the model a person means, or the session's.

    Raises:
        CannotError: neither is known.
    """
    from pi_loop.models.registry import find_model

    wanted = model or here.model
    if wanted is None:
        raise CannotError(
            "The session has not used a model yet", hint="name one with --model, or make the summary with --offline"
        )
    return find_model(wanted, models_config(ctx), environ=ctx.environ)


def models_config(ctx: Invocation) -> Any:
    """Return what is configured about models."""
    from pathlib import Path

    from pi_loop.models.custom import config_folders, load_config
    from pi_session_cli.settings import config_dir

    home = Path(ctx.environ.get("HOME", "~")).expanduser()
    return load_config(config_folders(Path(config_dir(ctx.environ)), home, ctx.environ))


def client_for(ctx: Invocation, model: Model) -> tuple[StreamFn, Model, str | None, dict[str, str | None]]:
    """Return a client for a real model.

    Raises:
        CannotError: its key is missing.
    """
    from pi_loop.models.registry import credentials
    from pi_loop.providers.client import ClientSettings, ModelClient
    from pi_loop.providers.retry import NO_RETRY

    found = credentials(model.provider, ctx.environ, models_config(ctx))
    if found.reason is not None:
        raise CannotError(f"{model.provider}/{model.id} cannot be used: {found.reason}", hint="or use --offline")
    client = ModelClient(ClientSettings(retry=NO_RETRY))
    return client, model, found.api_key, dict(found.headers)
