"""What a person types to name a session or an entry."""

from __future__ import annotations

import pytest

from pi_sessions.errors import (
    AmbiguousReferenceError,
    EntryNotFoundError,
    InvalidReferenceError,
    SessionNotFoundError,
)
from pi_sessions.refs import resolve_entry, resolve_session, splits
from pi_sessions.store import SessionStore
from tests.sessions.stores import SteadyClock, talk
from tests.strategies import user


def test_a_session_is_named_by_id_name_or_prefix(store: SessionStore) -> None:
    first = store.create_session(id="019c5381-aaaa-1")
    second = store.create_session(id="019c5381-aaab-2", name="Refactor auth")
    assert resolve_session(store, first.id).id == first.id
    assert resolve_session(store, "019C5381-AAAA-1").id == first.id
    assert resolve_session(store, "019c5381-aaab").id == second.id
    assert resolve_session(store, "019C5381-AAAB").id == second.id
    assert resolve_session(store, "Refactor auth").id == second.id


def test_an_ambiguous_prefix_lists_all_candidates_and_picks_none(store: SessionStore) -> None:
    made = [store.create_session(id=f"019c5381-aaa{number}").id for number in range(3)]
    with pytest.raises(AmbiguousReferenceError) as caught:
        resolve_session(store, "019c5381-aaa")
    assert caught.value.candidates == tuple(made)
    assert all(one in (caught.value.hint or "") for one in made)


def test_an_exact_id_wins_over_longer_ids_and_a_name_over_prefixes(store: SessionStore) -> None:
    short = store.create_session(id="abcd")
    store.create_session(id="abcd-longer")
    named = store.create_session(name="abcd-l")
    assert resolve_session(store, "abcd").id == short.id
    assert resolve_session(store, "abcd-l").id == named.id


def test_two_sessions_of_one_name_are_ambiguous(store: SessionStore) -> None:
    made = {store.create_session(name="same").id for _ in range(2)}
    with pytest.raises(AmbiguousReferenceError) as caught:
        resolve_session(store, "same")
    assert set(caught.value.candidates) == made


@pytest.mark.parametrize("ref", ["", "  ", "abc"])
def test_blank_and_short_names_are_refused(store: SessionStore, ref: str) -> None:
    store.create_session(id="abcdef")
    with pytest.raises(InvalidReferenceError):
        resolve_session(store, ref)


def test_an_unknown_name_is_refused_and_never_falls_through(store: SessionStore) -> None:
    store.create_session(cwd="/proj", place="/proj")
    for ref, env in (("gone-1234", None), (None, "gone-1234")):
        with pytest.raises(SessionNotFoundError, match="gone-1234"):
            resolve_session(store, ref, env_id=env, place="/proj")


def test_the_characters_of_like_and_glob_are_ordinary_in_a_prefix(store: SessionStore) -> None:
    store.create_session(id="abcdef")
    for ref in ("____", "%%%%", "a%cdef", "****", "abc?"):
        with pytest.raises(SessionNotFoundError):
            resolve_session(store, ref)


def test_without_a_name_the_environment_counts_then_the_directory_then_its_newest(
    store: SessionStore, clock: SteadyClock
) -> None:
    old = store.create_session(cwd="/proj")
    clock.now_ms += 1000
    new = store.create_session(cwd="/proj")
    store.append(new.id, user("hi"))
    assert resolve_session(store, None, place="/proj").id == new.id
    store.set_current("/proj", old.id)
    assert resolve_session(store, None, place="/proj").id == old.id
    assert resolve_session(store, None, env_id=new.id, place="/proj").id == new.id
    with pytest.raises(SessionNotFoundError):
        resolve_session(store, None, place="/else")
    with pytest.raises(SessionNotFoundError):
        resolve_session(store, None)


def test_a_removed_session_is_named_only_where_removed_ones_are_meant(store: SessionStore) -> None:
    session = store.create_session(id="abcdef", cwd="/proj", place="/proj")
    store.delete_session(session.id)
    with pytest.raises(SessionNotFoundError, match="removed") as caught:
        resolve_session(store, session.id)
    assert "undo" in (caught.value.hint or "")
    with pytest.raises(SessionNotFoundError):
        resolve_session(store, "abcd")
    with pytest.raises(SessionNotFoundError):
        resolve_session(store, None, place="/proj")
    assert resolve_session(store, session.id, removed=True).id == session.id
    assert resolve_session(store, None, place="/proj", removed=True).id == session.id


def test_the_leaf_and_user_messages_back_from_it(store: SessionStore) -> None:
    session = store.create_session()
    assert resolve_entry(store, session.id, "@") is None
    path = talk(store, session.id, "one", "two", "three", "four")
    assert resolve_entry(store, session.id, "@") == path[3]
    assert resolve_entry(store, session.id, "@-1") == path[2]
    assert resolve_entry(store, session.id, "@-2") == path[0]
    with pytest.raises(EntryNotFoundError, match="2 user messages"):
        resolve_entry(store, session.id, "@-3")
    for ref in ("@-0", "@--1", "@1", "@x", "@-", "@-1x", "@-²"):
        with pytest.raises(InvalidReferenceError):
            resolve_entry(store, session.id, ref)


def test_an_entry_is_named_by_id_branch_label_or_prefix(store: SessionStore) -> None:
    session = store.create_session()
    for entry_id in ("a1b2", "a1b2c3d4", "ffff0000"):
        store.append(session.id, {**user("x"), "id": entry_id})
    store.create_branch(session.id, "idea", at="a1b2c3d4")
    store.set_label(session.id, "ffff0000", "checkpoint 1")
    assert resolve_entry(store, session.id, "a1b2") == "a1b2"
    assert resolve_entry(store, session.id, "a1b2c") == "a1b2c3d4"
    assert resolve_entry(store, session.id, "idea") == "a1b2c3d4"
    assert resolve_entry(store, session.id, "checkpoint 1") == "ffff0000"
    assert resolve_entry(store, session.id, "ffff") == "ffff0000"
    for ref in ("fff", "gone", "A1B2"):
        with pytest.raises(EntryNotFoundError):
            resolve_entry(store, session.id, ref)
    for ref in ("", "  "):
        with pytest.raises(InvalidReferenceError):
            resolve_entry(store, session.id, ref)


def test_several_entries_that_fit_are_listed(store: SessionStore) -> None:
    session = store.create_session()
    for entry_id in ("abcd1111", "abcd2222"):
        store.append(session.id, {**user("x"), "id": entry_id})
        store.set_label(session.id, entry_id, "same")
    for ref in ("abcd", "same"):
        with pytest.raises(AmbiguousReferenceError) as caught:
            resolve_entry(store, session.id, ref)
        assert set(caught.value.candidates) == {"abcd1111", "abcd2222"}


def test_entries_of_other_sessions_are_not_seen(store: SessionStore) -> None:
    session, other = store.create_session(), store.create_session()
    store.append(session.id, {**user("x"), "id": "abcd1111"})
    store.append(other.id, {**user("x"), "id": "abcd2222"})
    assert resolve_entry(store, session.id, "abcd") == "abcd1111"
    with pytest.raises(EntryNotFoundError):
        resolve_entry(store, session.id, "abcd2222")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("abcd", []),
        ("s:e", [("s", "e")]),
        ("s:@-2", [("s", "@-2")]),
        (":e", [("", "e")]),
        ("a: b:e", [("a", " b:e"), ("a: b", "e")]),
    ],
)
def test_a_reference_may_name_session_and_entry(text: str, parts: list[tuple[str, str]]) -> None:
    assert splits(text) == parts
