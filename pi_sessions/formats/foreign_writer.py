"""What the writers of other agents' files share: the text for entries their files have no record for, contents in a
shape that any program can read, and the marks.

A mark (`foreign_ids`) makes a message that is read back the message that was written.
"""

from __future__ import annotations

from collections import Counter

from pi_sessions.context import EDITABLE_ROLES, entry_messages, to_llm
from pi_sessions.formats import export_losses as words
from pi_sessions.stored import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

# Fields of a message that the writers and readers see to themselves.
_ELSEWHERE = frozenset(("role", "content", "details"))
# What the records that stand for entries say; of other types, the writers see to it.
_OWN = {
    "message": ("message",),
    "custom_message": ("customType", "content", "display", "details"),
    "custom": ("customType", "data"),
    "session_info": ("name",),
    "thinking_level_change": ("thinkingLevel",),
}
# Texts without which a block is none of its kind.
_TEXTS = {"text": ("text",), "image": ("data", "mimeType")}


class ForeignWriter:
    """One file on its way out.

    Attributes:
        export: What goes out.
        losses: What the file does not hold of the entries, in the words of `export_losses`.
    """

    def __init__(self, export: Export) -> None:
        self.export = export
        self.losses: Counter[str] = Counter()
        self._out: list[str] = []
        # Type of each entry that was written, whether it lacks a time, and whether its message does.
        self._untimed: list[tuple[str, bool, bool]] = []
        self._written: set[str] = set()

    def _texts_of(self, entry: StoredEntry, kind: str) -> list[object]:
        """Return the contents a model sees of an entry that goes out as text, and count it as such, or as missing.

        Args:
            entry: One that has no record of its own.
            kind: Its type, or its message's role.
        """
        told = [shown for message in entry_messages(entry) for shown in to_llm(message)]
        texts: list[object] = [shown.get("content") for shown in told if shown.get("role") == "user"]
        self.losses[words.text_word(kind) if texts else words.kind_word(kind) or kind] += 1
        return texts

    def _count_beside(self, entry: StoredEntry) -> None:
        """Count what a written entry says beside its own record: fields that have no place, and a missing time."""
        message = entry.message
        self._written.add(entry.id)
        known = _OWN.get(entry.type)
        self.losses[words.MORE_FIELDS] += known is not None and words.more_fields(entry.fields, known)
        untimed = message is not None and message.get("role") in EDITABLE_ROLES and message.get("timestamp") is None
        self._untimed.append((entry.type, entry.time_ms is None, untimed))

    def _count_times(self, *, filled: bool) -> None:
        """Count the times that a reader makes up, as `building.SessionBuilder` does.

        Args:
            filled: Whether the file says when the session began.
        """
        timed = next((place for place, (_, missing, _) in enumerate(self._untimed) if not missing), None)
        before = [kind for kind, _, _ in self._untimed[:timed]]
        known = filled or (timed is not None and "message" not in before)
        for place, (_kind, missing, untimed) in enumerate(self._untimed):
            made = known or (timed is not None and place >= timed)
            self.losses[words.MADE_TIMES] += made and (missing or untimed)


def unlike(message: JsonObject, read: JsonObject, *own: str) -> JsonObject:
    """Return the part of a mark that makes a message the one that was written.

    Args:
        message: As it was written.
        read: What a reader takes from the record itself, as far as a mark can tell otherwise.
        own: Fields that the record has a place for.
    """
    names = [name for name in {**message, **read} if name not in _ELSEWHERE and name not in own]
    told = {name: message.get(name) for name in names if message.get(name) != read.get(name)}
    if told.get("timestamp", 0) is None:
        # One without a time gets that of its entry.
        del told["timestamp"]
    return {"message": told} if told else {}


def marked(mark: JsonObject, more: JsonObject) -> JsonObject:
    """Return a mark whose message has further fields."""
    return {**mark, "message": {**mark.get("message", {}), **more}} if more else mark


def shaped(message: JsonObject, original: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Return a message whose content has the shape that other programs' files allow, and the original for its mark.

    Files are damaged and imported as they are: contents may be numbers, blocks may lack their type or their text.

    Args:
        message: As it is to go out.
        original: What the mark says already (`edited.as_edited`).
    """
    content = message.get("content")
    if isinstance(content, str) and message.get("role") == "user":
        return message, original
    if isinstance(content, list) and all(map(_is_shaped, content)):
        return message, original
    told = shaped_content(content)
    if message.get("role") != "user":
        told = [{"type": "text", "text": told}] if told and isinstance(told, str) else told or []
    return {**message, "content": told}, original or {"content": content}


def shaped_content(content: object) -> str | list[JsonObject]:
    """Return a content in the shape that other programs' files allow; what has none is left out."""
    if isinstance(content, list):
        return [block for block in map(_shaped_block, content) if block is not None]
    return content if isinstance(content, str) else ""


def said(value: object) -> str:
    """Return an id or name as text, whatever it is."""
    return value if isinstance(value, str) else "" if value is None else dump(value)


def _shaped_block(block: object) -> JsonObject | None:
    if _is_shaped(block):
        shaped_block: JsonObject | None = block if isinstance(block, dict) else None
        return shaped_block
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or kind not in ("thinking", "toolCall"):
        return None
    if kind == "thinking":
        signature = block.get("thinkingSignature")
        thinking = {**block, "thinking": said(block.get("thinking"))}
        return {**thinking, "thinkingSignature": signature if isinstance(signature, str) else None}
    arguments = block.get("arguments")
    call = {**block, "id": said(block.get("id")), "name": said(block.get("name"))}
    return {**call, "arguments": arguments if isinstance(arguments, dict) else {}}


def _is_shaped(block: object) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return False
    if kind == "thinking":
        signature = block.get("thinkingSignature")
        return isinstance(block.get("thinking"), str) and (signature is None or isinstance(signature, str))
    if kind == "toolCall":
        named = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
        return named and isinstance(block.get("arguments"), dict)
    return all(isinstance(block.get(name), str) for name in _TEXTS.get(kind, ()))
