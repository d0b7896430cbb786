"""Lets one listener hear how many bytes are read from sources, whichever reader opens them.

A block that is read tells its size: nothing is done for each record, and nothing at all while nobody listens. Databases
are read by SQLite and are not heard.
"""

from __future__ import annotations

import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

_listeners: list[Callable[[int], object]] = []


class Listening:
    """`with Listening(heard):` each block read from a source is told, as its number of bytes."""

    __slots__ = ("_listener",)

    def __init__(self, listener: Callable[[int], object]) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        _listeners.append(self._listener)

    def __exit__(self, *_exception: object) -> None:
        _listeners.remove(self._listener)


def tell(count: int) -> None:
    """Say that bytes of a source were read."""
    for listener in _listeners:
        listener(count)


def heard(file: BinaryIO, block: int) -> BinaryIO:
    """Return a file that tells what is read from it; the very file while nobody listens.

    Args:
        file: Open for reading, buffered, nothing read yet.
        block: Size of its buffer.
    """
    if not _listeners:
        return file
    assert isinstance(file, io.BufferedReader)
    return io.BufferedReader(_Heard(file.detach()), block)


class _Heard(io.RawIOBase):
    """A file below its buffer."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int | None:
        count: int | None = self._file.readinto(buffer)
        tell(count or 0)
        return count

    def readall(self) -> bytes:
        found = self._file.readall()
        tell(len(found))
        return found
