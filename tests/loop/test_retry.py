"""Requests are sent again when that may help, after the right wait, and never otherwise."""

import json
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.abort import AbortController
from pi_loop.events import StreamStart
from pi_loop.providers.client import ClientSettings
from pi_loop.providers.errors import Failure, failure_of, is_overflow
from pi_loop.providers.retry import NO_RETRY, RetryPolicy, given_up, wait_ms, with_headers
from pi_loop.target import CHAT
from pi_loop.types import StreamOptions
from tests.loop.provider_support import (
    APIS,
    BACKENDS,
    CASES,
    KEY,
    NOW_MS,
    Answer,
    ask,
    json_answer,
    model,
    run,
    sse,
    text_answer,
)

RATE = Failure("rate_limit", "slow", 429, retryable=True)


def test_backoff_doubles_up_to_its_limit() -> None:
    policy = RetryPolicy(attempts=9, base_ms=1000, longest_ms=10_000)
    waits = [wait_ms(RATE, attempt, policy, random=lambda: 0.0) for attempt in range(1, 10)]
    assert waits == [1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000, None]


@given(chance=st.floats(0, 1), attempt=st.integers(1, 60), jitter=st.floats(0, 1))
def test_backoff_stays_between_its_bounds(chance: float, attempt: int, jitter: float) -> None:
    policy = RetryPolicy(attempts=100, base_ms=500, longest_ms=60_000, jitter=jitter)
    wait = wait_ms(RATE, attempt, policy, random=lambda: chance)
    whole = min(500 * 2 ** (attempt - 1), 60_000)
    assert wait is not None
    assert whole * (1 - jitter) - 1e-6 <= wait <= whole


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": "Wed, 25 Feb 2026 09:00:30 GMT"}, 30_000),
        ({"retry-after": "Wed, 25 Feb 2026 08:59:00 GMT"}, 0),
        ({"retry-after": "-4"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan", "retry-after-ms": "inf"}, None),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3000),
        ({}, None),
    ],
)
def test_server_says_how_long_to_wait(headers: dict[str, str], asked: float | None) -> None:
    now_ms = 1_772_010_000_000  # 2026-02-25 09:00:00 UTC
    assert with_headers(RATE, headers, now_ms).retry_after_ms == asked


def test_server_that_asks_for_too_long_ends_the_request() -> None:
    failure = with_headers(RATE, {"retry-after": "300"}, NOW_MS)
    policy = RetryPolicy()
    assert wait_ms(failure, 1, policy, random=lambda: 0.0) is None
    assert "300 s" in given_up(failure, None).message
    assert wait_ms(failure, 1, policy, random=lambda: 0.0, longest_asked_ms=0) == 300_000
    assert wait_ms(failure, 1, policy, random=lambda: 0.0, longest_asked_ms=400_000) == 300_000


def test_server_may_say_whether_to_retry() -> None:
    assert not with_headers(RATE, {"x-should-retry": "false"}, NOW_MS).retryable
    refused = Failure("bad_request", "?", 400)
    assert with_headers(refused, {"x-should-retry": "true"}, NOW_MS).retryable
    overflow = Failure("overflow", "too long", 400)
    assert not with_headers(overflow, {"x-should-retry": "true"}, NOW_MS).retryable


# --- the client -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "first",
    [
        json_answer(500, {"error": {"message": "Internal server error", "type": "api_error"}}),
        json_answer(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        Answer(error=httpx.ConnectError("refused")),
        Answer(error=httpx.ReadError("reset")),
        Answer(pieces=[]),
        Answer(pieces=[b"data: {broken\n\n"]),
        Answer(pieces=[b": keepalive\n\n"]),
    ],
    ids=["500", "529", "refused", "reset", "empty", "not JSON", "comments only"],
)
def test_passing_failure_is_retried(api: str, first: Answer) -> None:
    outcome = run([first, text_answer(api)], asked=model(api))
    assert outcome.message.text == "Answer."
    assert outcome.message.stop_reason == "stop"
    assert outcome.waits == [1.0]
    bodies = {request.content for request in outcome.http.requests}
    assert len(outcome.http.requests) == 2
    assert len(bodies) == 1
    assert sum(isinstance(event, StreamStart) for event in outcome.events) == 1


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422])
def test_lasting_failure_is_not_retried(api: str, status: int) -> None:
    outcome = run([json_answer(status, {"error": {"message": "no"}})], asked=model(api))
    assert outcome.message.stop_reason == "error"
    assert outcome.waits == []


