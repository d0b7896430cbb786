"""SessionRun: one run of a stored session, from the accepted prompt to its recorded end.

    load context from the store -> compact if it is too long -> agent: each message is stored when it ends
      -> the answer failed and may succeed later: omit it, wait, go on
      -> the context was too long: compact, omit the failed answer, go on; once per overflow
      -> answered: compact if it has become too long, then what was queued meanwhile

Invariants: accepted messages, started calls and finished messages are on disk before the next effect; every message
hangs under the one before it, whatever the session's leaf is by then; after the end every call has one result and
nothing accepted is lost. A run that ends by a failing store stays unfinished and is found when the session is opened.

Source: Pi 1.6.0, the coding agent's session: retry, overflow, automatic compaction.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from pi_loop.abort import AbortSignal
from pi_loop.agent import Agent
from pi_loop.events import (
    LoopEvent,
    MessageEnd,
    ToolExecutionEnd,
    ToolResult,
)
from pi_loop.hooks import CLOSING_LIMIT_S
from pi_loop.providers.errors import Failure, failure_of, is_overflow
from pi_loop.providers.retry import RetryPolicy, wait_ms
from pi_loop.runner_deferred import CameLater, answering_first
from pi_loop.runner_host import RunnerHost
from pi_loop.runner_messages import loop_messages, prompt_change
from pi_loop.runner_types import (
    BranchDiverged,
    CompactionEnd,
    CompactionReason,
    CompactionStart,
    EntryStored,
    NotRunningError,
    QueueUpdate,
    RetryEnd,
    RetryStart,
    RunEnd,
    RunOutcome,
    RunStart,
    RunStatus,
)
from pi_loop.types import AgentContext, Model, NextTurnChange, OnUpdate, Tool, Turn
from pi_sessions.compaction import CompactionPlan, NoGainError, prepare_compaction
from pi_sessions.context import active_entries, project_entries
from pi_sessions.errors import PiSessionError
from pi_sessions.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    ThinkingLevel,
    ToolResultMessage,
    UserMessage,
    block_texts,
    to_wire,
)
from pi_sessions.stored import StoredEntry
from pi_sessions.summaries import SummaryAbortedError, SummaryError
from pi_sessions.tokens import believed_size, should_compact

if TYPE_CHECKING:
    from pi_sessions.runs import ActiveRun

ABORTED = "Operation aborted"


class SessionRun:
    """One run; made by `SessionRunner`, used once.

    Args:
        host: The session.
        active: The run as the store keeps it.
        agent: Idle; its queues are the run's.
    """

    def __init__(self, host: RunnerHost, active: "ActiveRun", agent: Agent) -> None:
        self._host = host
        self._active = active
        self._agent = agent
        # By identity: the number of the accepted message that a message of the loop is, and the message, kept alive.
        self._waiting: dict[int, tuple[int, Message]] = {}
        self._came: CameLater | None = None
        self._answer: AssistantMessage | None = None
        self._answer_id = ""
        self._open_results = 0
        self._told_branch = active.branch
        self._retries_in_a_row = 0
        self._overflowed = False
        self._compaction_failed = False
        self._told_nothing_to_cut = False
        self._failed_store: PiSessionError | None = None
        self._model = host.model
        self._level: ThinkingLevel = "off"
        self._retries = 0
        self._compactions = 0
        self._notes: list[str] = []
        self._arrivals = anyio.Lock()
        self.accepting = True

    # --- from outside -------------------------------------------------------------------------------------------

    async def accept(self, message: UserMessage, *, steering: bool) -> None:
        """Store a message for the run, then queue it."""
        kind = "steering" if steering else "follow_up"
        async with self._arrivals:
            if not self.accepting:
                raise NotRunningError("The run has just ended", hint="send it as a prompt")
            number = await self._host.in_store(self._active.accept, kind, to_wire(message))
            self.expect(message, number, kind)
        await self._host.tell(self.queue_update())

    def expect(self, message: Message, number: int, kind: str) -> None:
        """Take in an accepted message that is stored already."""
        self._waiting[id(message)] = (number, message)
        if kind == "steering":
            self._agent.steer(message)
        elif kind == "follow_up":
            self._agent.follow_up(message)

    def queued(self) -> tuple[list[UserMessage], list[UserMessage]]:
        """Give what waits: steering and follow-up messages, oldest first."""
        return _users(self._agent.queued_steering), _users(self._agent.queued_follow_up)

    def queue_update(self) -> QueueUpdate:
        """Give what waits as an event."""
        steering, follow_up = self.queued()
        return QueueUpdate(steering=[_text(one) for one in steering], follow_up=[_text(one) for one in follow_up])

    async def give_back(self) -> list[UserMessage]:
        """Empty the queues, in the store too; the messages are the caller's again."""
        steering, follow_up = self.queued()
        self._agent.clear_all_queues()
        messages = [*steering, *follow_up]
        numbers = [self._waiting.pop(id(one))[0] for one in messages if id(one) in self._waiting]
        await self._host.in_store(self._active.forget, numbers)
        return messages

    async def append(self, entry: JsonObject) -> StoredEntry:
        """Append an entry of the host's (a switch of model or level) in its place in the run."""
        stored = await self._host.in_store(self._active.append, entry)
        await self._tell_stored(stored)
        return stored

    # --- the run ------------------------------------------------------------------------------------------------

    async def play(self, prompts: Sequence[Message] = (), *, came: CameLater | None = None) -> RunOutcome:
        """Run to the end and record it.

        Args:
            prompts: Accepted messages to begin with; without any the run goes on from the transcript.
            came: A deferred answer that is there now and stands for the first request.

        Raises:
            StoreError: the store failed; the run stays unfinished.
            Exception: what a listener raised twice.
        """
        try:
            self._came = came
            outcome = await self._play(list(prompts))
        except PiSessionError:
            raise
        except BaseException:
            # Cancelled, or a listener that fails for good: the transcript is whole, so the run can end as it stands.
            with anyio.CancelScope(deadline=anyio.current_time() + CLOSING_LIMIT_S, shield=True):
                if self._failed_store is None:
                    await self._host.in_store(self._close_store, "aborted")
            raise
        finally:
            self.accepting = False
            self._active.release()
        await self._host.tell(
            RunEnd(
                session_id=outcome.session_id,
                status=outcome.status,
                branch=outcome.branch,
                leaf=outcome.leaf,
                op=outcome.op,
                own_branch=outcome.own_branch,
                error_message=outcome.error,
            )
        )
        return outcome

    async def _play(self, prompts: list[Message]) -> RunOutcome:
        active, host = self._active, self._host
        await host.tell(RunStart(session_id=host.session_id, branch=active.branch, op=active.op))
        if active.diverged:
            await self._tell_diverged()
        await self._put_settings_in_force(is_continuation=not prompts)
        if prompts:
            await self._compact_if_needed()
        status: RunStatus = "aborted" if host.is_stopped else await self._passes(prompts)
        async with self._arrivals:
            self.accepting = False
        given_back = await self.give_back()
        await host.in_store(self._close_store, status)
        return self._outcome(status, tuple(given_back))

    async def _passes(self, prompts: list[Message]) -> RunStatus:
        """Let the agent run until nothing is left to do; gives how it ended."""
        while True:
            await self._pass(prompts)
            prompts = []
            answer = self._answer
            if answer is None:
                return "done"
            if answer.stop_reason == "aborted" or self._host.is_stopped:
                return "aborted"
            if is_overflow(answer, self._model.context_window) and answer.stop_reason in ("error", "length"):
                if await self._recover_from_overflow():
                    continue
                return self._after_failure(answer)
            failure = failure_of(answer)
            if failure is not None:
                if failure.retryable and await self._wait_to_retry(failure):
                    continue
                return self._after_failure(answer)
            await self._compact_if_needed()
            if self._host.is_stopped:
                return "aborted"
            async with self._arrivals:
                if not self._agent.has_queued_messages:
                    self.accepting = False
                    return "done"

    def _after_failure(self, answer: AssistantMessage) -> RunStatus:
        if self._host.is_stopped:
            return "aborted"
        return "error" if answer.stop_reason == "error" else "done"

    async def _pass(self, prompts: list[Message]) -> None:
        """One run of the agent on what the store holds."""
        host, agent = self._host, self._agent
        messages = await self._load()
        agent.state.messages = messages
        agent.state.model = self._model = host.model
        agent.state.thinking_level = self._level
        agent.state.tools = [self._recorded(tool) for tool in host.tools]
        agent.prepare_next_turn_with_context = self._between_turns
        agent.stream_fn = host.stream_fn if self._came is None else answering_first(self._came.answer, host.stream_fn)
        if host.stop is None or host.is_stopped:
            return
        unsubscribe = agent.subscribe(self._hear)
        forget = host.stop.signal.on_abort(agent.abort)
        try:
            if prompts:
                change = prompt_change(messages, host.system, host.clock())
                await agent.prompt([*([change] if change is not None else []), *prompts])
            elif messages and (agent.has_queued_messages or _is_unanswered(messages)):
                await agent.continue_()
        finally:
            forget()
            unsubscribe()
        if self._failed_store is not None:
            raise self._failed_store

    async def _load(self) -> list[Message]:
        context = await self._host.in_store(self._host.store.context, self._host.session_id, self._active.leaf)
        came = self._came
        if came is not None:
            shown = tuple(one for one in context.messages if one.entry_id != came.entry_id)
            context = context.replace(messages=shown)
        return loop_messages(context)

    async def _put_settings_in_force(self, *, is_continuation: bool) -> None:
        """Write a model or level that is not in force yet as an entry, before anything is asked."""
        host = self._host
        context = await host.in_store(host.store.context, host.session_id, self._active.leaf)
        entries: list[JsonObject] = []
        named = context.model
        if named is None or (named.provider, named.model_id) != (host.model.provider, host.model.id):
            entries.append(model_entry(host.model))
        level = host.thinking_level or context.thinking_level
        self._level = level if level in _LEVELS else "off"  # type: ignore[assignment]
        if self._level != context.thinking_level or self._active.leaf is None:
            entries.append(thinking_entry(self._level))
        if is_continuation:
            change = prompt_change(loop_messages(context), host.system, host.clock())
            if change is not None:
                entries.append({"type": "message", "message": to_wire(change)})
        if entries:
            for stored in await host.in_store(self._active.append_many, entries):
                await self._tell_stored(stored)

    # --- events of the agent ------------------------------------------------------------------------------------

    async def _hear(self, event: LoopEvent, signal: AbortSignal) -> None:
        """Store what has to be on disk, then tell the listeners."""
        if self._failed_store is not None:
            raise self._failed_store
        try:
            if isinstance(event, MessageEnd):
                await self._store(event.message)
            elif isinstance(event, ToolExecutionEnd) and self._open_results > 1:
                result = _result_message(event, self._host.clock())
                await self._host.in_store(self._active.finish_call, self._answer_id, event.tool_call_id, result)
        except PiSessionError as error:
            self._failed_store = error
            raise
        await self._host.tell(event)

    async def _store(self, message: Message) -> None:
        number, _ = self._waiting.pop(id(message), (None, None))
        was_queued = number is not None and number not in self._active.numbers
        entry: JsonObject = {"type": "message", "message": to_wire(message)}
        entries, taken = [entry], [] if number is None else [number]
        if self._came is not None and isinstance(message, AssistantMessage):
            # Both or neither: what is waited for goes when what came is there.
            entries, self._came = [omission(self._came.entry_id), entry], None
        *_, stored = await self._host.in_store(self._active.append_many, entries, taken=taken)
        if isinstance(message, AssistantMessage):
            self._answer, self._answer_id = message, stored.id
            failed = message.stop_reason in ("error", "aborted")
            self._open_results = 0 if failed else len(message.tool_calls)
            if not failed:
                await self._answered()
        elif isinstance(message, ToolResultMessage):
            self._open_results -= 1
        await self._tell_stored(stored)
        if was_queued:
            await self._host.tell(self.queue_update())

    async def _answered(self) -> None:
        self._overflowed = self._overflowed and is_overflow(self._answer, self._model.context_window)  # type: ignore[arg-type]
        if self._retries_in_a_row:
            await self._host.tell(RetryEnd(success=True, attempt=self._retries_in_a_row))
            self._retries_in_a_row = 0

    async def _tell_stored(self, stored: StoredEntry) -> None:
        branch = self._active.branch
        event = EntryStored(entry_id=stored.id, parent_id=stored.parent_id, entry_type=stored.type, branch=branch)
        await self._host.tell(event)
        if branch != self._told_branch:
            await self._tell_diverged()

    async def _tell_diverged(self) -> None:
        active = self._active
        self._told_branch = active.branch
        goes_on = f"goes on on its own branch {active.branch}"
        beside = f"This run {goes_on}, beside {active.from_branch}"
        sentence = beside if active.why is None else f"{active.why}: this run {goes_on}"
        await self._host.tell(
            BranchDiverged(
                session_id=active.session_id, branch=active.branch, from_branch=active.from_branch, message=sentence
            )
        )

    def _recorded(self, tool: Tool) -> Tool:
        """Give a tool whose calls are on disk as started before they have any effect."""

        async def execute(
            call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate
        ) -> ToolResult:
            await self._host.in_store(self._active.start_call, self._answer_id, call_id, tool.name)
            if signal is not None and signal.aborted:
                raise RuntimeError(ABORTED)
            return await tool.execute(call_id, args, signal, on_update)

        return replace(tool, execute=execute)

    # --- retry and overflow -------------------------------------------------------------------------------------

    async def _wait_to_retry(self, failure: Failure) -> bool:
        """Take the failed answer out of the context and wait; False: give up."""
        settings, host = self._host.settings.retry(), self._host
        policy = RetryPolicy(attempts=settings.max_retries + 1 if settings.enabled else 1, base_ms=settings.base_ms)
        attempt = self._retries_in_a_row + 1
        wait = wait_ms(failure, attempt, policy, random=host.random, longest_asked_ms=settings.longest_asked_ms)
        if wait is None:
            if self._retries_in_a_row:
                await host.tell(RetryEnd(success=False, attempt=self._retries_in_a_row, final_error=failure.message))
            return False
        self._retries_in_a_row = attempt
        self._retries += 1
        await host.tell(
            RetryStart(attempt=attempt, max_attempts=settings.max_retries, delay_ms=wait, error_message=failure.message)
        )
        await self.append(omission(self._answer_id))
        assert host.stop is not None
        with host.stop.signal.cancels():
            await host.sleep(wait / 1000)
        return not host.is_stopped

    async def _recover_from_overflow(self) -> bool:
        """Compact once and take the failed answer out of the context; False: nothing more can be done."""
        if self._overflowed or self._compaction_failed:
            return False
        if not self._host.settings.compaction(self._model).enabled:
            return False
        self._overflowed = True
        return await self._compact("overflow", omission(self._answer_id))

    async def _compact_if_needed(self) -> bool:
        if not await self._is_too_long() or self._compaction_failed or self._host.is_stopped:
            return False
        return await self._compact("threshold")

    async def _is_too_long(self) -> bool:
        settings, window = self._host.settings.compaction(self._model), self._model.context_window
        if window <= 0 or not settings.enabled:
            return False
        entries = await self._host.in_store(self._host.store.active, self._host.session_id, self._active.leaf)
        return should_compact(believable_size(entries), window, settings)

    async def _compact(self, reason: CompactionReason, omitted: JsonObject | None = None) -> bool:
        """Compact in the middle of a run; False: it was not possible, and nothing has changed.

        Args:
            omitted: An edit that has to come with it, both or neither.
        """
        host = self._host
        entries = [] if omitted is None else [omitted]
        plan = await self._plan(entries)
        if plan is None and self._told_nothing_to_cut:
            return False
        await host.enter("compaction")
        await host.tell(CompactionStart(reason=reason))
        try:
            done = await self._compacted(reason, entries, plan)
        except (SummaryError, NoGainError) as error:
            self._compaction_failed = True
            aborted = isinstance(error, SummaryAbortedError)
            if not aborted:
                self._notes.append(f"Not compacted: {error.message}")
            done = CompactionEnd(reason=reason, aborted=aborted, error_message=error.message)
        await host.tell(done)
        await host.enter("turn")
        return done.entry_id is not None

    async def _plan(self, entries: list[JsonObject]) -> CompactionPlan | None:
        """Give what would be summed up once these entries are stored; None: there is no place to cut yet."""
        host = self._host
        path = await host.in_store(host.store.path, host.session_id, self._active.leaf)
        virtual = [StoredEntry.from_dict({**entry, "id": f"edit-{place}"}) for place, entry in enumerate(entries)]
        return prepare_compaction([*path, *virtual], host.settings.compaction(self._model))

    async def _compacted(
        self, reason: CompactionReason, entries: list[JsonObject], plan: CompactionPlan | None
    ) -> CompactionEnd:
        host, active = self._host, self._active
        if plan is None:
            # No failure: once there is more to cut, a later turn can be compacted. It is told once.
            self._told_nothing_to_cut = True
            return CompactionEnd(reason=reason, error_message="There is nothing to compact")
        result = await host.compact(plan, self._level)
        stored = await host.in_store(active.append_many, [*entries, {"type": "compaction", **result.fields()}])
        for entry in stored:
            await self._tell_stored(entry)
        self._compactions += 1
        return CompactionEnd(
            reason=reason,
            entry_id=stored[-1].id,
            tokens_before=result.tokens_before,
            tokens_after=result.tokens_after,
            will_retry=reason == "overflow",
        )

    async def _between_turns(self, turn: Turn, signal: AbortSignal | None) -> NextTurnChange | None:
        """Before each further turn: switches of model and level count now, a context too long is compacted."""
        host = self._host
        model = host.model if host.model != self._model else None
        level = host.thinking_level if host.thinking_level not in (None, self._level) else None
        self._model, self._level = host.model, level or self._level
        context = None
        if await self._compact_if_needed():
            context = AgentContext(await self._load(), turn.context.tools)
        if model is None and level is None and context is None:
            return None
        return NextTurnChange(model=model, thinking_level=level, context=context)

    # --- the end ------------------------------------------------------------------------------------------------

    def _close_store(self, status: str) -> None:
        """Leave a whole transcript: no call without its result, nothing accepted that is not in it."""
        active = self._active
        with active.transaction():
            active.settle_calls()
            active.take_accepted()
            active.finish(status)

    def _outcome(self, status: RunStatus, given_back: tuple[UserMessage, ...]) -> RunOutcome:
        active, answer = self._active, self._answer
        error = answer.error_message if answer is not None and status == "error" else None
        return RunOutcome(
            session_id=active.session_id,
            status=status,
            message=answer,
            error=error,
            branch=active.branch,
            own_branch=active.diverged,
            from_branch=active.from_branch,
            leaf=active.leaf,
            op=active.op,
            retries=self._retries,
            compactions=self._compactions,
            notes=tuple(self._notes),
            given_back=given_back,
        )


