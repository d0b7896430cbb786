"""The Anthropic Messages protocol: its stream, put together to a message.

Reads what hosted and compatible servers send: blocks by index, text, thinking with signatures, redacted thinking, tool
calls, cumulative usage, pings, errors inside the stream. Blocks of hosted tools, which are never asked for, and unknown
events are skipped. Knows no transport; `pi_loop.providers.client` sends the request.

Source: Anthropic Messages API, streaming; Pi 1.6.0, stop reasons.
"""

import json
from collections.abc import Callable

from pi_loop.providers.assembly import (
    Assembler,
    Events,
    OpenCall,
    OpenText,
    object_of,
    objects_of,
    piece_of,
    stream_error,
    text_of,
)
from pi_loop.providers.errors import Failure, classify
from pi_loop.providers.usage import anthropic_usage
from pi_loop.types import Model
from pi_sessions.messages import JsonObject, Number, StopReason, ThinkingContent

REDACTED_THINKING = "[Reasoning redacted]"
_STOP: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}


class AnthropicAssembler(Assembler):
    """Builds a message from the events of `POST /v1/messages`."""

    # A signature that is cut, or whose thinking is cut, is refused when it is sent back.
    keeps_cut_signatures = False

    def __init__(
        self,
        model: Model,
        *,
        timestamp: Number,
        new_id: Callable[[], str],
        declared_name: Callable[[str], str] = str,
    ) -> None:
        super().__init__(model, timestamp=timestamp, new_id=new_id, declared_name=declared_name)
        self._open: dict[int, OpenText | OpenCall | None] = {}
        self._given_inputs: dict[int, JsonObject] = {}
        self._latest = 0
        self._explanation = ""

    def feed(self, payload: JsonObject) -> Events:
        """Take the next event's data; see `Assembler.feed`."""
        kind = payload.get("type")
        if kind == "message_start":
            self._message(object_of(payload.get("message")))
        elif kind == "content_block_start":
            return self._with_some_start(self._block_start(payload))
        elif kind == "content_block_delta":
            return self._with_some_start(self._block_delta(payload))
        elif kind == "content_block_stop":
            return self._block_stop(self._index(payload))
        elif kind == "message_delta":
            self._message_delta(payload)
        elif kind == "message_stop":
            self.done = True
        elif kind == "error" or "error" in payload or kind is None:
            error = stream_error(payload, self.model.provider)
            if error is not None:
                raise error
        return []

    def whole(self, payload: JsonObject) -> Events:
        """Take a message that came as one object; see `Assembler.whole`."""
        error = None if payload.get("type") == "message" else stream_error(payload, self.model.provider)
        if error is not None:
            raise error
        self._message(payload)
        events: Events = []
        for index, block in enumerate(objects_of(payload.get("content"))):
            events += self.feed({"type": "content_block_start", "index": index, "content_block": block})
            events += self.feed({"type": "content_block_stop", "index": index})
        self._message_delta({"delta": payload, "usage": payload.get("usage")})
        self.done = True
        return events

    def _outcome(self) -> StopReason | Failure:
        word = self.raw_stop_reason or ""
        if word in _STOP:
            return _STOP[word]
        if word == "model_context_window_exceeded":
            return classify("model_context_window_exceeded: the context window of the model is full")
        if word == "refusal":
            return Failure("refused", self._explanation or "The model refused to complete the request", code=word)
        return Failure("refused", f"The provider stopped the answer: {word}", code=word)

    # --- events ---

    def _with_some_start(self, events: Events) -> Events:
        return self._with_start(events) if events else events

    def _message(self, message: JsonObject) -> None:
        self._identify(message.get("id"), message.get("model"))
        usage = object_of(message.get("usage"))
        if usage:
            self._count(anthropic_usage(usage, self.usage))

    def _message_delta(self, payload: JsonObject) -> None:
        delta = object_of(payload.get("delta"))
        reason = text_of(delta.get("stop_reason"))
        if reason:
            self.raw_stop_reason = reason
            self.complete = True
            self._explanation = text_of(object_of(delta.get("stop_details")).get("explanation"))
        usage = object_of(payload.get("usage"))
        if usage:
            billed = usage.get("cost") if self.model.provider == "openrouter" else None
            self._count(
                anthropic_usage(usage, self.usage), billed=float(billed) if isinstance(billed, (int, float)) else None
            )

    def _block_start(self, payload: JsonObject) -> Events:
        index = self._index(payload, of_new=True)
        block = object_of(payload.get("content_block"))
        kind = block.get("type")
        if kind == "text" or kind == "thinking":
            opened, events = self._start_text("text" if kind == "text" else "thinking")
            opened.signature = text_of(block.get("signature"))
            self._open[index] = opened
            return events + self._add_text(opened, piece_of(block.get(str(kind))))
        if kind == "redacted_thinking":
            hidden = ThinkingContent(
                thinking=REDACTED_THINKING, thinking_signature=text_of(block.get("data")), redacted=True
            )
            started = self._draft.thinking_start(hidden)
            self._open[index] = None
            return [started, self._draft.thinking_end(started.content_index)]
        if kind == "tool_use":
            call, events = self._start_call(text_of(block.get("id")), text_of(block.get("name")))
            self._open[index] = call
            self._given_inputs[index] = object_of(block.get("input"))
            return events
        self._open[index] = None
        return []

    def _block_delta(self, payload: JsonObject) -> Events:
        index = self._index(payload)
        delta = object_of(payload.get("delta"))
        kind = delta.get("type")
        events: Events = []
        if index not in self._open and kind in ("text_delta", "thinking_delta"):
            # Some proxies leave the start of a block out.
            self._open[index], events = self._start_text("text" if kind == "text_delta" else "thinking")
        block = self._open.get(index)
        if isinstance(block, OpenCall):
            return events + self._add_arguments(block, piece_of(delta.get("partial_json")))
        if isinstance(block, OpenText):
            if kind == "signature_delta":
                block.signature += text_of(delta.get("signature"))
            else:
                events += self._add_text(block, piece_of(delta.get(block.kind)))
        return events

    def _block_stop(self, index: int) -> Events:
        block = self._open.pop(index, None)
        if isinstance(block, OpenText):
            return self._end_text(block)
        if isinstance(block, OpenCall):
            return self._end_given(block, index)
        return []

    def _end_given(self, call: OpenCall, index: int) -> Events:
        """End a call; its arguments may have come whole at the start of the block."""
        given = self._given_inputs.pop(index, {})
        if given and not call.arguments_text.strip():
            call.pieces = [json.dumps(given)]
        return self._end_call(call)

    def _end_blocks(self) -> Events:
        events: Events = []
        for index in list(self._open):
            events += self._block_stop(index)
        return events + super()._end_blocks()

    def _index(self, payload: JsonObject, *, of_new: bool = False) -> int:
        """Give the index of the block an event is about; where it is missing, the latest block's."""
        index = payload.get("index")
        if isinstance(index, int):
            self._latest = index
        elif of_new:
            self._latest = max(self._open, default=self._latest - 1) + 1
        return self._latest