def test_quota_is_not_waited_out() -> None:
    answer = json_answer(429, {"error": {"message": "quota exceeded", "code": "insufficient_quota"}}, retry_after="1")
    assert run([answer]).waits == []


def test_retries_end() -> None:
    answers = [json_answer(503, "") for _ in range(4)]
    outcome = run(answers)
    assert outcome.waits == [1.0, 2.0, 4.0]
    failure = failure_of(outcome.message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("overloaded", True)


def test_started_answer_is_not_asked_again() -> None:
    """Whoever runs the turn restarts it; the failure says that it may."""
    half = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Half"}, "finish_reason": None}]})
    outcome = run([Answer(pieces=[half])])
    assert outcome.message.text == "Half"
    assert outcome.message.stop_reason == "error"
    failure = failure_of(outcome.message)
    assert failure is not None
    assert failure.retryable


def test_each_retry_is_told() -> None:
    told: list[tuple[str, float, int]] = []

    async def sleep(_seconds: float) -> None:
        return None

    settings = ClientSettings(sleep=sleep, on_retry=lambda failure, wait, sent: told.append((failure.kind, wait, sent)))
    run([json_answer(500, ""), json_answer(429, "", retry_after_ms="70"), text_answer(CHAT)], settings=settings)
    assert told == [("server", 1000, 1), ("rate_limit", 70, 2)]


def test_policy_can_forbid_retries() -> None:
    outcome = run([json_answer(500, "")], settings=ClientSettings(retry=NO_RETRY))
    assert outcome.message.stop_reason == "error"


# --- people's cases ---------------------------------------------------------------------------------------------


def plan_answers(plan: dict[str, Any], api: str) -> list[Answer]:
    return [
        text_answer(api, answer["text"])
        if answer["status"] == 200
        else json_answer(answer["status"], answer["body"], **answer.get("headers", {}))
        for answer in plan["responses"]
    ]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("name", "waits"), [("plan-429.json", [1.0, 1.0]), ("plan-rate-wording.json", [1.0])])
def test_s34_rate_limit_is_waited_out(api: str, name: str, waits: list[float]) -> None:
    plan = json.loads((CASES / "s34-rate-limit-is-not-overflow" / name).read_text("utf-8"))
    outcome = run(plan_answers(plan, api), asked=model(api, context_window=plan["context_window"]))
    assert outcome.message.text == "Answer."
    assert outcome.waits == waits
    assert not is_overflow(outcome.message, plan["context_window"])


@pytest.mark.parametrize("api", APIS)
def test_s34_overflow_ends_in_the_providers_words(api: str) -> None:
    plan = json.loads((CASES / "s34-rate-limit-is-not-overflow" / "plan-overflow-disabled.json").read_text("utf-8"))
    outcome = run(plan_answers(plan, api), asked=model(api))
    assert outcome.waits == []
    assert is_overflow(outcome.message)
    assert "prompt is too long: 213462 tokens > 200000 maximum" in (outcome.message.error_message or "")


@pytest.mark.parametrize("backend", BACKENDS)
def test_wait_ends_at_once_when_aborted(backend: str) -> None:
    controller = AbortController()

    async def sleep(_seconds: float) -> None:
        controller.abort()
        await anyio.sleep_forever()

    async def main() -> None:
        options = StreamOptions(api_key=KEY, signal=controller.signal)
        with anyio.fail_after(5):
            outcome = await ask([json_answer(500, "")], options=options, settings=ClientSettings(sleep=sleep))
        assert outcome.message.stop_reason == "aborted"
        assert len(outcome.http.requests) == 1

    anyio.run(main, backend=backend)
