"""What the three protocols share when a response is put together: blocks, tool calls, the end.

An assembler takes the decoded JSON objects of one stream and gives the loop's events. Pure: no network, no clock, no
chance, so the same objects always give the same message. Invariants: `StreamStart` comes first and once; a block that
was started is ended before `StreamDone`; a stream without its terminal event never becomes `StreamDone`; when a
response fails, what had arrived stays in it, a call whose arguments are incomplete says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, StreamError
from pi_loop.providers.arguments import ParsedArguments, parse_arguments, partial_object
from pi_loop.providers.errors import Failure, ProviderError, classify, error_parts, fail
from pi_loop.providers.usage import with_cost
from pi_loop.repair.well_formed import well_formed_text
from pi_loop.types import Model
from pi_sessions.messages import (
    DeferredHandle,
    JsonObject,
    Number,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)

Events = list[AssistantMessageEvent]
CUT_OFF = "The response ended before the arguments were complete"


class TextJoiner:
    """Joins surrogate pairs whose halves come in two deltas; what it gives out is well-formed."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Take the next delta and give what can be shown of it; half a character waits for its other half."""
        text = self._held + delta
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held = text[-1]
            text = text[:-1]
        return well_formed_text(text)

    def end(self) -> str:
        """Give what is left when nothing more comes."""
        held, self._held = self._held, ""
        return well_formed_text(held)


@dataclass(slots=True, eq=False)
class OpenText:
    """A text or thinking block being received."""

    kind: Literal["text", "thinking"]
    content_index: int
    pieces: list[str] = field(default_factory=list)
    joiner: TextJoiner = field(default_factory=TextJoiner)
    signature: str = ""

    @property
    def text(self) -> str:
        """What was given out so far."""
        return "".join(self.pieces)


@dataclass(slots=True, eq=False)
class OpenCall:
    """A tool call being received."""

    content_index: int
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    namespace: str | None = None

    @property
    def arguments_text(self) -> str:
        """The text of the arguments so far."""
        return "".join(self.pieces)


