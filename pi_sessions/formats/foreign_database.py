"""Reads another program's SQLite database without touching it, also while the program is writing.

The database is opened read-only; all reading happens in one transaction, so that what is read is one state of it, with
what its WAL holds. No file is made or changed beside it: a database whose program is gone is read as it lies there, and
where SQLite would have to write (a WAL without its index, a journal to roll back) a copy is read instead. Pages that
are damaged, or missing at the end of a file that was cut off, cost the rows that lie on them and no others. Knows
nothing about what the tables mean.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
from functools import lru_cache
from pathlib import Path

from pi_sessions.errors import SourceError
from pi_sessions.formats.parsed import Repair, Tally
from pi_sessions.formats.spool import OrderedRecords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from pi_sessions.formats.building import SessionBuilder
    from pi_sessions.stored import JsonObject

MAGIC = b"SQLite format 3\0"
# Bytes 18 and 19 of the file: 2 when the program uses a WAL.
_WAL_BYTES = slice(18, 20)
_HEADER_BYTES = 100


_DAMAGED = "get or copy it once more; nothing was stored"
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DamagedDatabaseError(SourceError):
    """A database is so damaged that nothing can be read of it."""


class ForeignDatabase:
    """A database opened for reading; a context manager.

    Args:
        path: The database file.

    Attributes:
        columns: `{table: names of its columns}`; views and virtual tables are left out.
        damage: What SQLite said about pages it could not read.
        mtime_ms: Time of the newest of its files (Unix milliseconds).
        is_salvaged: Its end is missing, so that SQLite refuses to open it; what is there is read all the same.

    Raises:
        DamagedDatabaseError: not even its tables can be told.
        SourceError: it is missing, may not be read, or is no database.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.damage: list[str] = []
        self.is_salvaged = False
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._unguarded = False
        # Names of the columns that are declared to hold bytes.
        self._binary: set[str] = set()
        self._before = self._stamp()
        times = [os.stat(path + end).st_mtime_ns for end in ("", "-wal") if os.path.exists(path + end)]
        self.mtime_ms = max(times) // 1_000_000
        try:
            self._connection = self._open()
            try:
                self._connection.execute("begin")
                self.columns = self._tables()
            except (sqlite3.Error, UnicodeDecodeError):
                self.columns = self._tables_of_copy()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            if _is_damage(error):
                raise DamagedDatabaseError(
                    f"{path} is a damaged or cut-off database ({error})", hint=_DAMAGED
                ) from error
            raise SourceError(f"{path} cannot be read as a database: {error}") from error
        except OSError as error:
            self.close()
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error

    def __enter__(self) -> ForeignDatabase:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it and remove the copy, if one was made."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def check_unchanged(self) -> None:
        """See to it that what was read is one state: a database without a WAL must not have been written meanwhile.

        Raises:
            SourceError: it was.
        """
        if self._unguarded and self._stamp() != self._before:
            raise SourceError(f"{self.path} was changed while it was read", hint="import it again")

    def rows(self, sql: str, *arguments: object) -> Iterator[JsonObject]:
        """Yield the rows of a query by column name; a damaged page ends them and is noted in `damage`."""
        try:
            cursor = self._connection.execute(sql, arguments)
            names = [column[0] for column in cursor.description]
            for values in cursor:
                row = dict(zip(names, values, strict=True))
                # Hardly any row holds bytes.
                yield {name: self._cell(name, row[name]) for name in row} if bytes in map(type, values) else row
        except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError) as error:
            self.damage.append(str(error))

    def _cell(self, name: str, value: object) -> object:
        """Return a value as its column is declared: bytes only where bytes belong, text anywhere else."""
        return _text(value) if isinstance(value, bytes) and name not in self._binary else value

    def rowids(self, table: str, where: str = "1", *arguments: object) -> list[int]:
        """Return the row ids of the rows of a table that agree with a condition, also from a damaged table.

        The index is asked first; when it is damaged the table is searched from both ends, so that only the rows on
        damaged pages are missing.
        """
        before = len(self.damage)
        found = {row["at"] for row in self.rows(f'select rowid as at from "{table}" where {where}', *arguments)}
        if len(self.damage) > before:
            for order in ("asc", "desc"):
                sql = f'select rowid as at from "{table}" not indexed where {where} order by rowid {order}'
                found.update(row["at"] for row in self.rows(sql, *arguments))
        return sorted(found)

    def found(self, table: str, where: str, *arguments: object) -> list[JsonObject]:
        """Return the rows of a table that agree with a condition; those that can be read, where pages are damaged."""
        before = len(self.damage)
        rows = list(self.rows(f'select * from "{table}" where {where}', *arguments))
        if len(self.damage) == before:
            return rows
        read = (self.row(table, rowid) for rowid in self.rowids(table, where, *arguments))
        return [row for row in read if row is not None]

    def ordered(
        self, table: str, where: str, *arguments: object, key: Callable[[JsonObject], tuple[Any, ...]]
    ) -> OrderedRecords:
        """Return what `found` does in an order, and without holding all of it in memory."""
        before = len(self.damage)
        found = OrderedRecords(self.rows(f'select * from "{table}" where {where}', *arguments), key)
        if len(self.damage) == before:
            return found
        read = (self.row(table, rowid) for rowid in self.rowids(table, where, *arguments))
        return OrderedRecords((row for row in read if row is not None), key)

    def row(self, table: str, rowid: int) -> JsonObject | None:
        """Return a row by its row id; None when it cannot be read, which is noted in `damage`."""
        before = len(self.damage)
        row = next(self.rows(f'select * from "{table}" where rowid = ?', rowid), None)
        if row is None and len(self.damage) == before:
            self.damage.append(f"row {rowid} of {table} is not where it should be")
        return row

    def missing(self, what: str) -> None:
        """Note that something other rows name is not there."""
        self.damage.append(f"{what} is missing")

    def damage_since(self, before: int) -> list[Repair]:
        """Return a loss that tells of the damage met since `damage` had so many items; [] for none."""
        found = self.damage[before:]
        if not found:
            return []
        times = "once" if len(found) == 1 else f"{len(found)} times"
        return [Repair(None, "damaged_pages", f"the database is damaged, met {times}: {found[-1]}")]

    def has(self, **tables: str) -> bool:
        """Whether it has these tables with these columns, given as names with blanks between them."""
        return all(set(names.split()) <= self.columns.get(table, frozenset()) for table, names in tables.items())

    def _tables(self) -> dict[str, frozenset[str]]:
        sql = "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
        names = [str(row[0]) for row in self._connection.execute(sql)]
        found = {}
        for name in names:
            quoted = name.replace('"', '""')
            columns = self._connection.execute(f'pragma table_info("{quoted}")').fetchall()
            found[name] = frozenset(str(row[1]) for row in columns)
            self._binary.update(str(row[1]) for row in columns if "BLOB" in str(row[2]).upper())
        return found

    def _tables_of_copy(self) -> dict[str, frozenset[str]]:
        """Open a copy instead, and return its tables; of one that was cut off, those that are there."""
        self._connection.close()
        try:
            self._connection = self._open_copy()
            self._connection.execute("begin")
            return self._tables()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if not _is_damage(error) or missing_end(self.path) is None:
                raise
        self._connection.close()
        self._connection = self._open_copy()
        self.is_salvaged = True
        # SQLite then reads a file that is shorter than it says. The copy is nobody's, and nothing is written to it.
        self._connection.execute("pragma writable_schema = on")
        self._connection.execute("begin")
        return self._tables()

    def _stamp(self) -> tuple[int, int]:
        try:
            status = os.stat(self.path)
        except (OSError, ValueError) as error:
            raise SourceError(f"{self.path} does not exist") from error
        return status.st_size, status.st_mtime_ns

    def _open(self) -> sqlite3.Connection:
        with open(self.path, "rb") as file:
            uses_wal = file.read(20)[_WAL_BYTES] == b"\2\2"
        if _size(f"{self.path}-journal") or (_size(f"{self.path}-wal") and not os.path.exists(f"{self.path}-shm")):
            return self._open_copy()
        if uses_wal and not os.path.exists(f"{self.path}-shm"):
            self._unguarded = True
            return _connect(self.path, "mode=ro&immutable=1")
        return _connect(self.path, "mode=ro")

    def _open_copy(self) -> sqlite3.Connection:
        self._unguarded = False
        if self._copy is None:
            self._copy = tempfile.TemporaryDirectory(prefix="pi-session-", ignore_cleanup_errors=True)
        there = os.path.join(self._copy.name, "copy.db")
        for end in ("-wal", "-journal", ""):
            if os.path.exists(self.path + end):
                shutil.copyfile(self.path + end, there + end)
        return _connect(there, "mode=rw")


