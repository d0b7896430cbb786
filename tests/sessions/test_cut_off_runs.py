"""Whatever a run had reached when it was cut off: undo, redo, closing and continuing leave whole what it wrote."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.connection import MEMORY
from pi_sessions.runs import ActiveRun
from pi_sessions.store import SessionStore

IDS = ("call_0", "call_1")
# What became of each call of the last answer; calls may share an id.
CALLS = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(["untouched", "started", "finished", "stored"])), max_size=4
)
MEDDLING = st.sampled_from(["nothing", "append", "rewind", "branch"])


def entry(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "message": message}


def result(call_id: str, place: int) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "bash", "content": f"done {place}"}


def cut_off(store: SessionStore, calls: list[tuple[str, str]], accepted: int, begun: bool) -> ActiveRun:
    """Cut off a run; of calls that share an id the ones with a result come first, as they would."""
    prompt = {"role": "user", "content": "go"}
    run = store.begin_run("work", command="run", summary="go", accepted=[prompt])
    if begun:
        run.append(entry(prompt), taken=run.numbers[0])
        blocks = [
            {"type": "toolCall", "id": id, "name": "bash", "arguments": {"n": n}} for n, (id, _) in enumerate(calls)
        ]
        said = run.append(entry({"role": "assistant", "content": blocks, "stopReason": "toolUse"}))
        for call_id, state in calls:
            if state != "untouched":
                run.start_call(said.id, call_id, "bash")
        for place, (call_id, state) in enumerate(calls):
            if state in ("finished", "stored"):
                run.finish_call(said.id, call_id, result(call_id, place))
        for place, (call_id, state) in enumerate(calls):
            if state == "stored":
                run.append(entry(result(call_id, place)))
    for number in range(accepted):
        run.accept("steering", {"role": "user", "content": f"and {number}"})
    run.release()
    return run


def pointers(store: SessionStore) -> tuple[Any, ...]:
    session = store.session("work")
    return session.branch, session.leaf, tuple((one.name, one.leaf) for one in store.branches("work"))


def meddle(store: SessionStore, how: str) -> None:
    if how == "append":
        store.append_message("work", {"role": "user", "content": "behind it"})
    elif how == "rewind":
        store.rewind("work", None)
    elif how == "branch":
        store.create_branch("work", "side", switch=True)


@settings(deadline=None, max_examples=60)
@given(CALLS, st.integers(0, 2), st.booleans(), MEDDLING)
def test_undo_leaves_one_result_for_every_call_and_redo_is_exact(
    calls: list[tuple[str, str]], accepted: int, begun: bool, how: str
) -> None:
    order = {"stored": 0, "finished": 1, "started": 2, "untouched": 3}
    calls.sort(key=lambda call: order[call[1]])
    with SessionStore.open(MEMORY) as store:
        store.create_session(id="work")
        store.append_message("work", {"role": "user", "content": "before"})
        run = cut_off(store, calls, accepted, begun)
        meddle(store, how)
        before = pointers(store)
        undone = store.undo("work", op=run.op)
        assert undone.closed
        assert store.cut_off_runs("work") == ()
        taken_back = pointers(store)
        messages = [one.message or {} for one in store.entries("work")]
        results = [one for one in messages if one["role"] == "toolResult"]
        assert sorted(one["toolCallId"] for one in results) == sorted(call[0] for call in calls if begun)
        finished = sum(state in ("stored", "finished") for _, state in calls) if begun else 0
        assert sum(str(one["content"]).startswith("done") for one in results) == finished
        said = [one["content"] for one in messages if one["role"] == "user"]
        assert said.count("go") == 1
        assert [text for text in said if str(text).startswith("and ")] == [
            f"and {number}" for number in range(accepted)
        ]
        redone = store.redo("work", op=run.op)
        after = pointers(store)
        if how in ("append", "rewind"):
            assert after == before
        else:
            assert redone.session.branch == before[0]
        store.undo("work", op=run.op)
        assert pointers(store) == taken_back
        assert store.verify() == []
