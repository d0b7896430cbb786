"""Whatever happens to a run, wherever: the transcript is valid, everything settles, and the agent can be used again."""

import asyncio

import anyio
import pytest
import sniffio
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_loop.abort import AbortController
from pi_loop.events import MessageEnd, ToolExecutionStart
from pi_loop.hooks import error_text
from pi_loop.loop import run_loop_continue
from pi_loop.tool_calls import CallOutcome, NestedHooks, run_tool_call
from pi_loop.types import AgentContext, LoopConfig, Tool, ToolResult
from pi_sessions.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from tests.loop.agent_world import MODEL, Plan, Trouble, World, problems_of

BACKENDS = ("asyncio", "trio")
backends = st.sampled_from(BACKENDS)
turns = st.lists(st.integers(0, 4), min_size=1, max_size=3)


def plans(where: list[str], what: list[str]) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        turns=turns,
        at=st.integers(1, 60),
        where=st.sampled_from(where),
        what=st.sampled_from(what),
        sequential=st.booleans(),
        steering=st.booleans(),
    )


class SilentError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise TypeError("no text")


def test_an_exception_without_a_text_is_named_by_its_class() -> None:
    assert error_text(SilentError()) == "SilentError"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(ValueError("why")) == "why"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tool_that_raises_an_exception_without_a_text_has_a_result(backend: str) -> None:
    async def execute(*_: object) -> ToolResult:
        raise SilentError

    def before(*_: object) -> None:
        raise SilentError

    call = ToolCall(id="c", name="t", arguments={})
    context = AgentContext([], [Tool(name="t", description="", parameters={}, execute=execute)])
    answer = AssistantMessage(content=[call])
    for hooks in (None, NestedHooks(before_tool_call=before)):

        async def main(hooks: NestedHooks | None = hooks) -> CallOutcome:
            return await run_tool_call(call, assistant_message=answer, context=context, hooks=hooks)

        outcome = anyio.run(main, backend=backend)
        assert outcome.is_error
        assert [block.text for block in outcome.result.content if block.type == "text"] == ["SilentError"]


def tasks_alive() -> int:
    if sniffio.current_async_library() == "asyncio":
        return len(asyncio.all_tasks())
    return trio.lowlevel.current_statistics().tasks_living


def run_world(plan: Plan, backend: str) -> World:
    """Run a plan; the world after it, whose agent has been checked to be idle, clean and usable."""

    async def main() -> World:
        before = tasks_alive()
        world = World(plan)
        await world.run()
        await anyio.lowlevel.checkpoint()
        assert tasks_alive() == before
        assert world.listeners_entered == world.listeners_left
        assert world.open_streams == world.running_tools == 0
        state = world.agent.state
        assert not state.is_streaming
        assert state.streaming_message is None
        assert state.pending_tool_calls == ()
        with anyio.fail_after(1):
            await world.agent.wait_for_idle()
        return world

    return anyio.run(main, backend=backend)


def use_again(world: World, backend: str) -> None:
    async def main() -> None:
        world.plan = Plan(turns=[1])
        world.answers = iter([1])
        await world.agent.prompt("again")

    before = len(world.agent.state.messages)
    anyio.run(main, backend=backend)
    roles = [message.role for message in world.agent.state.messages[before:]]
    assert [role for role in roles if role != "system"][-4:] == ["user", "assistant", "toolResult", "assistant"]


@settings(max_examples=150, deadline=None)
@given(plans(["stream", "tool", "hook", "listener", "any"], ["cancel"]), backends)
def test_a_cancellation_at_any_place_leaves_a_valid_transcript(plan: Plan, backend: str) -> None:
    world = run_world(plan, backend)
    assert problems_of(world.agent.state.messages) == []
    use_again(world, backend)
    assert problems_of(world.agent.state.messages) == []


@settings(max_examples=150, deadline=None)
@given(turns, st.integers(0, 120), st.booleans(), backends)
def test_a_cancellation_at_any_moment_leaves_a_valid_transcript(
    turns: list[int], rounds: int, sequential: bool, backend: str
) -> None:
    world = run_world(Plan(turns=turns, sequential=sequential, cancel_after=rounds), backend)
    assert problems_of(world.agent.state.messages) == []


@settings(max_examples=100, deadline=None)
@given(plans(["stream", "tool", "hook", "listener", "any"], ["abort"]), backends)
def test_an_abort_at_any_place_leaves_a_valid_transcript(plan: Plan, backend: str) -> None:
    world = run_world(plan, backend)
    assert problems_of(world.agent.state.messages) == []


@settings(max_examples=100, deadline=None)
@given(plans(["stream", "tool", "hook"], ["raise"]), backends)
def test_a_hook_a_tool_or_a_stream_that_raises_leaves_a_valid_transcript(plan: Plan, backend: str) -> None:
    world = run_world(plan, backend)
    assert problems_of(world.agent.state.messages) == []
    use_again(world, backend)


