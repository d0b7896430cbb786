"""`import` over all tools: what is found, asked, skipped the second time, and reported."""

import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pi_session_cli.main import main
from pi_sessions import search_index
from pi_sessions.formats import archives
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.watching import Watcher
from pi_sessions.results import ImportResult
from pi_sessions.store import SessionStore
from tests.cli.launcher import Stream, Terminal
from tests.sessions.foreign import database

FIXTURES = Path(__file__).parents[2] / "fixtures"
FORMATS = FIXTURES / "formats"
SAMPLES = FIXTURES / "cases" / "samples"


@pytest.fixture
def home(shell: Terminal) -> Path:
    """Return a home folder with sessions of Claude Code, Codex and Pi."""
    home = shell.folder / "home"
    shutil.copytree(FORMATS / "claude-code", home / ".claude")
    shutil.copytree(FORMATS / "codex", home / ".codex")
    pi = home / ".pi" / "agent" / "sessions" / "--proj--"
    pi.mkdir(parents=True)
    shutil.copy(SAMPLES / "pi-v2-hook-message.jsonl", pi / "2026-01-01T00-00-00-000Z_a.jsonl")
    shell.env |= {"HOME": str(home)}
    return home


def test_all_asks_only_on_a_terminal_and_says_how_to_answer(shell: Terminal, home: Path) -> None:
    ran = shell.run("import", "--all")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert not Path(shell.env["PI_SESSION_DB"]).exists()


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"", 1)])
def test_the_question_names_what_was_found(shell: Terminal, home: Path, typed: bytes, code: int) -> None:
    stdin, err = Stream(terminal=True, content=typed), Stream()
    ran = main(["import", "--all"], environ=shell.env, cwd="/proj", stdin=stdin, stdout=Stream(), stderr=err)
    assert ran == code
    asked = err.content().decode()
    assert "Claude Code: 2 sources" in asked
    assert "Codex: 4 sources" in asked
    assert "Pi: 1 source" in asked
    assert Path(shell.env["PI_SESSION_DB"]).exists() == (code == 0)


def test_a_dry_run_shows_everything_and_stores_nothing(shell: Terminal, home: Path) -> None:
    report = json.loads(shell.ok("import", "--all", "--dry-run", "--json").out)
    assert report["dryRun"] is True
    assert {name: totals["sessions"] for name, totals in report["formats"].items()} == {
        "claude-code": 2, "codex": 4, "pi": 1,
    }  # fmt: skip
    assert not Path(shell.env["PI_SESSION_DB"]).exists()


def test_the_second_import_opens_nothing_and_adds_nothing(shell: Terminal, home: Path) -> None:
    first = json.loads(shell.ok("import", "--all", "--yes", "--json").out)
    assert first["totals"]["added"] > 80
    sources = [path for path in home.rglob("*.jsonl") if path.name.startswith(("rollout", "5f1e", "agent", "2026"))]
    stamps = {path: path.stat() for path in sources}
    for path in sources:
        # As long and as old as before, but no session any more: whoever opened it would notice.
        path.write_bytes(b"x" * stamps[path].st_size)
        os.utime(path, ns=(stamps[path].st_atime_ns, stamps[path].st_mtime_ns))
    second = json.loads(shell.ok("import", "--all", "--yes", "--json").out)
    assert {each["status"] for each in second["files"]} == {"unchanged"}
    assert second["totals"]["added"] == 0
    assert second["totals"]["shared"] == sum(each["added"] + each["shared"] for each in first["files"])


def test_a_source_that_grew_adds_only_what_is_new(shell: Terminal, home: Path) -> None:
    shell.ok("import", "--all", "--yes")
    (path,) = home.rglob("rollout-*0000000a.jsonl")
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One more"}]}
    with path.open("a") as file:
        file.write(
            json.dumps({"timestamp": "2026-04-02T08:09:00.000Z", "type": "response_item", "payload": item}) + "\n"
        )
    told = json.loads(shell.ok("import", "--all", "--yes", "--json").out)
    assert (told["totals"]["added"], [each["status"] for each in told["files"]].count("grown")) == (1, 1)


def test_subagents_are_hidden_from_ls_unless_asked_for(shell: Terminal, home: Path) -> None:
    shell.ok("import", str(home / ".claude"))
    listed = json.loads(shell.ok("ls", "--json").out)["sessions"]
    (main,) = [session["id"] for session in listed]
    everything = json.loads(shell.ok("ls", "--subagents", "--json").out)["sessions"]
    (child,) = [session for session in everything if session["id"] != main]
    assert (child["parentSession"], child["parentCall"]) == (main, "toolu_task")


