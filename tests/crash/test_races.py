"""Several processes in one file: nothing is lost, and who loses a race goes on on a branch of its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import LeafMovedError, StoreBusyError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.crash.children import Child, Race, Report, run_together
from tests.crash.random_work import RandomWork

SEED = [
    {"type": "session", "version": 3, "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/home/dev/demo"},
    {
        "type": "message",
        "id": "b1000001",
        "parentId": None,
        "timestamp": "2026-03-02T09:01:00.000Z",
        "message": {"role": "user", "content": "Seed question.", "timestamp": 1772442060000},
    },
    {
        "type": "message",
        "id": "b1000002",
        "parentId": "b1000001",
        "timestamp": "2026-03-02T09:02:00.000Z",
        "message": {"role": "assistant", "content": [], "provider": "p", "model": "m", "timestamp": 1772442120000},
    },
]


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1772442180000}


def seeded(folder: Path, sessions: int) -> str:
    """Make a store with the same file imported under several ids; returns its path."""
    path = str(folder / "store.db")
    source = folder / "seed.jsonl"
    with SessionStore.open(path) as store:
        for number in range(sessions):
            lines = [{**line, "id": line.get("id", f"seed-{number}")} for line in SEED]
            source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            store.import_session(read_pi_file(str(source)))
    return path


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("writers", [2, 4])
def test_losers_of_a_race_go_on_on_branches_of_their_own(tmp_path: Path, writers: int) -> None:
    path = seeded(tmp_path, 1)

    def work(name: str) -> Race:
        def append(report: Report) -> Iterator[None]:
            with SessionStore.open(path) as store:
                writer = store.writer("seed-0")
                yield
                entries = [writer.append_message(message(f"{name} {number}")).id for number in range(150)]
                report({"branch": writer.branch, "diverged": writer.diverged, "entries": entries})

        return append

    results = [found for [found] in run_together([work(str(number)) for number in range(writers)])]
    branches = sorted(found["branch"] for found in results)
    assert branches == ["main", *(f"main-{number}" for number in range(2, writers + 1))]
    assert [found["diverged"] for found in results if found["branch"] == "main"] == [False]
    with SessionStore.open(path) as store:
        assert store.session("seed-0").branch == "main"
        for found in results:
            leaf = store.leaf("seed-0", found["branch"])
            assert [entry.id for entry in store.path("seed-0", at=leaf)] == ["b1000001", "b1000002", *found["entries"]]
        assert len(store.entries("seed-0")) == 2 + 150 * writers
        assert store.verify() == []


def test_eight_processes_append_to_eight_sessions_while_others_read(tmp_path: Path) -> None:
    """Case s05: 400 entries, no locked error, no growth of open files; list and export's path work meanwhile."""
    path = seeded(tmp_path, 8)

    def work(number: int) -> Race:
        def append(report: Report) -> Iterator[None]:
            with SessionStore.open(path) as store:
                store.append_message(f"seed-{number}", message("0"))
                before = open_files()
                yield
                for count in range(1, 50):
                    store.append_message(f"seed-{number}", message(str(count)))
                report(open_files() - before)

        return append

    def read(report: Report) -> Iterator[None]:
        seen = 0
        with SessionStore.open(path, read_only=True) as store:
            yield
            while seen < 8 * 52:
                seen = sum(session.message_count for session in store.sessions(limit=None))
                assert 2 < len(store.path("seed-3")) <= len(store.context("seed-3").messages)
            report(seen)

    reported = run_together([work(number) for number in range(8)] + [read])
    assert reported == [[0]] * 8 + [[416]]
    with SessionStore.open(path) as store:
        for number in range(8):
            texts = [(entry.message or {})["content"] for entry in store.path(f"seed-{number}")[2:]]
            assert texts == [str(count) for count in range(50)]
        assert store.verify() == []


