"""A kill before a commit leaves everything as it was; a kill after it leaves the whole operation."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.crash.children import Child, Report

Rows = list[list[Any]]

SOURCE = """\
{"type":"session","version":3,"id":"imported","timestamp":"2026-03-02T09:00:00.000Z","cwd":"/p"}
{"type":"message","id":"aa1","parentId":null,"timestamp":"2026-03-02T09:00:01.000Z","message":{"role":"user","content":"1"}}
{"type":"message","id":"aa2","parentId":"aa1","timestamp":"2026-03-02T09:00:02.000Z","message":{"role":"user","content":"2"}}
{"type":"label","id":"aa3","parentId":"aa2","timestamp":"2026-03-02T09:00:03.000Z","targetId":"aa1","label":"first"}
"""


def counted(prefix: str) -> Callable[[], str]:
    """Return a source of ids that gives the same ids each time."""
    numbers = iter(range(1, 1 << 16))
    return lambda: f"{prefix}{next(numbers):07x}"


def open_store(path: Path, prefix: str) -> SessionStore:
    ids = {"new_id": counted(prefix), "new_session_id": counted(f"session-{prefix}")}
    return SessionStore.open(str(path), clock=lambda: 1772442000000, **ids)


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "message": {"role": "user", "content": text}}


def lose_race(store: SessionStore) -> None:
    writer = store.writer("work")
    store.append("work", message("somebody else"))
    writer.append(message("on a branch of its own"))


def record_run(store: SessionStore) -> None:
    with store.recording("work", "run", "a prompt"):
        store.append("work", message("prompt"))
        store.append("work", message("answer"))


def import_file(store: SessionStore) -> None:
    store.import_session(read_pi_file(f"{store.file}.jsonl"))


OPERATIONS: dict[str, Callable[[SessionStore], object]] = {
    "append": lambda store: store.append("work", message("more")),
    "append_many": lambda store: store.append_many("work", [message("more")] * 300),
    "fork": lambda store: store.fork("work", id="fork"),
    "fork_all": lambda store: store.fork("work", id="fork", all_branches=True, place="/proj"),
    "rewind": lambda store: store.rewind("work", "e0000001"),
    "undo": lambda store: store.undo("work"),
    "undo_then_redo": lambda store: (store.undo("work"), store.redo("work")),
    "switch": lambda store: store.switch("work", "side"),
    "label": lambda store: store.set_label("work", "e0000002", "there"),
    "remove": lambda store: store.delete_session("work"),
    "omit": lambda store: store.edit_context("work", "e0000001", None),
    "create": lambda store: store.create_session(id="new", name="a name", place="/proj"),
    "import": import_file,
    "lost_race": lose_race,
    "run": record_run,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store with branches, a label and something to undo, and beside it a session file."""
    path = tmp_path_factory.mktemp("prepared") / "store.db"
    with open_store(path, "e") as store:
        store.create_session(id="work", cwd="/proj")
        store.append_many("work", [message(f"message {number}") for number in range(6)])
        store.create_branch("work", "side", at="e0000003")
        store.rewind("work", "e0000004")
        store.append("work", message("after the rewind"))
        store.set_label("work", "e0000002", "here")
    return path


def copy_of(prepared: Path, folder: Path, name: str) -> Path:
    path = folder / f"{name}.db"
    shutil.copy(prepared, path)
    source = path.with_name(f"{path.name}.jsonl")
    source.write_text(SOURCE, encoding="utf-8")
    os.utime(source, (1772442000, 1772442000))
    return path


def rows(path: Path) -> Rows:
    """Return every row of every table, but for the path of the imported file."""
    connection = sqlite3.connect(path)
    tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table' order by name")]
    found = [[table, *row] for table in tables for row in connection.execute(f'select * from "{table}"')]
    connection.close()
    found.sort(key=repr)
    return [[str(value).replace(str(path), "store.db") for value in row] for row in found]


class Watched:
    """Counts the statements of a store from now on and, at one of them, kills the process.

    Args:
        store: Open store.
        kill_before: Number of the statement (from 1) that must not run any more.
    """

    def __init__(self, store: SessionStore, kill_before: int | None) -> None:
        self.commits: list[int] = []
        self.count = 0
        self._kill_before = kill_before
        for name in ("execute", "executemany"):
            setattr(store.connection, name, self._watch(getattr(store.connection, name)))

    def _watch(self, run: Callable[..., sqlite3.Cursor]) -> Callable[..., sqlite3.Cursor]:
        def watched(sql: str, *parameters: Any) -> sqlite3.Cursor:
            self.count += 1
            if self.count == self._kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            cursor = run(sql, *parameters)
            if sql == "commit":
                self.commits.append(self.count)
            return cursor

        return watched


def perform(path: Path, operation: str, kill_before: int | None) -> tuple[int, list[int]]:
    """Perform an operation in a child, killed before a statement; returns its exit code and the commits' numbers."""

    def work(report: Report) -> None:
        store = open_store(path, "f")
        watched = Watched(store, kill_before)
        OPERATIONS[operation](store)
        report(watched.commits)
        store.connection.execute("select 1")

    child = Child(work)
    commits = [commit for report in child.reports() for commit in report]
    return child.wait(), commits


def points(commits: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (statement to be killed at, commits done by then): amid, directly before and directly after each commit."""
    begun = 1
    for done, commit in enumerate(commits):
        yield (begun + commit) // 2, done
        yield commit, done
        yield commit + 1, done + 1
        begun = commit + 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_commit_is_all_or_nothing(prepared: Path, tmp_path: Path, operation: str) -> None:
    whole = copy_of(prepared, tmp_path, "whole")
    code, commits = perform(whole, operation, None)
    assert code == 0
    assert commits
    states: dict[int, Rows] = {0: rows(prepared), len(commits): rows(whole)}
    assert states[0] != states[len(commits)]
    for kill_before, done in points(commits):
        path = copy_of(prepared, tmp_path, f"at-{kill_before}")
        assert perform(path, operation, kill_before)[0] == -signal.SIGKILL
        with SessionStore.open(str(path)) as store:
            assert store.verify() == []
        assert rows(path) == states.setdefault(done, rows(path)), f"{operation}: statement {kill_before}"
