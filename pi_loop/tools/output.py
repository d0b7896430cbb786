"""Output of a command as it grows: the tail for the model, the whole in a file once it is too long.

Memory is bounded: beyond the limit only the tail is kept here. The file is for its owner alone. A disk that refuses the
file does not fail the command: the tail is shown, and why there is no more.

Source: Pi 1.6.0, tool `bash`.
"""

import os
import tempfile
from contextlib import suppress
from typing import BinaryIO

from pi_loop.tools.truncation import MAX_BYTES, MAX_LINES, Truncation, format_size, truncate_tail

_ROLLING = 2 * MAX_BYTES


class CommandOutput:
    """Collects what a command prints."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._size = 0
        self._feeds = 0
        self._dropped_feeds = 0
        self._file: BinaryIO | None = None
        self._refused: str | None = None
        self.path: str | None = None

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    def add(self, chunk: bytes) -> None:
        """Take in a chunk."""
        self._size += len(chunk)
        self._feeds += chunk.count(b"\n")
        try:
            self._keep(chunk)
        except OSError as error:
            self._refuse(error)
        self._tail += chunk
        if len(self._tail) > 2 * _ROLLING:
            cut = len(self._tail) - _ROLLING
            # Whole lines, unless the tail is but the end of one.
            feed = self._tail.find(b"\n", cut - 1)
            cut = feed + 1 if 0 <= feed < len(self._tail) - 1 else cut
            self._dropped_feeds += self._tail.count(b"\n", 0, cut)
            del self._tail[:cut]

    def close(self) -> None:
        """Finish the file."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            self._refuse(error)

    def tail(self) -> Truncation:
        """Return what is shown, with the figures of the whole output."""
        shown = truncate_tail(self._tail.decode("utf-8", "replace"))
        total = shown.total_lines + self._dropped_feeds
        cut = total > MAX_LINES or self._size > MAX_BYTES
        return Truncation(
            content=shown.content,
            by=(shown.by or "bytes") if cut else None,
            total_lines=total,
            total_bytes=self._size,
            output_lines=shown.output_lines,
            output_bytes=shown.output_bytes,
            last_line_partial=shown.last_line_partial,
        )

    def told(self) -> str:
        """Return the text for the model; empty when nothing was printed."""
        shown = self.tail()
        if not shown.by:
            return shown.content
        last = shown.total_lines
        if shown.last_line_partial:
            note = f"Showing last {format_size(shown.output_bytes)} of line {last}"
        else:
            limit = f" ({format_size(MAX_BYTES)} limit)" if shown.by == "bytes" else ""
            note = f"Showing lines {last - shown.output_lines + 1}-{last} of {last}{limit}"
        full = self.path if self.path is not None else f"could not be kept ({self._refused})"
        return f"{shown.content}\n\n[{note}. Full output: {full}]"

    def _keep(self, chunk: bytes) -> None:
        too_long = self._size > MAX_BYTES or self._feeds > MAX_LINES
        if self._file is None and self.path is None and self._refused is None and too_long:
            self._begin_file()
        if self._file is not None:
            self._file.write(chunk)

    def _refuse(self, error: OSError) -> None:
        """Do without the file."""
        self._refused = error.strerror or str(error)
        file, self._file = self._file, None
        path, self.path = self.path, None
        if file is not None:
            with suppress(OSError):
                file.close()
        if path is not None:
            with suppress(OSError):
                os.unlink(path)

    def _begin_file(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="pi-session-bash-", suffix=".log")
        self._file = os.fdopen(descriptor, "wb")
        self._file.write(self._tail)
