"""Sessions, branches and facts: every method here is one recorded operation that undo takes back.

Fork and rewind move pointers and copy no entry, so they cost the same for any history.
"""

from __future__ import annotations

import json

from pi_sessions.appending import FIRST_MESSAGE_CHARS, Appending, clean_name
from pi_sessions.base import LEAF, Unset, check_session_id
from pi_sessions.errors import BranchError, CannotError, InvalidReferenceError
from pi_sessions.journal import Journal
from pi_sessions.reading import Reading
from pi_sessions.results import Branch, LeafMove, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject, StoredEntry

MAIN = "main"


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
            sid = self._new_session(cwd=cwd, id=id, origin=origin, header=header)
            setup = Journal(self.connection)
            setup.set_branch(sid, MAIN, None)
            setup.set_fact(sid, "name", clean_name(name))
            return self._begun(sid, place, "new", "begin a session")

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
            source = self.session(session_id)
            origin = self._sid(session_id)
            leaf = self._key_at(session_id, at)
            sid = self._new_session(
                cwd=source.cwd if cwd is None else cwd, id=id, origin=source.id, header=_passed_on(source.header)
            )
            setup = Journal(self.connection)
            branch = source.branch if all_branches else MAIN
            if all_branches:
                self._share_branches(setup, origin, sid)
            setup.set_branch(sid, branch, leaf)
            setup.set_fact(sid, "branch", branch)
            setup.set_fact(sid, "name", clean_name(name) or source.name)
            self._share_labels(setup, origin, sid, leaf, all_branches)
            self._share_totals(origin, sid, leaf, all_branches)
            return self._begun(sid, place, "fork", f"fork of {source.id}")

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
            sid = self._sid(session_id)
            branch = self._current_branch(sid)
            journal = Journal(self.connection)
            old, key = self._leaf_key(sid), self._key_at(session_id, to)
            journal.set_branch(sid, branch, key)
            return self._moved(journal, sid, branch, old, key, "rewind", f"leaf to {to or 'before the first entry'}")

    def switch(self, session_id: str, branch: str) -> LeafMove:
        """Make another branch the current one.

        Raises:
            BranchError: there is no such branch.
        """
        with self._write():
            sid = self._sid(session_id)
            old = self._leaf_key(sid)
            key = self._branch_leaf(sid, branch)
            journal = Journal(self.connection)
            journal.set_fact(sid, "branch", branch)
            return self._moved(journal, sid, branch, old, key, "switch", f"to branch {branch}")

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
        """
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

    def _new_session(
        self, *, cwd: str, id: str | None, origin: str | None, header: JsonObject | None, check_id: bool = True
    ) -> int:
        """Insert the row of a session that counts as removed until an operation records its beginning."""
        session_id = self._new_session_id() if id is None else id
        if check_id:
            check_session_id(session_id)
        now = self.clock()
        if self.connection.execute("select 1 from sessions where id = ?", (session_id,)).fetchone():
            raise CannotError(f"There is a session {session_id} already", hint="choose another id")
        cursor = self.connection.execute(
            "insert into sessions(id, cwd, header, origin, created, last, deleted) values(?, ?, ?, ?, ?, ?, ?)",
            (session_id, cwd, json.dumps(header, ensure_ascii=False) if header else None, origin, now, now, now),
        )
        sid: int = cursor.lastrowid  # type: ignore[assignment]
        return sid

    def _begun(self, sid: int, place: str | None, command: str, summary: str) -> Session:
        """Record the beginning of a session; undone, it is a removed one, with all it held."""
        journal = Journal(self.connection)
        journal.set_fact(sid, "deleted", None)
        if place is not None:
            journal.set_place(place, sid)
        journal.record(sid, self.clock(), command, summary)
        return self._session_of(sid)

    def _session_of(self, sid: int) -> Session:
        return self.session(self.connection.execute("select id from sessions where sid = ?", (sid,)).fetchone()[0])

    def _share_branches(self, journal: Journal, origin: int, sid: int) -> None:
        execute = self.connection.execute
        for name, leaf in execute("select name, leaf from branches where sid = ?", (origin,)).fetchall():
            journal.set_branch(sid, name, leaf)
        seen = self.forest.visible(origin)
        self.connection.executemany(
            "insert or ignore into tips(sid, key) values(?, ?)", ((sid, last) for last in seen.values())
        )

    def _share_labels(self, journal: Journal, origin: int, sid: int, leaf: int | None, every: bool) -> None:
        for target, text, time_ms in self.connection.execute(
            "select target, text, ts from labels where sid = ?", (origin,)
        ).fetchall():
            if every or self.forest.is_on_path(target, leaf):
                journal.set_label(sid, target, (text, time_ms))

    def _share_totals(self, origin: int, sid: int, leaf: int | None, every: bool) -> None:
        """Give the fork's row what its path holds: counts by prefix sum, the first message if it lies on the path."""
        execute = self.connection.execute
        messages, first_user, first_key, last = execute(
            "select messages, first_user, first_user_key, last from sessions where sid = ?", (origin,)
        ).fetchone()
        if not every:
            point = execute("select messages, ts from entries where key = ?", (leaf,)).fetchone() or (0, None)
            if leaf != self._leaf_key(origin):
                last = min(last, point[1]) if point[1] is not None else last
            messages = point[0]
            if first_key is None or not self.forest.is_on_path(first_key, leaf):
                first_user = first_key = None
        created = execute("select created from sessions where sid = ?", (sid,)).fetchone()[0]
        execute(
            "update sessions set origin_key = ?, messages = ?, first_user = ?, first_user_key = ?, last = ?"
            " where sid = ?",
            (leaf, messages, first_user, first_key, last if messages else created, sid),
        )

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

    def _moved(
        self, journal: Journal, sid: int, branch: str, old: int | None, new: int | None, command: str, summary: str
    ) -> LeafMove:
        now = self.clock()
        op = journal.record(sid, now, command, summary)
        row = self.connection.execute("select id from sessions where sid = ?", (sid,)).fetchone()
        return LeafMove(row[0], branch, self.forest.id_of(old), self.forest.id_of(new), op, now)


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
    own = ("type", "version", "id", "timestamp", "cwd", "parentSession", "branchedFrom")
    # What version 1 kept in the header became entries.
    own += ("provider", "modelId", "thinkingLevel")
    return {name: value for name, value in header.items() if name not in own}
