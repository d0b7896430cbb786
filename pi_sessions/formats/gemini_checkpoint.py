"""Reads what `/chat save TAG` of Gemini CLI wrote: one session, named after the tag.

A checkpoint is the list of contents that goes to the model. It has no times, no model names, no usage and no ids: ids
are made of what is said, so that checkpoints of one chat share their beginning; calls without an id get one, by which
their results know them; the file's time is that of the session.

Source: Gemini CLI 0.3x, `saveCheckpoint` (an object with `history`; a bare list before).
"""

from __future__ import annotations

import os
import re

from pi_sessions.errors import SourceError
from pi_sessions.formats import gemini_messages as messages
from pi_sessions.formats.building import computed_id
from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import text_of
from pi_sessions.formats.gemini import is_content
from pi_sessions.formats.gemini_reader import NAME, ChatTree, folder_of
from pi_sessions.formats.json_items import JsonItems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_TAGGED = re.compile(r"checkpoint-(.+)\.json")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_NO_WORD = re.compile(r"[^A-Za-z0-9._-]+")
_KINDS = {"user": "user", "model": "gemini"}


def read_checkpoint(path: str) -> Iterator[ParsedSession]:
    """Read one file; errors as `gemini.read`."""
    items = JsonItems(path, lambda value: is_content(value) or _holds_contents(value), is_content)
    rows = RowCount()
    tree = ChatTree(path)
    calls = _Calls()
    about: JsonObject = {}
    opening: list[JsonObject] = []
    for item in items:
        if item.parts is not None:
            contents, rest = item.parts, {}
        elif _holds_contents(item.value):
            contents, rest = item.value["history"], _without_history(item.value)
        else:
            contents, rest = [item.value], {}
        if rest:
            rows.take(rest, header=True)
            about |= rest
        for content in contents:
            number = rows.take(content)
            if not is_content(content):
                rows.lose(tree.builder, number, "not_a_content", "an item of the history has no role and parts")
                continue
            if not any(_is_prompt(each) for each in opening):
                opening.append(content)
            record = {"type": _KINDS[content["role"]], "content": calls.named(content["parts"])}
            tree.take(record, number)
    if not opening:
        raise SourceError(f"{path} holds no record of Gemini CLI")
    tree.builder.repairs += items.repairs
    tree.builder.losses += items.losses
    name = os.path.basename(inner_name(path))
    tagged = _TAGGED.fullmatch(name)
    tag = _tag(tagged[1]) if tagged else name.removesuffix(".json")
    yield tree.builder.finish(
        id=f"{NAME}-{_NO_WORD.sub('-', tag)}-{computed_id(tag, opening)[:8]}",
        header={"gemini": {"checkpoint": tag, **about}},
        # Chats lie a folder further in than checkpoints.
        cwd=folder_of(os.path.join(os.path.dirname(os.path.abspath(path)), "chats"), {}),
        created_ms=items.mtime_ms,
        leaf=tree.leaf,
        name=tag,
        **rows.told(tree.builder, items.mtime_ms),
    )


def _tag(name: str) -> str:
    """Return the tag that a file's name spells, special characters as `%` and two digits."""
    raw = name.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), raw).decode(errors="replace")


def _holds_contents(value: JsonObject) -> bool:
    return isinstance(value.get("history"), list)


def _without_history(value: JsonObject) -> JsonObject:
    return {name: each for name, each in value.items() if name != "history"}


def _is_prompt(content: JsonObject) -> bool:
    """Whether a content is something a person said."""
    told = messages.user_blocks(content["parts"])
    return content["role"] == "user" and bool(told) and not messages.is_machine_made(content["parts"])


class _Calls:
    """Gives calls that have no id one, and their results the same: results come in the order of calls of a name."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[tuple[str, str]] = []

    def named(self, parts: list[object]) -> list[object]:
        """Return the parts, calls and results with ids."""
        return [self._part(part) if isinstance(part, dict) else part for part in parts]

    def _part(self, part: JsonObject) -> JsonObject:
        call, response = part.get("functionCall"), part.get("functionResponse")
        if isinstance(call, dict):
            made = dict(call)
            if part.get("thoughtSignature"):
                made["thoughtSignature"] = part["thoughtSignature"]
            if not text_of(call.get("id")):
                self._made += 1
                made["id"] = f"call-{self._made}"
                self._open.append((text_of(call.get("name")), made["id"]))
            return {**part, "functionCall": made}
        if isinstance(response, dict) and not text_of(response.get("id")):
            name = text_of(response.get("name"))
            found = next((each for each in self._open if each[0] == name), None)
            if found is not None:
                self._open.remove(found)
                return {**part, "functionResponse": {**response, "id": found[1]}}
            self._made += 1
            return {**part, "functionResponse": {**response, "id": f"call-{self._made}"}}
        return part
