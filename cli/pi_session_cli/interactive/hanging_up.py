"""How a program ends that a signal ends, or whose terminal has gone: quietly, with the exit code shells give that."""

from __future__ import annotations

import errno

HUNG_UP = 129
TERMINATED = 143
_GONE = (errno.EIO, errno.EPIPE, errno.EBADF, errno.ENXIO)


def has_gone(error: OSError | EOFError) -> bool:
    """Whether an error says that there is no terminal any more."""
    return isinstance(error, EOFError) or error.errno in _GONE
