"""ToolBatch: the tool calls of one message, run one after the other or together.

Invariant: after `run`, every call has exactly one result, in source order. If the run is cancelled in between,
`close` gives the calls that have none an error result, tells the sink what it has not been told, and the same holds.
A sink that raises is not repaired: the run fails as Pi's does, without results.

Source: Pi 1.6.0, "Tool batches", "Length truncation", "Abort".
"""

from collections.abc import Iterator
from enum import IntEnum

import anyio

from pi_loop.abort import AbortSignal
from pi_loop.events import (
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
)
from pi_loop.hooks import closing_sink, deliver
from pi_loop.tool_calls import (
    ABORTED,
    TRUNCATED,
    CallOutcome,
    PreparedCall,
    execute_call,
    failed,
    prepare_call,
)
from pi_loop.types import AgentContext, EventSink, LoopConfig
from pi_sessions.messages import AssistantMessage, ToolCall, ToolResultMessage


class _Told(IntEnum):
    """How much of a call the sink has been told."""

    NOTHING = 0
    START = 1
    END = 2
    MESSAGE_START = 3
    MESSAGE_END = 4


class _Call:
    """One call of the batch: its state and its events, each of which is emitted at most once."""

    __slots__ = ("_clock", "_emit", "block", "message", "outcome", "prepared", "told")

    def __init__(self, block: ToolCall, emit: EventSink, config: LoopConfig) -> None:
        self.block = block
        self._emit = emit
        self._clock = config.clock
        self.prepared: PreparedCall | None = None
        self.outcome: CallOutcome | None = None
        self.message: ToolResultMessage | None = None
        self.told = _Told.NOTHING

    async def tell_start(self) -> None:
        self.told = _Told.START
        block = self.block
        await deliver(self._emit, ToolExecutionStart(tool_call_id=block.id, tool_name=block.name, args=block.arguments))

    async def tell_update(self, partial: ToolResult) -> None:
        block = self.block
        event = ToolExecutionUpdate(
            tool_call_id=block.id, tool_name=block.name, args=block.arguments, partial_result=partial
        )
        await deliver(self._emit, event)

    async def tell_end(self, outcome: CallOutcome) -> None:
        self.outcome = outcome
        self.told = _Told.END
        event = ToolExecutionEnd(
            tool_call_id=self.block.id,
            tool_name=self.block.name,
            result=outcome.result,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
        )
        await deliver(self._emit, event)

    async def tell_message(self) -> None:
        message = self.result_message()
        if self.told < _Told.MESSAGE_START:
            self.told = _Told.MESSAGE_START
            await deliver(self._emit, MessageStart(message=message))
        self.told = _Told.MESSAGE_END
        await deliver(self._emit, MessageEnd(message=message))

    def result_message(self) -> ToolResultMessage:
        """Make the message once; a call without an outcome was aborted."""
        if self.message is None:
            self.outcome = self.outcome or failed(self.block, ABORTED)
            self.message = _result_message(self.outcome, self._clock())
        return self.message

    async def close(self, emit: EventSink) -> None:
        """Tell the sink what is missing, in order."""
        self._emit = emit
        if self.told < _Told.START:
            await self.tell_start()
        if self.told < _Told.END:
            await self.tell_end(self.outcome or failed(self.block, ABORTED))
        if self.told < _Told.MESSAGE_END:
            await self.tell_message()


def _result_message(outcome: CallOutcome, timestamp: float) -> ToolResultMessage:
    result = outcome.result
    fields: dict[str, object] = {
        "tool_call_id": outcome.tool_call.id,
        "tool_name": outcome.tool_call.name,
        "content": result.content or [],
    }
    if "details" in result.model_fields_set:
        fields["details"] = result.details
    if result.usage is not None:
        fields["usage"] = result.usage
    fields |= {"is_error": outcome.is_error, "timestamp": timestamp}
    if outcome.duration_ms is not None:
        fields["duration_ms"] = outcome.duration_ms
    return ToolResultMessage.model_validate(fields)


