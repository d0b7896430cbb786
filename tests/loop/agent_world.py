"""A small world for robustness tests: a scripted agent whose every part ticks, and something that happens at one tick.

A tick is a place where foreign code runs: in the model's stream, a tool, a hook, a listener. At the chosen one the
world raises, aborts the agent, or cancels the scope around the run.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from pi_loop.agent import Agent
from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, LoopEvent, ToolResult
from pi_loop.types import (
    AfterToolCall,
    BeforeToolCall,
    Model,
    Request,
    RequestSettings,
    StreamOptions,
    Tool,
    Turn,
)
from pi_sessions.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

MODEL = Model(id="m1", api="scripted", provider="scripted")


class Trouble(Exception):
    """What a part of the world raises."""


@dataclass(frozen=True)
class Plan:
    """What the model says, and what happens when.

    Args:
        turns: For each answer, how many tools it calls.
        at: The tick at which it happens, counted among ticks of `where`; 0 for never.
        where: stream, tool, hook, listener, or any.
        what: raise, abort or cancel.
        cancel_after: Besides, another task cancels the run after so many scheduler rounds; None for never.
    """

    turns: list[int]
    at: int = 0
    where: str = "any"
    what: str = "cancel"
    sequential: bool = False
    steering: bool = False
    cancel_after: int | None = None


@dataclass
class World:
    """One agent in trouble."""

    plan: Plan
    ticks: int = 0
    happened: bool = False
    listeners_entered: int = 0
    listeners_left: int = 0
    open_streams: int = 0
    running_tools: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def __post_init__(self) -> None:
        self.answers = iter(self.plan.turns)
        self.agent = Agent(
            self.stream,
            model=MODEL,
            tools=[
                Tool(
                    name="work",
                    description="work",
                    parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
                    execute=self.execute,
                    execution_mode="sequential" if self.plan.sequential else None,
                )
            ],
            before_tool_call=self.before_tool_call,
            after_tool_call=self.after_tool_call,
            prepare_request=self.prepare_request,
            prepare_next_turn_with_context=self.prepare_next_turn,
            finish_turn=self.finish_turn,
            transform_context=self.transform_context,
        )
        self.agent.subscribe(self.listener)

    async def tick(self, where: str) -> None:
        if self.plan.where in (where, "any"):
            self.ticks += 1
            if self.ticks == self.plan.at:
                self.happened = True
                if self.plan.what == "raise":
                    raise Trouble(where)
                if self.plan.what == "abort":
                    self.agent.abort()
                else:
                    self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    async def stream(
        self, model: Model, request: Request, options: StreamOptions
    ) -> AsyncIterator[AssistantMessageEvent]:
        self.open_streams += 1
        try:
            draft = AssistantDraft(model, timestamp=0)
            calls = next(self.answers, 0)
            await self.tick("stream")
            yield draft.start()
            yield draft.text_start()
            for _ in range(2):
                await self.tick("stream")
                if options.signal is not None and options.signal.aborted:
                    yield draft.error("aborted", aborted=True)
                    return
                yield draft.text_delta(0, "word ")
            yield draft.text_end(0)
            for number in range(calls):
                start = draft.toolcall_start(f"c{len(request.messages)}-{number}", "work")
                yield start
                call = ToolCall(id=f"c{len(request.messages)}-{number}", name="work", arguments={"n": number})
                yield draft.toolcall_end(start.content_index, call)
            yield draft.done("toolUse" if calls else "stop")
        finally:
            self.open_streams -= 1

    async def execute(
        self, call_id: str, args: dict, signal: object, on_update: Callable[[ToolResult], object]
    ) -> ToolResult:
        self.running_tools += 1
        try:
            await self.tick("tool")
            await on_update(ToolResult(content=[TextContent(text="half")]))
            for _ in range(args["n"] % 3):
                await self.tick("tool")
            return ToolResult(content=[TextContent(text="done")], details={})
        finally:
            self.running_tools -= 1

    async def before_tool_call(self, question: BeforeToolCall, signal: object) -> None:
        await self.tick("hook")

    async def after_tool_call(self, report: AfterToolCall, signal: object) -> None:
        await self.tick("hook")

    async def prepare_request(self, settings: RequestSettings, signal: object) -> None:
        await self.tick("hook")

    async def prepare_next_turn(self, turn: Turn, signal: object) -> None:
        await self.tick("hook")

    async def finish_turn(self, turn: Turn, signal: object) -> None:
        await self.tick("hook")

    async def transform_context(self, messages: list[Message], signal: object) -> list[Message]:
        await self.tick("hook")
        return messages

    async def listener(self, event: LoopEvent, signal: object) -> None:
        self.listeners_entered += 1
        try:
            await self.tick("listener")
        finally:
            self.listeners_left += 1

    async def run(self) -> None:
        """Run one prompt inside the scope that may be cancelled."""
        if self.plan.steering:
            self.agent.steer(UserMessage(content="by the way"))
        async with anyio.create_task_group() as group:
            with self.scope:
                if self.plan.cancel_after is not None:
                    group.start_soon(self._cancel_later, self.plan.cancel_after)
                await self.agent.prompt("go")
            group.cancel_scope.cancel()

    async def _cancel_later(self, rounds: int) -> None:
        for _ in range(rounds):
            await anyio.lowlevel.checkpoint()
        self.scope.cancel()


def problems_of(messages: list[Message]) -> list[str]:
    """What is wrong with a transcript: half messages, calls without exactly one result, results without a call."""
    found: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage) and message.stop_reason == "pending":
            found.append("a half message")
        if isinstance(message, ToolResultMessage):
            if open_calls[:1] == [message.tool_call_id]:
                open_calls.pop(0)
            else:
                found.append(f"unexpected result {message.tool_call_id}")
            continue
        if open_calls:
            found.append(f"calls without result: {open_calls}")
        answered = isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")
        open_calls = [call.id for call in message.tool_calls] if answered else []
    return found + ([f"calls without result at the end: {open_calls}"] if open_calls else [])
