"""Frames a file of JSON Lines into records, whatever happened to it; the part all foreign formats share.

Lines end at LF and nowhere else. Each whole record is given, also from torn, glued or padded lines; what was mended is
a repair, what could not be kept a loss, and every line ends up in exactly one place of the tally. Knows nothing about
what the records mean. The file is opened for reading only.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from json.decoder import JSONDecodeError, JSONDecoder

from pi_sessions.errors import SourceError
from pi_sessions.formats.json_text import (
    BLANK,
    NotJsonError,
    Piece,
    has_surrogate_escape,
    mend_surrogates,
    split_damaged,
)
from pi_sessions.formats.json_values import quick_object
from pi_sessions.formats.parsed import Repair, Tally
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Any

    from pi_sessions.stored import JsonObject

# A repeated beginning proves a repetition only when it says more than the kind of record.
_TELLING_LENGTH = 24
_MINUTES = 10_000
_MOST_HEAD_RECORDS = 40
_LINE_ENDS = ("\n", "", "\r\n")
# What a line counts as when it gave several things, the first that applies.
_ORDER = ("entries", "facts", "header", "skipped", "lost", "blank")
_USES = {what: number for number, what in enumerate(_ORDER, 1)}
_LINES_AT_ONCE = 256


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError("the number is too large")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_scan: Callable[[str, int], tuple[Any, int]] = JSONDecoder(  # type: ignore[attr-defined]
    parse_constant=_no_constant, parse_float=_finite
).scan_once


def decode(text: str) -> Any:
    """Decode one JSON value that is all of a text; numbers are finite.

    Raises:
        NotJsonError: the text is anything else.
    """
    try:
        value, end = _scan(text, 0)
    except (StopIteration, JSONDecodeError, RecursionError, ValueError) as error:
        raise NotJsonError("no JSON", 0) from error
    if text[end:] not in _LINE_ENDS:
        raise NotJsonError("more than one value", end)
    return value


class _Torn:
    """A torn record: its line, its text, and whether the whole record came again."""

    __slots__ = ("cut_off", "line", "raw", "repeated", "text")

    def __init__(self, line: int, text: str, raw: bytes) -> None:
        self.line = line
        self.text = text.strip(BLANK)
        self.raw = raw
        self.repeated = False
        self.cut_off = False


class JsonLines:
    """The records of one file, in order: iterate once, then read the counts.

    Args:
        path: The file.
        is_record: Whether a decoded object is a record of this format and not a part of one; asked only for objects
            found inside damaged lines.
        name_of: Returns what identifies a torn record by its beginning, None when that cannot be told; a torn record
            whose name was `seen` is no loss.

    Attributes:
        repairs, losses: What was mended and what was lost.
        lines: Lines read.
        digest, size, mtime_ms: Of the file, when all was read.
    """

    def __init__(
        self,
        path: str,
        is_record: Callable[[object], bool],
        *,
        name_of: Callable[[str], str | None] = lambda text: None,
    ) -> None:
        self.path = path
        self.repairs: list[Repair] = []
        self.losses: list[Repair] = []
        self.seen: Container[str] = ()
        self.lines = 0
        self.digest = ""
        self.size = 0
        self.mtime_ms = 0
        self._is_record = is_record
        self._name_of = name_of
        # By line: nothing, or which of `_ORDER`, counted from 1.
        self._use = bytearray(1)
        self._torn: list[_Torn] = []
        self._pending: _Torn | None = None

    def __iter__(self) -> Iterator[tuple[int, JsonObject]]:
        """Yield each record with its 1-based line.

        Raises:
            SourceError: the file is missing, unreadable, empty, or no regular file.
        """
        digest = hashlib.sha256()
        update = digest.update
        size = 0
        with open_source(self.path) as file:
            self.mtime_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
            try:
                for line, raw in enumerate(file, 1):
                    update(raw)
                    size += len(raw)
                    self.lines = line
                    # Nearly every line is simply one object.
                    value = quick_object(raw) if self._pending is None else None
                    if value is not None:
                        yield line, value
                        continue
                    for value in self._damaged(raw, line):
                        yield line, value
            except OSError as error:
                raise SourceError(f"{self.path} cannot be read: {error.strerror or error}") from error
        self.size = size
        if not self.size:
            raise SourceError(f"{self.path} is empty", hint="there is nothing to import; the file was left as it is")
        self.digest = digest.hexdigest()
        self._judge_torn()

    def use(self, line: int, what: str) -> None:
        """Say what a line gave (a field of `Tally`); of several things the most telling counts."""
        uses, use = self._use, _USES[what]
        try:
            known = uses[line]
        except IndexError:
            uses.extend(bytes(line + _LINES_AT_ONCE - len(uses)))
            known = 0
        if not known or use < known:
            uses[line] = use

    def hold_back(self, line: int) -> None:
        """Say that a line gave nothing after all."""
        self._use[line] = _USES["skipped"]

    def repair(self, line: int | None, code: str, message: str, entry_id: str | None = None) -> None:
        """Note a repair."""
        self.repairs.append(Repair(line, code, message, entry_id))

    def lose(self, line: int, code: str, message: str) -> None:
        """Note a record that could not be kept."""
        self.losses.append(Repair(line, code, message))
        self.use(line, "lost")

    def tally(self) -> Tally:
        """Count each line once; lines nobody spoke of count as skipped."""
        counts = {what: self._use.count(use) for what, use in _USES.items()}
        counts["skipped"] += self.lines - sum(counts.values())
        return Tally(lines=self.lines, **counts)

    def _damaged(self, raw: bytes, line: int) -> Iterator[JsonObject]:
        """Read a line that is not simply one object."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode(errors="replace")
            self._mended(line, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD", raw)
        if text.startswith("\ufeff"):
            text = text[1:]
            self.repair(line, "byte_order_mark", "the byte order mark was left out")
        spaced = text.strip(" \t\r\n")
        body = spaced.strip(BLANK)
        if not body:
            self.use(line, "skipped" if spaced else "blank")
            if spaced:
                self.repair(line, "nul_padding", f"{spaced.count(chr(0))} NUL bytes were left out")
            return
        if body != spaced:
            self.repair(line, "nul_padding", f"{spaced.count(chr(0)) - body.count(chr(0))} NUL bytes were left out")
        if has_surrogate_escape(body):
            body, halves = mend_surrogates(body)
            if halves:
                what = "half a surrogate pair" if halves == 1 else f"{halves} halves of surrogate pairs"
                self._mended(line, "lone_surrogate", f"{what} became U+FFFD", raw)
        try:
            value = decode(body)
        except NotJsonError:
            yield from self._pieces(body, raw, line)
            return
        self._follow_up(body)
        if isinstance(value, dict) and value:
            yield value
            return
        self.use(line, "skipped")
        self._mended(line, "not_an_object", "a JSON value that is no record was skipped", raw)

    def _pieces(self, body: str, raw: bytes, line: int) -> Iterator[JsonObject]:
        pieces = split_damaged(body, self._is_record)
        whole = sum(piece.whole for piece in pieces)
        if whole > 1 or (whole and not pieces[0].whole):
            held = "1 whole record was" if whole == 1 else f"{whole} whole records were"
            self._mended(line, "glued_records", f"{held} recovered from one line", raw)
        elif any(piece.rewritten for piece in pieces):
            found = "raw control characters or values that are no JSON were re-written"
            self._mended(line, "not_strict_json", found, raw)
        for piece in pieces:
            value = _whole(piece)
            if value is not None:
                self._follow_up(piece.text)
                yield value
                continue
            torn = _Torn(line, piece.text, raw)
            self._torn.append(torn)
            self._pending = torn
            self.use(line, "lost")
        if self._pending is not None and not raw.endswith(b"\n"):
            self._pending.cut_off = True

    def _follow_up(self, text: str) -> None:
        """Note whether a torn record is repeated by the one that comes right after it."""
        torn = self._pending
        if torn is not None:
            torn.repeated = len(torn.text) >= _TELLING_LENGTH and text.startswith(torn.text)
            self._pending = None

    def _judge_torn(self) -> None:
        """Tell torn records that came again from torn records that are lost."""
        for torn in self._torn:
            name = self._name_of(torn.text)
            if torn.repeated or (name is not None and name in self.seen):
                if self._use[torn.line] == _USES["lost"]:
                    self._use[torn.line] = _USES["skipped"]
                self.repair(torn.line, "torn_repeated", "a torn record was left out; it is repeated whole")
                continue
            if torn.cut_off:
                code, found = "cut_off", "the last line is cut off"
            elif "{" in torn.text:
                code, found = "torn", "a record is torn and could not be read"
            else:
                code, found = "not_json", "the line is no JSON"
            self.losses.append(Repair(torn.line, code, found, None, torn.raw))

    def _mended(self, line: int, code: str, message: str, raw: bytes) -> None:
        self.repairs.append(Repair(line, code, message, None, raw))


def _whole(piece: Piece) -> JsonObject | None:
    if not piece.whole:
        return None
    try:
        value = decode(piece.text)
    except NotJsonError:
        return None
    return value if isinstance(value, dict) and value else None


_minutes: dict[str, int] = {}


def readable_time(value: object) -> int | None:
    """Return the Unix milliseconds of a record's timestamp; None for none, and for years that ISO text cannot name.

    Most records say `2026-03-01T10:00:01.000Z`, and most fall into a minute that was read before.
    """
    if isinstance(value, str) and len(value) == 24 and value[19] == "." and value[23] == "Z":
        minute = _minutes.get(value[:17])
        if minute is None:
            minute = _minute(value[:17])
        in_minute = value[17:19] + value[20:23]
        if minute is not None and in_minute.isdecimal() and in_minute.isascii() and in_minute < "6":
            return minute + int(in_minute)
    time_ms = parse_time(value)
    return time_ms if time_ms is not None and -62_135_596_800_000 <= time_ms < 253_402_300_800_000 else None


def _minute(text: str) -> int | None:
    """Return the Unix milliseconds of a minute written `2026-03-01T10:00:`, and remember them."""
    minute = parse_time(f"{text}00.000Z") if text[16] == ":" else None
    if minute is not None:
        if len(_minutes) > _MINUTES:
            _minutes.clear()
        _minutes[text] = minute
    return minute


def head_records(head: bytes, limit: int = _MOST_HEAD_RECORDS) -> list[JsonObject]:
    """Return the JSON objects at the beginning of a file of lines, damaged lines taken apart; for detection.

    Args:
        head: First bytes of the file; the last line may be cut.
        limit: At most this many records.
    """
    return list(_head_records(head)[:limit])


# Each format in turn asks for the same head.
@lru_cache(maxsize=1)
def _head_records(head: bytes) -> tuple[JsonObject, ...]:
    found: list[JsonObject] = []
    for raw in head.split(b"\n"):
        value = quick_object(raw)
        if value is not None:
            found.append(value)
            if len(found) >= _MOST_HEAD_RECORDS:
                break
            continue
        body = raw.decode(errors="replace").lstrip("\ufeff").strip(BLANK)
        if not body:
            continue
        try:
            values = [decode(body)]
        except NotJsonError:
            values = [piece.value for piece in split_damaged(body[: 1 << 16], lambda value: isinstance(value, dict))]
        found += [value for value in values if isinstance(value, dict)]
        if len(found) >= _MOST_HEAD_RECORDS:
            break
    return tuple(found[:_MOST_HEAD_RECORDS])
