"""Runs the real Pi 1.6.0 on session files and gives what it answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = Any

HERE = Path(__file__).parent
NODE = HERE / "node_modules" / ".bin" / "node"
TIMEOUT_S = 300


def read_files(files: Iterable[Path], folder: Path) -> list[Json]:
    """Return what Pi says of each file: id, name, leaf, entries, labels, context; or `error`."""
    listed = folder / "files.txt"
    listed.write_text("".join(f"{file}\n" for file in files), encoding="utf-8")
    return _run("read", listed)


def write_files(folder: Path) -> list[Json]:
    """Let Pi make session files in a folder; returns the same as `read_files` for each."""
    return _run("write", folder)


def _run(command: str, argument: Path) -> list[Json]:
    assert NODE.exists(), "Pi is not installed here; run: make interop"
    done = subprocess.run(
        [str(NODE), str(HERE / "driver.mjs"), command, str(argument)],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]
