"""Asks real servers through the client, on all three protocols, and says what held.

    python -m tests.live [--only TEXT] [--servers DIR]

The servers (llama.cpp with a small model, LLMock with its fault scenarios, and aimock where Node is) are installed
into an environment of their own, about 200 MB, and talk on loopback only. LLMock and aimock are also asked by whole
runs: `pi-session run` and a `SessionRunner` with real tools. Exit 1 if anything did not hold.
"""

import argparse
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio

from pi_loop.abort import AbortController
from pi_loop.events import StreamDone, StreamError, TextDelta
from pi_loop.models.discovery import served_models
from pi_loop.providers.client import ModelClient
from pi_loop.providers.errors import failure_of, is_overflow
from pi_loop.providers.retry import RetryPolicy, wait_ms
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_loop.types import Model, Request, StreamOptions
from pi_sessions.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolDeclaration,
    ToolResultMessage,
    UserMessage,
)
from tests.live.aimock_runs import aimock_fixtures, aimock_run_checks
from tests.live.llmock_runs import SMALL_WINDOW, llmock_run_checks, overflow_check
from tests.live.servers import ALIAS, CONTEXT_TOKENS, aimock, control, install, install_aimock, llama, llmock

APIS = (CHAT, RESPONSES, ANTHROPIC)
OPTIONS = StreamOptions(api_key="test", temperature=0.0, max_tokens=40)
POLICY = RetryPolicy(attempts=4, base_ms=200)
Check = Callable[[], Awaitable[None]]


async def final(model: Model, messages: Sequence[Message], options: StreamOptions = OPTIONS) -> AssistantMessage:
    """Ask once and give the final message."""
    found: list[AssistantMessage] = []
    async for event in ModelClient()(model, Request(list(messages)), options):
        if isinstance(event, StreamDone):
            found.append(event.message)
        elif isinstance(event, StreamError):
            found.append(event.error)
    (message,) = found
    return message


async def turn(model: Model, messages: Sequence[Message]) -> AssistantMessage:
    """Ask, and restart the turn when a started answer broke off, as a runner does."""
    attempt = 0
    while True:
        attempt += 1
        message = await final(model, messages)
        failure = failure_of(message)
        wait = None if failure is None else wait_ms(failure, attempt, POLICY, random=random.random)
        if wait is None:
            return message
        await anyio.sleep(wait / 1000)


# --- llama.cpp --------------------------------------------------------------------------------------------------


def llama_checks(base: str) -> list[tuple[str, Check]]:
    """Give the checks against the real model."""
    checks: list[tuple[str, Check]] = [("llama.cpp: lists its model", partial(_lists, base))]
    for api in APIS:
        model = Model(
            id=ALIAS,
            api=api,
            provider="llama.cpp",
            base_url=base if api == ANTHROPIC else f"{base}/v1",
            context_window=CONTEXT_TOKENS,
        )
        for name, check in (("speaks", _speaks), ("overflows", _overflows), ("stops when aborted", _aborts)):
            checks.append((f"llama.cpp, {api}: {name}", partial(check, model)))
    return checks


async def _lists(base: str) -> None:
    served = await served_models(f"{base}/v1")
    assert served.ids == (ALIAS,), served


async def _speaks(model: Model) -> None:
    message = await final(model, [UserMessage(content="Name three planets.")])
    assert message.stop_reason in ("stop", "length"), message
    assert len(message.text) > 5, message
    assert message.usage.output > 3, message.usage
    assert message.usage.input + message.usage.cache_read > 5, message.usage
    again = await final(model, [UserMessage(content="Name three planets.")])
    assert again.text == message.text, (again.text, message.text)
    assert again.usage.cache_read > 0, again.usage


async def _overflows(model: Model) -> None:
    message = await final(model, [UserMessage(content="word " * 40_000)])
    assert message.stop_reason == "error", message
    assert is_overflow(message, CONTEXT_TOKENS), message


async def _aborts(model: Model) -> None:
    controller = AbortController()
    options = StreamOptions(api_key="test", signal=controller.signal, max_tokens=400)
    aborted_at = 0.0
    async for event in ModelClient()(model, Request([UserMessage(content="Tell a very long story.")]), options):
        if isinstance(event, TextDelta) and not controller.signal.aborted:
            controller.abort()
            aborted_at = time.monotonic()
        if isinstance(event, StreamError):
            assert event.error.stop_reason == "aborted", event.error
            assert event.error.text, event.error
        assert not isinstance(event, StreamDone), event
    assert time.monotonic() - aborted_at < 1, "the abort took too long"


# --- LLMock -----------------------------------------------------------------------------------------------------