class ToolBatch:
    """The calls of one assistant message."""

    def __init__(
        self,
        message: AssistantMessage,
        context: AgentContext,
        config: LoopConfig,
        emit: EventSink,
        signal: AbortSignal | None,
    ) -> None:
        self._message = message
        self._context = context
        self._config = config
        self._emit = emit
        self._signal = signal
        self._calls = [_Call(block, emit, config) for block in message.tool_calls]

    @property
    def is_empty(self) -> bool:
        """Whether the message calls no tool."""
        return not self._calls

    @property
    def messages(self) -> list[ToolResultMessage]:
        """The results in source order; a call without an outcome counts as aborted."""
        return [call.result_message() for call in self._calls]

    @property
    def terminates(self) -> bool:
        """Whether every result asks to end the run, with exactly true."""
        return bool(self._calls) and all(
            call.outcome is not None and call.outcome.result.terminate is True for call in self._calls
        )

    async def run(self) -> None:
        """Run all calls and emit their events and result messages.

        Raises:
            Exception: what the sink raised.
        """
        if self._message.stop_reason == "length":
            await self._fail_truncated()
        elif self._is_sequential():
            await self._run_sequential()
        else:
            await self._run_parallel()

    async def close(self) -> None:
        """After a cancellation: give every call its result and tell the sink, as far as it takes it in time."""
        sink = closing_sink(self._emit)
        for call in self._calls:
            await call.close(sink)

    def _is_sequential(self) -> bool:
        if self._config.tool_execution == "sequential":
            return True
        modes: dict[str, str | None] = {}
        for tool in self._context.tools or ():
            modes.setdefault(tool.name, tool.execution_mode)
        return any(modes.get(call.block.name) == "sequential" for call in self._calls)

    async def _fail_truncated(self) -> None:
        for call in self._calls:
            await call.tell_start()
            await call.tell_end(failed(call.block, TRUNCATED.format(name=call.block.name)))
            await call.tell_message()

    async def _run_sequential(self) -> None:
        for call in self._calls:
            await call.tell_start()
            outcome = await self._prepare(call)
            await call.tell_end(outcome or await self._execute(call))
            await call.tell_message()

    async def _run_parallel(self) -> None:
        for call in self._calls:
            await call.tell_start()
            outcome = await self._prepare(call)
            if outcome is not None:
                await call.tell_end(outcome)
        ready = [call for call in self._calls if call.outcome is None]
        if len(ready) == 1:
            await self._start(ready[0])
        elif ready:
            await self._run_together(ready)
        for call in self._calls:
            await call.tell_message()

    async def _run_together(self, calls: list[_Call]) -> None:
        # A scheduler may start tasks in any order (trio's does). So the tasks are alike, and each takes the next call
        # when it comes to run: the tools are entered in source order, one after the other, whatever the scheduler does.
        waiting = iter(calls)
        failures: list[Exception] = []
        async with anyio.create_task_group() as group:
            for _ in calls:
                group.start_soon(self._work, waiting, failures, group.cancel_scope)
        if failures:
            raise failures[0]

    async def _work(self, waiting: Iterator[_Call], failures: list[Exception], scope: anyio.CancelScope) -> None:
        try:
            await self._start(next(waiting))
        except Exception as error:  # noqa: BLE001 - raised again by the batch, without a group around it
            failures.append(error)
            scope.cancel()

    async def _prepare(self, call: _Call) -> CallOutcome | None:
        prepared = await prepare_call(
            call.block,
            assistant_message=self._message,
            context=self._context,
            hooks=self._config,
            signal=self._signal,
        )
        if isinstance(prepared, CallOutcome):
            return prepared
        call.prepared = prepared
        return None

    async def _start(self, call: _Call) -> None:
        if self._signal is not None and self._signal.aborted:
            await call.tell_end(failed(call.block, ABORTED))
        else:
            await call.tell_end(await self._execute(call))

    async def _execute(self, call: _Call) -> CallOutcome:
        if call.prepared is None:
            raise RuntimeError(f"Call {call.block.id} was not prepared")
        call.outcome = await execute_call(
            call.prepared,
            assistant_message=self._message,
            context=self._context,
            hooks=self._config,
            signal=self._signal,
            on_update=call.tell_update,
        )
        return call.outcome
