"""Appending: leaves, expectations, ids, kept texts, writers, and what a session's row says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pi_sessions.errors import (
    BranchError,
    EntryNotFoundError,
    InvalidEntryError,
    LeafMovedError,
    SessionNotFoundError,
)
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from pi_sessions.times import format_time
from tests.sessions.stores import START_MS, SteadyClock, ids, open_store, rows_in, talk
from tests.strategies import answer, message, user


def test_an_append_becomes_the_leaf_under_the_one_before(store: SessionStore) -> None:
    session = store.create_session(cwd="/proj")
    first, second = talk(store, session.id, "one", "two")
    assert store.leaf(session.id) == second
    assert store.entry(session.id, second).parent_id == first
    assert store.entry(session.id, first).timestamp == format_time(START_MS)


def test_an_append_that_expects_another_leaf_raises_and_writes_nothing(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    before = list(store.connection.iterdump())
    with pytest.raises(LeafMovedError) as caught:
        store.append(session.id, user("three"), expect=first)
    assert (caught.value.expected, caught.value.actual) == (first, second)
    assert list(store.connection.iterdump()) == before


def test_expecting_no_leaf_holds_only_before_the_first_entry(store: SessionStore) -> None:
    session = store.create_session()
    first = store.append(session.id, user("one"), expect=None)
    with pytest.raises(LeafMovedError):
        store.append(session.id, user("two"), expect=None)
    assert store.append(session.id, user("two"), expect=first.id).parent_id == first.id


def test_several_appends_are_all_or_none(store: SessionStore) -> None:
    session = store.create_session()
    (kept,) = talk(store, session.id, "one")
    with pytest.raises(InvalidEntryError):
        store.append_many(session.id, [user("two"), {**user("three"), "id": kept}])
    assert ids(store.entries(session.id)) == [kept]
    assert store.session(session.id).message_count == 1


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"type": ""},
        {"type": "session", "id": "x"},
        {"type": "message"},
        {"type": "message", "message": "text"},
        {"type": "message", "message": {"content": "no role"}},
        {"type": "custom", "id": 5},
    ],
)
def test_what_is_no_entry_is_refused(store: SessionStore, entry: dict[str, object]) -> None:
    session = store.create_session()
    with pytest.raises(InvalidEntryError):
        store.append(session.id, entry)
    assert store.entries(session.id) == []


def test_a_given_id_and_time_are_kept_and_unknown_fields_come_back(store: SessionStore) -> None:
    session = store.create_session()
    given = {"type": "message", "id": "own", "timestamp": "2026-01-01T00:00:00.500Z", "colour": "red", **user("hi")}
    stored = store.append(session.id, given)
    assert store.entry(session.id, "own").to_dict() == {**given, "parentId": None} == stored.to_dict()


def test_the_text_of_a_stored_entry_comes_back_as_it_was(store: SessionStore) -> None:
    """Numbers, spacing and key order are those of the text that came in."""
    session = store.create_session()
    text = '{"role": "user", "content":"x",  "n": 1.0, "big": 12345678901234567890, "n": 2}'
    store.append(session.id, StoredEntry("own", None, "message", START_MS, text, '{"a" : [ ]}'))
    stored = store.entry(session.id, "own")
    assert (stored.payload, stored.extra) == (text, '{"a" : [ ]}')


def test_a_parent_can_be_named_and_moves_the_leaf_only_when_it_was_the_leaf(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    aside = store.append(session.id, user("aside"), parent=first)
    assert (aside.parent_id, store.leaf(session.id)) == (first, second)
    on_top = store.append(session.id, user("on top"), parent=second)
    assert store.leaf(session.id) == on_top.id
    root = store.append(session.id, user("root"), parent=None)
    assert (root.parent_id, store.leaf(session.id)) == (None, on_top.id)
    assert store.tips(session.id) == [aside.id, root.id]
    with pytest.raises(EntryNotFoundError):
        store.append(session.id, user("nowhere"), parent="gone")


def test_an_append_to_another_branch_leaves_the_current_one_alone(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.create_branch(session.id, "idea", at=first)
    third = store.append(session.id, user("three"), branch="idea")
    assert third.parent_id == first
    assert store.leaf(session.id) == second
    assert store.leaf(session.id, "idea") == third.id
    with pytest.raises(BranchError):
        store.append(session.id, user("four"), branch="nowhere")


def test_an_unknown_session_is_refused(store: SessionStore) -> None:
    with pytest.raises(SessionNotFoundError):
        store.append("gone", user("one"))


def test_a_writer_that_loses_the_race_goes_on_on_a_branch_of_its_own(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as one, SessionStore.open(str(tmp_path / "s.db")) as other:
        session = one.create_session()
        (first,) = talk(one, session.id, "one")
        mine, theirs = one.writer(session.id), other.writer(session.id)
        won = mine.append(user("mine"))
        lost = theirs.append(user("theirs"))
        assert (lost.parent_id, won.parent_id) == (first, first)
        assert (theirs.branch, theirs.diverged, mine.diverged) == ("main-2", True, False)
        again = theirs.append(answer("still theirs"))
        assert again.parent_id == lost.id
        assert {branch.name: branch.leaf for branch in one.branches(session.id)} == {"main": won.id, "main-2": again.id}
        assert one.session(session.id).branch == "main"
        assert mine.append(answer("still mine")).parent_id == won.id
        assert one.verify() == []


def test_two_writers_that_lose_get_branches_of_different_names(store: SessionStore) -> None:
    session = store.create_session()
    writers = [store.writer(session.id) for _ in range(3)]
    for writer in writers:
        writer.append(user("hello"))
    assert [writer.branch for writer in writers] == ["main", "main-2", "main-3"]
    assert len(store.entries(session.id)) == 3


def test_a_writer_that_lost_has_its_branch_in_the_operation_log(store: SessionStore) -> None:
    session = store.create_session()
    writer = store.writer(session.id)
    talk(store, session.id, "first")
    second = writer.append(user("second"))
    assert store.operations(session.id)[0].command == "branch"
    (kept,) = store.undo(session.id).kept
    assert (kept.leaf, kept.entries) == (second.id, 1)
    assert {branch.leaf for branch in store.branches(session.id)} == {"e001", second.id}


def test_the_row_of_a_session_says_what_it_holds(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session(cwd="/proj")
    store.append(session.id, message("system", "be brief"))
    clock.now_ms += 60_000
    store.append(session.id, user("  first\n question "))
    clock.now_ms += 60_000
    store.append(session.id, answer("yes", provider="anthropic", model="opus"))
    store.append(session.id, {"type": "custom", "customType": "x"})
    row = store.session(session.id)
    assert (row.message_count, row.first_message) == (3, "first question")
    assert (row.created_ms, row.updated_ms) == (START_MS, START_MS + 120_000)
    assert row.model == "anthropic/opus"


def test_the_last_activity_is_that_of_messages_never_later_than_now(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session()
    clock.now_ms += 1000
    store.append(session.id, {"type": "custom", "customType": "x"})
    assert store.session(session.id).updated_ms == START_MS
    store.append(session.id, message("user", "from the future", timestamp=START_MS * 2))
    assert store.session(session.id).updated_ms == START_MS + 1000
    old = store.create_session()
    store.append(old.id, message("user", "from long ago", timestamp=START_MS - 500_000))
    assert store.session(old.id).updated_ms == START_MS - 500_000


def test_a_first_message_is_cut_to_one_short_line(store: SessionStore) -> None:
    session = store.create_session()
    store.append(session.id, user("word " * 100))
    first = store.session(session.id).first_message
    assert first is not None
    assert len(first) == 200


def test_appending_is_no_operation_unless_it_is_recorded(store: SessionStore) -> None:
    session = store.create_session()
    before = rows_in(store, "operations")
    talk(store, session.id, "one", "two")
    assert rows_in(store, "operations") == before
    with store.recording(session.id, "run", "prompt"):
        talk(store, session.id, "three", "four")
    (operation, *_rest) = store.operations(session.id)
    assert (operation.command, len(operation.changes)) == ("run", 1)
    assert rows_in(store, "operations") == before + 1


def test_ids_are_not_taken_twice_even_when_the_source_repeats_itself(tmp_path: Path) -> None:
    repeated = iter(["a", "a", "a", "b"])
    with SessionStore.open(str(tmp_path / "s.db"), new_id=lambda: next(repeated)) as store:
        session = store.create_session()
        assert talk(store, session.id, "one") == ["a"]
        assert talk(store, session.id, "two") == ["b"]


def test_compact_json_is_stored_for_objects(store: SessionStore) -> None:
    session = store.create_session()
    stored = store.append(session.id, user("é\u2028🚀"))
    assert stored.payload == json.dumps(
        {"role": "user", "content": "é\u2028🚀"}, ensure_ascii=False, separators=(",", ":")
    )
