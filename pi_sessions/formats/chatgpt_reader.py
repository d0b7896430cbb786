"""Reads conversations of ChatGPT: each is a tree of nodes already, its leaf is `current_node`.

A message to a tool is a call, the tool's message its result; messages without any content are left out and their
children linked to what is above. Pictures that lie beside the file are taken in.

Source: the data export of chatgpt.com, as of 2026.
"""

from __future__ import annotations

import base64
import json
import os
import sys

from pi_sessions.errors import SourceError
from pi_sessions.formats.account_exports import read_conversations
from pi_sessions.formats.archives import files_below
from pi_sessions.formats.building import SessionBuilder
from pi_sessions.formats.chatgpt import IMPORTER
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import (
    arguments_of,
    json_of,
    line_of,
    object_of,
    objects_of,
    result_message,
    text_block,
    text_of,
    time_of,
    usage_of,
)
from pi_sessions.formats.json_items import Parts
from pi_sessions.formats.pi_reader import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

NAME = "chatgpt"
_IMAGES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
_MOST_BYTES = 20 << 20
_STOPS = {"stop": "stop", "interrupted": "aborted", "max_tokens": "length"}
_NOTES = ("reasoning_recap", "app_pairing_content", "super_widget")
_CONTEXTS = ("user_editable_context", "model_editable_context")
_MADE_TITLES = ("New chat",)
_KNOWN = ("id", "conversation_id", "title", "mapping", "current_node", "create_time")


def is_conversation(value: JsonObject) -> bool:
    """Whether an object is a conversation."""
    return isinstance(value.get("mapping"), dict | Parts)


def is_node(value: JsonObject) -> bool:
    """Whether an object is a node of a conversation."""
    return "message" in value and isinstance(value.get("id"), str) and ("parent" in value or "children" in value)


def read_export(path: str) -> Iterator[ParsedSession]:
    """Read the conversations of a file; arguments and errors as `chatgpt.read`."""
    pictures = _Pictures(os.path.dirname(os.path.abspath(path)))

    def make(value: JsonObject, parts: Iterable[JsonObject] | None, mtime_ms: int) -> ParsedSession | None:
        nodes = _Nodes(parts if parts is not None else value["mapping"])
        is_empty = parts is not None and next(iter(nodes), None) is None
        return None if is_empty else _Conversation(path, value, pictures).read(nodes, mtime_ms)

    return read_conversations(path, "ChatGPT", is_conversation, is_node, make, many="mapping")


class _Nodes:
    """The nodes of a conversation, which can be gone through several times; equal ids are the same text."""

    def __init__(self, given: Iterable[JsonObject] | Parts | JsonObject) -> None:
        self._given = given

    def __iter__(self) -> Iterator[tuple[str, JsonObject]]:
        given = self._given
        named = given.items() if isinstance(given, dict) else given
        for node in named:
            key, value = (node.get("id"), node) if isinstance(node, dict) else node
            if isinstance(value, dict):
                yield sys.intern(text_of(key)), value


