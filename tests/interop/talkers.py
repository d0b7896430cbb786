"""Three who talk to a model on the same server: the real Pi, the command `pi-session run`, and a `SessionRunner`.

Each plays the same steps in a folder of its own and gives the lines of its session file.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from pi_loop.context_files import system_prompt
from pi_loop.events import event_to_wire
from pi_loop.models.custom import load_config
from pi_loop.models.registry import find_model
from pi_loop.providers.client import ClientSettings, ModelClient
from pi_loop.providers.retry import NO_RETRY
from pi_loop.runner import SessionRunner
from pi_loop.runner_types import RunnerSettings
from pi_loop.tools.coding import coding_tools
from pi_loop.tools.workspace import Workspace
from pi_loop.types import StreamOptions
from pi_sessions.formats.pi import pi_lines
from pi_sessions.store import SessionStore
from tests.interop.mock_server import ANTHROPIC, MockServer
from tests.interop.pi import HERE, NODE

Json = Any

TOOLS = ("read", "bash", "edit", "write")
PROVIDER, MODELS = "mock", ("first", "second")
SETTINGS: Json = {
    "compaction": {"enabled": True, "reserveTokens": 1000, "keepRecentTokens": 100},
    "retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 200},
}
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a person does.

    Args:
        prompt: What is asked; None compacts by hand.
        model: Model from here on.
        meanwhile: What is done once `when` has come: `abort`, or pairs like `("steer", TEXT)`, after which the server
            goes on.
        when: `said`: the beginning of a held answer was heard; `tool`: a command has made the file `started`;
            `waiting`: a failed answer will be asked for again.
    """

    prompt: str | None
    model: str = MODELS[0]
    meanwhile: tuple[str | tuple[str, str], ...] = ()
    when: str = "said"


def prepare(folder: Path, server: MockServer, api: str) -> dict[str, str]:
    """Make a home with both programs' settings and a project; gives the environment."""
    agent, project, config = folder / "agent", folder / "project", folder / "config" / "pi-session"
    for each in (agent, project, config):
        each.mkdir(parents=True)
    (project / "notes.txt").write_text("a note\n", encoding="utf-8")
    (project / "other.txt").write_text("another\n", encoding="utf-8")
    models = [{"id": name, "contextWindow": 128_000, "maxTokens": 4096} for name in MODELS]
    url = server.url if api == ANTHROPIC else f"{server.url}/v1"
    provider = {"baseUrl": url, "api": api, "apiKey": "local", "models": models}
    (agent / "models.json").write_text(json.dumps({"providers": {PROVIDER: provider}}), encoding="utf-8")
    (agent / "settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (config / "config.toml").write_text(_toml(SETTINGS), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "PI_CODING_AGENT_DIR": str(agent),
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "NO_PROXY": "*",
    }


def _toml(tables: dict[str, dict[str, object]]) -> str:
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


# --- the real Pi ------------------------------------------------------------------------------------------------


class Pi:
    """The real Pi in RPC mode; a context manager."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        command = [str(NODE), str(HERE / "node_modules" / ".bin" / "pi"), "--mode", "rpc", "--provider", PROVIDER]
        command += ["--model", MODELS[0], "--tools", ",".join(TOOLS)]
        with (folder / "pi-errors.txt").open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder / "project",
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._records: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Pi:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._records.put(json.loads(line))
        self._records.put({"type": "response", "success": False, "error": "Pi has ended"})

    def send(self, command: str, **fields: object) -> None:
        """Send a command; its answer is waited for with `wait`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"type": command, **fields}).encode() + b"\n")
        self._process.stdin.flush()

    def wait(self, fits: Callable[[Json], bool]) -> Json:
        """Give the next record that fits; passes over the others."""
        while True:
            record = self._records.get(timeout=LIMIT_S)
            if record["type"] == "response" and not record["success"]:
                raise AssertionError(record)
            if fits(record):
                return record

    def ask(self, command: str, **fields: object) -> Json:
        """Send a command and give its answer."""
        self.send(command, **fields)
        return self.wait(lambda record: record["type"] == "response" and record["command"] == command).get("data")


def talk_to_pi(folder: Path, environ: dict[str, str], server: MockServer, steps: list[Step]) -> list[Json]:
    """Let the real Pi play the steps."""
    with Pi(folder, environ) as pi:
        model = MODELS[0]
        for step in steps:
            if step.model != model:
                model = step.model
                pi.ask("set_model", provider=PROVIDER, modelId=model)
            if step.prompt is None:
                pi.ask("compact")
                continue
            pi.send("prompt", message=step.prompt)
            if step.when == "tool":
                _wait_for(folder / "project" / "started")
            elif step.meanwhile:
                pi.wait(partial(_is_time, step.when))
            for action in step.meanwhile:
                if action == "abort":
                    pi.send("abort")
                else:
                    pi.ask(action[0], message=action[1])
                    server.release.set()
            pi.wait(lambda record: record["type"] == "agent_settled")
    (file,) = (folder / "agent" / "sessions").rglob("*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


# --- pi-session run ---------------------------------------------------------------------------------------------


def talk_by_command(folder: Path, environ: dict[str, str], server: MockServer, steps: list[Step]) -> list[Json]:
    """Play the steps with one `pi-session` after the other."""
    program = [str(Path(sys.executable).with_name("pi-session"))]
    for number, step in enumerate(steps):
        command = [*program, "compact"]
        if step.prompt is not None:
            command = [*program, "run", step.prompt, "--model", f"{PROVIDER}/{step.model}"]
            command += ["--tools", ",".join(TOOLS), "--approve", "all"]
            command += ["--last"] if number else []
            # What is no terminal gets the text of whole answers only; the events come as they happen.
            command += ["--json"] if step.meanwhile and step.when == "said" else []
        with subprocess.Popen(
            command, cwd=folder / "project", env=environ, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1
        ) as process:
            if step.meanwhile:
                assert step.meanwhile == ("abort",)
                assert process.stdout is not None
                if step.when == "said":
                    assert any(b'"text_delta"' in line for line in process.stdout)
                else:
                    _wait_for(folder / "project" / "started")
                process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=LIMIT_S)
        wanted = (130,) if step.meanwhile else (0, 4)
        assert process.returncode in wanted, (process.returncode, out, errors)
    exported = subprocess.run(
        [*program, "export"], cwd=folder / "project", env=environ, capture_output=True, check=True, timeout=LIMIT_S
    )
    return [json.loads(line) for line in exported.stdout.split(b"\n") if line]


