"""The event stream form of a run: it goes on in the background, and its events are read when the reader likes.

    async with stream_loop(prompts, context, config, stream_fn=model) as events:
        async for event in events:
            ...
        messages = await events.result()

Readers are no barrier: the run does not wait for them, and events that are not read yet are kept. Leaving the block
ends a run that still goes on. If the run fails, reading and `result` raise that error after the last event; Pi's
stream never ends then, which helps nobody.

Source: Pi 1.6.0, "Parts".
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from pi_loop.abort import AbortSignal
from pi_loop.events import LoopEvent
from pi_loop.loop import check_can_continue, run_loop, run_loop_continue
from pi_loop.types import AgentContext, EventSink, LoopConfig, StreamFn
from pi_sessions.messages import Message


class LoopStream:
    """The events of one run, in order, and its result. Enter it with `async with`; read it once."""

    def __init__(self, start: Callable[[EventSink], Awaitable[list[Message]]]) -> None:
        self._start = start
        self._events: deque[LoopEvent] = deque()
        self._changed = anyio.Event()
        self._messages: list[Message] | None = None
        self._failure: BaseException | None = None
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        group = anyio.create_task_group()
        await group.__aenter__()
        self._group = group
        group.start_soon(self._run)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.cancel_scope.cancel()
            # The group holds no failure of its own (see _run), so what left the block passes through as it is.
            await group.__aexit__(None, None, None)

    async def _run(self) -> None:
        try:
            self._messages = await self._start(self._push)
        except Exception as error:  # noqa: BLE001 - raised in the reader instead
            self._failure = error
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._changed.set()

    def _push(self, event: LoopEvent) -> None:
        self._events.append(event)
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LoopEvent:
        while not self._events:
            if self._failure is not None:
                raise self._failure
            if self._messages is not None:
                raise StopAsyncIteration
            await self._wait()
        return self._events.popleft()

    async def result(self) -> list[Message]:
        """Wait for the end of the run.

        Returns:
            The messages the run added.

        Raises:
            Exception: what the run failed with.
        """
        while self._messages is None:
            if self._failure is not None:
                raise self._failure
            await self._wait()
        return self._messages

    async def _wait(self) -> None:
        if self._group is None:
            raise RuntimeError("Enter the stream with `async with` before reading it")
        self._changed = anyio.Event()
        await self._changed.wait()


def stream_loop(
    prompts: Sequence[Message],
    context: AgentContext,
    config: LoopConfig,
    *,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> LoopStream:
    """Run the agent on new messages in the background; arguments as in `run_loop`.

    Source: Pi 1.6.0, "Parts".
    """

    async def start(emit: EventSink) -> list[Message]:
        return await run_loop(prompts, context, config, emit, signal=signal, stream_fn=stream_fn)

    return LoopStream(start)


def stream_loop_continue(
    context: AgentContext,
    config: LoopConfig,
    *,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> LoopStream:
    """Run the agent on the context as it is, in the background; arguments as in `run_loop_continue`.

    Raises:
        CannotContinueError: at once; there is no message, or the last one is an assistant's.

    Source: Pi 1.6.0, "Parts".
    """
    check_can_continue(context)

    async def start(emit: EventSink) -> list[Message]:
        return await run_loop_continue(context, config, emit, signal=signal, stream_fn=stream_fn)

    return LoopStream(start)
