"""`ls`: the entries of a folder.

Source: Pi 1.6.0, tool `ls`.
"""

import os

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.results import number, number_argument, schema, string, text_argument, text_result
from pi_loop.tools.truncation import MAX_BYTES, NO_LIMIT, format_size, truncate_head
from pi_loop.tools.workspace import ToolError, Workspace, check_abort, in_thread
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject

DEFAULT_LIMIT = 500


def ls_tool(workspace: Workspace) -> Tool:
    """Make the tool `ls`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        path = text_argument(args, "path") or "."
        asked = number_argument(args, "limit")
        absolute = workspace.resolve(path, reading=True)
        check_abort(signal)
        return await in_thread(list_folder, absolute, max(1, DEFAULT_LIMIT if asked is None else asked))

    return Tool(
        name="ls",
        label="ls",
        description=(
            "List directory contents. Returns entries sorted alphabetically, with '/' suffix for directories. Includes "
            f"dotfiles. Output is truncated to {DEFAULT_LIMIT} entries or {MAX_BYTES // 1024}KB (whichever is hit "
            "first)."
        ),
        parameters=schema(
            [],
            path=string("Directory to list (default: current directory)"),
            limit=number(f"Maximum number of entries to return (default: {DEFAULT_LIMIT})"),
        ),
        execute=execute,
    )


def list_folder(path: str, limit: int) -> ToolResult:
    """List a folder; blocking.

    Raises:
        ToolError: it is none.
    """
    if not os.path.exists(path):
        raise ToolError(f"Path not found: {path}")
    if not os.path.isdir(path):
        raise ToolError(f"Not a directory: {path}")
    names = sorted(os.listdir(path), key=lambda name: (name.lower(), name))
    found = [name for name in names if os.path.exists(os.path.join(path, name))]
    if not found:
        return text_result("(empty directory)")
    shown = [f"{name}/" if os.path.isdir(os.path.join(path, name)) else name for name in found[:limit]]
    cut = truncate_head("\n".join(printable(name) for name in shown), max_lines=NO_LIMIT)
    details: JsonObject = {}
    notices = []
    if len(found) > limit:
        notices.append(f"{limit} entries limit reached. Use limit={limit * 2} for more")
        details["entryLimitReached"] = limit
    if cut.by:
        notices.append(f"{format_size(MAX_BYTES)} limit reached")
        details["truncation"] = cut.to_wire()
    return text_result(cut.content + (f"\n\n[{'. '.join(notices)}]" if notices else ""), details)


def printable(name: str) -> str:
    """Return a file's name as text; bytes that are no UTF-8 become replacement characters."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