# --- SessionRunner ----------------------------------------------------------------------------------------------


def talk_by_runner(folder: Path, environ: dict[str, str], server: MockServer, steps: list[Step]) -> list[Json]:
    """Play the steps with one `SessionRunner`."""
    config = load_config([folder / "agent"])
    models = {name: find_model(f"{PROVIDER}/{name}", config, environ=environ) for name in MODELS}
    project = str(folder / "project")
    tools = coding_tools(Workspace(root=project, environ=environ), TOOLS)
    with SessionStore.open(str(folder / "s.db"), create=True) as store:
        session = store.create_session(cwd=project)

        async def play() -> None:
            runner = SessionRunner(
                store,
                session.id,
                stream_fn=ModelClient(ClientSettings(retry=NO_RETRY)),
                model=models[MODELS[0]],
                tools=tools,
                system=system_prompt(project, tools, []),
                settings=RunnerSettings(given=SETTINGS),
                stream_options=StreamOptions(api_key="local"),
            )
            for step in steps:
                if models[step.model] != runner.model:
                    await runner.set_model(models[step.model])
                if step.prompt is None:
                    await runner.compact()
                    continue
                async with anyio.create_task_group() as tasks:
                    heard = anyio.Event()
                    unsubscribe = runner.subscribe(partial(_hear, step.when, heard))
                    tasks.start_soon(runner.prompt, step.prompt)
                    if step.when == "tool":
                        await anyio.to_thread.run_sync(_wait_for, folder / "project" / "started")
                    elif step.meanwhile:
                        await heard.wait()
                    await _act(runner, server, step)
                unsubscribe()

        anyio.run(play)
        header = {"id": session.id, "cwd": project}
        return [json.loads(line) for line in pi_lines(header, store.path(session.id), leaf=store.leaf(session.id))]


def _hear(when: str, heard: anyio.Event, event: Any) -> None:
    if _is_time(when, event_to_wire(event)):
        heard.set()


async def _act(runner: SessionRunner, server: MockServer, step: Step) -> None:
    for action in step.meanwhile:
        if action == "abort":
            runner.abort()
            return
        await (runner.steer if action[0] == "steer" else runner.follow_up)(action[1])
    server.release.set()


def _is_time(when: str, event: Json) -> bool:
    """Whether an event, which both programs name alike, says that the time to do something has come."""
    if when == "waiting":
        return bool(event["type"] == "auto_retry_start")
    return bool(event["type"] == "message_update" and event["assistantMessageEvent"]["type"] == "text_delta")


def _wait_for(file: Path) -> None:
    end = time.monotonic() + LIMIT_S
    while not file.exists():
        assert time.monotonic() < end, f"{file} has not come"
        time.sleep(0.02)


# --- what is compared -------------------------------------------------------------------------------------------


def shape(lines: list[Json]) -> list[Json]:
    """Give the entries of a session file without ids and times: type, role, place of the parent and of other links."""
    _header, *entries = lines
    places = {entry["id"]: place for place, entry in enumerate(entries)}
    return [dict(_shape_of(entry, places)) for entry in entries]


def _shape_of(entry: Json, places: dict[str, int]) -> Iterator[tuple[str, Json]]:
    yield "type", entry["type"]
    yield "parent", places.get(entry["parentId"])
    for name in ("targetId", "firstKeptEntryId"):
        if name in entry:
            yield name, places[entry[name]]
    for name in ("replacement", "provider", "modelId", "thinkingLevel", "summary", "details"):
        if name in entry:
            yield name, entry[name]
    if entry["type"] == "compaction":
        yield "systemMessage", entry.get("systemMessage") is not None
    if entry["type"] == "message":
        yield from _message_shape(entry["message"])


def _message_shape(message: Json) -> Iterator[tuple[str, Json]]:
    yield "role", message["role"]
    for name in ("api", "provider", "model", "stopReason", "toolCallId", "toolName", "isError"):
        if name in message:
            yield name, message[name]
    if message["role"] != "system":
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield "content", [{key: block[key] for key in _SHOWN if key in block} for block in blocks]
    if message["role"] == "assistant":
        yield "usage", {key: message["usage"][key] for key in ("input", "output", "cacheRead", "totalTokens")}
        yield "hasError", "errorMessage" in message


_SHOWN = ("type", "text", "id", "name", "arguments")
