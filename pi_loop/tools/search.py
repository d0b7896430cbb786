"""`grep` and `find`: the calls, their limits and their words; `searching` does the walking.

Source: Pi 1.6.0, tools `grep` and `find`.
"""

import json
import os
import sys
from typing import Any

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.processes import run_process
from pi_loop.tools.results import boolean, number, number_argument, schema, string, text_argument, text_result
from pi_loop.tools.searching import LONGEST_LINE
from pi_loop.tools.truncation import MAX_BYTES, NO_LIMIT, format_size, truncate_head
from pi_loop.tools.workspace import ABORTED, ToolError, Workspace, check_abort
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject

GREP_LIMIT = 100
FIND_LIMIT = 1000
# Arguments are numbers of any size; beyond this they all mean the same.
_MOST = 1_000_000


def grep_tool(workspace: Workspace) -> Tool:
    """Make the tool `grep`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        asked = number_argument(args, "limit")
        limit = _bounded(GREP_LIMIT if asked is None else asked, 1)
        query = {
            "kind": "grep",
            "path": _existing(workspace, args),
            "pattern": text_argument(args, "pattern"),
            "glob": text_argument(args, "glob"),
            "ignoreCase": args.get("ignoreCase") is True,
            "literal": args.get("literal") is True,
            "context": _bounded(number_argument(args, "context") or 0, 0),
            "limit": limit,
        }
        return _matches(await _ask(workspace, query, signal), limit)

    return Tool(
        name="grep",
        label="grep",
        description=(
            "Search file contents for a pattern. Returns matching lines with file paths and line numbers. Respects "
            f".gitignore. Output is truncated to {GREP_LIMIT} matches or {MAX_BYTES // 1024}KB (whichever is hit "
            f"first). Long lines are truncated to {LONGEST_LINE} chars."
        ),
        parameters=schema(
            ["pattern"],
            pattern=string("Search pattern (regex or literal string)"),
            path=string("Directory or file to search (default: current directory)"),
            glob=string(
                "Filter files by glob pattern relative to path, e.g. 'src/**/*.ts'. Without '/', e.g. '*.ts', it "
                "matches file names at any depth"
            ),
            ignoreCase=boolean("Case-insensitive search (default: false)"),
            literal=boolean("Treat pattern as literal string instead of regex (default: false)"),
            context=number("Number of lines to show before and after each match (default: 0)"),
            limit=number(f"Maximum number of matches to return (default: {GREP_LIMIT})"),
        ),
        execute=execute,
    )


def find_tool(workspace: Workspace) -> Tool:
    """Make the tool `find`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        asked = number_argument(args, "limit")
        limit = _bounded(FIND_LIMIT if asked is None else asked, 1)
        path = _existing(workspace, args)
        if not os.path.isdir(path):
            raise ToolError(f"Not a directory: {path}")
        query = {"kind": "find", "path": path, "pattern": text_argument(args, "pattern"), "limit": limit}
        return _files(await _ask(workspace, query, signal), limit)

    return Tool(
        name="find",
        label="find",
        description=(
            "Search for files by glob pattern. Returns matching file paths relative to the search directory. Respects "
            f".gitignore. Output is truncated to {FIND_LIMIT} results or {MAX_BYTES // 1024}KB (whichever is hit "
            "first)."
        ),
        parameters=schema(
            ["pattern"],
            pattern=string(
                "Glob pattern relative to the search directory, e.g. 'src/**/*.ts'. Without '/', e.g. '*.ts', it "
                "matches file names at any depth"
            ),
            path=string("Directory to search in (default: current directory)"),
            limit=number(f"Maximum number of results (default: {FIND_LIMIT})"),
        ),
        execute=execute,
    )


def _existing(workspace: Workspace, args: JsonObject) -> str:
    path = workspace.resolve(text_argument(args, "path") or ".", reading=True)
    if not os.path.exists(path):
        raise ToolError(f"Path not found: {path}")
    return path


async def _ask(workspace: Workspace, query: dict[str, object], signal: AbortSignal | None) -> dict[str, Any]:
    """Have a query answered.

    Raises:
        ToolError: it makes no sense, or the run was aborted.
    """
    check_abort(signal)
    said = bytearray()

    async def hear(chunk: bytes) -> None:
        said.extend(chunk)

    # -P: a file of the project must not be taken for a module of Python's.
    ended = await run_process(
        [sys.executable, "-P", "-m", "pi_loop.tools.searching"],
        cwd=workspace.root,
        environ=workspace.environ,
        on_output=hear,
        signal=signal,
        given=json.dumps(query).encode(),
    )
    if ended.why == "abort":
        raise ToolError(ABORTED)
    try:
        told: dict[str, Any] = json.loads(said)
    except ValueError:
        text = said.decode("utf-8", "replace").strip()
        raise ToolError(f"The search failed: {text.splitlines()[-1] if text else f'exit code {ended.code}'}") from None
    if "error" in told:
        raise ToolError(told["error"])
    return told


def _matches(told: dict[str, Any], limit: int) -> ToolResult:
    if not told["matches"]:
        return text_result("No matches found")
    notices: list[str] = []
    details: JsonObject = {}
    if told["limitReached"]:
        notices.append(f"{limit} matches limit reached. Use limit={limit * 2} for more, or refine pattern")
        details["matchLimitReached"] = limit
    text = _cut("\n".join(told["lines"]), told["totalLines"], told["totalBytes"], notices, details)
    if told["linesCut"]:
        notices.append(f"Some lines truncated to {LONGEST_LINE} chars. Use read tool to see full lines")
        details["linesTruncated"] = True
    return text_result(text + (f"\n\n[{'. '.join(notices)}]" if notices else ""), details)


def _files(told: dict[str, Any], limit: int) -> ToolResult:
    if not told["number"]:
        return text_result("No files found matching pattern")
    notices: list[str] = []
    details: JsonObject = {}
    if told["limitReached"]:
        notices.append(f"{limit} results limit reached. Use limit={limit * 2} for more, or refine pattern")
        details["resultLimitReached"] = limit
    text = _cut("\n".join(told["results"]), told["number"], told["totalBytes"], notices, details)
    return text_result(text + (f"\n\n[{'. '.join(notices)}]" if notices else ""), details)


def _cut(text: str, lines: int, size: int, notices: list[str], details: JsonObject) -> str:
    printable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    cut = truncate_head(printable, max_lines=NO_LIMIT)
    if cut.by:
        notices.append(f"{format_size(MAX_BYTES)} limit reached")
        details["truncation"] = {**cut.to_wire(), "totalLines": lines, "totalBytes": size}
    return cut.content


def _bounded(number: int, least: int) -> int:
    return max(least, min(number, _MOST))