_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


def believable_size(entries: Sequence[StoredEntry]) -> int:
    """Give the size of a context in tokens: as measured, unless the estimate says that this cannot be."""
    return believed_size(project_entries(active_entries(entries)), entries).tokens


def model_entry(model: Model) -> JsonObject:
    """Give the entry that puts a model in force."""
    return {"type": "model_change", "provider": model.provider, "modelId": model.id}


def thinking_entry(level: ThinkingLevel) -> JsonObject:
    """Give the entry that puts a thinking level in force."""
    return {"type": "thinking_level_change", "thinkingLevel": level}


def omission(entry_id: str) -> JsonObject:
    """Give the context edit that takes a message out of the context."""
    return {"type": "context_edit", "targetId": entry_id, "replacement": None}


def _result_message(event: ToolExecutionEnd, timestamp: int | float) -> JsonObject:
    """Give the message that a finished call will have, for the case that the process ends before it is stored."""
    result = to_wire(event.result)
    message: JsonObject = {
        "role": "toolResult",
        "toolCallId": event.tool_call_id,
        "toolName": event.tool_name,
        "content": result.get("content") or [],
    }
    message |= {name: result[name] for name in ("details", "usage") if name in result}
    return {**message, "isError": event.is_error, "timestamp": timestamp}


def _is_unanswered(messages: Sequence[Message]) -> bool:
    """Whether the last message that was said is no answer; a prompt that was set after it is not said."""
    said = [message for message in messages if message.role != "system"]
    return bool(said) and said[-1].role != "assistant"


def _users(messages: Sequence[Message]) -> list[UserMessage]:
    return [message for message in messages if isinstance(message, UserMessage)]


def _text(message: UserMessage) -> str:
    return " ".join(block_texts(message.content))
