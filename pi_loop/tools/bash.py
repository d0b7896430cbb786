"""`bash`: runs a shell command in the working directory.

Source: Pi 1.6.0, tool `bash`. Differs in that a command is not given Pi's own variables.
"""

import os
import shutil
from math import isfinite

import anyio

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.output import CommandOutput
from pi_loop.tools.processes import Ended, run_process
from pi_loop.tools.results import number, schema, string, text_argument, text_result
from pi_loop.tools.truncation import MAX_BYTES, MAX_LINES
from pi_loop.tools.workspace import ToolError, Workspace, check_abort
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject, TextContent

UPDATE_EVERY_S = 0.1
LONGEST_TIMEOUT_S = 2_147_483.647


def bash_tool(workspace: Workspace) -> Tool:
    """Make the tool `bash`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        return await run_command(workspace, text_argument(args, "command"), _timeout(args), signal, on_update)

    return Tool(
        name="bash",
        label="bash",
        description=(
            "Execute a bash command in the current working directory. Returns stdout and stderr. Output is truncated "
            f"to last {MAX_LINES} lines or {MAX_BYTES // 1024}KB (whichever is hit first). If truncated, full output "
            "is saved to a temp file. Optionally provide a timeout in seconds."
        ),
        parameters=schema(
            ["command"],
            command=string("Shell command to execute"),
            timeout=number("Timeout in seconds (optional, no default timeout)"),
        ),
        execute=execute,
    )


async def run_command(
    workspace: Workspace, command: str, timeout_s: float | None, signal: AbortSignal | None, on_update: OnUpdate
) -> ToolResult:
    """Run a command and tell its output as it comes.

    Raises:
        ToolError: it was aborted, took too long or could not be started; the text has its output so far.
    """
    check_abort(signal)
    if not os.path.isdir(workspace.root):
        raise ToolError(f"Working directory does not exist: {workspace.root}\nCannot execute bash commands.")
    output = CommandOutput()
    last_told = -UPDATE_EVERY_S

    async def hear(chunk: bytes) -> None:
        nonlocal last_told
        output.add(chunk)
        if anyio.current_time() - last_told >= UPDATE_EVERY_S:
            last_told = anyio.current_time()
            await on_update(ToolResult(content=[TextContent(text=output.tail().content)]))

    path = workspace.environ.get("PATH")
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
    try:
        ended = await run_process(
            [shell, "-c", command],
            cwd=workspace.root,
            environ=workspace.environ,
            on_output=hear,
            signal=signal,
            timeout_s=timeout_s,
        )
    finally:
        output.close()
        if output.path is not None:
            workspace.open_to_reading(output.path)
    return _result(output, ended, timeout_s)


def _result(output: CommandOutput, ended: Ended, timeout_s: float | None) -> ToolResult:
    text = output.told()
    if ended.why == "abort":
        raise ToolError(_with_status(text, "Command aborted"))
    if ended.why == "timeout":
        status = f"Command timed out after {timeout_s:g} seconds"
        if ended.shell_code is not None:
            status += (
                f". The shell exited with code {ended.shell_code}, but background processes it started kept writing "
                "output until the timeout."
            )
        raise ToolError(_with_status(text, status))
    shown = output.tail()
    details: JsonObject | None = None
    if shown.by:
        details = {"truncation": shown.to_wire()}
        if output.path is not None:
            details["fullOutputPath"] = output.path
    if ended.code:
        status = f"Command exited with code {ended.code}"
        return text_result(_with_status(text or "(no output)", status), details, is_error=True)
    return text_result(text or "(no output)", details)


def _with_status(text: str, status: str) -> str:
    return f"{text}\n\n{status}" if text else status


def _timeout(args: JsonObject) -> float | None:
    value = args.get("timeout")
    if value is None:
        return None
    if not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise ToolError("Invalid timeout: must be a finite number of seconds")
    if value > LONGEST_TIMEOUT_S:
        raise ToolError(f"Invalid timeout: maximum is {LONGEST_TIMEOUT_S} seconds")
    return float(value)
