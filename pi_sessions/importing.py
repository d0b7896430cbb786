"""Taking in a session read from a foreign file: what is there already is shared, the rest is added.

Entries of two files are shared only where id, content and parent agree (label entries skipped, since Pi's clone takes
them out of the path). Importing again adds only what is new. What the person removed, renamed or moved stays so.
"""

from __future__ import annotations

import json
import re

from pi_sessions.appending import EntryWriter, clean_name
from pi_sessions.journal import Journal
from pi_sessions.operation_log import OperationLog
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.results import ImportResult
from pi_sessions.stored import StoredEntry, dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_sessions.formats.parsed import ParsedSession

MAIN = "main"
_FILE_OF_SESSION = re.compile(r"_([A-Za-z0-9][A-Za-z0-9._-]*)\.jsonl$")
_REFERENCES = {
    "compaction": "firstKeptEntryId",
    "context_edit": "targetId",
    "label": "targetId",
    "branch_summary": "fromId",
}


class Importing(OperationLog):
    """The part of the store that takes in parsed sessions."""

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
        with self._write():
            sid = self._known(parsed)
            created = sid is None
            removed = sid is not None and self._fact(sid, "deleted") is not None
            if sid is not None and removed and not restore:
                return ImportResult(self._session_of(sid), removed_before=True)
            if sid is not None and not removed and self._imported(sid, parsed.digest):
                return ImportResult(self._session_of(sid), shared=len(parsed.entries), unchanged=True)
            if sid is None:
                sid = self._first_import(parsed)
            journal = Journal(self.connection)
            if created:
                journal.begin_session(sid, self.clock())
            elif removed:
                journal.set_fact(sid, "deleted", None)
            merge = Merge(self, sid, parsed, created)
            with CollectionsPaused():
                merge.run()
            if place is not None:
                journal.set_place(place, sid)
            branch, moved = self._move_leaf(journal, sid, merge, parsed)
            self._take_facts(journal, sid, merge, parsed, created)
            return self._imported_result(journal, sid, merge, parsed, created, branch, moved)

    def _imported_result(
        self,
        journal: Journal,
        sid: int,
        merge: Merge,
        parsed: ParsedSession,
        created: bool,
        branch: str | None,
        moved: bool,
    ) -> ImportResult:
        unchanged = not merge.added and not journal.changes
        op = None if unchanged else journal.record(sid, self.clock(), "import", f"import {parsed.source}")
        self._remember_import(sid, op, merge, parsed)
        return ImportResult(
            self._session_of(sid),
            created=created,
            added=merge.added,
            shared=merge.shared,
            moved_main=moved and not created,
            new_branch=branch,
            unchanged=unchanged,
            renamed_entries=tuple(merge.renamed.items()),
            op=op,
        )

    def _known(self, parsed: ParsedSession) -> int | None:
        """Return the session an earlier import of this source made: the id agrees and so does some root entry."""
        rows = self.connection.execute(
            "select distinct sid from imports where source_id = ?1 union select sid from sessions where id = ?1",
            (parsed.id,),
        ).fetchall()
        roots = [entry for entry in parsed.entries if entry.parent_id is None]
        for (sid,) in rows:
            if not roots or not self.forest.visible(sid):
                if self._imports_of(sid):
                    return int(sid)
                continue
            for root in roots:
                key = self.forest.find(sid, root.id)
                if key is not None and same_content(self.forest.entry(key), root):
                    return int(sid)
        return None

    def _imports_of(self, sid: int) -> int:
        count: int = self.connection.execute("select count(*) from imports where sid = ?", (sid,)).fetchone()[0]
        return count

    def _imported(self, sid: int, digest: str) -> bool:
        row = self.connection.execute(
            "select digest from imports where sid = ? order by import desc limit 1", (sid,)
        ).fetchone()
        return row is not None and row[0] == digest

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
            "select s.id from imports join sessions s using(sid) where source = ? order by import desc limit 1",
            (parsed.parent_ref,),
        ).fetchone()
        return row[0] if row else origin_id(parsed.parent_ref)

    def _free_session_id(self, session_id: str) -> str:
        number = 2
        while self.connection.execute("select 1 from sessions where id = ?", (f"{session_id}-{number}",)).fetchone():
            number += 1
        return f"{session_id}-{number}"

    def _move_leaf(self, journal: Journal, sid: int, merge: Merge, parsed: ParsedSession) -> tuple[str | None, bool]:
        """Move an untouched branch to the source's leaf, else name the source's leaf as a branch of its own."""
        leaf = merge.key_of(parsed.leaf)
        row = self.connection.execute(
            "select leaf from imports where sid = ? order by import desc limit 1", (sid,)
        ).fetchone()
        main = self.connection.execute("select leaf from branches where sid = ? and name = ?", (sid, MAIN)).fetchone()
        if leaf is None:
            return None, False
        if main is not None and (row is None or row[0] == main[0]):
            if main[0] == leaf:
                return None, False
            journal.set_branch(sid, MAIN, leaf)
            return None, True
        if row is not None and row[0] == leaf:
            return None, False
        leaves = self.connection.execute("select leaf from branches where sid = ?", (sid,)).fetchall()
        if any(self.forest.is_on_path(leaf, other) for (other,) in leaves):
            return None, False
        branch = self._free_branch(sid, MAIN)
        journal.set_branch(sid, branch, leaf)
        return branch, False

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
            journal.set_label(sid, key, (text, time_ms))

    def _remember_import(self, sid: int, op: int | None, merge: Merge, parsed: ParsedSession) -> None:
        cursor = self.connection.execute(
            "insert into imports(sid, op, leaf, at, format, source, source_id, digest, size, mtime, lines)"
            " values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                sid, op, merge.key_of(parsed.leaf), self.clock(), parsed.format, parsed.source, parsed.id,
                parsed.digest, parsed.size, parsed.mtime_ms, parsed.lines_read,
            ),
        )  # fmt: skip
        self.connection.executemany(
            "insert into repairs(import, line, code, message, key, original, lost) values(?, ?, ?, ?, ?, ?, ?)",
            (
                (cursor.lastrowid, it.line, it.code, it.message, merge.key_of(it.entry_id), it.original, lost)
                for lost, items in ((0, parsed.repairs), (1, parsed.losses))
                for it in items
            ),
        )

    def _fact(self, sid: int, name: str) -> object:
        return Journal(self.connection).current("fact", sid, name)


