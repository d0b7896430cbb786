"""Sessions, branches and facts: every method here is one recorded operation that undo takes back.

Fork and rewind move pointers and copy no entry, so they cost the same for any history.
"""

from __future__ import annotations

import json

from pi_sessions.appending import FIRST_MESSAGE_CHARS, Appending, clean_name, first_line
from pi_sessions.base import LEAF, Unset, check_session_id, no_session
from pi_sessions.errors import BranchError, CannotError, InvalidReferenceError
from pi_sessions.journal import Journal
from pi_sessions.reading import Reading
from pi_sessions.results import Branch, LeafMove, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pi_sessions.stored import JsonObject, StoredEntry
    from pi_sessions.writer import Writer

MAIN = "main"
_NEAR = 100
_FORKED = (
    "select s.sid, s.id, s.cwd, s.header, s.name, s.branch, b.leaf, s.messages, s.first_user, s.first_user_key, s.last,"
    " s.last_entry from sessions s left join branches b on b.sid = s.sid and b.name = s.branch where s.id = ?"
)


class Branching(Appending, Reading):
    """The part of the store that makes sessions and moves pointers."""

    def create_session(
        self,
        *,
        cwd: str = "",
        id: str | None = None,
        name: str | None = None,
        origin: str | None = None,
        header: JsonObject | None = None,
        place: str | None = None,
    ) -> Session:
        """Make an empty session with one branch, `main`.

        Args:
            cwd: Directory the conversation is about.
            id: Id to use; a new UUIDv7 by default.
            name: Name to give it.
            origin: Id of the session it continues, when it continues one without sharing entries.
            header: Header fields to keep for export, under Pi's names.
            place: Directory whose current session this becomes.

        Raises:
            InvalidReferenceError: the id cannot be a session id.
            CannotError: the id is taken.
        """
        with self._write():
            sid, session_id = self._new_session(
                cwd=cwd, id=id, origin=origin, header=header, more={"name": clean_name(name)}
            )
            self.connection.execute("insert into branches(sid, name, leaf) values(?, ?, null)", (sid, MAIN))
            return self._begun(sid, session_id, place, "new", "begin a session")

    def fork(
        self,
        session_id: str,
        *,
        at: str | Unset | None = LEAF,
        all_branches: bool = False,
        id: str | None = None,
        cwd: str | None = None,
        name: str | None = None,
        place: str | None = None,
    ) -> Session:
        """Start a new session from a path of this one; entries are shared, never copied.

        Args:
            session_id: Session to fork.
            at: Last entry of the fork's path: the leaf by default, None for before the first entry.
            all_branches: Take every branch, tip and label of the session, whatever `at` says about `main`.
            id: Id of the new session; a new UUIDv7 by default.
            cwd: Directory of the new session; the origin's by default.
            name: Name of the new session; the origin's by default.
            place: Directory whose current session the fork becomes.

        Returns:
            The new session, with the origin's labels on the shared part.

        Raises:
            EntryNotFoundError: `at` is no entry of this session.
            CannotError: the id is taken.

        Source: Pi 1.6.0, fork and clone; differs in sharing entries and in keeping labels as facts.
        """
        with self._write():
            row = self.connection.execute(_FORKED, (session_id,)).fetchone()
            if row is None:
                raise no_session(session_id)
            origin, origin_id, origin_cwd, header, origin_name, current, origin_leaf, *totals = row
            leaf = origin_leaf if isinstance(at, Unset) else None if at is None else self._entry_key(origin, at)
            branch = current if all_branches else MAIN
            if not all_branches:
                totals = self._totals_at(totals, leaf, leaf == origin_leaf)
            messages, first_user, first_key, last, last_entry = totals
            sid, fork_id = self._new_session(
                cwd=origin_cwd if cwd is None else cwd,
                id=id,
                origin=origin_id,
                header=_passed_on(json.loads(header)) if header else None,
                more={
                    "name": clean_name(name) or origin_name,
                    "branch": branch,
                    "origin_key": leaf,
                    "messages": messages,
                    "first_user": first_user,
                    "first_user_key": first_key,
                    "last": last if messages else None,
                    "last_entry": last_entry,
                },
            )
            if all_branches:
                self._share_branches(origin, sid)
            self.connection.execute("insert into branches(sid, name, leaf) values(?, ?, ?)", (sid, branch, leaf))
            self._share_labels(origin, sid, leaf, all_branches)
            return self._begun(sid, fork_id, place, "fork", f"fork of {origin_id}")

    def rewind(self, session_id: str, to: str | None) -> LeafMove:
        """Move the session's leaf to exactly this entry; nothing is deleted.

        Args:
            session_id: Full id; resolve prefixes and labels first.
            to: Entry that becomes the leaf; None puts the leaf before the first entry.

        Returns:
            The recorded move. Rewinding to where the leaf is records one too, which changes nothing.

        Raises:
            EntryNotFoundError: `to` is not an entry of this session.
            StoreBusyError: another process held the write lock longer than the busy timeout.

        Source: Pi session format, "Tree Structure" (Pi 1.6.0); differs in that the leaf is stored.
        """
        with self._write():
            sid, branch, old, old_id = self._where(session_id)
            key = None if to is None else self._entry_key(sid, to)
            journal = Journal(self.connection)
            journal.move_branch(sid, branch, old, key)
            now = self.clock()
            op = journal.record(sid, now, "rewind", f"leaf to {to or 'before the first entry'}")
            return LeafMove(session_id, branch, old_id, to, op, now)

    def switch(self, session_id: str, branch: str) -> LeafMove:
        """Make another branch the current one.

        Raises:
            BranchError: there is no such branch.
        """
        with self._write():
            sid, _current, _old, old_id = self._where(session_id)
            key = self._branch_leaf(sid, branch)
            journal = Journal(self.connection)
            journal.set_fact(sid, "branch", branch)
            now = self.clock()
            op = journal.record(sid, now, "switch", f"to branch {branch}")
            return LeafMove(session_id, branch, old_id, self.forest.id_of(key), op, now)

    def create_branch(
        self, session_id: str, name: str, *, at: str | Unset | None = LEAF, switch: bool = False
    ) -> Branch:
        """Make a named branch at an entry (the leaf by default) and, if asked, make it the current one.

        Raises:
            BranchError: the name is taken or cannot be a branch name.
            EntryNotFoundError: `at` is no entry of this session.
        """
        with self._write():
            sid = self._sid(session_id)
            self._check_new_branch(sid, name)
            key = self._key_at(session_id, at)
            journal = Journal(self.connection)
            journal.set_branch(sid, name, key)
            if switch:
                journal.set_fact(sid, "branch", name)
            journal.record(sid, self.clock(), "branch", f"make branch {name}")
            return Branch(name, self.forest.id_of(key), switch)

    def rename_branch(self, session_id: str, old: str, new: str) -> Branch:
        """Rename a branch; the current one stays current.

        Raises:
            BranchError: there is no branch `old`, or `new` is taken or cannot be a branch name.
        """
        with self._write():
            sid = self._sid(session_id)
            leaf = self._branch_leaf(sid, old)
            self._check_new_branch(sid, new)
            current = self._current_branch(sid) == old
            journal = Journal(self.connection)
            journal.rename_branch(sid, old, new)
            journal.record(sid, self.clock(), "branch", f"rename branch {old} to {new}")
            return Branch(new, self.forest.id_of(leaf), current)

    def delete_branch(self, session_id: str, name: str) -> Branch:
        """Take a branch's name away; its entries stay in the tree and its leaf becomes a tip.

        Raises:
            BranchError: there is no such branch, or it is the current one.
        """
        with self._write():
            sid = self._sid(session_id)
            leaf = self._branch_leaf(sid, name)
            if self._current_branch(sid) == name:
                raise BranchError(
                    f"Branch {name} is the current one", hint="switch to another first: pi-session switch BRANCH"
                )
            journal = Journal(self.connection)
            journal.drop_branch(sid, name)
            journal.record(sid, self.clock(), "branch", f"delete branch {name}")
            return Branch(name, self.forest.id_of(leaf), False)

    def set_label(self, session_id: str, entry_id: str, text: str | None) -> int:
        """Label an entry, or clear its label with None or empty text; returns the operation's number.

        Raises:
            EntryNotFoundError: the session has no such entry.
            InvalidReferenceError: the text begins with @ and could never be typed for the entry.
        """
        if text and text.startswith("@"):
            raise InvalidReferenceError(
                f"A label cannot begin with @: {text}", hint="@ stands for the leaf; leave it out"
            )
        with self._write():
            sid = self._sid(session_id)
            key = self._entry_key(sid, entry_id)
            journal = Journal(self.connection)
            journal.set_label(sid, key, (text, self.clock()) if text else None)
            summary = f"label {entry_id}: {text}" if text else f"clear the label of {entry_id}"
            return journal.record(sid, self.clock(), "label", summary)

    def set_name(self, session_id: str, name: str | None) -> int:
        """Name a session (line ends become spaces), or clear its name; returns the operation's number."""
        cleaned = clean_name(name)
        return self._set_fact(session_id, "name", cleaned, "name", f"name {cleaned}" if cleaned else "clear the name")

    def set_archived(self, session_id: str, archived: bool) -> int:
        """Put a session away (or bring it back): it is kept out of plain lists; returns the operation's number."""
        return self._set_fact(session_id, "archived", int(archived), "archive", "archive" if archived else "unarchive")

    def set_pinned(self, session_id: str, pinned: bool) -> int:
        """Pin a session or take the pin off; returns the operation's number."""
        return self._set_fact(session_id, "pinned", int(pinned), "pin", "pin" if pinned else "unpin")

    def set_cwd(self, session_id: str, cwd: str) -> int:
        """Change the directory a session is about; returns the operation's number."""
        return self._set_fact(session_id, "cwd", cwd, "move", f"directory {cwd}")

    def delete_session(self, session_id: str) -> int:
        """Mark a session removed; its entries stay, forks are not touched; returns the operation's number."""
        return self._set_fact(session_id, "deleted", self.clock(), "rm", "remove the session")

    def set_current(self, place: str, session_id: str) -> None:
        """Make a session the current one of a directory; recorded with the next operation's place, not on its own."""
        with self._write():
            Journal(self.connection).set_place(place, self._sid(session_id))

    def edit_context(self, session_id: str, target: str, replacement: JsonObject | None) -> StoredEntry:
        """Append a context edit under the leaf: omit a message from the context, or replace its content.

        Args:
            session_id: Full id.
            target: Entry on the active path whose message is changed.
            replacement: None omits it; `{"content": ...}` replaces its content.

        Raises:
            EntryNotFoundError: the target is not on the active path.
            InvalidEditError: the target cannot be edited or the replacement is malformed.

        Source: Pi 1.6.0, context edits.
        """
        from pi_sessions.context import check_edit

        with self._write():
            fields = check_edit(self.path(session_id), target, replacement)
            command = "omit" if replacement is None else "edit"
            with self.recording(session_id, command, f"{command} {target}"):
                return self.append(session_id, {"type": "context_edit", **fields})

    def _set_fact(self, session_id: str, fact: str, value: str | int | None, command: str, summary: str) -> int:
        with self._write():
            sid = self._sid(session_id)
            journal = Journal(self.connection)
            journal.set_fact(sid, fact, value)
            return journal.record(sid, self.clock(), command, summary)

    def recording(self, session_id: str, command: str, summary: str) -> Recording:
        """Let everything appended inside a `with` block count as one operation of the session.

        The operation is written when the block begins, so that a crash leaves it behind with what was appended so far.
        """
        return Recording(self, session_id, command, summary)

    def _where(self, session_id: str) -> tuple[int, str, int | None, str | None]:
        """Return a session's key, its current branch, and that branch's leaf as key and id."""
        row = self.connection.execute(
            "select s.sid, s.branch, b.leaf, e.id from sessions s"
            " left join branches b on b.sid = s.sid and b.name = s.branch left join entries e on e.key = b.leaf"
            " where s.id = ?",
            (session_id,),
        ).fetchone()
        if row is None:
            raise no_session(session_id)
        sid, branch, leaf, leaf_id = row
        return sid, branch, leaf, leaf_id

    def writer(self, session_id: str, branch: str | None = None) -> Writer:
        """Return a writer that keeps to its own branch when it loses a race (`pi_sessions.writer`)."""
        from pi_sessions.writer import Writer

        return Writer(self, session_id, branch)

    def create_own_branch(self, session_id: str, beside: str, at: str | None) -> str:
        """Make a branch named after another (`main-2`) at an entry and return its name; recorded as one operation."""
        with self._write():
            name = self._free_branch(self._sid(session_id), beside)
            self.create_branch(session_id, name, at=at)
            return name

    def _new_session(
        self,
        *,
        cwd: str,
        id: str | None,
        origin: str | None,
        header: JsonObject | None,
        check_id: bool = True,
        more: dict[str, object] | None = None,
    ) -> tuple[int, str]:
        """Insert a session's row, `more` being further columns of it; return its key and id."""
        session_id = self._new_session_id() if id is None else id
        if check_id:
            check_session_id(session_id)
        now = self.clock()
        columns: dict[str, object] = {
            "id": session_id,
            "cwd": cwd,
            "header": json.dumps(header, ensure_ascii=False) if header else None,
            "origin": origin,
            "created": now,
            "last": now,
        }
        columns.update((name, value) for name, value in (more or {}).items() if value is not None)
        if self.connection.execute("select 1 from sessions where id = ?", (session_id,)).fetchone():
            raise CannotError(f"There is a session {session_id} already", hint="choose another id")
        cursor = self.connection.execute(
            f"insert into sessions({', '.join(columns)}) values({', '.join('?' * len(columns))})",
            tuple(columns.values()),
        )
        sid: int = cursor.lastrowid  # type: ignore[assignment]
        return sid, session_id

    def _begun(self, sid: int, session_id: str, place: str | None, command: str, summary: str) -> Session:
        """Record the beginning of a session; undone, it is a removed one, with all it held."""
        journal = Journal(self.connection)
        journal.begin_session(sid, self.clock())
        if place is not None:
            journal.set_place(place, sid)
        journal.record(sid, self.clock(), command, summary)
        return self.session(session_id)

    def _session_id(self, sid: int) -> str:
        session_id: str = self.connection.execute("select id from sessions where sid = ?", (sid,)).fetchone()[0]
        return session_id

    def _session_of(self, sid: int) -> Session:
        return self.session(self._session_id(sid))

    def _share_branches(self, origin: int, sid: int) -> None:
        """Give a fork every branch but the current one, and every tip."""
        self.connection.execute(
            "insert into branches(sid, name, leaf) select ?, b.name, b.leaf from branches b join sessions s using(sid)"
            " where b.sid = ? and b.name <> s.branch",
            (sid, origin),
        )
        seen = self.forest.visible(origin)
        self.connection.executemany(
            "insert or ignore into tips(sid, key) values(?, ?)", ((sid, last) for last in seen.values())
        )

    def _share_labels(self, origin: int, sid: int, leaf: int | None, every: bool) -> None:
        rows = self.connection.execute("select target, text, ts from labels where sid = ?", (origin,)).fetchall()
        shared = [(sid, *row) for row in rows if every or self.forest.is_on_path(row[0], leaf)]
        if shared:
            self.connection.executemany("insert into labels(sid, target, text, ts) values(?, ?, ?, ?)", shared)

    def _totals_at(self, totals: Sequence[Any], leaf: int | None, is_leaf: bool) -> tuple[Any, ...]:
        """Cut the totals of a session to one path: counts by prefix sum, the first message if it lies on the path."""
        _messages, first_user, first_key, last, last_entry = totals
        row = self.connection.execute("select messages, ts from entries where key = ?", (leaf,)).fetchone()
        messages, time_ms = row or (0, None)
        if not is_leaf and time_ms is not None:
            last, last_entry = min(last, time_ms), min(last_entry, time_ms)
        if first_key is not None and not self.forest.is_on_path(first_key, leaf):
            first_user, first_key = self._first_user_on(leaf)
        return messages, first_user, first_key, last, last_entry

    def _first_user_on(self, leaf: int | None) -> tuple[str | None, int | None]:
        """Return text and key of the first user message near the beginning of a path; a fork does not read it all."""
        for place, entry in enumerate(self.forest.read(self.forest.ranges(leaf))):
            text = first_line(entry) if entry.role == "user" else None
            if text:
                return text, entry.key
            if place == _NEAR:
                break
        return None, None

    def _check_new_branch(self, sid: int, name: str) -> None:
        if not name.strip() or name != name.strip() or any(not char.isprintable() for char in name) or name[0] in "@-":
            raise BranchError(
                f"Not a branch name: {name!r}", hint="use printable characters, not beginning with @ or -"
            )
        if len(name) > FIRST_MESSAGE_CHARS:
            raise InvalidReferenceError(f"A branch name of {len(name)} characters is too long", hint="at most 200")
        if self.connection.execute("select 1 from branches where sid = ? and name = ?", (sid, name)).fetchone():
            raise BranchError(f"There is a branch {name} already", hint="list branches with: pi-session branch")

    def _free_branch(self, sid: int, name: str) -> str:
        """Return `name-2`, or the next number that is free."""
        taken = {row[0] for row in self.connection.execute("select name from branches where sid = ?", (sid,))}
        stem = name.rpartition("-")[0] if name.rpartition("-")[2].isdigit() and name.rpartition("-")[0] else name
        number = 2
        while f"{stem}-{number}" in taken:
            number += 1
        return f"{stem}-{number}"


