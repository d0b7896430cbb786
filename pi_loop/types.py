"""What a run is made of: models, requests, tools, hooks, and the places where other code plugs in.

Everything here is data or a protocol; nothing runs. A `StreamFn` is a model, a `Tool` is what it may call, a
`LoopConfig` is one run's settings and hooks. Hooks may be plain or async functions.

Source: Pi 1.6.0, "Hooks", "Message and event shapes".
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import Field, JsonValue

from pi_loop.abort import AbortSignal
from pi_loop.events import AssistantMessageEvent, LoopEvent, ToolResult
from pi_loop.partial import PartialView
from pi_sessions.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    Number,
    ThinkingLevel,
    ToolCall,
    ToolDeclaration,
    ToolResultMessage,
    WireModel,
)

T = TypeVar("T")
# A hook's answer, given at once or awaited.
Answer: TypeAlias = T | Awaitable[T]
Clock: TypeAlias = Callable[[], Number]


def wall_clock_ms() -> int:
    """Give the time as Unix milliseconds; the default of every `clock`."""
    return time.time_ns() // 1_000_000


class LoopError(RuntimeError):
    """A run cannot be started as asked; the message says why."""


class AgentBusyError(LoopError):
    """The agent is in the middle of a run."""


class CannotContinueError(LoopError):
    """The transcript does not end where a continuation can begin."""


class NoStreamFnError(LoopError):
    """Neither the call nor `set_default_stream_fn` gave a stream function."""

    def __init__(self) -> None:
        super().__init__(
            "No default stream function configured. Pass stream_fn explicitly or call set_default_stream_fn()."
        )


# --- model and request ------------------------------------------------------------------------------------------


class ModelCost(WireModel):
    """Prices in US dollars per million tokens."""

    input: Number = 0
    output: Number = 0
    cache_read: Number = 0
    cache_write: Number = 0


class Model(WireModel):
    """A model as Pi's `models.json` names its fields; unknown fields are kept.

    `context_window` and `max_tokens` are tokens, 0 where unknown; `compat` is for the provider module alone.
    """

    id: str
    name: str = ""
    api: str
    provider: str
    base_url: str = ""
    reasoning: bool = False
    input: list[str] = Field(default_factory=lambda: ["text"])
    cost: ModelCost = Field(default_factory=ModelCost)
    context_window: int = 0
    max_tokens: int = 0
    headers: dict[str, str] | None = None
    compat: JsonObject | None = None


UNKNOWN_MODEL = Model(id="unknown", name="unknown", api="unknown", provider="unknown", input=[])


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked: messages alone. The prompt and the tools are in the system messages among them."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """How requests name the calling program; None leaves a part to the provider module."""

    user_agent: str | None = None
    attribution: Mapping[str, JsonValue] | None = None
    version: str | None = None


Transport: TypeAlias = Literal["sse", "websocket", "websocket-cached", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Settings of one request.

    Args:
        api_key: The key; a StreamFn without one says so in its final message.
        reasoning: The thinking level asked for; None is off.
        session_id: For providers that cache by session.
        signal: Aborts the request.
        identity: How the request names the calling program.
        transport: Preferred transport where a provider has several.
        thinking_budgets: Tokens per thinking level, for providers that count thinking in tokens.
        max_retry_delay_ms: Longest wait a server may ask for before the request fails instead; 0 lifts the limit.
        max_tokens: Most tokens the answer may have.
        temperature: Sampling temperature.
        timeout_ms: Longest silence of the server.
        headers: Extra HTTP headers; None takes a default one away.
        metadata: Provider-specific request data.
        cache_retention: How long a provider should keep its prompt cache.
        deferred: Let the answer come later: what is given at once is a handle to fetch it by.
        on_payload: Sees the request body, may give another one.
        on_response: Sees status and headers of the response.
        on_provider_stream_event: Sees each event of the provider's own stream.
    """

    api_key: str | None = None
    reasoning: ThinkingLevel | None = None
    session_id: str | None = None
    signal: AbortSignal | None = None
    identity: ClientIdentity | None = None
    transport: Transport = "auto"
    thinking_budgets: Mapping[str, int] | None = None
    max_retry_delay_ms: Number | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    timeout_ms: Number | None = None
    headers: Mapping[str, str | None] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    cache_retention: Literal["none", "short", "long"] | None = None
    deferred: bool = False
    on_payload: Callable[[JsonObject, Model], Answer[JsonObject | None]] | None = None
    on_response: Callable[[int, Mapping[str, str], Model], Answer[None]] | None = None
    on_provider_stream_event: Callable[[JsonValue, Model], Answer[None]] | None = None


