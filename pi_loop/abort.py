"""AbortController and AbortSignal: how a run is told to stop, and how its parts hear of it.

The signal is a flag, a list of callbacks and something to wait for, without a thread or a task of its own. It works
on asyncio and trio, may be made outside an event loop, and must be used from one thread.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

AbortCallback = Callable[[], None]


class AbortSignal:
    """Says whether a run was aborted; read only, see `AbortController`."""

    __slots__ = ("_aborted", "_callbacks")

    def __init__(self) -> None:
        self._aborted = False
        self._callbacks: dict[object, AbortCallback] = {}

    @property
    def aborted(self) -> bool:
        """Whether the run was aborted."""
        return self._aborted

    def on_abort(self, callback: AbortCallback) -> Callable[[], None]:
        """Call a function once, at the abort; at once if it has happened.

        Returns:
            A function that takes the callback back.
        """
        if self._aborted:
            callback()
            return lambda: None
        key = object()
        self._callbacks[key] = callback

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    async def wait(self) -> None:
        """Return when the run is aborted; always a checkpoint."""
        event = anyio.Event()
        remove = self.on_abort(event.set)
        try:
            await event.wait()
        finally:
            remove()

    @contextmanager
    def cancels(self) -> Iterator[anyio.CancelScope]:
        """Cancel what is inside the block at the abort; `scope.cancelled_caught` tells whether that happened.

        Wrap single waits with it (one read, one sleep). Never yield from an async generator inside the block.
        """
        with anyio.CancelScope() as scope:
            remove = self.on_abort(scope.cancel)
            try:
                yield scope
            finally:
                remove()


class AbortController:
    """Owns one signal and aborts it."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self) -> None:
        """Abort: once, the callbacks run in the order in which they came; a second call does nothing."""
        signal = self.signal
        if signal._aborted:
            return
        signal._aborted = True
        callbacks = list(signal._callbacks.values())
        signal._callbacks.clear()
        for callback in callbacks:
            callback()
