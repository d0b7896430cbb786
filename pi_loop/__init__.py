"""The agent loop: messages in, events out. On anyio, so it runs on asyncio and on trio; knows no store.

Whoever knows Pi's agent core finds the same events, hooks and exits here, under Python names. Three ways to use a
model, each with the scripted one; any other `StreamFn` goes in the same place.

A direct call, one request and one answer:

```python
import anyio
from pi_loop import Model, ScriptedModel, complete

async def main() -> None:
    model = Model(id="demo", api="scripted", provider="scripted")
    answer = await complete(ScriptedModel(["Paris."]), model, "What is the capital of France?")
    print(answer.text, answer.stop_reason)

anyio.run(main)
```

A fixed workflow, where your code decides what is asked next:

```python
import anyio
from pi_loop import Model, ScriptedModel, complete

async def main() -> None:
    model = Model(id="demo", api="scripted", provider="scripted")
    stream = ScriptedModel(["Fish swim. Birds fly.", "Les poissons nagent. Les oiseaux volent."])
    draft = await complete(stream, model, "Two short facts, please.")
    final = await complete(stream, model, f"Translate into French: {draft.text}")
    print(final.text)

anyio.run(main)
```

An agent, where the model decides, with tools made of annotated functions:

```python
import anyio
from pi_loop import Agent, Model, ScriptedModel, tool

@tool
async def add(a: int, b: int) -> str:
    "Add two numbers"
    return str(a + b)

async def main() -> None:
    script = ScriptedModel([{"calls": [{"name": "add", "arguments": {"a": 2, "b": 40}}]}, "It is 42."])
    agent = Agent(script, model=Model(id="demo", api="scripted", provider="scripted"), tools=[add])
    await agent.prompt("What is 2 plus 40?")
    print([message.role for message in agent.state.messages], agent.state.messages[-1].text)

anyio.run(main)
```

Below the agent lies `run_loop` (events go to an awaited sink) and `stream_loop` (events are read from a stream);
`pi_loop.loop` shows one lap. Names are loaded when they are used, so importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pi_loop.abort import AbortController, AbortSignal
    from pi_loop.agent import Agent
    from pi_loop.agent_state import AgentState
    from pi_loop.default_stream import set_default_stream_fn
    from pi_loop.direct import complete
    from pi_loop.draft import AssistantDraft
    from pi_loop.events import AssistantMessageEvent, LoopEvent, ToolResult, event_to_wire, parse_event
    from pi_loop.function_tools import ToolContext, tool
    from pi_loop.loop import run_loop, run_loop_continue
    from pi_loop.loop_stream import LoopStream, stream_loop, stream_loop_continue
    from pi_loop.providers.scripted import Script, ScriptedModel, ScriptError
    from pi_loop.queues import MessageQueue
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import RunnerSettings, RunOutcome
    from pi_loop.tool_calls import CallOutcome, NestedHooks, run_tool_call
    from pi_loop.types import (
        AfterToolCall,
        AgentBusyError,
        AgentContext,
        BeforeToolCall,
        BlockDecision,
        CannotContinueError,
        ClientIdentity,
        LoopConfig,
        LoopError,
        Model,
        NextTurnChange,
        NoStreamFnError,
        Request,
        RequestChange,
        RequestSettings,
        StreamFn,
        StreamOptions,
        Tool,
        Turn,
    )

_HOME = {
    "AbortController": "abort",
    "AbortSignal": "abort",
    "AfterToolCall": "types",
    "Agent": "agent",
    "AgentBusyError": "types",
    "AgentContext": "types",
    "AgentState": "agent_state",
    "AssistantDraft": "draft",
    "AssistantMessageEvent": "events",
    "BeforeToolCall": "types",
    "BlockDecision": "types",
    "CallOutcome": "tool_calls",
    "CannotContinueError": "types",
    "ClientIdentity": "types",
    "LoopConfig": "types",
    "LoopError": "types",
    "LoopEvent": "events",
    "LoopStream": "loop_stream",
    "MessageQueue": "queues",
    "Model": "types",
    "NestedHooks": "tool_calls",
    "NextTurnChange": "types",
    "NoStreamFnError": "types",
    "Request": "types",
    "RequestChange": "types",
    "RequestSettings": "types",
    "RunOutcome": "runner_types",
    "RunnerSettings": "runner_types",
    "Script": "providers.scripted",
    "ScriptError": "providers.scripted",
    "ScriptedModel": "providers.scripted",
    "SessionRunner": "runner",
    "StreamFn": "types",
    "StreamOptions": "types",
    "Tool": "types",
    "ToolContext": "function_tools",
    "ToolResult": "events",
    "Turn": "types",
    "complete": "direct",
    "event_to_wire": "events",
    "parse_event": "events",
    "run_loop": "loop",
    "run_loop_continue": "loop",
    "run_tool_call": "tool_calls",
    "set_default_stream_fn": "default_stream",
    "stream_loop": "loop_stream",
    "stream_loop_continue": "loop_stream",
    "tool": "function_tools",
}

__all__ = [
    "AbortController",
    "AbortSignal",
    "AfterToolCall",
    "Agent",
    "AgentBusyError",
    "AgentContext",
    "AgentState",
    "AssistantDraft",
    "AssistantMessageEvent",
    "BeforeToolCall",
    "BlockDecision",
    "CallOutcome",
    "CannotContinueError",
    "ClientIdentity",
    "LoopConfig",
    "LoopError",
    "LoopEvent",
    "LoopStream",
    "MessageQueue",
    "Model",
    "NestedHooks",
    "NextTurnChange",
    "NoStreamFnError",
    "Request",
    "RequestChange",
    "RequestSettings",
    "RunOutcome",
    "RunnerSettings",
    "Script",
    "ScriptError",
    "ScriptedModel",
    "SessionRunner",
    "StreamFn",
    "StreamOptions",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Turn",
    "complete",
    "event_to_wire",
    "parse_event",
    "run_loop",
    "run_loop_continue",
    "run_tool_call",
    "set_default_stream_fn",
    "stream_loop",
    "stream_loop_continue",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