def test_the_report_says_what_was_kept_and_what_nobody_knows(shell: Terminal, home: Path) -> None:
    path = next(home.rglob("rollout-*0000000a.jsonl"))
    ran = shell.ok("import", str(path), "--report", str(home / "report.json"))
    assert "kept as custom: 1 ghost_snapshot" in ran.out
    assert "not understood, line 41: " in ran.out
    (told,) = json.loads((home / "report.json").read_text())["files"]
    assert told["format"] == "codex"
    assert [item["line"] for item in told["unknown"]] == [41, 42, 43]
    assert told["kept"]["turn_context"] == 2
    assert told["losses"] == []


def test_losses_give_exit_code_1_each_time(shell: Terminal) -> None:
    path = shell.folder / "damaged.jsonl"
    lines = (SAMPLES / "codex-reduced.jsonl").read_text().splitlines()
    path.write_text("\n".join([*lines, '{"timestamp":"2026']))
    first = shell.run("import", str(path))
    again = shell.run("import", str(path))
    assert (first.code, again.code) == (1, 1)
    assert "line 14: the last line is cut off" in first.out
    assert "line 14: the last line is cut off" in again.out
    assert first.lines[-1].startswith("1 file, 9 entries added")
    assert again.lines[-1].startswith("1 file, 0 entries added")


def test_a_repeated_import_reports_the_same_totals(shell: Terminal) -> None:
    """Also of a session that is not stored, since nothing was said in what is left of it."""
    folder = shell.folder / "mixed"
    shutil.copytree(FORMATS / "codex" / "sessions", folder / "codex")
    path = database(folder, "opencode/database.sql", name="opencode.db")
    raw = bytearray(Path(path).read_bytes())
    raw[3 * 4096 : 3 * 4096 + 64] = b"x" * 64
    Path(path).write_bytes(raw)
    told = [json.loads(shell.run("import", str(folder), "--json").out) for _ in range(2)]
    first, again = (each["totals"] for each in told)
    assert any(each["status"] == "waiting" and each["losses"] for each in told[0]["files"])
    assert first["unknown"] > 2
    assert first["kept"] > 2
    assert first["losses"] > 0
    for name in ("kept", "unknown", "repairs", "losses", "refused"):
        assert first[name] == again[name], name
    shutil.rmtree(folder / "codex")
    shutil.copytree(FORMATS / "codex" / "sessions", folder / "codex")
    read_again = json.loads(shell.run("import", str(folder), "--json").out)["totals"]
    assert (read_again["kept"], read_again["unknown"]) == (first["kept"], first["unknown"])


def test_where_nothing_is_found_it_says_where_it_looked(shell: Terminal) -> None:
    home = shell.folder / "empty-home"
    home.mkdir()
    ran = shell.run("import", "--all", "--yes", env={"HOME": str(home)})
    assert ran.code == 0
    assert "None of the known tools keeps sessions here" in ran.err
    for place in (".claude/projects", ".codex/sessions", ".pi/agent/sessions", ".gemini/tmp"):
        assert str(home / place) in ran.err
    assert not Path(shell.env["PI_SESSION_DB"]).exists()


