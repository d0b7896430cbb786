"""Runs the command line with a fixed clock, counted ids and streams of its own.

In tests: `Terminal(tmp_path).run("ls")`. As a program, for what only a process shows:
`python -m tests.cli.launcher ls`; the environment names its store.
"""

import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pi_session_cli.main import main

NOW_MS = 1_772_442_000_000  # 2026-03-02T09:00:00Z


def ticking(start_ms: int = NOW_MS, step_ms: int = 1000) -> Callable[[], int]:
    """Return a clock that goes on by a step each time it is read."""
    now = start_ms - step_ms

    def clock() -> int:
        nonlocal now
        now += step_ms
        return now

    return clock


def counting(form: str) -> Callable[[], str]:
    """Return a source of ids: the form with 1, 2, 3, ... filled in."""
    number = 0

    def new_id() -> str:
        nonlocal number
        number += 1
        return form.format(number)

    return new_id


class Stream(io.TextIOWrapper):
    """A text stream in memory that can claim to be a terminal."""

    def __init__(self, terminal: bool = False, content: bytes = b"", encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(content), encoding=encoding, errors="backslashreplace", newline="\n")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def content(self) -> bytes:
        """Return the bytes written."""
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


class Ran(NamedTuple):
    """What a command line did."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.raw.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        """Lines of standard output."""
        return self.out.splitlines()


class Terminal:
    """A person at a shell: a directory, an environment, a store."""

    def __init__(self, folder: Path, *, cwd: str = "/proj/demo", env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.cwd = cwd
        self.env = {"HOME": str(folder), "PI_SESSION_DB": str(folder / "sessions.db"), **(env or {})}
        self.clock = ticking()
        self.new_id = counting("e{:07d}")
        self.new_session_id = counting("{:08x}-0000-7000-8000-000000000000")

    def run(
        self,
        *argv: str,
        stdin: bytes = b"",
        columns: int | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        encoding: str = "utf-8",
    ) -> Ran:
        """Run a command line; with `columns` stdout is a terminal of that width."""
        width = {} if columns is None else {"COLUMNS": str(columns)}
        stdout, stderr = Stream(columns is not None, encoding=encoding), Stream()
        code = main(
            argv,
            clock=self.clock,
            new_id=self.new_id,
            new_session_id=self.new_session_id,
            environ={**self.env, **width, **(env or {})},
            stdin=Stream(content=stdin),
            stdout=stdout,
            stderr=stderr,
            cwd=self.cwd if cwd is None else cwd,
        )
        return Ran(code, stdout.content(), stderr.content().decode())

    def ok(self, *argv: str, **more: object) -> Ran:
        """Run a command line that must succeed."""
        ran = self.run(*argv, **more)  # type: ignore[arg-type]
        assert ran.code == 0, (argv, ran)
        return ran


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], clock=ticking(), new_id=counting("e{:07d}"), cwd=os.environ.get("LAUNCHER_CWD")))
