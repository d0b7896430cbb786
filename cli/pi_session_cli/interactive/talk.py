"""The conversation itself: the prompt is always there, the model works beside it.

What is typed while the model works steers it or waits as a follow-up; while a summary is made, it waits for its turn.
Nothing typed is lost: what could not go into a run that was just ending begins the next one.
"""

from __future__ import annotations

import signal as signals
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from pi_loop.runner_types import NotRunningError, QueueUpdate
from pi_session_cli.conversing import Conversation, Wishes, begin, in_the_middle
from pi_session_cli.interactive import slash, typed_ahead
from pi_session_cli.interactive.completing import PromptCompleter
from pi_session_cli.interactive.keys import bindings
from pi_session_cli.interactive.moves import Moves
from pi_session_cli.interactive.questions import SHOW, Questions
from pi_session_cli.interactive.status import opening_of, toolbar
from pi_session_cli.interactive.whereabouts import Whereabouts
from pi_session_cli.render import asking, deferred
from pi_session_cli.render import opening as opening_view
from pi_session_cli.render.live import LivePrinter
from pi_session_cli.render.safe import sentences
from pi_sessions.errors import PiSessionError
from pi_sessions.messages import block_texts
from pi_sessions.pauses import CollectionsPaused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import TextIO

    from anyio.abc import TaskGroup
    from prompt_toolkit.formatted_text import StyleAndTextTuples

    from pi_loop.events import LoopEvent
    from pi_loop.runner_types import RecoverAction, RunnerEvent, RunOutcome
    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore


class Talk:
    """One conversation in a terminal.

    Args:
        ctx: The invocation.
        store: Open for writing, used by nobody else.
        wishes: How answers are made.

    Attributes:
        is_working: Whether the model, or a command that takes the runner, is at it.
        follows_up: Whether what is being sent is to wait for the end of the run.
        inputs: How many inputs were taken and dealt with, or handed to the model.
        last: How the last run ended.
        hung_up: Whether the terminal has gone.
        terminated: Whether SIGTERM ended it.
    """

    def __init__(self, ctx: Invocation, store: SessionStore, wishes: Wishes) -> None:
        self.ctx = ctx
        self.store = store
        self.wishes = wishes
        self.is_working = False
        self.follows_up = False
        self.hung_up = False
        self.terminated = False
        self.last: RunOutcome | None = None
        self.prefill = ""
        self.tokens = 0
        self.inputs = 0
        self._queued: list[str] = []
        self._waiting: list[str] = []
        self._refilled = ""
        self._stopped = False
        self._waits_for_answer = False
        self._leaving = False
        self._tasks: TaskGroup | None = None
        self._completer = PromptCompleter(ctx, lambda: self.talk)
        self.prompt: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation="  ",
            key_bindings=bindings(self),
            bottom_toolbar=self._toolbar,
            history=InMemoryHistory(),
            completer=self._completer,
            complete_in_thread=True,
            erase_when_done=True,
            reserve_space_for_menu=4,
        )
        # Writing above the prompt would make the terminal cooked for a moment, an Enter typed just then a line feed.
        self.prompt.app.input.cooked_mode = nullcontext  # type: ignore[method-assign]
        # A thread writes the lines above the prompt through it, too, and would die of a terminal that has gone.
        self._flush = self.prompt.app.output.flush
        self.prompt.app.output.flush = self._flush_or_hang_up  # type: ignore[method-assign]
        self.out = ctx.stdout
        self.printer = LivePrinter(ctx.stdout, ctx.screen, self.redraw, self._wording)
        self.questions = Questions(
            ctx.screen,
            buffer=lambda: self.prompt.default_buffer,
            size=self.prompt.app.output.get_size,
            workspace=lambda: self.talk.workspace,
            write=lambda line: self.printer.write(line),
            changed=self._asked,
        )
        self.moves = Moves(self)
        self._whereabouts = Whereabouts(store)
        self.talk: Conversation
        self._opened: Conversation | None = None

    # --- opening ------------------------------------------------------------------------------------------------

    async def open(self, session: Session) -> None:
        """Open a session: make its runner and say where we are.

        Raises:
            CannotError: its model cannot be used.
        """
        with CollectionsPaused():
            asks_again = self.renew(session)
            self.store.set_current(self.ctx.place, session.id)
            opening = await opening_of(self.store, self.talk)
        self.tokens, self._waits_for_answer = opening.tokens, opening.waits
        for line in opening_view.lines(opening, self.ctx.screen):
            self.printer.write(line)
        if asks_again:
            self.printer.note(f"In {self.talk.workspace.root} you are asked again about {', '.join(asks_again)}")
        elif self.talk.approval.granted:
            self.printer.note(f"Always allowed here until you leave: {', '.join(self.talk.approval.granted)}")
        for text in opening.history:
            self.prompt.history.append_string(text)
        self._whereabouts.settle(self.talk)
        self.redraw()

    def renew(self, session: Session) -> tuple[str, ...]:
        """Make the runner of a session anew, as the wishes are now.

        What the person always allows goes on to hold where tools work in the same folder, and nowhere else.

        Returns:
            Tools that were always allowed and are asked about again, as the folder is another one.

        Raises:
            CannotError: the model cannot be used.
        """
        ask = self.questions.ask
        self.talk = begin(self.ctx, self.store, session, self.wishes, command="resume", default_tools="all", ask=ask)
        self.talk.runner.subscribe(self._hear)
        before, self._opened = self._opened, self.talk
        if before is None:
            return ()
        if before.workspace.root != self.talk.workspace.root:
            return before.approval.granted
        self.talk.approval.take_over(before.approval)
        return ()

    def as_now(self) -> Wishes:
        """Return wishes for another session that keep the model and the level of now."""
        model = self.talk.runner.model
        level = self.talk.runner.thinking_level
        return replace(self.wishes, branch=None, model=f"{model.provider}/{model.id}", thinking=level)

    async def converse(
        self,
        session: Session,
        recover: str | None,
        *,
        out: TextIO | None = None,
        beside: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> None:
        """Talk until the person leaves.

        Args:
            out: Where lines go instead of above the prompt.
            beside: Runs beside the conversation until it ends.

        Raises:
            CannotError: the session's model cannot be used.
        """
        with nullcontext() if out is not None else patch_stdout(raw=True):
            # Under `patch_stdout` this is the stream that writes above the prompt.
            self.out = out or sys.stdout
            self.printer = LivePrinter(self.out, self.ctx.screen, self.redraw, self._wording)
            await self.open(session)
            # Raw between prompts, too: what is typed while a command works must come in as the keys it is.
            with self.prompt.app.input.raw_mode(), closing(self._completer):
                await self._talk_until_left(recover, beside)

    async def _talk_until_left(
        self, recover: str | None, beside: Callable[[], Coroutine[None, None, None]] | None
    ) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._heed_signals)
            if beside is not None:
                tasks.start_soon(beside)
            ahead = typed_ahead.taken(self.prompt.app.input)
            await self._settle_cut_off(recover)
            await self._settle_deferred(recover)
            typed_ahead.give(self.prompt.app.input, [*ahead, *typed_ahead.taken(self.prompt.app.input)])
            if not self._leaving:
                self.printer.note("Enter sends, Alt+Enter breaks the line, Ctrl-C stops, Ctrl-D leaves, /help")
            while not self._leaving:
                await self._one_input()
            await self._stop_working()
            tasks.cancel_scope.cancel()

    async def _one_input(self) -> None:
        default, self.prefill = self.prefill, ""
        try:
            text = await self.prompt.prompt_async(default=default, handle_sigint=False)
        except EOFError:
            self._leaving = True
            self.hung_up = self.hung_up or self.prompt.app.input.closed
            return
        except OSError:
            self._leaving = self.hung_up = True
            return
        except KeyboardInterrupt:
            return
        try:
            await self.submit(text)
        except PiSessionError as error:
            self.printer.error(error.message, error.hint)
        finally:
            self.inputs += 1

    async def _settle_cut_off(self, recover: str | None) -> None:
        """Deal with a run that was cut off: as `--recover` says, else as the person chooses."""
        found = await self.talk.runner.unfinished()
        if found is None:
            return
        self.printer.note(found.sentence())
        while recover is None:
            asker: PromptSession[str] = PromptSession()
            try:
                answer = await asker.prompt_async("Continue it (c), close it (x) or leave (q)? ", handle_sigint=False)
            except OSError:
                self._leaving = self.hung_up = True
                return
            except (EOFError, KeyboardInterrupt):
                answer = "q"
            chosen = {"c": "continue", "x": "close"}.get(answer.strip().lower()[:1])
            if answer.strip().lower().startswith("q"):
                self._leaving = True
                return
            recover = chosen
        action: RecoverAction = "close" if recover == "close" else "continue"
        self.start(lambda: self.talk.runner.recover(action))

    async def _settle_deferred(self, recover: str | None) -> None:
        """Look whether an answer that comes later is there now, or do what `--recover` says."""
        if self.is_working or self._leaving or not self._waits_for_answer:
            return
        if recover == "close":
            self.start(self.give_up_deferred)
        else:
            self.start(partial(self.fetch_deferred, wait=recover == "continue"))

    async def fetch_deferred(self, *, wait: bool) -> RunOutcome | None:
        """Fetch the answer that comes later and go on; say so when it is not there yet."""
        outcome = await self.talk.runner.fetch_deferred(wait=wait)
        if outcome is None:
            self.printer.note(f"{deferred.NOT_YET}: /deferred wait waits, /deferred close gives it up")
        return outcome

    async def give_up_deferred(self) -> RunOutcome | None:
        """Give up the answer that comes later."""
        reason = await self.talk.runner.cancel_deferred()
        self.printer.note(deferred.GIVEN_UP if reason is None else f"{deferred.GIVEN_UP}. {deferred.untold(reason)}")
        return None

    # --- what is typed ------------------------------------------------------------------------------------------

    async def submit(self, text: str) -> None:
        """Take what the person sent.

        Raises:
            PiSessionError: a command cannot be carried out.
        """
        if self.questions.is_open:
            self._take_answer(text)
            return
        if not text.strip():
            return
        refilled, self._refilled = self._refilled, ""
        if refilled and text.rstrip() == f"{refilled}/undo":
            # Typed as it was told, behind the words that had come back.
            text = "/undo"
        if slash.is_command(text):
            self.printer.user(text)
            await self._command(text)
        elif self.is_working:
            await self._into_run(text)
        elif not self._is_held_back(text):
            self.ask_model(text)

    async def _command(self, text: str) -> None:
        if "\n" in text.strip():
            self.prefill = text
        await self.moves.command(slash.read(text))
        if not self.is_working:
            self._whereabouts.settle(self.talk)

    def _is_held_back(self, text: str) -> bool:
        """Whether a prompt is not sent yet, as it would go somewhere else than the person knows; it is told then."""
        self.prefill = text
        change = self._whereabouts.change(self.talk)
        if change is None:
            self.prefill = ""
            return False
        self.printer.error(f"{change.told}; nothing was sent yet", change.hint)
        for line in change.said:
            self.printer.write(self.ctx.screen.paint(line, "dim"))
        return True

    def refill(self, text: str) -> None:
        """Put what the person had said into the next prompt."""
        self.prefill = self._refilled = text
        if text:
            self.printer.note("Your words are in the prompt again; Ctrl-C empties it")

    def _take_answer(self, text: str) -> None:
        if not self.questions.is_visible():
            self.printer.note(asking.TOO_SMALL)
        elif text.strip().lower() in SHOW:
            self.questions.show(whole=True)
            self.redraw()
        elif not self.questions.answer(text):
            self.printer.note("Answer y, n, a or s first")
            # A word was meant as an answer, a sentence was not.
            self.prefill = text if len(text.split()) > 1 else ""

    async def _into_run(self, text: str) -> None:
        runner = self.talk.runner
        try:
            if self.follows_up:
                await runner.follow_up(text)
            else:
                await runner.steer(text)
        except NotRunningError:
            self._waiting.append(text)
            self.redraw()
            if not self.is_working:
                self._next_waiting()

    def ask_model(self, text: str) -> None:
        """Begin a run on a prompt."""
        self.start(lambda: self.talk.runner.prompt(text))

    def start(self, work: Callable[[], Awaitable[RunOutcome | None]]) -> None:
        """Begin a piece of work beside the prompt."""
        assert self._tasks is not None
        self.is_working, self._stopped = True, False
        self._tasks.start_soon(self._work, work)

    async def _work(self, work: Callable[[], Awaitable[RunOutcome | None]]) -> None:
        unsent: list[str] = []
        try:
            outcome = await work()
            if outcome is not None:
                self.last = outcome
                self._after(outcome)
                unsent = [" ".join(block_texts(message.content)) for message in outcome.given_back]
            await self.refresh()
        except PiSessionError as error:
            in_the_middle(error)
            self.printer.error(error.message, error.hint)
        finally:
            self.is_working = False
            self._queued = []
        if self._stopped:
            # Who stops the work has other plans than to send at once what waited for its end.
            unsent, self._waiting = [*unsent, *self._waiting], []
        self._whereabouts.settle(self.talk)
        self._give_back(unsent)
        self.redraw()
        self._next_waiting()

    def _give_back(self, unsent: list[str]) -> None:
        """Put what did not go in back into the prompt, before what is being typed."""
        if not unsent:
            return
        if self._leaving:
            self.printer.write(self.ctx.screen.whole(f"Not sent: {' '.join(unsent)}"))
            return
        self.printer.note("What waited was not sent; it is in the prompt again")
        buffer = self.prompt.default_buffer
        is_open = self.prompt.app.is_running
        text = "\n\n".join(filter(None, (*unsent, buffer.text if is_open else self.prefill)))
        if is_open:
            buffer.document = Document(text)
        else:
            self.prefill = text

    def _after(self, outcome: RunOutcome) -> None:
        for note in map(sentences, outcome.notes):
            if note in self.printer.told:
                continue
            self.printer.note(note)
        if outcome.own_branch:
            again = f"pi-session resume {outcome.session_id} --branch {outcome.branch}"
            self.printer.note(f"You are on the branch {outcome.branch} now; {again} comes back to it")

    def _next_waiting(self) -> None:
        if self._waiting and not self._leaving:
            self.ask_model("\n\n".join(self._waiting))
            self._waiting = []

    async def refresh(self) -> None:
        """Bring the figures of the status line up to date."""
        self.tokens, _ = await self.talk.runner.context_usage()
        self.redraw()

    # --- keys and signals ---------------------------------------------------------------------------------------

    def interrupt(self) -> bool:
        """Stop the work, not the program; False when there is none."""
        if self.questions.is_open:
            self.questions.answer("n")
        if not self.is_working:
            return False
        self._stopped = True
        self.talk.runner.abort()
        return True

    def hint(self, text: str) -> None:
        """Tell the person something."""
        self.printer.note(text)

    def leave(self) -> None:
        """Leave after this input."""
        self._leaving = True

    async def _heed_signals(self) -> None:
        with anyio.open_signal_receiver(signals.SIGINT, signals.SIGTERM, signals.SIGHUP) as received:
            async for number in received:
                if number == signals.SIGINT:
                    self.interrupt()
                    continue
                self._leaving = True
                self.hung_up = self.hung_up or number == signals.SIGHUP
                self.terminated = self.terminated or number == signals.SIGTERM
                self._end_prompt()

    def _end_prompt(self) -> None:
        app = self.prompt.app
        if app.is_running and app.future is not None and not app.future.done():
            app.exit(exception=EOFError)

    def _flush_or_hang_up(self) -> None:
        try:
            self._flush()
        except OSError:
            self._leaving = self.hung_up = True
            loop = self.prompt.app.loop
            if loop is not None and self.prompt.app.is_running:
                loop.call_soon_threadsafe(self._end_prompt)

    async def let_settle(self) -> None:
        """Wait for work that is beginning or has just ended, so that it is clear whether the runner is taken."""
        while self.is_working and self.talk.runner.phase == "idle":
            await anyio.sleep(0.005)

    async def _stop_working(self) -> None:
        if self.is_working:
            self.talk.runner.abort()
            while self.is_working:
                await anyio.sleep(0.01)

    # --- what is shown ------------------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Draw the prompt again."""
        if self.prompt.app.is_running:
            self.prompt.app.invalidate()

    def _wording(self, text: str) -> str:
        return slash.as_typed_here(text, self.talk.session.id)

    def _asked(self) -> None:
        """Leave the room to a question while there is one: no status line, no completions over it."""
        is_open = self.questions.is_open
        self.prompt.bottom_toolbar = None if is_open else self._toolbar
        self.prompt.completer = None if is_open else self._completer
        self.redraw()

    def _hear(self, event: LoopEvent | RunnerEvent) -> None:
        if isinstance(event, QueueUpdate):
            self._queued = [*event.steering, *event.follow_up]
            self.redraw()
        else:
            self.printer.hear(event)

    def _message(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        if self.printer.partial:
            shown.append(("", self.printer.partial + "\n"))
        for text in (*self._queued, *self._waiting):
            shown.append(("fg:ansibrightblack", f"(waits) {' '.join(text.split())[:100]}\n"))
        if not self.questions.is_open:
            return [*shown, ("bold fg:ansicyan", "> ")]
        rows = self.questions.rows()
        room = self.prompt.app.output.get_size().rows - len(rows) - 1
        asked = [("bold fg:ansiyellow", row + "\n") for row in rows]
        return [*shown[: max(room, 0)], *asked, ("bold fg:ansicyan", "? ")]

    def _toolbar(self) -> str:
        return toolbar(self)
