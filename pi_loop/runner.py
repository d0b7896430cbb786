"""SessionRunner: a stored session that can be talked to. Joins the loop and the store.

    async with anyio.create_task_group():
        runner = SessionRunner(store, session.id, stream_fn=client, model=model, tools=tools)
        outcome = await runner.prompt("Why is the lease lost?")

One piece of work at a time: a run, a compaction or a branch summary; meanwhile `steer`, `follow_up`, `abort`,
`set_model` and `set_thinking_level` are allowed, everything else is refused as busy. What was accepted, started and
finished is on disk before the next effect (open the store with `durable=True`), so a process that dies in between
leaves a run that `unfinished` finds and `recover` continues or closes.

Source: Pi 1.6.0, the coding agent's session.
"""

import random as chance
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio

from pi_loop.agent import Agent
from pi_loop.queues import QueueMode
from pi_loop.runner_deferred import CameLater, Waiting, waiting_in
from pi_loop.runner_host import RunnerHost
from pi_loop.runner_messages import model_messages, prompt_summary, readable, user_messages
from pi_loop.runner_moves import SessionMoves
from pi_loop.runner_run import SessionRun, believable_size, model_entry, omission, thinking_entry
from pi_loop.runner_summaries import Sleep
from pi_loop.runner_types import (
    CompactionDone,
    CompactionEnd,
    CompactionStart,
    DeferredAnswers,
    NothingToCompactError,
    NotRunningError,
    Phase,
    RecoverAction,
    RunnerListener,
    RunnerSettings,
    RunOutcome,
    UnfinishedRunError,
)
from pi_loop.types import (
    AfterToolCallHook,
    BeforeToolCallHook,
    CannotContinueError,
    Clock,
    ExecutionMode,
    GetApiKey,
    Model,
    StreamFn,
    StreamOptions,
    Tool,
    wall_clock_ms,
)
from pi_sessions.base import UNSET, Unset
from pi_sessions.compaction import CompactionPlan, prepare_compaction
from pi_sessions.errors import CannotError, LeafMovedError, PiSessionError
from pi_sessions.messages import (
    AssistantMessage,
    DeferredHandle,
    ImageContent,
    JsonObject,
    Message,
    ThinkingLevel,
    UserMessage,
    to_wire,
)
from pi_sessions.runs import ActiveRun, UnfinishedRun
from pi_sessions.stored import StoredEntry
from pi_sessions.summaries import SummaryAbortedError

if TYPE_CHECKING:
    from pi_sessions.store import SessionStore

# How often a waiting answer is asked for when its handle does not say, milliseconds.
POLL_AFTER_MS = 2000


