"""What tests of providers share: scripted HTTP answers without a network, and ways to run a client."""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from pi_loop.events import AssistantMessageEvent, StreamDone, StreamError
from pi_loop.providers.client import ClientSettings, ModelClient
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model, Request, StreamOptions
from pi_sessions.messages import AssistantMessage, Message, UserMessage

APIS = (ANTHROPIC, CHAT, RESPONSES)
BACKENDS = ("asyncio", "trio")
KEY = "sk-test-0123456789abcdef"
CASES = Path(__file__).resolve().parents[2] / "fixtures" / "cases"
NOW_MS = 1_772_442_000_000


@dataclass
class Answer:
    """One scripted answer: head, and pieces of the body; a number among them is a pause in seconds.

    With `error` the request fails instead; with `silent` nothing ever comes.
    """

    status: int = 200
    pieces: Sequence[bytes | float] = ()
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    error: Exception | None = None
    silent: bool = False


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes | float]) -> None:
        self._pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                await anyio.sleep(piece)

    async def aclose(self) -> None:
        self.closed = True


class ScriptedHttp(httpx.AsyncBaseTransport):
    """Answers requests in order and keeps them; a request too many is an error."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = iter(answers)
        self.requests: list[httpx.Request] = []
        self.bodies: list[_Body] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Give the next answer."""
        self.requests.append(request)
        answer = next(self._answers)
        if answer.silent:
            await anyio.sleep_forever()
        if answer.error is not None:
            raise answer.error
        body = _Body(answer.pieces)
        self.bodies.append(body)
        return httpx.Response(answer.status, headers=answer.headers, stream=body)


@dataclass
class Outcome:
    """What a call gave: its events, the final message, the requests, the waits between them in seconds."""

    events: list[AssistantMessageEvent]
    message: AssistantMessage
    http: ScriptedHttp
    waits: list[float]


def model(api: str = CHAT, **fields: Any) -> Model:
    """Give a model at a made-up provider."""
    return Model(
        **{"id": "demo-model", "api": api, "provider": "demo", "base_url": "https://demo.invalid/v1", **fields}
    )


async def ask(
    answers: Sequence[Answer],
    *,
    asked: Model | None = None,
    options: StreamOptions | None = None,
    settings: ClientSettings | None = None,
    messages: Sequence[Message] = (),
    on_event: Callable[[AssistantMessageEvent], None] | None = None,
) -> Outcome:
    """Ask once, without waiting between attempts."""
    http = ScriptedHttp(answers)
    waits: list[float] = []
    ids = itertools.count(1)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    base = settings or ClientSettings(sleep=sleep)
    client = ModelClient(
        replace(
            base,
            clock=lambda: NOW_MS,
            random=lambda: 0.0,
            new_id=lambda: f"new_{next(ids)}",
            open_http=lambda: httpx.AsyncClient(transport=http),
        )
    )
    events: list[AssistantMessageEvent] = []
    request = Request(list(messages) or [UserMessage(content="Hello")])
    async for event in client(asked or model(), request, options or StreamOptions(api_key=KEY)):
        events.append(event)
        if on_event is not None:
            on_event(event)
    last = events[-1]
    assert isinstance(last, (StreamDone, StreamError))
    message = last.message if isinstance(last, StreamDone) else last.error
    return Outcome(events, message, http, waits)


def run(answers: Sequence[Answer], *, backend: str = "asyncio", **more: Any) -> Outcome:
    """Ask once from outside an event loop; as `ask`."""

    async def main() -> Outcome:
        return await ask(answers, **more)

    return anyio.run(main, backend=backend)


def sse(*payloads: object) -> bytes:
    """Spell an event stream."""
    texts = [payload if isinstance(payload, str) else json.dumps(payload) for payload in payloads]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def text_stream(api: str, text: str) -> bytes:
    """Give a complete stream that says a text, in any protocol."""
    if api == ANTHROPIC:
        return sse(
            {"type": "message_start", "message": {"id": "m", "model": "demo-model", "usage": {"input_tokens": 3}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )
    if api == RESPONSES:
        item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}]}
        return sse(
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}},
            {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
        )
    return sse(
        {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    )


def text_answer(api: str, text: str = "Answer.") -> Answer:
    """Give a complete answer that says a text."""
    return Answer(pieces=[text_stream(api, text)])


def json_answer(status: int, body: object, **headers: str) -> Answer:
    """Give an answer with a JSON body; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Answer(status, [raw] if raw else [], {"content-type": "application/json", **named})