class Recording:
    """One operation around appends: the leaf before and after, whatever happens in between."""

    def __init__(self, store: Branching, session_id: str, command: str, summary: str) -> None:
        self._store = store
        self._session_id = session_id
        self._command = command
        self._summary = summary
        self.op = 0

    def __enter__(self) -> Recording:
        store = self._store
        with store._write():
            self._sid = store._sid(self._session_id)
            self._branch = store._current_branch(self._sid)
            self._before = store._leaf_key(self._sid)
            self.op = Journal(store.connection).record(self._sid, store.clock(), self._command, self._summary)
            self._write(self._before)
        return self

    def __exit__(self, *_exception: object) -> None:
        store = self._store
        with store._write():
            row = store.connection.execute(
                "select leaf from branches where sid = ? and name = ?", (self._sid, self._branch)
            ).fetchone()
            if row:
                self._write(row[0])

    def _write(self, after: int | None) -> None:
        change = ("branch", self._sid, self._branch, self._before or 0, after or 0)
        self._store.connection.execute(
            "update operations set changes = ? where op = ?", (json.dumps([change], separators=(",", ":")), self.op)
        )


def _passed_on(header: JsonObject) -> JsonObject:
    """Return the unknown header fields a fork keeps: a copy must not lose what a file said about itself."""
    own: tuple[str, ...] = ("type", "version", "id", "timestamp", "cwd", "parentSession", "branchedFrom")
    # What version 1 kept in the header became entries.
    own += ("provider", "modelId", "thinkingLevel")
    return {name: value for name, value in header.items() if name not in own}
