"""The client never raises, hides keys, stops when told to, and is not fooled by keep-alives."""

import dataclasses
import gc
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
import trio
import trio.testing

from pi_loop.abort import AbortController
from pi_loop.events import StreamDone, StreamError, StreamStart, TextDelta, ToolCallDelta, ToolResult
from pi_loop.loop import run_loop
from pi_loop.providers.client import ClientSettings, ModelClient
from pi_loop.providers.endpoints import endpoint, missing_key, request_headers
from pi_loop.providers.errors import failure_of
from pi_loop.providers.retry import NO_RETRY
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import AgentContext, ClientIdentity, LoopConfig, Request, StreamOptions, Tool
from pi_sessions.messages import Message, SystemMessage, TextContent, ToolDeclaration, UserMessage, to_wire
from tests.conformance.wire_playback import STREAM_HEAD, playback
from tests.loop.provider_support import (
    APIS,
    BACKENDS,
    CASES,
    KEY,
    NOW_MS,
    Answer,
    Outcome,
    ScriptedHttp,
    ask,
    json_answer,
    model,
    run,
    sse,
    text_answer,
    text_stream,
)

QUIET = ClientSettings(retry=NO_RETRY)


def chunk(text: str) -> bytes:
    return sse({"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


# --- requests ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "base", "url"),
    [
        (ANTHROPIC, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        (ANTHROPIC, "https://proxy.invalid/v1/", "https://proxy.invalid/v1/messages"),
        (ANTHROPIC, "http://127.0.0.1:1/anthropic", "http://127.0.0.1:1/anthropic/v1/messages"),
        (CHAT, "http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"),
        (CHAT, "https://x.invalid/v1/chat/completions", "https://x.invalid/v1/chat/completions"),
        (RESPONSES, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
    ],
)
def test_requests_go_where_the_protocol_says(api: str, base: str, url: str) -> None:
    assert endpoint(model(api, base_url=base)) == url


def test_known_provider_needs_no_base_url() -> None:
    assert endpoint(model(CHAT, provider="ollama", base_url="")) == "http://127.0.0.1:11434/v1/chat/completions"


def test_headers_carry_key_version_and_wishes() -> None:
    options = StreamOptions(
        api_key=KEY, headers={"X-Team": "blue", "User-Agent": None}, identity=ClientIdentity(user_agent="mine/1")
    )
    headers = request_headers(model(ANTHROPIC, headers={"X-Team": "red", "Y": "1"}), options)
    assert headers["x-api-key"] == KEY
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers
    assert (headers["x-team"], headers["y"]) == ("blue", "1")
    assert "user-agent" not in headers
    assert request_headers(model(CHAT), StreamOptions(api_key=KEY))["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("api", APIS)
def test_body_is_the_built_request(api: str) -> None:
    outcome = run([text_answer(api)], asked=model(api), messages=[UserMessage(content="Grüße \ud83d!")])
    body = json.loads(outcome.http.requests[0].content)
    assert body["model"] == "demo-model"
    assert body["stream"] is True
    assert "Grüße �!" in json.dumps(body, ensure_ascii=False)


def test_hooks_see_and_change_the_exchange() -> None:
    seen: list[Any] = []

    async def on_payload(body: Any, _model: Any) -> Any:
        return {**body, "top_k": 5}

    options = StreamOptions(
        api_key=KEY,
        on_payload=on_payload,
        on_response=lambda status, headers, _model: seen.append((status, headers["content-type"])),
        on_provider_stream_event=lambda event, _model: seen.append(event["id"]),  # type: ignore[index,call-overload]
    )
    outcome = run([text_answer(CHAT)], options=options)
    assert json.loads(outcome.http.requests[0].content)["top_k"] == 5
    assert seen == [(200, "text/event-stream"), "c", "c"]


def test_sampling_parameters_of_the_model_win() -> None:
    asked = model(CHAT, samplingParams={"min_p": 0.1, "temperature": 0.7})
    outcome = run([text_answer(CHAT)], asked=asked, options=StreamOptions(api_key=KEY, temperature=0.1))
    body = json.loads(outcome.http.requests[0].content)
    assert (body["min_p"], body["temperature"]) == (0.1, 0.7)


def test_tool_is_called_by_its_declared_name() -> None:
    """Names a protocol does not take are sent changed and come back as they were declared."""
    tool = ToolDeclaration(name="files.read all", description="Reads", parameters={"type": "object"})
    messages = [SystemMessage(content="", tools_added=[tool]), UserMessage(content="Go")]
    first = run([text_answer(CHAT)], messages=messages)
    sent_name = json.loads(first.http.requests[0].content)["tools"][0]["function"]["name"]
    assert sent_name != tool.name
    call = {"index": 0, "id": "call_1", "function": {"name": sent_name, "arguments": "{}"}}
    chunks = sse({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    outcome = run([Answer(pieces=[chunks])], messages=messages)
    assert outcome.message.tool_calls[0].name == tool.name


# --- failures are messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_missing_key_is_said(api: str) -> None:
    outcome = run([], asked=model(api, provider="anthropic"), options=StreamOptions())
    assert outcome.http.requests == []
    assert outcome.message.stop_reason == "error"
    assert "set ANTHROPIC_API_KEY" in (outcome.message.error_message or "")


def test_servers_of_ones_own_need_no_key() -> None:
    assert missing_key(model(base_url="http://localhost:8080/v1"), StreamOptions()) is None
    assert missing_key(model(headers={"Authorization": "x"}), StreamOptions()) is None
    assert missing_key(model(), StreamOptions()) is not None


@pytest.mark.parametrize(
    ("asked", "answer", "kind"),
    [
        (model("grpc-telepathy"), None, "bad_request"),
        (model(base_url="not a url at all"), None, "bad_request"),
        (model(base_url="ftp://demo.invalid"), Answer(error=httpx.UnsupportedProtocol("ftp")), "bad_request"),
        (model(), Answer(error=httpx.ConnectTimeout("slow")), "network"),
        (model(), Answer(error=OSError("no route")), "network"),
        (model(), Answer(error=RuntimeError("our own mistake")), "internal"),
        (model(), Answer(pieces=[b"<html>"], headers={"content-type": "text/html"}), "not_found"),
        (model(), json_answer(200, "[1]"), "broken_stream"),
        (model(), json_answer(200, "{"), "broken_stream"),
    ],
)
def test_failure_is_the_final_message(asked: Any, answer: Answer | None, kind: str) -> None:
    outcome = run([answer] if answer else [], asked=asked, settings=QUIET)
    assert isinstance(outcome.events[-1], StreamError)
    failure = failure_of(outcome.message)
    assert failure is not None
    assert failure.kind == kind


def test_hook_that_raises_ends_the_answer() -> None:
    def on_payload(_body: Any, _model: Any) -> Any:
        raise ValueError(f"with {KEY}")

    outcome = run([], options=StreamOptions(api_key=KEY, on_payload=on_payload))
    assert outcome.message.stop_reason == "error"
    assert KEY not in (outcome.message.error_message or "")


KEY_ANSWERS: list[tuple[str, Callable[[str], Answer]]] = [
    (
        "refused",
        lambda key: json_answer(401, {"error": {"message": f"Incorrect API key provided: {key}", "code": key}}),
    ),
    (
        "plain text",
        lambda key: Answer(500, [f"boom {key}".encode()], {"content-type": "text/plain", "x-request-id": key}),
    ),
    ("in a stream", lambda key: Answer(pieces=[chunk("Half"), sse({"error": {"message": f"bad {key}"}})])),
    ("exception", lambda key: Answer(error=httpx.ConnectError(f"cannot reach https://{key}@host"))),
    ("our mistake", lambda key: Answer(error=RuntimeError(key))),
    ("cut", lambda key: Answer(pieces=[chunk("Half"), f'data: {{"x": "{key}"'.encode()])),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("key", [KEY, "plainkey", "k" * 40])
@pytest.mark.parametrize(("name", "answer"), KEY_ANSWERS)
def test_key_shows_nowhere(
    name: str, answer: Callable[[str], Answer], key: str, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    settings = dataclasses.replace(QUIET, on_retry=lambda failure, _wait, _sent: told.append(repr(failure)))
    header = f"{key}-in-header"
    options = StreamOptions(api_key=key, headers={"x-secret-token": header})
    with caplog.at_level(logging.DEBUG):
        outcome = run([answer(key)], asked=model(api), options=options, settings=settings)
    shown = json.dumps(to_wire(outcome.message)) + repr(outcome.events) + "".join(told) + caplog.text
    assert outcome.message.stop_reason == "error", name
    assert key not in shown
    assert header not in shown
    sent = outcome.http.requests[0].headers
    assert key in sent["x-api-key" if api == ANTHROPIC else "authorization"]


def test_key_is_not_logged_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    """Over a real socket, with everything that the HTTP library logs."""

    async def main() -> None:
        async with playback() as server:
            server.pieces = [STREAM_HEAD, text_stream(CHAT, "Hi")]
            asked = model(base_url=f"http://127.0.0.1:{server.port}/v1")
            async for _event in ModelClient(QUIET)(
                asked, Request([UserMessage(content="Hi")]), StreamOptions(api_key=KEY)
            ):
                pass
            assert KEY.encode() in server.requests[0]

    with caplog.at_level(logging.DEBUG):
        anyio.run(main)
    assert caplog.records
    assert KEY not in caplog.text


# --- stopping ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([Answer(silent=True)], ""),
        ([Answer(pieces=[3600.0])], ""),
        ([Answer(pieces=[chunk("Half an ans"), 3600.0])], "Half an ans"),
        ([Answer(500, [3600.0])], ""),
    ],
    ids=["no head", "no body", "in the body", "in an error body"],
)
def test_abort_ends_the_answer_at_once(backend: str, answers: list[Answer], text: str) -> None:
    controller = AbortController()

    async def main() -> None:
        options = StreamOptions(api_key=KEY, signal=controller.signal)
        async with anyio.create_task_group() as tasks:

            async def abort_soon() -> None:
                await anyio.sleep(0.05)
                controller.abort()

            tasks.start_soon(abort_soon)
            with anyio.fail_after(5):
                started = time.monotonic()
                outcome = await ask(answers, options=options, settings=QUIET)
        assert time.monotonic() - started < 1
        assert outcome.message.stop_reason == "aborted"
        assert outcome.message.text == text
        assert all(body.closed for body in outcome.http.bodies)

    anyio.run(main, backend=backend)


def test_aborted_signal_sends_nothing() -> None:
    controller = AbortController()
    controller.abort()
    outcome = run([], options=StreamOptions(api_key=KEY, signal=controller.signal))
    assert outcome.http.requests == []
    assert outcome.message.stop_reason == "aborted"


@pytest.mark.parametrize("backend", BACKENDS)
def test_cancellation_passes_through(backend: str) -> None:
    async def main() -> None:
        with anyio.move_on_after(0.05) as scope:
            await ask([Answer(pieces=[chunk("Half"), 3600.0])], settings=QUIET)
        assert scope.cancelled_caught

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_stream_can_be_closed_early(backend: str) -> None:
    """Nothing is left behind: a warning about an open generator or connection would be an error here."""

    async def main() -> None:
        body = Answer(pieces=[chunk("One"), chunk("Two"), 3600.0])

        async def handler(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers=body.headers, content=chunk("One") + chunk("Two"))

        client = ModelClient(
            dataclasses.replace(QUIET, open_http=lambda: httpx.AsyncClient(transport=httpx.MockTransport(handler)))
        )
        stream = client(model(), Request([UserMessage(content="Hello")]), StreamOptions(api_key=KEY))
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()

    anyio.run(main, backend=backend)
    gc.collect()


# --- silence ----------------------------------------------------------------------------------------------------


def on_mock_clock(answers: list[Answer], settings: ClientSettings, api: str = CHAT) -> tuple[Outcome, float]:
    """Ask on trio with a clock that jumps; give the outcome and the seconds it took."""

    async def main() -> tuple[Outcome, float]:
        started = trio.current_time()
        outcome = await ask(answers, settings=settings, asked=model(api))
        return outcome, trio.current_time() - started

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    "keep_alive", [b": keepalive\n\n", b"data: : ping\n\n", b'event: ping\ndata: {"type":"ping"}\n\n', b"data:\n\n"]
)
def test_s35_keep_alives_are_no_progress(keep_alive: bytes) -> None:
    case = json.loads((CASES / "s35-stalled-stream" / "stall.json").read_text("utf-8"))
    limit = case["settings"]["idle_limit_seconds"]
    pieces: list[bytes | float] = [case["send"][0]["bytes"].encode()]
    pieces += [1.0, keep_alive] * 1000
    outcome, took = on_mock_clock([Answer(pieces=pieces)], dataclasses.replace(QUIET, idle_limit_s=limit))
    assert took == pytest.approx(limit, abs=0.2)
    assert outcome.message.text == "Half an ans"
    assert outcome.message.stop_reason == "error"
    failure = failure_of(outcome.message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("stalled", True)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("keep_alive", [b": keepalive\n\n", b'event: ping\ndata: {"type":"ping"}\n\n'])
def test_s35_holds_for_every_protocol(api: str, keep_alive: bytes) -> None:
    whole = text_stream(api, "Half an ans")
    begun = whole[: whole.index(b"\n\n", whole.index(b"Half an ans")) + 2]
    assert len(begun) < len(whole)
    pieces: list[bytes | float] = [begun, *([1.0, keep_alive] * 50)]
    outcome, took = on_mock_clock([Answer(pieces=pieces)], dataclasses.replace(QUIET, idle_limit_s=3), api)
    assert took == pytest.approx(3, abs=0.2)
    assert outcome.message.text == "Half an ans"
    failure = failure_of(outcome.message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("stalled", True)


def test_s35_interrupt_ends_it_within_a_second() -> None:
    controller = AbortController()

    async def main() -> tuple[Outcome, float]:
        async with trio.open_nursery() as nursery:

            async def interrupt() -> None:
                await trio.sleep(1.5)
                controller.abort()

            nursery.start_soon(interrupt)
            pieces: list[bytes | float] = [chunk("Half an ans"), *([1.0, b": keepalive\n\n"] * 1000)]
            options = StreamOptions(api_key=KEY, signal=controller.signal)
            outcome = await ask([Answer(pieces=pieces)], options=options, settings=QUIET)
        return outcome, trio.current_time() - started

    async def timed() -> tuple[Outcome, float]:
        nonlocal started
        started = trio.current_time()
        return await main()

    started = 0.0
    outcome, took = trio.run(timed, clock=trio.testing.MockClock(autojump_threshold=0))
    assert took == pytest.approx(1.5, abs=0.2)
    assert outcome.message.stop_reason == "aborted"
    assert outcome.message.text == "Half an ans"


def test_slow_answer_with_progress_is_waited_for() -> None:
    pieces: list[bytes | float] = []
    for word in range(10):
        pieces += [2.5, chunk(f"{word} ")]
    pieces.append(sse({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"))
    outcome, took = on_mock_clock([Answer(pieces=pieces)], dataclasses.replace(QUIET, idle_limit_s=3))
    assert outcome.message.stop_reason == "stop"
    assert took == pytest.approx(25, abs=0.5)


def test_option_sets_the_longest_silence() -> None:
    async def main() -> Outcome:
        return await ask([Answer(silent=True)], options=StreamOptions(api_key=KEY, timeout_ms=1500), settings=QUIET)

    outcome = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    failure = failure_of(outcome.message)
    assert failure is not None
    assert failure.kind == "stalled"


def test_server_that_does_not_hang_up_is_not_waited_for_long() -> None:
    """The answer is complete; only usage could have followed."""
    complete = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    outcome, took = on_mock_clock([Answer(pieces=[complete, 3600.0])], QUIET)
    assert outcome.message.stop_reason == "stop"
    assert took < 10


# --- shape and cost of the events -------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_events_begin_once_and_end_once(api: str, backend: str) -> None:
    outcome = run([text_answer(api, "Hello there")], asked=model(api), backend=backend)
    assert [event.type for event in outcome.events] == ["start", "text_start", "text_delta", "text_end", "done"]
    assert isinstance(outcome.events[0], StreamStart)
    assert isinstance(outcome.events[-1], StreamDone)
    assert outcome.message.timestamp == NOW_MS


def test_partial_shows_the_message_so_far() -> None:
    partials: list[str] = []
    pieces: list[bytes | float] = [chunk("One "), chunk("two"), text_stream(CHAT, "!")]
    run([Answer(pieces=pieces)], on_event=lambda event: partials.append(getattr(event, "partial", event).__str__()))
    assert sum("One two" in shown for shown in partials) >= 2


@pytest.mark.parametrize("kind", ["text", "arguments"])
def test_long_answer_costs_what_its_length_costs(kind: str) -> None:
    """Four times the answer may take four times as long, with room for noise, but not sixteen times."""

    def cost(count: int) -> float:
        if kind == "text":
            pieces: list[bytes | float] = [chunk("word ") for _ in range(count)]
        else:
            first = {"index": 0, "id": "call_1", "function": {"name": "write", "arguments": '{"text":"'}}
            deltas = [first, *({"index": 0, "function": {"arguments": "word "}} for _ in range(count))]
            deltas.append({"index": 0, "function": {"arguments": '"}'}})
            pieces = [
                sse({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]})
                for delta in deltas
            ]
        pieces.append(sse({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"))
        started = time.process_time()
        outcome = run([Answer(pieces=pieces)])
        assert sum(isinstance(event, (TextDelta, ToolCallDelta)) for event in outcome.events) >= count
        return time.process_time() - started

    cost(200)
    small = min(cost(1500) for _ in range(2))
    assert cost(6000) < small * 8 + 0.2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_loop_runs_on_the_client(api: str, backend: str) -> None:
    """A whole run: the model calls a tool, gets its result in the next request, and answers."""
    told: list[str] = []

    async def execute(_call_id: str, args: Any, _signal: Any, _on_update: Any) -> ToolResult:
        told.append(args["city"])
        return ToolResult(content=[TextContent(text="Sunny")])

    weather = Tool(name="weather", description="", parameters={"type": "object"}, execute=execute)
    http = ScriptedHttp([Answer(pieces=[call_stream(api)]), text_answer(api, "It is sunny.")])
    client = ModelClient(dataclasses.replace(QUIET, open_http=lambda: httpx.AsyncClient(transport=http)))
    config = LoopConfig(model=model(api), stream_options=StreamOptions(api_key=KEY))

    async def main() -> list[Message]:
        context = AgentContext([], [weather])
        return await run_loop([UserMessage(content="Weather?")], context, config, lambda _e: None, stream_fn=client)

    messages = anyio.run(main, backend=backend)
    assert told == ["Rome"]
    assert [message.role for message in messages][-4:] == ["user", "assistant", "toolResult", "assistant"]
    assert "Sunny" in http.requests[1].content.decode()


def call_stream(api: str) -> bytes:
    """Give a stream that calls the weather tool, in any protocol."""
    arguments = '{"city": "Rome"}'
    if api == ANTHROPIC:
        block = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
        return sse(
            {"type": "content_block_start", "index": 0, "content_block": block},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": arguments},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )
    if api == RESPONSES:
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": arguments}
        return sse(
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
        )
    call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": arguments}}
    return sse({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})


def test_connections_are_kept_inside_the_client_context() -> None:
    opened: list[httpx.AsyncClient] = []

    def open_http() -> httpx.AsyncClient:
        def answer(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=text_stream(CHAT, "Hi"))

        opened.append(httpx.AsyncClient(transport=httpx.MockTransport(answer)))
        return opened[-1]

    async def main() -> None:
        async with ModelClient(dataclasses.replace(QUIET, open_http=open_http)) as client:
            for _ in range(2):
                async for _event in client(model(), Request([UserMessage(content="Hi")]), StreamOptions(api_key=KEY)):
                    pass
            assert not opened[0].is_closed
        assert opened[0].is_closed

    anyio.run(main)
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (
            "pi_loop, pi_loop.types, pi_loop.draft",
            "httpx genai_prices pi_loop.providers.client pi_loop.models.registry",
        ),
        ("pi_loop.providers.errors, pi_loop.providers.openai_chat, pi_loop.models.registry", "httpx genai_prices"),
        ("pi_loop.providers.client", "genai_prices"),
    ],
)
def test_what_is_not_needed_is_not_imported(modules: str, heavy: str) -> None:
    code = f"import sys, {modules}; print([name for name in {heavy.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
