"""A run that can be killed anywhere: a script, tools that leave marks on disk, and what has to hold afterwards."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from pi_loop import Model, ScriptedModel, ToolContext, tool
from pi_loop.runner import SessionRunner
from pi_loop.runner_types import EntryStored, RecoverAction, RunnerSettings
from pi_loop.types import Tool
from pi_sessions.connection import Connection
from pi_sessions.store import SessionStore
from tests.crash.children import Report

SESSION = "work"
MODEL = Model(id="demo", api="scripted", provider="scripted", context_window=200_000)
STEPS: list[Any] = [
    {
        "text": "Two things.",
        "calls": [{"name": "mark", "arguments": {"name": "a"}}, {"name": "mark", "arguments": {"name": "b"}}],
    },
    {"text": "half", "error": "503 overloaded"},
    {"calls": [{"name": "mark", "arguments": {"name": "c"}}]},
    "Done.",
    "And the follow-up.",
    "More.",
    "Still more.",
    "Enough.",
]


def marking_tool(folder: Path) -> Tool:
    @tool(name="mark")
    async def mark(name: str, context: ToolContext) -> str:
        """Leave a mark."""
        with open(folder / "marks", "a") as file:
            file.write(f"begin {context.call_id}\n")
        await anyio.sleep(0)
        with open(folder / "marks", "a") as file:
            file.write(f"end {context.call_id}\n")
        return f"marked {name}"

    return mark


def script(rounds: int) -> ScriptedModel:
    """Return what the model says; call ids differ between processes, so that a mark names one call."""
    steps = [
        {
            **step,
            "calls": [
                {**call, "id": f"call-{os.getpid()}-{rounds}-{place}-{number}"}
                for number, call in enumerate(step["calls"])
            ],
        }
        if isinstance(step, dict) and "calls" in step
        else step
        for place, step in enumerate(STEPS)
    ]
    return ScriptedModel(steps)


def runner(store: SessionStore, folder: Path, rounds: int = 0) -> SessionRunner:
    return SessionRunner(
        store,
        SESSION,
        stream_fn=script(rounds),
        model=MODEL,
        tools=[marking_tool(folder)],
        system="Be brief.",
        settings=RunnerSettings(given={"retry": {"baseDelayMs": 0}}),
        sleep=lambda _seconds: anyio.sleep(0),
        random=lambda: 0.0,
    )


def work(folder: Path, report: Report, *, durable: bool = False) -> None:
    """Run one prompt with steering and a follow-up; report each entry and each accepted message when it is stored."""
    store = SessionStore.open(str(folder / "s.db"), durable=durable)

    async def run() -> None:
        talking = runner(store, folder)
        steered = False

        async def listen(event: Any) -> None:
            nonlocal steered
            if isinstance(event, EntryStored):
                report(["entry", event.entry_id])
            if event.type == "message_update" and not steered:
                steered = True
                await talking.steer("steered")
                report(["accepted", "steered"])
                await talking.follow_up("followed up")
                report(["accepted", "followed up"])
            if event.type == "run_start":
                report(["accepted", "the prompt"])

        talking.subscribe(listen)
        outcome = await talking.prompt("the prompt")
        report(["outcome", outcome.status])

    anyio.run(run)


def recover(folder: Path, action: RecoverAction) -> None:
    """Open the session as the next process would, and deal with the cut-off run."""
    with SessionStore.open(str(folder / "s.db")) as store:

        async def run() -> None:
            await runner(store, folder, 1).recover(action)

        anyio.run(run)


def kill_at(commit: int, *, before: bool) -> Callable[[], None]:
    """Return a function that makes this process kill itself before or after its N-th commit."""

    def arm() -> None:
        left = commit
        plain = Connection.execute

        def execute(self: Connection, sql: str, parameters: Any = (), /) -> Any:
            nonlocal left
            if sql != "commit":
                return plain(self, sql, parameters)
            left -= 1
            if left == 0 and before:
                os.kill(os.getpid(), signal.SIGKILL)
            done = plain(self, sql, parameters)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        Connection.execute = execute  # type: ignore[method-assign]

    return arm


def check(folder: Path, acknowledged: list[Any], *, recovered_by: RecoverAction) -> None:
    """Everything that must hold after a kill and the recovery."""
    with SessionStore.open(str(folder / "s.db")) as store:
        assert store.verify() == []
        assert store.unfinished_runs(SESSION) == []
        path = store.path(SESSION)
        ids = {entry.id for entry in path}
        assert {what for kind, what in acknowledged if kind == "entry"} <= ids
        said = Counter(text(entry.message) for entry in path if entry.role == "user")
        for kind, what in acknowledged:
            if kind == "accepted":
                assert said[what] == 1, (what, said)
        assert max(said.values(), default=0) <= 1, said
        check_calls(folder, path)
        if recovered_by == "continue" and said:
            assert path[-1].role == "assistant"
        run = next((op for op in store.operations(SESSION) if op.command == "run"), None)
        if run is not None:
            undone = store.undo(SESSION)
            assert undone.undone.id == run.id
            assert store.leaf(SESSION) is None


def check_calls(folder: Path, path: list[Any]) -> None:
    """Each call that counts has one result, and none was entered twice."""
    calls: list[str] = []
    results: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for entry in path:
        message = entry.message or {}
        if message.get("role") == "assistant" and message.get("stopReason") not in ("error", "aborted"):
            calls += [block["id"] for block in message["content"] if block["type"] == "toolCall"]
        if message.get("role") == "toolResult":
            results[message["toolCallId"]] += 1
            texts[message["toolCallId"]] = text(message)
    assert results == Counter(calls)
    marks = folder / "marks"
    lines = marks.read_text().splitlines() if marks.exists() else []
    assert max(Counter(lines).values(), default=0) <= 1, lines
    for line in lines:
        word, call = line.split()
        if call in texts and word == "begin":
            assert "did not run" not in texts[call], (call, texts[call])


def text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
