"""Runs one prompt of `run`: finds or makes the session, plays the run, says how it ended."""

from __future__ import annotations

import gc
import signal as signals
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from pi_session_cli.answers import Answer
from pi_session_cli.conversing import Conversation, Wishes, begin, check, choose_model
from pi_session_cli.invocation import SESSION_VARIABLE
from pi_session_cli.model_access import ModelAccess
from pi_session_cli.prompt_words import read_prompt
from pi_session_cli.render.streaming import RunPrinter
from pi_sessions.errors import PiSessionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskStatus

    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import RecoverAction, RunOutcome
    from pi_session_cli.invocation import Invocation
    from pi_sessions.messages import ImageContent
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

CODES = {"done": 0, "error": 4, "aborted": 130}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a prompt goes, as it was typed."""

    session: str | None
    last: bool
    fork_from: str | None
    no_session: bool

    def is_new(self, ctx: Invocation) -> bool:
        """Whether a session is begun."""
        named = self.session is not None or self.last or self.fork_from is not None
        return self.no_session or not (named or ctx.environ.get(SESSION_VARIABLE))


def run_once(
    ctx: Invocation, words: tuple[str, ...], place: Place, wishes: Wishes, recover: RecoverAction | None
) -> Answer:
    """Run a prompt to its end.

    Args:
        words: What was typed as prompt.
        place: Where it goes.
        wishes: How it is answered.
        recover: What becomes of a run that was cut off; then there may be no prompt.
    """
    # The program runs without collecting cycles, which suits commands that live for milliseconds only.
    gc.enable()
    has_prompt = bool(words) or recover is None
    text, pictures = read_prompt(ctx, words) if has_prompt else ("", [])
    check(ctx, wishes)
    # A new session is made only when somebody can answer in it.
    model = choose_model(ctx, ModelAccess(ctx), wishes, None) if place.is_new(ctx) else None
    with opened_store(ctx, place) as store:
        session = session_for(ctx, store, place)
        talk = begin(ctx, store, session, wishes, command="run", default_tools="read", model=model)
        if not ctx.as_json:
            ctx.stderr.write("".join(f"{note}\n" for note in talk.notes))
        outcome = anyio.run(play, ctx, talk, text if has_prompt else None, pictures, recover)
    return answer_of(session, outcome, wishes, stored=not place.no_session)


@contextmanager
def opened_store(ctx: Invocation, place: Place) -> Iterator[SessionStore]:
    """Open the store so that each step of the run waits for the disk; with `--no-session` one that is thrown away."""
    from pi_sessions.store import SessionStore

    with ExitStack() as stack:
        if place.no_session:
            import tempfile

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pi-session-"))
            yield stack.enter_context(
                SessionStore.open(
                    f"{folder}/sessions.db",
                    create=True,
                    clock=ctx.clock,
                    new_id=ctx.new_id,
                    new_session_id=ctx.new_session_id,
                )
            )
            return
        ctx.settings.flags = {**ctx.settings.flags, "durable": True}
        yield stack.enter_context(ctx.change_store(create=place.is_new(ctx)))


def session_for(ctx: Invocation, store: SessionStore, place: Place) -> Session:
    """Return the session the prompt goes to; it becomes the current one here."""
    if place.is_new(ctx):
        return store.create_session(cwd=ctx.place, place=None if place.no_session else ctx.place)
    if place.fork_from is not None:
        here, at = ctx.entry(store, place.fork_from, place.session)
        return store.fork(here.id, at=at, place=ctx.place)
    here = ctx.session(store, place.session)
    store.set_current(ctx.place, here.id)
    return here


async def play(
    ctx: Invocation,
    talk: Conversation,
    text: str | None,
    pictures: list[ImageContent],
    recover: RecoverAction | None,
) -> RunOutcome | None:
    """Play the run; Ctrl-C and SIGTERM abort it, a second one leaves at once.

    Returns:
        How it ended; None when nothing ran to an end.
    """
    runner = talk.runner
    printer = RunPrinter(
        ctx.stdout,
        None if ctx.as_json else ctx.stderr,
        as_json=ctx.as_json,
        safe=ctx.screen.columns is not None,
        gone=runner.abort,
    )
    runner.subscribe(printer.hear)
    outcome: RunOutcome | None = None
    failure: PiSessionError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(abort_on_signals, runner, tasks.cancel_scope)
        try:
            if recover is not None:
                found = await runner.unfinished()
                if found is not None and not ctx.as_json:
                    ctx.stderr.write(found.sentence() + "\n")
                outcome = await runner.recover(recover)
            if text is not None and (outcome is None or outcome.status == "done"):
                outcome = await runner.prompt(text, pictures)
        except PiSessionError as error:
            # Raised outside of the group, which would wrap it.
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if printer.is_broken:
        raise BrokenPipeError
    return outcome


async def abort_on_signals(
    runner: SessionRunner, scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Abort the run at the first signal, leave at the second."""
    with anyio.open_signal_receiver(signals.SIGINT, signals.SIGTERM) as received:
        task_status.started()
        asked = False
        async for _ in received:
            if asked:
                scope.cancel()
                return
            asked = True
            runner.abort()


def answer_of(session: Session, outcome: RunOutcome | None, wishes: Wishes, *, stored: bool) -> Answer:
    """Say how a run ended and how to go on."""
    resume = f"pi-session resume {session.id}"
    if outcome is None:
        return Answer("written", None, ("There is no cut-off run any more",), (resume,))
    said = list(outcome.notes)
    if outcome.status == "error":
        said.append(f"Error: {outcome.error or 'the run failed'}")
    elif outcome.status == "aborted":
        said.append("Aborted; what was said so far is stored" if stored else "Aborted")
    if not stored:
        return Answer("written", None, tuple(said), (), CODES[outcome.status])
    if outcome.own_branch:
        said.append(f"Another writer had {outcome.from_branch}; this run is on the branch {outcome.branch}")
    if outcome.own_branch or wishes.branch is not None:
        resume += f" --branch {outcome.branch}"
    said.append(f"Stored in {session.id} on {outcome.branch}")
    return Answer("written", None, tuple(said), (resume, f"pi-session undo {session.id}"), CODES[outcome.status])
