"""Where imported entries come from, and which sources are known: rows beside the tree.

Origins are kept as runs: consecutive entries from consecutive lines are one row, so that a file of a hundred thousand
lines costs a handful of rows.
"""

from __future__ import annotations

from pi_sessions.operation_log import OperationLog
from pi_sessions.records import Record
from pi_sessions.results import Origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pi_sessions.formats.parsed import ParsedSession


# What a row of `repairs` is about, in its column `lost`. Of what was kept as custom entries a row names the kind as its
# code and how many there were as its line.
_REPAIRED, _LOST, _UNKNOWN, _KEPT = range(4)


class KnownSource(Record):
    """A source that was imported before.

    Attributes:
        format: Name of its format.
        importer: Version of the reader then.
        stamp: What told its state then.
    """

    format: str
    importer: str
    stamp: str


class EarlierImport(Record):
    """What the latest import of a source into one session found.

    Attributes:
        removed: The person removed the session since.
        lines, entries: What the source held.
        repairs, losses, unknown: (line, code, message) of each, as in `ParsedSession`.
        kept: (kind, how many) of the records that are kept as custom entries.
    """

    session_id: str
    removed: bool
    lines: int
    entries: int
    repairs: tuple[tuple[int | None, str, str], ...]
    losses: tuple[tuple[int | None, str, str], ...]
    unknown: tuple[tuple[int | None, str, str], ...] = ()
    kept: tuple[tuple[str, int], ...] = ()


