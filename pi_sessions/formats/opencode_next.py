"""Makes one session of the messages of opencode's next generation of tables (`session_message`).

A straight list ordered by its sequence; calls and results lie inside the answer. Ids are computed as for the older
messages.

Source: opencode 1.18, table session_message.
"""

from __future__ import annotations

import json

from pi_sessions.formats import opencode_parts as parts_of
from pi_sessions.formats.foreign_values import object_of, objects_of, result_message, text_block, text_of, time_of
from pi_sessions.formats.opencode_session import OpencodeSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.formats.foreign_database import RowCount
    from pi_sessions.stored import JsonObject


class NextSession:
    """One session while it is being read: messages in order, then `finish`; arguments as `OpencodeSession`."""

    def __init__(self, source: str, importer: str, info: JsonObject, rows: RowCount) -> None:
        self._session = OpencodeSession(source, importer, info, rows, {})
        self.builder = self._session.builder
        self.finish = self._session.finish
        self._model: JsonObject = {}

    def take(self, message_id: str, kind: str, data: JsonObject, created: object, row: int) -> None:
        """Take in one message."""
        time_ms = time_of(object_of(data.get("time")).get("created")) or time_of(created)
        where: dict[str, Any] = {"time_ms": time_ms, "row": row, "foreign_id": message_id}
        text = text_of(data.get("text"))
        if kind == "user":
            blocks = ([text_block(text)] if text else []) + [_file(each) for each in objects_of(data.get("files"))]
            self._session.add("message", {"role": "user", "content": blocks}, **where)
        elif kind == "assistant":
            self._assistant(data, where)
        elif kind == "system":
            self._session.add("message", {"role": "system", "content": text}, **where)
        elif kind == "synthetic":
            self._session.for_model("synthetic", text, **where)
        elif kind == "shell":
            self._session.add("message", _shell(data), **where)
        elif kind == "model-switched":
            model = object_of(data.get("model"))
            provider, name = _model_of(model)
            self._session.add("model_change", {"provider": provider, "modelId": name}, **where)
        elif kind == "compaction":
            self._compaction(data, where)
        else:
            self._session.keep(kind or "message", data, known=kind == "agent-switched", **where)

    def _compaction(self, data: JsonObject, where: dict[str, Any]) -> None:
        recent = text_of(data.get("recent"))
        summary = text_of(data.get("summary"))
        fields: JsonObject = {
            "summary": f"{summary}\n\n{recent}".strip() if recent else summary,
            "firstKeptEntryId": "",
            "tokensBefore": 0,
            "details": {"opencode": {name: data[name] for name in ("reason", "recent") if data.get(name)}},
        }
        entry = self._session.add("compaction", fields, **where)
        self.builder.replace(entry, fields | {"firstKeptEntryId": entry.id})

    def _assistant(self, data: JsonObject, where: dict[str, Any]) -> None:
        blocks: list[JsonObject] = []
        results: list[JsonObject] = []
        for part in objects_of(data.get("content")):
            kind = part.get("type")
            if kind == "text":
                blocks.append(text_block(text_of(part.get("text"))))
            elif kind == "reasoning":
                blocks.append(parts_of.thinking_block(part))
            elif kind == "tool":
                blocks.append(parts_of.tool_call({**part, "tool": _tool(part)}))
                result = _result(part)
                results += [result] if result is not None else []
            elif isinstance(kind, str):
                blocks.append(part)
        provider, model = _model_of(object_of(data.get("model")))
        reason = data.get("finish")
        message: JsonObject = {
            "role": "assistant",
            "content": blocks,
            "api": parts_of.api_of(provider),
            "provider": provider,
            "model": model,
            "usage": parts_of.usage(data.get("tokens"), data.get("cost")),
            "stopReason": parts_of.stop_reason(reason, blocks),
        }
        kept = {name: data[name] for name in ("agent", "snapshot") if data.get(name)}
        message |= {"opencode": kept} if kept else {}
        self._session.add("message", message | parts_of.failure(data.get("error")), **where)
        for result in results:
            self._session.add("message", result, **where)


def _model_of(model: JsonObject) -> tuple[str, str]:
    return text_of(model.get("providerID") or model.get("provider")), text_of(model.get("modelID") or model.get("id"))


def _tool(part: JsonObject) -> str:
    return text_of(part.get("tool") or part.get("name"))


def _file(given: JsonObject) -> JsonObject:
    mime = given.get("mime") or given.get("mimeType")
    return parts_of.file_block({**given, "mime": mime, "url": given.get("url") or given.get("uri")})


def _shell(data: JsonObject) -> JsonObject:
    code = data.get("exitCode", data.get("exit"))
    message: JsonObject = {
        "role": "bashExecution",
        "command": text_of(data.get("command")),
        "output": text_of(data.get("output")),
        "cancelled": False,
        "truncated": False,
    }
    return message | ({"exitCode": code} if isinstance(code, int) else {})


def _result(part: JsonObject) -> JsonObject | None:
    state = object_of(part.get("state"))
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    call = part.get("callID") or part.get("id")
    if status == "error":
        told = state.get("error")
        text = told if isinstance(told, str) else text_of(object_of(told).get("message")) or json.dumps(told)
        return result_message(call, _tool(part), text, failed=True)
    content = state.get("content") if state.get("content") is not None else state.get("output")
    blocks: object = content
    if isinstance(content, list):
        blocks = [
            text_block(text_of(each.get("text"))) if each.get("type") == "text" else _file(each)
            for each in objects_of(content)
        ]
    elif not isinstance(content, str):
        blocks = [] if content is None else [text_block(json.dumps(content, ensure_ascii=False))]
    return result_message(call, _tool(part), blocks, failed=False, details=state.get("structured"))
