"""What was used counts once, for whoever wrote it; what is not known is said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.errors import UsageError
from pi_sessions.statistics import Statistics, statistics
from pi_sessions.store import SessionStore
from pi_sessions.totals import session_totals
from tests.sessions.stores import open_store
from tests.strategies import message, user


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def answer(
    *,
    tokens: int = 100,
    cost: float = 1.0,
    model: str = "m",
    tools: tuple[str, ...] = (),
    cached: tuple[int, float] = (0, 0.0),
    priced: bool = True,
) -> dict[str, Any]:
    """Return an answer with a usage."""
    usage: dict[str, Any] = {"input": tokens, "output": 10, "cacheRead": cached[0], "cacheWrite": 0}
    if priced:
        usage["cost"] = {"input": cost, "output": 0, "cacheRead": cached[1], "cacheWrite": 0, "total": cost + cached[1]}
    calls = [{"type": "toolCall", "id": f"c{n}", "name": name, "arguments": {}} for n, name in enumerate(tools)]
    return message("assistant", calls, provider="p", model=model, stopReason="stop", usage=usage)


def counted(store: SessionStore, by: str, **more: Any) -> Statistics:
    def day(time_ms: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(time_ms / 1000))

    return statistics(store, by, day=day, **more)


def costs(found: Statistics) -> dict[str, float]:
    """Return cost by key."""
    return {row.key: row.cost for row in found.rows}


def test_a_shared_prefix_counts_once_and_a_fork_costs_what_it_added(store: SessionStore) -> None:
    first = store.create_session(cwd="/a").id
    store.append(first, answer(cost=1))
    store.append(first, answer(cost=2))
    fork = store.fork(first).id
    store.append(fork, answer(cost=4))
    assert costs(counted(store, "session")) == {first: 3, fork: 4}
    assert counted(store, "session").total.cost == 7
    assert costs(counted(store, "branch", session_id=fork)) == {"(before the fork)": 3, "main": 4}
    assert counted(store, "branch", session_id=fork).rows[1].whole_cost == 7
    assert costs(counted(store, "directory")) == {"/a": 7}


def test_a_branch_costs_what_lies_beyond_its_fork_point(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append_many(session_id, [answer(cost=1), answer(cost=2)])
    store.create_branch(session_id, "idea", at="e001")
    store.append(session_id, answer(cost=4), branch="idea")
    store.create_branch(session_id, "later", at="e003")
    store.append(session_id, answer(cost=8), branch="later")
    store.append(session_id, answer(cost=16))
    store.rewind(session_id, "e002")
    found = counted(store, "branch", session_id=session_id)
    assert costs(found) == {"main": 3, "idea": 4, "later": 8, "(left behind)": 16}
    assert [row.whole_cost for row in found.rows] == [3, 5, 13, None]
    assert found.total.cost == 31
    with pytest.raises(UsageError):
        counted(store, "branch")


def test_models_days_and_times(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append(session_id, answer(cost=1, model="a"))
    store.clock.now_ms += 86_400_000  # type: ignore[attr-defined]
    store.append(session_id, answer(cost=2, model="b"))
    store.append(session_id, {"type": "compaction", "summary": "s", "firstKeptEntryId": "e001", "tokensBefore": 1})
    assert costs(counted(store, "model")) == {"p/b": 2, "p/a": 1}
    assert costs(counted(store, "day")) == {"2026-03-01": 1, "2026-03-02": 2}
    assert costs(counted(store, "model", since_ms=store.clock())) == {"p/b": 2}


def test_an_answer_is_shared_out_among_the_tools_it_calls(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append(session_id, answer(cost=4, tools=("bash", "bash", "read", "read")))
    store.append(session_id, answer(cost=1))
    failing = {"toolCallId": "c0", "toolName": "bash", "isError": True}
    store.append(session_id, message("toolResult", [{"type": "text", "text": "x" * 400}], **failing))
    found = counted(store, "tool")
    assert costs(found) == {"bash": 2, "read": 2, "(no tool)": 1}
    bash = next(row for row in found.rows if row.key == "bash")
    assert (bash.answers, bash.failed, bash.output_tokens) == (2, 1, 100)
    assert found.total.cost == 5


def test_unknown_prices_are_said_and_not_guessed(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append(session_id, answer(cost=1))
    store.append(session_id, answer(priced=False, model="local"))
    store.append(session_id, answer(cost=0, model="free"))
    found = counted(store, "model")
    assert (found.total.cost, found.total.unpriced, found.unpriced_models) == (1, 2, ("p/free", "p/local"))


def test_the_saving_of_the_cache_comes_from_recorded_prices(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append(session_id, answer(tokens=100, cost=1.0, cached=(1000, 1.0)))
    store.append(session_id, answer(tokens=0, cost=0, cached=(100, 0.1)))
    store.append(session_id, answer(tokens=0, cost=0, cached=(100, 0.1), model="other"))
    total = counted(store, "model").total
    assert total.saved == pytest.approx(1000 * 0.01 - 1.0 + 100 * 0.01 - 0.1)
    assert total.saving_unknown == 1


def test_removed_sessions_do_not_count_except_for_what_others_share(store: SessionStore) -> None:
    first = store.create_session().id
    store.append_many(first, [answer(cost=1), answer(cost=2)])
    store.fork(first, at="e001")
    other = store.create_session().id
    store.append(other, answer(cost=8))
    store.delete_session(first)
    store.delete_session(other)
    assert counted(store, "session").total.cost == 1


def test_nothing_used(store: SessionStore) -> None:
    session_id = store.create_session().id
    store.append(session_id, user("only a question"))
    for by in ("session", "model", "tool", "day", "directory"):
        assert counted(store, by).rows == ()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["append", "rewind", "fork", "branch"]), st.integers(0, 50)), max_size=15))
def test_however_it_is_grouped_the_sums_are_those_of_the_session(tmp_path_factory: Any, steps: list[Any]) -> None:
    with open_store(tmp_path_factory.mktemp("sums") / "s.db") as store:
        sessions = [store.create_session(cwd="/a").id]
        for number, (step, chance) in enumerate(steps):
            session_id = sessions[chance % len(sessions)]
            entries = [entry.id for entry in store.entries(session_id)]
            if step == "append" or not entries:
                store.append(session_id, answer(cost=2.0 ** (number % 8), tools=("a", "b")[: chance % 3]))
            elif step == "rewind":
                store.rewind(session_id, entries[chance % len(entries)])
            elif step == "fork":
                sessions.append(store.fork(session_id).id)
            else:
                store.create_branch(session_id, f"b{number}", at=entries[chance % len(entries)])
        for session_id in sessions:
            expected = session_totals(store.entries(session_id)).cost
            for by in ("session", "branch", "model", "tool", "day", "directory"):
                found = counted(store, by, session_id=session_id)
                assert found.total.cost == pytest.approx(expected)
                assert sum(row.cost for row in found.rows) == pytest.approx(expected)
