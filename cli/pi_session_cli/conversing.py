"""What `run` and `resume` share: their options, and a runner for a session made of them.

Nothing is chosen silently: the model is the one that was named, else the session's own, else the settings'; a model
that cannot be asked is an error that lists those that can. Here is decided, too, in which folder tools work.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pi_loop.context_files import context_files, system_prompt
from pi_loop.runner import SessionRunner
from pi_loop.tools.approval import Approval, Ask
from pi_loop.tools.coding import ALL, CHANGING, chosen_names, coding_tools
from pi_loop.tools.workspace import Workspace
from pi_loop.types import StreamOptions
from pi_session_cli.model_access import SCRIPTED, ModelAccess, ModelUnusableError, script_stream
from pi_session_cli.summarizing import runner_settings
from pi_sessions.errors import CannotError, PiSessionError, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pi_loop.types import Model
    from pi_session_cli.invocation import Invocation
    from pi_sessions.context import Context
    from pi_sessions.messages import ThinkingLevel
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

STAYS = "what was acknowledged before stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What was typed about the conversation; None where nothing was.

    Args:
        model: `--model`.
        thinking: `--thinking`.
        tools: `--tools`.
        script: `--script`.
        approve: `--approve`.
        system: `--system`.
        allow: `--allow`.
        cwd: `--cwd`.
        branch: `--branch`.
        deferred: `--deferred`.
    """

    model: str | None = None
    thinking: str | None = None
    tools: str | None = None
    script: str | None = None
    approve: str | None = None
    system: str | None = None
    allow: str | None = None
    cwd: str | None = None
    branch: str | None = None
    deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A session ready to be talked to.

    Args:
        session: As it was opened.
        runner: Idle.
        access: The person's models.
        workspace: Where tools work.
        approval: Who approves calls.
        scripted: Whether a script answers.
        notes: What to tell first, one sentence each.
    """

    session: Session
    runner: SessionRunner
    access: ModelAccess
    workspace: Workspace
    approval: Approval
    scripted: bool
    notes: tuple[str, ...]


def begin(
    ctx: Invocation,
    store: SessionStore,
    session: Session,
    wishes: Wishes,
    *,
    command: str,
    default_tools: str,
    ask: Ask | None = None,
    model: Model | None = None,
) -> Conversation:
    """Make a runner for a session.

    Args:
        command: `run` or `resume`, as the operation is called.
        default_tools: Tools unless `--tools` says otherwise.
        ask: Asks the person about a call; None when nobody is there.
        model: The model, when it has been chosen already.

    Raises:
        CannotError: there is no usable model, or no such branch or tool.
    """
    access = ModelAccess(ctx)
    branch = checked_branch(store, session, wishes.branch)
    leaf = session.leaf if branch is None else store.leaf(session.id, branch)
    context = store.context(session.id, leaf)
    asked = model or choose_model(ctx, access, wishes, context)
    folder, notes = working_folder(ctx, session, wishes.cwd)
    workspace = workspace_of(ctx, session, folder, wishes.allow)
    names = chosen_names(wishes.tools or default_tools)
    tools = coding_tools(workspace, names)
    approval = Approval(free=approved(wishes.approve, names), ask=ask)
    prompt: str | None = None
    own = system_text(ctx, wishes.system)
    if own is not None or not has_own_prompt(context):
        files = context_files(folder, [str(access.folders[0])])
        prompt = system_prompt(folder, tools, files, own=own)
    script = None if wishes.script is None else script_stream(wishes.script, ctx.place)
    runner = SessionRunner(
        store,
        session.id,
        stream_fn=script or access.stream(),
        deferred=script or access.later(),
        stream_options=StreamOptions(deferred=wishes.deferred),
        model=asked,
        tools=tools,
        system=prompt,
        thinking_level=thinking_for(ctx, wishes, context),
        branch=branch,
        command=command,
        settings=runner_settings(ctx),
        before_tool_call=approval.before,
        after_tool_call=approval.after,
        clock=ctx.clock,
    )
    return Conversation(
        session=session,
        runner=runner,
        access=access,
        workspace=workspace,
        approval=approval,
        scripted=wishes.script is not None,
        notes=notes,
    )


def check(ctx: Invocation, wishes: Wishes, *, default_tools: str) -> None:
    """Raise what is wrong with what was typed, before a store or a session is made for it.

    Raises:
        UsageError: there is no such tool, or a call is approved that the model cannot make.
        CannotError: a script, a prompt or a folder cannot be read.
    """
    approved(wishes.approve, chosen_names(wishes.tools or default_tools))
    allowed_folders(ctx, wishes.allow)
    system_text(ctx, wishes.system)
    if wishes.script is not None:
        script_stream(wishes.script, ctx.place)
    if wishes.cwd is not None:
        given_folder(ctx, wishes.cwd)


def choose_model(ctx: Invocation, access: ModelAccess, wishes: Wishes, context: Context | None) -> Model:
    """Return the model to ask.

    Raises:
        CannotError: none is named, it is not known, or it cannot be used now.
    """
    in_force = context.model if context is not None else None
    if wishes.model is not None:
        model = access.find(wishes.model)
    elif wishes.script is not None:
        return SCRIPTED
    elif in_force is not None:
        named = f"{in_force.provider}/{in_force.model_id}"
        try:
            model = access.find(named)
        except CannotError as error:
            raise ModelUnusableError(f"The session's model {named} is not known here", hint=access.offer()) from error
    else:
        named = str(ctx.settings.get("model").value or "")
        if not named:
            raise ModelUnusableError("No model is named", hint=access.offer())
        model = access.find(named)
    if wishes.script is None:
        access.check(model)
        if wishes.deferred:
            check_later(model)
    return model


def check_later(model: Model) -> None:
    """Raise ModelUnusableError when a model's answers cannot come later."""
    from pi_loop.providers.deferred_handles import LATER

    if model.api not in LATER:
        raise ModelUnusableError(
            f"Answers of {model.provider}/{model.id} cannot come later",
            hint=f"models over {', '.join(LATER)} can; without --deferred this one answers now",
        )


