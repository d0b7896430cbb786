"""Keeps the full-text index in step with the entries: lazily, at search time, never while something is appended.

An index of words without the texts themselves (they are in the entries). How far it has come is remembered for each
session (`written`, the number of its latest entry) and for each segment (its last indexed key), so that finding out
that nothing is new costs one look at the sessions. Batches are transactions of their own: what an interrupted catch-up
has done stays, and the next one goes on from there.
"""

from __future__ import annotations

import sys

from pi_sessions.connection import WriteTransaction
from pi_sessions.entry_text import KINDS, entry_text
from pi_sessions.errors import StoreBusyError
from pi_sessions.forest import LAST_POSITION, first_key, segment_of
from pi_sessions.search_query import indexed_form
from pi_sessions.stored import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

BATCH = 4000
# Characters of entries that are looked at together.
_MOST_TEXT = 4 << 20
# From so many entries on.
_MANY = 500
# What is indexed of an entry; an index of another form is made anew. Remembered as if it were a session's progress.
FORM = 2
_FORM_ROW = -1
_STALE = (
    "select s.sid, s.written from sessions s left join indexed_sessions i on i.sid = s.sid"
    " where s.written <> coalesce(i.written, 0)"
)
_GROWN = (
    "select segment, mark from (select g.segment, coalesce(i.last, (g.segment << 24) - 1) as mark from segments g"
    " left join indexed_segments i on i.segment = g.segment where g.sid = ?1)"
    f" where exists (select 1 from entries where key > mark and key <= (segment << 24) + {LAST_POSITION})"
)
_ENTRIES = "select key, kind, payload from entries where key > ? and key <= ? order by key limit ?"
_INSERT = "insert into entry_index(rowid, text) values(?, ?)"
_FORGET = "insert into entry_index(entry_index, rowid, text) values('delete', ?, ?)"


def is_behind(connection: sqlite3.Connection) -> bool:
    """Whether entries were written since the index was last brought up to date."""
    return connection.execute(f"{_STALE} limit 1").fetchone() is not None or _has_other_form(connection)


def _has_other_form(connection: sqlite3.Connection) -> bool:
    form = "select 1 from indexed_sessions where sid = ? and written = ?"
    if connection.execute(form, (_FORM_ROW, FORM)).fetchone() is not None:
        return False
    return connection.execute("select 1 from indexed_segments limit 1").fetchone() is not None


def catch_up(
    connection: sqlite3.Connection, *, batch: int = BATCH, progress: Callable[[int], object] | None = None
) -> int:
    """Index what is new and return how many entries that were.

    Args:
        connection: Open for writing, in no transaction.
        batch: Entries per transaction.
        progress: Called after each transaction with the entries indexed so far.

    Raises:
        StoreBusyError: another process writes; finished batches stay.
        StoreReadOnlyError: the store cannot be written.
    """
    done = 0
    while is_behind(connection):
        with WriteTransaction(connection):
            done += _index_some(connection, batch)
        if progress is not None:
            progress(done)
    return done


def catch_up_if_free(connection: sqlite3.Connection) -> bool:
    """Index what is new at the end of an import, which takes two thirds of the import's own time.

    Where another process writes just now, or somebody interrupts, the next search goes on from there.

    Returns:
        False when it was interrupted.
    """
    from pi_sessions.importing import CheckpointsApart

    try:
        with CheckpointsApart(connection):
            catch_up(connection)
    except StoreBusyError:
        return True
    except KeyboardInterrupt:
        return False
    return True