class _Pictures:
    """The pictures of an export, by the id that begins their names."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._paths: dict[str, str] | None = None

    def block(self, pointer: JsonObject) -> JsonObject:
        """Return a picture as an image block, as a reference when its file is not there."""
        name = text_of(pointer.get("asset_pointer")).rpartition("//")[2].partition("?")[0]
        path = self._find(name) if name else None
        if path is not None:
            mime = _IMAGES[path.rpartition(".")[2].lower()]
            try:
                with open_source(path) as file:
                    data = file.read(_MOST_BYTES + 1)
            except (OSError, SourceError):
                data = b""
            if 0 < len(data) <= _MOST_BYTES:
                return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime}
        return {**pointer, "type": "image_reference"}

    def _find(self, name: str) -> str | None:
        if self._paths is None:
            self._paths = {}
            for place, files in files_below(self._folder, depth=2):
                for file in files:
                    stem, _dot, ending = file.rpartition(".")
                    if ending.lower() in _IMAGES and stem.startswith(("file", "sediment")):
                        key = "-".join(stem.split("-")[:2])
                        self._paths.setdefault(key, os.path.join(place, file))
                        self._paths.setdefault(stem, os.path.join(place, file))
        return self._paths.get(name) or self._paths.get("-".join(name.split("-")[:2]))


class _Conversation:
    """One conversation while it is being read."""

    def __init__(self, path: str, value: JsonObject, pictures: _Pictures) -> None:
        self.builder = SessionBuilder(NAME, path, IMPORTER, untimed=True)
        self.value = value
        self._pictures = pictures
        self._model = text_of(value.get("default_model_slug"))
        self._parents: dict[str, str | None] = {}
        self._calls: dict[str, str] = {}
        self._rows = RowCount()

    def read(self, nodes: _Nodes, mtime_ms: int) -> ParsedSession:
        """Make the entries of all nodes and return the session."""
        about = {name: value for name, value in self.value.items() if name not in ("mapping",)}
        self._rows.take(about, header=True)
        count = 0
        for node_id, node in nodes:
            count += 1
            parent, message = node.get("parent"), node.get("message")
            self._parents[node_id] = sys.intern(parent) if isinstance(parent, str) else None
            self._calls.pop(node_id, None)
            if isinstance(message, dict) and _addressee(message) is not None:
                self._calls[node_id] = _addressee(message) or ""
        # Of several with one id the last counts.
        repeated = count > len(self._parents)
        last = {node_id: place for place, (node_id, _node) in enumerate(nodes)} if repeated else {}
        for place, (node_id, node) in enumerate(nodes):
            if last.get(node_id, place) == place:
                message = node.get("message")
                number = self._rows.take(message)
                if isinstance(message, dict):
                    self._node(node_id, message, number)
        for entry in self.builder.entries:
            entry.parent_id = self._above(entry.parent_id)
        return self._finish(mtime_ms)

    def _above(self, node_id: str | None) -> str | None:
        """Return the nearest node at or above one that gave an entry; a missing one is left for the report."""
        seen: set[str] = set()
        at = node_id
        while isinstance(at, str) and at not in self.builder and at in self._parents and at not in seen:
            seen.add(at)
            at = self._parents[at]
        return at if isinstance(at, str) and (at in self.builder or at not in seen) else None

    def _node(self, node_id: str, message: JsonObject, number: int) -> None:
        author = object_of(message.get("author"))
        role = author.get("role")
        content = object_of(message.get("content"))
        kind = text_of(content.get("content_type"))
        where: dict[str, Any] = {
            "id": node_id,
            "parent": self._parents.get(node_id),
            "time_ms": time_of(message.get("create_time")),
            "line": number,
        }
        metadata = object_of(message.get("metadata"))
        kept = {name: value for name, value in metadata.items() if value not in (None, "", [], {}, False)}
        extra: JsonObject = {"chatgpt": kept} if kept else {}
        if kind in _NOTES:
            self.builder.custom(kind, {"content": content, "metadata": kept}, **where)
        elif kind in _CONTEXTS:
            told = [text_of(content.get(name)) for name in ("user_profile", "user_instructions", "model_set_context")]
            self.builder.text_for_model("context", "\n\n".join(text for text in told if text), **where)
        elif role == "assistant":
            self.builder.message(self._answer(node_id, message, content, metadata) | extra, **where)
        elif role == "tool":
            call = self._call_above(node_id, text_of(author.get("name")))
            name = self._calls.get(call, "") or text_of(author.get("name"))
            failed = kind == "system_error"
            result = result_message(call, name, self._blocks(content), failed=failed)
            self.builder.message(result | extra, **where)
        elif role in ("user", "system"):
            blocks = self._blocks(content)
            empty = not any(block.get("text") or block["type"] != "text" for block in blocks)
            if role == "user" or not empty:
                self.builder.message({"role": role, "content": blocks, **extra}, **where)
        else:
            self.builder.not_understood(f"role.{role}", message, **where)

    def _answer(self, node_id: str, message: JsonObject, content: JsonObject, metadata: JsonObject) -> JsonObject:
        name = self._calls.get(node_id)
        if name is not None:
            text = _text(content)
            given = json_of(text)
            arguments = arguments_of(given if isinstance(given, dict) else {"input": text})
            blocks: list[JsonObject] = [{"type": "toolCall", "id": node_id, "name": name, **arguments}]
        elif content.get("content_type") == "thoughts":
            blocks = [
                {"type": "thinking", "thinking": f"**{text_of(one.get('summary'))}**\n{text_of(one.get('content'))}"}
                for one in objects_of(content.get("thoughts"))
            ]
        else:
            blocks = self._blocks(content)
        model = text_of(metadata.get("model_slug")) or self._model
        ended = object_of(metadata.get("finish_details")).get("type")
        return {
            "role": "assistant",
            "content": blocks,
            "api": "openai-responses",
            "provider": "openai",
            "model": model,
            "usage": usage_of(),
            "stopReason": _STOPS.get(text_of(ended), "stop") if name is None else "toolUse",
        }

    def _call_above(self, node_id: str, tool: str) -> str:
        """Return the call a tool's message answers: the nearest one above it, of that tool if there is one."""
        first = ""
        at, seen = self._parents.get(node_id), {node_id}
        while isinstance(at, str) and at not in seen:
            seen.add(at)
            name = self._calls.get(at)
            if name is not None:
                if name == tool or name.partition(".")[0] == tool.partition(".")[0]:
                    return at
                first = first or at
            at = self._parents.get(at)
        return first

    def _blocks(self, content: JsonObject) -> list[JsonObject]:
        kind = content.get("content_type")
        parts = content.get("parts")
        if not isinstance(parts, list):
            text = _text(content)
            return [text_block(text)] if text else []
        blocks: list[JsonObject] = []
        for part in parts:
            if isinstance(part, str):
                blocks += [text_block(part)] if part else []
            elif isinstance(part, dict):
                pointer = part.get("content_type")
                if pointer == "image_asset_pointer":
                    blocks.append(self._pictures.block(part))
                elif pointer == "audio_transcription":
                    blocks.append(text_block(text_of(part.get("text"))))
                else:
                    blocks.append({**part, "type": text_of(pointer) or text_of(kind) or "part"})
        return blocks

    def _finish(self, mtime_ms: int) -> ParsedSession:
        value = self.value
        session_id = text_of(value.get("conversation_id")) or text_of(value.get("id"))
        rest = {
            name: each for name, each in value.items() if name not in _KNOWN and each not in (None, "", [], {}, False)
        }
        title = line_of(value.get("title"))
        current = value.get("current_node")
        return self.builder.finish(
            id=session_id or f"{NAME}-{next(iter(self._parents), 'empty')}",
            header={"chatgpt": rest} if rest else {},
            created_ms=time_of(value.get("create_time")),
            leaf=self._above(current) if isinstance(current, str) else None,
            name=None if title is None or title in _MADE_TITLES else title,
            **self._rows.told(self.builder, mtime_ms),
        )


def _addressee(message: JsonObject) -> str | None:
    """Return the tool a message of the model goes to; None when it is for people."""
    to = message.get("recipient")
    if object_of(message.get("author")).get("role") != "assistant" or to in (None, "", "all"):
        return None
    return text_of(to) or None


def _text(content: JsonObject) -> str:
    """Return the text of a content that is no list of parts, whatever its field is called."""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(part for part in parts if isinstance(part, str))
    for name in ("text", "result", "content", "summary"):
        if isinstance(content.get(name), str) and content[name]:
            return str(content[name])
    rest = {
        name: value for name, value in content.items() if name != "content_type" and value not in (None, "", [], {})
    }
    return json.dumps(rest, ensure_ascii=False) if rest and content.get("content_type") != "text" else ""
