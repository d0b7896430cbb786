"""Reads a file that is one large JSON array (or a few objects) item by item, in the memory that one item needs.

Of an item that is huge by itself, because one of its fields holds many things, these are given one by one, too. Each
whole item is given, also from a damaged or cut-off file: reading goes on at the next item, and of an item that is
torn the whole parts are given. Lines are those of the file. Knows nothing about what the items mean.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from array import array

from pi_sessions.errors import SourceError
from pi_sessions.formats.json_text import NotJsonError, has_surrogate_escape, mend_surrogates, scan
from pi_sessions.formats.parsed import Repair
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO

    from pi_sessions.stored import JsonObject

_BLOCK = 1 << 20
# A larger item is read field by field.
_HUGE = 4 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_SEPARATORS = re.compile(r"[\s\0,\[\]\ufeff]*")
_OBJECT = re.compile(r"\{\s*[\"}]")
_PART = re.compile(r"\{\s*\"")
_FIELD = re.compile(
    r'\s*("(?:[^"\\]|\\.){0,200}")\s*:\s*("(?:[^"\\]|\\.){0,4000}"|-?\d{1,20}(?:\.\d{1,20})?|null|true|false)\s*,'
)
# A mistake this near to the end of what was read may only be that the rest is missing.
_MARGIN = 4_096


class Parts:
    """The many things a huge item holds: they wait in a temporary file, and can be gone through again and again."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._places: array[int] = array("q")

    def add(self, text: str) -> None:
        """Add the JSON text of one."""
        self._places.append(self._spool.write(text))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        for place in self._places:
            yield scan(self._spool.read(place), 0)[0]


class Item(tuple[int, "JsonObject", "Iterable[JsonObject] | None"]):
    """An item: its line, its value, and the whole parts of a torn item (None for a whole one)."""

    __slots__ = ()

    @property
    def line(self) -> int:
        """1-based line at which it begins."""
        return self[0]

    @property
    def value(self) -> JsonObject:
        """The decoded object; of a torn one, the plain fields it begins with."""
        return self[1]

    @property
    def parts(self) -> Iterable[JsonObject] | None:
        """The whole parts of a torn item."""
        return self[2]