def _index_some(connection: sqlite3.Connection, room: int) -> int:
    done = 0
    if _has_other_form(connection):
        clear(connection)
    connection.execute("insert or replace into indexed_sessions(sid, written) values(?, ?)", (_FORM_ROW, FORM))
    for sid, written in connection.execute(_STALE).fetchall():
        for segment, mark in connection.execute(_GROWN, (sid,)).fetchall():
            if done == room:
                return done
            last = first_key(segment) + LAST_POSITION
            for rows in _portions(connection, mark, last, room - done):
                _insert(connection, rows)
                mark = rows[-1][0]
                done += len(rows)
            connection.execute("insert or replace into indexed_segments(segment, last) values(?, ?)", (segment, mark))
        # The session is done only if its last segment was read to its end.
        if connection.execute(f"{_GROWN} limit 1", (sid,)).fetchone() is not None:
            return done
        connection.execute("insert or replace into indexed_sessions(sid, written) values(?, ?)", (sid, written))
    return done


def _portions(connection: sqlite3.Connection, mark: int, last: int, limit: int) -> Iterator[list[tuple[int, str, str]]]:
    """Yield entries behind a mark, not more text at a time than memory should hold."""
    rows: list[tuple[int, str, str]] = []
    held = 0
    for row in connection.execute(_ENTRIES, (mark, last, limit)):
        rows.append(row)
        held += len(row[2])
        if held > _MOST_TEXT:
            yield rows
            rows, held = [], 0
    if rows:
        yield rows


def _insert(connection: sqlite3.Connection, rows: list[tuple[int, str, str]]) -> None:
    connection.executemany(_INSERT, [(key, text) for key, text in _texts(rows) if text])


def _texts(rows: list[tuple[int, str, str]]) -> list[tuple[int, str]]:
    read = _decoder(rows)
    return [
        (key, indexed_form(entry_text(kind, payload, names=True, decode=read).text))
        for key, kind, payload in rows
        if kind in KINDS
    ]


def _decoder(rows: list[tuple[int, str, str]]) -> Callable[[str], Any]:
    """Return what reads so many texts fastest; loading the quick reader takes as long as reading a few hundred."""
    if len(rows) < _MANY and "pydantic_core" not in sys.modules:
        return decode
    from pi_sessions.formats.json_values import quick_object

    def quickly(text: str) -> Any:
        return quick_object(text) or decode(text)

    return quickly


def forget_segments(connection: sqlite3.Connection, segments: Iterable[int]) -> None:
    """Take segments that are about to be deleted out of the index.

    Args:
        connection: In the write transaction that deletes them; their entries must still be there.
        segments: Whole segments.
    """
    if _has_other_form(connection):
        clear(connection)
    for segment in segments:
        row = connection.execute("select last from indexed_segments where segment = ?", (segment,)).fetchone()
        if row is None:
            continue
        rows = connection.execute(_ENTRIES, (first_key(segment) - 1, row[0], -1)).fetchall()
        connection.executemany(_FORGET, [(key, text) for key, text in _texts(rows) if text])
        connection.execute("delete from indexed_segments where segment = ?", (segment,))


def forget_from(connection: sqlite3.Connection, sid: int, key: int) -> None:
    """Take an entry that is about to be rewritten, and all behind it in its segment, out of the index.

    Args:
        connection: In the write transaction that rewrites it.
        sid: Session that wrote it; the next catch-up looks at it again.
        key: The entry, as it still stands.
    """
    if _has_other_form(connection):
        clear(connection)
    segment = segment_of(key)
    row = connection.execute("select last from indexed_segments where segment = ?", (segment,)).fetchone()
    if row is None or row[0] < key:
        return
    rows = connection.execute(_ENTRIES, (key - 1, row[0], -1)).fetchall()
    connection.executemany(_FORGET, [(each, text) for each, text in _texts(rows) if text])
    connection.execute("update indexed_segments set last = ? where segment = ?", (key - 1, segment))
    connection.execute("delete from indexed_sessions where sid = ?", (sid,))


def clear(connection: sqlite3.Connection) -> None:
    """Empty the index; the next catch-up makes it anew. In a write transaction."""
    connection.execute("insert into entry_index(entry_index) values('delete-all')")
    connection.execute("delete from indexed_segments")
    connection.execute("delete from indexed_sessions")
