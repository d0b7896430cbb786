"""Calling other people's functions: a hook or a sink may answer at once or be awaited.

Also the time given to event sinks to close up after a cancellation, in one place.
"""

from collections.abc import Awaitable
from contextlib import suppress
from inspect import isawaitable
from typing import TypeVar

import anyio

from pi_loop.events import LoopEvent
from pi_loop.types import EventSink

T = TypeVar("T")

# How long sinks may take for the events that close a cancelled run; a sink that hangs must not hold it for ever.
CLOSING_LIMIT_S = 2.0


async def settle(answer: T | Awaitable[T]) -> T:
    """Give a hook's answer, awaiting it if it is to be awaited."""
    if isawaitable(answer):
        return await answer
    return answer


async def deliver(emit: EventSink, event: LoopEvent) -> None:
    """Hand an event to a sink and wait until the sink is done with it."""
    pending = emit(event)
    if pending is not None:
        await pending


def closing_sink(emit: EventSink) -> EventSink:
    """Wrap a sink for the events that close a run which was cancelled.

    The sink is shielded from the cancellation for as long as closing may take. After that each event still enters the
    sink, which is left at its first wait. A sink that raises is not heard: the cancellation is what the caller gets.
    """
    deadline = anyio.current_time() + CLOSING_LIMIT_S

    async def tell(event: LoopEvent) -> None:
        with anyio.CancelScope(deadline=deadline, shield=True), suppress(Exception):
            await deliver(emit, event)

    return tell


def error_text(error: BaseException) -> str:
    """Give the text of an exception as the model and the transcript see it; never empty."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - other people's exceptions; one that cannot say what it is still has a name
        text = ""
    return text or type(error).__name__
