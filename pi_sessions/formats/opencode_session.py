"""Makes one session of opencode's messages and parts, whichever of its stores they come from.

opencode keeps a straight list. Each step of an answer is one entry, its tool results follow it. What opencode changes
afterwards never changes an entry: an output it cleared is a context edit at that time, an undone tail (`revert`) is a
branch that was left. Ids are computed from what entries say and what they follow, so that the copies that a fork makes
are the same entries.

Source: opencode 1.18, messages and parts.
"""

from __future__ import annotations

import hashlib

from pi_sessions.formats import opencode_parts as parts_of
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import json_of, line_of, object_of, objects_of, text_block, text_of, time_of
from pi_sessions.formats.parsed import ChildOf, Repair
from pi_sessions.stored import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "opencode"
_MADE_TITLES = ("New session - ", "Child session - ")
# What opencode may change after an answer is done, and what says where it belongs.
_PLACE = frozenset(("id", "sessionID", "messageID", "type"))


class Part:
    """A part of a message and its row."""

    __slots__ = ("data", "kind", "row")

    def __init__(self, data: JsonObject, row: int) -> None:
        self.data = data
        self.row = row
        self.kind = text_of(data.get("type"))

    @property
    def id(self) -> str:
        """What opencode calls it."""
        return text_of(self.data.get("id"))


