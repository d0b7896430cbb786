"""Reading sessions: rows, lists, paths, contexts. Writes nothing."""

from __future__ import annotations

import json

from pi_sessions.base import LEAF, StoreBase, Unset, no_session
from pi_sessions.errors import BranchError, EntryNotFoundError
from pi_sessions.forest import first_key, segment_of
from pi_sessions.results import Branch, Label, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.context import Context
    from pi_sessions.cut_off import UnfinishedRun
    from pi_sessions.results import Problem
    from pi_sessions.stored import StoredEntry

_SESSION_COLUMNS = """
 s.id, s.cwd, s.name, s.created, s.last, s.messages, s.first_user,
 (select id from entries where key = b.leaf), s.branch, s.origin,
 (select id from entries where key = s.origin_key), s.archived, s.pinned, s.deleted,
 (select provider || '/' || model from states where state = (select state from entries where key = b.leaf)), s.header,
 s.parent_session, s.parent_call
 from sessions s left join branches b on b.sid = s.sid and b.name = s.branch
"""


class Reading(StoreBase):
    """The part of the store that answers questions."""

    def session(self, session_id: str) -> Session:
        """Return a session by its full id.

        Raises:
            SessionNotFoundError: there is no session with exactly this id.
        """
        row = self.connection.execute(f"select {_SESSION_COLUMNS} where s.id = ?", (session_id,)).fetchone()
        if row is None:
            raise no_session(session_id)
        return _session(row)

    def sessions(
        self,
        *,
        cwd: str | None = None,
        archived: bool = False,
        named: bool = False,
        since_ms: int | None = None,
        model: str | None = None,
        deleted: bool = False,
        children: bool = False,
        limit: int | None = 20,
        offset: int = 0,
    ) -> list[Session]:
        """List sessions, newest message first.

        Args:
            cwd: Only sessions of exactly this directory.
            archived: Also list archived sessions.
            named: Only sessions with a name.
            since_ms: Only sessions with a message at or after this time, Unix milliseconds.
            model: Only sessions whose model in force contains this text, any case.
            deleted: List removed sessions instead of the others.
            children: Also list the conversations of subagents.
            limit: At most this many; None for all.
            offset: Leave out this many first.
        """
        where = ["s.deleted is not null" if deleted else "s.deleted is null"]
        values: list[Any] = []
        if cwd is not None:
            where.append("s.cwd = ?")
            values.append(cwd)
        if not archived and not deleted:
            where.append("s.archived = 0")
        if not children and not deleted:
            where.append("s.parent_session is null")
        if named:
            where.append("s.name is not null")
        if since_ms is not None:
            where.append("s.last >= ?")
            values.append(since_ms)
        if model is not None:
            where.append(
                "exists (select 1 from entries e join states t using(state)"
                " where e.key = b.leaf and instr(lower(t.provider || '/' || t.model), lower(?)))"
            )
            values.append(model)
        # The page is found first: whatever is sorted or left out before it costs no look at leaves and models.
        rows = self.connection.execute(
            f"select {_SESSION_COLUMNS} where s.sid in (select s.sid from sessions s"
            f" left join branches b on b.sid = s.sid and b.name = s.branch where {' and '.join(where)}"
            " order by s.last desc, s.last_entry desc, s.sid desc limit ? offset ?)"
            " order by s.last desc, s.last_entry desc, s.sid desc",
            (*values, -1 if limit is None else limit, offset),
        )
        return [_session(row) for row in rows]

    def count_sessions(self) -> int:
        """Return the number of sessions that are not removed."""
        count: int = self.connection.execute("select count(*) from sessions where deleted is null").fetchone()[0]
        return count

    def find_sessions(self, prefix: str, *, limit: int = 20) -> list[Session]:
        """Return sessions whose id begins with a prefix (any case), in id order; removed ones left out."""
        rows = self.connection.execute(
            f"select {_SESSION_COLUMNS} where s.id >= ?1 collate nocase and s.id < ?2 collate nocase"
            " and s.deleted is null order by s.id limit ?3",
            (prefix, f"{prefix}\U0010ffff", limit),
        )
        return [_session(row) for row in rows]

    def named_sessions(self, name: str) -> list[Session]:
        """Return sessions with exactly this name, newest message first; removed ones left out."""
        rows = self.connection.execute(
            f"select {_SESSION_COLUMNS} where s.name = ? and s.deleted is null order by s.last desc, s.last_entry desc",
            (name,),
        )
        return [_session(row) for row in rows]

    def way_back(self, session_id: str) -> str:
        """Return the command that brings a removed session back.

        A session somebody removed comes back by undoing that; one whose beginning was undone, by redoing it.
        """
        row = self.connection.execute(
            "select op, command from operations where sid = ? and (command = 'rm' and undone_by is null"
            " or command <> 'rm' and undone_by is not null and undoes is null) order by command <> 'rm', op limit 1",
            (self._sid(session_id),),
        ).fetchone()
        if row is None:
            return "pi-session ops --all"
        return f"pi-session {'undo' if row[1] == 'rm' else 'redo'} --op {row[0]}"

    def current_session(self, place: str) -> Session | None:
        """Return the session that is current in a directory, removed or not; None when none was ever used there."""
        row = self.connection.execute("select s.id from places join sessions s using(sid) where place = ?", (place,))
        found = row.fetchone()
        return self.session(found[0]) if found else None

    def leaf(self, session_id: str, branch: str | None = None) -> str | None:
        """Return the entry id of a branch's leaf (the current branch by default); None before the first entry."""
        sid = self._sid(session_id)
        if branch is not None and branch not in {found.name for found in self.branches(session_id)}:
            raise BranchError(f"There is no branch {branch}", hint="list branches with: pi-session branch")
        return self.forest.id_of(self._leaf_key(sid, branch))

    def branches(self, session_id: str) -> list[Branch]:
        """Return the session's branches, `main` first, then by name."""
        sid = self._sid(session_id)
        current = self._current_branch(sid)
        rows = self.connection.execute(
            "select name, (select id from entries where key = leaf) from branches where sid = ?"
            " order by name <> 'main', name",
            (sid,),
        )
        return [Branch(name, leaf, name == current) for name, leaf in rows]

    def tips(self, session_id: str) -> list[str]:
        """Return ids of entries without a child in this session that no branch points to, oldest first."""
        sid = self._sid(session_id)
        seen = self.forest.visible(sid)
        parents = {self.forest.segment(segment)[1] for segment in seen}
        leaves = {row[0] for row in self.connection.execute("select leaf from branches where sid = ?", (sid,))}
        ends = [last for last in seen.values() if last not in parents and last not in leaves]
        rows = [self.connection.execute("select seq, id from entries where key = ?", (key,)).fetchone() for key in ends]
        return [entry_id for _seq, entry_id in sorted(rows)]

    def labels(self, session_id: str) -> dict[str, Label]:
        """Return the session's labels by entry id, in the order they were set."""
        rows = self.connection.execute(
            "select e.id, l.text, l.ts from labels l join entries e on e.key = l.target where sid = ?"
            " order by l.ts is null, l.ts, l.target",
            (self._sid(session_id),),
        )
        return {entry_id: Label(entry_id, text, time_ms) for entry_id, text, time_ms in rows}

    def has_entry(self, session_id: str, entry_id: str) -> bool:
        """Whether the session has an entry with this id."""
        return self.forest.find(self._sid(session_id), entry_id) is not None

    def entry(self, session_id: str, entry_id: str) -> StoredEntry:
        """Return one of the session's entries.

        Raises:
            EntryNotFoundError: the session has no entry with exactly this id.
        """
        return self.forest.entry(self._entry_key(self._sid(session_id), entry_id))

    def entries_with_prefix(self, session_id: str, prefix: str) -> list[str]:
        """Return ids of the session's entries that begin with a prefix, in id order, at most 20."""
        return [entry_id for _key, entry_id in self.forest.find_prefix(self._sid(session_id), prefix)]

    def entries(self, session_id: str) -> list[StoredEntry]:
        """Return every entry of the session: shared ones first, then its own, each in the order of appending."""
        return self.forest.in_append_order(self._sid(session_id))

    def count_entries(self, session_id: str) -> int:
        """Return how many entries the session has."""
        seen = self.forest.visible(self._sid(session_id))
        return sum(last - first_key(segment) + 1 for segment, last in seen.items())

    def children(self, session_id: str, entry_id: str | None) -> list[str]:
        """Return ids of an entry's children in this session (None: its roots), in the order of appending."""
        sid = self._sid(session_id)
        parent = None if entry_id is None else self._entry_key(sid, entry_id)
        seen = self.forest.visible(sid)
        begun = self.connection.execute("select segment from segments where parent is ?", (parent,))
        keys = [first_key(segment) for (segment,) in begun if segment in seen]
        if parent is not None and parent < seen.get(segment_of(parent), -1):
            keys.append(parent + 1)
        rows = [self.connection.execute("select seq, id from entries where key = ?", (key,)).fetchone() for key in keys]
        return [child for _seq, child in sorted(rows)]

    def path(self, session_id: str, at: str | Unset | None = LEAF) -> list[StoredEntry]:
        """Return the path from the root to an entry, root first.

        Args:
            session_id: Full id.
            at: Last entry of the path; the leaf by default, None gives an empty path.

        Raises:
            EntryNotFoundError: the session has no such entry.
        """
        return self.forest.read(self.forest.ranges(self._key_at(session_id, at)))

    def active(self, session_id: str, at: str | Unset | None = LEAF) -> list[StoredEntry]:
        """Return the path from the first entry that can be in the context; its cost follows what is active.

        That is the newest compaction's first kept entry, or the compaction itself when it keeps nothing, or the root.
        """
        return self.forest.read(self._active_ranges(self._key_at(session_id, at)))

    def context(self, session_id: str, at: str | Unset | None = LEAF) -> Context:
        """Return the context at an entry: messages, model and thinking level.

        Args:
            session_id: Full id.
            at: Entry to flatten at; the leaf by default, None gives an empty context.

        Raises:
            EntryNotFoundError: the session has no such entry.

        Source: Pi 1.6.0, context building; its cost follows the active part, not the history.
        """
        from pi_sessions.context import Model, active_entries, build_context

        leaf = self._key_at(session_id, at)
        active = active_entries(self.forest.read(self._active_ranges(leaf)))
        provider, model, thinking = self._settings_at(leaf)
        named = None if provider is None and model is None else Model(provider or "", model or "")
        return build_context(active, named, thinking or "off")

    def cut_off_runs(self, session_id: str) -> tuple[UnfinishedRun, ...]:
        """Return a session's runs that were cut off: not ended, not undone, their process gone; oldest first."""
        if not self._has_open_run("sid = (select sid from sessions where id = ?)", (session_id,)):
            return ()
        from pi_sessions.cut_off import cut_off_runs

        return cut_off_runs(self, session_id)

    def sessions_cut_off(self) -> frozenset[str]:
        """Return the ids of the sessions with a run that was cut off."""
        if not self._has_open_run("true", ()):
            return frozenset()
        from pi_sessions.cut_off import sessions_cut_off

        return sessions_cut_off(self)

    def _has_open_run(self, where: str, values: tuple[str, ...]) -> bool:
        """Whether a run has not ended, alive or not: one look at an index that is empty nearly always."""
        sql = f"select 1 from runs where ended is null and {where} limit 1"
        return self.connection.execute(sql, values).fetchone() is not None

    def verify(self, session_id: str | None = None) -> list[Problem]:
        """Check the invariants of the store, or of what one session sees; an empty list means sound."""
        from pi_sessions.verify import verify

        return verify(self, None if session_id is None else self._sid(session_id))

    def _active_ranges(self, leaf: int | None) -> list[tuple[int, int]]:
        if leaf is None:
            return []
        base = self.connection.execute("select base from entries where key = ?", (leaf,)).fetchone()[0]
        if base is None:
            return self.forest.ranges(leaf)
        keep = self.connection.execute("select keep from compactions where key = ?", (base,)).fetchone()[0]
        return self.forest.ranges(leaf, base if keep is None else keep)

    def _settings_at(self, key: int | None) -> tuple[str | None, str | None, str | None]:
        row = self.connection.execute(
            "select provider, model, thinking from states where state = (select state from entries where key = ?)",
            (key,),
        ).fetchone()
        return row if row else (None, None, None)

    def _key_at(self, session_id: str, at: str | Unset | None) -> int | None:
        sid = self._sid(session_id)
        if isinstance(at, Unset):
            return self._leaf_key(sid)
        return None if at is None else self._entry_key(sid, at)

    def _entry_key(self, sid: int, entry_id: str) -> int:
        key = self.forest.find(sid, entry_id)
        if key is None:
            raise EntryNotFoundError(
                f"There is no entry {entry_id} in this session", hint="see its entries with: pi-session tree"
            )
        return key


def _session(row: tuple[Any, ...]) -> Session:
    values = dict(zip(Session._fields, row, strict=True))
    for flag in ("archived", "pinned"):
        values[flag] = bool(values[flag])
    values["deleted"] = values["deleted"] is not None
    values["header"] = json.loads(values["header"]) if values["header"] else {}
    return Session(**values)
