"""Failed answers that may succeed later, contexts that are too long, and how neither turns into a loop."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from pi_loop import AssistantDraft, Model
from pi_loop.events import AssistantMessageEvent
from pi_loop.runner_messages import user_messages
from pi_loop.types import Request, StreamOptions
from tests.loop.runner_world import CASES, MODEL, World, asking, once, run, world

__all__ = ["run", "world"]
Run = Callable[[Callable[[], Awaitable[Any]]], Any]
CALL = {"calls": [{"name": "add", "arguments": {"a": 2, "b": 40}}]}
BUSY = {"text": "half", "error": "503 overloaded"}


def plan(name: str) -> dict[str, Any]:
    """Return a provider's plan among the cases."""
    found: dict[str, Any] = json.loads((CASES / name).read_text())
    return found


def from_plan(responses: list[dict[str, Any]]) -> tuple[Any, list[int]]:
    """Return a model that answers as a case's plan says, and the numbers of its requests."""
    asked: list[int] = []

    async def stream(model: Model, _request: Request, _options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
        response = responses[min(len(asked), len(responses) - 1)]
        asked.append(len(asked) + 1)
        draft = AssistantDraft(model, timestamp=0)
        if response["status"] == 200:
            yield draft.start()
            begun = draft.text_start()
            yield begun
            yield draft.text_delta(begun.content_index, response["text"])
            yield draft.done("stop")
            return
        body = response["body"]
        words = body["error"]["message"] if isinstance(body, dict) else "Too many requests"
        yield draft.error(f"{response['status']} {words}")

    return stream, asked


def test_what_may_succeed_later_is_asked_again_after_growing_waits(world: World, run: Run) -> None:
    outcome = run(lambda: world.runner([BUSY, BUSY, CALL, BUSY, "fine"]).prompt("go"))
    assert (outcome.status, outcome.retries) == ("done", 3)
    assert world.sleeps == [2.0, 4.0, 2.0]
    assert world.roles() == ["system", "user", "assistant", "toolResult", "assistant"]
    assert world.shape()[4:] == [
        "assistant", "context_edit", "assistant", "context_edit", "assistant", "toolResult", "assistant",
        "context_edit", "assistant",
    ]  # fmt: skip
    assert world.kinds("auto_retry_start", "auto_retry_end") == [
        "auto_retry_start", "auto_retry_start", "auto_retry_end", "auto_retry_start", "auto_retry_end",
    ]  # fmt: skip


def test_patience_ends(world: World, run: Run) -> None:
    settings = {"retry": {"maxRetries": 2, "baseDelayMs": 10}}
    outcome = run(lambda: world.runner([BUSY, BUSY, BUSY], settings=settings).prompt("go"))
    assert (outcome.status, outcome.retries) == ("error", 2)
    assert "overloaded" in (outcome.error or "")
    assert world.sleeps == [0.01, 0.02]
    last = [event for event in world.events if event.type == "auto_retry_end"][-1]
    assert (last.success, last.attempt) == (False, 2)
    assert world.roles()[-1] == "assistant"


@pytest.mark.parametrize("settings", [{"retry": {"enabled": False}}, {"retry": {"maxRetries": 0}}])
def test_retrying_can_be_turned_off(world: World, run: Run, settings: dict[str, Any]) -> None:
    assert run(lambda: world.runner([BUSY], settings=settings).prompt("go")).status == "error"
    assert world.sleeps == []


def test_an_abort_ends_the_wait_at_once(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([BUSY, "after"], sleep=lambda _seconds: anyio.sleep_forever())

        async def abort_soon() -> None:
            runner.abort()

        runner.subscribe(once("auto_retry_start", abort_soon))
        outcome = await runner.prompt("go")
        assert (outcome.status, outcome.retries) == ("aborted", 1)
        *_, failed, edit = world.store.path(world.sid)
        assert (edit.type, edit.fields["targetId"]) == ("context_edit", failed.id)
        assert (await runner.continue_()).status == "done"

    run(work)
    assert world.store.unfinished_runs() == []


@pytest.mark.parametrize("name", ["plan-429.json", "plan-rate-wording.json"])
def test_s34_a_rate_limit_is_waited_out_and_never_compacted(world: World, run: Run, name: str) -> None:
    responses = plan(f"s34-rate-limit-is-not-overflow/{name}")["responses"]
    stream, asked = from_plan(responses)
    outcome = run(lambda: world.runner(stream).prompt("go"))
    assert (outcome.status, outcome.message.text, outcome.compactions) == ("done", "Answer.", 0)
    assert len(asked) == len(responses)
    assert world.kinds("compaction_start") == []


def test_s34_an_overflow_with_compaction_off_is_the_providers_error(world: World, run: Run) -> None:
    case = plan("s34-rate-limit-is-not-overflow/plan-overflow-disabled.json")
    stream, asked = from_plan(case["responses"])
    settings = {"compaction": {"enabled": case["settings"]["auto_compaction"]}}
    outcome = run(lambda: world.runner(stream, settings=settings).prompt("go"))
    assert outcome.status == "error"
    assert "prompt is too long" in (outcome.error or "")
    assert len(asked) == 1
    assert world.kinds("compaction_start") == []


def test_s13_an_overflow_that_compaction_cannot_help_ends(world: World, run: Run) -> None:
    world.use_case("s13-overflow-loop/session.jsonl")
    before = world.store.leaf(world.sid)
    window = plan("s13-overflow-loop/plan.json")["context_window"]
    model = MODEL.model_copy(update={"context_window": window})

    def answer(_number: int, text: str) -> Any:
        if "write nothing but the summary" in text:
            return "notes " * 7000
        return {"error": "400 This model's maximum context length is 4096 tokens. However, you requested 9000 tokens."}

    stream, asked = asking(answer)

    async def work() -> None:
        for _ in range(2):
            asked.clear()
            outcome = await world.runner(stream, model=model).prompt("go on")
            assert outcome.status == "error"
            assert "maximum context length" in (outcome.error or "")
            assert outcome.compactions == 0
            assert len([text for text in asked if "write nothing but the summary" not in text]) == 1
            assert len(asked) <= 3

    run(work)
    assert "compaction" not in world.shape()
    assert world.kinds("compaction_start") == ["compaction_start"] * 2
    fork = world.store.fork(world.sid, at=before)
    assert world.store.leaf(fork.id) == before
    world.store.rewind(world.sid, before)


def test_an_overflow_is_compacted_and_asked_again_once(world: World, run: Run) -> None:
    overflow = {"error": "400 prompt is too long: 213462 tokens > 200000 maximum"}
    settings = {"compaction": {"keepRecentTokens": 10}}

    def answer(number: int, text: str) -> Any:
        if "write nothing but the summary" in text:
            return "SUMMARY"
        return {1: "long " * 500, 2: overflow}.get(number, "fine")

    stream, asked = asking(answer)

    async def work() -> None:
        runner = world.runner(stream, settings=settings)
        await runner.prompt("first " * 100)
        outcome = await runner.prompt("second")
        assert (outcome.status, outcome.compactions, outcome.message.text) == ("done", 1, "fine")  # type: ignore[union-attr]

    run(work)
    assert len(asked) == 4
    assert "SUMMARY" in asked[-1]
    assert "second" in asked[-1]
    assert world.shape()[-4:] == ["assistant", "context_edit", "compaction", "assistant"]
    assert [event.reason for event in world.events if event.type == "compaction_start"] == ["overflow"]


def test_an_overflow_after_the_recovery_ends_the_run(world: World, run: Run) -> None:
    settings = {"compaction": {"keepRecentTokens": 10}}

    def answer(number: int, text: str) -> Any:
        if "write nothing but the summary" in text:
            return "SUMMARY"
        return "long " * 500 if number == 1 else {"error": "400 prompt is too long: 213462 tokens > 200000 maximum"}

    stream, asked = asking(answer)

    async def work() -> None:
        runner = world.runner(stream, settings=settings)
        await runner.prompt("first " * 100)
        outcome = await runner.prompt("second")
        assert (outcome.status, outcome.compactions) == ("error", 1)

    run(work)
    assert len(asked) == 4


def test_s35_a_stalled_answer_is_kept_marked_and_an_abort_ends_it_at_once(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([{"text": "Half an ans", "stall": True}, "whole"])
        async with anyio.create_task_group() as group:

            async def interrupt() -> None:
                await anyio.sleep(0.05)
                runner.abort()

            group.start_soon(interrupt)
            with anyio.fail_after(1):
                outcome = await runner.prompt("go")
        assert outcome.status == "aborted"
        stored = world.store.path(world.sid)[-1].message or {}
        assert (stored["content"][0]["text"], stored["stopReason"]) == ("Half an ans", "aborted")
        assert (await runner.continue_()).status == "done"

    run(work)


def test_a_text_prompt_becomes_a_message_with_its_images() -> None:
    (message,) = user_messages("look", (), 5)
    assert message.model_dump(mode="json")["content"] == [{"type": "text", "text": "look"}]
