"""Reads the files inside a zip archive where they are: `export.zip/conversations.json` is a path like any other.

Members stream like files (`compressed`), each verified against its checksum. The archive's directory is read once for
all of its members. Encrypted, damaged and absurdly packed archives are refused in one line.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from functools import lru_cache

from pi_sessions.errors import SourceError
from pi_sessions.formats.bytes_read import tell
from pi_sessions.formats.compressed import GZIP, Unpacked, damaged, too_much
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from pi_sessions.formats.compressed import Unpacker

_MAGIC = b"PK\x03\x04"
_EMPTY = b"PK\x05\x06" + bytes(16)
_NEWEST_VERSION = 63
ENDING = ".zip"
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x01 | 0x40
_MOST_TIMES = 200
_HARMLESS = 64 << 20


class Member(Record):
    """A file inside an archive.

    Attributes:
        name: As the archive has it.
        size: Bytes when unpacked.
        packed: Bytes as it lies there.
        start: Where its local header begins.
        method: How it is packed.
        crc: CRC-32 of its content.
        encrypted: A password is needed.
        times: How often the archive has this name; the last one counts.
    """

    name: str
    size: int
    packed: int
    start: int
    method: int
    crc: int
    encrypted: bool
    times: int = 1


def is_archive(head: bytes) -> bool:
    """Whether a file is a zip archive, by its first bytes."""
    version = int.from_bytes(head[4:6], "little")
    return (head.startswith(_MAGIC) and len(head) >= 6 and version <= _NEWEST_VERSION) or head.startswith(_EMPTY)


def split(path: str) -> tuple[str, str] | None:
    """Return the archive and the name of the member that a path leads into; None when it leads into no file."""
    at = path.rfind("/")
    while at > 0:
        if os.path.isfile(path[:at]):
            return path[:at], path[at + 1 :]
        at = path.rfind("/", 0, at)
    return None


def members(archive: str) -> dict[str, Member]:
    """Return the files in an archive by name, folders left out.

    Raises:
        SourceError: it cannot be read, is damaged, or would unpack to very many times its size.
    """
    try:
        status = os.stat(archive)
    except OSError as error:
        raise SourceError(f"{archive} cannot be read: {error.strerror}") from error
    found = _members(archive, status.st_size, status.st_mtime_ns)
    whole = sum(member.size for member in found.values())
    if whole > _HARMLESS and whole > _MOST_TIMES * status.st_size:
        raise too_much(archive)
    return found


@lru_cache(maxsize=4)
def _members(archive: str, size: int, time_ns: int) -> dict[str, Member]:
    import zipfile

    try:
        with zipfile.ZipFile(archive) as opened:
            listed = opened.infolist()
    except OSError as error:
        raise SourceError(f"{archive} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError, IndexError) as error:
        hint = "download or copy it once more; nothing was stored"
        raise SourceError(f"{archive} is a damaged or cut-off zip archive", hint=hint) from error
    found: dict[str, Member] = {}
    for info in listed:
        if not info.filename or info.filename.endswith("/"):
            continue
        before = found.get(info.filename)
        found[info.filename] = Member(
            info.filename,
            info.file_size,
            info.compress_size,
            info.header_offset,
            info.compress_type,
            info.CRC,
            bool(info.flag_bits & _ENCRYPTED),
            before.times + 1 if before is not None else 1,
        )
    return found


def open_member(path: str) -> BinaryIO:
    """Open a file inside an archive; its `fileno` is the archive's.

    Raises:
        SourceError: there is no such file, or it cannot be unpacked.
    """
    place = split(path)
    member = members(place[0]).get(place[1]) if place is not None else None
    if place is None or member is None:
        raise SourceError(f"{path} does not exist")
    if member.encrypted:
        raise SourceError(f"{path} is encrypted", hint="unpack it with its password and import what is inside")
    if member.method not in (_STORED, _DEFLATED):
        hint = "unpack the archive and import what is inside"
        raise SourceError(f"{path} is packed in an uncommon way (method {member.method})", hint=hint)
    try:
        file = open(place[0], "rb")  # noqa: SIM115 (closed with what is returned)
    except OSError as error:
        raise SourceError(f"{place[0]} cannot be read: {error.strerror or error}") from error
    try:
        file.seek(member.start)
        magic, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if magic != _MAGIC:
            raise damaged(path)
        file.seek(name + extra, io.SEEK_CUR)
    except (OSError, ValueError, struct.error) as error:
        file.close()
        raise damaged(path) from error
    except SourceError:
        file.close()
        raise
    return io.BufferedReader(_MemberContent(file, path, member), 1 << 20)


def files_below(folder: str, *, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and those below it, with the names of their files; it may lie inside an archive.

    Args:
        depth: How many folders below it to go down.
    """
    if os.path.isdir(folder):
        for place, folders, names in os.walk(folder):
            yield place, names
            if _depth(place, folder) >= depth:
                folders.clear()
        return
    inside = (folder, "") if os.path.isfile(folder) else split(folder)
    if inside is None:
        return
    archive, start = inside
    places: dict[str, list[str]] = {}
    for name in members(archive):
        if not start or name.startswith(f"{start}/"):
            place, _slash, file = f"{archive}/{name}".rpartition("/")
            if _depth(place, folder) <= depth:
                places.setdefault(place, []).append(file)
    yield from sorted(places.items())


def _depth(place: str, folder: str) -> int:
    return place.count("/") - folder.count("/")


class _Part(io.RawIOBase):
    """The packed bytes of one member."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(found)
        tell(len(found))
        return found

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()
        super().close()


class _Stored:
    """Unpacks what is not packed."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.eof = not size
        self.unused_data = b""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the data."""
        self._left -= len(data)
        self.eof = self._left <= 0
        return data


class _MemberContent(Unpacked):
    """The content of a member: as long as the directory says and with its checksum, or refused."""

    def __init__(self, file: BinaryIO, path: str, member: Member) -> None:
        def unpacker() -> Unpacker:
            return zlib.decompressobj(-15) if member.method == _DEFLATED else _Stored(member.size)

        part: BinaryIO = _Part(file, member.packed)  # type: ignore[assignment]
        super().__init__(part, path, GZIP, unpacker, zlib.error, frames=False)
        self._member = member
        self._crc = 0
        self._size = 0
        self._verified = False

    def _more(self) -> bytes:
        told = super()._more()
        self._crc = zlib.crc32(told, self._crc)
        self._size += len(told)
        if self._size > self._member.size:
            raise damaged(self._path)
        return told

    def readinto(self, buffer: object) -> int:
        count = super().readinto(buffer)
        if not count and not self._verified:
            self._verified = True
            if self._size != self._member.size or self._crc != self._member.crc:
                raise damaged(self._path)
        return count
