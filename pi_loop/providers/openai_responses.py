"""The OpenAI Responses protocol: its stream, put together to a message.

Items are found by output index, by item id, or else by being the last one open of their sort, because servers leave
out or change any of these. What an item says when it is done, and what the terminal event says of it, counts more than
the collected deltas. Events of hosted tools and unknown events are skipped. Knows no transport.

Source: OpenAI Responses API, streaming; Pi 1.6.0, stop reasons, item ids and signatures.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

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
from pi_loop.providers.errors import Failure, ProviderError, classify, fail
from pi_loop.providers.usage import openai_usage
from pi_loop.repair.well_formed import well_formed_text
from pi_loop.types import Model
from pi_sessions.messages import JsonObject, Number, StopReason, ThinkingContent

_SORTS: dict[str, Literal["message", "reasoning", "call", "custom"]] = {
    "message": "message",
    "reasoning": "reasoning",
    "function_call": "call",
    "custom_tool_call": "custom",
}
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
# The part of the event's name before `.delta` or `.done`, and the sort of item it belongs to.
_PARTS = {
    "response.output_text": "message",
    "response.refusal": "message",
    "response.reasoning_summary_text": "reasoning",
    "response.reasoning_text": "reasoning",
    "response.function_call_arguments": "call",
    "response.custom_tool_call_input": "custom",
}
_DONE_TEXT = {"message": ("text", "refusal"), "reasoning": ("text",), "call": ("arguments",), "custom": ("input",)}
# The one argument that a free-form tool gets.
CUSTOM_INPUT = "input"


@dataclass(slots=True, eq=False)
class _Item:
    """One output item; its block is started with its first content, so an empty message leaves none."""

    sort: str
    id: str = ""
    index: int | None = None
    text: OpenText | None = None
    call: OpenCall | None = None
    # Parts that had a delta: kind, and content or summary index. The others' whole texts count.
    parts: set[tuple[str, int]] = field(default_factory=set)
    custom: list[str] = field(default_factory=list)
    ended: bool = False


class ResponsesAssembler(Assembler):
    """Builds a message from the events of `POST /responses`."""

    def __init__(
        self,
        model: Model,
        *,
        timestamp: Number,
        new_id: Callable[[], str],
        declared_name: Callable[[str], str] = str,
    ) -> None:
        super().__init__(model, timestamp=timestamp, new_id=new_id, declared_name=declared_name)
        self._items: list[_Item] = []
        self._status = ""
        self._reason = ""
        self._error: JsonObject = {}
        # Reasoning whose encrypted content was missing when its item was done: (block index, thinking, item).
        self._bare_reasoning: list[tuple[int, str, JsonObject]] = []

    def feed(self, payload: JsonObject) -> Events:
        """Take the next event's data; see `Assembler.feed`."""
        kind = text_of(payload.get("type"))
        if kind == "error" or (not kind and "error" in payload):
            raise stream_error(payload, self.model.provider) or _unknown_error()
        if kind in _TERMINAL:
            return self._terminal(object_of(payload.get("response")), kind.removeprefix("response."))
        if kind in ("response.created", "response.in_progress", "response.queued"):
            response = object_of(payload.get("response"))
            self._identify(response.get("id"), response.get("model"))
            return []
        if kind == "response.output_item.added":
            return self._added(payload)
        if kind == "response.output_item.done":
            item = object_of(payload.get("item"))
            found = self._find(_SORTS.get(text_of(item.get("type")), ""), item.get("id"), payload)
            return self._item_done(found or self._new_item(item, payload), item)
        if kind == "response.reasoning_summary_part.added" and payload.get("summary_index"):
            return self._delta("reasoning", "response.reasoning_summary_text", {**payload, "delta": "\n\n"})
        part, _, end = kind.rpartition(".")
        sort = _PARTS.get(part)
        if sort is None:
            return []
        return self._delta(sort, part, payload) if end == "delta" else self._part_done(sort, part, payload)

    def whole(self, payload: JsonObject) -> Events:
        """Take a response that came as one object; see `Assembler.whole`."""
        if payload.get("object") != "response" and "output" not in payload:
            error = stream_error(payload, self.model.provider)
            if error is not None:
                raise error
        return self._terminal(payload, text_of(payload.get("status")) or "completed")

    def _outcome(self) -> StopReason | Failure:
        if self._error:
            return (stream_error({"error": self._error}, self.model.provider) or _unknown_error()).failure
        if self._status in ("completed", "in_progress", "queued"):
            return "toolUse" if self._ended_calls else "stop"
        if self._status == "incomplete":
            if self._reason == "max_output_tokens":
                return "length"
            text = f"The response is incomplete: {self._reason or 'the provider gives no reason'}"
            return Failure("refused" if self._reason == "content_filter" else "server", text, code=self._reason or None)
        reason = f": {self._reason}" if self._reason else ", without giving a reason"
        return classify(f"The response ended as {self._status}{reason}")

    # --- items ---

    def _added(self, payload: JsonObject) -> Events:
        item = object_of(payload.get("item"))
        added = self._new_item(item, payload)
        if added.sort in ("call", "custom"):
            events = self._begin_call(added, item)
            given = piece_of(item.get("arguments" if added.sort == "call" else "input"))
            return self._with_start(events + self._argument_delta(added, given))
        return []

    def _new_item(self, item: JsonObject, payload: JsonObject) -> _Item:
        index = payload.get("output_index")
        new = _Item(
            _SORTS.get(text_of(item.get("type")), ""),
            text_of(item.get("id")) or text_of(payload.get("item_id")),
            index if isinstance(index, int) else None,
        )
        self._items.append(new)
        return new

    def _find(self, sort: str, item_id: object, payload: JsonObject) -> _Item | None:
        """Find the open item that an event is about."""
        mine = [item for item in self._items if item.sort == sort and not item.ended]
        index = payload.get("output_index")
        if isinstance(index, int):
            at_index = [item for item in mine if item.index == index]
            if at_index:
                return at_index[-1]
        named = [item for item in mine if item_id and item.id == item_id]
        if named:
            return named[-1]
        # An item with another index is another item; one without any may be the one that is meant.
        loose = [item for item in mine if not (isinstance(index, int) and item.index is not None)]
        return loose[-1] if loose else None

    def _begin_call(self, item: _Item, wire: JsonObject) -> Events:
        call_id = text_of(wire.get("call_id"))
        both = f"{call_id}|{item.id}" if call_id and item.id else call_id or item.id
        item.call, events = self._start_call(both, text_of(wire.get("name")))
        if isinstance(wire.get("namespace"), str):
            item.call.namespace = text_of(wire.get("namespace"))
        return events

    # --- content ---

    def _delta(self, sort: str, part: str, payload: JsonObject) -> Events:
        item = self._find(sort, payload.get("item_id"), payload)
        if item is None:
            if sort in ("call", "custom"):
                return []
            item = self._new_item({"type": sort}, payload)
        delta = piece_of(payload.get("delta"))
        if sort in ("call", "custom"):
            return self._with_start(self._argument_delta(item, delta))
        return self._text_delta(item, part, payload, delta)

    def _text_delta(self, item: _Item, part: str, payload: JsonObject, delta: str) -> Events:
        if not delta:
            return []
        item.parts.add(_place(part, payload))
        events: Events = []
        if item.text is None:
            item.text, events = self._start_text("text" if item.sort == "message" else "thinking")
        return self._with_start(events + self._add_text(item.text, delta))

    def _part_done(self, sort: str, part: str, payload: JsonObject) -> Events:
        """Take the whole text of a part, for servers that send no deltas for it."""
        item = self._find(sort, payload.get("item_id"), payload)
        if item is None and sort in ("call", "custom"):
            return []
        text = next((piece_of(payload.get(name)) for name in _DONE_TEXT[sort] if payload.get(name)), "")
        if sort in ("call", "custom"):
            return self._with_start(self._argument_rest(item, text)) if item is not None else []
        if item is not None and _place(part, payload) in item.parts:
            return []
        return self._text_delta(item or self._new_item({"type": sort}, payload), part, payload, text)

    def _argument_delta(self, item: _Item, delta: str) -> Events:
        if item.call is None or not delta:
            return []
        if item.sort == "custom":
            item.custom.append(delta)
            return []
        return self._add_arguments(item.call, delta)

    def _argument_rest(self, item: _Item, text: str) -> Events:
        """Take the whole argument text: give what the deltas left out, or replace them."""
        if item.call is None or not text:
            return []
        if item.sort == "custom":
            item.custom = [text]
            return []
        known = item.call.arguments_text
        if text.startswith(known):
            return self._add_arguments(item.call, text[len(known) :])
        item.call.pieces = [text]
        return []

    # --- the end of items and of the response ---

    def _item_done(self, item: _Item, wire: JsonObject) -> Events:
        item.ended = True
        if item.sort == "message":
            return self._message_done(item, wire)
        if item.sort == "reasoning":
            return self._reasoning_done(item, wire)
        if item.sort not in ("call", "custom"):
            return []
        events = [] if item.call is not None else self._begin_call(item, wire)
        call = item.call
        if call is None:
            return []
        given = wire.get("arguments" if item.sort == "call" else "input")
        final = json.dumps(given) if isinstance(given, dict) else text_of(given)
        events += self._argument_rest(item, final)
        if item.sort == "custom":
            events += self._add_arguments(call, json.dumps({CUSTOM_INPUT: "".join(item.custom)}, ensure_ascii=False))
        return self._with_start(events + self._end_call(call))

    def _message_done(self, item: _Item, wire: JsonObject) -> Events:
        parts = objects_of(wire.get("content"))
        final = "".join(text_of(part.get("text")) or text_of(part.get("refusal")) for part in parts)
        events: Events = []
        if item.text is None:
            if not final:
                return []
            item.text, events = self._start_text("text")
            events += self._add_text(item.text, final)
        if item.id or wire.get("id"):
            signature: JsonObject = {"v": 1, "id": text_of(wire.get("id")) or item.id}
            phase = text_of(wire.get("phase"))
            item.text.signature = _compact({**signature, "phase": phase} if phase else signature)
        return self._with_start(events + self._end_text(item.text, final or None))

    def _reasoning_done(self, item: _Item, wire: JsonObject) -> Events:
        summary = "\n\n".join(text_of(part.get("text")) for part in objects_of(wire.get("summary")))
        content = "\n\n".join(text_of(part.get("text")) for part in objects_of(wire.get("content")))
        final = summary or content
        events: Events = []
        if item.text is None:
            if not final and not wire.get("encrypted_content"):
                return []
            item.text, events = self._start_text("thinking")
            events += self._add_text(item.text, final)
        thinking = final or item.text.text
        item.text.signature = _compact(wire)
        if not wire.get("encrypted_content"):
            self._bare_reasoning.append((item.text.content_index, thinking, wire))
        return self._with_start(events + self._end_text(item.text, thinking))

    def _terminal(self, response: JsonObject, kind: str) -> Events:
        self.complete = self.done = True
        self._status = text_of(response.get("status")) or kind
        self.raw_stop_reason = self._status
        self._reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        self._error = object_of(response.get("error"))
        self._identify(response.get("id"), response.get("model"))
        usage = object_of(response.get("usage"))
        if usage:
            self._count(openai_usage(usage))
        output = objects_of(response.get("output"))
        events = self._reconcile(output)
        self._fill_reasoning(output)
        return events

    def _reconcile(self, output: list[JsonObject]) -> Events:
        """Take items of the terminal event whose own events were missing or unfinished.

        Ids differ between events and the terminal event on some servers, so the items of one sort are matched in order.
        """
        events: Events = []
        seen = {sort: [item for item in self._items if item.sort == sort] for sort in _SORTS.values()}
        for place, wire in enumerate(output):
            sort = _SORTS.get(text_of(wire.get("type")))
            if sort is None:
                continue
            item = seen[sort].pop(0) if seen[sort] else self._new_item(wire, {"output_index": place})
            if not item.ended:
                events += self._item_done(item, wire)
        return events

    def _end_blocks(self) -> Events:
        events: Events = []
        for item in [item for item in self._items if not item.ended and item.sort != "reasoning"]:
            events += self._item_done(item, {})
        return events + super()._end_blocks()

    def _fill_reasoning(self, output: list[JsonObject]) -> None:
        """Put encrypted content that only the terminal event has into the signature."""
        for wire in output:
            for index, thinking, item in self._bare_reasoning:
                if wire.get("encrypted_content") and wire.get("id") == item.get("id"):
                    whole = {**item, "encrypted_content": wire["encrypted_content"]}
                    signature = _compact(whole)
                    self._draft.put(index, ThinkingContent(thinking=thinking, thinking_signature=signature))


def _place(part: str, payload: JsonObject) -> tuple[str, int]:
    index = payload.get("summary_index", payload.get("content_index"))
    return part, index if isinstance(index, int) else 0


def _compact(value: JsonObject) -> str:
    return well_formed_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _unknown_error() -> ProviderError:
    return fail("server", "The provider reported an error without a text")
