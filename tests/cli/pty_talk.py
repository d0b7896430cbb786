"""A person in a real terminal: the program in a pseudo-terminal, its scripts, and the store beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect
from pexpect import fdpexpect

from pi_session_cli.main import main
from pi_sessions import SessionStore
from tests.cli.launcher import Stream
from tests.cli.pty_server import TerminalServer

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")
PROGRAM = [sys.executable, "-W", "error", "-m", "pi_session_cli"]
# Long enough for a busy machine; only a test that fails waits for it.
LIMIT_S = 30


class Person:
    """Somebody with a folder, a store and a script for the model.

    Args:
        server: Starts programs in terminals quickly; without it each is started on its own.
    """

    def __init__(self, folder: Path, server: TerminalServer | None = None) -> None:
        self.server = server
        self._started: list[subprocess.Popen[str]] = []
        self.work = folder / "work"
        self.work.mkdir()
        self.db = folder / "sessions.db"
        self.script_path = folder / "script.json"
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PI_", "COLUMNS", "LINES"))
        }
        self.env = inherited | {
            "HOME": str(folder),
            "PI_SESSION_DB": str(self.db),
            "TERM": "xterm",
            "NO_COLOR": "1",
            # This terminal does not answer questions about its cursor.
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "",
            "OPENAI_API_KEY": "",
        }

    def script(self, *steps: object, pace_ms: float = 0) -> list[str]:
        """Write the model's script; returns the option that names it."""
        self.script_path.write_text(json.dumps({"paceMs": pace_ms, "steps": steps}))
        return ["--script", str(self.script_path)]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command line to its end, without a terminal and in this process."""
        stdout, stderr = Stream(), Stream()
        code = main(argv, environ=self.env, stdin=Stream(), stdout=stdout, stderr=stderr, cwd=str(self.work))
        return subprocess.CompletedProcess(argv, code, stdout.content().decode(), stderr.content().decode())

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Begin a command line, without a terminal."""
        process = subprocess.Popen(
            [*PROGRAM, *argv],
            cwd=self.work, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what was started and still runs, so that a test that fails leaves nothing to the next ones."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def resume(self, *argv: str, **env: str) -> Terminal:
        """Open the conversation in a terminal."""
        if self.server is None:
            return Terminal([*PROGRAM, "resume", *argv], self.work, self.env | env)
        return ForkedTerminal(self.server, ["resume", *argv], self.work, self.env | env)

    def store(self) -> SessionStore:
        """Open the store to look at it."""
        return SessionStore.open(str(self.db), read_only=True)

    def messages(self, session: str | None = None) -> list[dict[str, Any]]:
        """Return the messages on the path to the leaf of a session, the newest by default."""
        with self.store() as store:
            sid = session or store.sessions(limit=1)[0].id
            return [entry.message for entry in store.path(sid) if entry.type == "message" and entry.message]

    def spoken(self, session: str | None = None) -> list[tuple[str, str]]:
        """Return who said what on the path to the leaf, tools and system left out."""
        return [
            (message["role"], text_of(message))
            for message in self.messages(session)
            if message["role"] in ("user", "assistant")
        ]

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait for something to be so."""
        deadline = time.monotonic() + LIMIT_S
        while not ready():
            assert time.monotonic() < deadline, "it did not come to pass"
            time.sleep(0.02)

    def until_idle(self, *last: str) -> None:
        """Wait until no run is going on, and the last things said are these."""

        def ready() -> bool:
            with self.store() as store:
                sid = store.sessions(limit=1)[0].id
                if store.unfinished_runs(sid):
                    return False
            said = [text for _, text in self.spoken()]
            return said[-len(last) :] == list(last) if last else True

        self.until(ready)


class Terminal:
    """The program in a terminal."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.child = pexpect.spawn(
            command[0], command[1:], cwd=str(cwd), env=env, encoding="utf-8", dimensions=(30, 110), timeout=LIMIT_S
        )
        self.child.delayafterclose = self.child.delayafterterminate = 0.01
        self._watch()

    def _watch(self) -> None:
        self.child.delaybeforesend = None
        self._raw: list[str] = []
        self.child.logfile_read = self

    def write(self, text: str) -> None:
        """Take what the program writes (called by pexpect)."""
        self._raw.append(text)

    def flush(self) -> None:
        """Nothing is held back (called by pexpect)."""

    @property
    def raw(self) -> str:
        """Everything so far, as the terminal got it."""
        return "".join(self._raw)

    @property
    def seen(self) -> str:
        """Everything so far without escape sequences."""
        return ESCAPES.sub("", self.raw)

    def sees(self, text: str) -> None:
        """Wait for a text."""
        try:
            self.child.expect_exact(text)
        except (pexpect.TIMEOUT, pexpect.EOF):
            raise AssertionError(f"{text!r} is not seen in:\n{self.seen[-2500:]}") from None

    def types(self, text: str) -> None:
        """Type something and press Enter."""
        self.child.send(text + "\r")

    def presses(self, keys: str) -> None:
        """Press keys."""
        self.child.send(keys)

    def leaves(self) -> int:
        """Press Ctrl-D and wait for the end; returns the exit code."""
        self.child.send("\x04")
        return self.ends()

    def ends(self) -> int:
        """Wait for the end; returns the exit code."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.close(force=True)


class ForkedTerminal(Terminal):
    """The program in a terminal, forked from a process that has loaded it."""

    def __init__(self, server: TerminalServer, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._server = server
        self._master = server.start(argv, str(cwd), env)
        self._ended = False
        self.child = fdpexpect.fdspawn(self._master, encoding="utf-8", timeout=LIMIT_S)
        self._watch()

    def ends(self) -> int:
        self.child.expect(pexpect.EOF)
        self._ended = True
        return self._server.exit_code(LIMIT_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing our end hangs the terminal up.
        self.child.close()
        if not self._ended:
            self._server.exit_code(LIMIT_S)


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or () if block.get("type") == "text")
