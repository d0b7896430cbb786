"""Reads conversations of Claude.ai: messages with their parents, or a straight list in older exports.

One message holds all steps of an answer, results of tools included: each step is an entry of its own, and the results
follow it.

Source: the data export of claude.ai, as of 2026.
"""

from __future__ import annotations

from pi_sessions.formats import claude_code_records as anthropic
from pi_sessions.formats.account_exports import read_conversations
from pi_sessions.formats.building import SessionBuilder
from pi_sessions.formats.claude_ai import IMPORTER
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import line_of, objects_of, text_block, text_of, time_of, usage_of
from pi_sessions.formats.json_items import Parts
from pi_sessions.formats.parsed import Repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

NAME = "claude-ai"
# The parent of a first message.
_NOBODY = "00000000-0000-4000-8000-000000000000"
_KNOWN = ("uuid", "name", "created_at", "updated_at", "chat_messages", "current_leaf_message_uuid")


def is_conversation(value: JsonObject) -> bool:
    """Whether an object is a conversation."""
    return isinstance(value.get("chat_messages"), list | Parts) and isinstance(value.get("uuid"), str)


def is_message(value: JsonObject) -> bool:
    """Whether an object is a message of a conversation."""
    return isinstance(value.get("uuid"), str) and value.get("sender") in ("human", "assistant")


def read_export(path: str) -> Iterator[ParsedSession]:
    """Read the conversations of a file; arguments and errors as `claude_ai.read`."""

    def make(value: JsonObject, parts: Iterable[JsonObject] | None, mtime_ms: int) -> ParsedSession | None:
        if parts is not None and next(iter(parts), None) is None:
            return None
        return _Conversation(path, value).read(parts if parts is not None else value["chat_messages"], mtime_ms)

    return read_conversations(path, "Claude.ai", is_conversation, is_message, make, many="chat_messages")


