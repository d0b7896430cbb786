"""A person's home for `pi-session run` against a server: a project folder, settings, one model, a store."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pi_loop.types import Model
from pi_sessions.store import SessionStore

Json = Any

PROGRAM = str(Path(sys.executable).with_name("pi-session"))
LIMIT_S = 60
SETTINGS: dict[str, dict[str, int]] = {
    "compaction": {"reserveTokens": 500, "keepRecentTokens": 50},
    "retry": {"maxRetries": 3, "baseDelayMs": 300},
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Home:
    """Where one person works.

    Args:
        folder: Its parts: `project`, `config`, `data`.
        model: The only model.
    """

    folder: Path
    model: Model

    @property
    def project(self) -> Path:
        """The folder tools work in."""
        return self.folder / "project"

    @property
    def store(self) -> Path:
        """The store file."""
        return self.folder / "data" / "pi-session" / "sessions.db"

    def content(self, name: str) -> str:
        """Give what a file of the project holds; empty when there is none."""
        file = self.project / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def environ(self) -> dict[str, str]:
        """Give the environment of a command."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
        own = {"HOME": str(self.folder), "NO_PROXY": "*", "PI_SESSION_DB": str(self.store)}
        return {**kept, **own, "XDG_CONFIG_HOME": str(self.folder / "config")}

    async def run(self, *words: str, code: int = 0, stop: signal.Signals | None = None) -> Ran:
        """Run a command to its end.

        Args:
            code: The exit code it must have.
            stop: Signal to send when the first text of an answer is out; the command must give lines of JSON.
        """
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *words,
            cwd=self.project,
            env=self.environ(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        first = b""
        if stop is not None:
            while b'"text_delta"' not in first:
                line = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
                assert line, first
                first += line
            process.send_signal(stop)
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode is not None
        ran = Ran(process.returncode, (first + out).decode(), err.decode())
        assert ran.code == code, ran
        return ran

    async def ask(self, prompt: str, *more: str, code: int = 0, stop: signal.Signals | None = None) -> Ran:
        """Run a prompt with all tools."""
        chosen = ("--model", f"{self.model.provider}/{self.model.id}", "--tools", "all", "--approve", "all")
        form = () if stop is None else ("--json",)
        return await self.run("run", prompt, *chosen, *more, *form, code=code, stop=stop)

    async def entries(self) -> list[Json]:
        """Give the entries of the current session's path."""
        exported = await self.run("export")
        return [json.loads(line) for line in exported.out.split("\n") if line][1:]

    async def messages(self, role: str) -> list[Json]:
        """Give the messages of one role on the current session's path."""
        return [each["message"] for each in await self.entries() if each.get("message", {}).get("role") == role]

    async def goes_on(self) -> None:
        """Check that the session is whole: verified, each call with one result, and another prompt is answered."""
        with SessionStore.open(str(self.store)) as store:
            assert store.verify() == []
        await self.ask("And what now?", "--last")
        answers = await self.messages("assistant")
        assert answers[-1]["stopReason"] == "stop", answers[-1]
        calls = [
            block["id"]
            for answer in answers
            if answer["stopReason"] not in ("error", "aborted")
            for block in answer["content"]
            if block["type"] == "toolCall"
        ]
        results = [result["toolCallId"] for result in await self.messages("toolResult")]
        assert Counter(calls) == Counter(results), (calls, results)


@contextmanager
def home(model: Model) -> Iterator[Home]:
    """Make a home that is thrown away."""
    with TemporaryDirectory(prefix="pi-session-live-") as place:
        made = Home(Path(place), model)
        config = made.folder / "config" / "pi-session"
        for each in (made.project, made.store.parent, config):
            each.mkdir(parents=True)
        (made.project / "notes.txt").write_text("the lease is 30 seconds\n", encoding="utf-8")
        window = model.context_window or 128_000
        models = [{"id": model.id, "contextWindow": window, "maxTokens": 1000, "reasoning": model.reasoning}]
        provider = {"baseUrl": model.base_url, "api": model.api, "apiKey": "test", "models": models}
        (config / "models.json").write_text(json.dumps({"providers": {model.provider: provider}}), encoding="utf-8")
        tables = (
            f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
            for name, table in SETTINGS.items()
        )
        (config / "config.toml").write_text("".join(tables), encoding="utf-8")
        yield made