def thinking_for(ctx: Invocation, wishes: Wishes, context: Context) -> ThinkingLevel | None:
    """Return the level to ask for; None leaves the session's own."""
    if wishes.thinking is not None:
        return wishes.thinking  # type: ignore[return-value]
    is_new = context.model is None and not context.messages
    return ctx.settings.get("thinking").value if is_new else None  # type: ignore[return-value]


def working_folder(ctx: Invocation, session: Session, given: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the folder tools work in, and what there is to say about it.

    It is the one that was given, else the session's, else, where that is gone, the caller's.

    Raises:
        CannotError: the folder that was given is none.
    """
    if given is not None:
        return given_folder(ctx, given), ()
    if not session.cwd or os.path.isdir(session.cwd):
        return session.cwd or ctx.place, ()
    return ctx.place, (
        f"The session's folder {session.cwd} is gone; working in {ctx.place} (--cwd DIR names another one)",
    )


def given_folder(ctx: Invocation, given: str) -> str:
    """Return the folder `--cwd` names.

    Raises:
        CannotError: there is none.
    """
    folder = os.path.normpath(os.path.join(ctx.place, os.path.expanduser(given)))
    if not os.path.isdir(folder):
        raise CannotError(f"There is no folder {folder}", hint="name one that exists with --cwd")
    return folder


def workspace_of(ctx: Invocation, session: Session, folder: str, allow: str | None) -> Workspace:
    """Return where tools may work; commands they run know the session, and no other conversation's variables."""
    environ = {name: value for name, value in ctx.environ.items() if name not in ("COLUMNS", "LINES")}
    allowed = allowed_folders(ctx, allow)
    return Workspace(
        root=folder,
        allowed=tuple(part for part in allowed if part != os.sep),
        everything=os.sep in allowed,
        home=ctx.environ.get("HOME"),
        environ={**environ, "PI_SESSION_ID": session.id},
    )


def allowed_folders(ctx: Invocation, allow: str | None) -> tuple[str, ...]:
    """Return the folders `--allow` names, absolute.

    Raises:
        CannotError: one is not there.
    """
    folders = tuple(
        os.path.normpath(os.path.join(ctx.place, os.path.expanduser(part)))
        for part in (allow or "").split(os.pathsep)
        if part
    )
    gone = next((folder for folder in folders if not os.path.exists(folder)), None)
    if gone is not None:
        raise CannotError(f"There is no folder {gone}", hint="name folders that exist with --allow, joined by a colon")
    return folders


def approved(text: str | None, offered: Collection[str]) -> frozenset[str]:
    """Return the tools whose calls `--approve` lets through.

    Args:
        offered: Tools the model has.

    Raises:
        UsageError: there is no such tool, or the model does not have it.
    """
    names = frozenset(name.strip() for name in (text or "none").split(",") if name.strip())
    unknown = sorted(names - {"all", "none", *ALL})
    if unknown:
        raise UsageError(f"There is no tool {unknown[0]}", hint=f"none, all, or some of {','.join(CHANGING)}")
    missing = [name for name in ALL if name in names and name not in offered]
    if missing:
        raise UsageError(
            f"--approve {','.join(missing)}: the model does not have {'it' if len(missing) == 1 else 'them'}",
            hint=f"--tools says what it has: --tools {','.join([*offered, *missing])}, or --tools all",
        )
    return names - {"none"}


def has_own_prompt(context: Context) -> bool:
    """Whether a session came with a system prompt that is not ours."""
    for message in context.messages:
        if message.message.get("role") == "system":
            sections = message.message.get("sections")
            names = set(sections) if isinstance(sections, dict) else set()
            if message.message.get("content") or names - {"prompt"}:
                return True
    return False


def system_text(ctx: Invocation, given: str | None) -> str | None:
    """Return the system prompt that `--system` names: a text, or `@FILE`.

    Raises:
        CannotError: the file cannot be read.
    """
    if given is None or not given.startswith("@"):
        return given
    return read_text(os.path.join(ctx.place, os.path.expanduser(given[1:])))


def read_text(path: str | Path) -> str:
    """Return a text file's content.

    Raises:
        CannotError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise CannotError(f"Cannot read {path}: {error.strerror}", hint="name a file that can be read") from error


def checked_branch(store: SessionStore, session: Session, branch: str | None) -> str | None:
    """Return the branch to work on, None for the current one.

    Raises:
        CannotError: there is no such branch.
    """
    if branch is None or branch == session.branch:
        return None
    names = [each.name for each in store.branches(session.id)]
    if branch not in names:
        raise CannotError(f"There is no branch {branch}", hint=f"there are: {', '.join(names)}")
    return branch


def in_the_middle(error: PiSessionError) -> PiSessionError:
    """Return a failure of the store as it is after a run has begun: earlier steps are stored."""
    if isinstance(error, StoreError) and error.hint is not None:
        error.hint = error.hint.replace("nothing was changed by this command", STAYS).replace(
            "nothing was changed", STAYS
        )
    return error
