"""One assistant response: ask the model and stream the answer into the last place of the context.

Invariant: after a return the context ends with the final message, whose `message_end` is the caller's to emit. After
an exception the partial message stays there, as Pi leaves it; after a cancellation it is gone. Failures of hooks, of
the stream function and of the sink are not caught here.

Source: Pi 1.6.0, "One assistant response".
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from inspect import isawaitable

from pi_loop.abort import AbortSignal
from pi_loop.events import (
    AssistantMessageEvent,
    MessageStart,
    MessageUpdate,
    StreamDone,
    StreamError,
    StreamStart,
)
from pi_loop.hooks import deliver, settle
from pi_loop.partial import PartialView
from pi_loop.types import (
    AgentContext,
    EventSink,
    LoopConfig,
    Model,
    Request,
    ResultStream,
    StreamFn,
    StreamOptions,
)
from pi_sessions.messages import AssistantMessage, ThinkingLevel


async def stream_response(
    context: AgentContext,
    config: LoopConfig,
    emit: EventSink,
    *,
    signal: AbortSignal | None,
    stream_fn: StreamFn,
) -> AssistantMessage:
    """Get one response and put it at the end of the context.

    Args:
        context: Where the response goes; its messages are the request, after the hooks.
        config: Model, level and the hooks `transform_context`, `convert_to_llm` and `get_api_key`.
        emit: Gets `message_start` and every `message_update`; each is awaited.

    Returns:
        The final message, with the thinking level that was asked for.

    Raises:
        Exception: whatever a hook, the stream function, its stream or the sink raised.

    Source: Pi 1.6.0, "One assistant response".
    """
    messages = context.messages
    if config.transform_context is not None:
        messages = await settle(config.transform_context(messages, signal))
    request = Request(list(await settle(config.convert_to_llm(messages))))
    options = await _options(config, signal)
    try:
        final = await _ask(context, config, emit, request, options, stream_fn)
        if not context.is_streaming:
            context.begin_partial(PartialView.of(final))
            await deliver(emit, MessageStart(message=final))
        context.end_partial(final)
    except Exception:
        context.end_partial()
        raise
    except BaseException:
        context.drop_partial()
        raise
    return final


async def _ask(
    context: AgentContext,
    config: LoopConfig,
    emit: EventSink,
    request: Request,
    options: StreamOptions,
    stream_fn: StreamFn,
) -> AssistantMessage:
    started = config.clock()
    async with AsyncExitStack() as stack:
        stream = stream_fn(config.model, request, options)
        if isawaitable(stream):
            stream = await stream
        close = getattr(stream, "aclose", None)
        if close is not None:
            stack.push_async_callback(close)
        final = await _read(stream, context, emit, config)
    return _stamp(final, config.thinking_level, started, config.clock())


async def _options(config: LoopConfig, signal: AbortSignal | None) -> StreamOptions:
    key = await settle(config.get_api_key(config.model.provider)) if config.get_api_key is not None else None
    return replace(
        config.stream_options,
        api_key=key or config.stream_options.api_key,
        reasoning=None if config.thinking_level == "off" else config.thinking_level,
        signal=signal,
    )


async def _read(
    stream: AsyncIterator[AssistantMessageEvent],
    context: AgentContext,
    emit: EventSink,
    config: LoopConfig,
) -> AssistantMessage:
    """Play the stream's events up to its final message."""
    streaming = False
    async for event in stream:
        if isinstance(event, StreamDone):
            return event.message
        if isinstance(event, StreamError):
            return event.error
        if isinstance(event, StreamStart):
            context.begin_partial(event.view)
            streaming = True
            await deliver(emit, MessageStart(message=event.view.message()))
        elif streaming:
            context.update_partial(event.view)
            # `deliver` in place: this is the one line that runs for every delta.
            pending = emit(MessageUpdate(assistant_message_event=event))
            if pending is not None:
                await pending
    if isinstance(stream, ResultStream):
        return await stream.result()
    return _unfinished(context, config.model)


def _stamp(message: AssistantMessage, level: ThinkingLevel, started: float, now: float) -> AssistantMessage:
    stamps: dict[str, object] = {"thinking_level": level}
    # A response that began elsewhere (a deferred one, fetched later) is older than this request and stays untimed.
    if message.duration_ms is None and message.timestamp >= started:
        stamps["duration_ms"] = max(0, now - started)
    return message.model_copy(update=stamps)


def _unfinished(context: AgentContext, model: Model) -> AssistantMessage:
    """Give the final message of a stream that just stopped: what had arrived, as an error."""
    partial = context.messages[-1] if context.is_streaming else None
    if not isinstance(partial, AssistantMessage):
        partial = AssistantMessage(api=model.api, provider=model.provider, model=model.id)
    return partial.model_copy(
        update={"stop_reason": "error", "error_message": "The model's stream ended without a final event"}
    )
