"""Forks share entries, know their origin, and outlive it."""

from __future__ import annotations

import pytest

from pi_sessions.errors import CannotError, EntryNotFoundError, SessionNotFoundError
from pi_sessions.store import SessionStore
from tests.sessions.stores import SteadyClock, ids, rows_in, talk
from tests.strategies import answer, message, user


def test_a_fork_at_the_leaf_sees_the_whole_path_and_copies_nothing(store: SessionStore) -> None:
    session = store.create_session(cwd="/proj", name="A name")
    path = talk(store, session.id, "one", "two", "three")
    before = rows_in(store, "entries"), rows_in(store, "segments")
    fork = store.fork(session.id)
    assert (rows_in(store, "entries"), rows_in(store, "segments")) == before
    assert ids(store.path(fork.id)) == ids(store.entries(fork.id)) == path
    assert store.context(fork.id).messages == store.context(session.id).messages
    assert (fork.cwd, fork.name, fork.leaf, fork.branch) == ("/proj", "A name", path[-1], "main")
    assert (fork.message_count, fork.first_message) == (3, "one")


def test_a_fork_knows_its_origin(store: SessionStore) -> None:
    session = store.create_session()
    first, _second = talk(store, session.id, "one", "two")
    fork = store.fork(session.id, at=first)
    assert (fork.origin, fork.origin_entry) == (session.id, first)
    again = store.fork(fork.id)
    assert (again.origin, again.origin_entry) == (fork.id, first)
    empty = store.fork(session.id, at=None)
    assert (empty.origin, empty.origin_entry, empty.leaf) == (session.id, None, None)
    assert store.entries(empty.id) == []


def test_a_fork_sees_its_path_and_no_other_branch(store: SessionStore) -> None:
    session = store.create_session()
    first, _second = talk(store, session.id, "one", "two")
    store.rewind(session.id, first)
    (other,) = talk(store, session.id, "other")
    fork = store.fork(session.id)
    assert ids(store.entries(fork.id)) == [first, other]
    assert store.tips(fork.id) == []
    with pytest.raises(EntryNotFoundError):
        store.entry(fork.id, _second)


def test_fork_and_origin_go_on_apart(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    fork = store.fork(session.id)
    (mine,) = talk(store, fork.id, "in the fork")
    (theirs,) = talk(store, session.id, "in the origin")
    assert ids(store.entries(fork.id)) == [first, second, mine]
    assert ids(store.entries(session.id)) == [first, second, theirs]
    assert store.children(session.id, second) == [theirs]
    assert store.children(fork.id, second) == [mine]
    assert store.verify() == []


def test_a_fork_inside_a_segment_does_not_see_what_follows(store: SessionStore) -> None:
    """The fork ends in the middle of what the origin wrote in one go."""
    session = store.create_session()
    path = talk(store, session.id, *"abcdef")
    fork = store.fork(session.id, at=path[2])
    assert ids(store.entries(fork.id)) == path[:3]
    assert not store.has_entry(fork.id, path[3])
    talk(store, session.id, "later")
    assert ids(store.entries(fork.id)) == path[:3]


def test_a_fork_of_all_branches_takes_the_whole_tree(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.create_branch(session.id, "idea", at=first, switch=True)
    (third,) = talk(store, session.id, "three")
    store.rewind(session.id, first)
    store.set_label(session.id, third, "left behind")
    fork = store.fork(session.id, all_branches=True)
    assert store.branches(fork.id) == store.branches(session.id)
    assert store.tips(fork.id) == store.tips(session.id) == [third]
    assert ids(store.entries(fork.id)) == [first, second, third]
    assert store.labels(fork.id) == store.labels(session.id)
    assert fork.message_count == 3


def test_labels_on_the_shared_part_go_along_and_change_apart(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.set_label(session.id, first, "start")
    store.set_label(session.id, second, "off the path")
    fork = store.fork(session.id, at=first)
    assert {one.entry_id: one.text for one in store.labels(fork.id).values()} == {first: "start"}
    store.set_label(fork.id, first, "renamed")
    store.set_label(session.id, first, None)
    assert store.labels(fork.id)[first].text == "renamed"
    assert first not in store.labels(session.id)


def test_removing_the_origin_harms_no_fork(store: SessionStore) -> None:
    session = store.create_session()
    path = talk(store, session.id, "one", "two")
    fork = store.fork(session.id)
    store.delete_session(session.id)
    assert ids(store.sessions()) == [fork.id]
    assert ids(store.path(fork.id)) == path
    talk(store, fork.id, "three")
    assert len(store.context(fork.id).messages) == 3
    assert store.session(fork.id).origin == session.id
    assert store.verify() == []


def test_a_fork_of_a_fork_of_a_fork_reads_one_path(store: SessionStore) -> None:
    session = store.create_session()
    wanted = talk(store, session.id, "0")
    current = session.id
    for number in range(1, 30):
        current = store.fork(current).id
        wanted += [store.append(current, user(str(number))).id]
    assert ids(store.path(current)) == wanted
    assert ids(store.entries(current)) == wanted
    assert store.verify() == []


def test_the_totals_of_a_fork_are_those_of_its_path(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session()
    clock.now_ms += 1000
    (system,) = ids(store.append_many(session.id, [{"type": "model_change", "provider": "p", "modelId": "m"}]))
    first, second = talk(store, session.id, "one", "two")
    clock.now_ms += 1000
    talk(store, session.id, "three")
    assert store.fork(session.id, at=second).message_count == 2
    assert store.fork(session.id, at=first).first_message == "one"
    bare = store.fork(session.id, at=system)
    assert (bare.message_count, bare.first_message, bare.model) == (0, None, "p/m")
    assert store.append(bare.id, answer("new")).parent_id == system
    assert store.session(bare.id).message_count == 1


def test_the_first_message_of_a_fork_is_that_of_its_path(store: SessionStore) -> None:
    """Also when the origin's first message lies on another branch."""
    session = store.create_session()
    talk(store, session.id, "first", "answer")
    store.rewind(session.id, None)
    (system, second, _third) = ids(
        store.append_many(session.id, [message("system", "be brief"), user("second"), user("third")])
    )
    assert store.fork(session.id).first_message == "second"
    assert store.fork(session.id, at=second).first_message == "second"
    bare = store.fork(session.id, at=system)
    assert bare.first_message is None
    store.append(bare.id, user("new"))
    assert store.session(bare.id).first_message == "new"
    assert store.fork(session.id, all_branches=True).first_message == "first"


def test_names_ids_and_places_of_a_fork_can_be_given(store: SessionStore) -> None:
    session = store.create_session(cwd="/proj", place="/proj")
    fork = store.fork(session.id, id="my-fork", cwd="/else", name="Mine", place="/else")
    assert (fork.id, fork.cwd, fork.name) == ("my-fork", "/else", "Mine")
    here, there = store.current_session("/proj"), store.current_session("/else")
    assert here is not None
    assert there is not None
    assert (here.id, there.id) == (session.id, "my-fork")
    with pytest.raises(CannotError):
        store.fork(session.id, id="my-fork")
    with pytest.raises(EntryNotFoundError):
        store.fork(session.id, at="gone")
    with pytest.raises(SessionNotFoundError):
        store.fork("gone")
    assert len(store.sessions()) == 2


def test_unknown_header_fields_go_along(store: SessionStore) -> None:
    session = store.create_session(header={"colour": "red", "version": 3, "cwd": "/x"})
    assert store.fork(session.id).header == {"colour": "red"}
