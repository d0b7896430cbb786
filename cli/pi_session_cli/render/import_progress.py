"""How far an import has come, drawn on a terminal while it runs: by bytes read, then what is being done, in words.

What draws is loaded only then. It draws itself, a few times a second, in a thread of its own: what reads only counts.
"""

from __future__ import annotations

import os

from pi_session_cli.render.safe import one_line
from pi_sessions.formats.bytes_read import Listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TextIO

    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.status import Status

MANY_BYTES = 20_000_000
MANY_SOURCES = 12
DRAWN_A_SECOND = 5
_NAME_CHARS = 36
# What is stored in less than a moment is not worth a word.
_LARGE = 4_000_000


class Quiet:
    """Progress that nobody sees; `Drawn` has the same methods."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""

    def begins(self, path: str, *, passes: int = 1) -> None:
        """Say that a source is being read.

        Args:
            passes: How often all of it is read.
        """

    def storing(self, size: int) -> None:
        """Say that a session was read and is being stored.

        Args:
            size: Bytes that were read of it.
        """

    def reading(self) -> None:
        """Say that a session was stored and reading goes on."""

    def ends(self) -> None:
        """Say that the next source comes."""

    def indexing(self) -> None:
        """Say that all is stored and is being indexed."""


class Drawn(Quiet):
    """Progress on a terminal.

    Args:
        terminal: Where to draw.
        sizes: Bytes of each source, in their order.
    """

    def __init__(self, terminal: TextIO, sizes: list[int]) -> None:
        self._terminal = terminal
        self._sizes = sizes
        self._at = 0
        self._before = 0
        self._read = 0.0
        self._stored = 0
        self._passes = 1
        self._name = ""
        self._is_storing = False
        self._listening = Listening(self._heard)
        self._bar: Progress | None = None
        self._words: Status | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._listening.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.__exit__()
        for each in (self._bar, self._words):
            if each is not None:
                each.stop()

    def begins(self, path: str, *, passes: int = 1) -> None:
        # Only here, so that sources that did not change load nothing.
        if self._bar is None:
            self._start()
        self._passes = passes
        name = one_line(os.path.basename(path))
        self._name = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 3]}..."
        self._say("Reading")

    def storing(self, size: int) -> None:
        self._stored += size
        self._tell()
        if size >= _LARGE:
            self._is_storing = True
            self._say("Storing")

    def reading(self) -> None:
        if self._is_storing:
            self._say("Reading")
        self._is_storing = False

    def ends(self) -> None:
        self._before += self._sizes[self._at]
        self._at += 1
        self._read = self._stored = 0
        self._tell()

    def indexing(self) -> None:
        if self._bar is None:
            return
        self._bar.stop()
        self._words = self._console().status("Indexing for search", refresh_per_second=DRAWN_A_SECOND)
        self._words.start()

    def _heard(self, count: int) -> None:
        # Reading goes on behind what was stored.
        self._read += count / self._passes
        self._tell()

    def _tell(self) -> None:
        if self._bar is not None and self._task is not None:
            size = self._sizes[self._at] if self._at < len(self._sizes) else 0
            self._bar.update(self._task, completed=self._before + min(max(self._read, self._stored), size))

    def _say(self, what: str) -> None:
        if self._bar is not None and self._task is not None:
            place = f" ({self._at + 1:,} of {len(self._sizes):,})" if len(self._sizes) > 1 else ""
            self._bar.update(self._task, description=f"{what} {self._name}{place}")

    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._terminal)

    def _start(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        said = TextColumn("{task.description}", markup=False)
        self._bar = Progress(
            said, BarColumn(20), DownloadColumn(), TimeRemainingColumn(),
            console=self._console(), transient=True, refresh_per_second=DRAWN_A_SECOND, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("Reading", total=sum(self._sizes))
        self._bar.start()


def progress_of(terminal: TextIO, sizes: list[int]) -> Quiet:
    """Return what shows how far an import has come, if it is large enough to be waited for.

    Args:
        terminal: Where to draw.
        sizes: Bytes of each source.
    """
    is_worth_it = sum(sizes) > MANY_BYTES or len(sizes) > MANY_SOURCES
    return Drawn(terminal, sizes) if is_worth_it else Quiet()
