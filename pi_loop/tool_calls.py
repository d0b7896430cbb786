"""One tool call: find the tool, prepare and validate the arguments, ask the hooks, execute, finalize.

A failure of the tool, of its arguments or of a hook is data: an error result with the failure's text. Only a failing
progress sink fails the caller, once the tool has settled. Which calls run together is `pi_loop.batch`'s business.

Source: Pi 1.6.0, "Tool batches", "Nested calls".
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import anyio
import sniffio

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.hooks import error_text, settle
from pi_loop.types import (
    AfterToolCall,
    AfterToolCallHook,
    AgentContext,
    BeforeToolCall,
    BeforeToolCallHook,
    Clock,
    OnUpdate,
    Tool,
    wall_clock_ms,
)
from pi_loop.validation import validate_arguments
from pi_sessions.messages import AssistantMessage, JsonObject, Number, TextContent, ToolCall

ABORTED = "Operation aborted"
TRUNCATED = (
    'Tool call "{name}" was not executed: the response hit the output token limit, so its arguments may be truncated. '
    "Re-issue the tool call with complete arguments."
)


class CallHooks(Protocol):
    """The two hooks around a call; a `LoopConfig` has them."""

    @property
    def before_tool_call(self) -> BeforeToolCallHook | None: ...
    @property
    def after_tool_call(self) -> AfterToolCallHook | None: ...
    @property
    def clock(self) -> Clock: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedHooks:
    """Hooks and clock for `run_tool_call`, where there is no `LoopConfig` at hand."""

    before_tool_call: BeforeToolCallHook | None = None
    after_tool_call: AfterToolCallHook | None = None
    clock: Clock = wall_clock_ms


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What came of a call; `duration_ms` is None when the tool was not entered."""

    tool_call: ToolCall
    result: ToolResult
    is_error: bool
    duration_ms: Number | None = None


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that may be executed: its tool and its validated arguments."""

    tool_call: ToolCall
    tool: Tool
    args: JsonObject


def error_result(text: str) -> ToolResult:
    """Give the result of a call that failed."""
    return ToolResult(content=[TextContent(text=text)], details={})


def failed(tool_call: ToolCall, text: str) -> CallOutcome:
    """Give the outcome of a call that was not executed."""
    return CallOutcome(tool_call, error_result(text), True)


async def prepare_call(
    tool_call: ToolCall,
    *,
    assistant_message: AssistantMessage,
    context: AgentContext,
    hooks: CallHooks,
    signal: AbortSignal | None,
    tools: list[Tool] | None = None,
) -> PreparedCall | CallOutcome:
    """Take a call up to where it can be executed, or to its error result.

    Args:
        tool_call: The model's own block.
        tools: Where to look the name up; without it, the context's tools.

    Source: Pi 1.6.0, "Prepare".
    """
    if signal is not None and signal.aborted:
        return failed(tool_call, ABORTED)
    candidates = (context.tools if tools is None else tools) or ()
    tool = next((tool for tool in candidates if tool.name == tool_call.name), None)
    if tool is None:
        return failed(tool_call, f"Tool {tool_call.name} not found")
    try:
        raw = tool_call.arguments
        if tool.prepare_arguments is not None:
            raw = tool.prepare_arguments(raw)
        args = validate_arguments(tool, raw, tool_call.arguments_error)
        if hooks.before_tool_call is not None:
            question = BeforeToolCall(assistant_message, tool_call, args, context)
            decision = await settle(hooks.before_tool_call(question, signal))
            if signal is not None and signal.aborted:
                return failed(tool_call, ABORTED)
            if decision is not None and decision.block:
                outcome = failed(tool_call, decision.reason or "Tool execution was blocked")
                if decision.terminate is True:
                    return CallOutcome(tool_call, outcome.result.model_copy(update={"terminate": True}), True)
                return outcome
    except Exception as error:  # noqa: BLE001 - any failure of foreign code is the call's result
        return failed(tool_call, error_text(error))
    return PreparedCall(tool_call, tool, args)


class _Progress:
    """The `on_update` of one execution: passes updates on while the tool runs and remembers the first failure."""

    __slots__ = ("_accepting", "_idle", "_running", "_sink", "failure")

    def __init__(self, sink: OnUpdate | None) -> None:
        self._sink = sink
        self._accepting = True
        self._running = 0
        self._idle: anyio.Event | None = None
        self.failure: Exception | None = None

    async def __call__(self, partial: ToolResult) -> None:
        if not self._accepting or self._sink is None:
            return
        self._running += 1
        try:
            await self._sink(partial)
        except Exception as error:  # noqa: BLE001 - a failing sink fails the run, not the tool
            self.failure = self.failure or error
        finally:
            self._running -= 1
            if self._running == 0 and self._idle is not None:
                self._idle.set()

    async def close(self) -> None:
        """Ignore later updates, wait for those on their way, and raise what a sink raised."""
        self._accepting = False
        if self._running:
            self._idle = anyio.Event()
            await self._idle.wait()
        if self.failure is not None:
            raise self.failure


async def execute_call(
    call: PreparedCall,
    *,
    assistant_message: AssistantMessage,
    context: AgentContext,
    hooks: CallHooks,
    signal: AbortSignal | None,
    on_update: OnUpdate | None,
) -> CallOutcome:
    """Run a prepared call and finalize its result; the tool is entered before anything is awaited.

    Raises:
        Exception: what `on_update` raised; the tool has settled by then.

    Source: Pi 1.6.0, "Execute", "Finalize".
    """
    progress = _Progress(on_update)
    started = hooks.clock()
    try:
        result = await call.tool.execute(call.tool_call.id, call.args, signal, progress)
        if not isinstance(result, ToolResult):
            raise TypeError(f"Tool {call.tool.name} returned no result but {type(result).__name__}")
        is_error = result.is_error is True
    except Exception as error:  # noqa: BLE001 - a failing tool is data
        result, is_error = error_result(error_text(error)), True
    except anyio.get_cancelled_exc_class() as error:
        if _is_cancelled():
            raise
        # The tool awaited something that others cancelled; nobody cancelled this call.
        result, is_error = error_result(error_text(error)), True
    duration = max(0, hooks.clock() - started)
    await progress.close()
    if hooks.after_tool_call is not None:
        report = AfterToolCall(assistant_message, call.tool_call, call.args, result, is_error, context)
        try:
            change = await settle(hooks.after_tool_call(report, signal))
            if change is not None:
                result, is_error = _replace(result, is_error, change)
        except Exception as error:  # noqa: BLE001 - a failing hook is the call's result
            result, is_error = error_result(error_text(error)), True
    return CallOutcome(call.tool_call, result, is_error, duration)


def _is_cancelled() -> bool:
    if sniffio.current_async_library() == "asyncio":
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return True
    return anyio.get_current_task().has_pending_cancellation()


def _replace(result: ToolResult, is_error: bool, change: ToolResult) -> tuple[ToolResult, bool]:
    """Apply an answer of `after_tool_call`: its fields that are not None replace."""
    names = ("content", "details", "usage", "terminate", "structured_content")
    given = {name: value for name in names if (value := getattr(change, name)) is not None}
    replaced = result.model_copy(update=given)
    if "content" in given and "structured_content" not in given:
        # Structured content that was not replaced along with the content may no longer match it.
        replaced = replaced.model_copy(update={"structured_content": None})
        replaced.model_fields_set.discard("structured_content")
    return replaced, is_error if change.is_error is None else bool(change.is_error)


async def run_tool_call(
    tool_call: ToolCall,
    *,
    assistant_message: AssistantMessage,
    context: AgentContext,
    signal: AbortSignal | None = None,
    hooks: CallHooks | None = None,
    tools: list[Tool] | None = None,
    on_update: OnUpdate | None = None,
) -> CallOutcome:
    """Run one call inside another tool: the same steps and hooks, but no events and no messages.

    Args:
        tool_call: The call to make.
        assistant_message: The message the outer call belongs to.
        context: The outer call's context; its tools are used unless `tools` is given.
        hooks: Hooks around the call; a run's `LoopConfig` fits.
        on_update: Gets the tool's progress; without it, progress goes nowhere.

    Returns:
        The outcome; failures of the call come back as errors.

    Raises:
        Exception: what `on_update` raised.

    Source: Pi 1.6.0, "Nested calls".
    """
    hooks = hooks or NestedHooks()
    prepared = await prepare_call(
        tool_call, assistant_message=assistant_message, context=context, hooks=hooks, signal=signal, tools=tools
    )
    if isinstance(prepared, CallOutcome):
        return prepared
    return await execute_call(
        prepared, assistant_message=assistant_message, context=context, hooks=hooks, signal=signal, on_update=on_update
    )
