"""Whole runs against LLMock, by `pi-session run` and by a `SessionRunner`: faults on the way, a whole session after."""

import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio

from pi_loop.events import MessageUpdate
from pi_loop.providers.client import ClientSettings, ModelClient
from pi_loop.providers.retry import NO_RETRY
from pi_loop.runner import SessionRunner
from pi_loop.runner_types import RunnerSettings
from pi_loop.tools.coding import coding_tools
from pi_loop.tools.workspace import Workspace
from pi_loop.types import Model, StreamOptions
from pi_sessions.store import SessionStore
from tests.live.home import SETTINGS, Home, home
from tests.live.servers import control

Json = Any
Check = Callable[[], Awaitable[None]]

# Tokens: room for the system prompt, a turn with a tool, and two of the long prompts or their summary's request.
SMALL_WINDOW = 3500
LONG = "a matter of some length. " * 176
READ = {"name": "read", "arguments": {"path": "notes.txt"}}
MARK = {"name": "bash", "arguments": {"command": "echo mark >> marks.txt; cat marks.txt"}}
EDIT = {"name": "edit", "arguments": {"path": "notes.txt", "edits": [{"oldText": "30", "newText": "60"}]}}
LOOP: list[Json] = [
    {"type": "reply", "text": "I look at it first.", "tool_calls": [READ, MARK]},
    {"type": "reply", "tool_calls": [EDIT]},
    {"type": "reply", "text": "The lease is 60 seconds now."},
]
FAULTS: dict[str, Json] = {
    "a tool loop": [],
    "a rate limit in the loop": [{"type": "fail", "status": 429, "retry_after": 1, "times": 2}],
    "an overloaded server in the loop": [{"type": "fail", "status": 529, "times": 1}],
    "a broken connection in the loop": [{"type": "stream_fault", "kind": "disconnect", "after_chunks": 3}],
    "a cut stream in the loop": [{"type": "stream_fault", "kind": "truncate", "after_chunks": 3}],
    "a malformed chunk in the loop": [{"type": "stream_fault", "kind": "malformed", "after_chunks": 3}],
}


def llmock_run_checks(base: str, model: Model) -> list[tuple[str, Check]]:
    """Give the checks for one protocol.

    Args:
        base: Address of the server.
        model: A model of that server.
    """
    checks: list[tuple[str, Check]] = [
        (f"run, LLMock, {model.api}: {name}", partial(_loop, base, model, fault)) for name, fault in FAULTS.items()
    ]
    more = (("aborted", _aborted), ("killed and continued", _killed), ("steered", _steered))
    return checks + [(f"run, LLMock, {model.api}: {name}", partial(check, base, model)) for name, check in more]


def overflow_check(base: str, model: Model) -> tuple[str, Check]:
    """Give the check against a server whose window is `SMALL_WINDOW`."""
    return f"run, LLMock, {model.api}: overflow, compaction, answer", partial(_overflow, base, model)


async def _prepare(base: str, behaviors: list[Json]) -> None:
    await control(base, "/_llmock/reset", {})
    if behaviors:
        await control(base, "/_llmock/scenario", {"behaviors": behaviors})


async def _passes(base: str) -> None:
    verdict = await control(base, "/_llmock/verdict?format=text")
    assert "PASS" in verdict, verdict


async def _loop(base: str, model: Model, fault: Json) -> None:
    """Three turns with three tools; the fault strikes at the first request."""
    # An answer that is cut off uses up its reply.
    cut = LOOP[:1] if any(each["type"] == "stream_fault" for each in fault) else []
    await _prepare(base, [*fault, *cut, *LOOP])
    with home(model) as place:
        started = time.monotonic()
        ran = await place.ask("Make the lease 60 seconds.")
        waited = sum(each.get("retry_after", 0) * each["times"] for each in fault if "times" in each)
        assert time.monotonic() - started >= waited, "the server's wait was not kept"
        last = (await place.messages("assistant"))[-1]
        assert last["stopReason"] == "stop", last
        assert ran.out.rstrip().endswith(last["content"][-1]["text"]), ran
        assert place.content("notes.txt") == "the lease is 60 seconds\n"
        assert place.content("marks.txt") == "mark\n", "the tool did not run once"
        results = await place.messages("toolResult")
        assert [result["isError"] for result in results] == [False] * 3, results
        await _passes(base)
        await control(base, "/_llmock/reset", {})
        await place.goes_on()
        await _passes(base)


