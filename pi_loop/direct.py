"""A direct call: one request, one answer, no loop.

Source: Pi 1.6.0, "One assistant response" (what `completeSimple` does in pi-ai).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from inspect import isawaitable

from pi_loop.events import AssistantMessageEvent, StreamDone, StreamError
from pi_loop.types import Model, Request, ResultStream, StreamFn, StreamOptions
from pi_sessions.messages import AssistantMessage, Message, UserMessage


async def complete(
    stream_fn: StreamFn,
    model: Model,
    prompt: str | Sequence[Message],
    options: StreamOptions | None = None,
) -> AssistantMessage:
    """Ask a model once and wait for the whole answer.

    Args:
        prompt: A text, or the messages of the request.

    Returns:
        The final message; a failure is one too, with stop reason `error` or `aborted`.

    Raises:
        RuntimeError: the stream ended without a final message.
    """
    messages: list[Message] = [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt)
    stream = stream_fn(model, Request(messages), options or StreamOptions())
    if isawaitable(stream):
        stream = await stream
    async with closed_after(stream):
        async for event in stream:
            if isinstance(event, StreamDone):
                return event.message
            if isinstance(event, StreamError):
                return event.error
    if isinstance(stream, ResultStream):
        return await stream.result()
    raise RuntimeError("The model's stream ended without a final event")


def closed_after(stream: AsyncIterator[AssistantMessageEvent]) -> AsyncExitStack:
    """Return an async `with` block at whose end a stream that can be closed is."""
    stack = AsyncExitStack()
    close = getattr(stream, "aclose", None)
    if close is not None:
        stack.push_async_callback(close)
    return stack
