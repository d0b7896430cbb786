"""`write`: makes or replaces a file.

Source: Pi 1.6.0, tool `write`.
"""

import os

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.results import schema, string, text_argument, text_result
from pi_loop.tools.workspace import Workspace, in_thread
from pi_loop.tools.writing import write_whole
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject


def write_tool(workspace: Workspace) -> Tool:
    """Make the tool `write`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        path, content = text_argument(args, "path"), text_argument(args, "content")
        absolute = workspace.resolve(path)
        async with workspace.changing(absolute, signal):
            await in_thread(write_file, absolute, path, content)
        return text_result(f"Successfully wrote to {path}")

    return Tool(
        name="write",
        label="write",
        description=(
            "Write content to a file. Creates the file if it doesn't exist, overwrites if it does. Automatically "
            "creates parent directories."
        ),
        parameters=schema(
            ["path", "content"],
            path=string("Path to the file to write (relative or absolute)"),
            content=string("Content to write to the file"),
        ),
        execute=execute,
    )


def write_file(absolute: str, path: str, content: str) -> None:
    """Write a file with its folders; blocking. Line ends stay as they are.

    Raises:
        ToolError: it is a folder, a device or a pipe.
        OSError: the system refused it; a file that was there is as it was.
    """
    os.makedirs(os.path.dirname(os.path.realpath(absolute)), exist_ok=True)
    write_whole(absolute, path, content.encode("utf-8", "replace"))
