"""Runs of stored sessions: what is on disk when, who hears what, and how every way out ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pi_loop import Model, ToolContext, tool
from pi_loop.events import MessageEnd
from pi_loop.runner_types import BranchDiverged, NotRunningError, PhaseBusyError, UnfinishedRunError
from pi_loop.types import CannotContinueError
from pi_sessions.errors import StoreFullError
from pi_sessions.messages import block_texts
from pi_sessions.store import SessionStore
from tests.loop.runner_world import MODEL, World, add, asking, ended, once, run, world

__all__ = ["run", "world"]
Run = Callable[[Callable[[], Awaitable[Any]]], Any]
CALL = {"calls": [{"name": "add", "arguments": {"a": 2, "b": 40}}]}
FIRST = ["model_change", "thinking_level_change", "system", "user", "assistant"]


def test_a_run_is_a_path_of_entries_and_one_operation(world: World, run: Run) -> None:
    outcome = run(lambda: world.runner([CALL, "It is 42."], system="Be brief.").prompt("2 plus 40?"))
    assert (outcome.status, outcome.message.text, outcome.error) == ("done", "It is 42.", None)
    assert world.shape() == [*FIRST, "toolResult", "assistant"]
    assert outcome.leaf == world.store.leaf(world.sid)
    latest = world.store.operations(world.sid)[0]
    assert (latest.id, latest.command, latest.summary) == (outcome.op, "run", "2 plus 40?")
    undone = world.store.undo(world.sid)
    assert (undone.undone.id, world.store.leaf(world.sid)) == (outcome.op, None)
    world.store.redo(world.sid)
    assert world.store.leaf(world.sid) == outcome.leaf


def test_every_message_is_on_disk_before_anybody_hears_of_its_end(world: World, run: Run) -> None:
    heard = []

    def listen(event: Any) -> None:
        if isinstance(event, MessageEnd):
            with SessionStore.open(world.file, read_only=True) as other:
                last = other.path(world.sid)[-1].message or {}
            heard.append((event.message.role, last.get("role")))

    async def work() -> None:
        runner = world.runner([CALL, "42."])
        runner.subscribe(listen)
        await runner.prompt("?")

    run(work)
    assert [stored for _, stored in heard] == [said for said, _ in heard]
    assert len(heard) == 5


def test_prompt_and_started_call_are_on_disk_before_their_effect(world: World, run: Run) -> None:
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look at what the store knows of this very call."""
        with SessionStore.open(world.file, read_only=True) as other:
            (found,) = other.unfinished_runs(world.sid)
            seen.append([(call.call_id == context.call_id, call.state) for call in found.calls])
        return "ok"

    def at_start(event: Any) -> None:
        if event.type == "run_start":
            with SessionStore.open(world.file, read_only=True) as other:
                (found,) = other.unfinished_runs(world.sid)
                seen.append([one.text for one in found.accepted])

    async def work() -> None:
        runner = world.runner([{"calls": [{"name": "look"}]}, "done"], tools=[look])
        runner.subscribe(at_start)
        await runner.prompt("look")

    run(work)
    assert seen == [["look"], [(True, "may_have_run")]]
    assert world.store.unfinished_runs() == []


