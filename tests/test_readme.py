"""The README is the manual: what it shows runs, and it names every command there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pi_session_cli.catalog import NAMES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def environment(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PI_")}
    return inherited | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def test_every_console_command_works_in_the_order_shown(tmp_path: Path) -> None:
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) > 30
    script = "set -e\n" + "".join(f"echo '+ {number}' >&2\n{line}\n" for number, line in enumerate(commands))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60
    )
    failed = int(re.findall(r"^\+ (\d+)$", done.stderr, re.MULTILINE)[-1])
    assert done.returncode == 0, f"{commands[failed]}\n{done.stderr[-800:]}"


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_every_python_example_works(number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks("python")[number]],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    assert done.stdout.strip()


def test_every_command_is_in_the_tables_and_no_other() -> None:
    assert set(re.findall(r"^\| `pi-session (\w+)` \|", README, re.MULTILINE)) == set(NAMES)


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"^(?:\| `)?make ([a-z-]+)", README, re.MULTILINE))
    assert named
    assert named <= targets


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_an_example(name: str, tmp_path: Path) -> None:
    from io import StringIO

    from pi_session_cli.main import main

    out = StringIO()
    assert main([name, "--help"], environ={"HOME": str(tmp_path)}, stdout=out, stderr=StringIO()) == 0
    assert f"pi-session {name}" in out.getvalue().partition("Examples")[2]
