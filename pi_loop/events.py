"""What a model stream and a run emit: pydantic models with Pi's names in JSON.

Two families. `AssistantMessageEvent` is what a StreamFn yields while one response arrives; `LoopEvent` is what a run
emits. Events are frozen. Updates carry a lazy view of the message so far: `event.partial` and `update.message` build
it when read, and nothing else does. Providers do not build these by hand; `pi_loop.draft.AssistantDraft` does.

Source: Pi 1.6.0, "Message and event shapes".
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    TypeAdapter,
    computed_field,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from pi_loop.partial import PartialView
from pi_sessions.messages import (
    AssistantMessage,
    ContentBlock,
    JsonObject,
    Message,
    Number,
    ToolCall,
    ToolResultMessage,
    Usage,
    WireModel,
)


class ToolResult(WireModel):
    """What a tool gives back, whole or (in an update) so far.

    Fields that are not given are absent: they do not appear in JSON and, from `after_tool_call`, replace nothing.
    `terminate` and `is_error` count only when exactly true. `details` is for people and programs, `content` for the
    model, `structured_content` for the caller of a nested call.
    """

    content: list[ContentBlock] | None = None
    details: JsonValue = None
    structured_content: JsonValue = None
    usage: Usage | None = None
    is_error: JsonValue = None
    terminate: JsonValue = None


class _ViewField:
    """Tells pydantic how a `PartialView` is read from and written to JSON: as the message it stands for."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        message = handler.generate_schema(AssistantMessage)
        from_message = core_schema.no_info_after_validator_function(PartialView.of, message)
        return core_schema.union_schema(
            [core_schema.is_instance_schema(PartialView), from_message],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(PartialView.message, return_schema=message),
        )


View: TypeAlias = Annotated[PartialView, _ViewField]


class Event(BaseModel):
    """A frozen event; reads both spellings, writes Pi's."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        frozen=True,
    )


class _PartialEvent(Event):
    view: View = Field(validation_alias=AliasChoices("view", "partial"), serialization_alias="partial", repr=False)

    @property
    def partial(self) -> AssistantMessage:
        """The message so far, built on asking."""
        return self.view.message()


# --- events of a model stream -----------------------------------------------------------------------------------


class StreamStart(_PartialEvent):
    """The response begins; before it, updates are ignored."""

    type: Literal["start"] = "start"


class TextStart(_PartialEvent):
    """An empty text block was added."""

    type: Literal["text_start"] = "text_start"
    content_index: int


class TextDelta(_PartialEvent):
    """Text was appended to the block at `content_index`."""

    type: Literal["text_delta"] = "text_delta"
    content_index: int
    delta: str


class TextEnd(_PartialEvent):
    """The block is complete; `content` is its whole text."""

    type: Literal["text_end"] = "text_end"
    content_index: int
    content: str


class ThinkingStart(_PartialEvent):
    """An empty thinking block was added."""

    type: Literal["thinking_start"] = "thinking_start"
    content_index: int


class ThinkingDelta(_PartialEvent):
    """Thinking was appended to the block at `content_index`."""

    type: Literal["thinking_delta"] = "thinking_delta"
    content_index: int
    delta: str


class ThinkingEnd(_PartialEvent):
    """The block is complete; `content` is its whole text."""

    type: Literal["thinking_end"] = "thinking_end"
    content_index: int
    content: str


class ToolCallStart(_PartialEvent):
    """A tool call was added; its arguments are empty until its end."""

    type: Literal["toolcall_start"] = "toolcall_start"
    content_index: int


class ToolCallDelta(_PartialEvent):
    """More of the arguments' JSON text; the partial does not change."""

    type: Literal["toolcall_delta"] = "toolcall_delta"
    content_index: int
    delta: str


class ToolCallEnd(_PartialEvent):
    """The tool call is complete."""

    type: Literal["toolcall_end"] = "toolcall_end"
    content_index: int
    tool_call: ToolCall


