"""`import --watch`: new turns come in while it runs; an interruption ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pi_session_cli.main import main
from pi_sessions.search_index import is_behind
from pi_sessions.store import SessionStore
from tests.cli.launcher import Stream

SAMPLE = Path(__file__).parents[2] / "fixtures" / "cases" / "samples" / "codex-reduced.jsonl"


def wait_for(lines: list[str], stream: Path, count: int) -> list[str]:
    """Read a file until it has so many lines; fails after five seconds."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        lines = stream.read_text().splitlines()
        if len(lines) >= count:
            return lines
        time.sleep(0.05)
    raise AssertionError(f"only {len(lines)} of {count} lines came: {lines}")


def test_turns_come_in_while_they_are_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sessions = home / ".codex" / "sessions" / "2026"
    sessions.mkdir(parents=True)
    text = SAMPLE.read_text().splitlines(keepends=True)
    file = sessions / "rollout-a.jsonl"
    file.write_text("".join(text[:5]))
    env = {**os.environ, "HOME": str(home), "PI_SESSION_DB": str(tmp_path / "s.db")}
    env = {name: value for name, value in env.items() if name not in ("CODEX_HOME", "CLAUDE_CONFIG_DIR")}
    out = tmp_path / "out"
    with out.open("w") as stream:
        watching = subprocess.Popen(
            [sys.executable, "-m", "pi_session_cli", "import", "--watch", "--json"],
            env=env, stdout=stream, stderr=subprocess.PIPE, cwd=tmp_path,
        )  # fmt: skip
        try:
            first = json.loads(wait_for([], out, 1)[0])
            assert (first["status"], first["added"]) == ("new", 3)
            with file.open("a") as more:
                more.write("".join(text[5:]))
            written = time.monotonic()
            second = json.loads(wait_for([], out, 2)[1])
            assert time.monotonic() - written < 3
            assert (second["status"], second["added"], second["branch"]) == ("grown", 6, None)
            later = sessions / "later"
            later.mkdir()
            (later / "rollout-b.jsonl").write_text("".join(text).replace("9003", "9004").replace("clear", "good"))
            third = json.loads(wait_for([], out, 3)[2])
            assert (third["status"], third["added"]) == ("new", 9)
        finally:
            watching.send_signal(signal.SIGINT)
            _out, err = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert b"Traceback" not in err


def test_there_must_be_something_to_watch(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PI_SESSION_DB": str(tmp_path / "s.db")}
    err = Stream()
    assert main(["import", "--watch"], environ=environ, stdout=Stream(), stderr=err, cwd=str(tmp_path)) == 2
    assert b"name a folder" in err.content()
    assert not (tmp_path / "s.db").exists()


def test_the_index_is_current_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "rollout-a.jsonl"
    source.write_bytes(SAMPLE.read_bytes())
    looks: list[bool] = []

    def between_looks(_seconds: float) -> None:
        with SessionStore.open(str(tmp_path / "s.db"), read_only=True) as store:
            looks.append(is_behind(store.connection))
        if len(looks) == 2:
            raise KeyboardInterrupt
        source.write_text(source.read_text() + source.read_text().splitlines()[-1].replace("clear", "good") + "\n")

    monkeypatch.setattr(time, "sleep", between_looks)
    environ = {"HOME": str(tmp_path), "PI_SESSION_DB": str(tmp_path / "s.db")}
    argv = ["import", "--watch", str(source)]
    assert main(argv, environ=environ, stdout=Stream(), stderr=Stream(), cwd=str(tmp_path)) == 130
    assert looks == [False, False]
