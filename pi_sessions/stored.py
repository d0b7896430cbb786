"""An entry as the store holds it: a few plain values and the JSON text that came in, decoded only when asked.

`StoredEntry` is what every pure function of this package works on. It is no pydantic model, because commands that
only read or move things must not pay for one; `entries.parse_entry` gives the typed view.
"""

from __future__ import annotations

import json

from pi_sessions.errors import StoreDamagedError
from pi_sessions.times import format_time, parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    JsonObject = dict[str, Any]

REPLACEMENT = "\ufffd"
BASE_FIELDS = ("type", "id", "parentId", "timestamp")


class StoredEntry:
    """One node of the tree, immutable by convention.

    Attributes:
        id: Unique within its session.
        parent_id: None for a root.
        type: Pi's entry type, or any other text.
        time_ms: Unix milliseconds of the entry, borrowed from its message or the entry before when its own timestamp
            cannot be read; None when there was nothing to borrow.
        payload: JSON text. For type `message` the value of `message` (empty text when the field is missing); for other
            types an object with the entry's own fields.
        extra: JSON text of an object with what has no place elsewhere: fields beside a message, a timestamp that is
            not in canonical form. None for nearly every entry.
        key: Place in the store; 0 for an entry that is not stored.
        head: The message's `role`, `provider`, `model` and `timestamp`, where whoever made the entry had it decoded.
    """

    __slots__ = ("_fields", "extra", "head", "id", "key", "parent_id", "payload", "time_ms", "type")

    def __init__(
        self,
        id: str,
        parent_id: str | None,
        type: str,
        time_ms: int | None,
        payload: str,
        extra: str | None = None,
        key: int = 0,
        head: JsonObject | None = None,
    ) -> None:
        self.id = id
        self.parent_id = parent_id
        self.type = type
        self.time_ms = time_ms
        self.payload = payload
        self.extra = extra
        self.key = key
        self.head = head
        self._fields: JsonObject | None = None

    @classmethod
    def from_dict(cls, entry: JsonObject) -> StoredEntry:
        """Make an entry from Pi's JSON object (decoded); missing base fields become empty or None."""
        own = {name: value for name, value in entry.items() if name not in BASE_FIELDS}
        kind = well_formed(str(entry.get("type") or ""))
        parent_id = entry.get("parentId")
        timestamp = entry.get("timestamp")
        time_ms = parse_time(timestamp)
        extra: JsonObject = {}
        head: JsonObject | None = None
        if "timestamp" in entry and not is_canonical(timestamp, time_ms):
            extra["timestamp"] = timestamp
        if kind == "message":
            head = message_head(own.get("message"))
            payload = dump(own.pop("message")) if "message" in own else ""
            if head is not None and REPLACEMENT in payload:
                head = message_head(json.loads(payload))
            extra |= own
        else:
            payload = dump(own)
        return cls(
            id=well_formed(str(entry.get("id") or "")),
            parent_id=well_formed(parent_id) if isinstance(parent_id, str) else parent_id,
            type=kind,
            time_ms=time_ms,
            payload=payload,
            extra=dump(extra) if extra else None,
            head=head,
        )

    @property
    def fields(self) -> JsonObject:
        """The entry's own fields under Pi's names (no base fields), decoded once. Do not change it."""
        fields = self._fields
        if fields is None:
            payload = self.payload
            own = self._decoded(payload) if payload else {}
            extra = self._decoded(self.extra) if self.extra else {}
            extra.pop("timestamp", None)
            if self.type == "message" and payload:
                own = {"message": own}
            fields = self._fields = {**own, **extra}
        return fields

    @property
    def message(self) -> JsonObject | None:
        """The message of a `message` entry, None for other types and for a message entry without one."""
        message = self.fields.get("message") if self.type == "message" else None
        return message if isinstance(message, dict) else None

    @property
    def role(self) -> str | None:
        """The message's role, None when the entry carries no message."""
        message = self.message
        role = message.get("role") if message else None
        return role if isinstance(role, str) else None

    @property
    def timestamp(self) -> object:
        """The timestamp as it came in: nearly always canonical ISO text."""
        if self.extra:
            extra = self._decoded(self.extra)
            if "timestamp" in extra:
                return extra["timestamp"]
        return None if self.time_ms is None else format_time(self.time_ms)

    @property
    def own_time_ms(self) -> int | None:
        """The time its own timestamp stands for; None when that cannot be read, whatever `time_ms` was borrowed."""
        return self.time_ms if self.extra is None else parse_time(self.timestamp)

    def _decoded(self, text: str) -> Any:
        try:
            return decode(text)
        except ValueError as error:
            raise StoreDamagedError(
                f"The entry {self.id} is damaged: its text is no JSON",
                hint="keep a copy of the store before anything else",
            ) from error

    def to_dict(self) -> JsonObject:
        """Return Pi's JSON object for this entry, decoded."""
        base = {"type": self.type, "id": self.id, "parentId": self.parent_id, "timestamp": self.timestamp}
        return base | self.fields

    def decoded_head(self) -> JsonObject:
        """Return `head`, decoding the message when it was not at hand; empty without a message."""
        head = self.head
        if head is None:
            head = self.head = message_head(self.message) or {}
        return head

    def __repr__(self) -> str:
        return f"StoredEntry({self.id!r}, parent_id={self.parent_id!r}, type={self.type!r})"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dump(value: object) -> str:
    """Return compact JSON text, non-ASCII characters as they are; halves of surrogate pairs, no UTF-8, are U+FFFD."""
    return well_formed(_encode(value))


def decode(text: str) -> Any:
    """Return what JSON text says; halves of surrogate pairs, which it may hold as escapes, are U+FFFD.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(text)
    return json.loads(dump(value)) if "\\ud" in text or "\\uD" in text else value


def well_formed(text: str) -> str:
    """Return a text that can be written as UTF-8: halves of surrogate pairs are joined, or become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def message_head(message: object) -> JsonObject | None:
    """Return what is counted and indexed of a decoded message, None when it is none.

    Keeping this small piece spares the writer a second decoding of every message.
    """
    if not isinstance(message, dict):
        return None
    get = message.get
    head = {"role": get("role"), "timestamp": get("timestamp")}
    if head["role"] == "assistant":
        head["provider"], head["model"] = get("provider"), get("model")
    return head


def is_canonical(timestamp: object, time_ms: int | None) -> bool:
    """Whether a timestamp is exactly what `format_time` writes for its time."""
    return time_ms is not None and isinstance(timestamp, str) and timestamp == format_time(time_ms)