class StreamDone(Event):
    """The response is complete; `message` is final."""

    type: Literal["done"] = "done"
    reason: Literal["stop", "length", "toolUse", "deferred"]
    message: AssistantMessage


class StreamError(Event):
    """The response failed or was aborted; `error` is the final message, with what had arrived."""

    type: Literal["error"] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage


AssistantMessageUpdate: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
AssistantMessageEvent: TypeAlias = StreamStart | AssistantMessageUpdate | StreamDone | StreamError


# --- events of a run --------------------------------------------------------------------------------------------


class AgentStart(Event):
    """A run begins."""

    type: Literal["agent_start"] = "agent_start"


class AgentEnd(Event):
    """A run is over; `messages` are those it added."""

    type: Literal["agent_end"] = "agent_end"
    messages: list[Message]


class TurnStart(Event):
    """A turn begins: messages that go in, one response, its tool calls."""

    type: Literal["turn_start"] = "turn_start"


class TurnEnd(Event):
    """A turn is over."""

    type: Literal["turn_end"] = "turn_end"
    message: Message
    tool_results: list[ToolResultMessage]


class MessageStart(Event):
    """A message begins; of a response, as far as it is known by then."""

    type: Literal["message_start"] = "message_start"
    message: Message


class MessageUpdate(Event):
    """A response grew by `assistant_message_event`."""

    type: Literal["message_update"] = "message_update"
    assistant_message_event: Annotated[AssistantMessageUpdate, Field(discriminator="type")]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def message(self) -> AssistantMessage:
        """The response so far, built on asking."""
        return self.assistant_message_event.view.message()


class MessageEnd(Event):
    """A message is complete and part of the transcript."""

    type: Literal["message_end"] = "message_end"
    message: Message


class ToolExecutionStart(Event):
    """A tool call is about to be prepared; `args` are the model's own."""

    type: Literal["tool_execution_start"] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: JsonObject


class ToolExecutionUpdate(Event):
    """Progress of a running tool."""

    type: Literal["tool_execution_update"] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: JsonObject
    partial_result: ToolResult


class ToolExecutionEnd(Event):
    """A tool call has its result; `is_error` is final, `result.is_error` the tool's own word.

    `duration_ms` is absent when the tool was never entered.
    """

    type: Literal["tool_execution_end"] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    duration_ms: Number | None = Field(default=None, exclude_if=lambda value: value is None)


LoopEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)

_event_adapter: TypeAdapter[LoopEvent] = TypeAdapter(Annotated[LoopEvent, Field(discriminator="type")])
_stream_event_adapter: TypeAdapter[AssistantMessageEvent] = TypeAdapter(
    Annotated[AssistantMessageEvent, Field(discriminator="type")]
)


def event_to_wire(event: LoopEvent | AssistantMessageEvent, *, partials: bool = True) -> JsonObject:
    """Give an event as a JSON value with Pi's names.

    Args:
        partials: Whether updates carry the message so far, as Pi's do. It is built for each update then, so a long
            response costs the square of its length; without it an update has only its delta.

    Source: Pi 1.6.0, "Message and event shapes".
    """
    if isinstance(event, MessageUpdate) and not partials:
        return {
            "type": event.type,
            "assistantMessageEvent": event_to_wire(event.assistant_message_event, partials=False),
        }
    exclude = {"view"} if isinstance(event, _PartialEvent) and not partials else None
    return event.model_dump(mode="json", exclude=exclude)


def parse_event(data: object) -> LoopEvent:
    """Read a run's event from a JSON value that `event_to_wire` gave.

    Raises:
        pydantic.ValidationError: it is not such an event.
    """
    return _event_adapter.validate_python(data)


def parse_stream_event(data: object) -> AssistantMessageEvent:
    """Read an event of a model stream from a JSON value.

    Raises:
        pydantic.ValidationError: it is not such an event.
    """
    return _stream_event_adapter.validate_python(data)