@pytest.mark.parametrize("place", ["nowhere/report.json", ".", "src.jsonl/report.json"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_imported(place: str, shell: Terminal) -> None:
    source = shell.folder / "src.jsonl"
    source.write_text(pi_lines())
    ran = shell.run("import", str(source), "--report", str(shell.folder / place))
    assert ran.code == 1
    assert "Cannot write the report" in ran.err
    assert not Path(shell.env["PI_SESSION_DB"]).exists()


def test_a_store_file_left_empty_by_an_interruption_is_said_to_be_empty_and_filled(shell: Terminal) -> None:
    Path(shell.env["PI_SESSION_DB"]).touch()
    ran = shell.run("ls")
    assert ran.code == 3
    assert "There is no store" in ran.err
    assert "the file is empty" in ran.err
    assert "pi-session import" in ran.err
    source = shell.folder / "src.jsonl"
    source.write_text(pi_lines())
    shell.ok("import", str(source))
    assert "hello" in shell.ok("ls", "--all").out


def test_a_zipped_export_is_read_once(shell: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = shell.folder / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.write(FORMATS / "chatgpt" / "conversations.json", "conversations-000.json")
        made.write(FORMATS / "claude-ai" / "conversations.json", "claude/conversations.json")
        made.writestr("user.json", "{}")
    first = json.loads(shell.ok("import", str(archive), "--json").out)
    assert {each["path"] for each in first["files"]} == {
        f"{archive}/conversations-000.json", f"{archive}/claude/conversations.json",
    }  # fmt: skip
    assert first["totals"]["sessions"] == 4
    assert [each["status"] for each in first["files"]].count("waiting") == 1
    listed = json.loads(shell.ok("ls", "--all", "--json").out)["sessions"]
    assert {each["name"] for each in listed} == {"A dot", "Bread", None}

    opened: list[str] = []
    really = archives.open_member

    def open_member(path: str) -> BinaryIO:
        opened.append(path)
        return really(path)

    monkeypatch.setattr(archives, "open_member", open_member)
    again = json.loads(shell.ok("import", str(archive), "--json").out)
    assert {each["status"] for each in again["files"]} == {"unchanged"}
    assert again["totals"]["added"] == 0
    assert set(opened) == {f"{archive}/user.json"}
    unpacked = shell.folder / "unpacked"
    shutil.copytree(FORMATS / "claude-ai", unpacked)
    assert json.loads(shell.ok("import", str(unpacked), "--json").out)["totals"]["added"] == 0


def test_a_damaged_archive_is_refused_and_keeps_nothing_else_out(shell: Terminal) -> None:
    archive = shell.folder / "cut.zip"
    archive.write_bytes(b"PK\x03\x04\x14\x00 cut off")
    ran = shell.run("import", str(archive), str(FORMATS / "claude-ai"))
    assert ran.code == 1
    assert "cut.zip is a damaged or cut-off zip archive" in ran.out
    assert "2 files" in ran.lines[-1]
    assert "1 file refused" in ran.lines[-1]


def test_help_and_report_tell_what_waits(shell: Terminal) -> None:
    told = " ".join(shell.ok("import", "--help").out.split())
    assert "nothing was said yet is reported as waiting" in told
    ran = shell.ok("import", str(FORMATS / "chatgpt"))
    assert [line.split("  ")[:2] for line in ran.lines if line.startswith("waiting")] == [["waiting", ""]]
    assert "nothing said yet" in ran.out


def test_wrong_words_are_usage_errors(shell: Terminal) -> None:
    for words in ([], ["--all", "x"], ["--watch", "--dry-run"], ["--watch", "--report", "r"]):
        assert shell.run("import", *words).code == 2


@pytest.mark.parametrize("form", ["claude-code", "codex"])
def test_export_writes_for_the_other_tool_and_says_what_is_missing(shell: Terminal, form: str) -> None:
    shell.ok("import", str(SAMPLES / "claude-code-reduced.jsonl"))
    ending = {"claude-code": "claude", "codex": "codex"}[form]
    file = shell.folder / f"a.{ending}.jsonl"
    told = json.loads(shell.ok("export", "-o", str(file), "--json").out)
    assert told["format"] == form
    assert bool(told["losses"]) == (form == "codex")
    ran = shell.ok("export", "--format", form)
    assert ("Not in the codex file" in ran.err) == (form == "codex")
    assert ran.raw == file.read_bytes()
    back = json.loads(shell.ok("import", str(file), "--json").out)
    # Also where the other form holds less: the entries are known by their ids.
    assert (back["files"][0]["format"], back["files"][0]["status"]) == (form, "unchanged")


@pytest.mark.parametrize(("sample", "form"), [("claude-code-reduced", "claude-code"), ("codex-reduced", "codex")])
def test_a_session_goes_on_here_and_back_to_its_own_tool(shell: Terminal, sample: str, form: str) -> None:
    shell.cwd = str(shell.folder)
    shell.ok("import", str(SAMPLES / f"{sample}.jsonl"))
    script = str(FIXTURES / "scripts" / "hello.json")
    for question in ("Go on.", "And now?"):
        assert "Hello." in shell.ok("run", question, "--last", "--script", script).out
    shell.ok("fork")
    shell.ok("compact", "--offline", "--to", "@-1")
    before = [each["message"] for each in json.loads(shell.ok("context", "--json").out)["messages"]]
    assert "compactionSummary" in [message["role"] for message in before]
    file = str(shell.folder / "back.jsonl")
    shell.ok("export", "--format", form, "-o", file)
    fresh = {"PI_SESSION_DB": str(shell.folder / "fresh.db")}
    told = json.loads(shell.ok("import", file, "--json", env=fresh).out)
    assert (told["files"][0]["format"], told["totals"]["losses"]) == (form, 0)
    after = [each["message"] for each in json.loads(shell.ok("context", "--json", env=fresh).out)["messages"]]
    assert [message for message in after if message["role"] != "system"] == [
        message for message in before if message["role"] != "system"
    ]


def test_an_interrupted_import_goes_on_where_it_was(
    shell: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SessionStore.import_session
    calls: list[str] = []

    def interrupted(self: SessionStore, parsed: ParsedSession, **more: Any) -> ImportResult:
        calls.append(parsed.id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, parsed, **more)

    monkeypatch.setattr(SessionStore, "import_session", interrupted)
    ran = shell.run("import", "--all", "--yes", "--json")
    assert ran.code == 130
    assert [each["status"] for each in json.loads(ran.out)["files"]] == ["new", "new"]
    monkeypatch.undo()
    told = json.loads(shell.ok("import", "--all", "--yes", "--json").out)
    assert [each["status"] for each in told["files"]].count("unchanged") == 2
    assert told["totals"]["sessions"] == 7


def test_an_interruption_while_indexing_leaves_that_to_the_next_search(
    shell: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(search_index, "_index_some", interrupted)
    told = json.loads(shell.ok("import", "--all", "--yes", "--json").out)
    assert told["totals"]["sessions"] == 7
    monkeypatch.undo()
    assert json.loads(shell.ok("search", "bakery", "--json").out)["indexed"] > 20


def pi_lines(version: int = 3) -> str:
    head = {"type": "session", "version": version, "id": "s-1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"}
    message = {"role": "user", "content": "hello", "timestamp": 1}
    first = {
        "type": "message",
        "id": "a1",
        "parentId": None,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": message,
    }
    return json.dumps(head) + "\n" + json.dumps(first) + "\n"


@pytest.mark.parametrize("link", ["", "symlink", "hardlink"])
def test_a_report_never_replaces_a_source_or_any_other_file(link: str, shell: Terminal) -> None:
    source, target = shell.folder / "src.jsonl", shell.folder / ("src.jsonl" if not link else "out.json")
    source.write_text(pi_lines())
    if link == "symlink":
        target.symlink_to(source)
    elif link == "hardlink":
        os.link(source, target)
    ran = shell.run("import", str(source), "--report", str(target))
    assert ran.code == 1
    assert target.name in ran.err
    assert source.read_text() == pi_lines()
    assert not Path(shell.env["PI_SESSION_DB"]).exists(), "nothing was imported"


def test_an_earlier_report_is_replaced(shell: Terminal) -> None:
    source, report = shell.folder / "src.jsonl", shell.folder / "report.json"
    source.write_text(pi_lines())
    shell.ok("import", str(source), "--report", str(report))
    shell.ok("import", str(source), "--report", str(report))
    assert json.loads(report.read_text())["files"][0]["status"] == "unchanged"


def test_an_empty_path_is_not_the_current_directory(shell: Terminal) -> None:
    (shell.folder / "src.jsonl").write_text(pi_lines())
    ran = shell.run("import", "", cwd=str(shell.folder))
    assert ran.code == 2
    assert "empty" in ran.err


@pytest.mark.parametrize("path", [".", "./", "sub/..", "././src.jsonl", ".//src.jsonl"])
def test_the_same_file_has_the_same_path_however_it_is_written(path: str, shell: Terminal) -> None:
    (shell.folder / "sub").mkdir()
    (shell.folder / "src.jsonl").write_text(pi_lines())
    told = json.loads(shell.ok("import", path, "--json", cwd=str(shell.folder)).out)
    assert [each["path"] for each in told["files"]] == [str(shell.folder / "src.jsonl")]


def test_databases_of_nobody_are_named_and_not_searched_for_json(shell: Terminal) -> None:
    other = shell.folder / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("create table t(x)")
        database.execute("insert into t values(?)", ("\n" + pi_lines(),))
    database.close()
    (shell.folder / "renamed.jsonl").write_bytes(other.read_bytes())
    for name in ("other.db", "renamed.jsonl"):
        ran = shell.run("import", str(shell.folder / name))
        assert ran.code == 1
        assert "an SQLite database of a program that is not known here" in ran.out
    source = shell.folder / "src.jsonl"
    source.write_text(pi_lines())
    shell.ok("import", str(source))
    assert "a store of pi-session itself" in shell.run("import", shell.env["PI_SESSION_DB"]).out


def test_a_newer_version_is_reported(shell: Terminal) -> None:
    source = shell.folder / "src.jsonl"
    source.write_text(pi_lines(version=4))
    ran = shell.ok("import", str(source))
    assert "version 4 is newer than 3" in ran.out


def test_linked_folders_are_searched_once_and_loops_end(shell: Terminal) -> None:
    home, real = shell.folder / "home", shell.folder / "real" / "--p--"
    sessions = home / ".pi" / "agent" / "sessions"
    sessions.mkdir(parents=True)
    real.mkdir(parents=True)
    (real / "2026_s.jsonl").write_text(pi_lines())
    (sessions / "--p--").symlink_to(real, target_is_directory=True)
    (sessions / "--again--").symlink_to(real, target_is_directory=True)
    (real / "loop").symlink_to(sessions, target_is_directory=True)
    told = json.loads(shell.ok("import", str(home / ".pi"), "--json").out)
    assert [each["status"] for each in told["files"]] == ["new"]
    watcher = Watcher([str(sessions)])
    assert watcher.changed() == [str(sessions / "--again--" / "2026_s.jsonl")]
    (real / "2026_t.jsonl").write_text(pi_lines())
    assert watcher.changed() == [str(sessions / "--again--" / "2026_t.jsonl")]
