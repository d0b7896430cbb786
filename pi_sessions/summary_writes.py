"""Storing summaries: compactions, branch summaries and merges, each one transaction and one recorded operation.

The text is made before; here it is written and the leaf moves, both or neither. Nothing that is summed up is removed:
undo moves the leaf back, and what was appended since is kept on a branch of its own.
"""

from __future__ import annotations

from pi_sessions.appending import draft_entry
from pi_sessions.errors import LeafMovedError
from pi_sessions.journal import Journal, leaf_value
from pi_sessions.records import Record
from pi_sessions.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_sessions.stored import JsonObject, StoredEntry


class Written(Record):
    """Entries that one operation wrote.

    Attributes:
        branch: Branch that ends with them now.
        old_leaf: The session's leaf before; None before the first entry.
        new_leaf: The branch's leaf now.
        op: The operation that undo takes back.
        entries: What was written, oldest first.
    """

    branch: str
    old_leaf: str | None
    new_leaf: str | None
    op: int
    entries: tuple[StoredEntry, ...]


class SummaryWrites(Runs):
    """The part of the store that writes what sums other entries up."""

    def write_checkpoint(
        self,
        session_id: str,
        entries: Sequence[JsonObject],
        *,
        planned_at: str | None,
        command: str,
        summary: str,
        branch: str | None = None,
    ) -> Written:
        """Append a compaction, or what stands for one, that was planned at a leaf.

        Args:
            entries: Pi's JSON objects.
            planned_at: The leaf it was planned at. What others have appended after it stays after what is kept.
            command, summary: For the operation.
            branch: Branch to write to; the current one by default.

        Raises:
            LeafMovedError: the branch has left the planned place, or was compacted since; nothing was written.
        """
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if branch is None else branch
            leaf = self._branch_leaf(sid, name)
            planned = None if planned_at is None else self._entry_key(sid, planned_at)
            if not self._still_holds(planned, leaf):
                raise LeafMovedError(
                    f"The branch {name} has moved while the summary was made; nothing was stored",
                    expected=planned_at,
                    actual=self.forest.id_of(leaf),
                    hint="try again",
                )
            return self._write_recorded(session_id, Journal(self.connection), name, leaf, entries, command, summary)

    def rewind_with_summary(
        self, session_id: str, to: str | None, entry: JsonObject, *, branch: str | None = None
    ) -> Written:
        """Move a branch's leaf to an entry and append a branch summary there.

        Args:
            to: Entry to go to; None for before the first.
            entry: The `branch_summary`.
            branch: Branch to move; the current one by default.

        Raises:
            EntryNotFoundError: `to` is no entry of this session.

        Source: Pi 1.6.0, branch summaries.
        """
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if branch is None else branch
            old, key = self._branch_leaf(sid, name), self._key_at(session_id, to)
            journal = Journal(self.connection)
            journal.set_branch(sid, name, key)
            text = f"leaf to {to or 'before the first entry'}, with a summary of what was left"
            return self._write_recorded(session_id, journal, name, old, (entry,), "rewind", text)

    def move_branch(self, session_id: str, to: str | None, *, branch: str | None = None) -> Written:
        """Move a branch's leaf to exactly this entry, as `rewind` does for the current one.

        Raises:
            EntryNotFoundError: `to` is no entry of this session.
        """
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if branch is None else branch
            old, key = self._branch_leaf(sid, name), self._key_at(session_id, to)
            journal = Journal(self.connection)
            journal.set_branch(sid, name, key)
            op = journal.record(sid, self.clock(), "rewind", f"leaf to {to or 'before the first entry'}")
            return Written(name, self.forest.id_of(old), self.forest.id_of(key), op, ())

    def switch_with_summary(self, session_id: str, branch: str, entry: JsonObject) -> Written:
        """Make another branch the current one and append a summary of the branch that was left.

        Raises:
            BranchError: there is no such branch.
        """
        with self._write():
            sid = self._sid(session_id)
            old = self._leaf_key(sid)
            journal = Journal(self.connection)
            journal.set_fact(sid, "branch", branch)
            text = f"to branch {branch}, with a summary of what was left"
            leaf = self._branch_leaf(sid, branch)
            written = self._write_recorded(session_id, journal, branch, leaf, (entry,), "switch", text)
            return written.replace(old_leaf=self.forest.id_of(old))  # type: ignore[no-any-return]

    def write_merge(self, session_id: str, branch: str, entry: JsonObject, *, onto: str | None = None) -> Written:
        """Append what another branch came to.

        Args:
            branch: Where it comes from, for the operation's text.
            entry: The marked entry.
            onto: Branch to write to; the current one by default.
        """
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if onto is None else onto
            leaf = self._branch_leaf(sid, name)
            journal = Journal(self.connection)
            return self._write_recorded(session_id, journal, name, leaf, (entry,), "merge", f"merge branch {branch}")

    def append_recorded(
        self, session_id: str, entries: Sequence[JsonObject], *, command: str, summary: str, branch: str | None = None
    ) -> Written:
        """Append entries to a branch (the current one by default) as one operation."""
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if branch is None else branch
            leaf = self._branch_leaf(sid, name)
            return self._write_recorded(session_id, Journal(self.connection), name, leaf, entries, command, summary)

    def _write_recorded(
        self,
        session_id: str,
        journal: Journal,
        branch: str,
        before: int | None,
        entries: Sequence[JsonObject],
        command: str,
        summary: str,
    ) -> Written:
        """Append to a branch and record it together with what the journal holds, as one operation."""
        sid = self._sid(session_id)
        stored = self.append_many(session_id, [draft_entry(entry) for entry in entries], branch=branch)
        after = stored[-1].key if stored else before
        others = [change for change in journal.changes if change[:3] != ("branch", sid, branch)]
        journal.changes = [*others, ("branch", sid, branch, leaf_value(before), leaf_value(after))]
        op = journal.record(sid, self.clock(), command, summary)
        new_leaf = self.forest.id_of(after)
        return Written(branch, self.forest.id_of(before), new_leaf, op, tuple(stored))

    def _still_holds(self, planned: int | None, leaf: int | None) -> bool:
        """Whether a compaction planned at one leaf may be appended at another: below it, with none in between."""
        if planned == leaf:
            return True
        if planned is None or leaf is None or not self.forest.is_on_path(planned, leaf):
            return False
        execute = self.connection.execute
        bases = [execute("select base from entries where key = ?", (key,)).fetchone()[0] for key in (planned, leaf)]
        return bool(bases[0] == bases[1])
