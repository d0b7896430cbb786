"""Frames a Pi session file into records: lines become drafts of entries, damage becomes repairs and losses.

Lines end at LF and nowhere else; a CR before it is dropped, other separators are data. Each whole record is kept, also
from torn, glued or padded lines. Links, ids and times that need the whole file are left to `pi_links`; what versions
mean is left to `pi_migration`.

Source: Pi 1.6.0, session file; differs in that damage is mended and reported where Pi skips it without a word.
"""

from __future__ import annotations

import re
from array import array
from datetime import UTC, datetime

from pi_sessions.errors import SourceError
from pi_sessions.formats.derived import MISSING_MESSAGE
from pi_sessions.formats.json_text import (
    BLANK,
    Field,
    NotJsonError,
    has_surrogate_escape,
    mend_surrogates,
    object_text,
    scan,
    scan_fields,
    split_damaged,
)
from pi_sessions.formats.json_values import quick_object
from pi_sessions.formats.parsed import Repair
from pi_sessions.formats.spool import BUDGET, TextBudget
from pi_sessions.stored import BASE_FIELDS, StoredEntry, is_canonical, message_head
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pi_sessions.stored import JsonObject

PI_TYPES = frozenset(
    (
        "message",
        "model_change",
        "thinking_level_change",
        "usage",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "context_edit",
        "label",
        "session_info",
    )
)
_ID = r'"([^"\\\x00-\x1f]{1,64})"'
_PLAIN = re.compile(
    r'\{"type":"([a-z_]+)","id":' + _ID + r',"parentId":(?:null|' + _ID + r"),"
    r'"timestamp":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z)"'
    r'(,"message":(?=\{)|,(?!"customType":"' + re.escape(MISSING_MESSAGE) + r'")|(?=\}))'
)
_TORN_HEAD = re.compile(
    r'\{\s*"type"\s*:\s*"[^"\\]*"\s*,\s*"id"\s*:\s*"([^"\\]+)"(?:\s*,\s*"parentId"\s*:\s*(null|"([^"\\]+)"))?'
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LINE_ENDS = ("}\n", "}", "}\r\n")
_BASE = frozenset(BASE_FIELDS)
# A repeated beginning proves a repetition only when it says more than the type.
_TELLING_LENGTH = 24
# Smaller numbers are no Unix time of a session, in seconds or in milliseconds.
# A file without a header and without one Pi entry among this many records is no session file.
_PATIENCE = 1000


class Fragment:
    """What is left of a torn record.

    Attributes:
        line: 1-based line it stands on.
        index: Number of entries read before it.
        id: The lost entry's id, if the fragment still shows it.
        parent_id: The lost entry's parent, if `parent_known`.
        repeated: Whether the whole record follows.
        cut_off: Whether the file ends in it.
    """

    __slots__ = ("cut_off", "id", "index", "line", "original", "parent_id", "parent_known", "repeated", "text")

    def __init__(self, line: int, index: int, text: str, original: bytes) -> None:
        self.line = line
        self.index = index
        self.text = text.strip(BLANK)
        self.original = original
        head = _TORN_HEAD.match(self.text)
        self.id = head.group(1) if head else None
        self.parent_known = bool(head and head.group(2))
        self.parent_id = head.group(3) if head else None
        self.repeated = False
        self.cut_off = False

    def begins(self, text: str) -> bool:
        """Whether this is the beginning of another record's text."""
        return len(self.text) >= _TELLING_LENGTH and text.startswith(self.text)


class PiRecords:
    """The records of one file, in file order, before links are resolved.

    Attributes:
        entries: Drafts; `id` is empty where the record has none, `parent_id` is as it came.
        places: The line of each entry.
        unlinked: Indexes of entries whose record has no usable `parentId` field.
        header: The first header, None while none was found.
        header_line: Its line.
        numbered: What version 1 counts: for each parsed record the index of its entry, -1 for anything else.
        fragments: Torn records in file order.
        outcome: `{line: tally field}` for every line that is not simply an entry.
        repairs, losses: What was mended and what was lost.
        lines: Lines read.
        last_repeats: Id of the entry that the last record repeats, None when it repeats none.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.entries: list[StoredEntry] = []
        self._texts = TextBudget(self.entries, source)
        self.places: array[int] = array("q")
        self.unlinked: set[int] = set()
        self.header: JsonObject | None = None
        self.header_line = 0
        self.numbered: array[int] = array("q")
        self.fragments: list[Fragment] = []
        self.outcome: dict[int, str] = {}
        self.repairs: list[Repair] = []
        self.losses: list[Repair] = []
        self.lines = 0
        self.last_repeats: str | None = None
        self._doubtful = 0
        self._pending: Fragment | None = None

    def read(self, lines: Iterable[bytes]) -> None:
        """Read all lines (each with its LF, the last one perhaps without).

        Raises:
            SourceError: the records are those of another program, or of none.
        """
        entries, places, texts = self.entries, self.places, self._texts
        numbered = self.numbered
        match, parse, epoch = _PLAIN.match, datetime.fromisoformat, _EPOCH
        number = 0
        for raw in lines:
            number += 1
            if texts.held > BUDGET:
                texts.put_away()
            try:
                text = raw.decode()
                plain = match(text)
                if plain is None or self._pending is not None:
                    raise NotJsonError("not plain", 0)
                kind, entry_id, parent_id, stamp, mark = plain.groups()
                if kind == "message":
                    if mark != ',"message":':
                        raise NotJsonError("not plain", 0)
                    payload = text[plain.end() : -2 if text.endswith("}\n") else -1]
                    value = quick_object(payload)
                    if value is None or payload[-1] != "}":
                        raise NotJsonError("not plain", 0)
                    head = message_head(value)
                    rest = text[plain.end() + len(payload) :]
                else:
                    if has_surrogate_escape(text):
                        raise NotJsonError("not plain", 0)
                    body = "{" + text[plain.start(5) + (1 if mark else 0) :]
                    value, end = scan(body, 0)
                    head = None
                    if kind == "session" or not _BASE.isdisjoint(value):
                        raise NotJsonError("not plain", 0)
                    payload = body[:end]
                    rest = "}" + body[end:]
                since = parse(stamp) - epoch
            except (ValueError, UnicodeDecodeError):
                self.lines = number
                self._read_other(raw, number)
                continue
            if rest not in _LINE_ENDS:
                self.lines = number
                self._read_other(raw, number)
                continue
            time_ms = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
            numbered.append(len(entries))
            if entries and parent_id == entries[-1].id:
                # Nearly always; of equal texts one is enough.
                parent_id = entries[-1].id
            entries.append(StoredEntry(entry_id, parent_id, kind, time_ms, payload, head=head))
            places.append(number)
            texts.held += payload.__sizeof__()
        self.lines = number
        if self.fragments:
            self._judge_fragments()

    def _read_other(self, raw: bytes, line: int) -> None:
        """Read a line that is not in the form Pi writes today."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode(errors="replace")
            self.repair(line, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD", original=raw)
        if text.startswith("\ufeff"):
            text = text[1:]
            self.repair(line, "byte_order_mark", "the byte order mark was left out")
        spaced = text.strip(" \t\r\n")
        body = spaced.strip(BLANK)
        if not body:
            self.outcome[line] = "skipped" if spaced else "blank"
            if spaced:
                self.repair(line, "nul_padding", f"{spaced.count(chr(0))} NUL bytes were left out")
            return
        if body != spaced:
            self.repair(line, "nul_padding", f"{spaced.count(chr(0)) - body.count(chr(0))} NUL bytes were left out")
        if has_surrogate_escape(body):
            body, halves = mend_surrogates(body)
            if halves:
                what = "half a surrogate pair" if halves == 1 else f"{halves} halves of surrogate pairs"
                self.repair(line, "lone_surrogate", f"{what} became U+FFFD", original=raw)
        before = len(self.entries)
        self._take_body(body, raw, line)
        if self.outcome.get(line) is None and len(self.entries) == before:
            self.outcome[line] = "lost"

    def _take_body(self, body: str, raw: bytes, line: int) -> None:
        try:
            if body[0] == "{":
                fields, end = scan_fields(body)
                if end == len(body):
                    self._follow_up(body)
                    self._take_record(fields, raw, line)
                    return
            else:
                _value, end = scan(body, 0)
                if end == len(body):
                    self.outcome[line] = "skipped"
                    self.repair(line, "not_an_object", "a JSON value that is no entry was skipped", original=raw)
                    self.numbered.extend([-1] if _value else [])
                    return
        except NotJsonError:
            pass
        self._take_pieces(body, raw, line)

    def _take_pieces(self, body: str, raw: bytes, line: int) -> None:
        pieces = split_damaged(body, is_record)
        whole = sum(piece.whole for piece in pieces)
        if whole > 1 or (whole and not pieces[0].whole):
            held = "1 whole record was" if whole == 1 else f"{whole} whole records were"
            self.repair(line, "glued_records", f"{held} recovered from one line", original=raw)
        elif any(piece.rewritten for piece in pieces):
            found = "raw control characters or values that are no JSON were re-written"
            self.repair(line, "not_strict_json", found, original=raw)
        for piece in pieces:
            if piece.whole:
                fields, _end = scan_fields(piece.text)
                self._follow_up(piece.text)
                self._take_record(fields, raw, line)
            else:
                fragment = Fragment(line, len(self.entries), piece.text, raw)
                self.fragments.append(fragment)
                self._pending = fragment
        if self._pending is not None and not raw.endswith(b"\n"):
            self._pending.cut_off = True

    def _follow_up(self, text: str) -> None:
        """Note whether a torn fragment is repeated by the record that comes right after it."""
        if self._pending is not None:
            self._pending.repeated = self._pending.begins(text)
            self._pending = None

    def _take_record(self, fields: list[Field], raw: bytes, line: int) -> None:
        values = {field.name: field.value for field in fields}
        kind = values.get("type")
        if not isinstance(kind, str) or not kind:
            self.outcome.setdefault(line, "lost" if fields else "skipped")
            if fields:
                self._refuse_foreign(values)
                self.losses.append(Repair(line, "no_type", "an object without a type is no entry", None, raw))
            else:
                self.repair(line, "not_an_object", "an empty object was skipped", original=raw)
            return
        if kind == "session":
            self._take_header(values, raw, line)
            return
        if self.header is None and not (kind in PI_TYPES and is_record(values)):
            self._refuse_foreign(values)
        self.numbered.append(len(self.entries))
        self._take_entry(kind, fields, values, raw, line)

    def _take_header(self, values: JsonObject, raw: bytes, line: int) -> None:
        self.numbered.append(-1)
        if self.header is None:
            self.header, self.header_line = values, line
            self.outcome[line] = "header"
            if self.entries:
                self.repair(line, "header_late", "the header stands behind the first entry")
        else:
            self.outcome.setdefault(line, "skipped")
            self.repair(line, "second_header", "a second header was left out; the first one counts", original=raw)

    def _take_entry(self, kind: str, fields: list[Field], values: JsonObject, raw: bytes, line: int) -> None:
        own = [field for field in fields if field.name not in _BASE]
        beside: list[Field] = []
        payload = ""
        if kind == "custom" and values.get("customType") == MISSING_MESSAGE:
            kind = "message"
            own = [_as_message(field) for field in own if field.name != "customType"]
        if kind == "message":
            told = [field for field in own if field.name == "message"]
            beside = [field for field in own if field.name != "message"]
            payload = told[-1].raw_value if told else ""
            if payload[:1] != "{":
                self.repair(line, "no_message", "a message entry without a message is kept, but says nothing")
        else:
            payload = object_text(own)
        index = len(self.entries)
        entry_id = _as_id(values.get("id"))
        parent_id = _as_id(values.get("parentId"))
        if parent_id is None and values.get("parentId", 0) is not None:
            self.unlinked.add(index)
        if self.outcome.get(line) in ("lost", "skipped"):
            del self.outcome[line]
        time_ms = parse_time(values.get("timestamp"))
        if not is_canonical(values.get("timestamp"), time_ms):
            beside += [field for field in fields if field.name == "timestamp"][-1:]
        if time_ms is None:
            time_ms = self._borrowed_time(values.get("message"), line, raw)
            if time_ms is None and "timestamp" not in values:
                # Without one in the store, too, so that it is the same entry at every import.
                beside.append(Field("timestamp", '"timestamp"', None, "null"))
        if kind not in PI_TYPES or not is_record(values) or (kind == "message" and "message" not in values):
            self._doubtful += 1
        extra = object_text(beside) if beside else None
        self.entries.append(StoredEntry(entry_id or "", parent_id, kind, time_ms, payload, extra))
        self.places.append(line)
        self._texts.held += payload.__sizeof__()

    def _borrowed_time(self, message: object, line: int, raw: bytes) -> int | None:
        own = message.get("timestamp") if isinstance(message, dict) else None
        time_ms = parse_time(own)
        if time_ms is not None:
            self.repair(line, "no_time", "no readable time; that of its message was taken", original=raw)
            return time_ms
        self.repair(line, "no_time", "no readable time; that of the entry before was taken", original=raw)
        if self.entries:
            return self.entries[-1].time_ms
        return parse_time(self.header.get("timestamp")) if self.header else None

    def _refuse_foreign(self, values: JsonObject) -> None:
        if self.header is not None or self.has_pi_entries():
            return
        name = foreign_format(values)
        if name:
            raise SourceError(f"{self.source} is not a Pi session: it looks like {name}")
        if len(self.entries) >= _PATIENCE:
            raise not_a_session(self.source)

    def _judge_fragments(self) -> None:
        """Tell torn records that came again from torn records that are lost."""
        known = {entry.id for entry in self.entries}
        for fragment in self.fragments:
            line = fragment.line
            if fragment.repeated or (fragment.id is not None and fragment.id in known):
                fragment.repeated = True
                if self.outcome.get(line) == "lost":
                    self.outcome[line] = "skipped"
                self.repair(line, "torn_repeated", "a torn record was left out; it is repeated whole", fragment.id)
                continue
            if fragment.cut_off:
                code, found = "cut_off", "the last line is cut off"
            elif "{" in fragment.text:
                code, found = "torn", "a record is torn and could not be read"
            else:
                code, found = "not_json", "the line is no JSON"
            self.losses.append(Repair(line, code, found, fragment.id, fragment.original))
        self.fragments = [fragment for fragment in self.fragments if not fragment.repeated]

    def has_pi_entries(self) -> bool:
        """Whether some record can only be Pi's, with or without a header."""
        return len(self.entries) > self._doubtful

    def repair(
        self, line: int | None, code: str, message: str, entry_id: str | None = None, original: bytes | None = None
    ) -> None:
        """Note a repair."""
        self.repairs.append(Repair(line, code, message, entry_id, original))


def is_record(value: object) -> bool:
    """Whether a decoded object is a Pi record of its own and not a part of one, such as a content block."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    if value["type"] == "session":
        return "id" in value and ("timestamp" in value or "cwd" in value)
    if value["type"] in PI_TYPES:
        return "timestamp" in value or "parentId" in value
    return "id" in value and "parentId" in value


def foreign_format(values: JsonObject) -> str | None:
    """Return what program a record of another format comes from, None when that cannot be told."""
    kind = values.get("type")
    if "sessionId" in values and ("uuid" in values or "parentUuid" in values or "leafUuid" in values):
        return "a Claude Code transcript"
    if kind in ("summary", "file-history-snapshot", "queue-operation") and ("leafUuid" in values or len(values) < 8):
        return "a Claude Code transcript"
    if isinstance(values.get("payload"), dict) and (
        kind in ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
    ):
        return "a Codex rollout"
    if "instructions" in values and "timestamp" in values and "type" not in values:
        return "a Codex rollout"
    return None


def not_a_session(source: str) -> SourceError:
    """Return the error for a file without a header and without Pi entries."""
    return SourceError(
        f"{source} is not a Pi session: it has no session header",
        hint="a Pi session is a .jsonl file whose first line has the type session",
    )


def _as_message(field: Field) -> Field:
    return Field("message", '"message"', field.value, field.raw_value) if field.name == "instead" else field


def _as_id(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None
