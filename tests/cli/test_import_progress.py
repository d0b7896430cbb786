"""What an import shows while it runs: on a terminal only, by bytes, also within one large file."""

import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from pi_session_cli.main import main
from pi_session_cli.render import import_progress
from pi_sessions import search_index
from pi_sessions.formats.bytes_read import Listening
from pi_sessions.formats.pi_reader import open_source
from tests.cli.launcher import Stream, Terminal
from tests.cli.test_import_all import pi_lines
from tests.sessions.foreign import FORMATS

SIZE = 4_000_000


@pytest.fixture
def large(shell: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that is read in several blocks and counts as large."""
    monkeypatch.setattr(import_progress, "MANY_BYTES", SIZE // 2)
    monkeypatch.setattr(import_progress, "_LARGE", SIZE // 2)
    path = shell.folder / "large\x1b[2J.jsonl"
    head, first = pi_lines().splitlines()
    entry = json.loads(first)
    entry["message"]["content"] = "hello " * 2000
    lines = [head]
    for number in range(SIZE // 12_000):
        entry |= {"id": f"a{number:07}", "parentId": f"a{number - 1:07}" if number else None}
        lines.append(json.dumps(entry))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what the bar is told."""
    told: list[dict[str, Any]] = []
    really = Progress.update

    def update(self: Progress, task_id: Any, **more: Any) -> None:
        told.append(more)
        really(self, task_id, **more)

    monkeypatch.setattr(Progress, "update", update)
    return told


def run(shell: Terminal, *words: str, terminal: bool = True) -> tuple[int, bytes, str]:
    """Run the program with a terminal for its talk; returns its code and what it wrote."""
    out, err = Stream(), Stream(terminal=terminal)
    code = main(["import", *words], environ=shell.env, cwd="/proj", stdin=Stream(), stdout=out, stderr=err)
    return code, out.content(), err.content().decode()


def test_a_large_file_shows_how_much_of_it_is_read(shell: Terminal, large: Path, updates: list[dict[str, Any]]) -> None:
    code, out, err = run(shell, str(large))
    assert code == 0
    done = [each["completed"] for each in updates if "completed" in each]
    size = large.stat().st_size
    assert len([each for each in done if 0 < each < size]) >= 3
    assert done == sorted(done)
    assert done[-1] == size
    said = [each["description"].partition(" ")[0] for each in updates if "description" in each]
    assert said == ["Reading", "Storing", "Reading"]
    assert "Indexing for search" in err
    assert err.index("Reading") < err.index("Indexing")
    assert "\x1b[2J" not in err, "names draw nothing"
    assert b"Reading" not in out


def test_a_dry_run_indexes_nothing(shell: Terminal, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def indexed(*_: object) -> int:
        raise AssertionError("the store of a dry run is searched by nobody")

    monkeypatch.setattr(search_index, "_index_some", indexed)
    code, out, err = run(shell, str(large), "--dry-run")
    assert code == 0
    assert b"would be added" in out
    assert "Reading" in err
    assert "Indexing" not in err


def test_many_small_sources_are_counted(shell: Terminal, updates: list[dict[str, Any]]) -> None:
    folder = shell.folder / "many"
    folder.mkdir()
    for number in range(import_progress.MANY_SOURCES + 1):
        (folder / f"{number:02}.jsonl").write_text(pi_lines().replace("s-1", f"s-{number}"))
    code, _out, _err = run(shell, str(folder))
    assert code == 0
    said = [each["description"] for each in updates if "description" in each]
    assert said[0] == "Reading 00.jsonl (1 of 13)"
    assert said[-1] == "Reading 12.jsonl (13 of 13)"
    before = len(updates)
    assert run(shell, str(folder))[2].count("Reading") == 0, "nothing changed, nothing is drawn"
    assert len(updates) == before


def test_few_small_sources_show_nothing(shell: Terminal, updates: list[dict[str, Any]]) -> None:
    assert run(shell, str(FORMATS / "codex"))[0] == 0
    assert updates == []


@pytest.mark.parametrize("way", ["pipe", "json"])
def test_nothing_is_shown_on_pipes_and_with_json(
    way: str, shell: Terminal, large: Path, updates: list[dict[str, Any]]
) -> None:
    words = ["--json"] if way == "json" else []
    code, _out, err = run(shell, str(large), *words, terminal=way == "json")
    assert code == 0
    assert updates == []
    assert "Reading" not in err
    assert "Indexing" not in err


def test_what_draws_is_loaded_only_to_draw(shell: Terminal) -> None:
    probe = (
        "import sys; from pi_session_cli.main import main; code = main(sys.argv[1:]);"
        " sys.exit(code or int(any(name.partition('.')[0] == 'rich' for name in sys.modules)))"
    )
    command = [sys.executable, "-c", probe, "import", str(FORMATS / "codex")]
    done = subprocess.run(command, env=shell.env, cwd=shell.folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_it_redraws_at_most_ten_times_a_second(shell: Terminal, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    really = Progress.__init__

    def begin(self: Progress, *columns: Any, refresh_per_second: float = 10, **more: Any) -> None:
        rates.append(refresh_per_second)
        really(self, *columns, refresh_per_second=refresh_per_second, **more)

    monkeypatch.setattr(Progress, "__init__", begin)
    assert run(shell, str(large))[0] == 0
    assert rates
    assert max(rates) <= 10


def test_a_database_advances_by_its_sessions(updates: list[dict[str, Any]]) -> None:
    """SQLite reads it, so that no bytes are heard."""
    with import_progress.Drawn(Stream(terminal=True), [1000, 50]) as progress:
        progress.begins("/home/me/sessions.db")
        progress.storing(400)
        progress.reading()
        progress.storing(300)
        progress.ends()
        progress.begins("/home/me/other.db")
        progress.storing(70)
        progress.ends()
    assert [each["completed"] for each in updates if "completed" in each] == [400, 700, 1000, 1050, 1050]


def test_an_interruption_ends_the_drawing(shell: Terminal, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: import_progress.Drawn, size: int) -> None:
        raise KeyboardInterrupt

    stopped: list[Progress] = []
    really = Progress.stop
    monkeypatch.setattr(Progress, "stop", lambda self: (stopped.append(self), really(self))[1])
    monkeypatch.setattr(import_progress.Drawn, "storing", interrupted)
    code, _out, err = run(shell, str(large))
    assert code == 130
    assert stopped
    assert err.rindex("\x1b[?25h") > err.rindex("Reading"), "the cursor is back"


def test_every_byte_of_a_source_is_heard_however_it_is_read(tmp_path: Path) -> None:
    raw = bytes(range(256)) * 9000
    plain, packed, archive = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz", tmp_path / "a.zip"
    plain.write_bytes(raw)
    packed.write_bytes(gzip.compress(raw))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.jsonl", raw)
        size = made.getinfo("a.jsonl").compress_size
    for path, told in ((plain, len(raw)), (packed, packed.stat().st_size), (archive / "a.jsonl", size)):
        counts: list[int] = []
        with Listening(counts.append), open_source(str(path)) as file:
            assert b"".join(file) == raw
        assert sum(counts) == told
    counts = []
    with Listening(counts.append), open_source(str(plain)) as file:
        assert file.read(10) == raw[:10]
        assert file.read() == raw[10:]
        assert file.seek(5) == 5
        assert file.read(5) == raw[5:10]
    assert sum(counts) >= len(raw)
    before = list(counts)
    with open_source(str(plain)) as file:
        file.read()
    assert counts == before
