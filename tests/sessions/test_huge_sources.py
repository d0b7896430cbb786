"""Sessions too large for memory: their texts wait in a temporary file, and nothing about them is different."""

from __future__ import annotations

import gc
import json
import sqlite3
import weakref
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import SourceError
from pi_sessions.formats import building, json_items, pi_records, spool
from pi_sessions.formats.registry import format_named
from pi_sessions.formats.spool import Spool, SpooledEntry, TextBudget
from pi_sessions.search_index import catch_up, is_behind
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry

NOW = 1_800_000_000_000
FORMATS = Path("fixtures/formats")
SOURCES = [
    *(("pi", path) for path in sorted(Path("fixtures/sessions").glob("*.jsonl"))),
    *(
        (name, path)
        for name in ("claude-code", "codex", "chatgpt", "claude-ai", "gemini-cli", "goose", "messages")
        for ending in ("jsonl", "json")
        for path in sorted((FORMATS / name.removesuffix("-cli")).glob(f"**/*.{ending}"))
    ),
]
DATABASES = {
    "opencode": "opencode/database.sql",
    "goose": "goose/sessions.sql",
    "llm": "llm/logs.sql",
    "messages": "messages/agents.sql",
}
MakeSmall = Callable[[], None]


@pytest.fixture
def make_small(monkeypatch: pytest.MonkeyPatch) -> MakeSmall:
    """Let everything that holds a huge amount hold next to nothing."""

    def now() -> None:
        for module in (building, pi_records):
            monkeypatch.setattr(module, "BUDGET", 200)
        monkeypatch.setattr(spool, "_MOST_RECORDS", 1)
        monkeypatch.setattr(spool, "_BLOCK", 64)
        monkeypatch.setattr(json_items, "_HUGE", 20)
        monkeypatch.setattr(json_items, "_BLOCK", 50)
        monkeypatch.setattr("pi_sessions.appending._MOST_TEXT", 100)
        monkeypatch.setattr("pi_sessions.appending._MOST_ROWS", 2)
        monkeypatch.setattr("pi_sessions.search_index._MOST_TEXT", 100)

    return now


