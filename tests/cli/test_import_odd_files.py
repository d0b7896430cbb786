"""`import` of files with values nobody expects: the other files come in, and the odd one is named."""

import json
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats import foreign_database, message_lists_sources
from pi_sessions.formats.registry import identify
from tests.cli.launcher import Terminal
from tests.sessions.foreign import FORMATS, database, read_all

ODD = ({"a": 1}, ["user"], 7, None)


@pytest.mark.parametrize("name", ["type", "role", "id", "uuid", "sessionId"])
@pytest.mark.parametrize("value", ODD)
def test_an_odd_kind_keeps_no_other_file_out(shell: Terminal, name: str, value: object) -> None:
    folder = shell.folder / "mixed"
    folder.mkdir()
    (folder / "aa.jsonl").write_text(json.dumps({"type": "x", "id": "x", name: value}) + "\n")
    shutil.copy(FORMATS / "messages" / "chat.json", folder / "chat.json")
    ran = shell.run("import", str(folder))
    assert ran.code == 1
    assert "aa.jsonl" in ran.out
    assert "internal error" not in ran.out
    assert len(json.loads(shell.run("ls", "--all", "--json").out)["sessions"]) == 1


def everywhere(value: Any, odd: object) -> Iterator[Any]:
    """Yield a value with each of its kinds and roles made odd, one after the other."""
    if isinstance(value, dict):
        for name in value:
            if name in ("type", "role", "status", "name", "subtype", "finish_reason", "author", "sender", "id"):
                yield {**value, name: odd}
            for changed in everywhere(value[name], odd):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for place, item in enumerate(value):
            for changed in everywhere(item, odd):
                yield [*value[:place], changed, *value[place + 1 :]]


LISTS = ["messages/anthropic.json", "messages/chat.json", "messages/responses.json", "claude-ai/conversations.json"]


@pytest.mark.parametrize(
    "file", [*LISTS, "gemini/session-2025-09-01T10-00-0b1c2d3e.json", "gemini/checkpoint-oven%20plan.json"]
)
def test_odd_kinds_anywhere_in_a_list_break_no_reader(tmp_path: Path, file: str) -> None:
    given = json.loads((FORMATS / file).read_bytes())
    path = tmp_path / "list.json"
    for odd in ODD[:2]:
        for changed in everywhere(given, odd):
            path.write_text(json.dumps(changed))
            found = identify(str(path))
            assert "internal error" not in (found.reason or "")
            if found.format is not None:
                list(found.format.read(str(path)))


@pytest.mark.parametrize(("name", "dump"), [("goose", "goose/sessions.sql"), ("llm", "llm/logs.sql"),
                                            ("messages", "messages/agents.sql")])  # fmt: skip