def test_a_later_runner_goes_on_with_another_model_level_and_prompt(world: World, run: Run) -> None:
    async def work() -> None:
        await world.runner(["one"], system="Old.").prompt("first")
        other = Model(id="other", api="scripted", provider="scripted")
        await world.runner(["two"], system="New.", model=other, thinking_level="high").prompt("second")
        await world.runner(["three"], system="New.", model=other).prompt("third")

    run(work)
    assert world.shape()[5:] == [
        "model_change", "thinking_level_change", "system", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    context = world.store.context(world.sid)
    assert (context.model.model_id, context.thinking_level) == ("other", "high")  # type: ignore[union-attr]
    systems = [one.message for one in context.messages if one.message["role"] == "system"]
    assert systems[-1]["sections"] == {"prompt": "New."}


def test_one_thing_at_a_time(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([{"text": "a b"}, "later"])
        refused = []

        async def try_all() -> None:
            assert runner.phase == "turn"
            for attempt in (runner.prompt("x"), runner.compact(), runner.rewind(None), runner.recover("close")):
                with pytest.raises(PhaseBusyError):
                    await attempt
                refused.append(1)

        runner.subscribe(once("message_update", try_all))
        await runner.prompt("go")
        assert len(refused) == 4
        assert runner.phase == "idle"
        with pytest.raises(NotRunningError):
            await runner.steer("too late")
        with pytest.raises(CannotContinueError):
            await runner.continue_()

    run(work)


def test_steering_and_follow_ups_are_stored_at_once_and_go_in(world: World, run: Run) -> None:
    waiting: list[Any] = []

    async def work() -> None:
        runner = world.runner([{"text": "working on it", **CALL}, "after steering", "after follow-up"])

        async def queue() -> None:
            await runner.follow_up("and then?")
            await runner.steer("hurry")
            with SessionStore.open(world.file, read_only=True) as other:
                waiting.extend((one.kind, one.text) for one in other.unfinished_runs(world.sid)[0].accepted)
            assert runner.queued() == (["hurry"], ["and then?"])

        runner.subscribe(once("message_update", queue))
        outcome = await runner.prompt("go")
        assert outcome.given_back == ()

    run(work)
    assert waiting == [("follow_up", "and then?"), ("steering", "hurry")]
    assert world.shape()[3:] == ["user", "assistant", "toolResult", "user", "assistant", "user", "assistant"]
    assert [event.steering for event in world.events if event.type == "queue_update"] == [[], ["hurry"], [], []]


def test_an_abort_ends_the_run_and_gives_queued_messages_back(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([{"text": "half an answer", "stall": True}, "again"])

        async def abort() -> None:
            await runner.follow_up("later")
            runner.abort()

        runner.subscribe(once("message_update", abort))
        outcome = await runner.prompt("go")
        assert outcome.status == "aborted"
        assert [block_texts(one.content) for one in outcome.given_back] == [["later"]]
        assert (await runner.prompt("once more")).status == "done"

    run(work)
    stored = [entry.message for entry in world.store.path(world.sid) if entry.role == "assistant"]
    assert [message["stopReason"] for message in stored if message] == ["aborted", "stop"]
    assert world.store.unfinished_runs() == []


def test_a_cancelled_run_leaves_a_whole_transcript(world: World, run: Run) -> None:
    started = []

    @tool
    async def hang() -> str:
        """Never ends."""
        started.append(1)
        await anyio.sleep_forever()
        return "never"

    async def work() -> None:
        runner = world.runner(
            [{"calls": [{"name": "hang"}, {"name": "add", "arguments": {"a": 1, "b": 1}}]}], tools=[hang, add]
        )
        with anyio.move_on_after(0.2):
            await runner.prompt("go")
        assert runner.phase == "idle"

    run(work)
    assert started
    assert world.calls_have_one_result_each()
    assert world.store.unfinished_runs() == []


def test_switches_during_a_run_are_entries_and_count_from_the_next_turn(world: World, run: Run) -> None:
    other = Model(id="other", api="scripted", provider="scripted", reasoning=True)

    async def work() -> None:
        runner = world.runner([{"text": "a", **CALL}, "b"])

        async def switch() -> None:
            await runner.set_model(other)
            await runner.set_thinking_level("high")

        runner.subscribe(once("message_update", switch))
        await runner.prompt("go")
        answers = ended(world.events, "assistant")
        assert [(one.model, one.thinking_level) for one in answers] == [("demo", "off"), ("other", "high")]
        await runner.set_thinking_level("low")

    run(work)
    switches = ["model_change", "thinking_level_change"]
    assert world.shape()[3:] == ["user", *switches, "assistant", "toolResult", "assistant", "thinking_level_change"]
    assert world.store.operations(world.sid)[0].command == "thinking"


def test_a_run_that_loses_the_race_goes_on_beside_and_says_so(world: World, run: Run) -> None:
    @tool
    async def meddle() -> str:
        """Let somebody else move the branch in the middle of a call."""
        with SessionStore.open(world.file) as other:
            other.append_message(world.sid, {"role": "user", "content": "somebody else"})
        return "done"

    async def work() -> None:
        runner = world.runner([{"calls": [{"name": "meddle"}]}, "on my own", "still"], tools=[meddle])
        outcome = await runner.prompt("go")
        assert (outcome.own_branch, outcome.branch, outcome.from_branch) == (True, "main-2", "main")
        (told,) = [event.message for event in world.events if isinstance(event, BranchDiverged)]
        assert told == "main has moved on since: this run goes on on its own branch main-2"
        assert outcome.notes == ()
        assert runner.diverged
        assert (await runner.prompt("more")).branch == "main-2"

    run(work)
    assert world.store.session(world.sid).branch == "main"
    assert world.shape()[-2:] == ["assistant", "user"]
    assert world.shape("main-2")[4:] == ["assistant", "toolResult", "assistant", "user", "assistant"]
    kinds = world.kinds("branch_diverged", "agent_end")
    assert kinds.index("branch_diverged") < kinds.index("agent_end")
    first = next(op for op in reversed(world.store.operations(world.sid)) if op.command == "run")
    assert {change.name for change in first.changes} == {"main", "main-2"}


def test_a_result_hangs_under_its_call_whatever_the_leaf_is_by_then(world: World, run: Run) -> None:
    @tool
    async def rewind() -> str:
        """Let the person rewind in the middle of a call."""
        with SessionStore.open(world.file) as other:
            other.rewind(world.sid, None)
        return "done"

    run(lambda: world.runner([{"calls": [{"name": "rewind"}]}, "fine"], tools=[rewind]).prompt("go"))
    by_id = {entry.id: entry for entry in world.store.entries(world.sid)}
    (result,) = [entry for entry in by_id.values() if entry.role == "toolResult"]
    assert by_id[result.parent_id or ""].role == "assistant"
    assert world.store.leaf(world.sid) is None


def test_a_second_run_on_a_branch_begins_where_the_first_one_did(world: World, run: Run) -> None:
    async def work() -> None:
        await world.runner(["settled"]).prompt("before")
        settled = world.store.leaf(world.sid)
        first = world.runner([{"text": "slow answer"}])
        with SessionStore.open(world.file) as store:
            other = world.runner(["quick"])
            other._host.store = store

            async def second() -> None:
                outcome = await other.prompt("at the same time")
                assert (outcome.branch, outcome.own_branch) == ("main-2", True)

            first.subscribe(once("message_update", second))
            outcome = await first.prompt("first")
        assert (outcome.branch, outcome.own_branch) == ("main", False)
        side = world.store.path(world.sid, world.store.leaf(world.sid, "main-2"))
        assert [entry.id for entry in side].index(settled or "") == len(side) - 3

    run(work)
    assert world.shape()[-2:] == world.shape("main-2")[-2:] == ["user", "assistant"]


def test_a_failed_run_ends_in_error_and_can_be_gone_on_from(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([{"text": "half", "error": "401 invalid key"}, "now it works"])
        outcome = await runner.prompt("go")
        assert (outcome.status, outcome.retries) == ("error", 0)
        assert "invalid key" in (outcome.error or "")
        assert (await runner.continue_()).status == "done"

    run(work)
    assert world.roles() == ["system", "user", "assistant"]
    assert world.shape()[-3:] == ["assistant", "context_edit", "assistant"]


def test_a_stream_function_that_raises_is_an_answer_that_failed(world: World, run: Run) -> None:
    outcome = run(lambda: world.runner([{"raise": "boom"}]).prompt("go"))
    assert (outcome.status, outcome.error) == ("error", "boom")
    assert world.store.path(world.sid)[-1].message["stopReason"] == "error"  # type: ignore[index]


def test_a_listener_that_raises_fails_the_run_and_not_the_session(world: World, run: Run) -> None:
    def listen(event: Any) -> None:
        if event.type == "turn_end" and ended(world.events, "assistant")[-1].stop_reason == "stop":
            raise RuntimeError("the screen is gone")

    async def work() -> None:
        runner = world.runner(["fine", "again"])
        stop = runner.subscribe(listen)
        assert (await runner.prompt("go")).error == "the screen is gone"
        stop()
        assert (await runner.prompt("go on")).status == "done"

    run(work)


def test_a_full_disk_ends_the_run_and_it_is_found_again(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner([CALL, "never stored"])
        plain = world.store.append_many

        def refuse(*given: Any, **named: Any) -> Any:
            if runner.phase == "turn" and ended(world.events, "toolResult"):
                raise StoreFullError("The disk is full")
            return plain(*given, **named)

        world.store.append_many = refuse  # type: ignore[method-assign]
        with pytest.raises(StoreFullError):
            await runner.prompt("go")
        del world.store.append_many
        with pytest.raises(UnfinishedRunError):
            await runner.prompt("more")
        assert (await world.runner(["recovered"]).recover("continue")).status == "done"  # type: ignore[union-attr]

    run(work)
    assert world.shape()[-3:] == ["assistant", "toolResult", "assistant"]


def test_strange_stored_messages_do_not_stop_a_resume(world: World, run: Run) -> None:
    for message in (
        {"role": "toolResult", "content": "no id"},
        {"role": "assistant", "content": [{"type": "toolCall"}, {"type": "text", "text": "kept"}], "stopReason": 7},
        {"role": "user"},
        {"role": "never heard of", "content": 3},
        {"role": "bashExecution", "command": "ls", "output": "a"},
    ):
        world.store.append_message(world.sid, message)
    stream, asked = asking(lambda _number, _text: "ok")
    assert run(lambda: world.runner(stream).prompt("go")).status == "done"
    assert "Ran `ls`" in asked[0]


def test_tools_of_another_run_are_declared_anew(world: World, run: Run) -> None:
    async def work() -> None:
        await world.runner(["one"]).prompt("first")
        await world.runner(["two"], tools=[]).prompt("second")

    run(work)
    systems = [entry.message for entry in world.store.path(world.sid) if entry.role == "system"]
    assert [sorted(set(message or {}) & {"toolsAdded", "toolsRemoved"}) for message in systems] == [
        ["toolsAdded"],
        ["toolsRemoved"],
    ]


def test_context_usage_counts_the_leaf_of_the_branch(world: World, run: Run) -> None:
    async def work() -> None:
        runner = world.runner(["x" * 400])
        await runner.prompt("go")
        tokens, window = await runner.context_usage()
        assert tokens > 100
        assert window == MODEL.context_window

    run(work)
