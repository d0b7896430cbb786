"""AssistantDraft: how a provider builds a response and its events, one call per change.

The draft keeps the partial message (as a log, see `pi_loop.partial`) and hands out the event for each change; the
provider only yields it. `done` and `error` give the final message. A draft knows no protocol and no transport.
"""

from typing import TypedDict, Unpack

from pydantic import JsonValue

from pi_loop.events import (
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_loop.partial import PartialLog, PartialView
from pi_loop.types import Model
from pi_sessions.messages import (
    AssistantMessage,
    ContentBlock,
    DeferredHandle,
    Number,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)


class DraftFields(TypedDict, total=False):
    """Fields of the message that a provider may set while it streams or at the end."""

    response_model: str
    response_id: str
    provider_thinking_level: str
    diagnostics: list[JsonValue]
    usage: Usage
    deferred: DeferredHandle
    raw_stop_reason: str
    end_turn: bool
    duration_ms: Number


class AssistantDraft:
    """One response being received.

    Blocks are numbered from 0 in the order in which they were started; every `*_start` gives the new block's number
    in its event's `content_index`.
    """

    def __init__(self, model: Model, *, timestamp: Number) -> None:
        """Begin an empty response.

        Args:
            model: The model asked; its id, api and provider go into the message.
            timestamp: When the request started, Unix milliseconds.
        """
        start = AssistantMessage(
            content=[],
            api=model.api,
            provider=model.provider,
            model=model.id,
            stop_reason="pending",
            timestamp=timestamp,
        )
        self._log = PartialLog(start)
        self._blocks = 0

    def message(self) -> AssistantMessage:
        """Build the message so far."""
        return self._log.view().message()

    def set(self, **fields: Unpack[DraftFields]) -> None:
        """Set fields of the message that have no event of their own."""
        self._log.set_fields(fields)

    def start(self) -> StreamStart:
        """Give the event that must come first."""
        return StreamStart(view=self._log.view())

    def text_start(self) -> TextStart:
        """Add an empty text block."""
        index, view = self._append(TextContent(text=""))
        return TextStart(content_index=index, view=view)

    def text_delta(self, index: int, delta: str) -> TextDelta:
        """Append text to a text block."""
        return TextDelta(content_index=index, delta=delta, view=self._log.append_text(index, delta))

    def text_end(self, index: int, block: TextContent | None = None) -> TextEnd:
        """Complete a text block.

        Args:
            block: The authoritative block, with its signature; without it, what the deltas gave stands.
        """
        view = self._log.view() if block is None else self._log.put_block(index, block)
        return TextEnd(content_index=index, content=_text_at(view, index), view=view)

    def thinking_start(self, block: ThinkingContent | None = None) -> ThinkingStart:
        """Add a thinking block: an empty one, or a redacted one that is complete already."""
        index, view = self._append(ThinkingContent(thinking="") if block is None else block)
        return ThinkingStart(content_index=index, view=view)

    def thinking_delta(self, index: int, delta: str) -> ThinkingDelta:
        """Append text to a thinking block."""
        return ThinkingDelta(content_index=index, delta=delta, view=self._log.append_text(index, delta))

    def thinking_end(self, index: int, block: ThinkingContent | None = None) -> ThinkingEnd:
        """Complete a thinking block; as `text_end`."""
        view = self._log.view() if block is None else self._log.put_block(index, block)
        return ThinkingEnd(content_index=index, content=_text_at(view, index), view=view)

    def toolcall_start(self, call_id: str, name: str) -> ToolCallStart:
        """Add a tool call without arguments."""
        index, view = self._append(ToolCall(id=call_id, name=name, arguments={}))
        return ToolCallStart(content_index=index, view=view)

    def toolcall_delta(self, index: int, delta: str) -> ToolCallDelta:
        """Report more of the arguments' JSON text; the provider collects and parses it."""
        return ToolCallDelta(content_index=index, delta=delta, view=self._log.view())

    def toolcall_end(self, index: int, tool_call: ToolCall) -> ToolCallEnd:
        """Complete a tool call.

        Args:
            tool_call: The call with its arguments, or with `arguments_error` when their text was no JSON object.
        """
        return ToolCallEnd(content_index=index, tool_call=tool_call, view=self._log.put_block(index, tool_call))

    def put(self, index: int, block: ContentBlock) -> None:
        """Replace a block without an event, for data that comes late (a signature)."""
        self._log.put_block(index, block)

    def done(self, reason: StopReason, **fields: Unpack[DraftFields]) -> StreamDone:
        """Complete the response.

        Args:
            reason: stop, length, toolUse or deferred.
        """
        message = self.message().model_copy(update={**fields, "stop_reason": reason})
        return StreamDone.model_validate({"reason": reason, "message": message})

    def error(self, text: str, *, aborted: bool = False, **fields: Unpack[DraftFields]) -> StreamError:
        """End the response as failed, or as aborted; what had arrived stays in it.

        Args:
            text: The error text, for people.
        """
        reason: StopReason = "aborted" if aborted else "error"
        message = self.message().model_copy(update={**fields, "stop_reason": reason, "error_message": text})
        return StreamError.model_validate({"reason": reason, "error": message})

    def _append(self, block: ContentBlock) -> tuple[int, PartialView]:
        index = self._blocks
        self._blocks += 1
        return index, self._log.put_block(index, block)


def _text_at(view: PartialView, index: int) -> str:
    block = view.message().content[index]
    if isinstance(block, TextContent):
        return block.text
    return block.thinking if isinstance(block, ThinkingContent) else ""
