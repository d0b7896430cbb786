"""Keeps the texts of a session that is being read out of memory: beyond a budget they wait in a temporary file.

Invariant: an entry whose text was put away is the same entry for everybody who holds it; `payload` reads the text back
each time. What the file holds belongs to nobody else: it has no name, and is gone with the last entry that needs it.
"""

from __future__ import annotations

import marshal
import os
from array import array

from pi_sessions.errors import SourceError
from pi_sessions.stored import StoredEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from pi_sessions.stored import JsonObject

# Bytes of text a session may hold in memory; ordinary sessions never come near it.
BUDGET = 12 << 20
_MOST_RECORDS = 200
_BLOCK = 1 << 18
_SIZE = 8
_MOST_TIME = 1 << 62
# Of a time that lies in the spool.
_PUT_AWAY: Any = object()
# The usual folder of temporary files often lies in memory itself; the other one hardly ever does.
_IN_MEMORY, _FOLDER = "/tmp", "/var/tmp"

_payload: Any = StoredEntry.__dict__["payload"]
_place: Any = StoredEntry.__dict__["_fields"]
_time: Any = StoredEntry.__dict__["time_ms"]
_head: Any = StoredEntry.__dict__["head"]


class Spool:
    """A temporary file of texts, written at its end and read anywhere."""

    def __init__(self) -> None:
        import tempfile

        folder = tempfile.gettempdir()
        if folder == _IN_MEMORY and os.path.isdir(_FOLDER) and os.access(_FOLDER, os.W_OK):
            folder = _FOLDER
        self._file = tempfile.TemporaryFile(buffering=_BLOCK, dir=folder)  # noqa: SIM115 (closed in __del__)
        self._size = 0
        self._written = 0
        self._block = b""
        self._block_at = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def write_timed(self, time_ms: int, text: str) -> int:
        """Put a text away with a time and return their place."""
        place = self._size
        self._file.write(time_ms.to_bytes(_SIZE, "little", signed=True))
        self._size += _SIZE
        self.write(text)
        return place

    def time(self, place: int) -> int:
        """Return a time."""
        self._flush()
        return int.from_bytes(self._bytes(place, _SIZE), "little", signed=True)

    def write(self, text: str) -> int:
        """Put a text away and return its place."""
        return self.write_bytes(text.encode("utf-8", "surrogatepass"))

    def write_bytes(self, raw: bytes) -> int:
        """Put bytes away and return their place."""
        place = self._size
        self._file.write(len(raw).to_bytes(_SIZE, "little"))
        self._file.write(raw)
        self._size += _SIZE + len(raw)
        return place

    def read(self, place: int) -> str:
        """Return a text."""
        return self.read_bytes(place).decode("utf-8", "surrogatepass")

    def read_bytes(self, place: int) -> bytes:
        """Return what was put away; what stands one after the other is read from the disk together."""
        self._flush()
        size = int.from_bytes(self._bytes(place, _SIZE), "little")
        return self._bytes(place + _SIZE, size)

    def _flush(self) -> None:
        if self._written < self._size:
            self._file.flush()
            self._written = self._size

    def _bytes(self, at: int, size: int) -> bytes:
        start = at - self._block_at
        if start < 0 or start + size > len(self._block):
            if size > _BLOCK:
                return os.pread(self._file.fileno(), size, at)
            self._block, self._block_at, start = os.pread(self._file.fileno(), _BLOCK, at), at, 0
        return self._block[start : start + size]


class SpooledEntry(StoredEntry):
    """An entry whose text was put away. It has no slots of its own, so that an entry can become one where it lies.

    In the slots of a `StoredEntry` lie, under `payload`, the place of the time and behind it the text; under `_fields`
    their spool; under `time_ms` `_PUT_AWAY`, or a time that was not; and under `head` a dict that many entries share,
    or that dict and the timestamp.
    """

    __slots__ = ()

    @property
    def payload(self) -> str:
        """The text, read back."""
        spool: Spool = _place.__get__(self)
        return spool.read(_payload.__get__(self) + _SIZE)

    @payload.setter
    def payload(self, text: str) -> None:
        spool: Spool = _place.__get__(self)
        _payload.__set__(self, spool.write_timed(spool.time(_payload.__get__(self)), text))

    @property
    def time_ms(self) -> int | None:
        """As in `StoredEntry`."""
        time_ms: int | None = _time.__get__(self)
        if time_ms is _PUT_AWAY:
            spool: Spool = _place.__get__(self)
            return spool.time(_payload.__get__(self))
        return time_ms

    @time_ms.setter
    def time_ms(self, time_ms: int | None) -> None:
        _time.__set__(self, time_ms)

    @property
    def head(self) -> JsonObject | None:
        """As in `StoredEntry`."""
        held = _head.__get__(self)
        if type(held) is tuple:
            return {**held[0], "timestamp": held[1]}
        return {**held, "timestamp": self.time_ms} if held else None

    @head.setter
    def head(self, head: JsonObject | None) -> None:
        _head.__set__(self, (head, head.get("timestamp")) if head else None)

    @property
    def _fields(self) -> JsonObject | None:
        return None

    @_fields.setter
    def _fields(self, fields: JsonObject | None) -> None:
        """Decoded values are not kept, either."""

    @property
    def role(self) -> str | None:
        """The message's role, None when the entry carries no message."""
        role = self.decoded_head().get("role") if self.type == "message" else None
        return role if isinstance(role, str) else None