class StreamFn(Protocol):
    """Asks a model; an async generator function fits.

    It yields `StreamStart`, updates, and last `StreamDone` or `StreamError`. It does not raise: a failure is a
    `StreamError` whose message has stop reason `error`. When `options.signal` is aborted it ends soon, with stop
    reason `aborted` and what had arrived. It can be cancelled at any await and closed early. `AssistantDraft` builds
    the events.

    Source: Pi 1.6.0, "One assistant response".
    """

    def __call__(
        self, model: Model, request: Request, options: StreamOptions, /
    ) -> AsyncIterator[AssistantMessageEvent] | Awaitable[AsyncIterator[AssistantMessageEvent]]: ...


@runtime_checkable
class ResultStream(Protocol):
    """A stream that also knows its final message, for streams that may end without `StreamDone` or `StreamError`."""

    async def result(self) -> AssistantMessage: ...


# --- tools ------------------------------------------------------------------------------------------------------

OnUpdate: TypeAlias = Callable[[ToolResult], Awaitable[None]]


class ToolExecute(Protocol):
    """Runs a tool: call id, validated arguments, signal, and a function to report progress with (await it).

    An exception becomes an error result with its text.
    """

    def __call__(
        self, call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate, /
    ) -> Awaitable[ToolResult]: ...


