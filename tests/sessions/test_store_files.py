"""The store's file: permissions, other programs' files, schemas, read-only use, several processes."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.connection import APPLICATION_ID, SCHEMA_VERSION
from pi_sessions.errors import (
    CannotError,
    EntryNotFoundError,
    InvalidReferenceError,
    SessionNotFoundError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreNotFoundError,
    StoreReadOnlyError,
    StoreTooNewError,
)
from pi_sessions.store import SessionStore
from tests.sessions.stores import open_store, talk


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_and_folder_are_for_the_person_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "deep" / "sessions.db"
    before = os.umask(0o000)
    try:
        with open_store(path) as store:
            talk(store, store.create_session().id, "one")
            modes = {mode_of(file) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {0o600}
    assert mode_of(path.parent) == 0o700


def test_a_store_is_the_same_after_reopening(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        session = store.create_session(cwd="/proj", name="A name")
        first, second = talk(store, session.id, "one", "two")
        store.rewind(session.id, first)
        store.set_label(session.id, second, "here")
        before = store.session(session.id)
    with open_store(tmp_path / "s.db", create=False) as store:
        assert store.session(session.id) == before
        assert store.leaf(session.id) == first
        assert store.tips(session.id) == [second]
        assert store.labels(session.id)[second].text == "here"
        assert store.verify() == []


def test_the_file_is_in_wal_mode_with_foreign_keys_and_a_version(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        pragma = {
            name: store.connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("journal_mode", "foreign_keys", "user_version", "application_id", "synchronous")
        }
    assert pragma == {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "user_version": SCHEMA_VERSION,
        "application_id": APPLICATION_ID,
        "synchronous": 1,
    }


def test_a_durable_store_waits_for_the_disk(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db", durable=True) as store:
        assert store.connection.execute("pragma synchronous").fetchone()[0] == 2


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreTooNewError, match=f"schema {SCHEMA_VERSION + 1}") as caught:
            open_store(path, read_only=read_only)
        assert caught.value.exit_code == 3
        assert caught.value.hint
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table theirs(x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreDamagedError, match="another program"):
        open_store(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]


@pytest.mark.parametrize("content", [b"not a database at all\n", b"SQLite format 3\x00" + b"\x07" * 200])
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert caught.value.exit_code == 3
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    with open_store(tmp_path / "s.db") as store:
        assert store.sessions() == []


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory"):
        open_store(tmp_path)


def test_a_store_in_a_place_that_is_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be made"):
        open_store(tmp_path / "file" / "s.db")


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_a_missing_store_is_made_only_when_asked(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "nowhere" / "s.db"
    with pytest.raises(StoreNotFoundError):
        open_store(path, **options)
    assert not path.parent.exists()


def test_a_read_only_store_reads_and_refuses_to_write(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(path) as store:
        session = store.create_session()
        (first,) = talk(store, session.id, "one")
    before = path.read_bytes()
    with open_store(path, read_only=True) as store:
        assert store.leaf(session.id) == first
        with pytest.raises(StoreReadOnlyError):
            talk(store, session.id, "two")
        with pytest.raises(StoreReadOnlyError):
            store.rewind(session.id, None)
        assert len(store.entries(session.id)) == 1
    assert path.read_bytes() == before


def test_a_read_only_store_sees_what_another_process_writes(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as writing, open_store(tmp_path / "s.db", read_only=True) as reading:
        session = writing.create_session()
        talk(writing, session.id, "one", "two")
        assert len(reading.entries(session.id)) == 2


def test_a_lock_held_too_long_is_said_and_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as one, open_store(tmp_path / "s.db", busy_timeout_s=0.05) as other:
        session = one.create_session()
        with one.transaction():
            one.set_name(session.id, "held")
            with pytest.raises(StoreBusyError) as caught:
                talk(other, session.id, "one")
        assert caught.value.exit_code == 3
        assert other.session(session.id).name == "held"
        assert talk(other, session.id, "one")


def test_a_transaction_is_all_or_nothing(store: SessionStore) -> None:
    session = store.create_session()
    before = list(store.connection.iterdump())

    def work() -> None:
        with store.transaction():
            talk(store, session.id, "one", "two")
            store.set_name(session.id, "lost")
            store.rewind(session.id, "gone")

    with pytest.raises(EntryNotFoundError):
        work()
    assert list(store.connection.iterdump()) == before


@pytest.mark.parametrize("session_id", ["", " ", "a b", "-a", "a-", "../x", "a/b", "ä", "."])
def test_a_session_id_that_cannot_be_one_is_refused(store: SessionStore, session_id: str) -> None:
    with pytest.raises(InvalidReferenceError):
        store.create_session(id=session_id)
    assert store.sessions() == []


def test_session_ids_are_unique_whatever_their_case(store: SessionStore) -> None:
    made = store.create_session(id="My.session-1_x")
    with pytest.raises(CannotError, match="already"):
        store.create_session(id="MY.SESSION-1_X")
    assert store.session("my.session-1_x") == made
    with pytest.raises(SessionNotFoundError):
        store.session("My.session")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("update branches set leaf = 99 << 24", "branch"),
        ("insert into tips(sid, key) values(1, 99 << 24)", "tip"),
        ("insert into labels(sid, target, text) values(1, 99 << 24, 'x')", "label"),
        ("update compactions set keep = 99 << 24", "compaction"),
        ("update sessions set branch = 'gone'", "current_branch"),
        ("update sessions set messages = messages + 1", "count"),
        ("update entries set payload = '{' where id = 'e001'", "payload"),
        ("update entries set id = 'e001' where id = 'e002'", "duplicate_id"),
        ("update segments set depth = depth + 1", "depth"),
        ("update segments set parent = 99 << 24", "parent"),
        ("update segments set parent = 99 << 24", "path"),
        ("delete from segments", "segment"),
        ("delete from entries where id = 'e001'", "gap"),
    ],
)
def test_each_broken_invariant_is_named(store: SessionStore, damage: str, code: str) -> None:
    session = store.create_session()
    talk(store, session.id, "one", "two")
    store.append(session.id, {"type": "compaction", "summary": "s", "firstKeptEntryId": "e002", "tokensBefore": 1})
    assert store.verify() == []
    store.connection.execute("pragma foreign_keys = off")
    store.connection.execute(damage)
    assert code in {problem.code for problem in store.verify()}


def test_a_store_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SessionStore.open(":memory:") as store:
        session = store.create_session()
        store.append_message(session.id, {"role": "user", "content": "gone soon"})
        assert store.verify() == []
        assert len(store.entries(session.id)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        "update entries set payload = cast(x'22ff22' as text)",
        "update entries set id = cast(x'ff' as text)",
        "update entries set payload = '{\"role\": '",
    ],
)
def test_texts_that_cannot_be_read_are_damage(damage: str, tmp_path: Path) -> None:
    """SQLite hands out the rows one by one, long after the statement itself went well."""
    with open_store(tmp_path / "s.db") as store:
        session = store.create_session(cwd="/proj")
        talk(store, session.id, "one", "two")
        store.connection.execute(damage)
        with pytest.raises(StoreDamagedError, match="damaged"):
            [entry.fields for entry in store.path(session.id)]
        with pytest.raises(StoreDamagedError):
            store.context(session.id)


def test_a_wrong_statement_stays_an_ordinary_error(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store, pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.connection.execute("select * from nothing_of_this_name")
