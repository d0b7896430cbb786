"""What the scenarios do not script about Agent, the stream form, the default stream function and the picture."""

import inspect
from pathlib import Path

import anyio
import pytest

from pi_loop.abort import AbortController
from pi_loop.agent import Agent
from pi_loop.default_stream import set_default_stream_fn
from pi_loop.events import AgentEnd, LoopEvent
from pi_loop.loop import run_loop
from pi_loop.loop_stream import stream_loop, stream_loop_continue
from pi_loop.providers.scripted import ScriptedModel
from pi_loop.trace import main as draw
from pi_loop.trace import picture, read_entries
from pi_loop.types import (
    AgentBusyError,
    AgentContext,
    CannotContinueError,
    LoopConfig,
    Model,
    NoStreamFnError,
    StreamOptions,
)
from pi_sessions.messages import AssistantMessage, SystemMessage, UserMessage

BACKENDS = ("asyncio", "trio")
MODEL = Model(id="m", api="scripted", provider="scripted")
SCENARIOS = Path(__file__).parents[2] / "fixtures" / "conformance" / "loop"


@pytest.fixture
def config() -> LoopConfig:
    return LoopConfig(model=MODEL)


def test_hooks_may_be_plain_functions() -> None:
    seen: list[str] = []

    def finish(turn: object, signal: object) -> str:
        seen.append("finish")
        return "end"

    agent = Agent(ScriptedModel(["a"]), model=MODEL, finish_turn=finish)
    agent.follow_up(UserMessage(content="later"))
    anyio.run(agent.prompt, "go")
    assert seen == ["finish"]
    assert agent.has_queued_messages


def test_a_listener_can_be_taken_away_and_added_during_an_event() -> None:
    heard: list[str] = []
    agent = Agent(ScriptedModel(["a"]), model=MODEL)

    def second(event: LoopEvent, signal: object) -> None:
        heard.append(f"second {event.type}")

    def first(event: LoopEvent, signal: object) -> None:
        heard.append(f"first {event.type}")
        leave()
        agent.subscribe(second)

    leave = agent.subscribe(first)
    anyio.run(agent.prompt, "go")
    assert heard[0] == "first agent_start"
    assert heard[1].startswith("second ")
    assert not any(entry.startswith("first") for entry in heard[1:])


def test_request_settings_reach_the_stream_function() -> None:
    seen: list[StreamOptions] = []
    script = ScriptedModel(["a"])

    def spy(model: Model, request: object, options: StreamOptions):
        seen.append(options)
        return script(model, request, options)

    agent = Agent(
        spy,
        model=MODEL,
        thinking_level="high",
        session_id="s1",
        max_retry_delay_ms=0,
        transport="sse",
        stream_options=StreamOptions(api_key="k", max_tokens=7, session_id="other"),
    )
    anyio.run(agent.prompt, "go")
    options = seen[0]
    assert (options.api_key, options.max_tokens, options.session_id) == ("k", 7, "s1")
    assert (options.reasoning, options.max_retry_delay_ms, options.transport) == ("high", 0, "sse")
    assert options.signal is not None


def test_times_come_from_the_clock() -> None:
    ticks = iter(range(1000, 2000))
    agent = Agent(ScriptedModel(["a"], clock=lambda: next(ticks)), model=MODEL, clock=lambda: next(ticks))
    anyio.run(agent.prompt, "go")
    user, answer = agent.state.messages
    assert isinstance(answer, AssistantMessage)
    assert 1000 <= user.timestamp < answer.timestamp < 2000
    assert answer.duration_ms is not None
    assert answer.duration_ms > 0


def test_a_deferred_answer_that_began_earlier_is_not_timed() -> None:
    agent = Agent(ScriptedModel(["a"], clock=lambda: 5), model=MODEL, clock=lambda: 100)
    anyio.run(agent.prompt, "go")
    assert agent.state.messages[-1].duration_ms is None


def test_without_a_stream_function_an_agent_cannot_be_made() -> None:
    with pytest.raises(NoStreamFnError, match="No default stream function configured"):
        Agent(model=MODEL)


def test_the_default_stream_function_is_used(config: LoopConfig) -> None:
    set_default_stream_fn(ScriptedModel(["a", "b"]))
    try:
        anyio.run(Agent(model=MODEL).prompt, "go")
        messages = anyio.run(run_loop, [UserMessage(content="x")], AgentContext([]), config, lambda _: None)
    finally:
        set_default_stream_fn(None)
    assert messages[-1].text == "b"


def test_a_low_level_run_without_one_fails_after_the_prompts(config: LoopConfig) -> None:
    types: list[str] = []
    with pytest.raises(NoStreamFnError):
        anyio.run(run_loop, [UserMessage(content="x")], AgentContext([]), config, lambda e: types.append(e.type))
    assert types == ["agent_start", "turn_start", "message_start", "message_end"]