class Merge:
    """Puts the entries of one source under a session: shares what agrees, writes the rest.

    Args:
        store: The store, in a write transaction.
        sid: Session that takes the entries in.
        parsed: The source.
        fresh: The session holds nothing yet.

    Attributes:
        added, shared: Counts of entries.
        renamed: Id in the source -> id in the store, where the session has the id for other content.
    """

    def __init__(self, store: Importing, sid: int, parsed: ParsedSession, fresh: bool) -> None:
        self.store = store
        self.sid = sid
        self.parsed = parsed
        self.writer = EntryWriter(store, sid)
        self.keys: dict[str, int] = {}
        self.renamed: dict[str, str] = {}
        self.added = 0
        self.shared = 0
        self._shared_keys: set[int] = set()
        self._own = {} if fresh else {entry.id: entry.key for entry in store.forest.in_append_order(sid)}
        # Label entries of the source: key -> the nearest entry above that is no label.
        self._labels: dict[int, int | None] = {}

    def key_of(self, entry_id: str | None) -> int | None:
        """Return where an entry of the source lies in the store."""
        return None if entry_id is None else self.keys.get(entry_id)

    def run(self) -> None:
        """Share or write every entry, parents before children, and bring the session's row up to date."""
        start = self.writer.written
        for number, entry in enumerate(in_tree_order(self.parsed.entries), 1):
            parent = self.key_of(entry.parent_id)
            key = self._find_shared(entry, parent)
            if key is not None:
                self.shared += 1
                self._shared_keys.add(key)
                if entry.id not in self._own:
                    self.writer.note(_at(entry, key))
            else:
                self.added += 1
                key = self._add(entry, parent, start + number)
            self.keys[entry.id] = key
            if entry.type == "label":
                self._labels[key] = self._unlabelled(parent)
        self.writer.finish()
        self._see_shared()

    def _find_shared(self, entry: StoredEntry, parent: int | None) -> int | None:
        """Return the stored entry that agrees in id, content and parent; below a new entry there can be none."""
        above = parent if parent is None else self._labels.get(parent, parent)
        if above is not None and above not in self._shared_keys:
            return None
        own = self._own.get(entry.id)
        candidates = self.store.forest.keys_of_id(entry.id)
        if own is not None and own in candidates:
            candidates.sort(key=lambda key: key != own)
        for key in candidates:
            agrees = self._unlabelled(self.store.forest.parent(key)) == above
            if agrees and same_content(self.store.forest.entry(key), entry):
                return key
        return None

    def _unlabelled(self, key: int | None) -> int | None:
        """Return the entry itself, or its nearest ancestor that is no label."""
        forest = self.store.forest
        while key is not None:
            if key in self._labels:
                return self._labels[key]
            row = self.store.connection.execute("select kind from entries where key = ?", (key,)).fetchone()
            if row is None or row[0] != "label":
                break
            key = forest.parent(key)
        return key

    def _add(self, entry: StoredEntry, parent: int | None, seq: int) -> int:
        draft = entry
        if self.renamed and entry.type in _REFERENCES:
            draft = self._with_renamed_reference(entry)
        if entry.id in self._own:
            free = self.store._free_entry_id()
            self.renamed[entry.id] = free
            draft = StoredEntry(free, draft.parent_id, draft.type, draft.time_ms, draft.payload, draft.extra)
        return self.writer.add(draft, parent, seq=seq, checked=True).key

    def _with_renamed_reference(self, entry: StoredEntry) -> StoredEntry:
        name = _REFERENCES[entry.type]
        target = entry.fields.get(name)
        if not isinstance(target, str) or target not in self.renamed:
            return entry
        payload = dump({**json.loads(entry.payload), name: self.renamed[target]})
        return StoredEntry(entry.id, entry.parent_id, entry.type, entry.time_ms, payload, entry.extra)

    def _see_shared(self) -> None:
        """Keep shared entries of other sessions in sight: their last ones become tips of this session."""
        forest, connection = self.store.forest, self.store.connection
        ends: dict[int, int] = {}
        for key in self._shared_keys:
            segment = key >> 24
            ends[segment] = max(key, ends.get(segment, key))
        foreign = [(self.sid, key) for segment, key in ends.items() if forest.segment(segment)[0] != self.sid]
        connection.executemany("insert or ignore into tips(sid, key) values(?, ?)", foreign)
        deepest = max(self._shared_keys, key=forest.depth, default=None) if foreign else None
        connection.execute(
            "update sessions set origin_key = coalesce(origin_key, ?) where sid = ? and origin is not null",
            (deepest, self.sid),
        )


