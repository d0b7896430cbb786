"""Undo and redo: operations are taken back by restoring exactly the pointers and facts they changed.

Entries are never removed. What was appended after the operation is kept as an automatically named branch. An undo is an
operation too, so a redo restores exactly what the undo replaced.
"""

from __future__ import annotations

import json

from pi_sessions.branching import Branching
from pi_sessions.errors import NothingToUndoError
from pi_sessions.journal import BEFORE_FIRST, Journal
from pi_sessions.results import Change, KeptBranch, Operation, UndoResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.journal import RawChange

_COLUMNS = "op, sid, at, command, summary, changes, undoes, undone_by"
UNDO, REDO = "undo", "redo"


class OperationLog(Branching):
    """The part of the store that lists operations and takes them back."""

    def operations(self, session_id: str | None = None, *, limit: int | None = 50) -> list[Operation]:
        """List operations, newest first, of one session or of all."""
        sid = None if session_id is None else self._sid(session_id)
        rows = self.connection.execute(
            f"select {_COLUMNS} from operations where ?1 is null or sid = ?1 order by op desc limit ?2",
            (sid, -1 if limit is None else limit),
        ).fetchall()
        return [self._operation(row) for row in rows]

    def operation(self, op: int) -> Operation:
        """Return one operation.

        Raises:
            NothingToUndoError: there is no operation with this number.
        """
        return self._operation(self._op_row(op))

    def undo(self, session_id: str, *, op: int | None = None) -> UndoResult:
        """Take back the session's latest standing operation, or any other by number.

        A run that was cut off is closed first, in the same transaction: each of its calls gets its one result and what
        it had accepted becomes entries, so that what it leaves behind is whole.

        Args:
            session_id: Full id; with `op` the operation's own session counts.
            op: Number of the operation; the latest that is no undo and was not undone by default.

        Returns:
            What was taken back, which branches keep later entries, and which facts were left alone.

        Raises:
            NothingToUndoError: nothing is left to undo, or `op` was undone already.
        """
        with self._write():
            row = self._latest(self._sid(session_id)) if op is None else self._op_row(op)
            if row is None:
                raise NothingToUndoError(
                    f"Nothing to undo in {session_id}", hint="see what was done with: pi-session ops"
                )
            while row[3] == REDO:
                row = self._op_row(self._op_row(row[6])[6])
            if row[7] is not None:
                raise NothingToUndoError(
                    f"Operation {row[0]} was undone already", hint="bring it back with: pi-session redo"
                )
            command = REDO if row[3] == UNDO else UNDO
            settled = self._settled(row)
            if settled is None:
                return self._take_back(row, command)
            closed: UndoResult = self._take_back(settled, command).replace(closed=True)
            return closed

    def redo(self, session_id: str, *, op: int | None = None) -> UndoResult:
        """Restore exactly what the session's latest undo replaced, or the undo of operation `op`.

        Raises:
            NothingToUndoError: there is no undo to take back, or something was done since the latest one.
        """
        with self._write():
            row = self._latest_undo(self._sid(session_id)) if op is None else self._undo_of(op)
            if row is None:
                raise NothingToUndoError(
                    "Nothing to redo", hint="only an undo can be redone, before anything else is done"
                )
            return self._take_back(row, REDO)

    def _settled(self, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Close the run of an operation and return the operation as it is then; None when no run was cut off."""
        found = self.connection.execute(
            "select run from runs where ended is null and sid = ? and op = ?", (row[1], row[0])
        ).fetchone()
        if found is None:
            return None
        from pi_sessions.active_run import RunAliveError, adopt, settle

        try:
            active = adopt(self, found[0])
        except RunAliveError:
            # It goes on beside the branch that is taken away from it.
            return None
        try:
            settle(self, active)
        finally:
            active.release()
        return self._op_row(row[0])

    def _take_back(self, row: tuple[Any, ...], command: str) -> UndoResult:
        op, sid, _at, done, summary, changes, undoes, _undone_by = row
        journal = Journal(self.connection)
        kept: list[KeptBranch] = []
        skipped: list[str] = []
        for change in reversed(json.loads(changes)):
            self._restore(journal, change, op, kept, skipped)
        text = f"{command} {done}: {summary}" if command == UNDO else f"redo: {summary.removeprefix('undo ')}"
        new = journal.record(sid, self.clock(), command, text, undoes=op)
        self.connection.execute("update operations set undone_by = ? where op = ?", (new, op))
        if command == REDO:
            self.connection.execute("update operations set undone_by = null where op = ?", (undoes,))
        return UndoResult(new, self._operation(self._op_row(op)), self._session_of(sid), tuple(kept), tuple(skipped))

    def _restore(
        self, journal: Journal, change: RawChange, op: int, kept: list[KeptBranch], skipped: list[str]
    ) -> None:
        kind, where, name, before, after = change
        if kind == "rename":
            self._rename_back(journal, int(where), before, after, skipped)
        elif kind == "branch":
            self._restore_branch(
                journal, int(where), self._present_name(int(where), str(name), op), change, kept, skipped
            )
        elif kind == "fact" and name == "branch":
            names = [self._present_name(int(where), each, op) for each in (before, after)]
            self._restore_current(journal, int(where), names[0], names[1], op, skipped)
        elif kind == "fact" and name == "deleted" and before is not None and after is None:
            self._remove_again(journal, int(where), before, op, skipped)
        else:
            now = journal.current(kind, where, name)
            if now == after:
                journal.change(kind, where, name, before)
            elif now != before:
                label = f"the label of {self.forest.id_of(int(name))}" if kind == "label" else None
                shown = label or f"the {name or 'current session'}"
                skipped.append(f"{shown} was changed after operation {op} and was left as it is")

    def _restore_branch(
        self, journal: Journal, sid: int, name: str, change: RawChange, kept: list[KeptBranch], skipped: list[str]
    ) -> None:
        _kind, _where, _name, before, after = change
        now = journal.current("branch", sid, name)
        if now is None and after is not None:
            skipped.append(f"branch {name} was deleted since and was left so")
            return
        if now and now not in (after, before):
            self._keep_branch(journal, sid, name, now, after, before, kept)
        if before is None and self._current_branch(sid) == name:
            skipped.append(f"branch {name} is the current one and was kept")
        else:
            journal.change("branch", sid, name, before)

    def _restore_current(
        self, journal: Journal, sid: int, before: str, after: str, op: int, skipped: list[str]
    ) -> None:
        now = journal.current("fact", sid, "branch")
        if now not in (before, after):
            skipped.append(f"the current branch was changed after operation {op} and was left as it is")
        elif journal.current("branch", sid, before) is None:
            skipped.append(f"branch {before} was removed since, so {now} stays the current one")
        else:
            journal.change("fact", sid, "branch", before)

    def _remove_again(self, journal: Journal, sid: int, removed_ms: int, op: int, skipped: list[str]) -> None:
        """Undo the beginning of a session: it is removed, with what was written in it since."""
        journal.change("fact", sid, "deleted", removed_ms)
        written = self.connection.execute("select written from sessions where sid = ?", (sid,)).fetchone()[0]
        if written:
            noun = "entry was" if written == 1 else "entries were"
            skipped.append(f"{written} {noun} written in it; all of it comes back with: pi-session redo --op {op}")

    def _present_name(self, sid: int, name: str, op: int) -> str:
        """Return what a branch that had a name at an operation is called now."""
        for (changes,) in self.connection.execute(
            "select changes from operations where sid = ? and op > ? and instr(changes, '\"rename\"') order by op",
            (sid, op),
        ):
            for kind, _where, _name, before, after in json.loads(changes):
                if kind == "rename" and before == name:
                    name = after
        return name

    def _rename_back(self, journal: Journal, sid: int, before: str, after: str, skipped: list[str]) -> None:
        if journal.current("branch", sid, after) is None or journal.current("branch", sid, before) is not None:
            skipped.append(f"branch {after} was renamed or removed since and was left as it is")
        else:
            journal.rename_branch(sid, after, before)

    def _keep_branch(
        self,
        journal: Journal,
        sid: int,
        name: str,
        leaf: int,
        after: int | None,
        before: int | None,
        kept: list[KeptBranch],
    ) -> None:
        """Keep what was appended since under a name of its own, unless another branch keeps it already."""
        others = self.connection.execute(
            "select leaf from branches where sid = ? and name <> ? and leaf is not null", (sid, name)
        ).fetchall()
        if any(self.forest.is_on_path(leaf, other) for (other,) in [*others, (before or None,)]):
            return
        free = self._free_branch(sid, name)
        journal.set_branch(sid, free, leaf)
        shared = self.forest.common_ancestor(leaf, after if after != BEFORE_FIRST else None)
        count = self.forest.depth(leaf) - self.forest.depth(shared)
        kept.append(KeptBranch(free, str(self.forest.id_of(leaf)), count))

    def _latest(self, sid: int) -> tuple[Any, ...] | None:
        """Return the standing operation that came to stand last: when it was done, or when a redo brought it back."""
        found: tuple[Any, ...] | None = self.connection.execute(
            f"select {_COLUMNS} from operations o where sid = ? and undoes is null and undone_by is null"
            " order by coalesce((select max(redone.op) from operations undone"
            " join operations redone on redone.undoes = undone.op and redone.command = ?"
            " where undone.undoes = o.op), o.op) desc limit 1",
            (sid, REDO),
        ).fetchone()
        return found

    def _latest_undo(self, sid: int) -> tuple[Any, ...] | None:
        """Return the newest undo that stands, None when something else was done after it."""
        found: tuple[Any, ...] | None = self.connection.execute(
            f"select {_COLUMNS} from operations where sid = ? and command = '{UNDO}' and undone_by is null"
            " and op > coalesce((select max(op) from operations where sid = ?1 and undoes is null), 0)"
            " order by op desc limit 1",
            (sid,),
        ).fetchone()
        return found

    def _undo_of(self, op: int) -> tuple[Any, ...] | None:
        row = self._op_row(op)
        return None if row[7] is None else self._op_row(row[7])

    def _op_row(self, op: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self.connection.execute(
            f"select {_COLUMNS} from operations where op = ?", (op,)
        ).fetchone()
        if row is None:
            raise NothingToUndoError(f"There is no operation {op}", hint="list them with: pi-session ops")
        return row

    def _operation(self, row: tuple[Any, ...]) -> Operation:
        op, sid, at, command, summary, changes, undoes, undone_by = row
        shown = tuple(self._change(change) for change in json.loads(changes))
        return Operation(op, self._session_id(sid), at, command, summary, shown, undoes, undone_by)

    def _change(self, change: RawChange) -> Change:
        """Return a change with ids in place of keys."""
        kind, where, name, before, after = change
        if kind == "place":
            values = [None if value is None else self._session_id(value) for value in (before, after)]
            return Change(kind, None, str(where), *values)
        session_id = self._session_id(int(where))
        if kind == "rename":
            return Change(kind, session_id, str(after), before, after)
        if kind == "branch":
            return Change(kind, session_id, str(name), self._shown_leaf(before), self._shown_leaf(after))
        if kind == "label":
            texts = [value[0] if value else None for value in (before, after)]
            return Change(kind, session_id, str(self.forest.id_of(int(name))), *texts)
        return Change(kind, session_id, str(name), before, after)

    def _shown_leaf(self, value: int | None) -> str | None:
        return None if value is None else self.forest.id_of(value or None) or "before the first entry"
