"""Durable runs: what a run accepted, started and stored is on disk before the next effect; a cut-off run is found.

A run is one recorded operation. It writes to one branch, or to one of its own when somebody else moves that branch;
the session's current branch stays where it is. Accepted messages wait in a table until they are in the transcript.
Tool calls are recorded before their effect: a started call without a stored result is never run again, its result says
that it may have run. Running the loop is not done here.
"""

from __future__ import annotations

import json
import os

from pi_sessions.appending import leaf_moved
from pi_sessions.base import UNSET, Unset
from pi_sessions.connection import MEMORY
from pi_sessions.errors import BranchError, CannotError, LeafMovedError
from pi_sessions.importing import Importing
from pi_sessions.journal import Journal, leaf_value
from pi_sessions.records import Record
from pi_sessions.run_lock import PrivateLock, RunLock, is_held
from pi_sessions.stored import dump
from pi_sessions.texts import content_text, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pi_sessions.connection import WriteTransaction
    from pi_sessions.stored import JsonObject, StoredEntry

FINISHED, MAY_HAVE_RUN, NOT_STARTED = "finished", "may_have_run", "not_started"
INTERRUPTED_TEXTS = {
    MAY_HAVE_RUN: "[interrupted: the process ended while this call was running. The tool may have run, in part or in "
    "full; check before running it again]",
    NOT_STARTED: "[interrupted: the process ended before this call began; the tool did not run]",
}
_SHOWN_CHARS = 60
_RUN_COLUMNS = "r.run, s.id, r.sid, r.op, r.branch, r.own, r.start, r.leaf, r.began, r.pid, r.host, o.command"


class RunAliveError(CannotError):
    """The run's process still works on it."""

    code = "run_alive"


class RunEndedError(CannotError):
    """The run is over; there is nothing to continue or close."""

    code = "run_ended"


class Accepted(Record):
    """A message that was accepted and is not in the transcript yet.

    Attributes:
        kind: `prompt`, `steering` or `follow_up`.
    """

    number: int
    kind: str
    message: JsonObject

    @property
    def text(self) -> str:
        """The message's words."""
        return content_text(self.message.get("content"), " ")


class OpenCall(Record):
    """A call of a run's last answer that has no result in the transcript.

    Attributes:
        state: `finished` (its result is known), `may_have_run` or `not_started`.
        result: The tool result message where the call had finished.
    """

    call_id: str
    tool: str
    state: str
    result: JsonObject | None = None


