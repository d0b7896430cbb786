"""Messages and their content blocks, as Pi 1.6.0 writes them.

One model per role; Python names are snake_case, JSON names Pi's camelCase. What a file brings survives: unknown
roles, unknown block types and unknown fields are kept, an absent field stays absent and a null stays null, so
`parse_message(data)` followed by `to_wire(message)` gives the same JSON value back. Models are frozen; change one with
`model_copy(update=...)`. This module reads no file, no database and no clock.

Source: Pi 1.6.0, "Message and event shapes" and "Session format".
"""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    Tag,
    TypeAdapter,
    model_serializer,
)
from pydantic.alias_generators import to_camel

JsonObject: TypeAlias = dict[str, JsonValue]

# JSON has one kind of number; a whole one stays whole on the way through.
Number: TypeAlias = int | float

StopReason: TypeAlias = Literal["pending", "stop", "length", "toolUse", "error", "aborted", "deferred"]
ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


# Marks a field that is not written when nobody set it, though it has a value to compute with.
_MAY_BE_ABSENT: dict[str, Any] = {"x-may-be-absent": True}


class WireModel(BaseModel):
    """A frozen model that reads both spellings, writes Pi's, and keeps what was absent absent.

    Read from JSON, only the fields that were there are written again. Made in Python, every field of Pi's shape that
    has a value is written, and a None that was not given is not.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        frozen=True,
    )

    # Fields that a model made in Python has on the wire; and (name, JSON name) of all that one read from JSON may lack.
    _always_written: ClassVar[frozenset[str]] = frozenset()
    _may_be_absent: ClassVar[tuple[tuple[str, str], ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        optional = {name: field for name, field in cls.model_fields.items() if not field.is_required()}
        cls._may_be_absent = tuple(
            (name, field.serialization_alias or name)
            for name, field in optional.items()
            if name not in ("role", "type")
        )
        cls._always_written = frozenset(
            name
            for name, field in optional.items()
            if not (field.default is None and field.default_factory is None)
            and field.json_schema_extra is not _MAY_BE_ABSENT
        )

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)
        self.__pydantic_fields_set__.update(self._always_written)

    # Reading does not come through here: pydantic takes this for the plain constructor, which it then leaves out.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_serializer(mode="wrap")
    def _leave_out_absent_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        given = self.model_fields_set
        for name, alias in self._may_be_absent:
            if name not in given:
                data.pop(alias, None)
                data.pop(name, None)
        return data


def _empty_if_null(value: object) -> object:
    return [] if value is None else value


# --- content blocks ---------------------------------------------------------------------------------------------


class TextContent(WireModel):
    """A block of text; `text_signature` is provider data to be replayed with it."""

    type: Literal["text"] = "text"
    text: str
    text_signature: str | None = None


class ThinkingContent(WireModel):
    """Reasoning of the model; `redacted` means the text is hidden and only the signature counts."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    thinking_signature: str | None = None
    redacted: bool | None = None


class ImageContent(WireModel):
    """An image: base64 `data` of type `mime_type`."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str


class ToolCall(WireModel):
    """A tool call of the model; `arguments_error` is set when its arguments text was not a JSON object."""

    type: Literal["toolCall"] = "toolCall"
    id: str
    name: str
    arguments: JsonObject = Field(default_factory=dict)
    thought_signature: str | None = None
    namespace: str | None = None
    arguments_error: str | None = None


class OtherContent(WireModel):
    """A block of a type this version does not know; its fields are in `model_extra`."""

    type: str


_BLOCK_TAGS = {"text", "thinking", "image", "toolCall"}


def _block_tag(value: object) -> str:
    tag = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return tag if isinstance(tag, str) and tag in _BLOCK_TAGS else "other"


ContentBlock: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ThinkingContent, Tag("thinking")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[ToolCall, Tag("toolCall")]
    | Annotated[OtherContent, Tag("other")],
    Discriminator(_block_tag),
]
# Pi turns a null content into an empty list when it builds a context; here it happens on reading.
ContentList: TypeAlias = Annotated[list[ContentBlock], BeforeValidator(_empty_if_null)]
Content: TypeAlias = Annotated[str | list[ContentBlock], BeforeValidator(_empty_if_null)]


# --- parts of messages ------------------------------------------------------------------------------------------


class Cost(WireModel):
    """Cost in US dollars; `total_from_provider` is true when the provider billed `total` itself."""

    input: Number = 0
    output: Number = 0
    cache_read: Number = 0
    cache_write: Number = 0
    total: Number = 0
    total_from_provider: bool | None = None


class Usage(WireModel):
    """Tokens of one response; `reasoning` is a part of `output`, `cache_write_1h` a part of `cache_write`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int | None = Field(default=None, alias="cacheWrite1h")
    reasoning: int | None = None
    total_tokens: int = 0
    cost: Cost = Field(default_factory=Cost)


class DeferredHandle(WireModel):
    """What is needed to fetch or cancel an answer that the provider finishes later; times in milliseconds."""

    provider: str
    model_id: str
    api: str
    id: str
    expires_at: Number | None = None
    poll_after_ms: Number | None = None
    data: JsonValue = None


class ToolDeclaration(WireModel):
    """What the model is told about a tool: no label, no execution mode, no code."""

    name: str
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)
    constrained_sampling: JsonValue = None


class ToolReference(WireModel):
    """The name of a tool that stops being available."""

    name: str


