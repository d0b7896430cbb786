"""What the loop costs: a text delta through Agent with one subscriber, and a parallel tool call.

`python -m tests.benchmarks.loop` prints a table; each figure is the best of several rounds, in CPU time where one
process does the work. Beside it stands Pi's own agent core (Node), when `node` is on the path and the package
@earendil-works/pi-agent-core is installed in the folder that `PI_AGENT_CORE` names (without it: tests/interop);
otherwise the column is left out.
"""

import gc
import json
import os
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import anyio

from pi_loop.agent import Agent
from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, LoopEvent, ToolResult
from pi_loop.types import Model, Request, StreamOptions, Tool
from pi_sessions.messages import TextContent, ToolCall

MODEL = Model(id="bench", api="scripted", provider="scripted")
DELTA = "lorem "
DELTA_COUNTS = (10_000, 100_000, 200_000)
MEMORY_COUNTS = (10_000, 100_000)
CALL_COUNTS = (1_000, 4_000, 10_000)


def streaming(deltas: int) -> Callable[[Model, Request, StreamOptions], AsyncIterator[AssistantMessageEvent]]:
    """A stream function that answers with so many deltas."""

    async def stream(model: Model, request: Request, options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
        draft = AssistantDraft(model, timestamp=0)
        yield draft.start()
        yield draft.text_start()
        for _ in range(deltas):
            yield draft.text_delta(0, DELTA)
        yield draft.text_end(0)
        yield draft.done("stop")

    return stream


def calling(calls: int) -> Callable[[Model, Request, StreamOptions], AsyncIterator[AssistantMessageEvent]]:
    """A stream function that makes so many calls in its first answer, and none in its second."""

    async def stream(model: Model, request: Request, options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
        draft = AssistantDraft(model, timestamp=0)
        yield draft.start()
        if request.messages[-1].role == "toolResult":
            yield draft.done("stop")
            return
        for number in range(calls):
            start = draft.toolcall_start(f"c{number}", "work")
            yield start
            call = ToolCall(id=f"c{number}", name="work", arguments={"n": number})
            yield draft.toolcall_end(start.content_index, call)
        yield draft.done("toolUse")

    return stream


async def _work(call_id: str, args: object, signal: object, on_update: object) -> ToolResult:
    return ToolResult(content=[TextContent(text="ok")], details={})


WORK = Tool(
    name="work",
    description="work",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    execute=_work,
)


class Counter:
    """A subscriber that only counts."""

    def __init__(self) -> None:
        self.events = 0

    def __call__(self, event: LoopEvent, signal: object) -> None:
        self.events += 1


async def run_deltas(deltas: int) -> float:
    """Stream one answer; CPU seconds of the run."""
    counter = Counter()
    agent = Agent(streaming(deltas), model=MODEL)
    agent.subscribe(counter)
    started = time.process_time()
    await agent.prompt("go")
    elapsed = time.process_time() - started
    assert counter.events > deltas
    return elapsed


async def run_calls(calls: int) -> float:
    """Run one parallel batch and the answer after it; CPU seconds of the run."""
    counter = Counter()
    agent = Agent(calling(calls), model=MODEL, tools=[WORK])
    agent.subscribe(counter)
    started = time.process_time()
    await agent.prompt("go")
    elapsed = time.process_time() - started
    assert sum(message.role == "toolResult" for message in agent.state.messages) == calls
    return elapsed


def best(run: Callable[[int], Coroutine[object, object, float]], size: int, rounds: int) -> float:
    """The fastest of some rounds, in seconds; garbage of earlier rounds is collected first."""
    times = []
    for _ in range(rounds):
        gc.collect()
        times.append(anyio.run(run, size))
    return min(times)


def peak_memory(deltas: int) -> int:
    """Most bytes held at once while so many deltas are streamed."""
    tracemalloc.start()
    anyio.run(run_deltas, deltas)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def pi_figures() -> dict[str, float]:
    """Pi's own core on the same work, in microseconds an item; empty when it is not there."""
    folder = Path(os.environ.get("PI_AGENT_CORE") or Path(__file__).parents[1] / "interop")
    node = shutil.which("node")
    if node is None or not (folder / "node_modules" / "@earendil-works" / "pi-agent-core").exists():
        return {}
    script = Path(__file__).with_name("loop_pi.mjs").read_text(encoding="utf-8")
    sizes = json.dumps({"deltas": DELTA_COUNTS, "calls": CALL_COUNTS})
    done = subprocess.run(
        [node, "--input-type=module", "-e", script, sizes],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        print(f"Pi's core could not be run: {done.stderr.strip().splitlines()[-1:]}")
        return {}
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print the table."""
    pi = pi_figures()
    head = "  Pi (Node)" if pi else ""
    print(f"{'loop':34}{'total ms':>10}{'us each':>10}{head}")
    # The first call loads the JSON-schema library; that is no part of a call's cost.
    anyio.run(run_calls, 1)
    rows = [
        ("text deltas", "deltas", run_deltas, DELTA_COUNTS),
        ("parallel tool calls", "calls", run_calls, CALL_COUNTS),
    ]
    for title, key, run, sizes in rows:
        for size in sizes:
            seconds = best(run, size, 3)
            beside = f"{pi[f'{key}:{size}']:11.1f}" if f"{key}:{size}" in pi else ""
            print(f"{f'{size:,} {title}':34}{seconds * 1e3:10.1f}{seconds / size * 1e6:10.2f}{beside}")
    for size in MEMORY_COUNTS:
        peak = peak_memory(size)
        per_character = peak / (size * len(DELTA))
        print(f"{f'peak memory, {size:,} deltas':34}{peak / 1024:8.0f} KiB  {per_character:.1f} bytes a character")


if __name__ == "__main__":
    main()
