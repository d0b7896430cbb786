"""Deferred answers in a conversation: which one it waits for, and how one that is there now is taken and shown.

Source: Pi 1.6.0, deferred answers.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from inspect import isawaitable
from typing import NamedTuple

from pi_loop.direct import closed_after
from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, StreamDone, StreamError
from pi_loop.runner_messages import readable
from pi_loop.types import Model, Request, StreamFn, StreamOptions
from pi_sessions.context import ContextMessage
from pi_sessions.messages import AssistantMessage, DeferredHandle, TextContent, ThinkingContent, ToolCall


class Waiting(NamedTuple):
    """An answer that is waited for: its entry, its handle, and the leaf at which that was seen."""

    entry_id: str
    handle: DeferredHandle
    leaf: str | None


def waiting_in(messages: Sequence[ContextMessage], leaf: str | None) -> Waiting | None:
    """Give the answer that a context waits for.

    It is the last answer; what others said behind it meanwhile changes nothing, any further answer does.
    """
    for one in reversed(messages):
        role = one.message.get("role")
        if role == "toolResult":
            return None
        if role == "assistant":
            answer = readable(one.message)
            handle = answer.deferred if isinstance(answer, AssistantMessage) else None
            waits = handle is not None and one.message.get("stopReason") == "deferred"
            return Waiting(one.entry_id, handle, leaf) if handle is not None and waits else None
    return None


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
