"""Random appends, imports, forks, rewinds and undos that say what they are about to do and what they have done.

`RandomWork` runs in a child and reports; `Ledger` is what the parent concludes from the reports: what must be in the
store after a kill, and what may or may not be there because it was under way.
"""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

from pi_sessions.errors import NothingToUndoError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.crash.children import Report

KINDS = ("append", "append", "append", "append_many", "fork", "rewind", "undo", "redo", "import", "label", "new")


class RandomWork:
    """Endless random operations on one store.

    Args:
        store: Open store.
        seed: Decides everything it does.
        report: Sends ("begin", session, entries the session gets) before and ("done", session, leaf, operations) after
            each operation.
        source: Path of a session file it may write and import.
        alone: Nobody else works on the store, so that what it found to undo or redo is still there.
    """

    def __init__(self, store: SessionStore, seed: int, report: Report, source: str, *, alone: bool = True) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.report = report
        self.source = source
        self.outrun = () if alone else (NothingToUndoError,)
        self._made = seed << 20

    def run(self) -> None:
        while True:
            sessions = self.store.sessions(limit=None)
            kind = self.chance.choice(KINDS) if sessions else "new"
            session_id = self.chance.choice(sessions).id if sessions else ""
            with contextlib.suppress(*self.outrun):
                getattr(self, f"_{kind}")(session_id)

    def _id(self) -> str:
        self._made += 1
        return f"{self._made:08x}"

    def _begin(self, session_id: str, entries: list[str]) -> None:
        self.report(("begin", session_id, entries))

    def _done(self, session_id: str) -> None:
        self.report(("done", session_id, *summary(self.store, session_id)))

    def _entry(self) -> dict[str, Any]:
        text = "x" * self.chance.choice((10, 300, 9000))
        return {"type": "message", "id": self._id(), "message": {"role": "user", "content": text}}

    def _new(self, _session_id: str) -> None:
        session_id = f"s-{self._id()}"
        self._begin(session_id, [])
        self.store.create_session(id=session_id, cwd="/proj")
        self._done(session_id)

    def _append(self, session_id: str) -> None:
        entry = self._entry()
        self._begin(session_id, [entry["id"]])
        self.store.append(session_id, entry)
        self._done(session_id)

    def _append_many(self, session_id: str) -> None:
        entries = [self._entry() for _ in range(self.chance.randint(2, 20))]
        self._begin(session_id, [entry["id"] for entry in entries])
        self.store.append_many(session_id, entries)
        self._done(session_id)

    def _fork(self, session_id: str) -> None:
        path = [entry.id for entry in self.store.path(session_id)]
        fork_id = f"f-{self._id()}"
        self._begin(fork_id, path)
        self.store.fork(session_id, id=fork_id)
        self._done(fork_id)

    def _rewind(self, session_id: str) -> None:
        ids = [entry.id for entry in self.store.entries(session_id)]
        self._begin(session_id, [])
        self.store.rewind(session_id, self.chance.choice([*ids, None]))
        self._done(session_id)

    def _label(self, session_id: str) -> None:
        ids = [entry.id for entry in self.store.entries(session_id)]
        if ids:
            self._begin(session_id, [])
            self.store.set_label(session_id, self.chance.choice(ids), self.chance.choice(["here", None]))
            self._done(session_id)

    def _undo(self, session_id: str) -> None:
        # The beginning of a session stays, so that there is something to work on.
        latest = [op for op in self.store.operations(session_id) if op.undoes is None and op.undone_by is None]
        if latest and latest[0].command in ("rewind", "label"):
            self._begin(session_id, [])
            self.store.undo(session_id)
            self._done(session_id)

    def _redo(self, session_id: str) -> None:
        latest = self.store.operations(session_id, limit=1)
        if latest and latest[0].command == "undo":
            self._begin(session_id, [])
            self.store.redo(session_id)
            self._done(session_id)

    def _import(self, _session_id: str) -> None:
        session_id = f"i-{self._id()}"
        parent = None
        time = "2026-03-02T09:00:00.000Z"
        lines = [{"type": "session", "version": 3, "id": session_id, "timestamp": time, "cwd": "/proj"}]
        for _ in range(self.chance.randint(1, 60)):
            entry = {**self._entry(), "parentId": parent, "timestamp": time}
            parent = entry["id"]
            lines.append(entry)
        with open(self.source, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        parsed = read_pi_file(self.source)
        self._begin(session_id, [entry.id for entry in parsed.entries])
        self.store.import_session(parsed)
        self._done(session_id)


def summary(store: SessionStore, session_id: str) -> tuple[str | None, int]:
    """Return a session's leaf and its number of operations."""
    return store.leaf(session_id), len(store.operations(session_id, limit=None))


class Ledger:
    """What was acknowledged: per session its entries, leaf and number of operations."""

    def __init__(self) -> None:
        self.entries: dict[str, set[str]] = {}
        self.pointers: dict[str, tuple[str | None, int]] = {}
        self.under_way: tuple[str, set[str]] | None = None
        self.acknowledged = 0

    def take(self, report: list[Any]) -> None:
        """Take in one report of a child."""
        kind, session_id, *rest = report
        if kind == "begin":
            self.under_way = (session_id, set(rest[0]))
            return
        assert self.under_way is not None
        self.entries[session_id] = self.entries.get(session_id, set()) | self.under_way[1]
        self.pointers[session_id] = (rest[0], rest[1])
        self.under_way = None
        self.acknowledged += 1

    def check(self, store: SessionStore) -> None:
        """Check a store after a kill: all that was acknowledged, and of what was under way all or nothing."""
        assert store.verify() == []
        there = {
            session.id: {entry.id for entry in store.entries(session.id)} for session in store.sessions(limit=None)
        }
        pointers = {session_id: summary(store, session_id) for session_id in there}
        if self.under_way is not None:
            self._settle(self.under_way, there, pointers)
        assert there == self.entries
        assert pointers == self.pointers

    def _settle(
        self, under_way: tuple[str, set[str]], there: dict[str, set[str]], pointers: dict[str, tuple[str | None, int]]
    ) -> None:
        """Take in the operation that was under way if the store has it; then it has the whole of it."""
        session_id, added = under_way
        self.under_way = None
        if pointers.get(session_id) == self.pointers.get(session_id):
            return
        entries = self.entries.get(session_id, set()) | added
        leaf, operations = pointers[session_id]
        assert leaf is None or leaf in entries
        assert operations - self.pointers.get(session_id, (None, 0))[1] in (0, 1)
        self.entries[session_id] = entries
        self.pointers[session_id] = (leaf, operations)
