"""A run in progress: it appends to its branch, or to one of its own, and keeps its operation up to date.

Settling a run that was cut off is here, too: every call gets its one result. Needs of the store what appends and moves
pointers, so that undo can settle a run without loading the rest.
"""

from __future__ import annotations

import json
import os

from pi_sessions.connection import MEMORY
from pi_sessions.cut_off import (
    MAY_HAVE_RUN,
    NOT_STARTED,
    OpenCall,
    lives,
    lock_path,
    open_calls,
    open_row,
    open_rows,
    private_runs,
    unfinished_run,
)
from pi_sessions.errors import BranchError, CannotError, LeafMovedError
from pi_sessions.journal import Journal, leaf_value
from pi_sessions.run_lock import PrivateLock, RunLock
from pi_sessions.stored import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pi_sessions.branching import Branching
    from pi_sessions.connection import WriteTransaction
    from pi_sessions.cut_off import Accepted
    from pi_sessions.stored import JsonObject, StoredEntry

INTERRUPTED_TEXTS = {
    MAY_HAVE_RUN: "[interrupted: the process ended while this call was running. The tool may have run, in part or in "
    "full; check before running it again]",
    NOT_STARTED: "[interrupted: the process ended before this call began; the tool did not run]",
}


class RunAliveError(CannotError):
    """The run's process still works on it."""

    code = "run_alive"


class ActiveRun:
    """A run of this process: appends to its branch, keeps its operation up to date, remembers what it has accepted.

    Args:
        store: An open store, in a write transaction.
        run: The run's number.
        lock: Held by this process.

    Attributes:
        branch: Branch it writes to; changes once when it loses the race.
        from_branch: Branch it began on.
        leaf: Entry id of the last entry it knows of; None before the first.
        diverged: Whether it writes to a branch of its own.
        why: Why it does, when this process has seen it: a clause about the branch it left.
        op: Its operation.
        numbers: Numbers of the prompt's messages in the table of accepted ones.
    """

    def __init__(self, store: Branching, run: int, lock: RunLock | PrivateLock) -> None:
        self._store = store
        self._lock = lock
        self.run = run
        row = open_row(store, run)
        _, self.session_id, self._sid, self.op, self.from_branch, own, self._start, self._key, *_ = row
        self.branch = own or self.from_branch
        self.diverged = own is not None
        self.leaf = store.forest.id_of(self._key)
        self.why: str | None = None
        self._left: int | None = self._key
        self.numbers: tuple[int, ...] = ()

    def append(self, entry: JsonObject | StoredEntry, *, taken: int | None = None) -> StoredEntry:
        """Append one entry under the last one of this run; never LeafMovedError.

        Args:
            taken: Number of the accepted message this entry carries; it stops waiting in the same transaction.
        """
        return self.append_many((entry,), taken=() if taken is None else (taken,))[0]

    def append_many(
        self, entries: Iterable[JsonObject | StoredEntry], *, taken: Iterable[int] = ()
    ) -> list[StoredEntry]:
        """Append entries one under the other in one transaction; as `append`."""
        drafts = list(entries)
        before = (self.branch, self.diverged, self._key, self.leaf, self._left)
        try:
            with self._store._write():
                stored = self._append(drafts)
                if stored:
                    self._key, self.leaf = stored[-1].key, stored[-1].id
                    if not self.diverged:
                        self._left = self._key
                self._store.connection.executemany(
                    "delete from accepted where accepted = ?", ((number,) for number in taken)
                )
                self.record()
        except BaseException:
            self.branch, self.diverged, self._key, self.leaf, self._left = before
            raise
        return stored

    def _append(self, drafts: list[JsonObject | StoredEntry]) -> list[StoredEntry]:
        store = self._store
        try:
            return store.append_many(self.session_id, drafts, branch=self.branch, expect=self.leaf)
        except (LeafMovedError, BranchError) as error:
            # Somebody else moved, renamed or removed the branch: the run goes on beside it.
            self.why = self._reason(is_gone=isinstance(error, BranchError))
            own = store._free_branch(self._sid, self.branch)
            Journal(store.connection).set_branch(self._sid, own, self._key)
            self.branch, self.diverged = own, True
            return store.append_many(self.session_id, drafts, branch=own, expect=self.leaf)

    def _reason(self, *, is_gone: bool) -> str:
        if is_gone:
            return f"{self.branch} is not there any more"
        rows = open_rows(self._store, self._sid)
        writers = (row for row in rows if row[0] != self.run and (row[5] or row[4]) == self.branch)
        writer = next((row for row in writers if lives(self._store, row[0])), None)
        return f"{self.branch} has moved on since" if writer is None else written_by(self.branch, writer)

    def transaction(self) -> WriteTransaction:
        """Return a `with` block in which several calls become one transaction."""
        return self._store._write()

    def accept(self, kind: str, message: JsonObject) -> int:
        """Store a message that is to go into the run; returns its number."""
        with self._store._write():
            number = self._store.connection.execute(
                "insert into accepted(run, kind, message, at) values(?, ?, ?, ?)",
                (self.run, kind, dump(message), self._store.clock()),
            ).lastrowid
        assert number is not None
        return number

    def accepted(self) -> tuple[Accepted, ...]:
        """Return the messages that are not in the transcript yet, oldest first."""
        return unfinished_run(self._store, open_row(self._store, self.run)).accepted

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop accepted messages that the person took back."""
        with self._store._write():
            self._store.connection.executemany(
                "delete from accepted where accepted = ?", ((number,) for number in numbers)
            )

    def start_call(self, answer: str, call_id: str, tool: str) -> None:
        """Remember, before its effect, that a tool call begins.

        Args:
            answer: Entry id of the message with the call.
        """
        store = self._store
        with store._write():
            store.connection.execute(
                "insert into started_calls(run, answer, call_id, tool, at) values(?, ?, ?, ?, ?)",
                (self.run, store.forest.find(self._sid, answer), call_id, tool, store.clock()),
            )

    def finish_call(self, answer: str, call_id: str, result: JsonObject) -> None:
        """Keep the result of a call that ended while others of its batch still run."""
        store = self._store
        with store._write():
            store.connection.execute(
                "update started_calls set result = ? where rowid = (select rowid from started_calls"
                " where run = ? and answer = ? and call_id = ? and result is null order by rowid limit 1)",
                (dump(result), self.run, store.forest.find(self._sid, answer), call_id),
            )

    def open_calls(self) -> list[OpenCall]:
        """Return the calls of the last answer that have no result."""
        return open_calls(self._store, self.run, self._key)

    def settle_calls(self) -> list[StoredEntry]:
        """Give every open call its one result: the known one, or an error that says whether the tool may have run.

        They hang under the message that called them; a branch that has moved elsewhere is left alone.
        """
        entries = [
            {"type": "message", "message": call.result or _interrupted(call, self._store.clock())}
            for call in self.open_calls()
        ]
        return self._append_beside(entries)

    def take_accepted(self) -> list[StoredEntry]:
        """Append the accepted messages as entries, without answering them."""
        waiting = self.accepted()
        stored = self._append_beside([{"type": "message", "message": each.message} for each in waiting])
        self.forget(each.number for each in waiting)
        return stored

    def _append_beside(self, entries: list[JsonObject]) -> list[StoredEntry]:
        """Append under this run's last entry; the branch follows only if it still ends there."""
        if not entries:
            return []
        store = self._store
        with store._write():
            there = {branch.name for branch in store.branches(self.session_id)}
            if self.branch in there:
                stored = store.append_many(self.session_id, entries, branch=self.branch, parent=self.leaf)
            else:
                stored = store.append_many(self.session_id, entries, parent=self.leaf)
            self._key, self.leaf = stored[-1].key, stored[-1].id
            if not self.diverged:
                self._left = self._key
            self.record()
        return stored

    def record(self) -> None:
        """Bring the run's row and its operation up to date, in a transaction of the caller's."""
        changes: list[tuple[str, int, str, int | None, int]] = []
        start = leaf_value(self._start)
        if not self.diverged:
            changes.append(("branch", self._sid, self.branch, start, leaf_value(self._key)))
        else:
            if leaf_value(self._left) != start:
                changes.append(("branch", self._sid, self.from_branch, start, leaf_value(self._left)))
            changes.append(("branch", self._sid, self.branch, None, leaf_value(self._key)))
        execute = self._store.connection.execute
        execute(
            "update runs set leaf = ?, own = ? where run = ?",
            (self._key, self.branch if self.diverged else None, self.run),
        )
        text = json.dumps(changes, separators=(",", ":"))
        execute("update operations set changes = ? where op = ?", (text, self.op))

    def finish(self, outcome: str) -> None:
        """Record the end; what it still holds of accepted messages is the caller's to have dealt with."""
        execute = self._store.connection.execute
        with self._store._write():
            execute("update runs set ended = ?, outcome = ? where run = ?", (self._store.clock(), outcome, self.run))
            execute("delete from started_calls where run = ?", (self.run,))
            execute("delete from accepted where run = ?", (self.run,))

    def release(self) -> None:
        """Let go of the lock; a run that was not finished is then found as cut off."""
        self._lock.release()