def read(name: str, path: Path) -> list[Any]:
    """Return all that a reader says of a source, as plain values."""
    format = format_named(name)
    assert format is not None
    try:
        return [
            {
                **session.as_dict(),
                "entries": [
                    (each.to_dict(), each.decoded_head(), each.time_ms, each.extra) for each in session.entries
                ],
                "lines": [*session.lines],
            }
            for session in format.read(str(path))
        ]
    except SourceError as error:
        return [error.message]


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=lambda each: getattr(each, "stem", each))
def test_a_session_reads_the_same_when_memory_is_short(name: str, path: Path, make_small: MakeSmall) -> None:
    plain = read(name, path)
    make_small()
    assert read(name, path) == plain


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_reads_the_same_when_memory_is_short(name: str, tmp_path: Path, make_small: MakeSmall) -> None:
    path = tmp_path / "source.db"
    connection = sqlite3.connect(path)
    connection.executescript((FORMATS / DATABASES[name]).read_text("utf-8"))
    connection.close()
    plain = read(name, path)
    make_small()
    assert read(name, path) == plain
    assert all("entries" in session for session in plain)


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai"])
def test_a_cut_off_huge_conversation_gives_what_is_whole(name: str, tmp_path: Path, make_small: MakeSmall) -> None:
    whole = (FORMATS / name / "conversations.json").read_bytes()
    path = tmp_path / "conversations.json"
    made: list[tuple[list[Any], list[Any]]] = []
    for end in range(len(whole) // 3, len(whole), len(whole) // 40):
        path.write_bytes(whole[:end])
        made.append((read(name, path), []))
    make_small()
    for number, end in enumerate(range(len(whole) // 3, len(whole), len(whole) // 40)):
        path.write_bytes(whole[:end])
        made[number][1].extend(read(name, path))
    for plain, short in made:
        ids = [{entry[0]["id"] for session in sessions for entry in session["entries"]} for sessions in (plain, short)]
        assert ids[0] == ids[1]
        assert [bool(session["losses"]) for session in plain] == [bool(session["losses"]) for session in short]


def test_what_is_stored_is_the_same_when_memory_is_short(tmp_path: Path, make_small: MakeSmall) -> None:
    def dump(file: str) -> list[tuple[object, ...]]:
        ids = (f"{number:08x}" for number in count())
        with SessionStore.open(str(tmp_path / file), clock=lambda: NOW, new_id=lambda: next(ids)) as store:
            for name, path in SOURCES:
                read_and_store(store, name, path)
            tables = ("entries", "segments", "origins", "branches", "tips", "compactions", "entry_blobs")
            return [row for table in tables for row in store.connection.execute(f"select * from {table} order by 1, 2")]

    def read_and_store(store: SessionStore, name: str, path: Path) -> None:
        format = format_named(name)
        assert format is not None
        try:
            for session in format.read(str(path)):
                store.import_session(session)
        except SourceError:
            return

    plain = dump("plain.db")
    make_small()
    assert dump("short.db") == plain


def test_an_entry_becomes_a_spooled_one_where_it_lies() -> None:
    message = {"role": "assistant", "content": "ä \U0001f600", "provider": "p", "model": "m", "timestamp": 5}
    entries = [
        StoredEntry.from_dict({"type": "message", "id": "a", "timestamp": 5, "message": message}),
        StoredEntry.from_dict({"type": "message", "id": "b", "timestamp": 7, "message": message | {"timestamp": 9}}),
        StoredEntry.from_dict({"type": "message", "id": "c", "message": {"role": ["odd"], "content": "x" * 300_000}}),
        StoredEntry.from_dict({"type": "custom", "id": "d", "customType": "t", "beside": 1}),
        StoredEntry.from_dict({"type": "message", "id": "e"}),
    ]
    before = [(each.to_dict(), each.head, each.role, each.payload, each.decoded_head()) for each in entries]
    TextBudget(entries, "source").put_away()
    assert all(type(each) is SpooledEntry for each in entries)
    assert [(each.to_dict(), each.head, each.role, each.payload, each.decoded_head()) for each in entries] == before
    entries[0].payload = json.dumps(message | {"content": "new"})
    assert entries[0].message == message | {"content": "new"}
    assert entries[1].message == message | {"timestamp": 9}


def test_texts_are_read_back_in_any_order() -> None:
    held = Spool()
    texts = [f"{number} " + "ü" * (number * 7919 % 400_000) for number in range(12)]
    places = [held.write(text) for text in texts[:6]]
    assert [held.read(place) for place in reversed(places)] == texts[5::-1]
    places += [held.write(text) for text in texts[6:]]
    assert [held.read(place) for place in places] == texts


def test_a_full_disk_refuses_the_source_and_says_why(monkeypatch: pytest.MonkeyPatch, make_small: MakeSmall) -> None:
    make_small()

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    (message,) = read("claude-code", FORMATS / "claude-code" / "kept-segment.jsonl")
    assert "cannot wait in a temporary file: No space left on device" in message


def test_the_index_is_made_in_small_portions(tmp_path: Path, make_small: MakeSmall) -> None:
    make_small()
    format = format_named("pi")
    assert format is not None
    (session,) = format.read("fixtures/sessions/compaction-and-edits.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        store.import_session(session)
        assert catch_up(store.connection) == len(session.entries)
        assert not is_behind(store.connection)


def test_statements_leave_nothing_behind_in_memory(tmp_path: Path) -> None:
    """A connection remembers the cursors that are in use, not all there ever were."""

    def references() -> int:
        return sum(type(each) is weakref.ReferenceType for each in gc.get_objects())

    with SessionStore.open(str(tmp_path / "s.db")) as store:
        before = references()
        for _ in range(5000):
            store.connection.execute("select 1").fetchone()
        assert references() - before < 1000
