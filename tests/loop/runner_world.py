"""A stored session to talk to: an open store, scripts for models, sleeps that are only noted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_loop import AssistantDraft, Model, ScriptedModel, Tool, tool
from pi_loop.events import AssistantMessageEvent, MessageEnd
from pi_loop.runner import SessionRunner
from pi_loop.runner_types import RunnerSettings
from pi_loop.types import Request, StreamFn, StreamOptions
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.messages import block_texts
from pi_sessions.store import SessionStore

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "cases"
MODEL = Model(id="demo", api="scripted", provider="scripted", context_window=200_000)


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class World:
    """One store with one session."""

    def __init__(self, folder: Path) -> None:
        self.file = str(folder / "sessions.db")
        self.store = SessionStore.open(self.file)
        self.sid = self.store.create_session(cwd="/proj").id
        self.sleeps: list[float] = []
        self.events: list[Any] = []

    def use_case(self, name: str) -> None:
        """Make an imported case the session."""
        self.sid = self.store.import_session(read_pi_file(str(CASES / name))).session.id

    def runner(
        self, script: StreamFn | Sequence[Any] = (), *, tools: Sequence[Tool] = (add,), **more: Any
    ) -> SessionRunner:
        """Return a runner whose events are collected."""
        stream_fn = script if callable(script) else ScriptedModel(list(script))
        more = {"model": MODEL, "sleep": self.sleep, "random": lambda: 0.0, **more}
        settings = more.pop("settings", {})
        made = SessionRunner(
            self.store, self.sid, stream_fn=stream_fn, tools=tools, settings=RunnerSettings(given=settings), **more
        )
        made.subscribe(self.events.append)
        return made

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await anyio.sleep(0)

    def shape(self, branch: str | None = None) -> list[str]:
        """Return the path as words: roles of messages, types of other entries."""
        path = self.store.path(self.sid, self.store.leaf(self.sid, branch))
        return [entry.role or entry.type for entry in path]

    def roles(self) -> list[str]:
        """Return the roles of the context."""
        return [one.message["role"] for one in self.store.context(self.sid).messages]

    def kinds(self, *types: str) -> list[str]:
        """Return the types of the events heard, in order; of given ones only."""
        return [event.type for event in self.events if not types or event.type in types]

    def calls_have_one_result_each(self) -> bool:
        calls, results = [], []
        for entry in self.store.path(self.sid):
            message = entry.message or {}
            if message.get("role") == "assistant" and message.get("stopReason") not in ("error", "aborted"):
                calls += [block["id"] for block in message["content"] if block["type"] == "toolCall"]
            elif message.get("role") == "toolResult":
                results.append(message["toolCallId"])
        return sorted(calls) == sorted(results)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    assert made.store.verify() == []
    made.store.close()


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    """Run an async function on each event loop."""
    backend: str = request.param

    def on_backend(work: Callable[[], Awaitable[Any]]) -> Any:
        async def within_limit() -> Any:
            with anyio.fail_after(10):
                return await work()

        return anyio.run(within_limit, backend=backend)

    return on_backend


def once(kind: str, act: Callable[[], Awaitable[Any]]) -> Callable[[Any], Awaitable[None]]:
    """Return a listener that does something at the first event of a type."""
    done = False

    async def listen(event: Any) -> None:
        nonlocal done
        if event.type == kind and not done:
            done = True
            await act()

    return listen


def asking(answer: Callable[[int, str], Any]) -> tuple[StreamFn, list[str]]:
    """Return a model that answers by number and text of the request, and the list of the requests' texts.

    The answer is a text, or a text with `error`.
    """
    asked: list[str] = []

    async def stream(model: Model, request: Request, _options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
        text = "\n".join(
            part for message in request.messages if message.role != "assistant" for part in block_texts(message.content)
        )
        asked.append(text)
        draft = AssistantDraft(model, timestamp=len(asked))
        yield draft.start()
        given = answer(len(asked), text)
        if isinstance(given, dict):
            yield draft.error(given["error"])
            return
        begun = draft.text_start()
        yield begun
        yield draft.text_delta(begun.content_index, given)
        yield draft.text_end(begun.content_index)
        yield draft.done("stop")

    return stream, asked


def ended(events: Sequence[Any], role: str) -> list[Any]:
    """Return the messages of a role that ended."""
    return [event.message for event in events if isinstance(event, MessageEnd) and event.message.role == role]
