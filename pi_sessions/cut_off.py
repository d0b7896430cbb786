"""Runs that have not ended, as they are read: what was accepted, which calls finished, may have run or never began.

Whether a run's process is alive is asked of its lock. Loaded only where there is such a run. Writes nothing.
"""

from __future__ import annotations

import json
import os

from pi_sessions.connection import MEMORY
from pi_sessions.errors import CannotError
from pi_sessions.records import Record
from pi_sessions.run_lock import is_held
from pi_sessions.texts import content_text, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pi_sessions.base import StoreBase
    from pi_sessions.stored import JsonObject, StoredEntry

FINISHED, MAY_HAVE_RUN, NOT_STARTED = "finished", "may_have_run", "not_started"
STATE_WORDS = {FINISHED: "finished", MAY_HAVE_RUN: "may have run", NOT_STARTED: "did not run"}
_SHOWN_CHARS = 60
_SHOWN_ITEMS = 4
_COLUMNS = "r.run, s.id, r.sid, r.op, r.branch, r.own, r.start, r.leaf, r.began, r.pid, r.host, o.command, o.summary,"
_COLUMNS += " s.branch = coalesce(r.own, r.branch)"
_OPEN = f"select {_COLUMNS} from runs r join sessions s using(sid) join operations o using(op) where r.ended is null"


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
        arguments: As the model gave them.
    """

    call_id: str
    tool: str
    state: str
    result: JsonObject | None = None
    arguments: object = None

    def told(self) -> str:
        """Return the call in a few safe words: `bash(command="make")`."""
        given = self.arguments.items() if isinstance(self.arguments, dict) else ()
        parts = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given)
        return f"{short(self.tool)}({short(', '.join(parts))})"


class UnfinishedRun(Record):
    """A run that has not ended.

    Attributes:
        op: Its operation; undo takes back what it stored.
        command: `run` or `resume`.
        summary: What was asked, in a few words.
        branch: Branch it writes to; `is_current` tells whether that is the session's current one.
        pid, host: Its process.
        alive: Whether that process still works on it.
        leaf: Last entry it stored; where it began, when it stored none.
        accepted: Messages not in the transcript yet, oldest first.
        calls: Calls of its last answer without a result, in their order.
    """

    run: int
    session_id: str
    op: int
    command: str
    summary: str
    branch: str
    is_current: bool
    began_ms: int
    pid: int
    host: str
    alive: bool
    leaf: str | None
    accepted: tuple[Accepted, ...]
    calls: tuple[OpenCall, ...]

    @property
    def results(self) -> int:
        """How many results of finished calls wait to get into the transcript."""
        return sum(call.state == FINISHED for call in self.calls)

    def sentence(self) -> str:
        """Return one safe line for people: what was asked, what was accepted, which calls may have run."""
        if self.alive:
            return f"Process {self.pid} on {self.host} is running this branch ({short(self.branch)}) now"
        waits = any(each.kind == "prompt" for each in self.accepted)
        asked = "" if waits else f" (“{short(self.summary)}”)"
        parts = [f"The last {self.command} on {short(self.branch)}{asked} was cut off"]
        if self.accepted:
            parts.append(f"accepted and not answered: {listed(f'“{short(each.text)}”' for each in self.accepted)}")
        for state, words in STATE_WORDS.items():
            calls = listed(call.told() for call in self.calls if call.state == state)
            if calls:
                parts.append(f"{words}: {calls}")
        return "; ".join(parts)


def cut_off_runs(store: StoreBase, session_id: str) -> tuple[UnfinishedRun, ...]:
    """Return a session's runs that have not ended and whose process is gone, oldest first."""
    found = (unfinished_run(store, row) for row in open_rows(store, store._sid(session_id)))
    return tuple(run for run in found if not run.alive)


def sessions_cut_off(store: StoreBase) -> frozenset[str]:
    """Return the ids of sessions with a run that has not ended and whose process is gone."""
    return frozenset(row[1] for row in open_rows(store, None) if not lives(store, row[0]))


def open_rows(store: StoreBase, sid: int | None) -> list[tuple[Any, ...]]:
    """Return the rows of runs that have not ended and were not undone, of one session or of all, oldest first."""
    return store.connection.execute(
        f"{_OPEN} and o.undone_by is null and (?1 is null or r.sid = ?1) order by r.run", (sid,)
    ).fetchall()


def open_row(store: StoreBase, run: int) -> tuple[Any, ...]:
    """Return the row of one run that has not ended.

    Raises:
        RunEndedError: it is over.
    """
    row: tuple[Any, ...] | None = store.connection.execute(f"{_OPEN} and r.run = ?", (run,)).fetchone()
    if row is None:
        raise RunEndedError(f"Run {run} is over", hint="see what was done with: pi-session ops")
    return row


def unfinished_run(store: StoreBase, row: tuple[Any, ...]) -> UnfinishedRun:
    """Return what is known of a run.

    Args:
        row: From `open_rows` or `open_row`.
    """
    run, session_id, _sid, op, branch, own, _start, leaf, began, pid, host, command, summary, is_current = row
    accepted = tuple(
        Accepted(number, kind, json.loads(message))
        for number, kind, message in store.connection.execute(
            "select accepted, kind, message from accepted where run = ? order by accepted", (run,)
        )
    )
    return UnfinishedRun(
        run,
        session_id,
        op,
        command,
        summary,
        own or branch,
        bool(is_current),
        began,
        pid,
        host,
        lives(store, run),
        store.forest.id_of(leaf),
        accepted,
        tuple(open_calls(store, run, leaf)),
    )


def open_calls(store: StoreBase, run: int, leaf: int | None) -> list[OpenCall]:
    """Return the calls without a result of the last answer on the path to a leaf (a key)."""
    answer, answered = _last_answer(store, leaf)
    if answer is None:
        return []
    started: dict[str, list[str | None]] = {}
    for call_id, result in store.connection.execute(
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
        found.append(OpenCall(call_id, tool, state, json.loads(result) if result else None, block.get("arguments")))
    return found


def lock_path(store: StoreBase, run: int) -> str:
    """Return the side file that a run's process holds locked."""
    return f"{os.path.realpath(store.file)}-run-{run}"


def lives(store: StoreBase, run: int) -> bool:
    """Whether a run's process still works on it."""
    return run in private_runs(store) if store.file == MEMORY else is_held(lock_path(store, run))


def private_runs(store: StoreBase) -> set[int]:
    """Return the runs in progress of a store in memory, to be added to and taken from."""
    held: set[int] = store.__dict__.setdefault("_runs_in_memory", set())
    return held


def short(text: str) -> str:
    """Return the beginning of a text on one line in which nothing can move a cursor or reorder what is shown."""
    line = one_line(text, _SHOWN_CHARS)
    if not line.isprintable():
        line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return one_line(line, _SHOWN_CHARS)


def listed(items: Iterable[str]) -> str:
    """Return the first few of some items and how many more there are."""
    every = list(items)
    more = len(every) - _SHOWN_ITEMS
    return ", ".join(every[:_SHOWN_ITEMS]) + (f" and {more} more" if more > 0 else "")


def _last_answer(store: StoreBase, leaf: int | None) -> tuple[StoredEntry | None, dict[str, int]]:
    """Return the last answer with calls on a path and how often each call id was answered after it."""
    answered: dict[str, int] = {}
    key = leaf
    while key is not None:
        (entry,) = store.forest.read([(key, key)])
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
        key = store.forest.parent(key)
    return None, answered


def _calls_of(entry: StoredEntry) -> list[JsonObject]:
    content = (entry.message or {}).get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "toolCall"]
