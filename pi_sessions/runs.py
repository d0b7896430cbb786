"""Durable runs: what a run accepted, started and stored is on disk before the next effect; a cut-off run is found.

A run is one recorded operation. It writes to one branch, or to one of its own when somebody else moves that branch;
the session's current branch stays where it is. Accepted messages wait in a table until they are in the transcript.
Tool calls are recorded before their effect: a started call without a stored result is never run again, its result says
that it may have run. Running the loop is not done here.
"""

from __future__ import annotations

import os

from pi_sessions.active_run import ActiveRun, RunAliveError, adopt, locked, settle, written_by
from pi_sessions.appending import leaf_moved
from pi_sessions.base import UNSET, Unset
from pi_sessions.cut_off import (
    Accepted,
    OpenCall,
    RunEndedError,
    UnfinishedRun,
    lives,
    open_row,
    open_rows,
    unfinished_run,
)
from pi_sessions.importing import Importing
from pi_sessions.journal import Journal
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_sessions.stored import JsonObject

__all__ = ["Accepted", "ActiveRun", "ClosedRun", "OpenCall", "RunAliveError", "RunEndedError", "Runs", "UnfinishedRun"]


class ClosedRun(Record):
    """What closing a run wrote.

    Attributes:
        results: Entry ids of the results its open calls got.
        appended: Entry ids of accepted messages.
        leaf: Where the run's path ends now.
    """

    run: int
    op: int
    branch: str
    leaf: str | None
    results: tuple[str, ...]
    appended: tuple[str, ...]


class Runs(Importing):
    """The part of the store that keeps runs."""

    def begin_run(
        self,
        session_id: str,
        *,
        command: str,
        summary: str,
        accepted: Sequence[JsonObject] = (),
        branch: str | None = None,
        expect: str | Unset | None = UNSET,
    ) -> ActiveRun:
        """Record that a run begins, with the prompt it has accepted.

        Args:
            session_id: Full id.
            command: Name of the operation, `run` or `resume`.
            summary: The operation in a few words.
            accepted: The prompt's messages.
            branch: Branch to write to; the current one by default. While another process runs on it, this run begins on
                a branch of its own, at the place where the other one began.
            expect: Entry id the caller believes to be the leaf, for a run that makes sense there only.

        Raises:
            BranchError: there is no such branch.
            RunAliveError: `expect` was given and another process runs on the branch.
            LeafMovedError: `expect` was given and the leaf is another one.
        """
        with self._write():
            sid = self._sid(session_id)
            name = self._current_branch(sid) if branch is None else branch
            leaf = self._branch_leaf(sid, name)
            own = None
            living = next(
                (row for row in open_rows(self, sid) if (row[5] or row[4]) == name and lives(self, row[0])), None
            )
            if not isinstance(expect, Unset):
                self._check_expected(session_id, name, leaf, expect, is_taken=living is not None)
            if living is not None:
                leaf, own = living[6], self._free_branch(sid, name)
                Journal(self.connection).set_branch(sid, own, leaf)
            now = self.clock()
            op = Journal(self.connection).record(sid, now, command, summary)
            run = self.connection.execute(
                "insert into runs(sid, op, branch, own, start, leaf, began, pid, host)"
                " values(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (sid, op, name, own, leaf, leaf, now, os.getpid(), os.uname().nodename),
            ).lastrowid
            assert run is not None
            # Held before anybody can see the row.
            lock = locked(self, run)
            try:
                active = ActiveRun(self, run, lock)
                active.why = None if living is None else written_by(name, living)
                active.numbers = tuple(active.accept("prompt", message) for message in accepted)
                active.record()
            except BaseException:
                lock.release()
                raise
        return active

    def _check_expected(
        self, session_id: str, branch: str, leaf: int | None, expect: str | None, *, is_taken: bool
    ) -> None:
        if is_taken:
            raise RunAliveError(
                f"Another process is at work on {branch}; nothing was changed", hint="wait for it and look again"
            )
        actual = None if leaf is None else self.forest.entry(leaf).id
        if actual != expect:
            raise leaf_moved(session_id, branch, expect, actual)

    def adopt_run(self, run: int) -> ActiveRun:
        """Take over a cut-off run, to continue it.

        Raises:
            RunAliveError: its process still works on it, or another one has adopted it.
            RunEndedError: it is over.
        """
        with self._write():
            return adopt(self, run)

    def close_run(self, run: int) -> ClosedRun:
        """End a cut-off run: its open calls get their results, its accepted messages become entries; nothing runs.

        Raises:
            RunAliveError, RunEndedError: as `adopt_run`.
        """
        active = self.adopt_run(run)
        try:
            results, appended = settle(self, active)
        finally:
            active.release()
        return ClosedRun(
            run,
            active.op,
            active.branch,
            active.leaf,
            tuple(entry.id for entry in results),
            tuple(entry.id for entry in appended),
        )

    def unfinished_runs(self, session_id: str | None = None) -> list[UnfinishedRun]:
        """Return runs that have not ended, oldest first, of one session or of all; living ones too.

        A run that was undone is nobody's concern any more; redo brings it back here.
        """
        sid = None if session_id is None else self._sid(session_id)
        return [unfinished_run(self, row) for row in open_rows(self, sid)]

    def unfinished_run(self, run: int) -> UnfinishedRun:
        """Return one run that has not ended.

        Raises:
            RunEndedError: it is over.
        """
        return unfinished_run(self, open_row(self, run))