def test_eight_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    for number in range(8):
        path = str(tmp_path / f"new-{number}" / "store.db")

        def work(report: Report, path: str = path) -> Iterator[None]:
            yield
            with SessionStore.open(path) as store:
                report(store.create_session().id)

        made = {session_id for [session_id] in run_together([work] * 8)}
        with SessionStore.open(path) as store:
            assert {session.id for session in store.sessions()} == made
            assert store.verify() == []
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_expecting_the_leaf_makes_one_chain_of_all_writers(tmp_path: Path) -> None:
    """Four processes append with `expect=` and read again when they lost: one unbranched path, nothing lost."""
    path = seeded(tmp_path, 1)

    def work(report: Report) -> Iterator[None]:
        with SessionStore.open(path) as store:
            yield
            for _ in range(60):
                while True:
                    leaf = store.leaf("seed-0")
                    try:
                        stored = store.append_message("seed-0", message("mine"), expect=leaf)
                    except LeafMovedError as error:
                        report(["lost", leaf, error.expected, error.actual])
                    else:
                        report([stored.id, leaf, stored.parent_id, None])
                        break

    reported = [found for reports in run_together([work] * 4) for found in reports]
    assert all(leaf == expected != actual for _what, leaf, expected, actual in reported)
    written = {found[0] for found in reported} - {"lost"}
    assert len(written) == 240
    with SessionStore.open(path) as store:
        assert {entry.id for entry in store.path("seed-0")[2:]} == written
        assert len(store.entries("seed-0")) == 242
        assert store.tips("seed-0") == []
        assert store.verify() == []


def everything_at_once(tmp_path: Path, seeds: list[int]) -> None:
    """Let processes do whatever they like in one store; each sees its own work done, the store stays sound."""
    path = seeded(tmp_path, 2)

    def work(seed: int) -> Race:
        def operate(report: Report) -> Iterator[None]:
            acknowledged: list[str] = []

            class EnoughError(Exception):
                pass

            def note(line: tuple[Any, ...]) -> None:
                if line[0] == "begin":
                    acknowledged.extend(line[2])
                elif len(acknowledged) > 300:
                    raise EnoughError

            with SessionStore.open(path) as store:
                yield
                try:
                    RandomWork(store, seed, note, str(tmp_path / f"{seed}.jsonl"), alone=False).run()
                except EnoughError:
                    report(acknowledged)

        return operate

    reported = [entry_id for [ids] in run_together([work(seed) for seed in seeds]) for entry_id in ids]
    with SessionStore.open(path) as store:
        there = {entry.id for session in store.sessions(limit=None) for entry in store.entries(session.id)}
        # What one process began another may have undone, and with it the session; it is kept all the same.
        removed = store.connection.execute(
            "select e.id from entries e join segments g on g.segment = e.key >> 24 join sessions s on s.sid = g.sid"
            " where s.deleted is not null"
        )
        assert there | {entry_id for (entry_id,) in removed} >= set(reported)
        assert store.verify() == []


def test_every_kind_of_operation_at_once(tmp_path: Path) -> None:
    everything_at_once(tmp_path, [7, 8, 9, 10])


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 500, 4))
def test_every_kind_of_operation_at_once_in_a_hundred_stores(tmp_path: Path, first: int) -> None:
    everything_at_once(tmp_path, [first, first + 1, first + 2, first + 3])


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    """Case s04: killed in the middle of a write; the next writer goes on at once."""
    path = seeded(tmp_path, 1)

    def work(report: Report) -> None:
        store = SessionStore.open(path)
        with store.transaction():
            store.append_message("seed-0", message("never committed"))
            report("written")
            signal.pause()

    child = Child(work)
    assert next(child.reports()) == "written"
    with SessionStore.open(path, busy_timeout_s=0.05) as store:
        with pytest.raises(StoreBusyError):
            store.append_message("seed-0", message("waits"))
        assert len(store.path("seed-0")) == 2
        child.kill()
        assert child.wait() == -signal.SIGKILL
        store.append_message("seed-0", message("at once"))
        assert [(entry.message or {})["content"] for entry in store.path("seed-0")[2:]] == ["at once"]
        assert store.verify() == []
