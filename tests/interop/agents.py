"""Runs the real Claude Code and the real Codex on a mock server, each with a home of its own that is thrown away.

Nothing of this machine's own set-up reaches them: their environment holds a path, a home and the server's address.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.interop.mock_server import MockServer
from tests.interop.pi import HERE

Json = Any

BIN = HERE / "node_modules" / ".bin"
LIMIT_S = 60
QUIET = (
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)
CONFIG = """\
model = "{model}"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""


class Agent:
    """A tool with a home and a folder to work in.

    Args:
        folder: Holds both; `work` in it is where the tool works.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True, exist_ok=True)

    def _environ(self, more: dict[str, str]) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "dumb", "NO_COLOR": "1", **more}

    def _run(self, command: list[str], environ: dict[str, str], *, fails: bool) -> str:
        ended = subprocess.run(
            command,
            cwd=self.work,
            env=self._environ(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert (ended.returncode != 0) is fails, f"{ended.returncode}: {ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
        return ended.stdout


class ClaudeCode(Agent):
    """The real Claude Code, in print mode."""

    def ask(self, server: MockServer, prompt: str, *options: str, fails: bool = False) -> Json:
        """Let it answer a prompt; gives its closing JSON object."""
        environ = dict.fromkeys(QUIET, "1")
        environ |= {"CLAUDE_CONFIG_DIR": str(self.home / ".claude"), "ANTHROPIC_API_KEY": "local"}
        environ |= {"ANTHROPIC_BASE_URL": server.url, "CLAUDE_CODE_MAX_RETRIES": "0"}
        command = [str(BIN / "claude"), "-p", prompt, "--output-format", "json", *options]
        return json.loads(self._run(command, environ, fails=fails))

    @property
    def project(self) -> Path:
        """The folder of the transcripts of its working folder."""
        slug = "".join(letter if letter.isalnum() else "-" for letter in str(self.work))
        folder = self.home / ".claude" / "projects" / slug
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def transcript(self, session_id: str) -> Path:
        """The file of a session."""
        return self.project / f"{session_id}.jsonl"


class Codex(Agent):
    """The real Codex, in its non-interactive mode."""

    model = "gpt-5.2"

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.home / ".codex"

    def ask(self, server: MockServer, *arguments: str, fails: bool = False) -> list[Json]:
        """Run `codex exec` with some arguments; gives its events."""
        command = ["exec", *arguments[:-1], "--skip-git-repo-check", "--json", arguments[-1]]
        told = self._run([str(BIN / "codex"), *command], self._prepared(server), fails=fails)
        return [json.loads(line) for line in told.splitlines() if line.startswith("{")]

    def _prepared(self, server: MockServer) -> dict[str, str]:
        self.data.mkdir(exist_ok=True)
        config = CONFIG.format(model=self.model, url=server.url)
        (self.data / "config.toml").write_text(config, encoding="utf-8")
        return {"CODEX_HOME": str(self.data), "MOCK_KEY": "local"}

    def compact(self, server: MockServer, thread: str) -> None:
        """Compact a session as `/compact` does; only Codex's app server does so without a terminal."""
        self.serve(
            server,
            ("thread/resume", {"threadId": thread}, ""),
            ("thread/compact/start", {"threadId": thread}, "turn/completed"),
        )

    def serve(self, server: MockServer, *asked: tuple[str, Json, str]) -> list[Json]:
        """Ask Codex's app server, which its editors and its terminal use; gives the results.

        Args:
            asked: Method, its parameters and the notification to wait for, empty for none.
        """
        begin = ("initialize", {"clientInfo": {"name": "tests", "title": "tests", "version": "1"}}, "")
        results = []
        with subprocess.Popen(
            [str(BIN / "codex"), "app-server"],
            cwd=self.work,
            env=self._environ(self._prepared(server)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as served:
            assert served.stdin is not None
            assert served.stdout is not None
            late = threading.Timer(LIMIT_S, served.kill)
            late.start()
            for number, (method, params, ended) in enumerate((begin, *asked)):
                served.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
                served.stdin.flush()
                answer = next(told for told in map(json.loads, served.stdout) if told.get("id") == number)
                assert "error" not in answer, answer
                results.append(answer["result"])
                if not number:
                    served.stdin.write('{"method":"initialized"}\n')
                if ended:
                    assert any(told.get("method") == ended for told in map(json.loads, served.stdout))
            late.cancel()
            served.terminate()
        return results[1:]

    def place(self, text: str, session_id: str, stamp: str = "2026-01-01T00-00-00") -> Path:
        """Write a rollout where Codex looks for it."""
        folder = self.data / "sessions" / stamp[:4] / stamp[5:7] / stamp[8:10]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rollout-{stamp}-{session_id}.jsonl"
        path.write_text(text, encoding="utf-8")
        return path

    def rollouts(self) -> list[Path]:
        """All rollouts, oldest name first."""
        return sorted((self.data / "sessions").rglob("rollout-*.jsonl"), key=lambda path: path.name)