class Origins(OperationLog):
    """The part of the store that remembers sources."""

    def origin(self, session_id: str, entry_id: str) -> Origin | None:
        """Return where an entry was imported from, None when it was written here.

        Raises:
            EntryNotFoundError: the session has no such entry.
        """
        key = self._entry_key(self._sid(session_id), entry_id)
        row = self.connection.execute(
            "select o.key, o.entries, o.line, o.foreign_id, i.format, i.source, i.importer, i.at"
            " from origins o join imports i using(import) where o.key <= ? order by o.key desc limit 1",
            (key,),
        ).fetchone()
        if row is None or key >= row[0] + row[1]:
            return None
        first, _entries, line, foreign, format, source, importer, at = row
        return Origin(format, source, line + key - first, foreign or entry_id, importer, at)

    def known_source(self, source: str) -> KnownSource | None:
        """Return what is remembered of a source, None when it was never imported whole."""
        row = self.connection.execute(
            "select format, importer, stamp from sources where source = ?", (source,)
        ).fetchone()
        return KnownSource(*row) if row else None

    def remember_source(self, source: str, known: KnownSource) -> None:
        """Remember the state in which a source was imported whole."""
        with self._write():
            self.connection.execute(
                "insert into sources(source, format, importer, stamp) values(?, ?, ?, ?) on conflict(source) do update"
                " set format = excluded.format, importer = excluded.importer, stamp = excluded.stamp",
                (source, known.format, known.importer, known.stamp),
            )

    def earlier_imports(self, source: str) -> list[EarlierImport]:
        """Return what the latest import of a source found, per session."""
        rows = self.connection.execute(
            "select max(i.import), s.id, s.deleted, i.lines, i.entries from imports i join sessions s using(sid)"
            " where i.source = ? group by i.sid order by 1",
            (source,),
        ).fetchall()
        found: list[EarlierImport] = []
        for number, session_id, deleted, lines, entries in rows:
            told = self.connection.execute(
                "select lost, line, code, message from repairs where import = ?", (number,)
            ).fetchall()
            items: dict[int, list[tuple[int | None, str, str]]] = {}
            for sort, line, code, message in told:
                items.setdefault(sort, []).append((line, code, message))
            repairs, losses, unknown = (tuple(items.get(sort, ())) for sort in (_REPAIRED, _LOST, _UNKNOWN))
            kept = tuple((kind, count or 0) for count, kind, _message in items.get(_KEPT, ()))
            removed = deleted is not None
            found.append(EarlierImport(session_id, removed, lines, entries, repairs, losses, unknown, kept))
        return found

    def _remember_findings(
        self, number: int, parsed: ParsedSession, key_of: Callable[[str | None], int | None]
    ) -> None:
        """Remember what an import found beside its entries, for the reports of imports to come."""
        sorts = ((_REPAIRED, parsed.repairs), (_LOST, parsed.losses), (_UNKNOWN, parsed.unknown))
        rows: list[tuple[object, ...]] = [
            (number, it.line, it.code, it.message, key_of(it.entry_id), it.original, sort)
            for sort, items in sorts
            for it in items
        ]
        rows += [(number, count, kind, "", None, None, _KEPT) for kind, count in parsed.kept]
        self.connection.executemany(
            "insert into repairs(import, line, code, message, key, original, lost) values(?, ?, ?, ?, ?, ?, ?)", rows
        )

    def _link_child(self, sid: int, parsed: ParsedSession) -> None:
        """Say which session and which tool call a subagent's conversation belongs to."""
        child = parsed.child_of
        if child is None:
            return
        row = self.connection.execute(
            "select sid, s.id from imports join sessions s using(sid) where source_id = ? order by import desc limit 1",
            (child.session_id,),
        ).fetchone()
        call = child.call_id
        if call is None and row is not None and child.agent_id:
            call = self._call_of(row[0], child.agent_id)
        self.connection.execute(
            "update sessions set parent_session = ?, parent_agent = ?, parent_call = coalesce(?, parent_call)"
            " where sid = ?",
            (row[1] if row else child.session_id, child.agent_id, call, sid),
        )

    def _link_children(self, sid: int, parsed: ParsedSession) -> None:
        """Find the tool calls of conversations that were imported before what began them."""
        waiting = self.connection.execute(
            "select sid, parent_agent from sessions where parent_session = ? and parent_call is null"
            " and parent_agent is not null",
            (parsed.id,),
        ).fetchall()
        for child, agent in waiting:
            self.connection.execute(
                "update sessions set parent_session = ?, parent_call = ? where sid = ?",
                (self._session_id(sid), self._call_of(sid, agent), child),
            )

    def _call_of(self, sid: int, agent: str) -> str | None:
        """Return the id of the tool call whose result names a subagent."""
        import json

        rows = self.connection.execute(
            "select e.payload from segments s join entries e on e.key between s.segment << 24 and"
            " (s.segment << 24) + 16777215 where s.sid = ? and e.kind = 'message' and instr(e.payload, ?)"
            " and instr(e.payload, '\"toolResult\"')",
            (sid, agent),
        )
        for (payload,) in rows:
            message = json.loads(payload)
            if message.get("role") == "toolResult" and isinstance(message.get("toolCallId"), str):
                return str(message["toolCallId"])
        return None


class OriginRuns:
    """The origins of added entries, in the order of adding: consecutive ones are one row from the start."""

    def __init__(self) -> None:
        from array import array

        # Of each run its first key, its first line, how many entries it has and the foreign id of a single one.
        self._keys: array[int] = array("q")
        self._lines: array[int] = array("q")
        self._counts: array[int] = array("q")
        self._foreign: list[str | None] = []
        self._next_key, self._next_line = -1, -1

    def add(self, key: int, line: int, foreign_id: str | None) -> None:
        """Note an entry.

        Args:
            key: Its place in the store.
            line: Line or row of the source.
            foreign_id: What the source calls it, None when that is its id.
        """
        if foreign_id is None and key == self._next_key and line == self._next_line:
            self._counts[-1] += 1
        else:
            self._keys.append(key)
            self._lines.append(line)
            self._counts.append(1)
            self._foreign.append(foreign_id)
        self._next_key, self._next_line = (key + 1, line + 1) if foreign_id is None else (-1, -1)

    def write(self, connection: sqlite3.Connection, number: int) -> None:
        """Write what was noted, as rows of an import. In a write transaction."""
        runs = zip(self._keys, self._counts, self._lines, self._foreign, strict=True)
        connection.executemany(
            "insert into origins(import, key, entries, line, foreign_id) values(?, ?, ?, ?, ?)",
            ((number, *run) for run in runs),
        )
