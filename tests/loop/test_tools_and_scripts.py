"""Tools made of functions, and the scripted model."""

import json
from pathlib import Path
from typing import Annotated, Literal

import anyio
import pytest
from pydantic import BaseModel, Field, ValidationError

from pi_loop.abort import AbortController, AbortSignal
from pi_loop.agent import Agent
from pi_loop.direct import complete
from pi_loop.events import ToolExecutionUpdate, ToolResult
from pi_loop.function_tools import ToolContext, tool
from pi_loop.providers.scripted import ScriptedModel, ScriptError
from pi_loop.tool_calls import CallOutcome, run_tool_call
from pi_loop.types import AgentContext, Model, Request, StreamOptions, Tool
from pi_sessions.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage

MODEL = Model(id="m", api="scripted", provider="scripted")
SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"


class Place(BaseModel):
    city: str
    floor: int = 0


@tool
async def book(
    place: Place,
    nights: Annotated[int, Field(ge=1, description="how many")],
    context: ToolContext,
    kind: Literal["room", "suite"] = "room",
) -> str:
    """Book a stay"""
    await context.update(f"asking {place.city}")
    return f"{kind} in {place.city}, floor {place.floor}, {nights} nights, call {context.call_id}"


def call(used: Tool, arguments: dict) -> CallOutcome:
    block = ToolCall(id="c1", name=used.name, arguments=arguments)

    async def main() -> CallOutcome:
        return await run_tool_call(
            block, assistant_message=AssistantMessage(content=[block]), context=AgentContext([], [used])
        )

    return anyio.run(main)


def test_the_schema_comes_from_the_annotations() -> None:
    assert (book.name, book.description) == ("book", "Book a stay")
    assert book.parameters["required"] == ["place", "nights"]
    assert book.parameters["additionalProperties"] is False
    properties = book.parameters["properties"]
    assert list(properties) == ["place", "nights", "kind"]
    assert properties["nights"] == {"type": "integer", "minimum": 1, "description": "how many"}


def test_a_function_gets_its_types_and_gives_text() -> None:
    outcome = call(book, {"place": {"city": "Graz"}, "nights": "2"})
    assert not outcome.is_error
    assert outcome.result.content == [TextContent(text="room in Graz, floor 0, 2 nights, call c1")]


def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    outcome = call(book, {"place": {"city": "Graz"}, "nights": 0, "kind": "tent"})
    assert outcome.is_error
    assert outcome.result.content[0].text.startswith('Validation failed for tool "book":\n  - nights: expected >= 1')


def test_what_a_function_may_give() -> None:
    @tool
    def nothing() -> None: ...

    @tool(name="facts", description="some facts", execution_mode="sequential")
    def give() -> dict[str, object]:
        return {"a": [1, None]}

    @tool
    async def whole() -> ToolResult:
        return ToolResult(content=[], is_error=True)

    assert call(nothing, {}).result.content == []
    assert (give.name, give.description, give.execution_mode) == ("facts", "some facts", "sequential")
    facts = call(give, {}).result
    assert (facts.content, facts.structured_content) == ([TextContent(text='{"a":[1,null]}')], {"a": [1, None]})
    assert call(whole, {}).is_error


def test_a_function_without_annotations_is_no_tool() -> None:
    with pytest.raises(TypeError, match="needs an annotation"):

        @tool
        def bare(x):
            return x

    with pytest.raises(TypeError, match="usable by name"):

        @tool
        def many(*names: str) -> None: ...


def test_a_tool_that_gives_no_result_gives_an_error() -> None:
    async def execute(*_: object) -> None: ...

    outcome = call(Tool(name="t", description="", parameters={}, execute=execute), {})
    assert outcome.is_error
    assert "returned no result" in outcome.result.content[0].text


def test_progress_arrives_before_the_function_goes_on() -> None:
    order: list[str] = []

    @tool
    async def work(context: ToolContext) -> str:
        await context.update("half")
        order.append("after")
        return "done"

    async def slow(event: object, signal: object) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await anyio.sleep(0)
            order.append("heard")

    agent = Agent(ScriptedModel([{"calls": [{"name": "work"}]}, "ok"]), model=MODEL, tools=[work])
    agent.subscribe(slow)
    anyio.run(agent.prompt, "go")
    assert order == ["heard", "after"]


# --- scripts --------------------------------------------------------------------------------------------------------


def events_of(script: ScriptedModel, signal: AbortSignal | None = None) -> list:
    async def main() -> list:
        return [event async for event in script(MODEL, Request([]), StreamOptions(signal=signal))]

    return anyio.run(main)


def test_a_text_is_a_whole_answer() -> None:
    with ScriptedModel(["Hello there,\nworld "]) as script:
        events = events_of(script)
    assert [event.delta for event in events if event.type == "text_delta"] == ["Hello", " there,", "\nworld", " "]
    assert events[-1].message.text == "Hello there,\nworld "
    assert events[-1].reason == "stop"