def same_content(stored: StoredEntry, entry: StoredEntry) -> bool:
    """Whether two entries say the same: type, time, and their own fields as JSON values."""
    if stored.type != entry.type or stored.time_ms != entry.time_ms:
        return False
    if stored.payload == entry.payload and stored.extra == entry.extra:
        return True
    return stored.fields == entry.fields and stored.timestamp == entry.timestamp


def in_tree_order(entries: Iterable[StoredEntry]) -> Iterator[StoredEntry]:
    """Yield entries in file order, but never a child before its parent."""
    waiting: dict[str, list[StoredEntry]] = {}
    placed: set[str] = set()
    for entry in entries:
        if entry.parent_id is not None and entry.parent_id not in placed:
            waiting.setdefault(entry.parent_id, []).append(entry)
            continue
        ready = [entry]
        while ready:
            current = ready.pop()
            placed.add(current.id)
            yield current
            ready += reversed(waiting.pop(current.id, []))


def origin_id(reference: str | None) -> str | None:
    """Return the session id a header's origin names: the id in the name of a session file, else the text itself."""
    if not reference:
        return None
    match = _FILE_OF_SESSION.search(reference)
    return match[1] if match else reference


def _at(entry: StoredEntry, key: int) -> StoredEntry:
    told = (entry.type, entry.time_ms, entry.payload, entry.extra)
    return StoredEntry(entry.id, entry.parent_id, *told, key, entry.head)
