"""Makes entries of the messages of a list, of all three shapes in use: Chat Completions, Responses items, Anthropic.

Lists have no ids: an entry's id is computed from what it says and what it follows, so that lists that begin alike share
entries. Items of one answer that stand apart (Responses) become one entry.

Source: OpenAI Chat Completions and Responses APIs; Anthropic Messages API 2023-06-01.
"""

from __future__ import annotations

import json

from pi_sessions.formats import claude_code_records as anthropic
from pi_sessions.formats import codex_items as responses
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.foreign_values import (
    call_block,
    count_of,
    image_of,
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
    from collections.abc import Iterable
    from typing import Any

    from pi_sessions.formats.foreign_database import RowCount
    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "messages"
_STOPS = {"stop": "stop", "tool_calls": "toolUse", "function_call": "toolUse", "length": "length"}
_CORE = frozenset(("role", "content", "type", "tool_calls", "function_call", "tool_call_id", "refusal", "usage"))
_TIMES = ("created_at", "timestamp", "created", "time")
_REASONING = ("reasoning_content", "reasoning")


class MessageList:
    """The entries of one session while they are made; several lists of one session may be taken, one after the other.

    Args:
        source: Path of the source.
        importer: Version of the reader.
        model: Of answers that name none.
    """

    def __init__(self, source: str, importer: str, *, model: str = "") -> None:
        self.builder = SessionBuilder(NAME, source, importer, untimed=True)
        self.leaf: str | None = None
        self._model = model
        self._names: dict[str, str] = {}
        self._open: tuple[JsonObject, list[JsonObject], int] | None = None
        self._pending: list[str] = []
        self._calls = 0
        self._tools: JsonObject = {}

    def restart(self) -> None:
        """Begin another list of the same session; what it has in common is the same entries."""
        self.flush()
        self.leaf = None
        self._pending = []

    def tools(self, given: object) -> None:
        """Declare the tools of the request; they stand in the first system message."""
        declared = []
        for tool in objects_of(given):
            told = object_of(tool.get("function")) or tool
            schema = told.get("parameters", told.get("input_schema"))
            if isinstance(told.get("name"), str):
                description = text_of(told.get("description"))
                declared.append({"name": told["name"], "description": description, "parameters": object_of(schema)})
        self._tools = {"toolsAdded": declared} if declared else {}

    def system(self, content: object, row: int) -> None:
        """Add instructions that stand beside the list."""
        if content:
            self._system({"content": content}, row)

    def take(self, item: JsonObject, row: int) -> None:
        """Take in one message or item."""
        role, kind = item.get("role"), item.get("type")
        kind = kind if kind is None or isinstance(kind, str) else ""
        if kind in (None, "message") and isinstance(role, str):
            if role == "assistant":
                self._assistant(item, row)
                return
            self.flush()
            if role in ("system", "developer"):
                self._system(item, row)
            elif role == "user":
                self._user(item, row)
            elif role in ("tool", "function"):
                self._result(item, row)
            else:
                self._add("odd", f"role.{role}", item, item, row)
        elif kind == "reasoning":
            self._gather(responses.thinking_block(item), item, row)
        elif kind in responses.CALLS:
            self._gather(self._called(responses.tool_call(item)), item, row)
        elif kind in responses.OUTPUTS or kind == "computer_call_output":
            self.flush()
            call = text_of(item.get("call_id"))
            self._message(responses.result_message(item, self._names.get(call, "")), item, row)
        elif isinstance(kind, str) and kind.endswith("_call"):
            self._gather({**item}, item, row)
        else:
            self.flush()
            self._add("odd", text_of(kind) or "item", item, item, row)

    def flush(self) -> None:
        """Finish the answer whose items are being gathered."""
        if self._open is not None:
            item, blocks, row = self._open
            self._open = None
            self._message(self._answer(item, blocks, "openai", "openai-responses"), item, row)

    def add_usage(self, fields: JsonObject, told: object, rows: RowCount) -> None:
        """Add a usage entry behind the last entry, once."""
        made = computed_id(self.leaf, "usage", fields, told)
        if made not in self.builder:
            self.builder.add("usage", fields, id=made, parent=self.leaf, time_ms=None, line=rows.take(fields))
        self.leaf = made

    # --- kinds of messages ----------------------------------------------------------------------------------------

    def _system(self, item: JsonObject, row: int) -> None:
        blocks = _blocks(item.get("content"))
        plain = all(block == text_block(block.get("text", "")) for block in blocks)
        content: object = "\n\n".join(block["text"] for block in blocks) if plain else blocks
        message: JsonObject = {"role": "system", "content": content, **self._tools}
        self._tools = {}
        self._message(message, item, row)

    def _declared(self, row: int) -> None:
        """Add the tools, where the list has no instructions before its first message."""
        if self._tools:
            self._system({"content": ""}, row)

    def _user(self, item: JsonObject, row: int) -> None:
        content = item.get("content")
        given = objects_of(content)
        results = [block for block in given if block.get("type") == "tool_result"]
        for block in results:
            call = text_of(block.get("tool_use_id"))
            self._message(anthropic.result_message(block, self._names.get(call, ""), None), {}, row)
        rest = [block for block in given if block.get("type") != "tool_result"] if results else content
        if rest or not results:
            shown = rest if isinstance(rest, str) else _blocks(rest)
            self._message({"role": "user", "content": shown}, item, row)

    def _assistant(self, item: JsonObject, row: int) -> None:
        content = item.get("content")
        given = objects_of(content)
        kinds = {text_of(block.get("type")) for block in given}
        if item.get("type") == "message" or "output_text" in kinds:
            for block in responses.blocks_of(content) or [text_block("")]:
                self._gather(block, item, row)
            return
        self.flush()
        if kinds & {"tool_use", "thinking", "redacted_thinking"}:
            blocks = anthropic.assistant_blocks(content)
            self._message(self._answer(item, blocks, "anthropic", "anthropic-messages"), item, row)
            return
        blocks = [
            {"type": "thinking", "thinking": item[name]} for name in _REASONING if isinstance(item.get(name), str)
        ]
        blocks = [block for block in blocks[:1] if block["thinking"]] + _blocks(content)
        if isinstance(item.get("refusal"), str):
            blocks.append(text_block(item["refusal"]))
        for call in objects_of(item.get("tool_calls")):
            told = object_of(call.get("function")) or object_of(call.get("custom"))
            arguments = told.get("arguments", told.get("input"))
            blocks.append(call_block(call.get("id"), told.get("name"), arguments))
        legacy = item.get("function_call")
        if isinstance(legacy, dict):
            self._calls += 1
            blocks.append(call_block(f"function_{self._calls}", legacy.get("name"), legacy.get("arguments")))
        told_apart = "anthropic" if text_of(item.get("model") or self._model).startswith("claude") else "openai"
        api = "anthropic-messages" if told_apart == "anthropic" else "openai-completions"
        self._message(self._answer(item, blocks, told_apart, api), item, row)

    def _result(self, item: JsonObject, row: int) -> None:
        call, name = item.get("tool_call_id"), item.get("name")
        if not isinstance(call, str):
            known = [each for each in self._pending if self._names.get(each) == name] or self._pending
            call = known[0] if known else ""
        content = item.get("content")
        blocks: object = content if isinstance(content, str) else _blocks(content)
        name = name if isinstance(name, str) else self._names.get(call)
        self._message(result_message(call, name, blocks, failed=False), item, row)

    def _gather(self, block: JsonObject, item: JsonObject, row: int) -> None:
        """Put a part of an answer to the parts before it."""
        if self._open is None:
            self._open = ({}, [], row)
        first, blocks, begun = self._open
        blocks.append(block)
        told = {name: value for name, value in item.items() if name in ("model", "usage", "status", *_TIMES)}
        if item.get("type") == "message" and isinstance(item.get("id"), str):
            told["id"] = item["id"]
        self._open = ({**first, **told}, blocks, begun)

    def _called(self, block: JsonObject) -> JsonObject:
        self._names[block["id"]] = block["name"]
        return block

    def _answer(self, item: JsonObject, blocks: list[JsonObject], provider: str, api: str) -> JsonObject:
        for block in blocks:
            if block["type"] == "toolCall":
                self._called(block)
                self._pending.append(block["id"])
        called = any(block["type"] == "toolCall" for block in blocks)
        reason = item.get("finish_reason", item.get("stop_reason"))
        stop = _STOPS.get(reason) or anthropic.STOP_REASONS.get(reason) if isinstance(reason, str) else None
        return {
            "role": "assistant",
            "content": blocks,
            "api": api,
            "provider": text_of(item.get("provider")) or provider,
            "model": text_of(item.get("model")) or self._model,
            "usage": _usage(item.get("usage")),
            "stopReason": stop or ("toolUse" if called else "stop"),
        }

    # --- entries --------------------------------------------------------------------------------------------------

    def _message(self, message: JsonObject, item: JsonObject, row: int) -> None:
        if message["role"] != "system":
            self._declared(row)
        if message["role"] == "toolResult" and message["toolCallId"] in self._pending:
            self._pending.remove(message["toolCallId"])
        known = (*_CORE, *_TIMES, *_REASONING, "model", "provider", "finish_reason", "stop_reason", "call_id", "output")
        rest = {name: value for name, value in item.items() if name not in known and value is not None}
        if message["role"] == "toolResult":
            rest.pop("name", None)
            rest.pop("success", None)
        if rest:
            message["messageList"] = rest
        self._add("message", message["role"], message, item, row)

    def _add(self, kind: str, name: str, fields: JsonObject, item: JsonObject, row: int) -> StoredEntry:
        time_ms = next((time for time in (time_of(item.get(field)) for field in _TIMES) if time is not None), None)
        made = computed_id(self.leaf, kind, name, fields, time_ms)
        known = self.builder.entry(made)
        if known is None:
            where: dict[str, Any] = {"id": made, "parent": self.leaf, "time_ms": time_ms, "line": row}
            if kind == "message":
                known = self.builder.message(fields, **where)
            else:
                known = self.builder.not_understood(name, fields, **where)
        self.leaf = known.id
        return known


def _blocks(content: object) -> list[JsonObject]:
    """Return a content's blocks; kinds without a place stay as they are."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    found: list[JsonObject] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            found.append(text_block(part))
            continue
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, dict) else url
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            rest = {name: value for name, value in part.items() if name == "cache_control"}
            found.append({**text_block(part["text"]), **rest})
        elif kind in ("image_url", "input_image"):
            found.append(image_of(url) or {**part, "type": "image_reference"})
        elif kind == "refusal":
            found.append(text_block(text_of(part.get("refusal"))))
        elif kind == "image":
            found += anthropic.assistant_blocks([part])
        elif isinstance(kind, str):
            found.append(dict(part))
    return found


def _usage(given: object) -> JsonObject:
    """Return an answer's usage, as either provider writes it."""
    told = object_of(given)
    if "cache_read_input_tokens" in told or "cache_creation_input_tokens" in told:
        return anthropic.usage_of(told, None)
    read = told.get("prompt_tokens", told.get("input_tokens"))
    details = object_of(told.get("prompt_tokens_details") or told.get("input_tokens_details"))
    answer = object_of(told.get("completion_tokens_details") or told.get("output_tokens_details"))
    cached = min(count_of(details.get("cached_tokens")), count_of(read))
    return usage_of(
        count_of(read) - cached,
        told.get("completion_tokens", told.get("output_tokens")),
        cache_read=cached,
        reasoning=answer.get("reasoning_tokens"),
        cost=told.get("cost"),
    )


def opening_of(items: Iterable[JsonObject]) -> str:
    """Return what tells conversations apart: everything up to the first message of a user."""
    told: list[str] = []
    for item in items:
        told.append(json.dumps([item.get("role"), item.get("content")], sort_keys=True, ensure_ascii=False))
        if item.get("role") == "user":
            break
    return computed_id(told)
