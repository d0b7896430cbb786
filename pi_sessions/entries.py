"""Entries of a session as Pi 1.6.0 writes them: a union told apart by `type`.

The typed view of what `StoredEntry` holds as text. Like messages, entries keep what they do not know: unknown types,
unknown fields, an absent field stays absent and a null stays null. Used where entries come in from programs (append)
and where code wants fields by name; commands that only read or move things do without.

Source: Pi 1.6.0, "Session format", entry types.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, JsonValue, Tag, TypeAdapter, ValidationError

from pi_sessions.errors import InvalidEntryError
from pi_sessions.messages import Content, JsonObject, Message, Number, SystemMessage, Usage, WireModel, to_wire
from pi_sessions.stored import StoredEntry


class EntryBase(WireModel):
    """What every entry has. Absent: not known yet; the store fills it in on append."""

    type: str
    id: str | None = None
    parent_id: str | None = None
    timestamp: str | Number | None = None


class MessageEntry(EntryBase):
    """A message of the conversation. Damaged sources have message entries without one."""

    type: Literal["message"] = "message"
    message: Message | None = None


class ModelChangeEntry(EntryBase):
    """From here on another model answers."""

    type: Literal["model_change"] = "model_change"
    provider: str
    model_id: str


class ThinkingLevelChangeEntry(EntryBase):
    """From here on the model thinks more or less. Any text is read: later versions may know more levels."""

    type: Literal["thinking_level_change"] = "thinking_level_change"
    thinking_level: str


class UsageEntry(EntryBase):
    """Tokens used beside the conversation, such as by an extension; counts in totals only."""

    type: Literal["usage"] = "usage"
    kind: str
    provider: str | None = None
    model: str | None = None
    usage: Usage
    note: str | None = None


class CompactionEntry(EntryBase):
    """A summary of everything before `first_kept_entry_id`; its own id there, or none, keeps nothing."""

    type: Literal["compaction"] = "compaction"
    summary: str
    first_kept_entry_id: str | None = None
    tokens_before: Number | None = None
    details: JsonValue = None
    usage: Usage | None = None
    from_hook: bool | None = None
    system_message: SystemMessage | None = None


class BranchSummaryEntry(EntryBase):
    """A summary of a branch that was left; `from_id` is its old leaf, or `root`."""

    type: Literal["branch_summary"] = "branch_summary"
    from_id: str
    summary: str
    details: JsonValue = None
    usage: Usage | None = None
    from_hook: bool | None = None


class CustomEntry(EntryBase):
    """Data of a host program; not for the model."""

    type: Literal["custom"] = "custom"
    custom_type: str
    data: JsonValue = None


class CustomMessageEntry(EntryBase):
    """Text of a host program that the model sees as user text, whatever `display` says."""

    type: Literal["custom_message"] = "custom_message"
    custom_type: str
    content: Content
    display: bool | None = None
    details: JsonValue = None


class Replacement(WireModel):
    """What a context edit puts in the place of its target's content."""

    content: Content


class ContextEditEntry(EntryBase):
    """Leaves its target out of the context (`replacement` null) or changes its content."""

    type: Literal["context_edit"] = "context_edit"
    target_id: str
    replacement: Replacement | None = None


class LabelEntry(EntryBase):
    """Names an entry; no or an empty label takes the name away."""

    type: Literal["label"] = "label"
    target_id: str
    label: str | None = None


class SessionInfoEntry(EntryBase):
    """Names the session; no or an empty name takes the name away."""

    type: Literal["session_info"] = "session_info"
    name: str | None = None


class OtherEntry(EntryBase):
    """An entry of a type this version does not know; its fields are in `model_extra`."""


ENTRY_TYPES = frozenset(
    {
        "message",
        "model_change",
        "thinking_level_change",
        "usage",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "context_edit",
        "label",
        "session_info",
    }
)


def _entry_tag(value: object) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in ENTRY_TYPES else "other"


Entry: TypeAlias = Annotated[
    Annotated[MessageEntry, Tag("message")]
    | Annotated[ModelChangeEntry, Tag("model_change")]
    | Annotated[ThinkingLevelChangeEntry, Tag("thinking_level_change")]
    | Annotated[UsageEntry, Tag("usage")]
    | Annotated[CompactionEntry, Tag("compaction")]
    | Annotated[BranchSummaryEntry, Tag("branch_summary")]
    | Annotated[CustomEntry, Tag("custom")]
    | Annotated[CustomMessageEntry, Tag("custom_message")]
    | Annotated[ContextEditEntry, Tag("context_edit")]
    | Annotated[LabelEntry, Tag("label")]
    | Annotated[SessionInfoEntry, Tag("session_info")]
    | Annotated[OtherEntry, Tag("other")],
    Discriminator(_entry_tag),
]

_adapter: TypeAdapter[Entry] = TypeAdapter(Entry)


def parse_entry(data: object) -> Entry:
    """Read one entry from a decoded JSON object or from a stored entry.

    Args:
        data: The object under Pi's names, or a `StoredEntry`; an entry model is returned as it is.

    Raises:
        InvalidEntryError: it is no object, has no type, or a known type lacks a field or has one of the wrong type.

    Source: Pi 1.6.0, "Session format".
    """
    value = data.to_dict() if isinstance(data, StoredEntry) else data
    try:
        return _adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        where = f"its field {place}" if place else "it"
        raise InvalidEntryError(f"This is no entry: {where} is wrong: {first['msg']}") from error


def entry_to_wire(entry: Entry) -> JsonObject:
    """Give an entry as a JSON object with Pi's names; absent fields are left out."""
    return to_wire(entry)
