"""What work costs, counted in steps of SQLite and not in time; very deep chains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.stores import START_MS, ids, open_store, steps_of, talk
from tests.strategies import answer, user

DEEP = 100_000


def chain(count: int, *, first: int = 0) -> Iterator[StoredEntry]:
    for number in range(first, first + count):
        text = f'{{"role":"user","content":"m{number}"}}'
        yield StoredEntry(f"c{number:06}", None, "message", START_MS + number, text)


def compacted_session(store: SessionStore, history: int) -> str:
    """Return a session with a long history, a compaction that keeps 5 entries of it, and 20 entries after it."""
    session = store.create_session()
    entries = store.append_many(session.id, chain(history))
    store.append(session.id, {"type": "model_change", "provider": "p", "modelId": "m"})
    kept = entries[-5].id
    store.append(session.id, {"type": "compaction", "summary": "s", "firstKeptEntryId": kept, "tokensBefore": 9})
    talk(store, session.id, *(f"after {number}" for number in range(20)))
    return session.id


def test_the_cost_of_a_context_follows_what_is_active_not_the_history(store: SessionStore) -> None:
    short, long = compacted_session(store, 50), compacted_session(store, 5000)
    assert len(store.context(short).messages) == len(store.context(long).messages) == 1 + 5 + 20
    assert len(store.active(long)) == 27
    costs = [steps_of(store, partial(store.context, id)) for id in (short, long)]
    assert costs[1] <= costs[0] * 1.2 + 2


def test_model_and_level_from_the_compacted_part_count(store: SessionStore) -> None:
    session = compacted_session(store, 10)
    context = store.context(session)
    assert context.model is not None
    assert (context.model.provider, context.thinking_level) == ("p", "off")


def test_fork_and_rewind_cost_the_same_for_any_history(store: SessionStore) -> None:
    costs = []
    for count in (10, 5000):
        session = store.create_session()
        store.append_many(session.id, chain(count))
        fork = steps_of(store, partial(store.fork, session.id))
        rewind = steps_of(store, partial(store.rewind, session.id, "c000003"))
        undo = steps_of(store, partial(store.undo, session.id))
        costs.append((fork, rewind, undo))
    assert all(long <= short * 1.5 + 3 for short, long in zip(*costs, strict=True)), costs


def test_an_append_costs_the_same_for_any_history(store: SessionStore) -> None:
    costs = []
    for count in (10, 5000):
        session = store.create_session()
        store.append_many(session.id, chain(count))
        store.append(session.id, user("warm"))
        costs.append(steps_of(store, partial(store.append, session.id, answer("one"))))
    assert costs[1] <= costs[0] * 1.5 + 3


def test_a_page_of_a_list_costs_the_same_for_any_number_of_sessions(store: SessionStore) -> None:
    costs = []
    for count in (50, 1000):
        with store.transaction():
            for _ in range(count):
                store.create_session(cwd="/proj")
        costs.append(steps_of(store, partial(store.sessions, limit=20)))
    assert costs[1] <= costs[0] * 1.5 + 3


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionStore, str]]:
    """A chain of 100,000 entries, and a side branch in its middle."""
    path: Path = tmp_path_factory.mktemp("deep") / "s.db"
    with open_store(path) as store:
        session = store.create_session(cwd="/proj")
        store.append_many(session.id, chain(DEEP))
        store.append(session.id, user("aside"), parent=f"c{DEEP // 2:06}")
        yield store, session.id


def test_a_path_of_100_000_entries_is_read_whole(deep: tuple[SessionStore, str]) -> None:
    store, session_id = deep
    path = store.path(session_id)
    assert len(path) == DEEP
    assert (path[0].id, path[-1].id) == ("c000000", f"c{DEEP - 1:06}")
    assert all(one.parent_id == before.id for before, one in itertools.pairwise(path))


def test_a_context_of_100_000_messages_is_built_without_recursion(deep: tuple[SessionStore, str]) -> None:
    store, session_id = deep
    assert len(store.context(session_id).messages) == DEEP


def test_moves_in_a_deep_chain_are_moves_of_pointers(deep: tuple[SessionStore, str]) -> None:
    store, session_id = deep
    fork = store.fork(session_id, at=f"c{DEEP - 2:06}")
    assert fork.message_count == DEEP - 1
    move = store.rewind(session_id, "c000005")
    assert move.old_leaf == f"c{DEEP - 1:06}"
    assert ids(store.path(session_id)) == [f"c{number:06}" for number in range(6)]
    assert set(store.tips(session_id)) == {f"c{DEEP - 1:06}", "e001"}
    store.undo(session_id)
    assert store.leaf(session_id) == f"c{DEEP - 1:06}"


def test_a_deep_chain_is_sound_and_its_tree_is_known(deep: tuple[SessionStore, str]) -> None:
    store, session_id = deep
    assert store.verify(session_id) == []
    assert store.children(session_id, f"c{DEEP // 2:06}") == [f"c{DEEP // 2 + 1:06}", "e001"]
    assert store.children(session_id, None) == ["c000000"]


def test_many_short_branches_are_read_as_one_path(store: SessionStore) -> None:
    """A chain in which every entry begins a segment of its own: a branch at each of 2,000 entries."""
    session = store.create_session()
    wanted: list[str] = []
    with store.transaction():
        for number in range(2000):
            parent = wanted[-1] if wanted else None
            store.append(session.id, user(f"side {number}"), parent=parent)
            wanted.append(store.append(session.id, user(str(number)), parent=parent).id)
        store.rewind(session.id, wanted[-1])
    assert ids(store.path(session.id)) == wanted
    assert len(store.context(session.id).messages) == 2000
    assert len(store.tips(session.id)) == 2000
