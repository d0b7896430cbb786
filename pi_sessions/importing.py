"""Taking in a session read from a foreign file: what is there already is shared, the rest is added.

Entries of two files are shared only where id, content and parent agree. Skipped are label entries, since Pi's clone
takes them out of the path, and notes that other programs leave out of their copies (`import_merge`). Importing again
adds only what is new. What the person removed, renamed or moved stays so.
"""

from __future__ import annotations

import re

from pi_sessions.appending import FIRST_MESSAGE_CHARS, clean_name
from pi_sessions.journal import Journal
from pi_sessions.origins import Origins
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.records import Record
from pi_sessions.results import ImportResult
from pi_sessions.texts import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from pi_sessions.formats.parsed import ParsedSession, SessionState
    from pi_sessions.import_merge import Merge

MAIN = "main"
_PAGES_APART = 16_000
_CACHE_KIB = 16_000
_FILE_OF_SESSION = re.compile(r"_([A-Za-z0-9][A-Za-z0-9._-]*)\.jsonl$")


class Followed(Record):
    """Where an import left the branch that follows its source.

    Attributes:
        branch: Its name.
        leaf: Key of its leaf; None before the first entry.
        moved: Whether this import moved it forward.
        new_branch: A branch this import made, because somebody had moved the one before.
    """

    branch: str
    leaf: int | None
    moved: bool
    new_branch: str | None = None


class CheckpointsApart:
    """`with store.checkpoints_apart():` SQLite's log is written back every 64 MB instead of every 4.

    For imports of many sessions: pages that change with each of them are then written back once instead of 16 times,
    and the disk is waited for less often. Storing 200 MB takes 1.9 s instead of 2.5. The cache holds the index of ids
    of some hundred thousand entries: importing 1 GB takes 2 s less of the processor.
    """

    __slots__ = ("_before", "_cache_before", "connection")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        self._before: int = self.connection.execute("pragma wal_autocheckpoint").fetchone()[0]
        self._cache_before: int = self.connection.execute("pragma cache_size").fetchone()[0]
        self.connection.execute(f"pragma wal_autocheckpoint = {_PAGES_APART}")
        self.connection.execute(f"pragma cache_size = -{_CACHE_KIB}")

    def __exit__(self, *_exception: object) -> None:
        self.connection.execute(f"pragma wal_autocheckpoint = {self._before}")
        self.connection.execute(f"pragma cache_size = {self._cache_before}")