FAULTS: dict[str, list[dict[str, object]]] = {
    "rate limit twice": [{"type": "fail", "status": 429, "retry_after": 1, "times": 2}],
    "server error": [{"type": "fail", "status": 500, "times": 1}],
    "overloaded": [{"type": "fail", "status": 529, "times": 1}],
    "disconnect": [{"type": "stream_fault", "kind": "disconnect", "after_chunks": 3}],
    "truncate": [{"type": "stream_fault", "kind": "truncate", "after_chunks": 3}],
    "malformed": [{"type": "stream_fault", "kind": "malformed", "after_chunks": 3}],
    "slow start": [{"type": "slow_first_token", "seconds": 1}],
}
TOOL = ToolDeclaration(
    name="get_weather",
    description="Weather of a city",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def llmock_checks(base: str) -> list[tuple[str, Check]]:
    """Give the checks against scripted faults."""
    checks: list[tuple[str, Check]] = []
    for api in APIS:
        model = llmock_model(base, api)
        for fault, behaviors in FAULTS.items():
            checks.append((f"LLMock, {api}: {fault}", partial(_survives, base, model, behaviors)))
        checks.append((f"LLMock, {api}: tool call and result", partial(_calls_tool, base, model)))
    return checks


def llmock_model(base: str, api: str) -> Model:
    """Give a model of the server."""
    name = "claude-sonnet-4-5" if api == ANTHROPIC else "gpt-4o"
    url = f"{base}/anthropic" if api == ANTHROPIC else f"{base}/v1"
    return Model(id=name, api=api, provider="llmock", base_url=url, max_tokens=400, context_window=128_000)


async def _survives(base: str, model: Model, behaviors: list[dict[str, object]]) -> None:
    await control(base, "/_llmock/reset", {})
    reply = {"type": "reply", "text": "alpha beta gamma delta epsilon zeta"}
    await control(base, "/_llmock/scenario", {"behaviors": [*behaviors, reply]})
    message = await turn(model, [UserMessage(content="Say the letters.")])
    assert message.stop_reason == "stop", message
    assert message.text, message
    await _verdict_passes(base)


async def _calls_tool(base: str, model: Model) -> None:
    await control(base, "/_llmock/reset", {})
    messages: list[Message] = [
        SystemMessage(content="Use tools.", tools_added=[TOOL]),
        UserMessage(content="What is the weather in Lima?"),
    ]
    message = await turn(model, messages)
    assert message.stop_reason == "toolUse", message
    call = message.tool_calls[0]
    assert call.name == TOOL.name, call
    assert "city" in call.arguments, call
    result = ToolResultMessage.model_validate(
        {"toolCallId": call.id, "toolName": call.name, "content": [{"type": "text", "text": "Sunny, 21 degrees"}]}
    )
    answer = await turn(model, [*messages, message, result])
    assert answer.stop_reason == "stop", answer
    await _verdict_passes(base)


async def _verdict_passes(base: str) -> None:
    verdict = await control(base, "/_llmock/verdict?format=text")
    assert "PASS" in verdict, verdict


# --- the command ------------------------------------------------------------------------------------------------


async def run_checks(checks: list[tuple[str, Check]], only: str) -> int:
    """Run the checks that have `only` in their name, one after the other; gives the number that failed."""
    failed = 0
    for name, check in [each for each in checks if only in each[0]]:
        started = time.monotonic()
        try:
            with anyio.fail_after(180):
                await check()
        except Exception as error:  # noqa: BLE001 - a check that fails in any way must not hide the others
            failed += 1
            print(f"FAILED {name}: {type(error).__name__} {error}")
        else:
            print(f"held   {name} ({time.monotonic() - started:.1f} s)")
    return failed


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.live", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="run only checks whose name has this in it")
    parser.add_argument(
        "--servers", type=Path, default=Path(".venv/live-servers"), help="where the servers are installed"
    )
    options = parser.parse_args(arguments)
    python = install(options.servers.resolve())
    failed = 0
    with llmock(python) as base:
        failed += anyio.run(run_checks, llmock_checks(base), options.only)
        runs = [check for api in APIS for check in llmock_run_checks(base, llmock_model(base, api))]
        failed += anyio.run(run_checks, runs, options.only)
    with llmock(python, "--context-window", str(SMALL_WINDOW)) as base:
        failed += anyio.run(run_checks, [overflow_check(base, llmock_model(base, api)) for api in APIS], options.only)
    program = install_aimock(options.servers.resolve())
    if program is None:
        print("passed over: the checks against aimock, which needs Node 20 and npm")
    else:
        with aimock(program, aimock_fixtures()) as base:
            failed += anyio.run(run_checks, aimock_run_checks(base), options.only)
    with llama(python) as base:
        failed += anyio.run(run_checks, llama_checks(base), options.only)
    print(f"{failed} checks failed" if failed else "all checks held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
