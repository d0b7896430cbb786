"""A process killed with SIGKILL in the middle of a run loses nothing it had acknowledged, and runs no tool again."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_loop import ScriptedModel
from pi_loop.runner import SessionRunner
from pi_loop.runner_types import RecoverAction
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.crash.children import Child, Report
from tests.crash.run_world import MODEL, SESSION, check, kill_at, recover, text, work

ACTIONS: tuple[RecoverAction, ...] = ("continue", "close")
MOST_COMMITS = 200
SEED = Path(__file__).resolve().parents[2] / "fixtures" / "cases" / "s04-two-continues" / "seed.jsonl"


def begin(folder: Path) -> None:
    """Make a store with the empty session; copied from the first one made, which spares its flushes to disk."""
    prepared = folder.parent / "prepared.db"
    if not prepared.exists():
        with SessionStore.open(str(prepared)) as store:
            store.create_session(id=SESSION)
    folder.mkdir()
    shutil.copy(prepared, folder / "s.db")


def killed_at_commit(folder: Path, commit: int, *, before: bool) -> tuple[int, list[Any]]:
    begin(folder)

    def do(report: Report) -> None:
        kill_at(commit, before=before)()
        work(folder, report)

    child = Child(do)
    acknowledged = list(child.reports())
    return child.wait(), acknowledged


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_kill_at_every_commit_of_a_run_loses_nothing(tmp_path: Path, before: bool, action: RecoverAction) -> None:
    for commit in range(1, MOST_COMMITS, 1 if action == "continue" else 3):
        folder = tmp_path / str(commit)
        code, acknowledged = killed_at_commit(folder, commit, before=before)
        if code == 0:
            assert ["outcome", "done"] in acknowledged
            assert commit > 20
            return
        assert code == -signal.SIGKILL
        recover(folder, action)
        check(folder, acknowledged, recovered_by=action)
    raise AssertionError("the run never ended")


def kill_at_random(folder: Path, chance: random.Random, *, durable: bool = False) -> None:
    begin(folder)
    child = Child(lambda report: work(folder, report, durable=durable))
    acknowledged: list[Any] = []
    stop_after = chance.randint(0, 24)
    for report in child.reports():
        acknowledged.append(report)
        if len(acknowledged) >= stop_after:
            break
    spin_until = time.perf_counter() + chance.random() * 0.004
    while time.perf_counter() < spin_until:
        pass
    child.kill()
    acknowledged += child.reports()
    child.wait()
    action = chance.choice(ACTIONS)
    recover(folder, action)
    check(folder, acknowledged, recovered_by=action)


def test_kills_at_random_points_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    for number in range(12):
        kill_at_random(tmp_path / str(number), chance)


@pytest.mark.soak
def test_two_hundred_kills_at_random_points_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(6)
    for number in range(200):
        kill_at_random(tmp_path / str(number), chance, durable=number % 2 == 0)


def test_a_recovery_that_is_killed_is_recovered(tmp_path: Path) -> None:
    """Kill in the middle of tools, then kill the recovery at each of its commits."""
    for commit in range(1, MOST_COMMITS):
        folder = tmp_path / str(commit)
        _, acknowledged = killed_at_commit(folder, 8, before=False)

        def again(_report: Report, folder: Path = folder, commit: int = commit) -> None:
            kill_at(commit, before=False)()
            recover(folder, "continue")

        child = Child(again)
        assert list(child.reports()) == []
        code = child.wait()
        recover(folder, "continue")
        check(folder, acknowledged, recovered_by="continue")
        if code == 0:
            return
    raise AssertionError("the recovery never ended")


def test_s04_two_continues_at_once_and_one_is_killed(tmp_path: Path) -> None:
    """Each gets its own branch, nothing is lost, and the killed one does not hold the session."""
    folder = tmp_path / "store"
    begin(folder)
    with SessionStore.open(str(folder / "s.db")) as store:
        sid = store.import_session(read_pi_file(str(SEED))).session.id
    first = Child(lambda report: talk(folder, sid, "first", report, stall=True))
    told = first.reports()
    assert next(told) == ["streaming", "main"]
    second = Child(lambda report: talk(folder, sid, "second", report, stall=False))
    assert list(second.reports()) == [["streaming", "main-2"], ["done", "main-2"]]
    assert second.wait() == 0
    first.kill()
    first.wait()
    with SessionStore.open(str(folder / "s.db")) as store:
        (cut_off,) = store.unfinished_runs(sid)
        assert not cut_off.alive
        store.close_run(cut_off.run)
    third = Child(lambda report: talk(folder, sid, "third", report, stall=False))
    assert list(third.reports()) == [["streaming", "main"], ["done", "main"]]
    assert third.wait() == 0
    with SessionStore.open(str(folder / "s.db")) as store:
        assert store.verify() == []
        said = {name: [user_text(entry) for entry in store.path(sid, leaf)] for name, leaf in leaves(store, sid)}
        assert [text for text in said["main"] if text] == ["Seed question.", "first", "third"]
        assert [text for text in said["main-2"] if text] == ["Seed question.", "second"]


def talk(folder: Path, sid: str, words: str, report: Report, *, stall: bool) -> None:
    """Continue a session with one prompt; report the branch when the answer begins, and how it ended."""
    store = SessionStore.open(str(folder / "s.db"))
    script = ScriptedModel([{"text": "half an answer", "stall": stall}])

    async def run() -> None:
        runner = SessionRunner(store, sid, stream_fn=script, model=MODEL)
        branch = ""

        def listen(event: Any) -> None:
            nonlocal branch
            if event.type == "run_start":
                branch = event.branch
            if event.type == "message_update" and event.assistant_message_event.type == "text_delta" and branch:
                report(["streaming", branch])
                branch = ""

        runner.subscribe(listen)
        outcome = await runner.prompt(words)
        report([outcome.status, outcome.branch])

    anyio.run(run)


def leaves(store: SessionStore, sid: str) -> list[tuple[str, str | None]]:
    return [(branch.name, branch.leaf) for branch in store.branches(sid)]


def user_text(entry: Any) -> str:
    return text(entry.message) if entry.role == "user" else ""
