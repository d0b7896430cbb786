"""Whole runs against aimock by `pi-session run`: thinking, tools, a cut, a rate limit, an overflow."""

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model
from tests.live.home import Home, home
from tests.live.servers import control

Json = Any
Check = Callable[[], Awaitable[None]]

READ = {"id": "call_read", "name": "read", "arguments": json.dumps({"path": "notes.txt"})}
MARK = {"id": "call_mark", "name": "bash", "arguments": json.dumps({"command": "echo mark >> marks.txt"})}
TOO_LONG = {
    CHAT: {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"},
    RESPONSES: {"message": "Your input exceeds the context window.", "code": "context_length_exceeded"},
    ANTHROPIC: {"message": "prompt is too long: 9000 tokens > 8192 maximum", "type": "invalid_request_error"},
}
LONG = "something said at length " * 40


def aimock_fixtures() -> list[Json]:
    """Give what the server answers: prompts are told apart by a word and the protocol's name in them."""
    # A compaction that cuts a turn asks twice: about what came before, and about the turn's beginning.
    marks = ("<conversation>", "# Conversation")
    summary = [{"match": {"userMessage": mark}, "response": {"content": "Summed up."}} for mark in marks]
    going_on = [{"match": {"userMessage": "And what now?"}, "response": {"content": "Nothing more."}}]
    return [*summary, *going_on, *[one for api in TOO_LONG for one in _fixtures(api)]]


def _fixtures(api: str) -> list[Json]:
    def first(word: str) -> Json:
        return {"userMessage": f"{word} {api}", "sequenceIndex": 0, "hasToolResult": False}

    def then(word: str) -> Json:
        return {"userMessage": f"{word} {api}"}

    thought = {"reasoning": "I need the note.", "reasoningSignature": "c2lnbmVk"}
    called = {**thought, "content": "I look.", "toolCalls": [READ, MARK]}
    limit = {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 2}
    return [
        {"match": {**first("LOOP"), "sequenceIndex": 0}, "response": called},
        {"match": then("LOOP"), "response": {"content": "Read and marked."}},
        {"match": first("CUT"), "response": called, "latency": 20, "chunkSize": 3, "truncateAfterChunks": 4},
        {"match": then("CUT"), "response": {"content": "Whole."}},
        {"match": first("LIMIT"), "response": limit},
        {"match": then("LIMIT"), "response": {"content": "Allowed."}},
        {"match": then("LONG"), "response": {"content": LONG}},
        {"match": first("OVER"), "response": {"error": TOO_LONG[api], "status": 400}},
        {"match": then("OVER"), "response": {"content": "It fits."}},
    ]


def aimock_run_checks(base: str) -> list[tuple[str, Check]]:
    """Give the checks.

    Args:
        base: Address of the server.
    """
    checks: list[tuple[str, Check]] = []
    for api in TOO_LONG:
        model = Model(
            id="claude-sonnet-4-5" if api == ANTHROPIC else "o4-mini",
            api=api,
            provider="aimock",
            base_url=base if api == ANTHROPIC else f"{base}/v1",
            reasoning=True,
            context_window=128_000,
        )
        parts = (("a tool loop with thinking", _loop), ("a cut stream", _cut), ("a rate limit", _limit))
        for name, check in (*parts, ("overflow, compaction, answer", _overflow)):
            checks.append((f"run, aimock, {api}: {name}", partial(check, base, model)))
    return checks


async def _asked(base: str) -> list[Json]:
    """Give the bodies of the requests since the last call."""
    journal = json.loads(await control(base, "/__aimock/journal"))
    await control(base, "/__aimock/reset/journal", {})
    return [entry["body"] for entry in journal]


async def _finish(base: str, place: Home, requests: int, said: str) -> None:
    """Check the number of requests and the last words, and that the session goes on."""
    asked = await _asked(base)
    assert len(asked) == requests, [json.dumps(body)[-300:] for body in asked]
    (answer,) = (await place.messages("assistant"))[-1:]
    texts = [block["text"] for block in answer["content"] if block["type"] == "text"]
    assert (answer["stopReason"], texts) == ("stop", [said]), answer
    await place.goes_on()
    await _asked(base)


async def _loop(base: str, model: Model) -> None:
    with home(model) as place:
        await place.ask(f"LOOP {model.api}", "--thinking", "low")
        assert place.content("marks.txt") == "mark\n", "the tool did not run once"
        blocks = [block["type"] for block in (await place.messages("assistant"))[0]["content"]]
        assert blocks == ["thinking", "text", "toolCall", "toolCall"], blocks
        await _finish(base, place, 2, "Read and marked.")


async def _cut(base: str, model: Model) -> None:
    with home(model) as place:
        await place.ask(f"CUT {model.api}")
        assert place.content("marks.txt") == "", "a tool of a cut answer ran"
        await _finish(base, place, 2, "Whole.")


async def _limit(base: str, model: Model) -> None:
    with home(model) as place:
        started = time.monotonic()
        await place.ask(f"LIMIT {model.api}")
        assert time.monotonic() - started >= 2, "the server's wait was not kept"
        await _finish(base, place, 2, "Allowed.")


async def _overflow(base: str, model: Model) -> None:
    with home(model) as place:
        await place.ask(f"LONG {model.api}")
        await place.ask(f"LONG {model.api}, once more", "--last")
        await place.ask(f"OVER {model.api}", "--last")
        types = [entry["type"] for entry in await place.entries()]
        assert types.count("compaction") == types.count("context_edit") == 1, types
        await _finish(base, place, 6, "It fits.")