class UnfinishedRun(Record):
    """A run that has not ended.

    Attributes:
        op: Its operation; undo takes back what it stored.
        command: `run` or `resume`.
        branch: Branch it writes to.
        pid, host: Its process.
        alive: Whether that process still works on it.
        leaf: Last entry it stored; where it began, when it stored none.
        accepted: Messages not in the transcript yet, oldest first.
        calls: Calls of its last answer without a result.
    """

    run: int
    session_id: str
    op: int
    command: str
    branch: str
    began_ms: int
    pid: int
    host: str
    alive: bool
    leaf: str | None
    accepted: tuple[Accepted, ...]
    calls: tuple[OpenCall, ...]

    def sentence(self) -> str:
        """Return one line for people: what was accepted, which calls may have run, which have not."""
        if self.alive:
            return f"Process {self.pid} on {self.host} is running this branch ({self.branch}) now"
        parts = [f"The last {self.command} on {self.branch} was cut off"]
        if self.accepted:
            words = ", ".join(f"“{one_line(each.text, _SHOWN_CHARS)}”" for each in self.accepted)
            parts.append(f"accepted and not answered: {words}")
        names = {
            FINISHED: "finished",
            MAY_HAVE_RUN: "may have run",
            NOT_STARTED: "did not run",
        }
        for state, name in names.items():
            tools = ", ".join(call.tool for call in self.calls if call.state == state)
            if tools:
                parts.append(f"{name}: {tools}")
        return "; ".join(parts)


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
                (row for row in self._open_rows(sid) if (row[5] or row[4]) == name and self._lives(row)), None
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
            lock = self._lock(run)
            try:
                active = ActiveRun(self, run, lock)
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
            self._open_row(run)
            try:
                lock = self._lock(run)
            except BlockingIOError:
                raise RunAliveError(
                    f"Run {run} is being worked on by another process", hint="wait for it, or start a run of your own"
                ) from None
            try:
                self.connection.execute(
                    "update runs set pid = ?, host = ? where run = ?", (os.getpid(), os.uname().nodename, run)
                )
                return ActiveRun(self, run, lock)
            except BaseException:
                lock.release()
                raise

    def close_run(self, run: int) -> ClosedRun:
        """End a cut-off run: its open calls get their results, its accepted messages become entries; nothing runs.

        Raises:
            RunAliveError, RunEndedError: as `adopt_run`.
        """
        active = self.adopt_run(run)
        try:
            with self._write():
                results = active.settle_calls()
                appended = active.take_accepted()
                active.finish("closed")
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
        return [self._unfinished(row) for row in self._open_rows(sid)]

    def unfinished_run(self, run: int) -> UnfinishedRun:
        """Return one run that has not ended.

        Raises:
            RunEndedError: it is over.
        """
        return self._unfinished(self._open_row(run))

    def _unfinished(self, row: tuple[Any, ...]) -> UnfinishedRun:
        run, session_id, _sid, op, branch, own, _start, leaf, began, pid, host, command = row
        accepted = tuple(
            Accepted(number, kind, json.loads(message))
            for number, kind, message in self.connection.execute(
                "select accepted, kind, message from accepted where run = ? order by accepted", (run,)
            )
        )
        return UnfinishedRun(
            run,
            session_id,
            op,
            command,
            own or branch,
            began,
            pid,
            host,
            self._lives(row),
            self.forest.id_of(leaf),
            accepted,
            tuple(self.open_calls(run, leaf)),
        )

    def open_calls(self, run: int, leaf: int | None) -> list[OpenCall]:
        """Return the calls without a result of the last answer on the path to a leaf (a key)."""
        answer, answered = self._last_answer(leaf)
        if answer is None:
            return []
        started: dict[str, list[str | None]] = {}
        for call_id, result in self.connection.execute(
            "select call_id, result from started_calls where run = ? and answer = ? order by rowid", (run, answer.key)
        ):
            started.setdefault(call_id, []).append(result)
        found = []
        for block in _calls_of(answer):
            call_id, tool = str(block.get("id", "")), str(block.get("name", ""))
            known = started.get(call_id, [])
            began = bool(known)
            result = known.pop(0) if known else None
            if answered.get(call_id):
                answered[call_id] -= 1
                continue
            state = FINISHED if result else MAY_HAVE_RUN if began else NOT_STARTED
            found.append(OpenCall(call_id, tool, state, json.loads(result) if result else None))
        return found

    def _last_answer(self, leaf: int | None) -> tuple[StoredEntry | None, dict[str, int]]:
        """Return the last answer with calls on a path and how often each call id was answered after it."""
        answered: dict[str, int] = {}
        key = leaf
        while key is not None:
            (entry,) = self.forest.read([(key, key)])
            message = entry.message or {}
            role = message.get("role")
            if role == "toolResult":
                call_id = str(message.get("toolCallId"))
                answered[call_id] = answered.get(call_id, 0) + 1
            elif role == "assistant":
                # A failed answer's calls were never run, and requests leave them out.
                is_whole = message.get("stopReason") not in ("error", "aborted")
                return (entry if is_whole else None), answered
            elif role in ("user", "system"):
                return None, answered
            key = self.forest.parent(key)
        return None, answered

    def _lock_path(self, run: int) -> str:
        return f"{os.path.realpath(self.file)}-run-{run}"

    def _lock(self, run: int) -> RunLock | PrivateLock:
        return PrivateLock(self._private_runs, run) if self.file == MEMORY else RunLock(self._lock_path(run))

    def _lives(self, row: tuple[Any, ...]) -> bool:
        return row[0] in self._private_runs if self.file == MEMORY else is_held(self._lock_path(row[0]))

    @property
    def _private_runs(self) -> set[int]:
        held: set[int] = self.__dict__.setdefault("_runs_in_memory", set())
        return held

    def _open_rows(self, sid: int | None) -> list[tuple[Any, ...]]:
        return self.connection.execute(
            f"select {_RUN_COLUMNS} from runs r join sessions s using(sid) join operations o using(op)"
            " where r.ended is null and o.undone_by is null and (?1 is null or r.sid = ?1) order by r.run",
            (sid,),
        ).fetchall()

    def _open_row(self, run: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self.connection.execute(
            f"select {_RUN_COLUMNS} from runs r join sessions s using(sid) join operations o using(op)"
            " where r.ended is null and r.run = ?",
            (run,),
        ).fetchone()
        if row is None:
            raise RunEndedError(f"Run {run} is over", hint="see what was done with: pi-session ops")
        return row


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
        op: Its operation.
        numbers: Numbers of the prompt's messages in the table of accepted ones.
    """

    def __init__(self, store: Runs, run: int, lock: RunLock | PrivateLock) -> None:
        self._store = store
        self._lock = lock
        self.run = run
        row = store._open_row(run)
        _, self.session_id, self._sid, self.op, self.from_branch, own, self._start, self._key, *_ = row
        self.branch = own or self.from_branch
        self.diverged = own is not None
        self.leaf = store.forest.id_of(self._key)
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
        except (LeafMovedError, BranchError):
            # Somebody else moved, renamed or removed the branch: the run goes on beside it.
            own = store._free_branch(self._sid, self.branch)
            Journal(store.connection).set_branch(self._sid, own, self._key)
            self.branch, self.diverged = own, True
            return store.append_many(self.session_id, drafts, branch=own, expect=self.leaf)

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
        return self._store.unfinished_run(self.run).accepted

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
        return self._store.open_calls(self.run, self._key)

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


def _calls_of(entry: StoredEntry) -> list[JsonObject]:
    content = (entry.message or {}).get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "toolCall"]


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
