"""The OpenAI Chat Completions protocol and its many dialects: their streams, put together to a message.

Which call a fragment belongs to is decided by index, id and name as far as they are there: a new id, or a name after
complete arguments, starts a new call. Reasoning is read from the first of the fields that hold any. Usage is a running
total wherever it stands. Knows no transport.

Source: OpenAI Chat Completions API, streaming; Pi 1.6.0, stop reasons, reasoning fields and signatures.
"""

import json
from collections.abc import Callable

from pi_loop.chat_traits import REASONING_FIELDS
from pi_loop.events import StreamError
from pi_loop.providers.arguments import is_complete
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
from pi_loop.providers.usage import openai_usage
from pi_loop.repair.well_formed import well_formed_text
from pi_loop.types import Model
from pi_sessions.messages import JsonObject, Number, StopReason, ThinkingContent

_STOP: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
# Fields of reasoning details that come in pieces and are joined; the others are repeated or come once.
_JOINED_DETAILS = ("text", "summary", "signature")


class ChatAssembler(Assembler):
    """Builds a message from the chunks of `POST /chat/completions`."""

    def __init__(
        self,
        model: Model,
        *,
        timestamp: Number,
        new_id: Callable[[], str],
        declared_name: Callable[[str], str] = str,
    ) -> None:
        super().__init__(model, timestamp=timestamp, new_id=new_id, declared_name=declared_name)
        self._open_text: OpenText | None = None
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}
        self._last_call: OpenCall | None = None
        self._details: list[JsonObject] = []
        # Place and text of the last thinking block that ended.
        self._thought: tuple[int, str] | None = None
        self._ends_blank = False

    def feed(self, payload: JsonObject) -> Events:
        """Take the next chunk; see `Assembler.feed`."""
        if payload.get("error") or "choices" not in payload:
            error = stream_error(payload, self.model.provider)
            if error is not None:
                raise error
        self._identify(payload.get("id"), payload.get("model"))
        self._read_usage(payload.get("usage"))
        choice = next((one for one in objects_of(payload.get("choices")) if not one.get("index")), None)
        if choice is None:
            return []
        if not payload.get("usage"):
            self._read_usage(choice.get("usage"))
        delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
        events = self._delta(delta)
        word = choice.get("finish_reason")
        if isinstance(word, str) and word:
            self.raw_stop_reason = text_of(word)
            self.complete = True
        # Some servers say "" in every chunk; only after the last one it may mean an end.
        self._ends_blank = word == "" and not events
        return self._with_start(events) if events else []

    def whole(self, payload: JsonObject) -> Events:
        """Take a completion that came as one object; see `Assembler.whole`."""
        calls = [object_of(choice.get("message")).get("tool_calls") for choice in objects_of(payload.get("choices"))]
        for index, call in enumerate(objects_of(calls[0] if calls else None)):
            call.setdefault("index", index)
        events = self.feed(payload)
        self.done = True
        return events

    def end_of_data(self) -> None:
        """Take `[DONE]`; see `Assembler.end_of_data`."""
        super().end_of_data()
        self.complete = self.complete or self._ends_blank

    def finish(self) -> Events:
        """Complete the response; see `Assembler.finish`."""
        if not self.complete and (self.model.compat or {}).get("supportsFinishReason") is False:
            self.complete = self.started
        return super().finish()

    def _outcome(self) -> StopReason | Failure:
        word = self.raw_stop_reason
        if word is None:
            return "toolUse" if self._ended_calls else "stop"
        if word in _STOP:
            return _STOP[word]
        if word == "content_filter":
            return Failure("refused", "The provider's content filter stopped the answer", code=word)
        return classify(f"The provider stopped the answer: {word}", code=word, provider=self.model.provider)

    def _read_usage(self, reported: object) -> None:
        usage = object_of(reported)
        if not usage:
            return
        billed = usage.get("cost") if self.model.provider == "openrouter" else None
        self._count(openai_usage(usage), billed=float(billed) if isinstance(billed, (int, float)) else None)

    # --- text ---

    def _delta(self, delta: JsonObject) -> Events:
        events: Events = []
        # Proxies put reasoning and answer into one delta; the reasoning came first.
        field = next((name for name in REASONING_FIELDS if text_of(delta.get(name))), None)
        if field is not None:
            events += self._more("thinking", piece_of(delta.get(field)), field)
        for detail in objects_of(delta.get("reasoning_details")):
            self._add_detail(detail)
        content = delta.get("content")
        if isinstance(content, str):
            events += self._more("text", content, None)
        for part in objects_of(content):
            events += self._content_part(part)
        events += self._more("text", piece_of(delta.get("refusal")), None)
        for position, fragment in enumerate(objects_of(delta.get("tool_calls"))):
            events += self._fragment(fragment, position)
        old = object_of(delta.get("function_call"))
        if old:
            events += self._fragment({"index": 0, "function": old}, 0)
        return events

    def _content_part(self, part: JsonObject) -> Events:
        """Take a piece of content that came as a list, as Mistral sends it."""
        if part.get("type") == "thinking":
            inner = "".join(piece_of(one.get("text")) for one in objects_of(part.get("thinking")))
            return self._more("thinking", inner, None)
        return self._more("text", piece_of(part.get("text")), None)

    def _more(self, kind: str, delta: str, field: str | None) -> Events:
        """Append to the open block of a kind; a block of the other kind is ended first."""
        if not delta:
            return []
        events: Events = []
        block = self._open_text
        if block is not None and block.kind != kind:
            events += self._close_text()
            block = None
        if block is None:
            block, started = self._start_text("text" if kind == "text" else "thinking")
            events += started
            self._open_text = block
        # The field goes back where it came from when the thinking is replayed.
        block.signature = block.signature or (field or "")
        return events + self._add_text(block, delta)

    def _close_text(self) -> Events:
        block, self._open_text = self._open_text, None
        if block is None:
            return []
        events = self._end_text(block)
        if block.kind == "thinking":
            self._thought = block.content_index, block.text
        return events

    def _add_detail(self, detail: JsonObject) -> None:
        """Keep replay data of OpenRouter; pieces of one text entry are joined."""
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(key) == detail.get(key) for key in ("type", "index"))
        if last is None or not same or detail.get("type") == "reasoning.encrypted":
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            known = last.get(name)
            if name in _JOINED_DETAILS and isinstance(value, str) and isinstance(known, str):
                last[name] = known + value
            elif value is not None:
                last[name] = value

    # --- tool calls ---

    def _fragment(self, fragment: JsonObject, position: int) -> Events:
        """Take one entry of `tool_calls`.

        Args:
            position: Its place in the list; entries without index and id in one chunk are different calls.
        """
        function = object_of(fragment.get("function"))
        call_id, name = text_of(fragment.get("id")), text_of(function.get("name"))
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        events: Events = []
        call = self._known_call(index, call_id, name, position)
        if call is None:
            if not name and not call_id and not function.get("arguments"):
                return []
            events += self._close_text()
            call, started = self._start_call(call_id, name)
            events += started
            self._last_call = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        if name and not call.name:
            call.name = self._declared_name(name)
        return events + self._add_arguments(call, self._arguments(function))

    def _known_call(self, index: int | None, call_id: str, name: str, position: int) -> OpenCall | None:
        """Find the call that a fragment continues; None: it starts a new one."""
        of_id = self._by_id.get(call_id) if call_id else None
        if index is not None:
            call = self._by_index.get(index)
            if call is None:
                return None if name else of_id
        elif of_id is not None:
            call = of_id
        else:
            call = None if name and (call_id or position > 0) else self._last_call
        if call is None or call is of_id or not (name and call.name):
            return call
        other_id = bool(call_id) and of_id is None
        other_name = index is None and self._declared_name(name) != call.name
        return None if other_id or other_name or is_complete(call.arguments_text) else call

    def _arguments(self, function: JsonObject) -> str:
        value = function.get("arguments")
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else piece_of(value)

    # --- the end ---

    def _end_blocks(self) -> Events:
        return self._close_text() + self._attach_details() + super()._end_blocks()

    def fail(self, failure: Failure, timestamp: Number) -> StreamError:
        """End the response as failed; see `Assembler.fail`."""
        self._close_text()
        self._attach_details()
        return super().fail(failure, timestamp)

    def _attach_details(self) -> Events:
        """Put the replay data, which may come long after the thinking, into the last thinking block."""
        if not self._details:
            return []
        events: Events = []
        if self._thought is None:
            block, events = self._start_text("thinking")
            self._open_text = block
            events += self._close_text()
        if self._thought is not None:
            index, thinking = self._thought
            signature = well_formed_text(json.dumps(self._details, ensure_ascii=False, separators=(",", ":")))
            self._draft.put(index, ThinkingContent(thinking=thinking, thinking_signature=signature))
        return events