class Assembler(ABC):
    """Builds one response from the objects of a stream.

    `feed` each object; `finish` when no more are needed or the stream is over; `fail` instead when it broke. `done`
    says that nothing further is worth reading, `complete` that the terminal event was seen.
    """

    keeps_cut_signatures = True

    def __init__(
        self,
        model: Model,
        *,
        timestamp: Number,
        new_id: Callable[[], str],
        declared_name: Callable[[str], str] = str,
    ) -> None:
        """Begin a response.

        Args:
            model: The model asked, with its prices.
            timestamp: When the request started, Unix milliseconds.
            new_id: Gives ids for calls that come without one.
            declared_name: Gives the name of a tool by the name that was sent to the model.
        """
        self.model = model
        self.started = False
        self.done = False
        self.complete = False
        self.raw_stop_reason: str | None = None
        self.usage = Usage()
        self._billed: float | None = None
        self._has_usage = False
        self._draft = AssistantDraft(model, timestamp=timestamp)
        self._new_id = new_id
        self._declared_name = declared_name
        self._call_ids: set[str] = set()
        self._calls: list[OpenCall] = []
        self._texts: list[OpenText] = []
        self._ended_calls: list[ParsedArguments] = []

    # --- what protocols implement ---

    @abstractmethod
    def feed(self, payload: JsonObject) -> Events:
        """Take the next object of the stream.

        Raises:
            ProviderError: the object is an error, or makes no sense.
        """

    @abstractmethod
    def whole(self, payload: JsonObject) -> Events:
        """Take a response that came as one object instead of a stream; as `feed`."""

    @abstractmethod
    def _outcome(self) -> StopReason | Failure:
        """Say how a complete response ended."""

    def end_of_data(self) -> None:
        """Take the `[DONE]` that some servers send last; nothing further is worth reading."""
        self.done = True

    # --- the end ---

    def finish(self) -> Events:
        """Complete the response.

        Raises:
            ProviderError: the stream ended early, or the provider ended the response as failed.
        """
        if not self.complete:
            raise fail("broken_stream", "The stream ended before the answer was complete")
        events = self._end_blocks()
        outcome = self._outcome()
        if isinstance(outcome, Failure):
            raise ProviderError(outcome)
        self._set_results()
        events = self._with_start(events)
        # Servers say `stop` although they sent calls; whole calls are there to be run.
        calls_are_whole = bool(self._ended_calls) and all(call.error is None for call in self._ended_calls)
        if outcome == "stop" and calls_are_whole:
            outcome = "toolUse"
        events.append(self._draft.done(outcome))
        return events

    def defer(self, handle: DeferredHandle, *, status: str) -> Events:
        """Complete the response as one whose content is to be fetched later.

        Args:
            status: The provider's word for it.
        """
        self.complete = self.done = True
        self.raw_stop_reason = status
        self._set_results()
        self._draft.set(deferred=handle, response_id=handle.id)
        return self._with_start([self._draft.done("deferred")])

    def fail(self, failure: Failure, timestamp: Number) -> StreamError:
        """End the response as failed; what had arrived stays in it.

        Args:
            timestamp: Unix milliseconds, for the diagnostics.
        """
        for text in list(self._texts):
            text.signature = text.signature if self.keeps_cut_signatures else ""
            self._end_text(text)
        for call in self._calls:
            known = call.arguments_text
            cut = not known.strip() or parse_arguments(known).error is not None
            self._draft.put(call.content_index, _block(call, partial_object(known), CUT_OFF if cut else None))
        self._calls.clear()
        self._set_results()
        aborted = failure.kind == "aborted"
        if aborted:
            return self._draft.error(failure.text, aborted=True)
        return self._draft.error(failure.text, diagnostics=[failure.diagnostic(timestamp)])

    def _end_blocks(self) -> Events:
        """End what the stream left open."""
        events: Events = []
        for text in list(self._texts):
            events += self._end_text(text)
        for call in list(self._calls):
            events += self._end_call(call)
        return events

    def _set_results(self) -> None:
        if self._has_usage:
            self._draft.set(usage=with_cost(self.usage, self.model.cost, billed=self._billed))
        if self.raw_stop_reason is not None:
            self._draft.set(raw_stop_reason=self.raw_stop_reason)

    # --- parts of the message ---

    def _with_start(self, events: Events) -> Events:
        """Put `StreamStart` before the first events there are."""
        if self.started:
            return events
        self.started = True
        return [self._draft.start(), *events]

    def _identify(self, response_id: object, response_model: object) -> None:
        if text_of(response_id):
            self._draft.set(response_id=text_of(response_id))
        if text_of(response_model) not in ("", self.model.id):
            self._draft.set(response_model=text_of(response_model))

    def _count(self, usage: Usage, *, billed: float | None = None) -> None:
        self.usage = usage
        self._has_usage = True
        self._billed = billed if billed is not None else self._billed

    def _start_text(self, kind: Literal["text", "thinking"]) -> tuple[OpenText, Events]:
        event = self._draft.text_start() if kind == "text" else self._draft.thinking_start()
        opened = OpenText(kind, event.content_index)
        self._texts.append(opened)
        return opened, [event]

    def _add_text(self, block: OpenText, delta: str) -> Events:
        shown = block.joiner.feed(delta)
        if not shown:
            return []
        block.pieces.append(shown)
        if block.kind == "text":
            return [self._draft.text_delta(block.content_index, shown)]
        return [self._draft.thinking_delta(block.content_index, shown)]

    def _end_text(self, block: OpenText, final: str | None = None) -> Events:
        """End a block.

        Args:
            final: The provider's authoritative text, if it sent one.
        """
        self._texts.remove(block)
        events: Events = []
        rest = block.joiner.end()
        if rest:
            events += self._add_text(block, rest)
        text = block.text if final is None else well_formed_text(final)
        signature = block.signature or None
        changed = signature is not None or text != block.text
        index = block.content_index
        if block.kind == "text":
            final_text = TextContent(text=text, text_signature=signature) if signature else TextContent(text=text)
            return [*events, self._draft.text_end(index, final_text if changed else None)]
        thought = ThinkingContent(thinking=text)
        if signature:
            thought = ThinkingContent(thinking=text, thinking_signature=signature)
        return [*events, self._draft.thinking_end(index, thought if changed else None)]

    def _start_call(self, call_id: str, name: str) -> tuple[OpenCall, Events]:
        """Begin a tool call; an id that is missing or taken is replaced by a new one."""
        call_id = well_formed_text(call_id)
        if not call_id or call_id in self._call_ids:
            call_id = self._new_id()
        self._call_ids.add(call_id)
        name = self._declared_name(well_formed_text(name))
        event = self._draft.toolcall_start(call_id, name)
        call = OpenCall(event.content_index, call_id, name)
        self._calls.append(call)
        return call, [event]

    def _add_arguments(self, call: OpenCall, delta: str) -> Events:
        if not delta:
            return []
        call.pieces.append(delta)
        # A delta may end in half a character; for display that is a character nobody can draw.
        return [self._draft.toolcall_delta(call.content_index, well_formed_text(delta))]

    def _end_call(self, call: OpenCall, final: str | None = None) -> Events:
        """End a call.

        Args:
            final: The provider's authoritative argument text, if it sent one.
        """
        self._calls.remove(call)
        parsed = parse_arguments(call.arguments_text if final is None else final)
        self._ended_calls.append(parsed)
        return [self._draft.toolcall_end(call.content_index, _block(call, parsed.arguments, parsed.error))]


def _block(call: OpenCall, arguments: JsonObject, error: str | None) -> ToolCall:
    block = ToolCall(id=call.id, name=call.name, arguments=arguments)
    extra: dict[str, str] = {}
    if call.namespace is not None:
        extra["namespace"] = call.namespace
    if error:
        extra["arguments_error"] = error
    return block.model_copy(update=extra) if extra else block


def stream_error(payload: JsonObject, provider: str) -> ProviderError | None:
    """Give the error that an object of a stream holds, if it holds one."""
    parts = error_parts(payload)
    if parts is None:
        return None
    message, code = well_formed_text(parts[0]), None if parts[1] is None else well_formed_text(parts[1])
    shown = message if code is None or code in message else f"{code}: {message}"
    return ProviderError(classify(shown, code=code, provider=provider))


def text_of(value: object) -> str:
    """Give a value, well-formed, if it is text, else the empty text."""
    return well_formed_text(value) if isinstance(value, str) else ""


def piece_of(value: object) -> str:
    """Give a piece of a longer text as it came; it may begin or end in half a character, see `TextJoiner`."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> JsonObject:
    """Give a value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[JsonObject]:
    """Give the JSON objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
