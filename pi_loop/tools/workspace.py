"""Where tools work: one folder, what lies outside it closed unless allowed, and one change of a file at a time.

Invariants: a path is resolved, symbolic links included, before it is judged; two changes of the same file never run at
once, whatever names it has. A shell command is not confined: it is a person's approval that guards it.

Source: Pi 1.6.0, tools (path resolution, file mutation queue). Differs in that paths outside are refused.
"""

import os
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from pi_loop.abort import AbortSignal

P = ParamSpec("P")
T = TypeVar("T")
ABORTED = "Operation aborted"
_STRANGE_SPACES = dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")


class ToolError(RuntimeError):
    """A tool cannot do what the model asked; the text goes to the model."""


@dataclass(slots=True, kw_only=True)
class Workspace:
    """What tools may touch.

    Args:
        root: The working directory; relative paths begin here.
        allowed: Further folders whose files may be read and changed.
        home: What `~` stands for; None leaves it alone.
        environ: The environment of shell commands.
        everything: Lifts the confinement.
    """

    root: str
    allowed: tuple[str, ...] = ()
    home: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    everything: bool = False
    _readable: set[str] = field(default_factory=set)
    _locks: dict[str, list[anyio.Lock]] = field(default_factory=dict)

    def open_to_reading(self, path: str) -> None:
        """Let `read` see one file outside, such as the full output of a command."""
        self._readable.add(os.path.realpath(path))

    def absolute(self, path: str) -> str:
        """Return the absolute form of a path as a model writes it; nothing is checked."""
        text = path.translate(_STRANGE_SPACES).removeprefix("@")
        if self.home and (text == "~" or text.startswith("~/")):
            text = self.home + text[1:]
        return os.path.normpath(os.path.join(self.root, text))

    def resolve(self, path: str, *, reading: bool = False) -> str:
        """Return the absolute path of a file or folder a tool may use.

        Args:
            path: As the model wrote it.
            reading: Whether it is only read.

        Raises:
            ToolError: it lies outside, or the working directory is gone.
        """
        self.check_root()
        if "\0" in path:
            raise ToolError(f"Not a path: {path!r}")
        absolute = self.absolute(path)
        real = os.path.realpath(absolute)
        if self.everything or (reading and real in self._readable):
            return absolute
        if not any(_is_inside(real, os.path.realpath(folder)) for folder in (self.root, *self.allowed)):
            raise ToolError(
                f"Path is outside the working directory: {path}. Only files in {self.root} can be used"
                f"{''.join(f' and in {folder}' for folder in self.allowed)}."
            )
        return absolute

    def check_root(self) -> None:
        """Raise ToolError when the working directory has vanished."""
        if not os.path.isdir(self.root):
            raise ToolError(f"Working directory does not exist: {self.root}. It was moved or deleted.")

    @asynccontextmanager
    async def changing(self, path: str, signal: AbortSignal | None) -> AsyncIterator[None]:
        """Hold a file for one change; others wait in the order in which they came.

        Raises:
            ToolError: the run was aborted before it was this change's turn.
        """
        key = os.path.realpath(path)
        lock = self._locks.setdefault(key, [anyio.Lock()])[0]
        users = self._locks[key]
        users.append(lock)
        try:
            async with lock:
                check_abort(signal)
                yield
        finally:
            users.pop()
            if len(users) == 1:
                self._locks.pop(key, None)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def check_abort(signal: AbortSignal | None) -> None:
    """Raise ToolError when the run was aborted."""
    if signal is not None and signal.aborted:
        raise ToolError(ABORTED)


async def in_thread(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run blocking work in a thread; work that has begun is finished even when the run is cancelled.

    Raises:
        ToolError: the system refused it; the text names the file and the reason.
    """
    try:
        with anyio.CancelScope(shield=True):
            answer = await anyio.to_thread.run_sync(partial(function, *args, **named))
    except OSError as error:
        raise ToolError(os_error_text(error)) from error
    return answer


def os_error_text(error: OSError) -> str:
    """Return a system error for a model: reason and file."""
    named = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{named}"


def regular_file(path: str, shown: str) -> os.stat_result:
    """Return the state of a regular file.

    Raises:
        ToolError: it is missing, a folder, a device or a pipe.
    """
    try:
        state = os.stat(path)
    except OSError as error:
        raise ToolError(f"Cannot read {shown}: {error.strerror}") from error
    if stat.S_ISDIR(state.st_mode):
        raise ToolError(f"{shown} is a directory; use ls to list it")
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(f"{shown} is not a regular file")
    return state
