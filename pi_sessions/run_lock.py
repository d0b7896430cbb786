"""A lock on a side file that says whether a run's process is alive.

The operating system lets go of it when the process ends, however that happens, so no lock outlives its holder and no
timer has to guess. The file lies beside the store (`sessions.db-run-7`) and is removed when the run ends.
"""

from __future__ import annotations

import os
import time

_TRIES = 40
_PAUSE_S = 0.005


class PrivateLock:
    """The lock of a run in a store that no other process can open; held from construction to `release`.

    Args:
        held: Runs in progress, kept by the store.

    Raises:
        BlockingIOError: the run is in progress.
    """

    def __init__(self, held: set[int], run: int) -> None:
        if run in held:
            raise BlockingIOError
        held.add(run)
        self._held, self._run = held, run

    def release(self) -> None:
        """Let go; a second call does nothing."""
        self._held.discard(self._run)


class RunLock:
    """Held from construction to `release`.

    Args:
        path: The side file; made when it is missing.

    Raises:
        BlockingIOError: another process, or another run in this one, holds it.
    """

    def __init__(self, path: str) -> None:
        import fcntl

        self.path = path
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        for left in range(_TRIES, 0, -1):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Somebody who only looks holds it for microseconds.
                if left == 1:
                    os.close(self._descriptor)
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def release(self) -> None:
        """Let go and remove the file; a second call does nothing."""
        if self._descriptor >= 0:
            if os.path.exists(self.path):
                os.unlink(self.path)
            os.close(self._descriptor)
            self._descriptor = -1


def is_held(path: str) -> bool:
    """Whether a living process holds the lock of a side file; a missing file is held by nobody."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
