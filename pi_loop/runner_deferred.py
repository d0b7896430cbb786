"""A deferred answer that is there now: what a run takes it for, and how it is shown as if it were streamed.

Source: Pi 1.6.0, deferred answers.
"""

from collections.abc import AsyncIterator, Iterator
from inspect import isawaitable
from typing import NamedTuple

from pi_loop.direct import closed_after
from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, StreamDone, StreamError
from pi_loop.types import Model, Request, StreamFn, StreamOptions
from pi_sessions.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall


class CameLater(NamedTuple):
    """The answer, and the entry of the one that waited for it."""

    entry_id: str
    answer: AssistantMessage


def answering_first(answer: AssistantMessage, stream_fn: StreamFn) -> StreamFn:
    """Give a stream function whose first answer is there already; the further ones are asked for."""
    used = False

    async def stream(model: Model, request: Request, options: StreamOptions) -> AsyncIterator[AssistantMessageEvent]:
        nonlocal used
        if not used:
            used = True
            for event in replayed(answer):
                yield event
            return
        asked = stream_fn(model, request, options)
        events = await asked if isawaitable(asked) else asked
        async with closed_after(events):
            async for event in events:
                yield event

    return stream


def replayed(answer: AssistantMessage) -> Iterator[AssistantMessageEvent]:
    """Give the events of an answer as if it had been streamed, each block in one delta."""
    named = Model(id=answer.model, api=answer.api, provider=answer.provider)
    draft = AssistantDraft(named, timestamp=answer.timestamp)
    yield draft.start()
    for block in answer.content:
        if isinstance(block, TextContent):
            text = draft.text_start()
            yield text
            yield draft.text_delta(text.content_index, block.text)
            yield draft.text_end(text.content_index, block)
        elif isinstance(block, ThinkingContent):
            thought = draft.thinking_start()
            yield thought
            yield draft.thinking_delta(thought.content_index, block.thinking)
            yield draft.thinking_end(thought.content_index, block)
        elif isinstance(block, ToolCall):
            call = draft.toolcall_start(block.id, block.name)
            yield call
            yield draft.toolcall_end(call.content_index, block)
    if answer.stop_reason in ("error", "aborted"):
        yield StreamError.model_validate({"reason": answer.stop_reason, "error": answer})
    else:
        yield StreamDone.model_validate({"reason": answer.stop_reason, "message": answer})
