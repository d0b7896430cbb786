"""Child processes in groups of their own, ended with everything they started when the run is aborted.

Invariant: when `run_process` returns or raises, the process it began has ended and was waited for. What a command left
running in the background on purpose lives on after an ordinary end, and is killed with it at an abort or a time limit.

Source: Pi 1.6.0, tool `bash` (process trees, waiting for children that keep the pipe open).
"""

import os
import signal as signals
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import anyio
from anyio.abc import Process

from pi_loop.abort import AbortSignal
from pi_loop.tools.workspace import ToolError, os_error_text

# After the end of the process, output is read until nothing has come for this long.
QUIET_S = 0.1
OnOutput = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Args:
        code: Exit code; 128 and the signal's number for one that was killed.
        why: `exit`, or what ended it from outside.
        shell_code: The exit code of a process that had ended by itself before the time limit, while others it had
            started still printed.
    """

    code: int
    why: Literal["exit", "abort", "timeout"] = "exit"
    shell_code: int | None = None


async def run_process(
    command: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    on_output: OnOutput,
    signal: AbortSignal | None = None,
    timeout_s: float | None = None,
    given: bytes | None = None,
) -> Ended:
    """Run a process to its end.

    Args:
        cwd: Its directory.
        environ: Its environment.
        on_output: Gets what it prints, standard output and error as one stream.
        signal: Kills it and all it started.
        timeout_s: Does so after this time, seconds.
        given: Its standard input; closed without it.

    Raises:
        ToolError: it cannot be started.
    """
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"Cannot run {command[0]}: {os_error_text(error)}") from error
    watch = _Watch(process, on_output)
    try:
        return await watch.until_end(signal, timeout_s, given)
    finally:
        # Whatever happened, a cancellation too: nothing is left behind and no descriptor stays open.
        if process.returncode is None:
            kill_group(process.pid)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def kill_group(pid: int) -> None:
    """Kill a process and everything in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signals.SIGKILL)


class _Watch:
    """One process while it runs."""

    def __init__(self, process: Process, on_output: OnOutput) -> None:
        self._process = process
        self._on_output = on_output
        self._heard = 0
        self._closed = anyio.Event()

    async def until_end(self, signal: AbortSignal | None, timeout_s: float | None, given: bytes | None) -> Ended:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as tasks:
                remove = signal.on_abort(tasks.cancel_scope.cancel) if signal is not None else lambda: None
                try:
                    tasks.start_soon(self._read)
                    if given is not None:
                        tasks.start_soon(self._write, given)
                    await self._process.wait()
                    await self._until_quiet()
                    tasks.cancel_scope.cancel()
                finally:
                    remove()
        aborted = signal is not None and signal.aborted
        own_code = self._process.returncode
        if aborted or limit.cancelled_caught:
            kill_group(self._process.pid)
            with anyio.CancelScope(shield=True):
                await self._process.wait()
            why: Literal["abort", "timeout"] = "abort" if aborted else "timeout"
            return Ended(_exit_code(self._process.returncode), why, own_code)
        return Ended(_exit_code(own_code))

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                chunk = await stdout.receive()
                self._heard += len(chunk)
                await self._on_output(chunk)
        self._closed.set()

    async def _write(self, given: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stdin.send(given)
            await stdin.aclose()

    async def _until_quiet(self) -> None:
        while not self._closed.is_set():
            heard = self._heard
            with anyio.move_on_after(QUIET_S):
                await self._closed.wait()
            if heard == self._heard:
                return


def _exit_code(code: int | None) -> int:
    return 1 if code is None else code if code >= 0 else 128 - code
