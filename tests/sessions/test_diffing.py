"""Where two paths part, what each did from there, and what they say alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.diffing import compare_paths
from pi_sessions.store import SessionStore
from pi_sessions.totals import session_totals
from tests.sessions.stores import ids, open_store, talk
from tests.strategies import message, user


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def usage(tokens: int, cost: float | None) -> dict[str, Any]:
    told: dict[str, Any] = {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens}
    return told | ({"cost": {"total": cost}} if cost is not None else {})


def test_paths_part_at_the_common_ancestor(store: SessionStore) -> None:
    session_id = store.create_session().id
    talk(store, session_id, "one", "two", "three", "four")
    store.create_branch(session_id, "idea", at="e002")
    store.append(session_id, user("three"), branch="idea")
    store.append(session_id, user("five"), branch="idea")
    compared = compare_paths(store.path(session_id), store.path(session_id, store.leaf(session_id, "idea")))
    assert compared.ancestor is not None
    assert (compared.ancestor.id, compared.shared) == ("e002", 2)
    assert (ids(compared.left.entries), ids(compared.right.entries)) == (["e003", "e004"], ["e005", "e006"])
    told = [(p.left and p.left.id, p.right and p.right.id, p.same) for p in compared.pairs]
    assert told == [("e003", "e005", True), ("e004", "e006", False)]


def test_each_side_counts_only_what_is_its_own(store: SessionStore) -> None:
    session_id = store.create_session().id
    paid = message("assistant", [], provider="p", model="m", stopReason="stop", usage=usage(100, 0.5))
    store.append(session_id, paid)
    fork = store.fork(session_id).id
    call = {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": "a.py", "content": ""}}
    answer = message("assistant", [call, call], provider="q", model="n", stopReason="stop", usage=usage(7, None))
    store.append_many(fork, [answer, user("thanks")])
    compared = compare_paths(store.path(session_id), store.path(fork))
    assert compared.left.totals == session_totals([])
    right = compared.right
    assert (right.totals.assistant_messages, right.totals.tool_calls, right.totals.tokens) == (1, 2, 7)
    assert (right.tools, right.files.modified, right.unpriced) == ((("write", 2),), ("a.py",), 1)
    assert [row.key for row in right.models] == ["q/n"]


def test_sessions_that_share_nothing(store: SessionStore) -> None:
    one, other = store.create_session().id, store.create_session().id
    talk(store, one, "same question", "one answer")
    talk(store, other, "same question", "another answer")
    compared = compare_paths(store.path(one), store.path(other))
    assert (compared.ancestor, compared.shared) == (None, 0)
    assert [pair.same for pair in compared.pairs] == [True, False]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_every_own_entry_appears_once_and_in_order(left: list[str], right: list[str]) -> None:
    from pi_sessions.stored import StoredEntry

    paths = [
        [
            StoredEntry(f"{side}{n}", None, "message", n, f'{{"role":"user","content":"{text}"}}', key=start + n)
            for n, text in enumerate(texts)
        ]
        for side, start, texts in (("l", 100, left), ("r", 200, right))
    ]
    compared = compare_paths(*paths)
    assert [pair.left for pair in compared.pairs if pair.left] == paths[0]
    assert [pair.right for pair in compared.pairs if pair.right] == paths[1]
    assert all((pair.left and pair.right) if pair.same else True for pair in compared.pairs)