class JsonItems:
    """The items of one file, in order: iterate once.

    Args:
        path: The file.
        is_item: Whether a decoded object is an item and not a part of one.
        is_part: Whether an object inside a torn item is worth keeping by itself.
        many: Fields of an item that may be huge. In items that are, they are no lists or objects but `Parts`: the
            elements of the list, or [name, value] of each field of the object.

    Attributes:
        repairs, losses: What was mended, and what was lost, since they were last taken (`take_notes`).
        size, mtime_ms: Of the file.
    """

    def __init__(
        self,
        path: str,
        is_item: Callable[[JsonObject], bool],
        is_part: Callable[[JsonObject], bool],
        *,
        many: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self._many = many
        self.repairs: list[Repair] = []
        self.losses: list[Repair] = []
        self.size = 0
        self.mtime_ms = 0
        self._is_item = is_item
        self._is_part = is_part
        self._hash = hashlib.sha256()
        # What was read and not used up yet begins at `_at`.
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    @property
    def digest(self) -> str:
        """SHA-256 of what was read so far, in hexadecimal."""
        return self._hash.hexdigest()

    def take_notes(self) -> tuple[list[Repair], list[Repair]]:
        """Return the repairs and losses noted since the last call."""
        notes = self.repairs, self.losses
        self.repairs, self.losses = [], []
        return notes

    def skip(self, line: int, message: str) -> None:
        """Note an object that holds nothing for us."""
        self.repairs.append(Repair(line, "not_understood", message))

    def __iter__(self) -> Iterator[Item]:
        """Yield each item, torn ones with their whole parts.

        Raises:
            SourceError: the file is missing, unreadable or empty.
        """
        with open_source(self.path) as file:
            self.mtime_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._more(file, decoder)
            if not self.size:
                hint = "there is nothing to import; the file was left as it is"
                raise SourceError(f"{self.path} is empty", hint=hint)
            while True:
                self._skip(file, decoder)
                if self._at == len(self._text):
                    return
                yield from self._next(file, decoder)

    # --- the text at hand -----------------------------------------------------------------------------------------

    def _more(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> bool:
        """Read on, the more the more is at hand; False at the end of the file."""
        if self._ended:
            return False
        try:
            raw = file.read(max(_BLOCK, len(self._text) - self._at))
        except OSError as error:
            raise SourceError(f"{self.path} cannot be read: {error.strerror or error}") from error
        self._hash.update(raw)
        self.size += len(raw)
        text = decoder.decode(raw, not raw)
        if "\ufffd" in text and b"\xef\xbf\xbd" not in raw:
            self._note("invalid_utf8", "bytes that are no UTF-8 became U+FFFD")
        self._text = self._text[self._at :] + text
        self._at = 0
        self._ended = not raw
        return bool(text) or not self._ended

    def _drop(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _skip(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> None:
        """Go to the next item; what stands between items and is none is noted."""
        while True:
            found = _SEPARATORS.match(self._text, self._at)
            self._drop(found.end() if found else self._at)
            if self._at == len(self._text):
                if not self._more(file, decoder):
                    return
                continue
            if _OBJECT.match(self._text, self._at):
                return
            if len(self._text) - self._at < _MARGIN and self._more(file, decoder):
                if _OBJECT.match(self._text, self._at):
                    return
                continue
            start = _OBJECT.search(self._text, self._at + 1)
            end = start.start() if start else len(self._text)
            stray = _sample(self._text[self._at : end])
            self.losses.append(Repair(self._line, "not_json", "a stretch that is no JSON object", None, stray))
            self._drop(end)

    # --- items ----------------------------------------------------------------------------------------------------

    def _next(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> Iterator[Item]:
        while True:
            try:
                value, end = scan(self._text, self._at)
            except NotJsonError as error:
                if not self._ended and self._may_be_cut(error):
                    if self._many and len(self._text) - self._at > _HUGE:
                        yield self._huge(file, decoder)
                        return
                    self._more(file, decoder)
                    continue
                yield self._torn(file, decoder, error.position)
                return
            break
        line, start = self._line, self._at
        self._drop(end)
        text = self._text if start == 0 and end == len(self._text) else self._text[start:end]
        mended = self._mended(text)
        yield Item((line, value if mended is text else scan(mended, 0)[0], None))

    def _mended(self, text: str) -> str:
        """Return JSON text without halves of surrogate pairs; the same text when there are none."""
        if has_surrogate_escape(text):
            mended, halves = mend_surrogates(text)
            if halves:
                self._note("lone_surrogate", f"{halves} halves of surrogate pairs became U+FFFD")
                return mended
        return text

    def _huge(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> Item:
        """Read an item field by field, and the field that holds many things one after the other."""
        line = self._line
        told: JsonObject = {}
        parts: Parts | None = None
        try:
            self._past("{", file, decoder)
            while not self._past("}", file, decoder):
                name = json.loads(self._value(file, decoder))
                self._past(":", file, decoder)
                if name in self._many and self._sign(file, decoder) in ("[", "{"):
                    told[name] = parts = Parts()
                    self._fill(parts, file, decoder)
                else:
                    told[str(name)] = scan(self._value(file, decoder), 0)[0]
                self._past(",", file, decoder)
        except NotJsonError as error:
            torn = self._torn(file, decoder, error.position)
            whole = parts if parts is not None else Parts()
            for part in torn.parts or ():
                whole.add(json.dumps(part))
            about = {name: value for name, value in told.items() if not isinstance(value, Parts)}
            return Item((line, about, _Values(whole)))
        return Item((line, told, None))

    def _fill(self, parts: Parts, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> None:
        """Read the elements of a list, or the fields of an object."""
        is_list = self._past("[", file, decoder)
        if not is_list:
            self._past("{", file, decoder)
        while not self._past("]" if is_list else "}", file, decoder):
            name = None if is_list else self._value(file, decoder)
            self._past(":", file, decoder)
            value = self._value(file, decoder)
            parts.add(value if name is None else f"[{name},{value}]")
            self._past(",", file, decoder)

    def _sign(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> str:
        """Go to the next character that is no white space and return it; nothing at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._drop(found.end() if found else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(file, decoder):
                return ""

    def _past(self, sign: str, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> bool:
        """Go on behind a sign if it comes next."""
        if self._sign(file, decoder) != sign:
            return False
        self._at += 1
        return True

    def _value(self, file: BinaryIO, decoder: codecs.IncrementalDecoder) -> str:
        """Read the value that comes next and return its text.

        Raises:
            NotJsonError: there is none.
        """
        self._sign(file, decoder)
        while True:
            try:
                _value, end = scan(self._text, self._at)
            except NotJsonError as error:
                if self._ended or not self._may_be_cut(error):
                    raise
            else:
                # A number that ends with what was read may go on.
                if end < len(self._text) or self._ended:
                    break
            self._more(file, decoder)
        start = self._at
        self._drop(end)
        return self._mended(self._text[start:end])

    def _may_be_cut(self, error: NotJsonError) -> bool:
        told = str(error)
        return "Unterminated" in told or error.position >= len(self._text) - _MARGIN

    def _torn(self, file: BinaryIO, decoder: codecs.IncrementalDecoder, broken: int) -> Item:
        """Return the whole parts of a torn item and go on at the next whole item."""
        line = self._line
        broken -= self._at
        self._text, self._at = self._text[self._at :], 0
        begun = self._leading_fields(self._text)
        parts: list[JsonObject] = []
        at, done = 1, 0
        budget = 32 * len(self._text) + 1_000_000
        while budget > 0:
            found = _PART.search(self._text, at)
            if found is None:
                at = max(at, len(self._text) - 64)
                if not self._more(file, decoder):
                    done = len(self._text)
                    break
                budget += 32 * _BLOCK
                continue
            start = found.start()
            try:
                value, end = scan(self._text, start)
            except NotJsonError as error:
                if start > broken and not self._ended and self._may_be_cut(error):
                    self._more(file, decoder)
                    budget += 32 * _BLOCK
                    continue
                budget -= error.position - start + start // 8 + 1
                at = start + 1
                continue
            budget -= end - start
            if start > broken and self._is_item(value):
                done = start
                break
            at = end
            if self._is_part(value):
                text = self._text[start:end]
                mended = self._mended(text)
                parts.append(value if mended is text else scan(mended, 0)[0])
            elif end - start > 2:
                at = self._inside(value, start, end)
        else:
            done = len(self._text)
        held = "1 whole part was" if len(parts) == 1 else f"{len(parts)} whole parts were"
        found_text = f"the file is damaged or cut off here; {held} recovered"
        self.losses.append(Repair(line, "torn", found_text, None, _sample(self._text[:done])))
        self._drop(done)
        return Item((line, begun, parts))

    def _leading_fields(self, text: str) -> JsonObject:
        """Return the fields an object begins with, up to the first that is an object or a list."""
        found: JsonObject = {}
        at = 1
        while (field := _FIELD.match(text, at)) is not None:
            try:
                found[json.loads(self._mended(field[1]))] = json.loads(self._mended(field[2]))
            except ValueError:
                break
            at = field.end()
        return found

    def _inside(self, value: Any, start: int, end: int) -> int:
        """Return where to look on behind an object that is no part: in it, when it may hold parts."""
        holds = any(isinstance(inner, dict | list) for inner in value.values()) if isinstance(value, dict) else False
        return start + 1 if holds and len(value) > 0 and self._holds_part(value) else end

    def _holds_part(self, value: JsonObject) -> bool:
        for inner in value.values():
            if isinstance(inner, dict) and self._is_part(inner):
                return True
            values = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
            if any(isinstance(each, dict) and self._is_part(each) for each in values):
                return True
        return False

    def _note(self, code: str, message: str) -> None:
        if not any(repair.code == code for repair in self.repairs):
            self.repairs.append(Repair(self._line, code, message))


class _Values:
    """The parts of a huge item that is torn: those of an object without their names."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[JsonObject]:
        for part in self._parts:
            value = part[1] if isinstance(part, list) and len(part) == 2 else part
            if isinstance(value, dict):
                yield value


def _sample(text: str) -> bytes:
    """Return the bytes of a lost stretch, its beginning when it is long."""
    return text[: 1 << 16].encode("utf-8", "replace")
