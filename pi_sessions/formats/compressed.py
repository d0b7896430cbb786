"""Reads packed files as if they lay there unpacked: gzip, zstd, and the members of zip archives (`archives`).

The content streams in the memory of a few pieces. What cannot be unpacked is refused in one line; of a file that was
cut off, all that was whole before the cut is given, and `look_through` tells that it is cut. Knows nothing about
sessions.
"""

from __future__ import annotations

import io
import zlib

from pi_sessions.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO, Protocol

    class Unpacker(Protocol):
        """Unpacks one frame; what zlib, zstandard and Python's own zstd have in common."""

        @property
        def eof(self) -> bool: ...
        @property
        def unused_data(self) -> bytes: ...
        def decompress(self, data: bytes, /) -> bytes: ...


GZIP, ZSTD = ".gz", ".zst"
ENDINGS = (GZIP, ZSTD)
_MAGICS = {GZIP: b"\x1f\x8b", ZSTD: b"\x28\xb5\x2f\xfd"}
# A frame of zstd may begin with others that hold nothing.
_EMPTY_FRAMES = b"\x2a\x4d\x18"
_BUFFER = 1 << 20
# The most that a piece can become stays below 128 MB: zlib unpacks to 1032 times the size at most, zstd to 32,768.
_PIECES = {GZIP: 1 << 14, ZSTD: 1 << 12}
# Conversations are packed 3 to 30 times; what repeats itself far back in a rollout can be more in zstd.
_MOST_TIMES = {GZIP: 200, ZSTD: 2000}
_HARMLESS = 64 << 20
_WINDOW = 1 << 27
_UNPACK_HINT = "unpack it yourself and import what is inside"
INSTALL_HINT = "pip install 'pi-session[zstd]', or unpack it with `zstd -d` and import that"


def inner_name(path: str) -> str:
    """Return a file's name without the ending that says how it is packed."""
    for ending in ENDINGS:
        if path.endswith(ending):
            return path[: -len(ending)]
    return path


def is_tar(head: bytes) -> bool:
    """Whether a file is a tar archive, by its first bytes."""
    return head[257:263] in (b"ustar\0", b"ustar ")


def ending_for(head: bytes) -> str | None:
    """Return the ending that a packed file should have, by its first bytes; None when it is not packed."""
    return next((ending for ending, magic in _MAGICS.items() if head.startswith(magic)), None)


def unpacked(file: BinaryIO, path: str) -> BinaryIO:
    """Return a file's content, unpacked if its name and its first bytes say that it is packed.

    Args:
        file: Open for reading, buffered, at its beginning; it is closed with what is returned.
        path: Its name.

    Raises:
        SourceError: it cannot be unpacked on this machine.
    """
    ending = next((each for each in ENDINGS if path.endswith(each)), None)
    if ending is None:
        return file
    assert isinstance(file, io.BufferedReader)
    start = file.peek(4)[:4]
    if not start.startswith(_MAGICS[ending]) and not (ending == ZSTD and start[1:] == _EMPTY_FRAMES):
        return file
    try:
        unpacker, errors = _zstd(path) if ending == ZSTD else (_gzip, zlib.error)
    except SourceError:
        file.close()
        raise
    return io.BufferedReader(Unpacked(file, path, ending, unpacker, errors), _BUFFER)


def look_through(file: BinaryIO) -> bool:
    """Read a file to its end and forget what it says.

    Returns:
        Whether it was cut off.

    Raises:
        SourceError: it is damaged.
    """
    while file.read(_BUFFER):
        pass
    raw = getattr(file, "raw", None)
    return isinstance(raw, Unpacked) and raw.is_cut


def too_much(path: str) -> SourceError:
    """Return the refusal of what grows out of all proportion."""
    return SourceError(f"{path} is refused: it would unpack to very many times its size", hint=_UNPACK_HINT)


def damaged(path: str) -> SourceError:
    """Return the refusal of what cannot be unpacked."""
    return SourceError(f"{path} is damaged and cannot be unpacked", hint="get or copy it once more; nothing was stored")


class Unpacked(io.RawIOBase):
    """The content of a packed file.

    Args:
        file: The packed bytes; its `fileno` is this file's, so that it has the times of the packed file.
        path: For refusals.
        ending: How it is packed, one of `ENDINGS`.
        unpacker: Begins a frame.
        errors: What its `decompress` raises on damage.
        frames: Whether another frame may follow.

    Attributes:
        is_cut: The end of the packed bytes came before the end of a frame.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        ending: str,
        unpacker: Callable[[], Unpacker],
        errors: type[Exception],
        *,
        frames: bool = True,
    ) -> None:
        self.is_cut = False
        self._file = file
        self._path = path
        self._piece = _PIECES[ending]
        self._most_times = _MOST_TIMES[ending]
        self._begin = unpacker
        self._errors = errors
        self._frames = frames
        self._unpacker: Unpacker | None = unpacker()
        self._fresh = True
        self._ready = b""
        self._at = 0
        self._packed_bytes = 0
        self._bytes = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._ready):
            if self._unpacker is None:
                return 0
            self._ready, self._at = self._more(), 0
        piece = self._ready[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _more(self) -> bytes:
        """Unpack the next piece."""
        assert self._unpacker is not None
        raw = self._file.read(self._piece)
        if not raw:
            self.is_cut = not self._fresh
            self._unpacker = None
            return b""
        self._packed_bytes += len(raw)
        found: list[bytes] = []
        while raw and self._unpacker is not None:
            if self._fresh and self._packed_bytes > len(raw) and not raw.strip(b"\0"):
                # Tapes and some programs fill a file up.
                break
            self._fresh = False
            try:
                found.append(self._unpacker.decompress(raw))
            except self._errors as error:
                raise damaged(self._path) from error
            raw = b""
            if self._unpacker.eof:
                raw = self._unpacker.unused_data
                self._unpacker = self._begin() if self._frames else None
                self._fresh = True
        told = b"".join(found)
        self._bytes += len(told)
        if self._bytes > _HARMLESS and self._bytes > self._most_times * self._packed_bytes:
            raise too_much(self._path)
        return told


def _gzip() -> Unpacker:
    return zlib.decompressobj(31)


def _zstd(path: str) -> tuple[Callable[[], Unpacker], type[Exception]]:
    """Return what unpacks zstd on this machine: Python's own from 3.14 on, else the package `zstandard`."""
    try:
        own: Any = __import__("compression.zstd", fromlist=["ZstdDecompressor"])
    except ImportError:
        pass
    else:
        return own.ZstdDecompressor, own.ZstdError
    try:
        import zstandard
    except ImportError as error:
        raise SourceError(f"{path} is compressed with zstd, which is not installed here", hint=INSTALL_HINT) from error
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj, zstandard.ZstdError