async def _aborted(base: str, model: Model) -> None:
    await _prepare(base, [{"type": "reply", "text": "word " * 200}])
    with home(model) as place:
        await place.ask("Tell me a story.", code=130, stop=signal.SIGINT)
        (answer,) = await place.messages("assistant")
        assert answer["stopReason"] == "aborted", answer
        assert answer["content"][0]["text"], answer
        await place.goes_on()


async def _killed(base: str, model: Model) -> None:
    """A tool has left its mark, the next answer is on its way, and the process dies; nothing runs a second time."""
    call, told = {"type": "reply", "tool_calls": [MARK]}, {"type": "reply", "text": "word " * 200}
    await _prepare(base, [call, told, {"type": "reply", "text": "Marked."}])
    with home(model) as place:
        await place.ask("Mark it.", code=-signal.SIGKILL, stop=signal.SIGKILL)
        refused = await place.ask("Go on.", "--last", code=1)
        assert "--recover" in refused.err, refused
        recovered = await place.run("run", "--last", "--recover", "continue", "--tools", "all", "--approve", "all")
        assert "Marked." in recovered.out, recovered
        assert place.content("marks.txt") == "mark\n", "the tool did not run once"
        await place.goes_on()


async def _steered(base: str, model: Model) -> None:
    """A message typed while the first answer comes is in the second request."""
    called = {"type": "reply", "text": "word " * 20, "tool_calls": [READ]}
    await _prepare(base, [called, {"type": "reply", "text": "30"}])
    with home(model) as place:
        answers = await _steer(place)
        assert answers == ["word " * 20, "30"], answers
        requests = await control(base, "/_llmock/requests")
        assert "Only the number." in requests, requests
        await _passes(base)
        await place.goes_on()


async def _steer(place: Home) -> list[str]:
    workspace = Workspace(root=str(place.project), environ=place.environ())
    with SessionStore.open(str(place.store), create=True, durable=True) as store:
        session = store.create_session(cwd=str(place.project), place=str(place.project))
        runner = SessionRunner(
            store,
            session.id,
            stream_fn=ModelClient(ClientSettings(retry=NO_RETRY)),
            model=place.model,
            tools=coding_tools(workspace),
            system="Use tools.",
            settings=RunnerSettings(given=SETTINGS),
            stream_options=StreamOptions(api_key="test"),
        )
        steered = anyio.Event()

        async def steer(event: object) -> None:
            if isinstance(event, MessageUpdate) and not steered.is_set():
                steered.set()
                await runner.steer("Only the number.")

        runner.subscribe(steer)
        outcome = await runner.prompt("How long is the lease?")
        assert outcome.status == "done", outcome
        path = [entry.message or {} for entry in store.path(session.id)]
        roles = [message["role"] for message in path if message and message["role"] != "system"]
        assert roles == ["user", "assistant", "toolResult", "user", "assistant"], roles
        return [message["content"][0]["text"] for message in path if message.get("role") == "assistant"]


async def _overflow(base: str, model: Model) -> None:
    """Long prompts until the server refuses; the run compacts and gets its answer."""
    await _prepare(base, [])
    with home(model) as place:
        await place.ask("Say something.")
        for number in range(3):
            await place.ask(f"Part {number}: {LONG}", "--last")
        types = [entry["type"] for entry in await place.entries()]
        assert types.count("compaction") == types.count("context_edit") == 1, types
        users = await place.messages("user")
        assert users[-1]["content"][0]["text"].startswith("Part 2: "), users[-1]
        await _passes(base)
        await place.goes_on()
