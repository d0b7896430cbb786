"""Reads a chat of Gemini CLI: one session.

The file is a log: a later line with a message's id replaces it, `$rewindTo` takes messages away, `$set` changes what is
known of the session and may bring a whole new list of messages (a compression, or outputs that were masked). So lines
are first collected in order (`_Log`), then made into a tree (`ChatTree`): rewinds become branches that were left,
compressions compactions, masked contents context edits.

Source: Gemini CLI 0.3x and 0.61, chat recordings.
"""

from __future__ import annotations

import os
from array import array

from pi_sessions.errors import SourceError
from pi_sessions.formats import gemini_messages as messages
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import line_of, object_of, objects_of, result_message, text_of, time_of
from pi_sessions.formats.gemini import IMPORTER, MESSAGE_KINDS, is_chat, is_message, is_record
from pi_sessions.formats.json_items import JsonItems, Parts
from pi_sessions.formats.json_lines import JsonLines
from pi_sessions.formats.parsed import ChildOf, Repair
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.spool import LaterRecords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "gemini-cli"


def read_chat(path: str) -> Iterator[ParsedSession]:
    """Read one file.

    Raises:
        SourceError: it cannot be read, or holds no record of Gemini CLI.
    """
    if inner_name(path).endswith(".jsonl"):
        yield _read_lines(path)
    else:
        yield _read_object(path)


def _read_lines(path: str) -> ParsedSession:
    lines = JsonLines(path, is_record)
    log = _Log(path, lines.use)
    for line, record in lines:
        if is_chat(record):
            log.take(line, {name: value for name, value in record.items() if name != "messages"})
            for message in record["messages"]:
                log.take(line, message)
        else:
            log.take(line, record)
    log.check()
    tree = ChatTree(path)
    leaf = tree.grow(log)
    # A line counts for what it gave in the end: replaced lines gave nothing.
    for line in tree.builder.lines:
        lines.use(line, "entries")
    parsed = tree.builder.finish_lines(lines, **tree.told(log, leaf, lambda: lines.digest))
    return parsed if leaf is not None else parsed.replace(leaf=None)


def _read_object(path: str) -> ParsedSession:
    items = JsonItems(path, is_chat, is_message, many=("messages",))
    rows = RowCount()
    log = _Log(path, lambda line, what: None)
    for item in items:
        given = item.parts if item.parts is not None else item.value.get("messages", [])
        about = {name: value for name, value in item.value.items() if name != "messages"}
        if item.parts is None and not (is_chat(item.value) or isinstance(given, Parts)):
            log.take(rows.take(about), about)
            continue
        if about:
            log.take(rows.take(about, header=True), about)
        for message in given:
            log.take(rows.take(message), message)
    log.check()
    tree = ChatTree(path)
    leaf = tree.grow(log)
    tree.builder.repairs += items.repairs
    tree.builder.losses += items.losses
    told = rows.told(tree.builder, items.mtime_ms)
    parsed = tree.builder.finish(**told, **tree.told(log, leaf, lambda: items.digest))
    return parsed if leaf is not None else parsed.replace(leaf=None)


class _Message:
    """A message as its last line tells it."""

    __slots__ = ("line", "record")

    def __init__(self, record: int, line: int) -> None:
        self.record = record
        self.line = line