class NestedCallRecord(WireModel):
    """One call that a tool made to another tool; `arguments_bytes` stands for arguments too large to keep."""

    name: str
    id: str | None = None
    arguments: JsonObject | None = None
    arguments_bytes: int | None = None
    status: str | None = None
    duration_ms: Number | None = None
    error: str | None = None


class NestedCalls(WireModel):
    """Calls a tool made; `complete` is false when some of them were left out."""

    calls: list[NestedCallRecord]
    complete: bool | None = None


# --- messages ---------------------------------------------------------------------------------------------------


class SystemMessage(WireModel):
    """Instructions and tool declarations from this point on.

    `sections` replace named prompt sections, null removes one; `tools_removed` counts before `tools_added`.
    """

    role: Literal["system"] = "system"
    content: Content = ""
    sections: dict[str, str | None] | None = None
    tools_added: list[ToolDeclaration] | None = None
    tools_removed: list[ToolReference] | None = None
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class UserMessage(WireModel):
    """What the user said: text, or text and image blocks."""

    role: Literal["user"] = "user"
    content: Content
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class AssistantMessage(WireModel):
    """One response of a model; `stop_reason` is `pending` only while it is being streamed."""

    role: Literal["assistant"] = "assistant"
    content: ContentList = Field(default_factory=list)
    api: str = ""
    provider: str = ""
    model: str = ""
    response_model: str | None = None
    response_id: str | None = None
    provider_thinking_level: str | None = None
    # Any text is read: a level of a later version must not make a stored message unreadable.
    thinking_level: str | None = None
    diagnostics: list[JsonValue] | None = None
    usage: Usage = Field(default_factory=Usage)
    stop_reason: StopReason = "stop"
    deferred: DeferredHandle | None = None
    error_message: str | None = None
    raw_stop_reason: str | None = None
    end_turn: bool | None = None
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)
    duration_ms: Number | None = None

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the message, in order."""
        return [block for block in self.content if isinstance(block, ToolCall)]

    @property
    def text(self) -> str:
        """The text blocks of the message, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


class ToolResultMessage(WireModel):
    """The result of one tool call; `details` is for people and programs, `content` for the model."""

    role: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: Content = Field(default_factory=list)
    details: JsonValue = None
    usage: Usage | None = None
    nested_calls: NestedCalls | None = None
    is_error: bool = False
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)
    duration_ms: Number | None = None


class BashExecutionMessage(WireModel):
    """A shell command that the user ran; with `exclude_from_context` the model does not see it."""

    role: Literal["bashExecution"] = "bashExecution"
    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool | None = None
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class CustomMessage(WireModel):
    """A message of a host program; the model sees its content as user text, whatever `display` says."""

    role: Literal["custom"] = "custom"
    custom_type: str = ""
    content: Content = ""
    display: bool = True
    details: JsonValue = None
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class CompactionSummaryMessage(WireModel):
    """The summary that stands for everything before a compaction."""

    role: Literal["compactionSummary"] = "compactionSummary"
    summary: str
    tokens_before: int = 0
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class BranchSummaryMessage(WireModel):
    """The summary of a branch that was left; `from_id` is the entry that was its leaf."""

    role: Literal["branchSummary"] = "branchSummary"
    summary: str
    from_id: str = ""
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


class OtherMessage(WireModel):
    """A message whose role this version does not know; its other fields are in `model_extra`."""

    role: str
    timestamp: Number = Field(default=0, json_schema_extra=_MAY_BE_ABSENT)


MESSAGE_ROLES = frozenset(
    {
        "system",
        "user",
        "assistant",
        "toolResult",
        "bashExecution",
        "custom",
        "compactionSummary",
        "branchSummary",
    }
)


def _message_tag(value: object) -> str:
    role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return role if isinstance(role, str) and role in MESSAGE_ROLES else "other"


Message: TypeAlias = Annotated[
    Annotated[SystemMessage, Tag("system")]
    | Annotated[UserMessage, Tag("user")]
    | Annotated[AssistantMessage, Tag("assistant")]
    | Annotated[ToolResultMessage, Tag("toolResult")]
    | Annotated[BashExecutionMessage, Tag("bashExecution")]
    | Annotated[CustomMessage, Tag("custom")]
    | Annotated[CompactionSummaryMessage, Tag("compactionSummary")]
    | Annotated[BranchSummaryMessage, Tag("branchSummary")]
    | Annotated[OtherMessage, Tag("other")],
    Discriminator(_message_tag),
]

_message_adapter: TypeAdapter[Message] = TypeAdapter(Message)
_messages_adapter: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def parse_message(data: object) -> Message:
    """Read one message from a JSON value.

    Args:
        data: The decoded JSON object; a message model is returned as it is.

    Raises:
        pydantic.ValidationError: a known role lacks a required field or has a field of the wrong type.

    Source: Pi 1.6.0, "Message and event shapes".
    """
    return _message_adapter.validate_python(data)


def parse_message_json(text: str | bytes) -> Message:
    """Read one message from JSON text; as `parse_message`, and faster than decoding first."""
    return _message_adapter.validate_json(text)


def parse_messages(data: object) -> list[Message]:
    """Read a list of messages from a JSON value; as `parse_message`."""
    return _messages_adapter.validate_python(data)


def to_wire(model: WireModel) -> dict[str, Any]:
    """Give a message or a part of one as a JSON value with Pi's names; absent fields are left out."""
    return model.model_dump(mode="json")


def block_texts(content: str | list[ContentBlock]) -> list[str]:
    """Give the texts of a content: the text itself, or those of its text blocks."""
    if isinstance(content, str):
        return [content]
    return [block.text for block in content if isinstance(block, TextContent)]