class SessionRunner(SessionMoves):
    """One session of an open store, with a model and tools; belongs to one event loop."""

    def __init__(
        self,
        store: "SessionStore",
        session_id: str,
        *,
        stream_fn: StreamFn,
        model: Model,
        tools: Sequence[Tool] = (),
        system: str | None = None,
        thinking_level: ThinkingLevel | None = None,
        branch: str | None = None,
        command: str = "run",
        settings: RunnerSettings | None = None,
        before_tool_call: BeforeToolCallHook | None = None,
        after_tool_call: AfterToolCallHook | None = None,
        tool_execution: ExecutionMode = "parallel",
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        stream_options: StreamOptions | None = None,
        get_api_key: GetApiKey | None = None,
        deferred: DeferredAnswers | None = None,
        summary_model: Model | None = None,
        sleep: Sleep = anyio.sleep,
        random: Callable[[], float] = chance.random,
        clock: Clock = wall_clock_ms,
    ) -> None:
        """Make a runner that is idle; nothing is read or written yet.

        Args:
            store: Used by nobody else while a call of the runner is awaited: its calls run in a thread.
            session_id: Full id.
            stream_fn: The model's. A client should not retry by itself (`NO_RETRY`): the runner does, visibly.
            model: What is asked; becomes an entry when the session names another one.
            system: The system prompt; None leaves the session's own.
            thinking_level: None leaves the session's own.
            branch: Branch to work on; the session's current one by default.
            command: Name of the recorded operation, `run` or `resume`.
            settings: The person's budgets for compaction, summaries and retry.
            deferred: Gets or cancels answers that a provider finishes later.
            summary_model: Model for summaries; the session's by default.
            sleep: Waits seconds before a retry.
            random: Gives a number from 0 to 1, for the waits.
            clock: Unix milliseconds.
        """
        self._host = RunnerHost(
            store=store,
            session_id=session_id,
            branch=branch,
            command=command,
            stream_fn=stream_fn,
            model=model,
            thinking_level=thinking_level,
            tools=list(tools),
            system=system,
            settings=settings or RunnerSettings(),
            stream_options=stream_options or StreamOptions(),
            get_api_key=get_api_key,
            deferred=deferred,
            summary_model=summary_model,
            sleep=sleep,
            random=random,
            clock=clock,
        )
        self._agent = Agent(
            stream_fn,
            model=model,
            convert_to_llm=model_messages,
            get_api_key=get_api_key,
            before_tool_call=before_tool_call,
            after_tool_call=after_tool_call,
            steering_mode=steering_mode,
            follow_up_mode=follow_up_mode,
            tool_execution=tool_execution,
            session_id=session_id,
            stream_options=stream_options,
            clock=clock,
        )
        self._run: SessionRun | None = None

    # --- what it is doing ---------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """`idle`, `turn`, `compaction` or `branch_summary`."""
        return self._host.phase

    @property
    def session_id(self) -> str:
        """The session."""
        return self._host.session_id

    @property
    def branch(self) -> str | None:
        """Branch that the next run writes to; None: the session's current one. Assign it while idle."""
        return self._host.branch

    @branch.setter
    def branch(self, branch: str | None) -> None:
        self._host.check_idle()
        self._host.branch, self._host.diverged = branch, False

    @property
    def diverged(self) -> bool:
        """Whether a run has lost the race for its branch, so that this runner goes on on another one."""
        return self._host.diverged

    @property
    def model(self) -> Model:
        """The model asked."""
        return self._host.model

    @property
    def thinking_level(self) -> ThinkingLevel | None:
        """The level asked for; None: the session's own."""
        return self._host.thinking_level

    @property
    def tools(self) -> list[Tool]:
        """The tools of the next run."""
        return self._host.tools

    @tools.setter
    def tools(self, tools: Iterable[Tool]) -> None:
        self._host.tools = list(tools)

    def subscribe(self, listener: RunnerListener) -> Callable[[], None]:
        """Call a listener for every event of loop and runner, in turn; one that raises makes the run fail.

        Returns:
            A function that ends the subscription.
        """
        self._host.listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._host.listeners:
                self._host.listeners.remove(listener)

        return unsubscribe

    def abort(self) -> None:
        """Stop what is in progress: a run, its wait, a compaction, a branch summary. Does nothing while idle."""
        if self._host.stop is not None:
            self._host.stop.abort()

    async def context_usage(self) -> tuple[int, int]:
        """Give the tokens of the context at the leaf and the model's window; 0 where the window is unknown."""
        entries = await self._host.in_store(self._active_entries)
        return believable_size(entries), self.model.context_window

    # --- runs ---------------------------------------------------------------------------------------------------

    async def prompt(
        self, prompt: str | Message | Sequence[Message], images: Iterable[ImageContent] = ()
    ) -> RunOutcome:
        """Run on a new prompt until the agent stops; the prompt is on disk before anything else happens.

        Raises:
            PhaseBusyError: something is in progress; `steer` and `follow_up` are for that.
            UnfinishedRunError: an earlier run of this branch was cut off; `recover` first.
            StoreError: the store failed; what was stored before stays.
        """
        messages = user_messages(prompt, images, self._host.clock())
        with self._host.busy("turn"):
            await self._check_no_unfinished()
            active = await self._begin(prompt_summary(messages), messages)
            run = self._take(active)
            for message, number in zip(messages, active.numbers, strict=True):
                run.expect(message, number, "prompt")
            return await self._play(run, messages)

    async def continue_(self) -> RunOutcome:
        """Run from the transcript as it is: after a user message, a tool result, or an answer that failed.

        Raises:
            CannotContinueError: there is nothing to go on from.
            PhaseBusyError, UnfinishedRunError, StoreError: as `prompt`.
        """
        with self._host.busy("turn"):
            await self._check_no_unfinished()
            last = await self._last_message()
            if last is None:
                raise CannotContinueError("Cannot continue: no messages in context")
            if isinstance(last[1], AssistantMessage) and last[1].stop_reason not in ("error", "aborted"):
                raise CannotContinueError("Cannot continue from message role: assistant")
            active = await self._begin("go on", ())
            return await self._play(await self._past_failure(active), ())

    async def steer(self, message: str | UserMessage) -> None:
        """Store a message and let it go in after the current turn.

        Raises:
            NotRunningError: there is no run, or it has just ended; send it as a prompt.
        """
        await self._accept(message, steering=True)

    async def follow_up(self, message: str | UserMessage) -> None:
        """Store a message and let it go in when the run would stop; errors as `steer`."""
        await self._accept(message, steering=False)

    def queued(self) -> tuple[list[str], list[str]]:
        """Give the texts that wait: steering and follow-up, oldest first."""
        if self._run is None:
            return [], []
        update = self._run.queue_update()
        return update.steering, update.follow_up

    async def clear_queue(self) -> list[UserMessage]:
        """Take back what waits; it is no longer stored and is the caller's again."""
        if self._run is None:
            return []
        taken = await self._run.give_back()
        await self._host.tell(self._run.queue_update())
        return taken

    async def set_model(self, model: Model) -> None:
        """Switch the model: an entry at once, asked from the next turn on."""
        self._host.model = model
        if self._run is not None and self._run.accepting:
            await self._run.append(model_entry(model))
        else:
            await self._record([model_entry(model)], "model", f"model {model.provider}/{model.id}")

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Switch the thinking level: an entry at once, asked for from the next turn on."""
        self._host.thinking_level = level
        if self._run is not None and self._run.accepting:
            await self._run.append(thinking_entry(level))
        else:
            await self._record([thinking_entry(level)], "thinking", f"thinking level {level}")

    # --- recovery -----------------------------------------------------------------------------------------------

    async def unfinished(self) -> UnfinishedRun | None:
        """Give the run of this branch that was cut off, None when there is none."""
        return await self._host.in_store(self._cut_off)

    async def recover(self, action: RecoverAction) -> RunOutcome | None:
        """Deal with the run that was cut off.

        In both cases every call it left open gets its one result: the stored one, or one that says whether the tool
        may have run; none is run again.

        Args:
            action: `continue` goes on where it stopped, with all it had accepted; `close` ends it as it stands.

        Returns:
            How it ended; None when it was closed or there is none.

        Raises:
            RunAliveError: another process has taken it meanwhile.
        """
        with self._host.busy("turn"):
            found = await self._host.in_store(self._cut_off)
            if found is None:
                return None
            if action == "close":
                await self._host.in_store(self._host.store.close_run, found.run)
                return None
            active = await self._host.in_store(self._host.store.adopt_run, found.run)
            await self._host.in_store(active.settle_calls)
            run = await self._past_failure(active)
            prompts: list[Message] = []
            for accepted in found.accepted:
                message = readable(accepted.message)
                run.expect(message, accepted.number, accepted.kind)
                if accepted.kind == "prompt":
                    prompts.append(message)
            return await self._play(run, prompts)

    # --- deferred answers ---------------------------------------------------------------------------------------

    async def deferred_answer(self) -> DeferredHandle | None:
        """Give the handle of the answer that the transcript waits for, None when it waits for none."""
        waiting = await self._host.in_store(self._waiting)
        return None if waiting is None else waiting.handle

    async def fetch_deferred(self, *, wait: bool = False) -> RunOutcome | None:
        """Fetch the answer that the transcript waits for, put it in its place and go on.

        Args:
            wait: Look again until it is there; `abort` ends that.

        Returns:
            How the run ended; None: the answer is not there yet, and nothing has changed.

        Raises:
            CannotError: the transcript waits for none, or the provider cannot be asked for it.
        """
        with self._host.busy("turn") as stop:
            waiting = await self._waited_for()
            handle, source = waiting.handle, self._host.deferred
            if source is None:
                raise CannotError(
                    f"Answers of {handle.provider} that come later cannot be fetched here",
                    hint="send a prompt to go on without it",
                )
            answer: AssistantMessage | None = None
            with stop.signal.cancels():
                answer = await source.fetch(handle)
                pause_ms = POLL_AFTER_MS if handle.poll_after_ms is None else handle.poll_after_ms
                while answer is None and wait:
                    await self._host.sleep(pause_ms / 1000)
                    answer = await source.fetch(handle)
            if answer is None or stop.signal.aborted:
                return None
            run = self._take(await self._take_in(waiting))
            return await self._play(run, (), came=CameLater(waiting.entry_id, answer))

    async def _take_in(self, waiting: Waiting) -> ActiveRun:
        """Begin the run that takes an answer in; of several processes that have fetched it one may."""
        summary = "fetch a deferred answer"
        while True:
            try:
                return await self._begin(summary, (), expect=waiting.leaf)
            except LeafMovedError:
                now = await self._waited_for()
                if now.entry_id != waiting.entry_id:
                    raise
                waiting = now

    async def cancel_deferred(self) -> str | None:
        """Take the waiting answer out of the context and tell the provider that nobody waits any more.

        Returns:
            Why the provider could not be told; None when it was.

        Raises:
            CannotError: the transcript waits for none.
        """
        with self._host.busy("turn"):
            waiting = await self._waited_for()
            untold = None
            try:
                if self._host.deferred is None:
                    named = waiting.handle.provider
                    raise CannotError(f"Answers of {named} that come later cannot be cancelled here")
                await self._host.deferred.cancel(waiting.handle)
            except CannotError as error:
                untold = error.message
            await self._record([omission(waiting.entry_id)], "cancel", "cancel a deferred answer")
            return untold

    async def _waited_for(self) -> Waiting:
        waiting = await self._host.in_store(self._waiting)
        if waiting is None:
            raise CannotError("The session waits for no deferred answer", hint="send a prompt")
        return waiting

    def _waiting(self) -> Waiting | None:
        store, host = self._host.store, self._host
        leaf = store.leaf(host.session_id, host.branch)
        return waiting_in(store.context(host.session_id, leaf).messages, leaf)

    # --- compaction ---------------------------------------------------------------------------------------------

    async def compact(
        self,
        *,
        focus: str | None = None,
        keep: Sequence[str] = (),
        first_kept: str | None = None,
        model: Model | None = None,
        offline: bool = False,
    ) -> CompactionDone:
        """Sum up the older part of the context; undo takes it back.

        Args:
            focus: What the summary should pay attention to.
            keep: Ids of entries that stay word for word.
            first_kept: Entry that the kept part begins with, whatever the budgets say.
            model: Model for the summary; `summary_model` by default.
            offline: Take the summary from the messages, without a model.

        Raises:
            NothingToCompactError: there is nothing to sum up.
            NoGainError, SummaryError: it must not be stored; nothing has changed.
            LeafMovedError: the branch moved elsewhere meanwhile; nothing was stored.
            PhaseBusyError: something is in progress.
        """
        host = self._host
        with host.busy("compaction"):
            await host.tell(CompactionStart(reason="manual"))
            try:
                done = await self._compact(focus, tuple(keep), first_kept, model, offline)
            except PiSessionError as error:
                aborted = isinstance(error, SummaryAbortedError)
                await host.tell(CompactionEnd(reason="manual", aborted=aborted, error_message=error.message))
                raise
            result = done.result
            await host.tell(
                CompactionEnd(
                    reason="manual",
                    entry_id=done.entry_id,
                    tokens_before=result.tokens_before,
                    tokens_after=result.tokens_after,
                )
            )
            return done

    async def _compact(
        self, focus: str | None, keep: tuple[str, ...], first_kept: str | None, model: Model | None, offline: bool
    ) -> CompactionDone:
        host = self._host
        plan, leaf = await host.in_store(self._plan_compaction, first_kept)
        result = await host.compact(
            plan, await self._level(), focus=focus, keep=keep or None, model=model, offline=offline
        )
        written = await host.in_store(
            host.store.write_checkpoint,
            host.session_id,
            [{"type": "compaction", **result.fields()}],
            planned_at=leaf,
            command="compact",
            summary=f"compact {result.tokens_before} tokens to {result.tokens_after}",
            branch=host.branch,
        )
        return CompactionDone(entry_id=written.entries[-1].id, op=written.op, result=result)

    def _plan_compaction(self, first_kept: str | None) -> tuple[CompactionPlan, str | None]:
        host = self._host
        leaf = host.store.leaf(host.session_id, host.branch)
        path = host.store.path(host.session_id, leaf)
        plan = prepare_compaction(path, host.settings.compaction(host.model), first_kept=first_kept)
        if plan is None:
            raise NothingToCompactError(
                "There is nothing to compact: all of it is kept anyway, or was compacted just now",
                hint="choose the last entry to sum up: --to ENTRY",
            )
        return plan, leaf

    # --- within -------------------------------------------------------------------------------------------------

    async def _begin(
        self, summary: str, accepted: Sequence[Message], *, expect: str | Unset | None = UNSET
    ) -> ActiveRun:
        host = self._host
        return await host.in_store(
            host.store.begin_run,
            host.session_id,
            command=host.command,
            summary=summary,
            accepted=[to_wire(message) for message in accepted],
            branch=host.branch,
            expect=expect,
        )

    def _take(self, active: ActiveRun) -> SessionRun:
        self._run = SessionRun(self._host, active, self._agent)
        return self._run

    async def _play(self, run: SessionRun, prompts: Sequence[Message], came: CameLater | None = None) -> RunOutcome:
        try:
            outcome = await run.play(prompts, came=came)
        finally:
            self._run = None
            self._agent.clear_all_queues()
        if outcome.own_branch:
            self._host.branch, self._host.diverged = outcome.branch, True
        return outcome

    async def _past_failure(self, active: ActiveRun) -> SessionRun:
        """Take a failed answer at the end out of the context, so that the run can go on from what it answered."""
        last = await self._last_message(active.leaf)
        if last is not None and isinstance(last[1], AssistantMessage) and last[1].stop_reason in ("error", "aborted"):
            await self._host.in_store(active.append, omission(last[0]))
        return self._take(active)

    async def _accept(self, message: str | UserMessage, *, steering: bool) -> None:
        if self._run is None or not self._run.accepting:
            raise NotRunningError("There is no run that this could go into", hint="send it as a prompt")
        if isinstance(message, str):
            (made,) = user_messages(message, (), self._host.clock())
            assert isinstance(made, UserMessage)
            message = made
        await self._run.accept(message, steering=steering)

    async def _check_no_unfinished(self) -> None:
        found = await self._host.in_store(self._cut_off)
        if found is not None:
            raise UnfinishedRunError(
                found.sentence(), hint="continue or close it first: --recover continue, or --recover close"
            )

    def _cut_off(self) -> UnfinishedRun | None:
        store, host = self._host.store, self._host
        branch = host.branch if host.branch is not None else store.session(host.session_id).branch
        runs = store.unfinished_runs(host.session_id)
        return next((run for run in runs if run.branch == branch and not run.alive), None)

    async def _record(self, entries: list[JsonObject], command: str, summary: str) -> None:
        host = self._host
        await host.in_store(
            host.store.append_recorded, host.session_id, entries, command=command, summary=summary, branch=host.branch
        )

    async def _level(self) -> ThinkingLevel:
        if self._host.thinking_level is not None:
            return self._host.thinking_level
        context = await self._host.in_store(self._host.store.context, self._host.session_id)
        return context.thinking_level  # type: ignore[return-value]

    def _active_entries(self) -> list[StoredEntry]:
        store, host = self._host.store, self._host
        return store.active(host.session_id, store.leaf(host.session_id, host.branch))

    async def _last_message(self, leaf: str | None = None) -> tuple[str, Message] | None:
        """Give the last message that was said and its entry, None when there is none; a prompt set is not said."""

        def read() -> tuple[str, Message] | None:
            store, host = self._host.store, self._host
            at = leaf if leaf is not None else store.leaf(host.session_id, host.branch)
            context = store.context(host.session_id, at).messages
            messages = [one for one in context if one.message.get("role") != "system"]
            return (messages[-1].entry_id, readable(messages[-1].message)) if messages else None

        return await self._host.in_store(read)
