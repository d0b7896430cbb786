"""What each hot command may import, and that the shortcuts taken for it give the right answers."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from pi_session_cli.settings import config_dir, data_dir

# The standard library that sqlite3, json, time and os bring along, and nothing else.
STANDARD = {
    "__future__", "_bisect", "_blake2", "_bootlocale", "_collections", "_collections_abc", "_datetime", "_functools",
    "_hashlib", "_heapq", "_json", "_operator", "_random", "_sha512", "_signal", "_sqlite3", "_sre", "_stat",
    "_struct", "binascii", "bisect", "collections", "copyreg", "datetime", "enum", "errno", "functools", "gc",
    "genericpath", "hashlib", "itertools", "json", "keyword", "math", "operator", "os", "posixpath", "re", "reprlib",
    "sqlite3", "stat", "time", "types", "zlib",
}  # fmt: skip
OURS = ("pi_session_cli", "pi_sessions")
FORBIDDEN = {
    "typer", "rich", "pydantic", "sqlite_utils", "httpx", "anyio", "platformdirs", "pathlib", "typing", "dataclasses",
    "tempfile", "inspect", "logging", "contextlib", "wcwidth", "tomllib", "click", "importlib.metadata", "pi_loop",
    "unicodedata",
}  # fmt: skip
HOT = [
    ["ls"],
    ["ls", "--json"],
    ["fork"],
    ["rewind", "@-1"],
    ["label", "@", "x"],
    ["undo"],
    ["redo"],
    ["switch", "main"],
    ["show"],
    ["show", "@"],
    ["log"],
    ["tree"],
    ["context"],
    ["context", "--json"],
    ["ops"],
    ["branch"],
    ["name"],
    ["append", "text"],
    ["stats"],
    ["ls", "--help"],
    ["--version"],
]
PROBE = """
import sys
before = set(sys.modules)
from pi_session_cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("MODULES " + " ".join(sorted(set(sys.modules) - before)) + "\\n")
sys.exit(code)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a store with a session, not all of it ASCII, whose latest operation was undone."""
    folder = tmp_path_factory.mktemp("startup")
    env = {**os.environ, "HOME": str(folder), "PI_SESSION_DB": str(folder / "s.db"), "PYTHONWARNINGS": "default"}
    for line in (["new"], ["append", "one", "日本語"], ["label", "@", "y"], ["undo"]):
        run = subprocess.run([sys.executable, "-m", "pi_session_cli", *line], env=env, cwd=folder, capture_output=True)
        assert run.returncode == 0, run.stderr
    return env | {"STARTUP_FOLDER": str(folder)}


def modules_after(line: list[str], env: dict[str, str]) -> set[str]:
    """Return the modules a command loads beyond those of a bare interpreter."""
    command = [sys.executable, "-c", PROBE, *line]
    run = subprocess.run(command, env=env, cwd=env["STARTUP_FOLDER"], capture_output=True, text=True)
    assert run.returncode == 0 or b"Nothing" in run.stderr.encode(), (line, run.stderr)
    told = next(text for text in run.stderr.splitlines() if text.startswith("MODULES "))
    return set(told.split()[1:])


@pytest.mark.parametrize("line", HOT, ids=" ".join)
def test_a_hot_command_loads_only_what_is_allowed(line: list[str], environment: dict[str, str]) -> None:
    loaded = modules_after(line, environment)
    foreign = {name for name in loaded if name.partition(".")[0] not in OURS}
    assert not loaded & FORBIDDEN
    assert "pi_sessions.cut_off" not in loaded, "loaded only where a run was cut off"
    assert {name.partition(".")[0] for name in foreign} <= STANDARD


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/me"},
        {"HOME": "/home/me/"},
        {"HOME": "/"},
        {"HOME": "/home/me", "XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "/config"},
        {"HOME": "/home/me", "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""},
        {"HOME": "/home/me", "XDG_DATA_HOME": "relative", "XDG_CONFIG_HOME": "~/x"},
        {"HOME": "relative"},
        {},
    ],
    ids=str,
)
def test_directories_are_those_of_platformdirs(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert Path(data_dir(os.environ)) == Path(platformdirs.user_data_dir("pi-session", appauthor=False))
    assert Path(config_dir(os.environ)) == Path(platformdirs.user_config_dir("pi-session", appauthor=False))


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    from pi_session_cli import VERSION

    assert version("pi-session") == VERSION
