"""Runs as the store keeps them: found when cut off, closed with one result for every call, undone as one operation."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.run_lock import RunLock, is_held
from pi_sessions.runs import ActiveRun, RunAliveError, RunEndedError
from pi_sessions.store import SessionStore
from tests.crash.children import Child, Report

USER = {"role": "user", "content": "do it"}


def answer(*calls: str) -> dict[str, Any]:
    content = [{"type": "toolCall", "id": call, "name": f"tool-{call}", "arguments": {}} for call in calls]
    return {"role": "assistant", "content": content, "stopReason": "toolUse" if calls else "stop"}


def entry(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "message": message}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore.open(str(tmp_path / "s.db")) as opened:
        opened.create_session(id="work")
        yield opened
        assert opened.verify() == []


def begin(store: SessionStore, *accepted: dict[str, Any]) -> ActiveRun:
    return store.begin_run("work", command="run", summary="do it", accepted=accepted or (USER,))


def with_open_calls(store: SessionStore) -> ActiveRun:
    """Return a run whose answer has a finished, a started and an untouched call."""
    run = begin(store)
    run.append(entry(USER), taken=run.numbers[0])
    said = run.append(entry(answer("a", "b", "c")))
    for call in ("a", "b"):
        run.start_call(said.id, call, f"tool-{call}")
    run.finish_call(said.id, "a", {"role": "toolResult", "toolCallId": "a", "toolName": "tool-a", "content": "A"})
    return run


def results(store: SessionStore, at: str | None = None) -> dict[str, str]:
    path = store.path("work") if at is None else store.path("work", at)
    found = {}
    for one in path:
        message = one.message or {}
        if message.get("role") == "toolResult":
            content = message["content"]
            found[message["toolCallId"]] = content if isinstance(content, str) else content[0]["text"]
    return found


def test_a_run_is_alive_until_its_process_lets_go(store: SessionStore) -> None:
    run = begin(store)
    (found,) = store.unfinished_runs("work")
    assert (found.alive, found.pid, [one.text for one in found.accepted]) == (True, os.getpid(), ["do it"])
    assert f"Process {os.getpid()}" in found.sentence()
    with pytest.raises(RunAliveError):
        store.adopt_run(run.run)
    run.release()
    (found,) = store.unfinished_runs("work")
    assert not found.alive
    assert "“do it”" in found.sentence()


def test_a_run_of_a_killed_process_is_found_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    with SessionStore.open(path) as store:
        store.create_session(id="work")

    def work(report: Report) -> None:
        begin(SessionStore.open(path))
        report("begun")
        signal.pause()

    child = Child(work)
    assert next(child.reports()) == "begun"
    with SessionStore.open(path) as store:
        assert store.unfinished_runs()[0].alive
        child.kill()
        child.wait()
        assert not store.unfinished_runs()[0].alive
        store.close_run(store.unfinished_runs()[0].run)
    assert sorted(file.name for file in tmp_path.iterdir() if "-run-" in file.name) == []


def test_open_calls_are_told_apart(store: SessionStore) -> None:
    run = with_open_calls(store)
    run.release()
    (found,) = store.unfinished_runs()
    assert [(call.call_id, call.state) for call in found.calls] == [
        ("a", "finished"),
        ("b", "may_have_run"),
        ("c", "not_started"),
    ]
    assert found.sentence() == (
        "The last run on main (“do it”) was cut off; finished: tool-a(); may have run: tool-b(); did not run: tool-c()"
    )


def test_calls_of_one_tool_are_told_apart_and_the_sentence_is_short_and_harmless(store: SessionStore) -> None:
    run = store.begin_run("work", command="run", summary="clean \x1b[2J\u202e up " + "x" * 500, accepted=())
    run.append(entry(USER))
    orders = ["make", "make test", *(f"rm {number} \x9b\u2028 {'y' * 300}" for number in range(20))]
    calls = [
        {"type": "toolCall", "id": f"c{place}", "name": "bash", "arguments": {"command": order}}
        for place, order in enumerate(orders)
    ]
    said = run.append(entry({"role": "assistant", "content": calls, "stopReason": "toolUse"}))
    for call in ("c0", "c1"):
        run.start_call(said.id, call, "bash")
    run.finish_call(said.id, "c0", {"role": "toolResult", "toolCallId": "c0", "content": "made"})
    run.accept("steering", {"role": "user", "content": "quick\x07ly"})
    run.release()
    (found,) = store.cut_off_runs("work")
    told = found.sentence()
    assert 'finished: bash(command="make"); may have run: bash(command="make test"); did not run: bash(' in told
    assert "clean \\x1b[2J\\u202e up xx" in told
    assert "“quick\\x07ly”" in told
    assert "and 16 more" in told
    assert told.isprintable()
    assert len(told) < 800
    assert (found.results, [call.told() for call in found.calls[:2]]) == (
        1,
        ['bash(command="make")', 'bash(command="make test")'],
    )


def test_closing_gives_every_call_its_one_result(store: SessionStore) -> None:
    run = with_open_calls(store)
    run.accept("steering", {"role": "user", "content": "hurry"})
    run.release()
    closed = store.close_run(run.run)
    assert results(store)["a"] == "A"
    assert "may have run" in results(store)["b"]
    assert "did not run" in results(store)["c"]
    assert (len(closed.results), len(closed.appended)) == (3, 1)
    assert store.path("work")[-1].message == {"role": "user", "content": "hurry"}
    assert store.unfinished_runs() == []
    with pytest.raises(RunEndedError):
        store.close_run(run.run)
    assert store.undo("work").undone.command == "run"
    assert store.leaf("work") is None


def test_results_of_a_cut_off_run_hang_under_their_call_after_a_rewind(store: SessionStore) -> None:
    run = with_open_calls(store)
    run.release()
    store.rewind("work", None)
    closed = store.close_run(run.run)
    assert store.leaf("work") is None
    assert set(results(store, closed.leaf)) == {"a", "b", "c"}
    assert store.branches("work")[0].leaf is None


def test_a_cut_off_run_that_is_undone_is_closed_first_so_that_what_it_leaves_is_whole(store: SessionStore) -> None:
    first = store.append_message("work", USER)
    run = with_open_calls(store)
    run.accept("steering", {"role": "user", "content": "hurry"})
    run.release()
    undone = store.undo("work")
    assert (store.leaf("work"), undone.kept, undone.closed) == (first.id, (), True)
    assert store.unfinished_runs() == []
    (tip,) = store.tips("work")
    told = results(store, tip)
    assert told["a"] == "A"
    assert ["may have run" in told["b"], "did not run" in told["c"]] == [True, True]
    assert store.path("work", tip)[-1].message == {"role": "user", "content": "hurry"}
    assert store.redo("work").session.leaf == tip
    assert store.undo("work").session.leaf == first.id
    assert store.unfinished_runs() == []
    with pytest.raises(RunEndedError):
        store.adopt_run(run.run)


def test_undoing_a_cut_off_run_keeps_what_was_appended_behind_it(store: SessionStore) -> None:
    run = with_open_calls(store)
    run.release()
    later = store.append_message("work", {"role": "user", "content": "and then"})
    undone = store.undo("work")
    assert (store.leaf("work"), [kept.leaf for kept in undone.kept]) == (None, [later.id])
    assert [set(results(store, tip)) for tip in store.tips("work")] == [{"a", "b", "c"}]
    assert store.redo("work").session.leaf == later.id


def test_undoing_a_run_that_is_alive_leaves_the_run_alone(store: SessionStore) -> None:
    run = with_open_calls(store)
    store.undo("work")
    assert len(store.path("work", run.leaf)) == 2
    run.append(entry({"role": "toolResult", "toolCallId": "a", "toolName": "tool-a", "content": "A"}))
    assert (run.branch, run.why) == ("main-2", "main has moved on since")
    run.finish("done")
    run.release()


def test_a_run_knows_why_it_is_beside_its_branch(store: SessionStore) -> None:
    one = begin(store)
    two = begin(store)
    assert two.why == f"main is being written to by process {os.getpid()}"
    two.finish("done")
    two.release()
    store.create_branch("work", "side", switch=True)
    store.delete_branch("work", "main")
    one.append(entry(USER))
    assert one.why == "main is not there any more"
    one.finish("done")
    one.release()


def test_a_session_with_a_run_in_progress_has_none_that_was_cut_off(store: SessionStore) -> None:
    assert (store.cut_off_runs("work"), store.sessions_cut_off()) == ((), frozenset())
    run = begin(store)
    assert (store.cut_off_runs("work"), store.sessions_cut_off()) == ((), frozenset())
    run.release()
    assert ([found.run for found in store.cut_off_runs("work")], store.sessions_cut_off()) == ([run.run], {"work"})
    store.close_run(run.run)
    assert (store.cut_off_runs("work"), store.sessions_cut_off()) == ((), frozenset())


def test_calls_of_a_failed_answer_stay_as_they_are(store: SessionStore) -> None:
    run = begin(store)
    run.append(entry({**answer("a"), "stopReason": "error"}))
    run.release()
    assert store.unfinished_runs()[0].calls == ()


def test_calls_that_share_an_id_are_counted(store: SessionStore) -> None:
    run = begin(store)
    said = run.append(entry(answer("x", "x")))
    run.start_call(said.id, "x", "tool-x")
    run.append(entry({"role": "toolResult", "toolCallId": "x", "toolName": "tool-x", "content": "one"}))
    assert [call.state for call in run.open_calls()] == ["not_started"]
    run.release()


@pytest.mark.parametrize("change", ["append", "rewind", "rename", "delete"])
def test_a_run_goes_on_beside_whatever_happens_to_its_branch(store: SessionStore, change: str) -> None:
    store.append_message("work", USER)
    store.create_branch("work", "side", switch=change == "delete")
    run = store.begin_run("work", command="run", summary="x", branch="main")
    mine = run.append(entry(USER))
    if change == "append":
        store.append_message("work", USER, branch="main")
    elif change == "rewind":
        store.rewind("work", None)
    elif change == "rename":
        store.rename_branch("work", "main", "trunk")
    else:
        store.delete_branch("work", "main")
    more = run.append(entry(answer()))
    assert (more.parent_id, run.diverged) == (mine.id, True)
    assert store.leaf("work", run.branch) == more.id
    run.finish("done")
    run.release()
    undone = store.undo("work", op=run.op)
    assert more.id not in {branch.leaf for branch in store.branches("work")}
    assert undone.undone.id == run.op


def test_a_run_beside_a_living_one_begins_where_that_one_began(store: SessionStore) -> None:
    first = store.append_message("work", USER)
    one = begin(store)
    one.append(entry(USER))
    two = begin(store)
    assert (two.leaf, two.branch, two.diverged, two.from_branch) == (first.id, "main-2", True, "main")
    three = begin(store)
    assert three.branch == "main-3"
    for run in (one, two, three):
        run.finish("done")
        run.release()
    assert not begin(store).diverged


def test_a_run_beside_a_dead_one_stays_on_the_branch(store: SessionStore) -> None:
    begin(store).release()
    run = begin(store)
    assert not run.diverged
    run.release()


def test_what_was_taken_back_is_forgotten(store: SessionStore) -> None:
    run = begin(store)
    number = run.accept("follow_up", USER)
    run.forget([number, *run.numbers])
    assert run.accepted() == ()
    assert run.accept("steering", USER) > number
    run.release()


def test_the_operation_of_a_run_that_stored_nothing_changes_nothing(store: SessionStore) -> None:
    store.append_message("work", USER)
    leaf = store.leaf("work")
    run = begin(store)
    run.finish("aborted")
    run.release()
    store.undo("work")
    assert store.leaf("work") == leaf


def test_a_lock_is_let_go_of_once_and_looks_do_not_disturb_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert not is_held(path)
    lock = RunLock(path)
    assert is_held(path)
    with pytest.raises(BlockingIOError):
        RunLock(path)
    assert is_held(path)
    lock.release()
    lock.release()
    assert not is_held(path)
    RunLock(path).release()


def test_adopting_keeps_number_and_operation(store: SessionStore) -> None:
    run = with_open_calls(store)
    run.release()
    again = store.adopt_run(run.run)
    assert (again.run, again.op, again.leaf, again.branch) == (run.run, run.op, run.leaf, "main")
    assert len(again.settle_calls()) == 3
    assert again.settle_calls() == []
    again.append(entry(answer()))
    again.finish("done")
    again.release()
    assert len([op for op in store.operations("work") if op.command == "run"]) == 1


def test_runs_of_a_store_in_memory_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SessionStore.open(":memory:") as store:
        store.create_session(id="work")
        run = begin(store)
        assert store.unfinished_runs()[0].alive
        with pytest.raises(RunAliveError):
            store.adopt_run(run.run)
        run.release()
        assert not store.unfinished_runs()[0].alive
        store.close_run(run.run)
    assert list(tmp_path.iterdir()) == []
