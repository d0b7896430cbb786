"""Labels, names, marks, branches and lists: facts outside the tree, and Pi's entries that set them."""

from __future__ import annotations

import pytest

from pi_sessions.errors import BranchError, EntryNotFoundError, InvalidEditError, InvalidReferenceError
from pi_sessions.store import SessionStore
from tests.sessions.stores import START_MS, SteadyClock, ids, talk
from tests.strategies import answer, message, user


def test_a_label_makes_no_entry_and_leaves_the_leaf_alone(store: SessionStore, clock: SteadyClock) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    clock.now_ms += 5
    op = store.set_label(session.id, first, " start ")
    label = store.labels(session.id)[first]
    assert (label.text, label.time_ms) == (" start ", START_MS + 5)
    assert (store.leaf(session.id), len(store.entries(session.id))) == (second, 2)
    assert store.operation(op).command == "label"


@pytest.mark.parametrize("cleared", [None, ""])
def test_a_label_is_replaced_and_cleared(store: SessionStore, cleared: str | None) -> None:
    session = store.create_session()
    (first,) = talk(store, session.id, "one")
    store.set_label(session.id, first, "a")
    store.set_label(session.id, first, "b")
    assert store.labels(session.id)[first].text == "b"
    store.set_label(session.id, first, cleared)
    assert store.labels(session.id) == {}
    store.undo(session.id)
    assert store.labels(session.id)[first].text == "b"


def test_a_label_on_an_entry_of_another_session_is_refused(store: SessionStore) -> None:
    session, other = store.create_session(), store.create_session()
    (theirs,) = talk(store, other.id, "one")
    with pytest.raises(EntryNotFoundError):
        store.set_label(session.id, theirs, "x")
    assert store.labels(other.id) == {}