def _connect(path: str, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?{options}", uri=True, isolation_level=None)
    connection.text_factory = _text
    connection.execute("pragma trusted_schema = off")
    connection.execute("pragma cell_size_check = on")
    connection.execute("pragma query_only = on")
    connection.execute("pragma busy_timeout = 5000")
    return connection


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def tables_of(path: str, head: bytes) -> dict[str, frozenset[str]]:
    """Return the tables of a file with their columns, for detection; empty when it is no database.

    Args:
        head: First bytes of the file.
    """
    if not head.startswith(MAGIC):
        return {}
    columns, _error = _tables_of(path, _state(path))
    return columns


def why_unreadable(path: str) -> SourceError | None:
    """Return what keeps a database from being read as a whole, None when all of its tables can be told."""
    _columns, error = _tables_of(path, _state(path))
    return error


# Each format in turn asks for the tables of the same file, and a damaged one is copied to be read.
@lru_cache(maxsize=1)
def _tables_of(path: str, state: tuple[object, ...]) -> tuple[dict[str, frozenset[str]], SourceError | None]:
    try:
        with ForeignDatabase(path) as database:
            error = _damaged(path, "its end is missing") if database.is_salvaged else None
            return database.columns, error
    except SourceError as error:
        return {}, error


def _state(path: str) -> tuple[object, ...]:
    """Return what changes when a database does."""
    found: list[object] = []
    for end in ("", "-wal", "-journal"):
        try:
            status = os.stat(path + end)
        except (OSError, ValueError):
            found.append(None)
        else:
            found += [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return tuple(found)


def _is_damage(error: Exception) -> bool:
    """Whether it is the file that SQLite failed on, and not somebody who holds it or rights that are missing."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF in _DAMAGE_CODES


def _damaged(path: str, reason: object) -> DamagedDatabaseError:
    return DamagedDatabaseError(f"{path} is a damaged or cut-off database ({reason})", hint=_DAMAGED)


def missing_end(path: str) -> str | None:
    """Return what is missing of a database that was cut off; None when it is as long as it says.

    Source: SQLite file format, "The Database Header".
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError:
        return None
    if len(head) < _HEADER_BYTES or not head.startswith(MAGIC) or _size(f"{path}-wal"):
        return None
    page = int.from_bytes(head[16:18], "big")
    page = 1 << 16 if page == 1 else page
    pages, changes, valid_for = (int.from_bytes(head[at : at + 4], "big") for at in (28, 24, 92))
    there = -(-_size(path) // page) if page else pages
    if changes != valid_for or there >= pages:
        return None
    return f"the database is cut off: {there:,} of its {pages:,} pages are there"


class RowCount:
    """The rows of one session: numbered as they are read, digested, and each counted once.

    Attributes:
        rows: How many there were.
        size: Their size in bytes, about.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._lost: set[int] = set()
        self._header: set[int] = set()
        self.size = 0
        self.rows = 0

    def take(self, row: Any, *, header: bool = False) -> int:
        """Count one row, or one record of a file, and return its number, from 1."""
        values = row.values() if isinstance(row, dict) else (row,)
        told = "\0".join([value if isinstance(value, str) else repr(value) for value in values])
        raw = told.encode("utf-8", "backslashreplace")
        self._hash.update(raw)
        self.size += len(raw)
        self.rows += 1
        if header:
            self._header.add(self.rows)
        return self.rows

    def lose(self, builder: SessionBuilder, row: int, code: str, message: str, original: bytes | None = None) -> None:
        """Note that nothing of a row could be kept."""
        self._lost.add(row)
        builder.losses.append(Repair(row, code, message, None, original))

    def told(self, builder: SessionBuilder, mtime_ms: int) -> JsonObject:
        """Return what `SessionBuilder.finish` wants to know of the source; header and lost rows give no entries."""
        entries, header, lost = builder.lines_used(), len(self._header), len(self._lost)
        skipped = self.rows - header - lost - entries
        tally = Tally(lines=self.rows, header=header, entries=entries, facts=0, blank=0, skipped=skipped, lost=lost)
        return {"tally": tally, "digest": self._hash.hexdigest(), "size": self.size, "mtime_ms": mtime_ms}