def written_by(branch: str, row: tuple[Any, ...]) -> str:
    """Return the clause that a living process writes to a branch.

    Args:
        row: Its run's, from `open_rows`.
    """
    return f"{branch} is being written to by process {row[9]}"


def adopt(store: Branching, run: int) -> ActiveRun:
    """Take over a cut-off run, in a write transaction of the caller's.

    Raises:
        RunAliveError: its process still works on it, or another one has adopted it.
        RunEndedError: it is over.
    """
    open_row(store, run)
    try:
        lock = locked(store, run)
    except BlockingIOError:
        raise RunAliveError(
            f"Run {run} is being worked on by another process", hint="wait for it, or start a run of your own"
        ) from None
    try:
        store.connection.execute(
            "update runs set pid = ?, host = ? where run = ?", (os.getpid(), os.uname().nodename, run)
        )
        return ActiveRun(store, run, lock)
    except BaseException:
        lock.release()
        raise


def settle(store: Branching, active: ActiveRun) -> tuple[list[StoredEntry], list[StoredEntry]]:
    """End a cut-off run in one transaction: open calls get their results, accepted messages become entries.

    Returns:
        The results and the messages, as they were stored.
    """
    with store.transaction():
        results = active.settle_calls()
        appended = active.take_accepted()
        active.finish("closed")
    return results, appended


def locked(store: Branching, run: int) -> RunLock | PrivateLock:
    """Return the lock of a run, held.

    Raises:
        BlockingIOError: somebody else holds it.
    """
    return PrivateLock(private_runs(store), run) if store.file == MEMORY else RunLock(lock_path(store, run))


def _interrupted(call: OpenCall, time_ms: int) -> JsonObject:
    return {
        "role": "toolResult",
        "toolCallId": call.call_id,
        "toolName": call.tool,
        "content": [{"type": "text", "text": INTERRUPTED_TEXTS[call.state]}],
        "details": {"interrupted": call.state},
        "isError": True,
        "timestamp": time_ms,
    }