class Importing(Origins):
    """The part of the store that takes in parsed sessions."""

    def checkpoints_apart(self) -> CheckpointsApart:
        """Return a context in which many sessions are taken in quickly."""
        return CheckpointsApart(self.connection)

    def import_session(self, parsed: ParsedSession, *, place: str | None = None, restore: bool = False) -> ImportResult:
        """Store a parsed session, in one transaction and as one operation.

        Args:
            parsed: From a reader in `pi_sessions.formats`.
            place: Directory whose current session it becomes, None for none.
            restore: Bring the session back if the person removed it.

        Returns:
            What was added, what was shared, and where the leaf went.

        Raises:
            StoreBusyError: another process held the write lock longer than the busy timeout.
        """
        from pi_sessions.import_merge import Merge, opening_of

        with self._write():
            sid = self._known(parsed)
            created = sid is None
            removed = sid is not None and self._fact(sid, "deleted") is not None
            if sid is not None and removed and not restore:
                return ImportResult(self._session_of(sid), removed_before=True)
            if sid is not None and not removed and self._imported(sid, parsed):
                return self._again(sid, parsed, place)
            if sid is None:
                sid = self._first_import(parsed)
            journal = Journal(self.connection)
            if created:
                journal.begin_session(sid, self.clock())
            elif removed:
                journal.set_fact(sid, "deleted", None)
            opening = opening_of(parsed) if parsed.copied else None
            kin = self._kin_of(sid, parsed, opening)
            merge = Merge(self, sid, parsed, created, kin=kin, untouched=not created and self._untouched(sid))
            with CollectionsPaused():
                merge.run()
            self._take_title(sid, parsed)
            self._link_child(sid, parsed)
            self._link_children(sid, parsed)
            if place is not None:
                journal.set_place(place, sid)
            if parsed.state is not None:
                followed = self._follow_export(journal, sid, merge, parsed.state, created, removed)
            else:
                followed = self._follow_source(journal, sid, merge, merge.key_of(parsed.leaf), removed)
            self._take_facts(journal, sid, merge, parsed, created)
            return self._imported_result(journal, sid, merge, parsed, created, followed)

    def waits_for_another(self, parsed: ParsedSession) -> bool:
        """Whether a source begins in the middle of a session that is not here, which it could share once it is."""
        return bool(parsed.torn_off) and not any(map(self.forest.keys_of_id, parsed.torn_off))

    def _again(self, sid: int, parsed: ParsedSession, place: str | None) -> ImportResult:
        """Answer for a source that holds nothing new; it still becomes the current session where that is asked for."""
        journal = Journal(self.connection)
        if place is not None:
            journal.set_place(place, sid)
        op = journal.record(sid, self.clock(), "import", f"import {parsed.source}") if journal.changes else None
        return ImportResult(self._session_of(sid), shared=len(parsed.entries), unchanged=True, op=op)

    def _imported_result(
        self,
        journal: Journal,
        sid: int,
        merge: Merge,
        parsed: ParsedSession,
        created: bool,
        followed: Followed,
    ) -> ImportResult:
        unchanged = not merge.added and not merge.grown and all(change[0] == "place" for change in journal.changes)
        op = (
            journal.record(sid, self.clock(), "import", f"import {parsed.source}")
            if journal.changes or merge.added
            else None
        )
        self._remember_import(sid, op, merge, parsed, followed)
        return ImportResult(
            self._session_of(sid),
            created=created,
            added=merge.added,
            shared=merge.shared,
            moved_main=followed.moved and not created,
            new_branch=followed.new_branch,
            unchanged=unchanged,
            renamed_entries=tuple(merge.renamed.items()),
            op=op,
            grown=merge.grown,
        )

    def _known(self, parsed: ParsedSession) -> int | None:
        """Return the session an earlier import of this source made.

        The source's id agrees, and so does either some root entry or the path: a file that is still being written may
        begin otherwise later on.
        """
        from pi_sessions.import_merge import is_form_of, opening_of, same_content

        rows = self.connection.execute(
            "select distinct sid from imports where source_id = ?1 union select sid from sessions where id in (?1, ?2)",
            (parsed.id, parsed.form_of),
        ).fetchall()
        roots = [entry for entry in parsed.entries if entry.parent_id is None]
        opening = opening_of(parsed) if parsed.copied else None
        for (sid,) in rows:
            if opening is not None and opening in self._openings(sid, parsed.id):
                return int(sid)
            if not roots or not self.forest.visible(sid):
                if self._imports_of(sid) or parsed.state is not None:
                    return int(sid)
                continue
            for root in roots:
                key = self.forest.find(sid, root.id)
                if key is None:
                    continue
                stored = self.forest.entry(key)
                if same_content(stored, root) or (root.id in parsed.own_ids and is_form_of(root, stored)):
                    return int(sid)
        row = self.connection.execute(
            "select sid from imports where source = ? and source_id = ? order by import desc limit 1",
            (parsed.source, parsed.id),
        ).fetchone()
        return row[0] if row else None

    def _openings(self, sid: int, source_id: str) -> set[str]:
        """Return how the conversations began that were imported into a session under an id."""
        rows = self.connection.execute(
            "select opening from imports where sid = ? and source_id = ? and opening is not null", (sid, source_id)
        )
        return {row[0] for row in rows}

    def _imports_of(self, sid: int) -> int:
        count: int = self.connection.execute("select count(*) from imports where sid = ?", (sid,)).fetchone()[0]
        return count

    def _imported(self, sid: int, parsed: ParsedSession) -> bool:
        row = self.connection.execute(
            "select digest, importer from imports where sid = ? order by import desc limit 1", (sid,)
        ).fetchone()
        return row is not None and tuple(row) == (parsed.digest, parsed.importer)

    def _kin_of(self, sid: int, parsed: ParsedSession, opening: str | None) -> list[int]:
        """Return the sessions of which a source may be a copy, or which may be copies of it."""
        if not parsed.copied:
            return []
        rows = self.connection.execute(
            "select sid from imports where source_id = ?1 collate nocase union select sid from sessions where id = ?1"
            " union select sid from sessions where origin in (?2, (select id from sessions where sid = ?4))"
            " union select sid from imports where opening = ?3 order by 1",
            (parsed.parent_ref, parsed.id, opening, sid),
        )
        return [row[0] for row in rows if row[0] != sid]

    def _untouched(self, sid: int) -> bool:
        """Whether a session is as its last import left it: main not moved, no entry of other origin, no fork."""
        row = self.connection.execute(
            "select i.leaf is b.leaf from imports i join branches b on b.sid = i.sid and b.name = ?2"
            " where i.sid = ?1 order by import desc limit 1",
            (sid, MAIN),
        ).fetchone()
        if row is None or not row[0]:
            return False
        own_entry = self.connection.execute(
            "select 1 from segments where sid = ?1 and"
            " (select count(*) from entries where key between segment << 24 and (segment << 24) + 16777215)"
            " <> (select coalesce(sum(entries), 0) from origins"
            " where key between segment << 24 and (segment << 24) + 16777215) limit 1",
            (sid,),
        ).fetchone()
        if own_entry is not None:
            return False
        used = self.connection.execute(
            "select 1 from segments own join segments other on other.parent between own.segment << 24"
            " and (own.segment << 24) + 16777215 where own.sid = ?1 and other.sid <> ?1"
            " union all select 1 from segments own join branches b on b.leaf >> 24 = own.segment"
            " where own.sid = ?1 and b.sid <> ?1 limit 1",
            (sid,),
        ).fetchone()
        return used is None

    def _first_import(self, parsed: ParsedSession) -> int:
        taken = self.connection.execute("select 1 from sessions where id = ?", (parsed.id,)).fetchone()
        sid, session_id = self._new_session(
            cwd=parsed.cwd,
            id=self._free_session_id(parsed.id) if taken else parsed.id,
            origin=self._origin_of(parsed),
            header=parsed.header,
            check_id=False,
        )
        created = min(parsed.created_ms if parsed.created_ms is not None else self.clock(), self.clock())
        execute = self.connection.execute
        execute("update sessions set created = ?, last = ? where sid = ?", (created, created, sid))
        execute("insert into branches(sid, name, leaf) values(?, ?, null)", (sid, MAIN))
        execute("update sessions set origin = ? where origin = ?", (session_id, parsed.source))
        return sid

    def _origin_of(self, parsed: ParsedSession) -> str | None:
        """Return the session whose file the header names, else what `origin_id` makes of the name."""
        if parsed.parent_ref is None:
            return None
        row = self.connection.execute(
            "select s.id from imports join sessions s using(sid) where source = ?1 or source_id = ?1"
            " order by import desc limit 1",
            (parsed.parent_ref,),
        ).fetchone()
        return row[0] if row else origin_id(parsed.parent_ref)

    def _free_session_id(self, session_id: str) -> str:
        number = 2
        while self.connection.execute("select 1 from sessions where id = ?", (f"{session_id}-{number}",)).fetchone():
            number += 1
        return f"{session_id}-{number}"

    def _follow_source(self, journal: Journal, sid: int, merge: Merge, leaf: int | None, restored: bool) -> Followed:
        """Move the branch that follows the source to the source's leaf.

        That is the branch the last import moved, as long as nobody else has moved it since. Otherwise the source's leaf
        becomes a branch of its own, which the next import follows. A source that brings nothing (an older copy, say)
        moves nothing.
        """
        row = self.connection.execute(
            "select branch, leaf from imports where sid = ? order by import desc limit 1", (sid,)
        ).fetchone()
        name, left_at = row or (MAIN, None)
        found = self.connection.execute("select leaf from branches where sid = ? and name = ?", (sid, name)).fetchone()
        stays = Followed(name, left_at, moved=False)
        if leaf is None:
            return stays
        now = found[0] if found else None
        brings_something = merge.added or merge.grown or merge.first_seen
        if found is not None and (now == left_at if brings_something else restored and now is None):
            journal.set_branch(sid, name, leaf)
            return Followed(name, leaf, moved=now != leaf)
        leaves = self.connection.execute("select leaf from branches where sid = ?", (sid,)).fetchall()
        if not brings_something or any(self.forest.is_on_path(leaf, other) for (other,) in leaves):
            return stays
        branch = self._free_branch(sid, MAIN)
        journal.set_branch(sid, branch, leaf)
        return Followed(branch, leaf, moved=False, new_branch=branch)

    def _follow_export(
        self, journal: Journal, sid: int, merge: Merge, state: SessionState, created: bool, restored: bool
    ) -> Followed:
        """Follow an export of our own, all of its branches."""
        from pi_sessions.import_state import begin_with, go_on_with

        leaves = self.connection.execute("select leaf from branches where sid = ?", (sid,)).fetchall()
        if created or (restored and not any(leaf for (leaf,) in leaves)):
            taken = begin_with(self, journal, sid, state, merge.key_of)
        elif merge.added or merge.first_seen:
            taken = go_on_with(self, journal, sid, state, merge.key_of, self._free_branch)
        else:
            row = self.connection.execute(
                "select leaf from branches where sid = ? and name = ?", (sid, state.current)
            ).fetchone()
            return Followed(state.current, row[0] if row else None, moved=False)
        return Followed(taken.branch, taken.leaf, taken.moved, taken.new)

    def _take_facts(self, journal: Journal, sid: int, merge: Merge, parsed: ParsedSession, created: bool) -> None:
        """Take name and labels from the source, unless the person set or cleared them later."""
        standing = [] if created else self.operations(self._session_id(sid), limit=None)
        by_person = [op for op in standing if op.command in ("name", "label") and op.undone_by is None]
        touched = {(change.kind, change.name): op.time_ms for op in reversed(by_person) for change in op.changes}
        if (created or parsed.name) and ("fact", "name") not in touched:
            journal.set_fact(sid, "name", clean_name(parsed.name))
        for target, (text, time_ms) in parsed.labels.items():
            key = merge.key_of(target)
            if key is None or touched.get(("label", merge.renamed.get(target, target)), -1) >= (time_ms or 0):
                continue
            stands = journal.current("label", sid, key)
            if time_ms is None and stands is not None and stands[0] == text:
                continue
            journal.set_label(sid, key, (text, time_ms))

    def _take_title(self, sid: int, parsed: ParsedSession) -> None:
        """Let a session in which no person said anything be known by what its source tells of it."""
        if parsed.title:
            self.connection.execute(
                "update sessions set first_user = ? where sid = ? and first_user_key is null",
                (one_line(parsed.title, FIRST_MESSAGE_CHARS), sid),
            )

    def _remember_import(
        self, sid: int, op: int | None, merge: Merge, parsed: ParsedSession, followed: Followed
    ) -> None:
        from pi_sessions.import_merge import opening_of

        cursor = self.connection.execute(
            "insert into imports(sid, op, branch, leaf, at, format, source, source_id, digest, size, mtime, lines,"
            " entries, importer, opening) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                sid, op, followed.branch, followed.leaf, self.clock(), parsed.format, parsed.source, parsed.id,
                parsed.digest, parsed.size, parsed.mtime_ms, parsed.lines_read, len(parsed.entries), parsed.importer,
                opening_of(parsed) if parsed.copied else None,
            ),
        )  # fmt: skip
        number: int = cursor.lastrowid  # type: ignore[assignment]
        merge.come.write(self.connection, number)
        self._remember_findings(number, parsed, merge.key_of)

    def _fact(self, sid: int, name: str) -> object:
        return Journal(self.connection).current("fact", sid, name)


def origin_id(reference: str | None) -> str | None:
    """Return the session id a header's origin names: the id in the name of a session file, else the text itself."""
    if not reference:
        return None
    match = _FILE_OF_SESSION.search(reference)
    return match[1] if match else reference