def test_the_short_form_has_thinking_text_calls_and_usage() -> None:
    step = {
        "thinking": "hm",
        "text": "abcdef",
        "chunk": 4,
        "calls": [{"name": "ls", "arguments": {"path": "."}}],
        "usage": {"input": 5},
    }
    with ScriptedModel({"steps": [step]}) as script:
        events = events_of(script)
    message = events[-1].message
    assert [block.type for block in message.content] == ["thinking", "text", "toolCall"]
    assert [event.delta for event in events if event.type == "text_delta"] == ["abcd", "ef"]
    assert (message.tool_calls[0].id, message.usage.input, message.stop_reason) == ("call_1_1", 5, "toolUse")


def test_a_leftover_and_a_missing_step_fail() -> None:
    script = ScriptedModel(["one", "two"])
    events_of(script)
    with pytest.raises(ScriptError, match="1 of the script's 2 steps"):
        script.check()
    events_of(script)
    script.check()
    assert events_of(script)[-1].error.error_message == "The script has no step for request 3"
    with pytest.raises(ScriptError, match="1 more requests than"):
        script.check()


def test_a_failing_block_is_not_hidden_by_leftover_steps() -> None:
    with pytest.raises(KeyError), ScriptedModel(["one"]):
        raise KeyError


def test_the_bundled_scripts_play() -> None:
    @tool
    def ls(path: str = ".") -> str:
        return "README.md pyproject.toml"

    with ScriptedModel.from_file(SCRIPTS / "list-files.json") as script:
        agent = Agent(script, model=MODEL, tools=[ls])
        anyio.run(agent.prompt, "go")
    assert agent.state.messages[-1].text == "There are two files: README.md and pyproject.toml."

    script = ScriptedModel.from_file(SCRIPTS / "events.json")
    agent = Agent(script, model=MODEL, tools=[ls], finish_turn=lambda turn, signal: "end")
    anyio.run(agent.prompt, "go")
    assert agent.state.messages[-1].text == "Hello"
    anyio.run(agent.prompt, "again")
    script.check()
    answer = agent.state.messages[-2]
    assert (answer.usage.total_tokens, answer.raw_stop_reason, answer.stop_reason) == (15, "tool_use", "toolUse")
    assert next(m for m in agent.state.messages if isinstance(m, ToolResultMessage)).tool_call_id == "c1"


def test_trouble_comes_as_scripted() -> None:
    script = ScriptedModel.from_file(SCRIPTS / "trouble.json")
    agent = Agent(script, model=MODEL)

    async def main() -> None:
        for _ in range(3):
            await agent.prompt("go")
        async with anyio.create_task_group() as group:
            group.start_soon(agent.prompt, "go")
            while len(script.requests) < 4:
                await anyio.sleep(0)
            for _ in range(20):
                await anyio.sleep(0)
            agent.abort()

    anyio.run(main)
    answers = [message for message in agent.state.messages if isinstance(message, AssistantMessage)]
    assert [(m.stop_reason, m.error_message, m.text) for m in answers] == [
        ("error", "The model's stream ended without a final event", "This answer is"),
        ("error", "connection reset", ""),
        ("error", "overloaded_error: try again later", "This one fails properly"),
        ("aborted", "Request was aborted", "This one"),
    ]
    script.check()


def test_pauses_are_cut_short_by_an_abort() -> None:
    controller = AbortController()
    script = ScriptedModel({"paceMs": 3_600_000, "steps": ["one two"]})

    async def main() -> list:
        events = []
        async with anyio.create_task_group() as group:

            async def abort_soon() -> None:
                await anyio.sleep(0)
                controller.abort()

            group.start_soon(abort_soon)
            async for event in script(MODEL, Request([]), StreamOptions(signal=controller.signal)):
                events.append(event)
        return events

    assert anyio.run(main)[-1].reason == "aborted"


@pytest.mark.parametrize("script", [[3], {"steps": [{"txt": "typo"}]}, [{"text": "a", "chunk": 0}]])
def test_a_script_with_mistakes_is_refused(script: object) -> None:
    with pytest.raises(ValidationError):
        ScriptedModel(script)


def test_a_direct_call_gives_failures_as_messages() -> None:
    answer = anyio.run(complete, ScriptedModel([{"error": "no"}]), MODEL, "hi")
    assert (answer.stop_reason, answer.error_message) == ("error", "no")
    with pytest.raises(RuntimeError, match="without a final event"):
        anyio.run(complete, ScriptedModel([{"text": "a", "cut": True}]), MODEL, "hi")


def test_scripts_are_json_files() -> None:
    for path in SCRIPTS.glob("*.json"):
        assert ScriptedModel(json.loads(path.read_text(encoding="utf-8"))).steps_left > 0
