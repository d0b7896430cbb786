"""The operation log: what is recorded, what undo and redo restore, what they keep and what they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pi_sessions.errors import NothingToUndoError, SessionNotFoundError
from pi_sessions.results import Operation
from pi_sessions.store import SessionStore
from tests.sessions.stores import START_MS, SteadyClock, ids, talk


def latest(store: SessionStore, session_id: str) -> Operation:
    return store.operations(session_id, limit=1)[0]


def test_every_move_and_fact_is_one_operation(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session(place="/proj")
    first, _second = talk(store, session.id, "one", "two")
    clock.now_ms += 7
    store.rewind(session.id, first)
    store.create_branch(session.id, "idea", switch=True)
    store.rename_branch(session.id, "idea", "better")
    store.switch(session.id, "main")
    store.delete_branch(session.id, "better")
    store.set_label(session.id, first, "start")
    store.set_name(session.id, "A name")
    store.set_archived(session.id, True)
    store.set_pinned(session.id, True)
    store.set_cwd(session.id, "/new")
    store.delete_session(session.id)
    store.undo(session.id)
    store.redo(session.id)
    commands = [operation.command for operation in reversed(store.operations(session.id))]
    assert commands == [
        *("new", "rewind", "branch", "branch", "switch", "branch", "label", "name", "archive", "pin", "move", "rm"),
        *("undo", "redo"),
    ]
    assert {operation.session_id for operation in store.operations()} == {session.id}
    assert store.operations(session.id)[0].time_ms == START_MS + 7


def test_an_operation_shows_what_it_changed_by_ids_and_names(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.rewind(session.id, first)
    (change,) = latest(store, session.id).changes
    assert (change.kind, change.name, change.before, change.after) == ("branch", "main", second, first)
    store.set_label(session.id, first, "here")
    (change,) = latest(store, session.id).changes
    assert (change.kind, change.name, change.before, change.after) == ("label", first, None, "here")
    store.rewind(session.id, None)
    (change,) = latest(store, session.id).changes
    assert (change.before, change.after) == (first, "before the first entry")
    store.rename_branch(session.id, "main", "trunk")
    (change,) = latest(store, session.id).changes
    assert (change.kind, change.before, change.after) == ("rename", "main", "trunk")
    fork = store.fork(session.id, place="/proj")
    kinds = {change.kind: (change.before, change.after) for change in latest(store, fork.id).changes}
    assert kinds["place"] == (None, fork.id)


def test_undo_puts_the_leaf_back_and_redo_forward_again(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.rewind(session.id, first)
    undone = store.undo(session.id)
    assert (undone.undone.command, undone.session.leaf, undone.kept) == ("rewind", second, ())
    assert store.operation(undone.undone.id).undone_by == undone.op
    redone = store.redo(session.id)
    assert redone.session.leaf == first
    assert store.operation(undone.undone.id).undone_by is None


def test_several_steps_are_undone_and_redone_in_turn(store: SessionStore) -> None:
    session = store.create_session()
    path = talk(store, session.id, *"abcd")
    for target in (path[2], path[1], path[0]):
        store.rewind(session.id, target)
    assert [store.undo(session.id).session.leaf for _ in range(3)] == [path[1], path[2], path[3]]
    assert [store.redo(session.id).session.leaf for _ in range(3)] == [path[2], path[1], path[0]]
    with pytest.raises(NothingToUndoError):
        store.redo(session.id)


def test_what_was_appended_since_is_kept_as_a_branch_and_named(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.rewind(session.id, first)
    third, fourth = talk(store, session.id, "three", "four")
    result = store.undo(session.id)
    (kept,) = result.kept
    assert (kept.name, kept.leaf, kept.entries) == ("main-2", fourth, 2)
    assert {branch.name: branch.leaf for branch in store.branches(session.id)} == {"main": second, "main-2": fourth}
    store.redo(session.id)
    assert {branch.name: branch.leaf for branch in store.branches(session.id)} == {"main": fourth}
    assert set(ids(store.entries(session.id))) == {first, second, third, fourth}


def test_nothing_is_kept_twice(store: SessionStore) -> None:
    """What another branch holds needs no branch of its own."""
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    op = store.rewind(session.id, first).op
    (third,) = talk(store, session.id, "three")
    store.create_branch(session.id, "mine")
    assert store.undo(session.id, op=op).kept == ()
    assert {branch.name: branch.leaf for branch in store.branches(session.id)} == {"main": second, "mine": third}


def test_a_run_is_undone_to_before_its_prompt(store: SessionStore) -> None:
    session = store.create_session()
    (first,) = talk(store, session.id, "one")
    with store.recording(session.id, "run", "prompt"):
        path = talk(store, session.id, "two", "three")
    result = store.undo(session.id)
    assert (result.undone.command, store.leaf(session.id), result.kept) == ("run", first, ())
    assert store.tips(session.id) == [path[-1]]
    store.redo(session.id)
    assert store.leaf(session.id) == path[-1]


def test_a_run_that_failed_half_way_is_recorded_with_what_it_wrote(store: SessionStore) -> None:
    session = store.create_session()

    def run() -> None:
        with store.recording(session.id, "run", "prompt"):
            talk(store, session.id, "one")
            store.rewind(session.id, "gone")

    with pytest.raises(Exception, match="no entry gone"):
        run()
    assert len(store.entries(session.id)) == 1
    store.undo(session.id)
    assert store.leaf(session.id) is None


def test_an_older_operation_is_undone_by_number_alone(store: SessionStore) -> None:
    session = store.create_session()
    (first,) = talk(store, session.id, "one")
    label = store.set_label(session.id, first, "start")
    store.set_name(session.id, "A name")
    store.undo(session.id, op=label)
    assert (store.labels(session.id), store.session(session.id).name) == ({}, "A name")
    with pytest.raises(NothingToUndoError, match="undone already"):
        store.undo(session.id, op=label)
    store.redo(session.id, op=label)
    assert store.labels(session.id)[first].text == "start"
    with pytest.raises(NothingToUndoError):
        store.redo(session.id, op=label)


def test_a_fact_that_was_changed_since_is_left_alone_and_said(store: SessionStore) -> None:
    session = store.create_session()
    (first,) = talk(store, session.id, "one")
    name, label = store.set_name(session.id, "one"), store.set_label(session.id, first, "one")
    store.set_name(session.id, "two")
    store.set_label(session.id, first, "two")
    for op, told in ((name, "name"), (label, f"label of {first}")):
        (sentence,) = store.undo(session.id, op=op).skipped
        assert told in sentence
    assert (store.session(session.id).name, store.labels(session.id)[first].text) == ("two", "two")


def test_undoing_a_switch_to_a_branch_whose_origin_is_gone_keeps_a_current_branch(store: SessionStore) -> None:
    session = store.create_session()
    store.create_branch(session.id, "idea", switch=True)
    op = latest(store, session.id).id
    store.delete_branch(session.id, "main")
    result = store.undo(session.id, op=op)
    assert len(result.skipped) == 2
    assert store.session(session.id).branch == "idea"
    assert store.verify() == []


def test_an_undone_redo_cannot_take_an_operation_back_twice(store: SessionStore) -> None:
    session = store.create_session()
    store.set_name(session.id, "A name")
    store.undo(session.id)
    redo = store.redo(session.id).op
    store.undo(session.id)
    with pytest.raises(NothingToUndoError):
        store.undo(session.id, op=redo)
    assert store.session(session.id).name is None


def test_a_session_that_was_begun_or_removed_comes_and_goes_with_all_it_holds(store: SessionStore) -> None:
    session = store.create_session(name="A name")
    (first,) = talk(store, session.id, "one")
    assert store.undo(session.id).session.deleted
    assert store.sessions() == []
    assert not store.redo(session.id).session.deleted
    store.delete_session(session.id)
    assert store.undo(session.id).session.deleted is False
    assert (store.session(session.id).name, ids(store.entries(session.id))) == ("A name", [first])


def test_nothing_to_undo_or_redo_is_said(store: SessionStore) -> None:
    session = store.create_session()
    store.undo(session.id)
    with pytest.raises(NothingToUndoError):
        store.undo(session.id)
    store.redo(session.id)
    with pytest.raises(NothingToUndoError):
        store.redo(session.id)
    for op in (0, 999):
        with pytest.raises(NothingToUndoError, match="no operation"):
            store.undo(session.id, op=op)
        with pytest.raises(NothingToUndoError, match="no operation"):
            store.redo(session.id, op=op)
    with pytest.raises(SessionNotFoundError):
        store.undo("gone")


def test_something_done_after_an_undo_ends_its_redo(store: SessionStore) -> None:
    session = store.create_session()
    store.set_name(session.id, "A name")
    store.undo(session.id)
    store.set_pinned(session.id, True)
    with pytest.raises(NothingToUndoError):
        store.redo(session.id)


def test_undo_touches_no_other_session(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    fork = store.fork(session.id)
    store.rewind(session.id, first)
    store.rewind(fork.id, None)
    store.undo(session.id)
    assert (store.leaf(session.id), store.leaf(fork.id)) == (second, None)


# --- odd sequences ----------------------------------------------------------------------------------------------------


def say(store: SessionStore, session_id: str, text: str) -> str:
    """Append a message as one operation and return its entry."""
    with store.recording(session_id, "append", "append 1 entry"):
        return store.append_message(session_id, {"role": "user", "content": text}).id


def test_undo_after_a_redo_out_of_order_takes_back_what_the_redo_restored(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        here = store.create_session().id
        one, two = say(store, here, "one"), say(store, here, "two")
        op = store.operations(here)[0].id
        store.undo(here)
        say(store, here, "three")
        store.redo(here, op=op)
        assert store.leaf(here) == two
        assert store.undo(here).undone.id == op
        assert store.leaf(here) == one


def test_undo_after_undoing_and_redoing_an_older_operation_takes_that_one_back(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        here = store.create_session().id
        one, two = say(store, here, "one"), say(store, here, "two")
        op = store.operations(here)[0].id
        store.set_label(here, one, "x")
        store.undo(here, op=op)
        store.redo(here)
        assert store.leaf(here) == two
        assert store.undo(here).undone.id == op
        assert list(store.labels(here)) == [one]


def test_undo_of_an_operation_before_a_rename_moves_the_renamed_branch(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        here = store.create_session().id
        one, three = say(store, here, "one"), say(store, here, "three")
        op = store.rewind(here, one).op
        store.rename_branch(here, "main", "foo")
        store.undo(here, op=op)
        assert [(branch.name, branch.leaf, branch.current) for branch in store.branches(here)] == [("foo", three, True)]
        store.undo(here)
        assert [branch.name for branch in store.branches(here)] == ["main"]
        assert store.verify() == []


def test_undo_of_an_operation_on_a_deleted_branch_leaves_it_deleted(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        here = store.create_session().id
        say(store, here, "one")
        store.create_branch(here, "b1", switch=True)
        say(store, here, "four")
        op = store.operations(here)[0].id
        store.switch(here, "main")
        store.delete_branch(here, "b1")
        undone = store.undo(here, op=op)
        assert [branch.name for branch in store.branches(here)] == ["main"]
        assert "b1 was deleted" in undone.skipped[0]


def test_undoing_the_beginning_of_a_session_says_what_was_written_in_it_and_how_it_comes_back(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        here = store.create_session().id
        say(store, here, "one")
        fork = store.fork(here).id
        op = store.operations(fork)[0].id
        leaf = say(store, fork, "work")
        undone = store.undo(fork, op=op)
        assert undone.session.deleted
        assert f"redo --op {op}" in undone.skipped[0]
        assert store.way_back(fork) == f"pi-session redo --op {op}"
        assert not store.redo(fork, op=op).session.deleted
        assert store.leaf(fork) == leaf
        removal = store.delete_session(fork)
        assert store.way_back(fork) == f"pi-session undo --op {removal}"
