"""A folder with the coding tools in it, called as the loop calls them."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio

from pi_loop.abort import AbortController, AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tool_calls import CallOutcome, run_tool_call
from pi_loop.tools.coding import coding_tools
from pi_loop.tools.workspace import Workspace
from pi_loop.types import AgentContext, Tool
from pi_sessions.messages import AssistantMessage, ImageContent, JsonObject, TextContent, ToolCall


class ToolWorld:
    """A working directory and its tools."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.workspace = Workspace(root=str(folder), environ=dict(os.environ), **settings)  # type: ignore[arg-type]
        self.tools: dict[str, Tool] = {tool.name: tool for tool in coding_tools(self.workspace)}

    def file(self, name: str, content: str | bytes) -> Path:
        """Make a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    async def acall(self, name: str, signal: AbortSignal | None = None, **arguments: object) -> CallOutcome:
        """Call a tool with validated arguments."""
        block = ToolCall(id="c1", name=name, arguments=dict(arguments))
        answer = AssistantMessage(content=[block])
        context = AgentContext([], list(self.tools.values()))
        return await run_tool_call(block, assistant_message=answer, context=context, signal=signal)

    def call(self, name: str, **arguments: object) -> CallOutcome:
        """Call a tool and wait for its result."""
        return anyio.run(lambda: self.acall(name, **arguments))

    def text(self, name: str, **arguments: object) -> str:
        """Return the text of a call that must succeed."""
        outcome = self.call(name, **arguments)
        assert not outcome.is_error, told(outcome.result)
        return told(outcome.result)

    def error(self, name: str, **arguments: object) -> str:
        """Return the text of a call that must fail."""
        outcome = self.call(name, **arguments)
        assert outcome.is_error, told(outcome.result)
        return told(outcome.result)

    def aborted_when(self, ready: Callable[[], bool], name: str, **arguments: object) -> tuple[CallOutcome, float]:
        """Call a tool, abort the run once something is so, and return its result and the seconds it then took."""
        controller = AbortController()

        async def main() -> tuple[CallOutcome, float]:
            aborted_at = 0.0

            async def abort() -> None:
                nonlocal aborted_at
                while not ready():
                    await anyio.sleep(0.01)
                aborted_at = anyio.current_time()
                controller.abort()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(abort)
                outcome = await self.acall(name, controller.signal, **arguments)
            return outcome, anyio.current_time() - aborted_at

        return anyio.run(main)


def told(result: ToolResult) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content or () if isinstance(block, TextContent))


def pictures(result: ToolResult) -> list[ImageContent]:
    """Return the pictures of a result."""
    return [block for block in result.content or () if isinstance(block, ImageContent)]


def details(result: ToolResult) -> JsonObject:
    """Return the details of a result."""
    assert isinstance(result.details, dict)
    return result.details