def test_bytes_in_a_column_of_text_are_read_as_text(tmp_path: Path, name: str, dump: str) -> None:
    plain = read_all(name, database(tmp_path, dump, name="plain.db"))
    path = database(tmp_path, dump, name="bytes.db")
    connection = sqlite3.connect(path)
    connection.execute("pragma foreign_keys = off")
    for (table,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
        for row in connection.execute(f'pragma table_info("{table}")').fetchall():
            column, declared, key = row[1], row[2], row[5]
            if declared.upper() in ("TEXT", "JSON") and not key and not column.endswith(("id", "hash")):
                connection.execute(f'update "{table}" set "{column}" = cast("{column}" as blob)')
    connection.commit()
    connection.close()
    assert read_all(name, path).keys() == plain.keys()


def test_a_reader_that_fails_costs_its_file_only(shell: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shell.folder / "mixed"
    shutil.copytree(FORMATS / "codex" / "sessions", folder / "sessions")
    shutil.copy(FORMATS / "messages" / "chat.json", folder / "chat.json")

    def fails(path: str) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(message_lists_sources, "read_json", fails)
    ran = shell.run("import", str(folder), "--json")
    assert ran.code == 1
    told = json.loads(ran.out)
    (refused,) = (each for each in told["files"] if each["status"] == "refused")
    assert "chat.json: internal error reading it (KeyError: 'surprise')" in refused["reason"]
    assert told["totals"]["sessions"] > 0


def test_broken_archives_and_databases_in_a_folder_are_told_of(shell: Terminal) -> None:
    """What belongs to other programs stays unmentioned, as long as it can be told that it does."""
    folder = shell.folder / "mixed"
    folder.mkdir()
    shutil.copy(FORMATS / "messages" / "chat.json", folder / "chat.json")
    cuts = (("opencode.db", "opencode/database.sql", 3000), ("other-name.db", "goose/sessions.sql", 9000))
    for name, dump, size in (*cuts, ("mine.sqlite", "llm/logs.sql", 70_000)):
        path = Path(database(folder, dump, name=name))
        path.write_bytes(path.read_bytes()[:size])
    with zipfile.ZipFile(folder / "cut.zip", "w") as archive:
        archive.write(FORMATS / "chatgpt" / "conversations.json", "conversations.json")
    (folder / "cut.zip").write_bytes((folder / "cut.zip").read_bytes()[:-200])
    os.mkfifo(folder / "sessions.db")
    with sqlite3.connect(folder / "unrelated.db") as unrelated:
        unrelated.execute("create table t(x)")
    unrelated.close()
    (folder / "no-database.db").write_bytes(b"something else")
    (folder / "no-archive.zip").write_bytes(b"PK but nothing more")
    (folder / "empty.db").touch()
    ran = shell.run("import", str(folder), "--json")
    assert ran.code == 1
    told = json.loads(ran.out)
    reasons = {Path(each["path"]).name: each["reason"] for each in told["files"] if each["status"] == "refused"}
    assert reasons.keys() == {"opencode.db", "other-name.db", "mine.sqlite", "cut.zip", "sessions.db"}
    for name in ("opencode.db", "other-name.db", "mine.sqlite"):
        assert f"{name} is a damaged or cut-off database" in reasons[name] or f"{name} is damaged" in reasons[name]
        named = json.loads(shell.run("import", str(folder / name), "--json").out)
        assert named["files"][0]["reason"] == reasons[name]
    assert "is a damaged or cut-off zip archive" in reasons["cut.zip"]
    assert "is not a regular file" in reasons["sessions.db"]
    assert told["totals"]["sessions"] == 1
    assert [each["reason"] for each in json.loads(shell.run("import", str(folder), "--json").out)["files"][:5]] == [
        each["reason"] for each in told["files"][:5]
    ]


def test_a_database_that_somebody_holds_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(database(tmp_path, "goose/sessions.sql", name="sessions.db"))

    def held(*_: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    monkeypatch.setattr(foreign_database, "_connect", held)
    found = identify(str(path))
    assert found.reason == f"{path} cannot be read as a database: database is locked"
    assert found.broken, "it has the name of goose's database"
    other = path.rename(tmp_path / "places.db")
    assert not identify(str(other)).broken


def test_our_own_json_comes_back_in_another_store(shell: Terminal) -> None:
    shell.ok("import", str(FORMATS / "messages" / "chat.json"))
    (listed,) = json.loads(shell.ok("ls", "--all", "--json").out)["sessions"]
    shell.ok("label", "@-1", "asked")
    shell.ok("branch", "other")
    path = shell.folder / "out.json"
    path.write_text(shell.ok("export", listed["id"], "--format", "json", "--all-branches").out)
    again = json.loads(shell.ok("import", str(path), "--json").out)["files"][0]
    assert (again["sessionId"], again["status"], again["format"]) == (listed["id"], "unchanged", "pi-session")
    shell.env["PI_SESSION_DB"] = str(shell.folder / "other.db")
    new = json.loads(shell.ok("import", str(path), "--json").out)["files"][0]
    assert (new["sessionId"], new["status"]) == (listed["id"], "new")
    back = json.loads(shell.ok("export", listed["id"], "--format", "json", "--all-branches").out)
    told = json.loads(path.read_text())
    assert back.pop("session")["id"] == told.pop("session")["id"]
    assert back == told
