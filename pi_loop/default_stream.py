"""The stream function that runs and agents use when they are given none; one per process, empty at first.

Source: Pi 1.6.0, "Parts".
"""

from pi_loop.types import NoStreamFnError, StreamFn

_default: StreamFn | None = None


def set_default_stream_fn(stream_fn: StreamFn | None) -> None:
    """Set the stream function for the whole process; None takes it away."""
    global _default
    _default = stream_fn


def default_stream_fn() -> StreamFn:
    """Give the stream function of the process.

    Raises:
        NoStreamFnError: none was set.
    """
    if _default is None:
        raise NoStreamFnError
    return _default
