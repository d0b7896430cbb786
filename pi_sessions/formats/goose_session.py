"""Makes one session of goose's messages, whether they come from its database or from a file of lines.

goose keeps a straight list and, when it compacts, hides what came before from the model and adds a summary that only
the model sees. What a message says becomes an entry; whether it is hidden changes later and so never is part of one.
Ids are computed from what entries say and what they follow, so that a copied session shares its entries.

Source: goose 1.10 and later, messages and their metadata.
"""

from __future__ import annotations

import json

from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.foreign_values import (
    call_block,
    object_of,
    objects_of,
    result_message,
    text_block,
    text_of,
    time_of,
    usage_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.formats.spool import LaterRecords
    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "goose"
_NOTICES = frozenset(
    (
        "systemNotification",
        "contextLengthExceeded",
        "summarizationRequested",
        "conversationCompacted",
        "toolConfirmationRequest",
        "actionRequired",
        "frontendToolRequest",
    )
)
_APIS = {"anthropic": "anthropic-messages", "openai": "openai-completions", "google": "google-generative-ai"}


class GooseMessage:
    """A message and where it comes from.

    Attributes:
        user_visible, agent_visible: Who sees it, as of now.
    """

    __slots__ = ("_content", "_records", "agent_visible", "id", "role", "row", "time_ms", "user_visible")

    def __init__(
        self,
        records: LaterRecords,
        id: str,
        role: str,
        content: list[JsonObject],
        created: object,
        metadata: JsonObject,
        row: int,
    ) -> None:
        self._records = records
        self.id = id
        self.role = role
        self._content = records.keep({"content": content})
        self.time_ms = time_of(created)
        self.row = row
        self.user_visible = metadata.get("userVisible") is not False
        self.agent_visible = metadata.get("agentVisible") is not False

    @property
    def content(self) -> list[JsonObject]:
        """What it says, kept among the records of its session."""
        content: list[JsonObject] = self._records.read(self._content)["content"]
        return content


class Spent:
    """A row of the ledger: what one response took."""

    __slots__ = ("data", "row", "time_ms")

    def __init__(self, data: JsonObject, row: int) -> None:
        self.data = data
        self.row = row
        self.time_ms = time_of(data.get("created_timestamp"))


class GooseSession:
    """One session while it is being made.

    Args:
        source: Path of the source.
        importer: Version of the reader.
        provider, model: Of answers the ledger says nothing about.
    """

    def __init__(self, source: str, importer: str, provider: str, model: str) -> None:
        self.builder = SessionBuilder(NAME, source, importer, untimed=True)
        self.leaf: str | None = None
        self._provider = provider
        self._model = model
        self._names: dict[str, str] = {}
        self._ledger: list[Spent] = []

    def grow(self, messages: list[GooseMessage], ledger: list[Spent]) -> None:
        """Make the entries.

        Args:
            messages: In order.
            ledger: In order.
        """
        self._ledger = sorted(ledger, key=lambda spent: spent.time_ms or 0)
        waiting = list(self._ledger)
        starts = _summaries(messages)
        last = max(starts, default=-1)
        for place, message in enumerate(messages):
            while waiting and message.time_ms is not None and (waiting[0].time_ms or 0) < message.time_ms:
                self._spend(waiting.pop(0))
            if place in starts:
                self._compaction(message)
            elif not message.user_visible:
                self._for_model(message)
            elif not message.agent_visible and place > last:
                self._add("custom.hidden", {"role": message.role, "content": message.content}, message)
            elif message.role == "assistant":
                self._answer(message)
            else:
                self._user(message)
        for spent in waiting:
            self._spend(spent)

    # --- entries --------------------------------------------------------------------------------------------------

    def _add(self, kind: str, fields: Any, message: GooseMessage | Spent, *, known: bool = True) -> StoredEntry:
        builder, number = self.builder, 1
        made = computed_id(self.leaf, kind, message.time_ms, fields)
        while made in builder:
            number += 1
            made = computed_id(self.leaf, kind, message.time_ms, fields, number)
        where: dict[str, Any] = {"id": made, "parent": self.leaf, "time_ms": message.time_ms, "line": message.row}
        where["foreign_id"] = (message.id or None) if isinstance(message, GooseMessage) else None
        name = kind.partition(".")[2]
        if kind == "message":
            entry = builder.message(fields, **where)
        elif kind.startswith("custom."):
            entry = (builder.custom if known else builder.not_understood)(name, fields, **where)
        elif kind.startswith("text."):
            entry = builder.text_for_model(name, fields, **where)
        else:
            entry = builder.add(kind, fields, **where)
        self.leaf = entry.id
        return entry

    def _user(self, message: GooseMessage) -> None:
        blocks: list[JsonObject] = []
        rest: list[JsonObject] = []
        for part in message.content:
            kind = part.get("type")
            if kind == "toolResponse":
                self._add("message", self._result(part), message)
            elif kind in ("text", "image"):
                blocks.append(_block(part))
            else:
                rest.append(part)
        if blocks or not message.content:
            self._add("message", {"role": "user", "content": blocks}, message)
        self._rest(rest, message)

    def _answer(self, message: GooseMessage) -> None:
        blocks: list[JsonObject] = []
        rest: list[JsonObject] = []
        results: list[JsonObject] = []
        for part in message.content:
            kind = part.get("type")
            if kind == "toolRequest":
                blocks.append(self._call(part))
            elif kind == "toolResponse":
                results.append(self._result(part))
            elif kind == "thinking":
                blocks.append({"type": "thinking", "thinking": text_of(part.get("thinking"))})
                if part.get("signature"):
                    blocks[-1]["thinkingSignature"] = part["signature"]
            elif kind == "redactedThinking":
                block = {"type": "thinking", "thinking": "", "thinkingSignature": text_of(part.get("data"))}
                blocks.append({**block, "redacted": True})
            elif kind == "reasoning":
                blocks.append({"type": "thinking", "thinking": text_of(part.get("text"))})
            elif kind in ("text", "image"):
                blocks.append(_block(part))
            else:
                rest.append(part)
        if blocks or not (rest or results):
            called = any(block["type"] == "toolCall" for block in blocks)
            answer: JsonObject = {
                "role": "assistant",
                "content": blocks,
                "api": _APIS.get(self._provider, "openai-completions"),
                "provider": self._provider,
                "model": self._model_at(message.time_ms),
                "usage": usage_of(),
                "stopReason": "toolUse" if called else "stop",
            }
            self._add("message", answer, message)
        for result in results:
            self._add("message", result, message)
        self._rest(rest, message)

    def _model_at(self, time_ms: int | None) -> str:
        """Return the model of the response that was counted at a time, since a session's model can change."""
        for spent in self._ledger:
            model = text_of(spent.data.get("model"))
            if model and not spent.data.get("is_compaction") and (spent.time_ms or 0) >= (time_ms or 0):
                return model
        return self._model

    def _rest(self, parts: list[JsonObject], message: GooseMessage) -> None:
        for part in parts:
            kind = text_of(part.get("type")) or "content"
            self._add(f"custom.{kind}", part, message, known=kind in _NOTICES)

    def _call(self, part: JsonObject) -> JsonObject:
        given = object_of(part.get("toolCall"))
        value = object_of(given.get("value")) or (given if "name" in given else {})
        call = call_block(part.get("id"), value.get("name"), value.get("arguments"))
        if given.get("status") == "error":
            call["argumentsError"] = text_of(given.get("error")) or "the call could not be read"
        self._names[call["id"]] = call["name"]
        return call

    def _result(self, part: JsonObject) -> JsonObject:
        call = text_of(part.get("id"))
        given = object_of(part.get("toolResult"))
        value = given.get("value")
        failed = given.get("status") == "error"
        content: object = text_of(given.get("error")) if failed else value
        details = None
        if isinstance(value, dict):
            content = value.get("content")
            failed = failed or value.get("isError") is True
            details = value.get("structuredContent")
        if isinstance(content, list):
            content = [_block(each) for each in objects_of(content)]
        elif not isinstance(content, str):
            content = "" if content is None else json.dumps(content, ensure_ascii=False)
        return result_message(call, self._names.get(call), content, failed=failed, details=details)

    def _compaction(self, message: GooseMessage) -> None:
        summary = "\n".join(text_of(part.get("text")) for part in message.content if part.get("type") == "text")
        fields: JsonObject = {"summary": summary, "firstKeptEntryId": "", "tokensBefore": 0}
        entry = self._add("compaction", fields, message)
        self.builder.replace(entry, fields | {"firstKeptEntryId": entry.id})

    def _for_model(self, message: GooseMessage) -> None:
        blocks = [_block(part) for part in message.content if part.get("type") in ("text", "image")]
        rest = [part for part in message.content if part.get("type") not in ("text", "image")]
        if blocks:
            self._add("text.hidden", blocks, message)
        self._rest(rest, message)

    def _spend(self, spent: Spent) -> None:
        data = spent.data
        usage = usage_of(
            data.get("input_tokens"),
            data.get("output_tokens"),
            cache_read=data.get("cache_read_tokens"),
            cache_write=data.get("cache_write_tokens"),
            cost=data.get("cost"),
        )
        fields: JsonObject = {
            "kind": "compaction" if data.get("is_compaction") else "response",
            "provider": self._provider,
            "model": text_of(data.get("model")) or self._model,
            "usage": usage,
        }
        self._add("usage", fields, spent)


def _block(part: JsonObject) -> JsonObject:
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return text_block(part["text"])
    if part.get("type") == "image" and isinstance(part.get("data"), str):
        return {"type": "image", "data": part["data"], "mimeType": text_of(part.get("mimeType")) or "image/png"}
    return {**part, "type": text_of(part.get("type")) or "content"}


def _summaries(messages: list[GooseMessage]) -> set[int]:
    """Return the places of the summaries: hidden from people, and hiding from the model all that came before."""
    found: set[int] = set()
    all_hidden = in_run = False
    for place, message in enumerate(messages):
        if not message.user_visible and not in_run and place:
            stands = message.agent_visible and all_hidden
            if stands or not message.agent_visible:
                found.add(place)
        in_run = not message.user_visible
        all_hidden = (all_hidden or not place) and not message.agent_visible
    return found