ExecutionMode: TypeAlias = Literal["sequential", "parallel"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Tool:
    """A tool the model may call. `pi_loop.function_tools.tool` makes one from an annotated Python function.

    Args:
        name: What the model calls it by.
        description: What the model is told.
        parameters: JSON Schema (draft 2020-12) of its arguments.
        execute: Runs it.
        label: Its name for people.
        execution_mode: `sequential` makes every batch with a call of it sequential.
        prepare_arguments: Turns the model's raw arguments into those to validate; may give the same object.
        constrained_sampling: Provider-side constraint, declared with the tool.
    """

    name: str
    description: str
    parameters: JsonObject
    execute: ToolExecute
    label: str | None = None
    execution_mode: ExecutionMode | None = None
    prepare_arguments: Callable[[JsonObject], JsonObject] | None = None
    constrained_sampling: JsonValue = None

    def declaration(self) -> ToolDeclaration:
        """Give what the model is told about the tool."""
        declared = ToolDeclaration(name=self.name, description=self.description, parameters=self.parameters)
        if self.constrained_sampling is None:
            return declared
        return declared.model_copy(update={"constrained_sampling": self.constrained_sampling})


class AgentContext:
    """Messages and the tools that can be executed (None: no tool list at all).

    While a response is streamed its partial message is the last of `messages`; it is brought up to date each time
    `messages` is read. There is no prompt field: prompt and tool declarations are system messages.
    """

    __slots__ = ("_messages", "_partial", "tools")

    def __init__(self, messages: list[Message], tools: list[Tool] | None = None) -> None:
        self._messages = messages
        self._partial: PartialView | None = None
        self.tools = tools

    @property
    def messages(self) -> list[Message]:
        """The live list."""
        if self._partial is not None and self._messages:
            self._messages[-1] = self._partial.message()
        return self._messages

    def begin_partial(self, view: PartialView) -> None:
        """Put the message being streamed at the end; the loop calls this at the start of a response."""
        self._messages.append(view.message())
        self._partial = view

    def update_partial(self, view: PartialView) -> None:
        """Remember how far the message being streamed has come."""
        self._partial = view

    def end_partial(self, final: AssistantMessage | None = None) -> None:
        """Stop streaming into the last place: the final message goes there, or the partial one stays as it is."""
        messages = self.messages
        self._partial = None
        if final is not None:
            messages[-1] = final

    def drop_partial(self) -> None:
        """Take the message being streamed away."""
        if self._partial is not None:
            self._partial = None
            del self._messages[-1]

    @property
    def is_streaming(self) -> bool:
        """Whether the last message is one being streamed."""
        return self._partial is not None

    def __repr__(self) -> str:
        tools = None if self.tools is None else [tool.name for tool in self.tools]
        return f"AgentContext(messages={self.messages!r}, tools={tools!r})"


# --- what hooks get and give ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeforeToolCall:
    """A call about to be executed: `args` are validated and may be altered in place, `tool_call` is the raw block."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: JsonObject
    context: AgentContext


@dataclass(frozen=True, slots=True)
class BlockDecision:
    """An answer of `before_tool_call`: with `block` the call fails with `reason`; `terminate` counts only then."""

    block: bool = False
    reason: str | None = None
    terminate: JsonValue = None


@dataclass(frozen=True, slots=True)
class AfterToolCall:
    """A call that was executed; an answer's fields that are not None replace those of `result`."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: JsonObject
    result: ToolResult
    is_error: bool
    context: AgentContext


@dataclass(frozen=True, slots=True)
class Turn:
    """A completed turn; `context.messages` and `new_messages` are the run's live lists."""

    message: AssistantMessage
    tool_results: list[ToolResultMessage]
    context: AgentContext
    new_messages: list[Message]


TurnDecision: TypeAlias = Literal["end", "continue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """What the next request would use, given to `prepare_request`."""

    context: AgentContext
    model: Model
    thinking_level: ThinkingLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """What `prepare_request` replaces for the rest of the run; None keeps. A context replaces the whole one."""

    context: AgentContext | None = None
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTurnChange:
    """What `prepare_next_turn` replaces for the rest of the run, and messages to put before steering ones."""

    context: AgentContext | None = None
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None
    messages: list[Message] | None = None


BeforeToolCallHook: TypeAlias = Callable[[BeforeToolCall, AbortSignal | None], Answer[BlockDecision | None]]
AfterToolCallHook: TypeAlias = Callable[[AfterToolCall, AbortSignal | None], Answer[ToolResult | None]]
FinishTurnHook: TypeAlias = Callable[[Turn, AbortSignal | None], Answer[TurnDecision | None]]
PrepareRequestHook: TypeAlias = Callable[[RequestSettings, AbortSignal | None], Answer[RequestChange | None]]
PrepareNextTurnHook: TypeAlias = Callable[[Turn], Answer[NextTurnChange | None]]
TransformContextHook: TypeAlias = Callable[[list[Message], AbortSignal | None], Answer[list[Message]]]
ConvertToLlm: TypeAlias = Callable[[list[Message]], Answer[list[Message]]]
GetApiKey: TypeAlias = Callable[[str], Answer[str | None]]
PollMessages: TypeAlias = Callable[[], Answer[list[Message] | None]]
EventSink: TypeAlias = Callable[[LoopEvent], Awaitable[None] | None]

MODEL_ROLES = frozenset({"system", "user", "assistant", "toolResult"})


def keep_model_roles(messages: list[Message]) -> list[Message]:
    """Keep the messages whose roles every provider knows; the default `convert_to_llm`."""
    return [message for message in messages if message.role in MODEL_ROLES]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """Settings and hooks of one run.

    Args:
        model: The model asked, until a hook replaces it.
        thinking_level: The level asked for.
        stream_options: Everything else a request carries. Signal, reasoning and the resolved key are filled in.
        tool_execution: `sequential` runs every batch in order; the default is parallel.
        convert_to_llm: Projects messages to roles a provider knows.
        transform_context: Replaces the message list for one request, before `convert_to_llm`.
        get_api_key: Gives the key of a provider; an empty answer falls back to `stream_options.api_key`.
        prepare_request: Before each request, the first too.
        prepare_next_turn: Before each turn but the first.
        finish_turn: After a turn's results are in the context, before `turn_end`: end, continue or nothing.
        before_tool_call: May block a call or alter its arguments.
        after_tool_call: May replace parts of a result.
        get_steering_messages: Polled at the start of a run and between turns.
        get_follow_up_messages: Polled when the run would stop.
        clock: Unix milliseconds, for timestamps and durations.

    Source: Pi 1.6.0, "Hooks".
    """

    model: Model
    thinking_level: ThinkingLevel = "off"
    stream_options: StreamOptions = field(default_factory=StreamOptions)
    tool_execution: ExecutionMode | None = None
    convert_to_llm: ConvertToLlm = keep_model_roles
    transform_context: TransformContextHook | None = None
    get_api_key: GetApiKey | None = None
    prepare_request: PrepareRequestHook | None = None
    prepare_next_turn: PrepareNextTurnHook | None = None
    finish_turn: FinishTurnHook | None = None
    before_tool_call: BeforeToolCallHook | None = None
    after_tool_call: AfterToolCallHook | None = None
    get_steering_messages: PollMessages | None = None
    get_follow_up_messages: PollMessages | None = None
    clock: Clock = wall_clock_ms
