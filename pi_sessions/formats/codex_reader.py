"""Reads a Codex rollout: a line of items, in which rollbacks begin branches and compactions replace what was before.

The conversation is stored twice, as items and as events; items count, and an event counts only when no item says the
same. Items of one answer become one entry. What is no conversation is kept as custom entries in its place.

Source: Codex 0.9x rollouts.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from pi_sessions.errors import SourceError
from pi_sessions.formats import codex_items as items
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.codex import IMPORTER, is_old_record, is_record
from pi_sessions.formats.codex_history import base_records
from pi_sessions.formats.foreign_ids import MARK, mark_of, marked_text, overrides
from pi_sessions.formats.json_lines import JsonLines, readable_time
from pi_sessions.formats.parsed import Repair
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "codex"
_NO_MARKS: JsonObject = {}
_ITEM_ID = re.compile(r"-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl$")


def read_rollout(path: str) -> Iterator[ParsedSession]:
    """Read one file.

    Raises:
        SourceError: it cannot be read, or holds no record of Codex.
    """
    lines = JsonLines(path, lambda value: is_record(value) or is_old_record(value))
    rollout = _Rollout(path, lines)
    with CollectionsPaused():
        for line, record in lines:
            rollout.take(line, record)
    if not rollout.understood:
        raise SourceError(f"{path} holds no record of Codex")
    yield rollout.finish()


class _Answer:
    """The answer of the model that is being put together."""

    __slots__ = ("entry", "is_open", "message", "told")

    def __init__(self, entry: StoredEntry, message: JsonObject) -> None:
        self.told: JsonObject = {}
        self.entry = entry
        self.message = message
        self.is_open = True


class _Heard:
    """An event that says what an item should say, too, and the usage that was told before any item did."""

    __slots__ = ("line", "role", "text", "time_ms", "usages")

    def __init__(self, role: str, text: str, line: int, time_ms: int | None) -> None:
        self.role = role
        self.text = text
        self.line = line
        self.time_ms = time_ms
        self.usages: list[JsonObject] = []


class _Rollout:
    """One file while it is read.

    Attributes:
        cursor: Entry the next one hangs under.
        understood: Whether there was a record that can only be Codex's.
    """

    def __init__(self, path: str, lines: JsonLines) -> None:
        self.path = path
        self.lines = lines
        self.builder = SessionBuilder(NAME, path, IMPORTER)
        self.understood = False
        self.cursor: str | None = None
        self.meta: JsonObject | None = None
        self.repeated: list[JsonObject] = []
        self.name: str | None = None
        self._session = ""
        # Stands for the session where nothing names it; the same however much the file grows.
        self._first = ""
        self._line = 0
        self._time_ms: int | None = None
        self._mark: str | None = None
        self._marks: JsonObject = {}
        self._session_mark: str | None = None
        self._context: JsonObject = {}
        self._model = ""
        self._effort: str | None = None
        self._answer: _Answer | None = None
        self._calls: dict[str, str] = {}
        self._questions: list[StoredEntry] = []
        # Texts taken for Codex's own, until an event tells otherwise.
        self._injected: dict[str, StoredEntry] = {}
        self._said: Counter[tuple[str, int]] = Counter()
        self._heard: list[_Heard] = []
        self._total: object = None
        # Threads whose records are being taken in before this one's own.
        self._bases: frozenset[str] = frozenset()

    # --- lines ----------------------------------------------------------------------------------------------------

    def take(self, line: int, record: JsonObject) -> None:
        """Take in one line's record, of either layout."""
        self._line = line
        self._first = self._first or computed_id(record)
        time_ms = readable_time(record.get("timestamp"))
        if time_ms is not None:
            self._time_ms = time_ms
        self._marks, self._mark = _NO_MARKS, None
        if MARK in record:
            self._marks = marks = mark_of(record)
            self._mark = marked_text(marks, "id")
            self._session_mark = self._session_mark or marked_text(marks, "session")
        kind, payload = record.get("type"), record.get("payload")
        if isinstance(payload, dict) and isinstance(kind, str):
            self.understood = self.understood or is_record(record)
            self._line_of(kind, payload)
        elif "record_type" in record:
            self._keep("state", record)
        elif kind is None and is_old_record(record):
            self.understood = True
            self._session_meta(record)
        elif isinstance(kind, str) and kind in items.KNOWN_ITEMS:
            self.understood = self.understood or is_old_record(record)
            self._item(kind, record)
        elif isinstance(kind, str) and kind:
            self._unknown(kind, record)
        else:
            self.lines.lose(line, "no_type", "an object without a type is no record")

    def _line_of(self, kind: str, payload: JsonObject) -> None:
        inner = payload.get("type")
        if kind == "response_item" and isinstance(inner, str):
            self._item(inner, payload)
        elif kind == "event_msg" and isinstance(inner, str):
            self._event(inner, payload)
        elif kind == "session_meta":
            self._session_meta(payload)
        elif kind == "turn_context":
            self._turn_context(payload)
        elif kind == "compacted":
            self._compacted(payload)
        elif kind in items.KNOWN_LINES:
            self._keep(kind, payload)
        else:
            self._unknown(kind, payload)

    def _where(self, *told: object) -> dict[str, Any]:
        """Return the place of a new entry at the cursor; the id follows from what is told and what stands before."""
        self.lines.use(self._line, "entries")
        mark, self._mark = self._mark, None
        # What an entry says is no part of its id: usage and further items come later.
        made = computed_id(self._session, self.cursor, self._time_ms, *told)
        number, own_id = 1, made
        while own_id in self.builder:
            number += 1
            own_id = f"{made}{number}"
        if mark is not None and mark not in self.builder:
            own_id = mark
            self.builder.own_ids.add(mark)
        return {"id": own_id, "parent": self.cursor, "time_ms": self._time_ms, "line": self._line}

    def _keep(self, kind: str, data: JsonObject) -> None:
        self.cursor = self.builder.custom(kind, data, **self._where(kind)).id

    def _unknown(self, kind: str, data: JsonObject) -> None:
        self.cursor = self.builder.not_understood(kind, data, **self._where(kind)).id

    # --- session and turns ----------------------------------------------------------------------------------------

    def _session_meta(self, payload: JsonObject) -> None:
        if self.meta is not None:
            # Written again when a session is resumed, and by a fork, which repeats its origin's.
            self.lines.use(self._line, "header")
            if payload.get("id") != self.meta.get("id"):
                self.repeated.append(payload)
            if self._bases:
                self._take_base(payload, self._bases)
            return
        self.meta = payload
        self._session = self._session_mark or str(payload.get("id") or "")
        self.lines.use(self._line, "header")
        self._take_base(payload, frozenset((self._session,)))

    def _take_base(self, meta: JsonObject, bases: frozenset[str]) -> None:
        """Take in what a fork goes on from, where its file names another rollout instead of repeating it."""
        base = meta.get("history_base")
        if not isinstance(base, dict):
            return
        thread = str(base.get("thread_id") or "")
        records = base_records(self.path, base) if thread not in bases else None
        if records is None:
            told = f"what was said before the fork is in the thread {thread}, whose rollout is not there"
            self.lines.losses.append(Repair(self._line or None, "history_missing", told))
            return
        before = self._bases, self._line, self._time_ms, self._marks, self._mark, self.name
        # Its lines are counted where it is read for itself.
        own, self.lines = self.lines, JsonLines(self.path, is_record)
        self._bases = bases | {thread}
        for record in records:
            self.take(0, record)
        self._flush()
        self._close()
        self._answer = None
        own.losses += [loss for loss in self.lines.losses if loss.code == "history_missing"]
        self.lines = own
        self._bases, self._line, self._time_ms, self._marks, self._mark, self.name = before

    def _turn_context(self, payload: JsonObject) -> None:
        self._close()
        told = {name: value for name, value in payload.items() if name != "turn_id"}
        made = self._marks.get("made") is True
        if made and "model" in self._marks:
            told["model"] = self._marks["model"]
        if told == self._context:
            self.lines.use(self._line, "skipped")
            return
        self._context = told
        model, effort = told.get("model"), payload.get("effort")
        if made:
            # Made by our exporter: of the entry it names, or of none.
            self.lines.use(self._line, "facts")
            if self._mark is None:
                self._model = model if isinstance(model, str) else self._model
                self._effort = effort if isinstance(effort, str) else self._effort
        else:
            self._keep("turn_context", payload)
        if isinstance(effort, str) and effort != self._effort:
            self._effort = effort
            self._mark = self._mark or marked_text(self._marks, "effortId")
            fields = {"thinkingLevel": "off" if effort == "none" else effort}
            self.cursor = self.builder.add("thinking_level_change", fields, **self._where("effort", effort)).id
        if isinstance(model, str) and model and model != self._model:
            self._model = model
            self._mark = self._mark or marked_text(self._marks, "modelId")
            fields = {"provider": self._provider(), "modelId": model}
            more = self._marks.get("fields")
            fields |= more if isinstance(more, dict) else {}
            self.cursor = self.builder.add("model_change", fields, **self._where("model", model)).id

    def _provider(self) -> str:
        provider = (self.meta or {}).get("model_provider")
        return provider if isinstance(provider, str) and provider else "openai"

    # --- items ----------------------------------------------------------------------------------------------------

    def _item(self, kind: str, item: JsonObject) -> None:
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            block = items.thinking_block(item)
            self._part(block)
            if self._heard:
                told = [each for each in self._heard if each.role == "reasoning" and each.text in block["thinking"]]
                self._heard = [heard for heard in self._heard if heard not in told]
                for each in told:
                    self._spend(each.usages)
        elif kind in items.CALLS:
            call = items.tool_call(item)
            self._calls[call["id"]] = call["name"]
            self._part(call)
        elif kind in items.SERVED:
            self._part({**item, "type": kind})
        elif kind in items.OUTPUTS:
            self._close()
            message = items.result_message(item, self._calls.get(str(item.get("call_id") or item.get("id") or ""), ""))
            if self._marks.get("isError") is True:
                message["isError"] = True
            if self._marks.get("details") is not None:
                message["details"] = self._marks["details"]
            if self._marks:
                overrides(self._marks, message)
            self.cursor = self.builder.message(message, **self._where("output")).id
        elif kind in items.KNOWN_ITEMS:
            self._keep(kind, item)
        else:
            self._unknown(kind, item)

    def _message(self, item: JsonObject) -> None:
        role, blocks = item.get("role"), items.blocks_of(item.get("content"))
        text = items.text_of(blocks)
        if role == "assistant":
            rest = {name: item[name] for name in ("phase", "id") if item.get(name) is not None}
            for block in blocks:
                self._part({**block, **({"codex": rest} if rest and block["type"] == "text" else {})})
            if not blocks:
                self._part(None)
            told = self._was_said("assistant", text)
            self._spend(told.usages if told is not None else ())
            return
        kind = self._injected_kind(text) if role == "user" else str(role or "unknown")
        marks = self._marks
        if kind is not None or isinstance(marks.get("customType"), str):
            self._close()
        if isinstance(marks.get("customType"), str):
            content = marks["content"] if "content" in marks else _plain(blocks, marks)
            fields = {"customType": marks["customType"], "content": content}
            fields["display"] = bool(marks.get("display"))
            if marks.get("details") is not None:
                fields["details"] = marks["details"]
            self.cursor = self.builder.add("custom_message", fields, **self._where("told")).id
            return
        if kind is not None:
            entry = self.builder.text_for_model(kind, blocks, **self._where("told"))
            self.cursor = entry.id
            if role == "user":
                self._injected[text.strip()] = entry
            return
        heard = self._was_said("user", text)
        self._flush()
        self._close()
        message: JsonObject = {"role": "user", "content": _plain(blocks, marks)}
        overrides(marks, message)
        time_ms, self._time_ms = self._time_ms, heard.time_ms if heard is not None else self._time_ms
        self._ask(message, self._where("user"))
        self._time_ms = time_ms

    def _injected_kind(self, text: str) -> str | None:
        """Return what kind of machine-made text it is; none when an event or our exporter says that a person spoke."""
        marks = self._marks
        if marks.get("said") is True or "plain" in marks or "message" in marks:
            return None
        if any(heard.role == "user" and heard.text == text.strip() for heard in self._heard):
            return None
        return items.injected_kind(text)

    def _ask(self, message: JsonObject, where: dict[str, Any]) -> None:
        entry = self.builder.message(message, **where)
        self._questions.append(entry)
        self.cursor = entry.id

    def _part(self, block: JsonObject | None) -> None:
        """Add a block to the answer that is open, or begin one."""
        answer = self._answer
        if answer is not None and self._mark is not None and self._mark != answer.entry.id:
            self._close()
        if answer is None or not answer.is_open:
            message: JsonObject = {
                "role": "assistant",
                "content": [],
                "api": "openai-responses",
                "provider": self._provider(),
                "model": self._model,
                "usage": items.no_usage(),
                "stopReason": "stop",
            }
            told = self._marks.get("message")
            if told is not None:
                overrides(self._marks, message)
            # An event may have said it first; it must not matter whether the item was there yet.
            time_ms, self._time_ms = self._time_ms, self._began()
            # `_close` makes its text, once it is whole.
            entry = self.builder.message(message, text="", **self._where("answer"))
            self._time_ms = time_ms
            answer = self._answer = _Answer(entry, message)
            answer.told = told if isinstance(told, dict) else {}
            self.cursor = entry.id
        self.lines.use(self._line, "entries")
        # Where our exporter says what the answer said, the item says less.
        if block is not None and "content" not in answer.told:
            answer.message["content"].append(block)
            if block["type"] == "toolCall" and "stopReason" not in answer.told:
                answer.message["stopReason"] = "toolUse"

    def _began(self) -> int | None:
        """Return when the answer began that is about to be put together."""
        return next((heard.time_ms for heard in self._heard if heard.role != "user"), self._time_ms)

    def _close(self) -> None:
        """End the open answer; its usage may still come."""
        answer = self._answer
        if answer is not None and answer.is_open:
            answer.is_open = False
            self.builder.replace(answer.entry, answer.message)

    # --- events ---------------------------------------------------------------------------------------------------

    def _event(self, kind: str, payload: JsonObject) -> None:
        if kind in ("user_message", "agent_message", "agent_reasoning"):
            text = payload.get("text") if kind == "agent_reasoning" else payload.get("message")
            self._hear(kind, text if isinstance(text, str) else "")
        elif kind == "token_count":
            self._tokens(payload)
        elif kind == "thread_rolled_back":
            self._roll_back(payload)
        elif kind == "context_compacted":
            self.lines.use(self._line, "skipped")
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self.name = payload["thread_name"].strip() or None
            if self._marks.get("made") is True:
                self.lines.use(self._line, "facts")
                return
            where = self._where("name")
            self.cursor = self.builder.add("session_info", {"name": payload["thread_name"]}, **where).id
        elif kind == "task_complete" and self._marks.get("made") is True:
            self.lines.use(self._line, "facts")
        elif kind in items.KNOWN_EVENTS:
            if kind in ("task_started", "turn_started"):
                # A compaction's turn begins with an answer.
                self._close()
            self._keep(kind, payload)
        else:
            self._unknown(kind, payload)

    def _was_said(self, role: str, text: str) -> _Heard | None:
        """Note what an item says; an event that said it before is done with, and returned."""
        text = text.strip()
        for heard in self._heard:
            if heard.role == role and heard.text == text:
                self._heard.remove(heard)
                return heard
        self._said[role, hash(text)] += 1
        return None

    def _hear(self, kind: str, text: str) -> None:
        """Take in an event that says what an item says."""
        self.lines.use(self._line, "skipped")
        text = text.strip()
        if kind == "agent_reasoning":
            if self._answer is not None and any(text in thought for thought in items.thoughts_in(self._answer.message)):
                return
            self._heard.append(_Heard("reasoning", text, self._line, self._time_ms))
            return
        role = "user" if kind == "user_message" else "assistant"
        if self._said[role, hash(text)] > 0:
            self._said[role, hash(text)] -= 1
            return
        if role == "user":
            injected = self._injected.pop(text, None)
            if injected is not None:
                # It looked like a text of Codex's own, but a person said it.
                message: JsonObject = {"role": "user", "content": injected.fields["content"]}
                if injected.time_ms is not None:
                    message["timestamp"] = injected.time_ms
                injected.type = "message"
                self.builder.replace(injected, message)
                self._questions.append(injected)
                return
            self._flush()
        self._heard.append(_Heard(role, text, self._line, self._time_ms))

    def _flush(self) -> None:
        """Take in the events that no item repeated."""
        heard, self._heard = self._heard, []
        line, time_ms, mark = self._line, self._time_ms, self._mark
        thoughts = self._thoughts() if any(each.role == "reasoning" for each in heard) else ""
        for each in heard:
            self._line, self._time_ms, self._mark = each.line, each.time_ms, None
            if each.role == "user":
                self._close()
                content = [{"type": "text", "text": each.text}]
                self._ask({"role": "user", "content": content}, self._where("user"))
            elif each.role == "assistant":
                self._part({"type": "text", "text": each.text})
            elif each.text not in thoughts:
                self._part({"type": "thinking", "thinking": each.text})
            self._spend(each.usages)
        self._line, self._time_ms, self._mark = line, time_ms, mark
        if heard:
            self._close()

    def _thoughts(self) -> str:
        """Return the reasoning of the last answers, for telling whether an event repeats it."""
        found: list[str] = []
        for entry in reversed(self.builder.entries[-200:]):
            message = entry.message
            if message is not None and message.get("role") == "user":
                break
            if message is not None and message.get("role") == "assistant":
                found += items.thoughts_in(message)
        if self._answer is not None:
            found += items.thoughts_in(self._answer.message)
        return "\n".join(found)

    def _tokens(self, payload: JsonObject) -> None:
        """Give the answer before it its usage; the same totals again are only a refresh of limits."""
        self.lines.use(self._line, "skipped")
        info = payload.get("info")
        if not isinstance(info, dict) or not isinstance(info.get("last_token_usage"), dict):
            return
        total = info.get("total_token_usage", info["last_token_usage"])
        heard = self._unsaid()
        if total == self._total or (self._answer is None and heard is None):
            return
        self._total = total
        self.lines.use(self._line, "facts")
        usage = items.usage_of(info["last_token_usage"])
        if heard is not None:
            heard.usages.append(usage)
        else:
            self._spend((usage,))

    def _unsaid(self) -> _Heard | None:
        """Return the event that is the latest part of an answer and that no item has repeated yet."""
        is_open = self._answer is not None and self._answer.is_open
        parts = ("assistant",) if is_open else ("assistant", "reasoning")
        return next((heard for heard in reversed(self._heard) if heard.role in parts), None)

    def _spend(self, usages: Sequence[JsonObject]) -> None:
        """Add to the usage of the latest answer."""
        answer = self._answer
        if not usages or answer is None or "usage" in answer.told:
            return
        message = answer.message
        for usage in usages:
            message["usage"] = usage if message["usage"] == items.NO_USAGE else items.add_usage(message["usage"], usage)
        if not answer.is_open:
            self.builder.replace(answer.entry, message)

    def _roll_back(self, payload: JsonObject) -> None:
        """Go back before the last questions; they stay as a branch."""
        self._flush()
        self._close()
        turns = payload.get("num_turns")
        count = turns if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0 else 0
        if count and self._questions:
            first = self._questions[-count:][0]
            del self._questions[-count:]
            self.cursor = first.parent_id
        self._answer = None
        self._keep("thread_rolled_back", payload)

    # --- compaction -----------------------------------------------------------------------------------------------

    def _compacted(self, payload: JsonObject) -> None:
        self._flush()
        self._close()
        self._answer = None
        given = payload.get("message")
        text = given if isinstance(given, str) else ""
        history = payload.get("replacement_history")
        kept, other = items.kept_of(history if isinstance(history, list) else [], text)
        marks = self._marks
        first = marked_text(marks, "firstKept")
        tokens = marks.get("tokensBefore")
        where = self._where("compacted")
        rest = {name: value for name, value in payload.items() if name not in ("message", "replacement_history")}
        fields: JsonObject = {
            "summary": text or items.STOCK_SUMMARY,
            "firstKeptEntryId": where["id"],
            "tokensBefore": tokens if isinstance(tokens, int) else 0,
            "fromHook": True,
        }
        if first is not None:
            # Written by our exporter: what is kept are entries of this session.
            fields["firstKeptEntryId"] = first if first in self.builder else where["id"]
            fields.pop("fromHook")
            more = marks.get("fields")
            fields |= more if isinstance(more, dict) else {}
            kept, other, rest = [], [], {}
        elif not text:
            rest["message"] = given
        details: JsonObject = {name: value for name, value in (("items", other), ("codex", rest)) if value}
        if details and first is None:
            fields["details"] = details
        self.cursor = self.builder.add("compaction", fields, **where).id
        ids = marks.get("kept")
        for number, blocks in enumerate(kept):
            if isinstance(ids, list) and number < len(ids) and isinstance(ids[number], str):
                self._mark = ids[number]
            at = self._where("kept", number, where["id"])
            self.cursor = self.builder.text_for_model("kept", blocks, **at).id

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> ParsedSession:
        """Return the session."""
        self._flush()
        self._close()
        meta = self.meta or {}
        named = _ITEM_ID.search(os.path.basename(self.path))
        session_id = self._session_mark or self._session or (named[1] if named else f"codex-{self._first}")
        if self.meta is None:
            self.builder.repairs.append(_no_header(session_id))
        fork = meta.get("forked_from_id")
        cwd = meta.get("cwd")
        if not isinstance(cwd, str):
            git_cwd = self._context.get("cwd")
            cwd = git_cwd if isinstance(git_cwd, str) else ""
        child = items.child_of(meta, session_id)
        header: JsonObject = {"codex": meta} if meta else {}
        if self.repeated:
            header["codexRepeated"] = self.repeated
        return self.builder.finish_lines(
            self.lines,
            id=session_id,
            header=header,
            cwd=cwd,
            created_ms=parse_time(meta.get("timestamp")),
            leaf=self.cursor,
            parent_ref=fork if isinstance(fork, str) and fork else None,
            name=self.name,
            child_of=child,
            copied=child is None,
        )


def _plain(blocks: list[JsonObject], marks: JsonObject) -> str | list[JsonObject]:
    """Return a content as it was before our exporter wrote it: text, or blocks."""
    return items.text_of(blocks) if marks.get("plain") is True else blocks


def _no_header(session_id: str) -> Repair:
    return Repair(None, "header_missing", f"the file has no session_meta; the session got the id {session_id}")