class LaterRecords:
    """Decoded records that are needed again, perhaps much later: the newest in memory, the others in a temporary file.

    They are known by number, which takes least.
    """

    def __init__(self) -> None:
        self._places: array[int] = array("q")
        self._newest: dict[int, JsonObject] = {}
        # Ones nested too deeply to be put away.
        self._deep: dict[int, JsonObject] = {}
        self._spool: Spool | None = None

    def keep(self, record: JsonObject) -> int:
        """Keep a record and return its number."""
        number = len(self._places)
        self._places.append(-1)
        self._newest[number] = record
        if len(self._newest) > _MOST_RECORDS:
            self._put_away(next(iter(self._newest)))
        return number

    def read(self, number: int) -> JsonObject:
        """Return a record; it is not to be changed."""
        held = self._newest.get(number) or self._deep.get(number)
        if held is not None or self._spool is None:
            return held or {}
        record: JsonObject = marshal.loads(self._spool.read_bytes(self._places[number]))
        return record

    def _put_away(self, number: int) -> None:
        record = self._newest.pop(number)
        try:
            raw = marshal.dumps(record)
        except ValueError:
            self._deep[number] = record
            return
        self._spool = self._spool or Spool()
        self._places[number] = self._spool.write_bytes(raw)


class OrderedRecords:
    """Records in an order, gone through one by one without holding all of them in memory.

    Args:
        records: Given once.
        key: What they are ordered by; equal ones stay in the order in which they came.
    """

    def __init__(self, records: Iterable[JsonObject], key: Callable[[JsonObject], Any]) -> None:
        self._records = LaterRecords()
        kept = [(key(record), self._records.keep(record)) for record in records]
        kept.sort(key=lambda each: each[0])
        self._numbers = array("q", (number for _key, number in kept))

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[JsonObject]:
        return map(self._records.read, self._numbers)


class TextBudget:
    """Puts the texts of a growing list of entries away whenever they have become too many.

    Args:
        entries: In the order of the source; the same list that the reader fills.
        source: Its path, for errors.

    Attributes:
        held: Bytes of text in memory since texts were put away last; whoever adds an entry adds to it.
    """

    def __init__(self, entries: list[StoredEntry], source: str) -> None:
        self.entries = entries
        self.source = source
        self.held = 0
        self._done = 0
        self._spool: Spool | None = None
        self._heads: dict[tuple[object, ...], JsonObject] = {}

    def put_away(self) -> None:
        """Put the texts away that are in memory.

        Raises:
            SourceError: the temporary file cannot be written.
        """
        try:
            spool = self._spool = self._spool or Spool()
            for place in range(min(self._done, len(self.entries)), len(self.entries)):
                entry = self.entries[place]
                if type(entry) is StoredEntry:
                    self._put_away(spool, entry)
        except OSError as error:
            raise SourceError(
                f"{self.source} is too large for memory, and its texts cannot wait in a temporary file:"
                f" {error.strerror or error}",
                hint="free some space, or name another folder in TMPDIR",
            ) from error
        self._done = len(self.entries)
        self.held = 0

    def _put_away(self, spool: Spool, entry: StoredEntry) -> None:
        time_ms, head = entry.time_ms, entry.head
        fits = time_ms is not None and -_MOST_TIME < time_ms < _MOST_TIME
        place = spool.write_timed(time_ms if time_ms is not None and fits else 0, entry.payload)
        entry.__class__ = SpooledEntry
        if fits:
            _time.__set__(entry, _PUT_AWAY)
        _payload.__set__(entry, place)
        _place.__set__(entry, spool)
        if head:
            _head.__set__(entry, self._shared(head, time_ms))

    def _shared(self, head: JsonObject, time_ms: int | None) -> object:
        """Return a message's head in little space: nearly all of a session say the same but for the time."""
        told = {name: value for name, value in head.items() if name != "timestamp"}
        key = tuple(told.items())
        try:
            shared = self._heads.setdefault(key, told)
        except TypeError:
            # A role that is no text, say.
            shared = told
        at = head.get("timestamp")
        return shared if type(at) is int and at == time_ms else (shared, at)