def test_busy_errors_have_their_own_class() -> None:
    errors: list[BaseException] = []
    agent = Agent(ScriptedModel(["a"]), model=MODEL)

    async def listener(event: LoopEvent, signal: object) -> None:
        if isinstance(event, AgentEnd):
            for attempt in (lambda: agent.prompt("x"), agent.continue_, agent.reset):
                try:
                    pending = attempt()
                    if inspect.isawaitable(pending):
                        await pending
                except AgentBusyError as error:
                    errors.append(error)

    agent.subscribe(listener)
    anyio.run(agent.prompt, "go")
    assert len(errors) == 3
    with pytest.raises(CannotContinueError):
        anyio.run(Agent(ScriptedModel([]), model=MODEL, system_prompt="x").continue_)


def test_a_system_prompt_is_ignored_where_messages_begin_with_one() -> None:
    agent = Agent(ScriptedModel([]), model=MODEL, system_prompt="new", messages=[SystemMessage(content="old")])
    assert agent.state.system_prompt == "old"


# --- the stream form ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stream_ends_with_the_error_of_its_run(backend: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("hook broke")

    async def main() -> None:
        broken = LoopConfig(model=MODEL, finish_turn=fail)
        types: list[str] = []
        async with stream_loop(
            [UserMessage(content="x")], AgentContext([]), broken, stream_fn=ScriptedModel(["a"])
        ) as stream:

            async def read() -> None:
                async for event in stream:
                    types.append(event.type)

            with pytest.raises(LookupError, match="hook broke"):
                await read()
            with pytest.raises(LookupError):
                await stream.result()
        assert types[-1] == "message_end"

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_leaving_a_stream_early_ends_its_run(backend: str, config: LoopConfig) -> None:
    async def main() -> None:
        stalled = ScriptedModel([{"text": "a b c", "stall": True}])
        with anyio.fail_after(5):
            async with stream_loop([UserMessage(content="x")], AgentContext([]), config, stream_fn=stalled) as stream:
                async for event in stream:
                    if event.type == "message_update":
                        break

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_the_reader_leaves_the_block_as_it_is(backend: str, config: LoopConfig) -> None:
    async def main() -> None:
        async with stream_loop(
            [UserMessage(content="x")], AgentContext([]), config, stream_fn=ScriptedModel(["a"])
        ) as stream:
            async for _ in stream:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reader_is_no_barrier(backend: str, config: LoopConfig) -> None:
    async def main() -> None:
        async with stream_loop(
            [UserMessage(content="x")], AgentContext([]), config, stream_fn=ScriptedModel(["a"])
        ) as stream:
            messages = await stream.result()
            types = [event.type async for event in stream]
        assert [message.role for message in messages] == ["user", "assistant"]
        assert (types[0], types[-1]) == ("agent_start", "agent_end")

    anyio.run(main, backend=backend)


def test_a_stream_continuation_refuses_at_once(config: LoopConfig) -> None:
    with pytest.raises(CannotContinueError, match="no messages in context"):
        stream_loop_continue(AgentContext([]), config)


def test_a_stream_must_be_entered(config: LoopConfig) -> None:
    async def main() -> None:
        stream = stream_loop([], AgentContext([]), config, stream_fn=ScriptedModel([]))
        with pytest.raises(RuntimeError, match="async with"):
            await stream.result()

    anyio.run(main)


# --- signals and pictures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signal_can_be_waited_for_listened_to_and_cancel(backend: str) -> None:
    async def main() -> None:
        controller, heard = AbortController(), []
        remove = controller.signal.on_abort(lambda: heard.append("removed"))
        remove()
        controller.signal.on_abort(lambda: heard.append("kept"))
        async with anyio.create_task_group() as group:
            group.start_soon(controller.signal.wait)
            await anyio.sleep(0)
            controller.abort()
            controller.abort()
        with controller.signal.cancels() as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        controller.signal.on_abort(lambda: heard.append("at once"))
        assert heard == ["kept", "at once"]
        await controller.signal.wait()

    anyio.run(main, backend=backend)


def test_a_scenario_is_drawn_as_an_indented_picture(capsys: pytest.CaptureFixture[str]) -> None:
    draw([str(SCENARIOS / "batch-01-parallel-reverse-completion.json")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "agent_start"
    assert lines[-1] == "agent_end"
    assert lines[1] == "  turn_start"
    assert next(line for line in lines if "tool_execution_start c1" in line).startswith("    tool_execution_start")
    ends = [line.split()[1] for line in lines if "tool_execution_end" in line]
    assert ends == ["c2", "c1"]


def test_events_of_a_run_can_be_drawn_too() -> None:
    text = '{"type": "agent_start"}\n{"type": "turn_start"}\n{"type": "turn_end"}\n{"type": "agent_end"}\n'
    assert list(picture(read_entries(text))) == ["agent_start", "  turn_start", "  turn_end", "agent_end"]
