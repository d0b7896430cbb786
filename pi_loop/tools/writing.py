"""Writes a file whole or not at all: beside it first, then under its name.

Invariant: when a write fails, the file has the bytes it had before, and nothing is left beside it.

Source: ours; Pi 1.6.0 writes in place.
"""

import errno
import os
import stat
from contextlib import suppress
from uuid import uuid4

from pi_loop.tools.workspace import ToolError

# What a folder or a file of somebody else refuses, though the file itself may be written.
_NOT_BESIDE = (errno.EACCES, errno.EPERM, errno.EROFS)


def write_whole(path: str, shown: str, content: bytes) -> None:
    """Give a file its content, and make it when it is missing; blocking. A symbolic link stays one.

    Args:
        path: Its absolute path; the folder is there.
        shown: How the model named it.
        content: All of it.

    Raises:
        ToolError: it is a folder, a device or a pipe; nothing was written.
        OSError: the system refused it; the file is as it was.
    """
    real = os.path.realpath(path)
    state = _state(real, shown)
    if state is None:
        _replace(real, content, None)
    elif state.st_nlink > 1 or not os.access(real, os.W_OK):
        _overwrite(real, shown, content)
    else:
        try:
            _replace(real, content, state)
        except OSError as error:
            if error.errno not in _NOT_BESIDE:
                raise
            _overwrite(real, shown, content)


def _state(real: str, shown: str) -> os.stat_result | None:
    try:
        state = os.stat(real)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(state.st_mode):
        raise ToolError(f"Is a directory: {shown}")
    if not stat.S_ISREG(state.st_mode):
        raise ToolError(f"{shown} is not a regular file; it was not written to")
    return state


def _replace(real: str, content: bytes, state: os.stat_result | None) -> None:
    beside = os.path.join(os.path.dirname(real), f".pi-session-{uuid4().hex}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if state is None else 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if state is not None:
                file.flush()
                if (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), state.st_uid, state.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
        os.replace(beside, real)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        # The file that was meant is named, not the one beside it.
        raise OSError(error.errno, error.strerror, real) from error


def _overwrite(real: str, shown: str, content: bytes) -> None:
    """Write in place, for a file whose other names must see the change; what was there comes back on failure."""
    with open(os.open(real, os.O_RDWR | os.O_NONBLOCK), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ToolError(f"{shown} is not a regular file; it was not written to")
        before = file.read()
        try:
            _fill(file.fileno(), content)
        except OSError as error:
            _fill(file.fileno(), before)
            raise OSError(error.errno, error.strerror, real) from error


def _fill(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.ftruncate(descriptor, len(content))