class _Conversation:
    """One conversation while it is being read."""

    def __init__(self, path: str, value: JsonObject) -> None:
        self.builder = SessionBuilder(NAME, path, IMPORTER, untimed=True)
        self.value = value
        self._rows = RowCount()
        self._last: dict[str, str] = {}
        self._model = text_of(value.get("model"))

    def read(self, messages: Iterable[Any], mtime_ms: int) -> ParsedSession:
        """Make the entries of all messages and return the session."""
        value = self.value
        self._rows.take({name: each for name, each in value.items() if name != "chat_messages"}, header=True)
        previous: str | None = None
        # A parent may come later: links are told by message first, then by the last entry of each message.
        linked: list[tuple[Any, str]] = []
        for message in messages:
            number = self._rows.take(message)
            if not isinstance(message, dict) or not isinstance(message.get("uuid"), str):
                self._rows.lose(self.builder, number, "not_a_message", "an item of the list is no message")
                continue
            if message["uuid"] in self._last:
                found = "a message that is there already was left out"
                self.builder.repairs.append(Repair(number, "repeated", found))
                continue
            given = message.get("parent_message_uuid", previous)
            first = len(self.builder.entries)
            self._message(message, number)
            linked.append((self.builder.entries[first], "" if given in (None, _NOBODY) else text_of(given)))
            previous = message["uuid"]
        for entry, above in linked:
            entry.parent_id = self._last.get(above, above) if above else None
        rest = {name: each for name, each in value.items() if name not in _KNOWN and each not in (None, "", [], {})}
        leaf = value.get("current_leaf_message_uuid")
        return self.builder.finish(
            id=text_of(value.get("uuid")) or f"{NAME}-{previous}",
            header={"claudeAi": rest} if rest else {},
            created_ms=time_of(value.get("created_at")),
            leaf=self._last.get(text_of(leaf)) or self._last.get(previous or ""),
            name=line_of(value.get("name")),
            **self._rows.told(self.builder, mtime_ms),
        )

    def _message(self, message: JsonObject, number: int) -> None:
        kept = {
            name: message[name] for name in ("attachments", "files", "files_v2") if isinstance(message.get(name), list)
        }
        kept = {name: [_without_text(each) for each in objects_of(listed)] for name, listed in kept.items() if listed}
        extra: JsonObject = {"claudeAi": kept} if kept else {}
        where: dict[str, Any] = {"time_ms": time_of(message.get("created_at")), "line": number}
        content = objects_of(message.get("content"))
        if not content and message.get("text"):
            content = [text_block(text_of(message["text"]))]
        if message.get("sender") == "human":
            blocks = [_said(block) for block in content] + _attached(message)
            self._add(message, {"role": "user", "content": blocks, **extra}, where)
        elif message.get("sender") == "assistant":
            self._answer(message, content, extra, where)
        else:
            uuid = message["uuid"]
            entry = self.builder.not_understood("message", message, id=uuid, parent=None, **where)
            self._last[uuid] = entry.id

    def _add(self, message: JsonObject, fields: JsonObject, where: dict[str, Any]) -> None:
        uuid = message["uuid"]
        above = self._last.get(uuid)
        number = 0 if above is None else int(above.rpartition(".")[2]) + 1 if "." in above else 1
        own = {"foreign_id": uuid} if number else {}
        entry = self.builder.message(fields, id=f"{uuid}.{number}" if number else uuid, parent=above, **own, **where)
        self._last[uuid] = entry.id

    def _answer(self, message: JsonObject, content: list[JsonObject], extra: JsonObject, where: dict[str, Any]) -> None:
        blocks: list[JsonObject] = []
        results: list[JsonObject] = []
        calls: list[JsonObject] = []

        def step(*, last: bool) -> None:
            if blocks or (last and message["uuid"] not in self._last):
                self._add(message, self._step(message, list(blocks)) | (extra if last else {}), where)
            for result in results:
                self._add(message, result, where)
            blocks.clear()
            results.clear()

        for number, block in enumerate(content):
            kind = block.get("type")
            if kind == "tool_result":
                call = _call_of(block, calls)
                results.append(
                    anthropic.result_message({**block, "tool_use_id": call["id"]}, call["name"], _details(block))
                )
                continue
            if results:
                step(last=False)
            if kind == "tool_use":
                called = {**block, "id": block.get("id") or f"{message['uuid']}-{number}"}
                blocks += anthropic.assistant_blocks([called])
                calls.append({"id": called["id"], "name": text_of(block.get("name")), "open": True})
            elif kind in ("text", "thinking", "redacted_thinking"):
                blocks += [_said(made) for made in anthropic.assistant_blocks([_plain(block)])]
            elif kind != "token_budget":
                blocks.append(block if isinstance(kind, str) else {**block, "type": "block"})
        for call in calls:
            if call["open"]:
                found = f"the call {call['id']} has no result"
                self.builder.repairs.append(Repair(where["line"], "call_without_result", found))
        step(last=True)

    def _step(self, message: JsonObject, blocks: list[JsonObject]) -> JsonObject:
        called = any(block["type"] == "toolCall" for block in blocks)
        return {
            "role": "assistant",
            "content": blocks,
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": text_of(message.get("model")) or self._model,
            "usage": usage_of(),
            "stopReason": "toolUse" if called else anthropic.stop_reason(message.get("stop_reason"), blocks),
        }


def _plain(block: JsonObject) -> JsonObject:
    """Return a block without what only the web page needs."""
    known = ("type", "text", "thinking", "signature", "data")
    return {name: value for name, value in block.items() if name in known}


def _said(block: JsonObject) -> JsonObject:
    if block.get("type") == "text":
        return text_block(text_of(block.get("text")))
    return {**block, "type": text_of(block.get("type")) or "block"}


def _attached(message: JsonObject) -> list[JsonObject]:
    """Return the texts of a message's attachments, which the model saw; other files as references."""
    found: list[JsonObject] = []
    for each in objects_of(message.get("attachments")):
        if text_of(each.get("extracted_content")):
            found.append(text_block(f"[{text_of(each.get('file_name'))}]\n{each['extracted_content']}"))
    for each in objects_of(message.get("files") or message.get("files_v2")):
        found.append({**each, "type": "file"})
    return found


def _without_text(given: JsonObject) -> JsonObject:
    return {name: value for name, value in given.items() if name != "extracted_content"}


def _call_of(block: JsonObject, calls: list[JsonObject]) -> JsonObject:
    """Return the call a result answers: by id, else the first open one of that name, else the first open one."""
    wanted, name = block.get("tool_use_id"), block.get("name")
    still = [call for call in calls if call["open"]]
    chosen = next((call for call in calls if call["id"] == wanted), None)
    chosen = chosen or next((call for call in still if call["name"] == name), None) or next(iter(still), None)
    if chosen is None:
        return {"id": text_of(wanted), "name": text_of(name)}
    chosen["open"] = False
    return chosen


def _details(block: JsonObject) -> JsonObject | None:
    rest = {name: block[name] for name in ("message", "display_content", "structured_content") if block.get(name)}
    return rest or None
