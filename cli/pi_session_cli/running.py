"""Runs one prompt of `run`: finds or makes the session, plays the run, says how it ended."""

from __future__ import annotations

import gc
import signal as signals
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from pi_session_cli.answers import Answer
from pi_session_cli.commands.fork import not_in_fork
from pi_session_cli.conversing import Conversation, Wishes, begin, check, choose_model, in_the_middle
from pi_session_cli.errors import OutputError
from pi_session_cli.invocation import SESSION_VARIABLE
from pi_session_cli.model_access import SCRIPTED, ModelAccess
from pi_session_cli.prompt_words import Prompt, read_prompt
from pi_session_cli.render import deferred
from pi_session_cli.render.safe import sentences
from pi_session_cli.render.streaming import RunPrinter
from pi_sessions.errors import PiSessionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import TaskStatus

    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import RecoverAction, RunOutcome
    from pi_loop.types import Model
    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

DEFAULT_TOOLS = "read"
CODES = {"done": 0, "error": 4}
# Shells give the end by a signal this plus its number: 130 Ctrl-C, 143 SIGTERM, 129 the terminal went away.
SIGNALLED = 128


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


@dataclass(slots=True)
class Played:
    """What came of `play`.

    Args:
        outcome: How the last run ended; None when nothing ran to an end.
        is_sent: Whether the prompt was sent.
        told: Notes that were shown while it ran.
        output_failure: Why the answer could not be shown.
        settled: What became of what was open before.
        still_waits: An answer that comes later was waited for and is not there yet.
        kept_back: Why a prompt could not be sent.
        stopped_by: The signal that stopped it; None for none.
    """

    outcome: RunOutcome | None = None
    is_sent: bool = False
    told: frozenset[str] = frozenset()
    output_failure: OSError | None = None
    settled: tuple[str, ...] = ()
    still_waits: bool = False
    kept_back: str = "the recovery of the cut-off run did not succeed"
    stopped_by: int | None = None

    @property
    def code(self) -> int:
        """The exit code."""
        if self.outcome is not None and self.outcome.status in CODES:
            return CODES[self.outcome.status]
        if self.stopped_by is not None or self.outcome is not None or self.still_waits:
            return SIGNALLED + (self.stopped_by or signals.SIGINT)
        return 0

    @property
    def goes_on(self) -> bool:
        """Whether a prompt may be sent."""
        return not self.still_waits and (self.outcome is None or self.outcome.status == "done")


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
    prompt = read_prompt(ctx, words) if has_prompt else None
    check(ctx, wishes, default_tools=DEFAULT_TOOLS)
    # A new session is made only when somebody can answer in it.
    model = choose_model(ctx, ModelAccess(ctx), wishes, None) if place.is_new(ctx) else None
    if recover == "close" and not has_prompt:
        # Nobody is asked.
        model = SCRIPTED
    with opened_store(ctx, place) as store:
        session = session_for(ctx, store, place)
        talk = begin(ctx, store, session, wishes, command="run", default_tools=DEFAULT_TOOLS, model=model)
        if not ctx.as_json:
            tell(ctx, *talk.notes)
        if prompt is not None:
            # Also with --json: what was given is not what is sent.
            tell(ctx, *prompt.notes, *unseen(prompt, talk.runner.model))
        played = anyio.run(play, ctx, talk, prompt, recover)
    if played.output_failure is not None:
        raise not_shown(session, played, played.output_failure, stored=not place.no_session)
    return answer_of(session, played, wishes, stored=not place.no_session)


def unseen(prompt: Prompt, model: Model) -> tuple[str, ...]:
    """Say that a model does not get the pictures it is asked about."""
    number = len(prompt.pictures)
    if not number or "image" in model.input:
        return ()
    return (
        f"{model.provider}/{model.id} cannot see pictures: it is told only that there "
        f"{'was one' if number == 1 else f'were {number}'}",
    )


def tell(ctx: Invocation, *lines: str) -> None:
    """Write lines to stderr, if somebody still listens."""
    with suppress(OSError):
        ctx.stderr.write("".join(f"{line}\n" for line in lines))


def not_shown(session: Session, played: Played, failure: OSError, *, stored: bool) -> OutputError:
    """Return the error for a run whose answer could not be written."""
    ended = "nothing ran" if played.outcome is None else f"the run's end: {played.outcome.status}"
    kept = f"; what was said is stored, pi-session resume {session.id} goes on" if stored else ""
    return OutputError(f"Cannot write the answer: {failure.strerror or failure}", hint=ended + kept)


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
        told = () if ctx.as_json else not_in_fork(store.cut_off_runs(here.id), {at})
        tell(ctx, *told)
        return store.fork(here.id, at=at, place=ctx.place)
    here = ctx.session(store, place.session)
    store.set_current(ctx.place, here.id)
    return here


