"""Answers that come later, in a stored session: fetched into their place, waited for, given up, undone."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pi_loop import ScriptedModel
from pi_loop.types import StreamOptions
from pi_sessions.errors import CannotError, StoreError
from pi_sessions.messages import AssistantMessage, DeferredHandle
from pi_sessions.runs import ActiveRun, RunAliveError
from pi_sessions.store import SessionStore
from tests.loop.runner_world import World, run, world

__all__ = ["run", "world"]
Run = Callable[[Callable[[], Awaitable[Any]]], Any]
LATER = StreamOptions(deferred=True)
CALL = {"calls": [{"name": "add", "arguments": {"a": 2, "b": 40}}]}
NOT_YET = {"stopReason": "deferred"}


class Answers:
    """A provider that finishes an answer later: what each look gives; an error is raised."""

    def __init__(self, *looks: Any, deaf: bool = False) -> None:
        self.looks = list(looks)
        self.deaf = deaf
        self.cancelled: list[str] = []

    async def fetch(self, _handle: DeferredHandle, /) -> AssistantMessage | None:
        look = self.looks.pop(0)
        if isinstance(look, Exception):
            raise look
        given: AssistantMessage | None = look
        return given

    async def cancel(self, handle: DeferredHandle, /) -> None:
        if self.deaf:
            raise CannotError("no network", hint="try again")
        self.cancelled.append(handle.id)


def answered(*blocks: Any, reason: str = "stop", **more: Any) -> AssistantMessage:
    """Return an answer as a provider gives it later."""
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return AssistantMessage.model_validate({"content": content, "model": "demo", "stopReason": reason, **more})


async def asked(world: World) -> None:
    """Ask something whose answer comes later."""
    outcome = await world.runner([], stream_options=LATER).prompt("go")
    assert outcome.status == "done"
    assert outcome.message is not None
    assert outcome.message.deferred is not None


def test_it_is_fetched_by_the_next_runner_and_its_calls_run(world: World, run: Run) -> None:
    block = {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"a": 2, "b": 40}}
    answers = Answers(None, answered(block, reason="toolUse"))

    async def work() -> None:
        await asked(world)
        later = world.runner(["It is 42."], deferred=answers)
        assert await later.fetch_deferred() is None
        assert world.roles()[1:] == ["user", "assistant"]
        outcome = await later.fetch_deferred()
        assert outcome is not None
        assert (outcome.status, outcome.message.text) == ("done", "It is 42.")  # type: ignore[union-attr]
        assert await later.deferred_answer() is None

    run(work)
    assert world.roles()[1:] == ["user", "assistant", "toolResult", "assistant"]
    assert world.calls_have_one_result_each()


def test_waiting_looks_again_as_often_as_the_handle_says(world: World, run: Run) -> None:
    script = ScriptedModel({"steps": [NOT_YET, NOT_YET, "There."], "paceMs": 30})

    async def work() -> None:
        await world.runner(script, stream_options=LATER).prompt("go")
        outcome = await world.runner(script, deferred=script).fetch_deferred(wait=True)
        assert outcome is not None
        assert outcome.message.text == "There."  # type: ignore[union-attr]

    run(work)
    assert world.sleeps == [0.03, 0.03]


def test_waiting_can_be_stopped_and_nothing_has_changed(world: World, run: Run) -> None:
    answers = Answers(None, None, answered("There."))

    async def work() -> None:
        await asked(world)
        before = world.shape()

        async def stop(_seconds: float) -> None:
            later.abort()
            await anyio.sleep(0)

        later = world.runner([], deferred=answers, sleep=stop)
        assert await later.fetch_deferred(wait=True) is None
        assert world.shape() == before
        assert later.phase == "idle"
        assert await later.deferred_answer() is not None

    run(work)


def test_a_provider_that_cannot_be_asked_changes_nothing(world: World, run: Run) -> None:
    answers = Answers(CannotError("no network"), answered("There."))

    async def work() -> None:
        await asked(world)
        before = world.shape()
        later = world.runner([], deferred=answers)
        with pytest.raises(CannotError, match="no network"):
            await later.fetch_deferred()
        assert world.shape() == before
        assert await later.fetch_deferred() is not None

    run(work)


def test_an_answer_fetched_when_it_was_just_given_up_stays_where_it_is(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        before = world.shape()

        class Late(Answers):
            async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
                later.abort()
                return await super().fetch(handle)

        later = world.runner([], deferred=Late(answered("There.")))
        assert await later.fetch_deferred() is None
        assert world.shape() == before

    run(work)


def test_a_process_that_dies_before_the_answer_is_stored_still_waits_for_it(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        store = world.store
        append_many = ActiveRun.append_many

        def die(self: ActiveRun, entries: Any, **more: Any) -> Any:
            given = list(entries)
            if any(isinstance(one, dict) and one["type"] == "context_edit" for one in given):
                raise StoreError("the disk is gone")
            return append_many(self, given, **more)

        dying = world.runner([], system="New.", deferred=Answers(answered("There.")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ActiveRun, "append_many", die)
            with pytest.raises(StoreError):
                await dying.fetch_deferred()
        later = world.runner([], deferred=Answers(answered("There.")))
        assert store.unfinished_runs(world.sid)
        await later.recover("continue")
        outcome = await later.fetch_deferred()
        assert outcome is not None
        assert outcome.message.text == "There."  # type: ignore[union-attr]

    run(work)
    assert [role for role in world.roles() if role != "system"] == ["user", "assistant"]


def test_an_answer_that_failed_is_asked_for_again(world: World, run: Run) -> None:
    diagnostic = {"type": "provider_failure", "details": {"kind": "server", "retryable": True}}
    failed = answered("ha", reason="error", errorMessage="500 broke", diagnostics=[diagnostic])

    async def work() -> None:
        await asked(world)
        outcome = await world.runner(["Whole."], deferred=Answers(failed)).fetch_deferred()
        assert outcome is not None
        assert (outcome.status, outcome.retries) == ("done", 1)

    run(work)
    assert world.roles()[1:] == ["user", "assistant"]


def test_it_is_given_up_and_undo_brings_it_back(world: World, run: Run) -> None:
    answers = Answers(answered("There."))

    async def work() -> None:
        await asked(world)
        later = world.runner(["at once"], deferred=answers)
        assert await later.cancel_deferred() is None
        assert await later.deferred_answer() is None
        assert world.roles()[1:] == ["user"]
        world.store.undo(world.sid)
        assert await later.deferred_answer() is not None
        assert await later.cancel_deferred() is None
        assert (await later.continue_()).status == "done"

    run(work)
    assert answers.cancelled == ["later_1", "later_1"]
    assert world.roles()[1:] == ["user", "assistant"]


def test_it_can_be_given_up_although_nobody_can_be_told(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        assert await world.runner([], deferred=Answers(deaf=True)).cancel_deferred() == "no network"
        world.store.undo(world.sid)
        reason = await world.runner([]).cancel_deferred()
        assert reason is not None
        assert "cannot be cancelled here" in reason

    run(work)
    assert world.roles()[1:] == ["user"]


def test_without_one_there_is_nothing_to_fetch_or_give_up(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner(["at once"], deferred=Answers())
        await runner.prompt("go")
        with pytest.raises(CannotError, match="no deferred answer"):
            await runner.fetch_deferred()
        with pytest.raises(CannotError, match="no deferred answer"):
            await runner.cancel_deferred()

    run(work)


def test_a_handle_that_nobody_can_fetch_says_so(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        with pytest.raises(CannotError, match="cannot be fetched here"):
            await world.runner([]).fetch_deferred()

    run(work)


def test_summaries_do_not_come_later(world: World, run: Run) -> None:
    seen: list[bool] = []
    script = ScriptedModel(["One.", "Two.", "The summary.", "Of the turn."])

    async def stream(model: Any, request: Any, options: StreamOptions) -> Any:
        seen.append(options.deferred)
        return script(model, request, StreamOptions())

    async def work() -> None:
        runner = world.runner(stream, stream_options=LATER, settings={"compaction": {"keepRecentTokens": 1}})
        await runner.prompt("first " * 2000)
        await runner.prompt("second")
        await runner.compact()

    run(work)
    assert seen[:2] == [True, True]
    assert set(seen[2:]) == {False}


def test_it_is_told_in_deltas_as_if_it_were_streamed(world: World, run: Run) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "s"}
    block = {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"a": 2, "b": 40}}
    answer = answered(thought, "First ", "second.", block, reason="toolUse")

    async def work() -> None:
        await asked(world)
        world.events.clear()
        await world.runner(["It is 42."], deferred=Answers(answer)).fetch_deferred()

    run(work)
    ended = next(place for place, event in enumerate(world.events) if event.type == "message_end")
    inner = [event.assistant_message_event for event in world.events[:ended] if event.type == "message_update"]
    assert [event.type for event in inner] == [
        "thinking_start", "thinking_delta", "thinking_end",
        "text_start", "text_delta", "text_end", "text_start", "text_delta", "text_end",
        "toolcall_start", "toolcall_end",
    ]  # fmt: skip
    assert "".join(event.delta for event in inner if event.type == "text_delta") == "First second."
    stored = world.store.context(world.sid).messages[-3].message
    assert stored["content"] == [
        thought,
        {"type": "text", "text": "First "},
        {"type": "text", "text": "second."},
        block,
    ]


def test_what_was_said_behind_it_meanwhile_does_not_lose_it(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        world.store.append(world.sid, {"type": "message", "message": {"role": "user", "content": "meanwhile"}})
        later = world.runner([], deferred=Answers(answered("There.")))
        outcome = await later.fetch_deferred()
        assert outcome is not None
        assert outcome.message.text == "There."  # type: ignore[union-attr]
        assert await later.deferred_answer() is None

    run(work)
    assert world.roles()[1:] == ["user", "user", "assistant"]


def test_one_that_an_answer_came_behind_is_not_waited_for(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        runner = world.runner(["Another."], deferred=Answers())
        await runner.prompt("never mind")
        assert await runner.deferred_answer() is None

    run(work)


def test_of_two_processes_that_have_fetched_it_one_takes_it_in(world: World, run: Run) -> None:
    block = {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"a": 2, "b": 40}}
    calling = answered(block, reason="toolUse")

    async def work() -> None:
        await asked(world)
        first = world.runner(["It is 42."], deferred=Answers(calling))

        class Slow(Answers):
            async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
                await first.fetch_deferred()
                return await super().fetch(handle)

        second = world.runner([], deferred=Slow(calling))
        with pytest.raises(CannotError, match="no deferred answer"):
            await second.fetch_deferred()

    run(work)
    assert world.roles()[1:] == ["user", "assistant", "toolResult", "assistant"]
    assert len(world.store.branches(world.sid)) == 1


def test_one_that_another_process_is_taking_in_is_left_to_it(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)
        with SessionStore.open(world.file) as elsewhere:
            taking = elsewhere.begin_run(world.sid, command="run", summary="fetch a deferred answer")
            with pytest.raises(RunAliveError, match="Another process is at work on main"):
                await world.runner([], deferred=Answers(answered("There."))).fetch_deferred()
            taking.finish("done")
            taking.release()
        assert await world.runner([], deferred=Answers(answered("There."))).fetch_deferred() is not None

    run(work)
    assert len(world.store.branches(world.sid)) == 1


def test_an_append_between_the_look_and_the_taking_in_is_no_harm(world: World, run: Run) -> None:
    async def work() -> None:
        await asked(world)

        class Slow(Answers):
            async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
                message = {"role": "user", "content": "meanwhile"}
                world.store.append(world.sid, {"type": "message", "message": message})
                return await super().fetch(handle)

        assert await world.runner([], deferred=Slow(answered("There."))).fetch_deferred() is not None

    run(work)
    assert world.roles()[1:] == ["user", "user", "assistant"]
