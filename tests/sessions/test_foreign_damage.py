"""Any damage to foreign sources: never a traceback, never a hang, every whole record kept, counts that add up."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_sessions.errors import SourceError
from pi_sessions.formats.json_items import JsonItems
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import FORMATS as KNOWN
from pi_sessions.formats.registry import find_sources, format_named, identify
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS, database
from tests.sessions.pi_files import check

DUMPS = {
    "opencode": "opencode/database.sql",
    "goose": "goose/sessions.sql",
    "llm": "llm/logs.sql",
    "messages": "messages/agents.sql",
}
FILES = {
    "gemini-cli": (
        "gemini/session-2026-09-01T10-00-0b1c2d3e.jsonl",
        "gemini/session-2025-09-01T10-00-0b1c2d3e.json",
        "gemini/checkpoint-oven%20plan.json",
    ),
    "pi-session": ("pi-session/export.json",),
    "goose": ("goose/20250220_090000.jsonl",),
    "messages": (
        "messages/fine-tune.jsonl",
        "messages/one-per-line.jsonl",
        "messages/chat.json",
        "messages/responses.json",
    ),
    "chatgpt": ("chatgpt/conversations.json",),
    "claude-ai": ("claude-ai/conversations.json",),
}
EVERY_FILE = [(name, file) for name, files in FILES.items() for file in files]
DAMAGE = st.sampled_from(["cut", "flip", "delete", "nul", "double", "swap", "noise"])
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def damaged(draw: st.DrawFn, raw: bytes, unit: int = 1) -> bytes:
    """Some bytes after some damage."""
    for _ in range(draw(st.integers(1, 4))):
        if not raw:
            break
        kind = draw(DAMAGE)
        at = draw(st.integers(0, len(raw) - 1))
        end = min(at + draw(st.integers(1, 64 * unit)), len(raw))
        if kind == "cut":
            raw = raw[:at]
        elif kind == "flip":
            raw = raw[:at] + bytes([raw[at] ^ (1 << draw(st.integers(0, 7)))]) + raw[at + 1 :]
        elif kind == "delete":
            raw = raw[:at] + raw[end:]
        elif kind == "nul":
            raw = raw[:at] + b"\0" * (end - at) + raw[end:]
        elif kind == "double":
            raw = raw[:end] + raw[at:end] + raw[end:]
        elif kind == "swap":
            half = (at + end) // 2
            raw = raw[:at] + raw[half:end] + raw[at:half] + raw[end:]
        else:
            raw = raw[:at] + draw(st.binary(max_size=20)) + raw[at:]
    return raw


@st.composite
def damaged_bytes(draw: st.DrawFn, raw: bytes, unit: int = 1) -> bytes:
    return damaged(draw, raw, unit)


def read_or_refused(name: str, path: Path) -> list[ParsedSession]:
    """Read a source of a format; a refusal is fine, anything else than sound sessions is not."""
    format = format_named(name)
    assert format is not None
    before = path.read_bytes()
    found: list[ParsedSession] = []
    with contextlib.suppress(SourceError):
        for session in format.read(str(path)):
            check(session)
            found.append(session)
    assert path.read_bytes() == before
    return found


@pytest.mark.parametrize(("name", "file"), EVERY_FILE, ids=[file for _name, file in EVERY_FILE])
@settings(max_examples=25, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_any_damage_to_a_file_is_read_or_refused(tmp_path: Path, name: str, file: str, data: st.DataObject) -> None:
    raw = (FORMATS / file).read_bytes()
    path = tmp_path / Path(file).name
    path.write_bytes(data.draw(damaged_bytes(raw)))
    read_or_refused(name, path)
    identify(str(path))


@pytest.mark.parametrize("name", DUMPS)
@settings(max_examples=25, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_any_damage_to_a_database_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    path = tmp_path / "source.db"
    path.unlink(missing_ok=True)
    raw = Path(database(tmp_path, DUMPS[name])).read_bytes()
    path.write_bytes(data.draw(damaged_bytes(raw, unit=32)))
    read_or_refused(name, path)
    identify(str(path))


@pytest.mark.parametrize("name", DUMPS)
def test_a_damaged_page_costs_what_lies_on_it_and_is_reported(tmp_path: Path, name: str) -> None:
    """Each page after the first is wiped in turn: refused, or nothing is missing, or it is said that something is."""
    path = Path(database(tmp_path, DUMPS[name]))
    connection = sqlite3.connect(path)
    connection.execute("pragma page_size = 512")
    connection.execute("vacuum")
    connection.close()
    raw = path.read_bytes()
    whole = {entry.payload for session in read_or_refused(name, path) for entry in session.entries}
    kept_most = 0
    for page in range(1, len(raw) // 512):
        path.write_bytes(raw[: page * 512] + b"\0" * 512 + raw[(page + 1) * 512 :])
        sessions = read_or_refused(name, path)
        kept = {entry.payload for session in sessions for entry in session.entries}
        # A page in the middle of a long text only shows by its NUL characters: SQLite has no checksums.
        told = any(session.losses for session in sessions) or any("\\u0000" in payload for payload in kept)
        assert not sessions or kept >= whole or told, page + 1
        kept_most += len(kept & whole) > len(whole) / 2
    assert kept_most > len(raw) // 512 / 3


@pytest.mark.parametrize("name", DUMPS)
def test_a_database_that_was_cut_off_keeps_what_is_there_and_says_so(tmp_path: Path, name: str) -> None:
    path = Path(database(tmp_path, DUMPS[name]))
    raw = path.read_bytes()
    pages = len(raw) // 4096
    whole = {entry.payload for session in read_or_refused(name, path) for entry in session.entries}
    kept_before = kept_most = 0
    for there in range(1, pages):
        path.write_bytes(raw[: there * 4096])
        sessions = read_or_refused(name, path)
        kept = len({entry.payload for session in sessions for entry in session.entries} & whole)
        if sessions:
            told = f"the database is cut off: {there} of its {pages} pages are there"
            assert told in [loss.message for loss in sessions[-1].losses]
        else:
            found = identify(str(path))
            assert found.format is not None or "is a damaged or cut-off database" in (found.reason or "")
        assert kept >= kept_before
        kept_before, kept_most = kept, max(kept, kept_most)
        assert path.read_bytes() == raw[: there * 4096]
    assert kept_most > len(whole) / 2


@pytest.mark.parametrize(("name", "file"), EVERY_FILE, ids=[file for _name, file in EVERY_FILE])
def test_importing_again_adds_nothing(tmp_path: Path, store: SessionStore, name: str, file: str) -> None:
    format = format_named(name)
    assert format is not None
    for session in format.read(str(FORMATS / file)):
        store.import_session(session)
    for session in format.read(str(FORMATS / file)):
        assert store.import_session(session).unchanged


@pytest.mark.parametrize("name", DUMPS)
def test_a_database_in_use_is_read_with_its_wal(tmp_path: Path, name: str) -> None:
    """Everything lies in the WAL while its program is open; nothing beside the database is made or changed."""
    path = tmp_path / "source.db"
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode = wal")
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.executescript((FORMATS / DUMPS[name]).read_text("utf-8"))
    before = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    (found,) = find_sources([str(path)])
    assert found.format is not None
    assert found.format.name == name
    sessions = read_or_refused(name, path)
    assert len(sessions) >= 1
    assert {each.name: each.stat().st_size for each in tmp_path.iterdir()} == before
    writer.execute("create table proof(x)")
    writer.close()


def test_a_database_left_behind_by_a_crash_is_read_from_a_copy(tmp_path: Path) -> None:
    """A WAL without its index: SQLite would have to write beside it."""
    path = tmp_path / "live" / "source.db"
    path.parent.mkdir()
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode = wal")
    writer.executescript((FORMATS / DUMPS["goose"]).read_text("utf-8"))
    left = tmp_path / "left"
    left.mkdir()
    for end in ("", "-wal"):
        (left / f"source.db{end}").write_bytes(Path(f"{path}{end}").read_bytes())
    writer.close()
    assert len(read_or_refused("goose", left / "source.db")) == 3
    assert sorted(each.name for each in left.iterdir()) == ["source.db", "source.db-wal"]


ITEMS = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=30)}), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(items=ITEMS, indent=st.sampled_from([None, 1]), data=st.data())
def test_whole_items_around_damage_are_kept(
    tmp_path: Path, items: list[dict[str, Any]], indent: int | None, data: st.DataObject
) -> None:
    """One item is torn anywhere; all others are given, in order."""
    torn = data.draw(st.integers(0, len(items) - 1))
    texts = [json.dumps(item, indent=indent) for item in items]
    cut = data.draw(st.integers(1, len(texts[torn]) - 1))
    texts[torn] = texts[torn][:cut]
    path = tmp_path / "list.json"
    path.write_text("[" + ",\n".join(texts) + "]", encoding="utf-8")
    is_item = lambda value: set(value) == {"role", "content"}  # noqa: E731
    read = JsonItems(str(path), is_item, is_item)
    given_items = [value for item in read for value in ([item.value] if item.parts is None else item.parts)]
    assert [value for value in given_items if value in items] == items[:torn] + items[torn + 1 :]
    assert read.losses


def test_values_nested_as_deep_as_json_can_be_read_are_no_traceback(tmp_path: Path) -> None:
    for depth in range(900, 1000):
        nested = '{"a":' * depth + "1" + "}" * depth
        call = f'{{"type":"tool_use","id":"1","name":"n","input":{nested}}}'
        path = tmp_path / "conversations.json"
        path.write_text(f'[{{"uuid":"c","chat_messages":[{{"uuid":"m","sender":"assistant","content":[{call}]}}]}}]')
        read_or_refused("claude-ai", path)


def test_every_format_names_files_it_could_have() -> None:
    """What a folder is searched for: at least the endings of the fixtures."""
    endings = {ending for format in KNOWN for ending in format.endings}
    assert {".jsonl", ".json", ".db", ".md"} <= endings