async def play(
    ctx: Invocation,
    talk: Conversation,
    prompt: Prompt | None,
    recover: RecoverAction | None,
) -> Played:
    """Play the run; Ctrl-C, SIGTERM and the end of the terminal abort it, a second signal leaves at once."""
    runner = talk.runner
    printer = RunPrinter(
        ctx.stdout,
        None if ctx.as_json else ctx.stderr,
        as_json=ctx.as_json,
        terminal=ctx.screen.columns is not None,
        gone=runner.abort,
    )
    runner.subscribe(printer.hear)
    played = Played()
    failure: PiSessionError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(abort_on_signals, runner, played, tasks.cancel_scope)
        try:
            await settle(ctx, runner, recover, played)
            if prompt is not None and played.goes_on:
                played.is_sent = True
                played.outcome = await runner.prompt(prompt.text, prompt.pictures)
        except PiSessionError as error:
            # Raised outside of the group, which would wrap it.
            failure = in_the_middle(error)
        tasks.cancel_scope.cancel()
    if prompt is not None and not played.is_sent:
        tell(
            ctx,
            f"The prompt was not sent, as {played.kept_back}; once that is settled: "
            f"pi-session run --session {talk.session.id} PROMPT (--recover close gives it up)",
        )
    if failure is not None:
        raise failure
    played.told, played.output_failure = frozenset(printer.told), printer.failure
    return played


async def settle(ctx: Invocation, runner: SessionRunner, recover: RecoverAction | None, played: Played) -> None:
    """Deal with what is open at the leaf: a run that was cut off, or an answer that is to come later.

    Raises:
        CannotError: the provider cannot be asked for the answer.
    """
    found = None if recover is None else await runner.unfinished()
    handle = None if found is not None else await runner.deferred_answer()
    if recover is None:
        if handle is not None and not ctx.as_json:
            tell(ctx, deferred.waits(handle), deferred.PASSED_OVER)
        return
    if handle is None:
        if found is not None and not ctx.as_json:
            tell(ctx, found.sentence())
        played.outcome = await runner.recover(recover)
        played.settled = ("There is no cut-off run" if found is None else "The cut-off run is closed",)
        return
    if not ctx.as_json:
        tell(ctx, deferred.waits(handle))
    played.kept_back = "the answer that comes later is not there"
    if recover == "close":
        reason = await runner.cancel_deferred()
        played.settled = (deferred.GIVEN_UP, *(() if reason is None else (deferred.untold(reason),)))
        return
    played.outcome = await runner.fetch_deferred(wait=True)
    played.still_waits = played.outcome is None


async def abort_on_signals(
    runner: SessionRunner,
    played: Played,
    scope: anyio.CancelScope,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Abort the run at the first signal, leave at the second."""
    heeded = [signals.SIGINT, signals.SIGTERM]
    # Under `nohup` a run outlives its terminal.
    if signals.getsignal(signals.SIGHUP) is not signals.SIG_IGN:
        heeded.append(signals.SIGHUP)
    with anyio.open_signal_receiver(*heeded) as received:
        task_status.started()
        async for number in received:
            if played.stopped_by is not None:
                scope.cancel()
                return
            played.stopped_by = number
            runner.abort()


def answer_of(session: Session, played: Played, wishes: Wishes, *, stored: bool) -> Answer:
    """Say how a run ended and how to go on."""
    resume = f"pi-session resume {session.id}"
    outcome = played.outcome
    if played.still_waits:
        return Answer("written", None, (deferred.NOT_YET,), deferred.commands(session.id, wishes.branch), played.code)
    if outcome is None:
        return Answer("written", None, played.settled, (resume,), played.code)
    said = [note for note in map(sentences, outcome.notes) if note not in played.told]
    if outcome.status == "error":
        said.append(f"Error: {sentences(outcome.error or 'the run failed')}")
    elif outcome.status == "aborted":
        said.append("Aborted; what was said so far is stored" if stored else "Aborted")
    if not stored:
        return Answer("written", None, tuple(said), (), played.code)
    if outcome.own_branch or wishes.branch is not None:
        resume += f" --branch {outcome.branch}"
    beside = f", beside {outcome.from_branch}" if outcome.own_branch else ""
    said.append(f"Stored in {session.id} on {outcome.branch}{beside}")
    handle = None if outcome.message is None else outcome.message.deferred
    if handle is not None and outcome.status == "done":
        branch = outcome.branch if outcome.own_branch else wishes.branch
        return Answer("written", None, (*said, deferred.waits(handle)), deferred.commands(session.id, branch))
    return Answer("written", None, tuple(said), (resume, f"pi-session undo {session.id}"), played.code)