class OpencodeSession:
    """One session while it is being read: messages in order, then `finish`.

    Args:
        source: Path of the source.
        importer: Version of the reader.
        info: The session's own record, in the spelling of the JSON files.
        rows: Counts the rows; the session's own is counted.
        calls: `{session id: call}` of subagents begun so far, over all sessions of the source.
    """

    def __init__(self, source: str, importer: str, info: JsonObject, rows: RowCount, calls: dict[str, str]) -> None:
        self.builder = SessionBuilder(NAME, source, importer, untimed=True)
        self.info = info
        self.rows = rows
        self.leaf: str | None = None
        self._calls = calls
        self._before: dict[str, str | None] = {}
        self._first_of: dict[str, str] = {}
        self._marker: tuple[JsonObject, list[Part], int] | None = None
        self._cleared: list[tuple[int, str, int]] = []

    # --- adding ---------------------------------------------------------------------------------------------------

    def add(self, kind: str, fields: JsonObject, *, time_ms: int | None, row: int, foreign_id: str) -> StoredEntry:
        """Add an entry behind the last one."""
        if kind == "message" and time_ms is not None:
            fields.setdefault("timestamp", time_ms)
        text = dump(fields)
        where = self._where(kind, text, time_ms, row, foreign_id)
        return self._follow(self.builder.add(kind, fields, text=text, **where), foreign_id)

    def keep(self, kind: str, data: object, *, known: bool, time_ms: int | None, row: int, foreign_id: str) -> None:
        """Keep what has no place in our model."""
        where = self._where(f"custom.{kind}", dump(data), time_ms, row, foreign_id)
        add = self.builder.custom if known else self.builder.not_understood
        self._follow(add(kind, data, **where), foreign_id)

    def for_model(self, kind: str, text: str, *, time_ms: int | None, row: int, foreign_id: str) -> None:
        """Add text a program put before the model."""
        where = self._where(f"text.{kind}", text, time_ms, row, foreign_id)
        self._follow(self.builder.text_for_model(kind, text, **where), foreign_id)

    def _where(self, kind: str, text: str, time_ms: int | None, row: int, foreign_id: str) -> dict[str, Any]:
        if self._cleared and time_ms is not None:
            self._clear(time_ms)
        made = _id_of(self.leaf, kind, time_ms, text)
        number = 1
        while made in self.builder:
            number += 1
            made = _id_of(self.leaf, kind, time_ms, text, number)
        return {"id": made, "parent": self.leaf, "time_ms": time_ms, "line": row, "foreign_id": foreign_id or None}

    def _follow(self, entry: StoredEntry, foreign_id: str) -> StoredEntry:
        self._before.setdefault(foreign_id, entry.parent_id)
        self._first_of.setdefault(foreign_id, entry.id)
        self.leaf = entry.id
        return entry

    def _clear(self, until_ms: int | None) -> None:
        """Add the context edits of outputs that were cleared before a time; all of them for None."""
        due = [each for each in self._cleared if until_ms is None or each[0] < until_ms]
        self._cleared = [each for each in self._cleared if each not in due]
        for time_ms, target, row in sorted(due):
            fields = {"targetId": target, "replacement": {"content": [text_block(parts_of.PRUNED)]}}
            made = computed_id(self.leaf, "context_edit", time_ms, target)
            edit = self.builder.add("context_edit", fields, id=made, parent=self.leaf, time_ms=time_ms, line=row)
            self.leaf = edit.id

    # --- messages -------------------------------------------------------------------------------------------------

    def take(self, info: JsonObject, parts: list[Part], row: int) -> None:
        """Take in one message with its parts."""
        message_id = text_of(info.get("id"))
        self._before.setdefault(message_id, self.leaf)
        role = info.get("role")
        if role == "assistant" and self._marker is not None:
            if info.get("summary") is True and self._compaction(info, parts, row):
                return
            self._settle_marker()
        if role == "user":
            self._settle_marker()
            if any(part.kind == "compaction" for part in parts):
                self._marker = (info, parts, row)
                return
            self._user(info, parts, row)
        elif role == "assistant":
            self._assistant(info, parts, row)
        else:
            time_ms = time_of(object_of(info.get("time")).get("created"))
            data = {**info, "parts": [part.data for part in parts]}
            self.keep(f"message.{role}", data, known=False, time_ms=time_ms, row=row, foreign_id=message_id)

    def _settle_marker(self) -> None:
        """A mark of a compaction without a finished summary behind it is no compaction; a fork may copy such."""
        if self._marker is None:
            return
        info, parts, row = self._marker
        self._marker = None
        self._user(info, parts, row)

    def _user(self, info: JsonObject, parts: list[Part], row: int) -> None:
        message_id = text_of(info.get("id"))
        time_ms = time_of(object_of(info.get("time")).get("created"))
        told = [(part, parts_of.user_block(part.data)) for part in parts]
        blocks = [block for _part, block in told if block is not None]
        if blocks or not parts:
            kept = {name: info[name] for name in ("agent", "system", "tools", "variant") if info.get(name)}
            model = object_of(info.get("model"))
            kept |= {"model": model} if model else {}
            message: JsonObject = {"role": "user", "content": blocks}
            message |= {"opencode": kept} if kept else {}
            self.add("message", message, time_ms=time_ms, row=row, foreign_id=message_id)
        for part, block in told:
            if block is None:
                self._rest(part, time_ms, message_id)

    def _rest(self, part: Part, time_ms: int | None, message_id: str) -> None:
        """Add a part that is no block of its message."""
        where: dict[str, Any] = {"time_ms": time_ms, "row": part.row, "foreign_id": part.id or message_id}
        data = {name: value for name, value in part.data.items() if name not in _PLACE}
        if part.kind == "text" and not part.data.get("ignored"):
            self.for_model("synthetic", text_of(part.data.get("text")), **where)
        else:
            known = part.kind in ("text", "agent", "subtask", "compaction", "snapshot", "patch", "retry", "step-start")
            self.keep(part.kind or "part", data, known=known or part.kind == "step-finish", **where)

    def _assistant(self, info: JsonObject, parts: list[Part], row: int) -> None:
        """Add an answer: one entry for each step, tool results behind their step."""
        steps: list[list[Part]] = [[]]
        for part in parts:
            if part.kind == "step-start" and any(each.kind != "step-start" for each in steps[-1]):
                steps.append([])
            steps[-1].append(part)
        counted = any(part.kind == "step-finish" for part in parts)
        for number, step in enumerate(steps):
            self._step(info, step, row if not number else step[0].row, counted=counted, last=number == len(steps) - 1)

    def _step(self, info: JsonObject, step: list[Part], row: int, *, counted: bool, last: bool) -> None:
        message_id = text_of(info.get("id"))
        created = time_of(object_of(info.get("time")).get("created"))
        blocks: list[JsonObject] = []
        results: list[tuple[Part, JsonObject, int | None]] = []
        rest: list[Part] = []
        finish: JsonObject = {}
        kept: JsonObject = {name: info[name] for name in ("agent", "mode", "path", "variant") if info.get(name)}
        for part in step:
            if part.kind == "text" and not part.data.get("ignored"):
                blocks.append(text_block(text_of(part.data.get("text"))))
            elif part.kind == "reasoning":
                blocks.append(parts_of.thinking_block(part.data))
            elif part.kind == "file":
                blocks.append(parts_of.file_block(part.data))
            elif part.kind == "tool":
                blocks.append(parts_of.tool_call(part.data))
                self._note_call(part)
                result = parts_of.tool_result(part.data)
                if result is not None:
                    times = object_of(object_of(part.data.get("state")).get("time"))
                    results.append((part, result, time_of(times.get("end")) or created))
                else:
                    found = f"the call {blocks[-1]['id']} has no result"
                    self.builder.repairs.append(Repair(part.row, "call_without_result", found))
            elif part.kind == "step-finish":
                finish = part.data
            elif part.kind != "step-start":
                rest.append(part)
        snapshots = [part_of(step, kind, "snapshot") for kind in ("step-start", "step-finish")]
        if any(snapshots):
            kept["snapshots"] = snapshots
        message = self._answer(info, blocks, finish, counted=counted, last=last)
        if kept:
            message["opencode"] = kept
        if len(step) and step[0].kind == "step-start" and created is not None:
            started = [time_of(object_of(part.data.get("time")).get("start")) for part in step]
            created = max([created, *[each for each in started if each is not None][:1]])
        entry = self.add("message", message, time_ms=created, row=row, foreign_id=message_id)
        for part in step:
            if part.id:
                self._before.setdefault(part.id, entry.parent_id)
        for part, result, time_ms in results:
            stored = self.add("message", result, time_ms=time_ms, row=part.row, foreign_id=part.id)
            cleared = time_of(object_of(object_of(part.data.get("state")).get("time")).get("compacted"))
            if cleared is not None:
                self._cleared.append((cleared, stored.id, part.row))
        for part in rest:
            self._rest(part, created, message_id)

    def _answer(
        self, info: JsonObject, blocks: list[JsonObject], finish: JsonObject, *, counted: bool, last: bool
    ) -> JsonObject:
        provider, model = text_of(info.get("providerID")), text_of(info.get("modelID"))
        reason = finish.get("reason") or (info.get("finish") if last else None)
        told = finish if counted else info
        message: JsonObject = {
            "role": "assistant",
            "content": blocks,
            "api": parts_of.api_of(provider),
            "provider": provider,
            "model": model,
            "usage": parts_of.usage(told.get("tokens"), told.get("cost")),
            "stopReason": parts_of.stop_reason(reason, blocks),
        }
        if isinstance(reason, str):
            message["rawStopReason"] = reason
        return message | (parts_of.failure(info.get("error")) if last else {})

    def _note_call(self, part: Part) -> None:
        metadata = object_of(object_of(part.data.get("state")).get("metadata"))
        child = metadata.get("sessionId") or metadata.get("sessionID")
        if isinstance(child, str) and child:
            self._calls.setdefault(child, text_of(part.data.get("callID")))

    def _compaction(self, info: JsonObject, parts: list[Part], row: int) -> bool:
        """Add a compaction, if its summary was finished."""
        assert self._marker is not None
        summary = "\n".join(text_of(part.data.get("text")) for part in parts if part.kind == "text").strip()
        if not summary or info.get("error"):
            return False
        marker, marks, marker_row = self._marker
        self._marker = None
        mark = next(part.data for part in marks if part.kind == "compaction")
        tail = mark.get("tail_start_id") or mark.get("tailStartID") or mark.get("tailID")
        usages = [part.data for part in parts if part.kind == "step-finish"] or [info]
        usage = parts_of.usage(usages[-1].get("tokens"), usages[-1].get("cost"))
        time_ms = time_of(object_of(info.get("time")).get("created"))
        details = {name: value for name, value in mark.items() if name not in _PLACE}
        details |= {"model": {"provider": info.get("providerID"), "modelId": info.get("modelID")}}
        fields: JsonObject = {
            "summary": summary,
            "firstKeptEntryId": self._first_of.get(tail, "") if isinstance(tail, str) else "",
            "tokensBefore": usage["input"] + usage["cacheRead"] + usage["cacheWrite"],
            "usage": usage,
            "details": {"opencode": details},
        }
        entry = self.add("compaction", fields, time_ms=time_ms, row=row, foreign_id=text_of(info.get("id")))
        if not fields["firstKeptEntryId"]:
            self.builder.replace(entry, fields | {"firstKeptEntryId": entry.id})
        self._before[text_of(marker.get("id"))] = entry.parent_id
        for part in marks:
            if part.kind != "compaction":
                self._rest(part, time_of(object_of(marker.get("time")).get("created")), text_of(marker.get("id")))
        return marker_row > 0

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self, mtime_ms: int) -> ParsedSession:
        """Return the session."""
        self._settle_marker()
        self._clear(None)
        info = self.info
        times = object_of(info.get("time"))
        revert = info.get("revert") if isinstance(info.get("revert"), dict) else json_of(info.get("revert"))
        leaf, undone = self.leaf, False
        for name in ("partID", "messageID"):
            place = object_of(revert).get(name)
            if isinstance(place, str) and place in self._before:
                leaf, undone = self._before[place], True
                break
        session_id = text_of(info.get("id"))
        parent = text_of(info.get("parentID"))
        title = line_of(info.get("title"))
        known = ("id", "parentID", "title", "directory", "time", "revert")
        rest = {name: value for name, value in info.items() if name not in known and value not in (None, "", [], {})}
        parsed = self.builder.finish(
            id=session_id or f"opencode-{computed_id(self.builder.source)}",
            header={"opencode": rest} if rest else {},
            cwd=text_of(info.get("directory")),
            created_ms=time_of(times.get("created")),
            leaf=leaf,
            name=None if title is None or title.startswith(_MADE_TITLES) else title,
            child_of=ChildOf(parent, None, self._calls.get(session_id)) if parent else None,
            **self.rows.told(self.builder, mtime_ms),
        )
        return parsed.replace(leaf=None) if undone and leaf is None else parsed


def _id_of(*told: object) -> str:
    """Return an id that is the same whenever the same things are told; cheaper than `computed_id` for long texts."""
    return hashlib.sha256("\n".join(map(str, told)).encode("utf-8", "backslashreplace")).hexdigest()[:12]


def part_of(parts: list[Part], kind: str, name: str) -> object:
    """Return a field of the first part of a kind; None without one."""
    return next((part.data.get(name) for part in parts if part.kind == kind), None)


def parts_from(values: object, rows: RowCount) -> list[Part]:
    """Return the parts of a message that carries them in itself, each counted as a row."""
    return [Part(value, rows.take(value)) for value in objects_of(values)]
