"""Writing entries: one place computes everything that is stored beside an entry's text.

Invariants: an entry is never deleted here, and never updated but for one case: an imported answer of which the source
held only a part so far is completed in place (`EntryWriter.complete`) while nothing else depends on its session. An
entry's key continues its parent's segment when this session wrote that segment and the next place is free, else it
begins a segment. The leaf is read and checked in the transaction that writes under it.
"""

from __future__ import annotations

from pi_sessions.base import UNSET, StoreBase, Unset
from pi_sessions.blobs import EXTRA_OFFSET, store_cuts, take_out
from pi_sessions.errors import BranchError, EntryNotFoundError, InvalidEntryError, LeafMovedError
from pi_sessions.forest import LAST_POSITION, first_key, segment_of
from pi_sessions.journal import Journal
from pi_sessions.stored import StoredEntry
from pi_sessions.texts import content_text, one_line, spoken_text
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pi_sessions.stored import JsonObject

    Settings = tuple[str | None, str | None, str | None]

FIRST_MESSAGE_CHARS = 200
_IDS_AT_ONCE = 500
# Rows of a large import are written in parts, so that they need not all be in memory (characters of text; entries).
_MOST_TEXT = 4 << 20
_MOST_ROWS = 5000
_INSERT = (
    "insert into entries(key, id, kind, ts, seq, base, state, messages, payload, extra, blobs)"
    " values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


TOTALS = "s.written, s.messages, s.first_user, s.first_user_key, s.last, s.last_entry"
# All that an append needs to know, in one statement instead of seven (30 us less for each append).
_LEAF_OF_BRANCH = (
    "select s.sid, b.name, b.leaf, e.id, e.base, e.state, e.messages,"
    f" g.sid = s.sid and not exists (select 1 from entries where key = b.leaf + 1), {TOTALS}"
    " from sessions s left join branches b on b.sid = s.sid and b.name = coalesce(?2, s.branch)"
    " left join entries e on e.key = b.leaf left join segments g on g.segment = b.leaf >> 24 where s.id = ?1"
)


class Point:
    """Where an entry hangs and what is in force there; made for every entry written, so no `Record`.

    Attributes:
        key: The entry; None before the first.
        id: Its id.
        base: Nearest compaction at or above it.
        state: Model and thinking level in force.
        messages: `message` entries on the path to it.
    """

    __slots__ = ("base", "id", "key", "messages", "state")

    def __init__(self, key: int | None, id: str | None, base: int | None, state: int | None, messages: int) -> None:
        self.key = key
        self.id = id
        self.base = base
        self.state = state
        self.messages = messages


ROOT = Point(None, None, None, None, 0)


class Appending(StoreBase):
    """The part of the store that writes entries."""

    def append(
        self,
        session_id: str,
        entry: JsonObject | StoredEntry,
        *,
        branch: str | None = None,
        expect: str | Unset | None = UNSET,
        parent: str | Unset | None = UNSET,
    ) -> StoredEntry:
        """Append one entry under a branch's leaf and make it the leaf.

        Args:
            session_id: Full id; resolve prefixes and names first.
            entry: Pi's JSON object with at least `type`; `id` and `timestamp` are made when absent, `parentId` is
                always the leaf's. A StoredEntry keeps its JSON text.
            branch: Branch to append to; the current one by default.
            expect: Entry id the writer believes to be the leaf (None: before the first entry).
            parent: Hang the entry here instead; the branch follows only when this was its leaf.

        Returns:
            The stored entry, committed.

        Raises:
            LeafMovedError: `expect` was given and the leaf is another one; nothing was written.
            InvalidEntryError: the entry has no type, or its id is taken; nothing was written.
            EntryNotFoundError: `parent` is no entry of this session.
            StoreBusyError: another process held the write lock longer than the busy timeout.
        """
        return self.append_many(session_id, (entry,), branch=branch, expect=expect, parent=parent)[0]

    def append_message(
        self,
        session_id: str,
        message: JsonObject,
        *,
        branch: str | None = None,
        expect: str | Unset | None = UNSET,
        parent: str | Unset | None = UNSET,
    ) -> StoredEntry:
        """Append a `message` entry; arguments and errors as `append`."""
        entry = {"type": "message", "message": message}
        return self.append(session_id, entry, branch=branch, expect=expect, parent=parent)

    def append_many(
        self,
        session_id: str,
        entries: Iterable[JsonObject | StoredEntry],
        *,
        branch: str | None = None,
        expect: str | Unset | None = UNSET,
        parent: str | Unset | None = UNSET,
    ) -> list[StoredEntry]:
        """Append entries one under the other in one transaction: all or none; arguments and errors as `append`."""
        drafts = [draft_entry(entry) for entry in entries]
        with self._write():
            written, name, leaf = self._writer_at(session_id, branch)
            sid = written.sid
            if not isinstance(expect, Unset) and expect != written.point(leaf).id:
                raise leaf_moved(session_id, name, expect, written.point(leaf).id)
            under = leaf if isinstance(parent, Unset) else self._parent_key(sid, parent)
            if len(drafts) > 1:
                written.reserve_ids(sum(not draft.id for draft in drafts))
            stored = [written.add(draft, under) for draft in drafts[:1]]
            for draft in drafts[1:]:
                stored.append(written.add(draft, stored[-1].key))
            written.finish()
            self._follow_facts(sid, stored)
            if stored and under == leaf:
                self.connection.execute(
                    "update branches set leaf = ? where sid = ? and name = ?", (stored[-1].key, sid, name)
                )
        return stored

    def check_compactions(self, stored: list[StoredEntry]) -> None:
        """Refuse compactions just written that keep from an entry that is not above them.

        Their summary would be all of the context, as in Pi; who writes one by hand hardly means that.

        Args:
            stored: Entries written in the transaction under way, which the error takes back.

        Raises:
            InvalidEntryError: `firstKeptEntryId` is no entry of the path above the compaction.
        """
        for entry in stored:
            if entry.type != "compaction":
                continue
            kept = entry.fields.get("firstKeptEntryId")
            row = self.connection.execute("select keep from compactions where key = ?", (entry.key,)).fetchone()
            if kept not in (None, "", entry.id) and row[0] is None:
                raise InvalidEntryError(
                    f"The compaction keeps from {kept}, which is no entry above it",
                    hint="name one of the path (pi-session log), or leave firstKeptEntryId out to keep nothing",
                )

    def _writer_at(self, session_id: str, branch: str | None) -> tuple[EntryWriter, str, int | None]:
        """Return a writer that knows a branch's leaf, the branch's name and the leaf, all from one statement."""
        row = self.connection.execute(_LEAF_OF_BRANCH, (session_id, branch)).fetchone()
        if row is None or row[1] is None:
            sid = self._sid(session_id)
            raise _no_branch(branch or self._current_branch(sid))
        sid, name, leaf, entry_id, base, state, messages, is_open, *totals = row
        writer = EntryWriter(self, sid, totals)
        if leaf is not None:
            writer.know(Point(leaf, entry_id, base, state, messages), is_open=bool(is_open))
        return writer, name, leaf

    def _follow_facts(self, sid: int, stored: list[StoredEntry]) -> None:
        """Let Pi's `label` and `session_info` entries set the facts they stand for."""
        for entry in stored:
            if entry.type == "session_info":
                Journal(self.connection).set_fact(sid, "name", clean_name(entry.fields.get("name")))
            elif entry.type == "label":
                target = self.forest.find(sid, str(entry.fields.get("targetId")))
                text = entry.fields.get("label")
                if target is not None:
                    label = (text, entry.time_ms) if isinstance(text, str) and text else None
                    Journal(self.connection).set_label(sid, target, label)

    def _branch_leaf(self, sid: int, name: str) -> int | None:
        row = self.connection.execute("select leaf from branches where sid = ? and name = ?", (sid, name)).fetchone()
        if row is None:
            raise _no_branch(name)
        leaf: int | None = row[0]
        return leaf

    def _parent_key(self, sid: int, parent: str | None) -> int | None:
        if parent is None:
            return None
        key = self.forest.find(sid, parent)
        if key is None:
            raise EntryNotFoundError(f"There is no entry {parent} in this session")
        return key


def _no_branch(name: str) -> BranchError:
    return BranchError(f"There is no branch {name}", hint="list branches with: pi-session branch")


def leaf_moved(session_id: str, branch: str, expected: str | None, actual: str | None) -> LeafMovedError:
    return LeafMovedError(
        f"The leaf of {session_id} ({branch}) is {actual or 'before the first entry'}, not {expected}",
        expected=expected,
        actual=actual,
        hint="somebody else appended first; read the session again, or go on on a branch of your own",
    )


def first_line(entry: StoredEntry) -> str:
    """Return what a list shows of a message: what was said, on one line, at most 200 characters, perhaps empty."""
    return one_line(spoken_text(content_text((entry.message or {}).get("content"), " ")), FIRST_MESSAGE_CHARS)


def clean_name(name: object) -> str | None:
    """Return a session name as Pi keeps it: line ends become spaces, trimmed; None clears (Pi 1.6.0, writing)."""
    if not isinstance(name, str):
        return None
    return " ".join(part for part in name.replace("\r", "\n").split("\n") if part).strip() or None


def draft_entry(entry: JsonObject | StoredEntry) -> StoredEntry:
    """Return an entry ready to be written; its id is empty when none was given, its time None.

    Raises:
        InvalidEntryError: it has no type, a message entry no message with a role, or an id that is no text.
    """
    draft = entry if isinstance(entry, StoredEntry) else StoredEntry.from_dict(entry)
    if not draft.type:
        raise InvalidEntryError("An entry needs a type", hint='for example {"type": "message", "message": {...}}')
    if draft.type == "session":
        raise InvalidEntryError("A session header is no entry", hint="import the file instead: pi-session import FILE")
    if not isinstance(entry, StoredEntry):
        if draft.type == "message" and not isinstance(draft.decoded_head().get("role"), str):
            raise InvalidEntryError("A message entry needs a message with a role")
        if not isinstance(entry.get("id", ""), str):
            raise InvalidEntryError(f"An entry's id is text, not {entry['id']!r}")
    return draft


class EntryWriter:
    """Writes entries of one session inside a write transaction, then brings the session's row up to date.

    Rows are collected and written together by `finish`, so that an import of a whole file is a few bulk inserts.

    Args:
        store: The store, in a write transaction.
        sid: Session that writes.
        totals: What the session's row says (`TOTALS`), when it was read in this transaction.
    """

    def __init__(self, store: StoreBase, sid: int, totals: Sequence[Any] = ()) -> None:
        self.store = store
        self.execute = store.connection.execute
        self.sid = sid
        self.written, self.messages, self.first_user, self.first_user_key, self.last, self.last_entry = (
            totals or self.execute(f"select {TOTALS} from sessions s where sid = ?", (sid,)).fetchone()
        )
        # Until somebody has said something, `last` is when the session was made, which may be later than its messages.
        self._spoken: int | None = self.last if self.messages else None
        self.now = store.clock()
        self._points: dict[int | None, Point] = {None: ROOT}
        self._settings_of: dict[int | None, Settings] = {None: (None, None, None)}
        self._ends: dict[int, int | None] = {}
        self._depths: dict[int, int] = {}
        self._new_ids: set[str] = set()
        self._spare_ids: list[str] = []
        self._entry_rows: list[tuple[object, ...]] = []
        self._text_held = 0
        self._segment_rows: list[tuple[int, int, int | None, int]] = []
        self._next_segment = 0

    def know(self, point: Point, *, is_open: bool) -> None:
        """Take in what was read of an entry already; `is_open`: it ends a segment of this session."""
        self._points[point.key] = point
        if is_open and point.key is not None:
            self._ends[segment_of(point.key)] = point.key

    def point(self, key: int | None) -> Point:
        """Return what is in force at an entry."""
        point = self._points.get(key)
        if point is None:
            row = self.execute("select id, base, state, messages from entries where key = ?", (key,)).fetchone()
            point = self._points[key] = Point(key, *row)
        return point

    def add(
        self, draft: StoredEntry, under: int | None, *, seq: int | None = None, checked: bool = False
    ) -> StoredEntry:
        """Write one entry under a parent and return it as stored.

        Args:
            draft: What to write; an empty id asks for a new one.
            under: Key of the parent, None for a root.
            seq: Place in the order of appending; the next one by default.
            checked: The caller knows that the id is free in this session.

        Raises:
            InvalidEntryError: the session already has an entry with this id.
        """
        parent = self.point(under)
        entry_id = draft.id or self._free_id()
        if draft.id and not checked:
            self._check_id(draft.id)
        self._new_ids.add(entry_id)
        time_ms = self.now if draft.time_ms is None and not draft.extra else draft.time_ms
        whole = draft.payload
        payload, cuts = take_out(whole)
        extra, extra_cuts = take_out(draft.extra) if draft.extra else (None, [])
        is_compaction = draft.type == "compaction"
        self.written = self.written + 1 if seq is None else max(seq, self.written)
        key = self._next_key(under)
        base = key if is_compaction else parent.base
        count = parent.messages + (draft.type == "message")
        state = self._state(draft, parent.state)
        pieces = len(cuts) + len(extra_cuts) or None
        order = self.written if seq is None else seq
        self._entry_rows.append((key, entry_id, draft.type, time_ms, order, base, state, count, payload, extra, pieces))
        self._points[key] = Point(key, entry_id, base, state, count)
        if pieces:
            store_cuts(self.store.connection, key, cuts)
            store_cuts(self.store.connection, key, extra_cuts, EXTRA_OFFSET)
        stored = StoredEntry(entry_id, parent.id, draft.type, time_ms, whole, draft.extra, key, draft.head)
        if is_compaction:
            self.flush()
            self.execute("insert into compactions(key, keep) values(?, ?)", (key, self._kept(stored, under)))
        self.note(stored)
        self._text_held += len(payload)
        if self._text_held > _MOST_TEXT or len(self._entry_rows) > _MOST_ROWS:
            self._write_part()
        return stored

    def _write_part(self) -> None:
        """Write the rows collected so far; what is known of them is asked for again where it is needed."""
        self.flush()
        self._text_held = 0
        if len(self._points) > _MOST_ROWS:
            self._points = {None: ROOT}
            self._spare_ids = [entry_id for entry_id in self._spare_ids if entry_id not in self._new_ids]
            self._new_ids = set()

    def reserve_ids(self, count: int) -> None:
        """Find new ids for so many entries in a few statements instead of one each."""
        found: dict[str, None] = {}
        while len(found) < count:
            wanted = [self.store._new_id() for _ in range(min(count - len(found), _IDS_AT_ONCE))]
            marks = ", ".join("?" * len(wanted))
            taken = {row[0] for row in self.execute(f"select id from entries where id in ({marks})", wanted)}
            found |= dict.fromkeys(entry_id for entry_id in wanted if entry_id not in taken)
        self._spare_ids = [*found][::-1]

    def _free_id(self) -> str:
        """Return an id that no entry of the store has, and none that is being written."""
        while True:
            entry_id = self._spare_ids.pop() if self._spare_ids else self.store._free_entry_id()
            if entry_id not in self._new_ids:
                return entry_id

    def complete(self, key: int, draft: StoredEntry) -> None:
        """Give an imported message, read in part, its whole form; its id, place, time and settings stay.

        The only way an entry ever changes. The caller (`import_merge`) sees to it that the new form begins with the
        stored content, and that nothing but imports has written to the session and no other session builds on it.
        """
        payload, cuts = take_out(draft.payload)
        self.execute("delete from entry_blobs where key = ? and at < ?", (key, EXTRA_OFFSET))
        store_cuts(self.store.connection, key, cuts)
        self.execute(
            "update entries set payload = ?, blobs = ? where key = ?",
            (payload, len(cuts) or None, key),
        )

    def _check_id(self, entry_id: str) -> None:
        if entry_id in self._new_ids or self.store.forest.find(self.sid, entry_id) is not None:
            raise InvalidEntryError(f"The session already has an entry {entry_id}", hint="leave the id out")

    def _next_key(self, under: int | None) -> int:
        """Return the place after the parent when it ends a segment of this session, else begin a segment."""
        if under is not None and under & LAST_POSITION != LAST_POSITION:
            segment = segment_of(under)
            if self._end(segment) == under:
                self._ends[segment] = under + 1
                return under + 1
        segment = self._next_segment or self._first_free_segment()
        self._next_segment = segment + 1
        self._depths[segment] = depth = self._depth(under)
        self._segment_rows.append((segment, self.sid, under, depth))
        self._ends[segment] = first_key(segment)
        return first_key(segment)

    def _end(self, segment: int) -> int | None:
        """Return the last key of a segment this session wrote, None for other sessions' segments."""
        if segment not in self._ends:
            self._ends[segment] = self.execute(
                "select (select max(key) from entries where key between ?1 << 24 and (?1 << 24) + ?2)"
                " from segments where segment = ?1 and sid = ?3 union all select null limit 1",
                (segment, LAST_POSITION, self.sid),
            ).fetchone()[0]
        return self._ends[segment]

    def _first_free_segment(self) -> int:
        segment: int = self.execute("select coalesce(max(segment), 0) + 1 from segments").fetchone()[0]
        return segment

    def _depth(self, key: int | None) -> int:
        if key is None:
            return 0
        segment = segment_of(key)
        if segment not in self._depths:
            self._depths[segment] = self.store.forest.segment(segment)[2]
        return self._depths[segment] + (key & LAST_POSITION) + 1

    def _state(self, draft: StoredEntry, inherited: int | None) -> int | None:
        """Return the model and thinking level in force at and after an entry, as a key of `states`."""
        if draft.type == "message":
            head = draft.decoded_head()
            if head.get("role") != "assistant":
                return inherited
            provider, model, _thinking = self._settings(inherited)
            if head["provider"] == provider and head["model"] == model:
                return inherited
            changes = {"provider": head["provider"], "model": head["model"]}
        elif draft.type == "model_change":
            changes = {"provider": draft.fields.get("provider"), "model": draft.fields.get("modelId")}
        elif draft.type == "thinking_level_change":
            changes = {"thinking": draft.fields.get("thinkingLevel")}
        else:
            return inherited
        before = self._settings(inherited)
        provider, model, thinking = before
        settings = (
            _text(changes.get("provider", provider)),
            _text(changes.get("model", model)),
            _text(changes.get("thinking", thinking)),
        )
        return inherited if settings == before else self._settings_key(settings)

    def _settings(self, state: int | None) -> Settings:
        settings = self._settings_of.get(state)
        if settings is None:
            settings = self._settings_of[state] = self.execute(
                "select provider, model, thinking from states where state = ?", (state,)
            ).fetchone()
        return settings

    def _settings_key(self, settings: Settings) -> int:
        row = self.execute(
            "select state from states where provider is ? and model is ? and thinking is ?", settings
        ).fetchone()
        if row is None:
            cursor = self.execute("insert into states(provider, model, thinking) values(?, ?, ?)", settings)
            row = (cursor.lastrowid,)
        key: int = row[0]
        self._settings_of[key] = settings
        return key

    def note(self, entry: StoredEntry) -> None:
        """Count an entry that is new to the session in what the session's row says."""
        if entry.type != "message":
            return
        self.messages += 1
        head = entry.decoded_head()
        role = head.get("role")
        if role in ("user", "assistant"):
            spoken = parse_time(head["timestamp"])
            time_ms = spoken if spoken is not None else entry.time_ms
            if time_ms is not None:
                self._heard(min(time_ms, self.now), min(entry.time_ms or 0, self.now))
        if role == "user" and self.first_user is None:
            text = first_line(entry)
            if text:
                self.first_user, self.first_user_key = text, entry.key

    def _heard(self, spoken: int, entry_ms: int) -> None:
        """Keep the time of the newest message; among equal ones the entry's time tells which is the newer."""
        if self._spoken is None or (spoken, entry_ms) > (self._spoken, self.last_entry):
            self.last = self._spoken = spoken
            self.last_entry = entry_ms

    def _kept(self, compaction: StoredEntry, under: int | None) -> int | None:
        """Return the key of the first kept entry, None when the compaction keeps nothing before itself."""
        kept_id = compaction.fields.get("firstKeptEntryId")
        if not isinstance(kept_id, str) or kept_id == compaction.id:
            return None
        forest = self.store.forest
        return next((key for key in forest.keys_of_id(kept_id) if forest.is_on_path(key, under)), None)

    def flush(self) -> None:
        """Write the rows collected so far."""
        if self._segment_rows:
            self.store.connection.executemany(
                "insert into segments(segment, sid, parent, depth) values(?, ?, ?, ?)", self._segment_rows
            )
            self._segment_rows = []
        if self._entry_rows:
            self.store.connection.executemany(_INSERT, self._entry_rows)
            self._entry_rows = []

    def finish(self) -> None:
        """Write what is left and the session's row."""
        self.flush()
        self.execute(
            "update sessions set written = ?, messages = ?, first_user = ?, first_user_key = ?,"
            " last = ?, last_entry = ? where sid = ?",
            (self.written, self.messages, self.first_user, self.first_user_key, self.last, self.last_entry, self.sid),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