@settings(max_examples=60, deadline=None)
@given(plans(["listener"], ["raise"]), backends)
def test_a_listener_that_raises_leaves_no_half_message_and_a_usable_agent(plan: Plan, backend: str) -> None:
    """Calls of the failed turn have no results then: that is Pi's recorded behaviour (scenarios agent-36 and 37)."""
    world = run_world(plan, backend)
    messages = world.agent.state.messages
    assert all(message.stop_reason != "pending" for message in messages if isinstance(message, AssistantMessage))
    if world.happened and not (isinstance(messages[-1], AssistantMessage) and messages[-1].error_message):
        pytest.fail("the failure is not in the transcript")
    use_again(world, backend)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 30), st.booleans(), backends)
def test_a_cancelled_continuation_leaves_the_callers_list_valid(at: int, sequential: bool, backend: str) -> None:
    """A continuation grows the caller's own list; what it leaves there is complete, and the sink was told all of it."""

    async def main() -> None:
        world = World(Plan(turns=[3, 2], at=at, sequential=sequential))
        context = AgentContext([UserMessage(content="go")], world.agent.state.tools)
        told: list[str] = []

        async def sink(event: object) -> None:
            if isinstance(event, MessageEnd):
                told.append(event.message.role)
            await world.tick("listener")

        config = LoopConfig(model=MODEL, tool_execution="sequential" if sequential else None)
        with world.scope:
            await run_loop_continue(context, config, sink, stream_fn=world.stream)
        assert problems_of(context.messages) == []
        assert told == [message.role for message in context.messages[1:]]

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cancelled_run_tells_its_listeners_how_it_ended(backend: str) -> None:
    heard: list[str] = []

    async def main() -> None:
        world = World(Plan(turns=[2], at=1, where="tool"))
        world.agent.subscribe(lambda event, signal: heard.append(event.type))
        await world.run()
        results = [m for m in world.agent.state.messages if isinstance(m, ToolResultMessage)]
        assert [result.content[0].text for result in results] == ["Operation aborted"] * 2
        assert world.agent.state.messages[-1].stop_reason == "aborted"

    anyio.run(main, backend=backend)
    assert heard.count("tool_execution_start") == heard.count("tool_execution_end") == 2
    assert heard.count("message_start") == heard.count("message_end")
    assert heard[-2:] == ["turn_end", "agent_end"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_listener_that_hangs_does_not_hold_a_cancelled_run(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pi_loop.hooks.CLOSING_LIMIT_S", 0.02)

    async def main() -> None:
        world = World(Plan(turns=[3], at=0))

        async def hang(event: object, signal: object) -> None:
            if isinstance(event, ToolExecutionStart):
                world.scope.cancel()
                await anyio.sleep_forever()
            if world.scope.cancel_called:
                await anyio.sleep_forever()

        world.agent.subscribe(hang)
        with anyio.fail_after(5):
            await world.run()
        assert problems_of(world.agent.state.messages) == []
        assert not world.agent.state.is_streaming

    anyio.run(main, backend=backend)


def test_native_cancellation_of_a_task_is_a_cancellation_too() -> None:
    async def main() -> None:
        world = World(Plan(turns=[2]))
        started = asyncio.Event()

        async def wait_in_tool(*_: object) -> None:
            started.set()
            await asyncio.sleep(60)

        world.agent.after_tool_call = wait_in_tool
        task = asyncio.create_task(world.agent.prompt("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert problems_of(world.agent.state.messages) == []
        assert not world.agent.state.is_streaming

    asyncio.run(main())


def test_a_tool_that_waits_for_something_cancelled_by_others_only_fails_its_call() -> None:
    async def main() -> World:
        world = World(Plan(turns=[2]))

        async def fail(*_: object) -> None:
            lost = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost

        world.execute = fail
        world.__post_init__()
        await world.agent.prompt("go")
        return world

    world = asyncio.run(main())
    assert problems_of(world.agent.state.messages) == []
    results = [message for message in world.agent.state.messages if isinstance(message, ToolResultMessage)]
    assert [result.is_error for result in results] == [True, True]
    assert world.agent.state.messages[-1].stop_reason == "stop"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_process_of_a_cancelled_tool_is_gone(backend: str) -> None:
    async def main() -> None:
        world = World(Plan(turns=[1]))
        processes: list[anyio.abc.Process] = []

        async def sleep(*_: object) -> None:
            async with await anyio.open_process(["sleep", "60"]) as process:
                processes.append(process)
                world.scope.cancel()
                await process.wait()

        world.execute = sleep
        world.__post_init__()
        await world.run()
        assert [process.returncode is not None for process in processes] == [True]

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failing_low_level_hook_raises_its_own_error(backend: str) -> None:
    async def main() -> None:
        context = AgentContext([UserMessage(content="go")])

        def fail(*_: object) -> None:
            raise Trouble("no")

        world = World(Plan(turns=[0]))
        config = LoopConfig(model=MODEL, finish_turn=fail)
        with pytest.raises(Trouble):
            await run_loop_continue(
                context, config, lambda _: None, signal=AbortController().signal, stream_fn=world.stream
            )
        assert problems_of(context.messages) == []

    anyio.run(main, backend=backend)