class _Way:
    """The messages on the way to the leaf, in lists beside each other, since there may be very many.

    Attributes:
        ids: What each is called.
        records: Numbers of what they say.
        before: The last entry before each.
        first: The first entry of each.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.records: array[int] = array("q")
        self.before: list[str | None] = []
        self.first: list[str] = []

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, message_id: str, record: int, before: str | None, first: str) -> None:
        """Go on by a message."""
        self.ids.append(message_id)
        self.records.append(record)
        self.before.append(before)
        self.first.append(first)

    def drop(self, places: slice) -> None:
        """Take messages away."""
        del self.ids[places], self.records[places], self.before[places], self.first[places]

    def after(self, place: int) -> _Way:
        """Return the messages from a place on."""
        way = _Way()
        way.ids, way.records = self.ids[place:], self.records[place:]
        way.before, way.first = self.before[place:], self.first[place:]
        return way


class _Log:
    """What the lines of a file say, in order: messages, rewinds and new lists.

    Attributes:
        records: What messages say, by number.
    """

    def __init__(self, path: str, use: Callable[[int, str], None]) -> None:
        self.path = path
        self.about: JsonObject = {}
        self.steps: list[tuple[str, Any, int]] = []
        self._use = use
        self._live: dict[str, _Message] = {}
        self.records = LaterRecords()
        self._known = 0

    def take(self, line: int, record: object) -> None:
        """Take in one line."""
        self._known += is_record(record)
        if not isinstance(record, dict):
            self.steps.append(("odd", record, line))
        elif isinstance(record.get("$rewindTo"), str):
            self._use(line, "skipped")
            self.steps.append(("rewind", record["$rewindTo"], line))
            self._live.clear()
        elif isinstance(record.get("$set"), dict):
            changes = dict(record["$set"])
            listed = changes.pop("messages", None)
            self._use(line, "header")
            self.about.update(changes)
            if isinstance(listed, list) and listed:
                self.steps.append(("list", objects_of(listed), line))
                self._live.clear()
        elif isinstance(record.get("id"), str) and "sessionId" not in record:
            self._message(line, record)
        elif isinstance(record.get("sessionId"), str):
            self._use(line, "header")
            self.about.update(record)
        else:
            self.steps.append(("odd", record, line))

    def _message(self, line: int, record: JsonObject) -> None:
        known = self._live.get(record["id"])
        self._use(line, "skipped")
        if known is not None:
            known.record, known.line = self.records.keep(record), line
            return
        message = self._live[record["id"]] = _Message(self.records.keep(record), line)
        self.steps.append(("message", message, line))

    def check(self) -> None:
        """End reading, and refuse a file of something else."""
        self._live.clear()
        if not self._known:
            raise SourceError(f"{self.path} holds no record of Gemini CLI")


class ChatTree:
    """The entries of a chat.

    Attributes:
        builder: Holds them.
        leaf: Where the next message goes.
    """

    def __init__(self, path: str) -> None:
        self.builder = SessionBuilder(NAME, path, IMPORTER, untimed=True)
        self.said = False
        self.leaf: str | None = None
        self._live = _Way()
        # What the last list left away, and the entry it ended with.
        self._left: tuple[_Way, str | None] = (_Way(), None)
        self._records = LaterRecords()
        self._results: dict[str, str] = {}
        self._model = ""

    def grow(self, log: _Log) -> str | None:
        """Make the entries and return the leaf."""
        steps, self._records = log.steps, log.records
        steps.reverse()
        while steps:
            kind, given, line = steps.pop()
            if kind == "message":
                self.take(log.records.read(given.record), given.line, given.record)
            elif kind == "rewind":
                self._rewind(given)
            elif kind == "list":
                self._list(given, line)
            else:
                self._add("custom", "record", given, None, line, "", known=False)
        return self.leaf

    # --- entries --------------------------------------------------------------------------------------------------

    def _add(
        self, kind: str, name: str, fields: Any, time_ms: int | None, line: int, foreign_id: str, *, known: bool = True
    ) -> StoredEntry:
        builder = self.builder
        made = computed_id(foreign_id, kind, name, fields, time_ms, "" if foreign_id else self.leaf)
        number = 1
        while made in builder:
            number += 1
            made = computed_id(foreign_id, kind, name, fields, time_ms, self.leaf, number)
        where: dict[str, Any] = {"id": made, "parent": self.leaf, "time_ms": time_ms, "line": line}
        where["foreign_id"] = foreign_id or None
        if kind == "message":
            entry = builder.message(fields, **where)
        elif kind == "custom":
            entry = (builder.custom if known else builder.not_understood)(name, fields, **where)
        elif kind == "custom_message":
            entry = builder.text_for_model(name, fields, **where)
        else:
            entry = builder.add(kind, fields, **where)
        self.leaf = entry.id
        return entry

    def take(self, record: JsonObject, line: int, number: int | None = None) -> None:
        """Add what a message says below the leaf.

        Args:
            record: The message.
            line: Where it stands.
            number: Of the same message, where it is kept for later already.
        """
        message_id, before = text_of(record.get("id")), self.leaf
        time_ms = time_of(record.get("timestamp"))
        kind = record.get("type")
        where: dict[str, Any] = {"time_ms": time_ms, "line": line, "foreign_id": message_id}
        first: StoredEntry | None = None
        if kind == "user":
            first = self._user(record, where)
        elif kind == "gemini":
            first = self._answer(record, where)
        else:
            known = isinstance(kind, str) and kind in MESSAGE_KINDS
            data = {name: value for name, value in record.items() if name not in ("id", "timestamp")}
            first = self._add("custom", text_of(kind) or "message", data, known=known, **where)
        if first is not None:
            number = self._records.keep(record) if number is None else number
            self._live.add(message_id, number, before, first.id)

    def _user(self, record: JsonObject, where: dict[str, Any]) -> StoredEntry | None:
        content = record.get("content")
        first: StoredEntry | None = None
        for response in messages.answers_in(content):
            call = text_of(response.get("id"))
            if call not in self._results:
                blocks, failed = messages.response_blocks(response)
                first = self._result(result_message(call, response.get("name"), blocks, failed=failed), where)
        blocks = messages.user_blocks(content)
        if first is None and self._repeats_results(record):
            return self.builder.entry(self._results[text_of(messages.answers_in(content)[0].get("id"))])
        if messages.is_machine_made(content):
            return first or self._add("custom_message", "context", blocks, **where)
        if not blocks and first is not None:
            return first
        message: JsonObject = {"role": "user", "content": blocks}
        if record.get("displayContent") is not None:
            message["gemini"] = {"displayContent": record["displayContent"]}
        self.said = True
        added = self._add("message", "user", message, **where)
        return first or added

    def _answer(self, record: JsonObject, where: dict[str, Any]) -> StoredEntry:
        message = messages.assistant_message(record, self._model)
        self._model = message["model"]
        first = self._add("message", "assistant", message, **where)
        for call in objects_of(record.get("toolCalls")):
            result = messages.result_of(call)
            if result is not None:
                ended = time_of(call.get("timestamp")) or where["time_ms"]
                self._result(result, {**where, "time_ms": ended})
            else:
                found = f"the call {text_of(call.get('id'))} has no result"
                self.builder.repairs.append(Repair(where["line"], "call_without_result", found, first.id))
        return first

    def _result(self, message: JsonObject, where: dict[str, Any]) -> StoredEntry:
        entry = self._add("message", "result", message, **where)
        self._results[message["toolCallId"]] = entry.id
        return entry

    # --- rewinds and lists ----------------------------------------------------------------------------------------

    def _rewind(self, message_id: str) -> None:
        """Go to before a message; before all of them when it is unknown, as Gemini CLI does."""
        live = self._live
        place = live.ids.index(message_id) if message_id in live.ids else 0
        self.leaf = live.before[place] if message_id in live.ids else None
        live.drop(slice(place, None))

    def _list(self, listed: list[JsonObject], line: int) -> None:
        """Go on with a new list of messages: the same ones, fewer of them, or a summary in the place of the first."""
        common = 0
        live = self._live
        for known, record in zip(live.ids, listed, strict=False):
            if known != record.get("id"):
                break
            common += 1
        if common or not live:
            for place in range(common):
                self._mask(self._records.read(live.records[place]), listed[place], live.first[place], line)
            left = live.after(common), self.leaf
            if common < len(live):
                self._rewind(live.ids[common])
            rest = self._found_again(listed[common:])
            if len(left[0]) and len(rest) == len(listed) - common:
                self._left = left
        else:
            rest = self._compress(listed, line)
        for record in rest:
            self.take(record, line)

    def _found_again(self, rest: list[JsonObject]) -> list[JsonObject]:
        """Take back what the list before left away, and return what is new behind it.

        A resumed chat begins with a list of the first message alone; the next list brings the others again, in the
        words of the API: results of tools have messages of their own in it.
        """
        left, end = self._left
        back = 0
        new = 0
        for record in rest:
            if back < len(left) and record.get("id") == left.ids[back]:
                self._live.add(left.ids[back], left.records[back], left.before[back], left.first[back])
                back += 1
            elif not self._repeats_results(record):
                break
            new += 1
        if not back:
            return rest
        self.leaf = left.before[back] if back < len(left) else end
        self._left = (_Way(), None)
        return rest[new:]

    def _repeats_results(self, record: JsonObject) -> bool:
        """Whether a message says nothing but results that are there already."""
        content = record.get("content")
        answers = messages.answers_in(content)
        known = all(text_of(answer.get("id")) in self._results for answer in answers)
        return bool(answers) and known and not messages.user_blocks(content)

    def _compress(self, listed: list[JsonObject], line: int) -> list[JsonObject]:
        """Add a compaction and return the messages that are still to come after it."""
        live, ids = self._live, self._live.ids
        kept = next((place for place, record in enumerate(listed) if record.get("id") in ids), len(listed))
        tail = [text_of(record.get("id")) for record in listed[kept:]]
        start = ids.index(tail[0]) if tail else len(ids)
        is_tail = bool(tail) and tail == ids[start:]
        made = listed[:kept]
        parts = [part for record in made for part in messages.parts_in(record.get("content"))]
        summary = "\n\n".join(text_of(part.get("text")) for part in parts if part.get("text"))
        time_ms = max((time_of(record.get("timestamp")) or 0 for record in made), default=0) or None
        fields: JsonObject = {
            "summary": summary,
            "firstKeptEntryId": "",
            "tokensBefore": 0,
            "details": {"gemini": made},
        }
        if is_tail:
            fields["firstKeptEntryId"] = live.first[start]
        entry = self._add("compaction", "compaction", fields, time_ms, line, "")
        if not is_tail:
            self.builder.replace(entry, fields | {"firstKeptEntryId": entry.id})
            live.drop(slice(None))
            self._results = {}
            return listed[kept:]
        live.drop(slice(start))
        return []

    def _mask(self, old: JsonObject, new: JsonObject, first: str, line: int) -> None:
        """Add context edits for what a list changed in messages that stay."""
        before = {text_of(call.get("id")): call.get("result") for call in objects_of(old.get("toolCalls"))}
        for call in objects_of(new.get("toolCalls")):
            call_id = text_of(call.get("id"))
            target = self._results.get(call_id)
            result = messages.result_of(call)
            if target is not None and result is not None and call.get("result") != before.get(call_id):
                self._edit(target, result["content"], line)
        if new.get("type") == "user" and messages.parts_in(new.get("content")) != messages.parts_in(old.get("content")):
            self._edit(first, messages.user_blocks(new.get("content")), line)

    def _edit(self, target: str, content: list[JsonObject], line: int) -> None:
        fields = {"targetId": target, "replacement": {"content": content}}
        above = self.builder.entry(self.leaf)
        self._add("context_edit", "edit", fields, above.time_ms if above else None, line, "")

    # --- the end --------------------------------------------------------------------------------------------------

    def told(self, log: _Log, leaf: str | None, digest: Callable[[], str]) -> dict[str, Any]:
        """Return what `SessionBuilder.finish` wants to know of the session."""
        about = log.about
        path = os.path.abspath(self.builder.source)
        session_id = text_of(about.get("sessionId")) or f"{NAME}-{digest()[:32]}"
        rest = {name: value for name, value in about.items() if name not in ("sessionId", "startTime", "lastUpdated")}
        folder = os.path.dirname(path)
        told: dict[str, Any] = {
            "id": session_id,
            "header": {"gemini": rest} if rest else {},
            "cwd": folder_of(folder, object_of(about)),
            "created_ms": time_of(about.get("startTime")),
            "leaf": leaf,
            "title": line_of(about.get("summary")),
        }
        inside = os.path.basename(os.path.dirname(folder)) == "chats"
        if about.get("kind") == "subagent" and inside:
            told["child_of"] = ChildOf(os.path.basename(folder), session_id)
        return told


def folder_of(folder: str, about: JsonObject) -> str:
    """Return the working directory: what the project's own file says, else the first directory of the session."""
    for place in (os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        try:
            with open_source(os.path.join(place, ".project_root")) as file:
                return file.read(4096).decode(errors="replace").strip()
        except (OSError, SourceError):
            continue
    directories = about.get("directories")
    return text_of(directories[0]) if isinstance(directories, list) and directories else ""