def test_the_command_and_pis_entry_set_the_same_label(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    store.set_label(session.id, first, "by command")
    entry = store.append(session.id, {"type": "label", "targetId": first, "label": "by entry"})
    assert store.labels(session.id)[first].text == "by entry"
    assert entry.parent_id == second
    store.append(session.id, {"type": "label", "targetId": first})
    assert store.labels(session.id) == {}
    store.append(session.id, {"type": "label", "targetId": "gone", "label": "x"})
    store.append(session.id, {"type": "label", "targetId": second, "label": 5})
    assert store.labels(session.id) == {}


@pytest.mark.parametrize(
    ("given", "kept"), [("A name", "A name"), (" a\r\nb\n", "a b"), ("", None), ("  ", None), (None, None)]
)
def test_a_name_is_one_trimmed_line_and_makes_no_entry(
    store: SessionStore, given: str | None, kept: str | None
) -> None:
    session = store.create_session(name="before")
    store.set_name(session.id, given)
    assert store.session(session.id).name == kept
    assert store.entries(session.id) == []
    store.undo(session.id)
    assert store.session(session.id).name == "before"


def test_the_command_and_pis_entry_set_the_same_name(store: SessionStore) -> None:
    session = store.create_session()
    store.set_name(session.id, "by command")
    store.append(session.id, {"type": "session_info", "name": " by\nentry "})
    assert store.session(session.id).name == "by entry"
    store.append(session.id, {"type": "session_info", "name": ""})
    assert store.session(session.id).name is None


def test_marks_change_what_lists_show(store: SessionStore) -> None:
    plain, archived, removed = (store.create_session().id for _ in range(3))
    store.set_archived(archived, True)
    store.delete_session(removed)
    assert ids(store.sessions()) == [plain]
    assert set(ids(store.sessions(archived=True))) == {plain, archived}
    assert ids(store.sessions(deleted=True)) == [removed]
    assert store.count_sessions() == 2
    assert store.find_sessions("s-") == [store.session(plain), store.session(archived)]
    store.set_pinned(plain, True)
    assert store.session(plain).pinned
    for session_id in (archived, removed):
        store.undo(session_id)
    assert len(store.sessions()) == 3


def test_lists_filter_and_page_newest_message_first(store: SessionStore, clock: SteadyClock) -> None:
    made = []
    for number in range(5):
        clock.now_ms = START_MS + number * 1000
        session = store.create_session(cwd=f"/proj/{number % 2}", name=f"n{number}" if number > 2 else None)
        store.append_many(session.id, [user("q"), answer("a", provider="p", model=f"Model-{number}")])
        made.append(session.id)
    clock.now_ms += 1000
    store.append(made[0], user("again"))
    newest_first = [made[0], *made[:0:-1]]
    assert ids(store.sessions()) == newest_first
    assert ids(store.sessions(limit=2)) == newest_first[:2]
    assert ids(store.sessions(limit=2, offset=2)) == newest_first[2:4]
    assert ids(store.sessions(limit=None)) == newest_first
    assert ids(store.sessions(cwd="/proj/1")) == [made[3], made[1]]
    assert ids(store.sessions(cwd="/proj")) == []
    assert ids(store.sessions(named=True)) == [made[4], made[3]]
    assert ids(store.sessions(since_ms=START_MS + 4000)) == [made[0], made[4]]
    assert ids(store.sessions(model="model-3")) == [made[3]]
    assert ids(store.sessions(model="p/MODEL-3")) == [made[3]]
    assert ids(store.named_sessions("n3")) == [made[3]]


def test_a_clock_in_the_future_does_not_stick_at_the_top(store: SessionStore, clock: SteadyClock) -> None:
    strange, usual = store.create_session().id, store.create_session().id
    store.append(strange, message("user", "hi", timestamp=START_MS + 10**11))
    clock.now_ms += 1000
    store.append(usual, user("hi"))
    assert ids(store.sessions()) == [usual, strange]


def test_branches_are_made_renamed_and_deleted_without_losing_entries(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    made = store.create_branch(session.id, "idea", at=first, switch=True)
    assert (made.leaf, made.current) == (first, True)
    (third,) = talk(store, session.id, "three")
    assert store.rename_branch(session.id, "idea", "better").current
    assert store.session(session.id).branch == "better"
    with pytest.raises(BranchError, match="current"):
        store.delete_branch(session.id, "better")
    store.switch(session.id, "main")
    assert store.leaf(session.id) == second
    store.delete_branch(session.id, "better")
    assert [branch.name for branch in store.branches(session.id)] == ["main"]
    assert store.tips(session.id) == [third]


@pytest.mark.parametrize("name", ["", " ", " a", "a ", "a\nb", "\x1b[31m", "@here", "-x", "x" * 201])
def test_a_name_that_can_be_no_branch_is_refused(store: SessionStore, name: str) -> None:
    session = store.create_session()
    with pytest.raises((BranchError, InvalidReferenceError)):
        store.create_branch(session.id, name)
    with pytest.raises((BranchError, InvalidReferenceError)):
        store.rename_branch(session.id, "main", name)
    assert [branch.name for branch in store.branches(session.id)] == ["main"]


def test_unknown_and_taken_branches_are_refused(store: SessionStore) -> None:
    session = store.create_session()
    store.create_branch(session.id, "idea")
    for refused in (
        lambda: store.create_branch(session.id, "idea"),
        lambda: store.rename_branch(session.id, "idea", "main"),
        lambda: store.rename_branch(session.id, "gone", "new"),
        lambda: store.delete_branch(session.id, "gone"),
        lambda: store.switch(session.id, "gone"),
        lambda: store.leaf(session.id, "gone"),
    ):
        with pytest.raises(BranchError):
            refused()
    with pytest.raises(EntryNotFoundError):
        store.create_branch(session.id, "new", at="gone")
    assert len(store.branches(session.id)) == 2


def test_main_comes_first_among_branches(store: SessionStore) -> None:
    session = store.create_session()
    for name in ("a", "z", "b"):
        store.create_branch(session.id, name)
    assert [branch.name for branch in store.branches(session.id)] == ["main", "a", "b", "z"]


def test_an_omitted_message_leaves_the_context_and_comes_back_with_undo(store: SessionStore) -> None:
    session = store.create_session()
    first, second = talk(store, session.id, "one", "two")
    edit = store.edit_context(session.id, first, None)
    assert [one.entry_id for one in store.context(session.id).messages] == [second]
    assert (edit.type, store.leaf(session.id)) == ("context_edit", edit.id)
    result = store.undo(session.id)
    assert result.undone.command == "omit"
    assert [one.entry_id for one in store.context(session.id).messages] == [first, second]
    assert store.tips(session.id) == [edit.id]
    store.edit_context(session.id, first, {"content": "changed"})
    assert store.context(session.id).messages[0].message["content"] == "changed"


def test_an_edit_that_cannot_be_is_refused_and_writes_nothing(store: SessionStore) -> None:
    session = store.create_session()
    first, _second = talk(store, session.id, "one", "two")
    (model,) = ids(store.append_many(session.id, [{"type": "model_change", "provider": "p", "modelId": "m"}]))
    before = list(store.connection.iterdump())
    with pytest.raises(InvalidEditError):
        store.edit_context(session.id, model, None)
    with pytest.raises(InvalidEditError):
        store.edit_context(session.id, first, {"content": 5})
    with pytest.raises(EntryNotFoundError):
        store.edit_context(session.id, "gone", None)
    assert list(store.connection.iterdump()) == before


def test_the_session_of_a_directory_follows_what_is_done_there(store: SessionStore) -> None:
    assert store.current_session("/proj") is None
    first = store.create_session(cwd="/proj", place="/proj")
    second = store.create_session(cwd="/proj", place="/proj")
    assert store.current_session("/proj") == store.session(second.id)
    store.undo(second.id)
    assert store.current_session("/proj") == store.session(first.id)
    store.set_current("/proj", second.id)
    assert store.current_session("/proj") == store.session(second.id)
