"""ScriptedModel: a stream function that replays a script; for tests, demos and work without a network.

A script is JSON: a list of steps, or an object `{"paceMs": 20, "steps": [...]}`. One step answers one request, in
order. A step is

* a text: the whole answer;
* an object, the short form: `text`, `thinking`, `calls` (each `name`, `arguments`, and an `id` if it matters), `usage`,
  `stopReason`, `error` (the answer fails with this text), and for trouble `raise` (the stream raises this text),
  `cut` (the stream just ends) or `stall` (it says nothing more until it is aborted), each after what the step has
  streamed by then; `after` limits that to so many deltas; `chunk` is the length of a delta in characters (without it,
  a word is one), `paceMs` the pause before each;
* a list of events, or `{"events": [...], "final": {...}}`: Pi's stream events by their wire names, without partials.

A request whose answer may come later gets a handle and takes no step; each look at the handle takes one, and a step
with `stopReason` `deferred` says there that the answer is not there yet.

A request without a step is answered with an error, and `check` raises for it and for steps that are left over; leaving
a `with` block checks. An aborted signal ends the answer as aborted, with what had arrived.

Source: ours; the events are those of Pi 1.6.0.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self, TypeAlias

import anyio
import anyio.lowlevel
from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from pi_loop.draft import AssistantDraft
from pi_loop.events import AssistantMessageEvent, StreamDone, StreamError
from pi_loop.types import Clock, Model, Request, StreamOptions, wall_clock_ms
from pi_sessions.messages import (
    AssistantMessage,
    DeferredHandle,
    JsonObject,
    Number,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)

_WORD = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")


class ScriptError(AssertionError):
    """A script and the requests made of it do not agree."""


class ScriptFormatError(ValueError):
    """A file is no script; says why, step by step."""


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid")


class ScriptedCall(_Part):
    """A tool call of a step; without `id` it gets one made of the request's and the call's number."""

    name: str
    arguments: JsonObject = Field(default_factory=dict)
    id: str | None = None


class ScriptedAnswer(_Part):
    """A step in the short form."""

    text: str | None = None
    thinking: str | None = None
    calls: list[ScriptedCall] = Field(default_factory=list)
    usage: Usage | None = None
    stop_reason: Literal["stop", "length", "toolUse", "deferred"] | None = None
    error: str | None = None
    raises: str | None = Field(default=None, alias="raise")
    cut: bool = False
    stall: bool = False
    after: int | None = None
    chunk: int | None = Field(default=None, ge=1)
    pace_ms: Number | None = None


class ScriptedEvents(_Part):
    """A step given event by event; `final` is laid over what the events gave."""

    events: list[JsonObject]
    final: JsonObject = Field(default_factory=dict)
    pace_ms: Number | None = None


def _step_tag(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "list"
    given = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "events" if "events" in given else "answer"


ScriptStep: TypeAlias = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[JsonObject], Tag("list")]
    | Annotated[ScriptedEvents, Tag("events")]
    | Annotated[ScriptedAnswer, Tag("answer")],
    Discriminator(_step_tag),
]


class Script(_Part):
    """Steps in order; `pace_ms` is the pause before each delta, in milliseconds."""

    steps: list[ScriptStep]
    pace_ms: Number = 0


_script: TypeAdapter[Script] = TypeAdapter(Script)


_STEP_KINDS: dict[str, type[_Part]] = {"answer": ScriptedAnswer, "events": ScriptedEvents}
_NOT_OF_TYPE = {
    "string_type": "string",
    "list_type": "list",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "int_type": "whole number",
    "bool_type": "true or false",
}
_SHOWN_PROBLEMS = 3


def problems(error: ValidationError) -> str:
    """Say what is wrong with a script, step by step, in the script's own words."""
    found = [_problem(one["loc"], one["type"], one["msg"]) for one in error.errors(include_url=False)]
    more = len(found) - _SHOWN_PROBLEMS
    return "; ".join(found[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _problem(place: Sequence[str | int], kind: str, message: str) -> str:
    step, fields = "", list(place)
    known: type[_Part] = Script
    if len(place) > 1 and place[0] == "steps" and isinstance(place[1], int):
        step, fields = f"step {place[1] + 1}: ", list(place[3:])
        known = _STEP_KINDS.get(str(place[2]) if len(place) > 2 else "", Script)
        if not fields and kind != "missing":
            return f"{step}it is neither a text nor an object nor a list of events"
    if fields[:1] == ["calls"] and len(fields) > 1:
        known = ScriptedCall
    name = "event" if fields and isinstance(fields[0], int) else ""
    for part in fields:
        name += f" {part + 1}" if isinstance(part, int) else f", {part}" if name else part
    if kind == "missing":
        return f"{step}{name} is missing"
    if kind == "extra_forbidden":
        names = ", ".join(field.alias or key for key, field in known.model_fields.items())
        return f"{step}{name} is not known; known are {names}"
    if kind in _NOT_OF_TYPE:
        return f"{step}{name} is no {_NOT_OF_TYPE[kind]}"
    return f"{step}{name}: {message[:1].lower()}{message[1:]}"


class ScriptedModel:
    """A stream function that replays a script; see the module's docstring for the format."""

    def __init__(
        self, script: Script | Sequence[JsonValue] | Mapping[str, JsonValue], *, clock: Clock = wall_clock_ms
    ) -> None:
        """Take a script.

        Args:
            clock: For the timestamps of answers, Unix milliseconds.

        Raises:
            pydantic.ValidationError: the script is not one.
        """
        if not isinstance(script, Script):
            data = script if isinstance(script, Mapping) else {"steps": list(script)}
            script = _script.validate_python(data)
        self._steps = script.steps
        self._pace_ms = script.pace_ms
        self._clock = clock
        self._missing = 0
        self._handles = 0
        self.requests: list[Request] = []
        self.cancelled: list[DeferredHandle] = []

    @classmethod
    def from_file(cls, path: Path, *, clock: Clock = wall_clock_ms) -> Self:
        """Read a script file (JSON, UTF-8).

        Raises:
            OSError: the file cannot be read.
            ScriptFormatError: it is not JSON, or not a script; it names the step.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ScriptFormatError(f"it is not JSON: {error}") from error
        if not isinstance(data, list | dict):
            raise ScriptFormatError("it is neither a list of steps nor an object with steps")
        try:
            return cls(data, clock=clock)
        except ValidationError as error:
            raise ScriptFormatError(problems(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.check()

    @property
    def steps_left(self) -> int:
        """How many steps no request has taken yet."""
        return max(0, len(self._steps) - len(self.requests))

    def check(self) -> None:
        """Raise ScriptError unless every step was asked for, and nothing else."""
        if self._missing:
            raise ScriptError(f"{self._missing} more requests than the script's {len(self._steps)} steps")
        if self.steps_left:
            raise ScriptError(f"{self.steps_left} of the script's {len(self._steps)} steps were not asked for")

    async def __call__(
        self, model: Model, request: Request, options: StreamOptions
    ) -> AsyncIterator[AssistantMessageEvent]:
        """Answer one request with the next step."""
        if options.deferred:
            for event in self._later(model):
                yield event
            return
        number = len(self.requests)
        self.requests.append(request)
        draft = AssistantDraft(model, timestamp=self._clock())
        if number >= len(self._steps):
            self._missing += 1
            yield draft.error(f"The script has no step for request {number + 1}")
            return
        step = self._steps[number]
        if isinstance(step, str):
            step = ScriptedAnswer(text=step)
        elif isinstance(step, list):
            step = ScriptedEvents(events=step)
        pace = _Pace(self._pace_ms if step.pace_ms is None else step.pace_ms, options)
        events = _answer(step, draft, number + 1) if isinstance(step, ScriptedAnswer) else _replay(step, draft)
        # The first checkpoint makes every answer cancellable, however short.
        await anyio.lowlevel.checkpoint()
        for event in events:
            if pace.is_slow or pace.is_aborted:
                await pace.rest()
                if pace.is_aborted:
                    yield draft.error("Request was aborted", aborted=True)
                    return
            yield event
        if isinstance(step, ScriptedAnswer):
            if step.raises is not None:
                raise RuntimeError(step.raises)
            if step.stall:
                await pace.stall()
                yield draft.error("Request was aborted", aborted=True)

    def _later(self, model: Model) -> Iterator[AssistantMessageEvent]:
        """Answer with a handle."""
        draft = AssistantDraft(model, timestamp=self._clock())
        self._handles += 1
        draft.set(
            deferred=DeferredHandle(
                provider=model.provider,
                model_id=model.id,
                api=model.api,
                id=f"later_{self._handles}",
                poll_after_ms=self._pace_ms,
            )
        )
        yield draft.start()
        yield draft.done("deferred")

    async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
        """Give the answer that the next step makes, None when the step says that it comes later."""
        model = Model(id=handle.model_id, name=handle.model_id, api=handle.api, provider=handle.provider)
        last: AssistantMessageEvent | None = None
        async for event in self(model, Request([]), StreamOptions()):
            last = event
        if isinstance(last, StreamError):
            return last.error
        if not isinstance(last, StreamDone):
            raise ScriptError("The step of a deferred answer must have an end")
        return None if last.reason == "deferred" else last.message

    async def cancel(self, handle: DeferredHandle, /) -> None:
        """Note that nobody waits for an answer any more."""
        self.cancelled.append(handle)


class _Pace:
    """The pauses of one answer, and whether it was aborted in one."""

    def __init__(self, pace_ms: Number, options: StreamOptions) -> None:
        self._pause_s = pace_ms / 1000
        self._signal = options.signal

    @property
    def is_slow(self) -> bool:
        return self._pause_s > 0

    @property
    def is_aborted(self) -> bool:
        return self._signal is not None and self._signal.aborted

    async def rest(self) -> None:
        if self._signal is None:
            await anyio.sleep(self._pause_s)
        else:
            with self._signal.cancels():
                await anyio.sleep(self._pause_s)

    async def stall(self) -> None:
        if self._signal is None:
            await anyio.sleep_forever()
        else:
            await self._signal.wait()


def _answer(step: ScriptedAnswer, draft: AssistantDraft, number: int) -> Iterator[AssistantMessageEvent]:
    """Give the events of a short form; those after trouble are left out."""
    yield draft.start()
    yield from _content(step, draft, number)
    if step.raises is not None or step.cut or step.stall:
        return
    if step.usage is not None:
        draft.set(usage=step.usage)
    if step.error is not None:
        yield draft.error(step.error)
    else:
        yield draft.done(step.stop_reason or ("toolUse" if step.calls else "stop"))


def _content(step: ScriptedAnswer, draft: AssistantDraft, number: int) -> Iterator[AssistantMessageEvent]:
    """Give the blocks' events, up to the delta that `after` names."""
    left = inf if step.after is None else step.after
    if step.thinking is not None:
        start = draft.thinking_start()
        yield start
        for chunk in _chunks(step.thinking, step.chunk):
            if left == 0:
                return
            left -= 1
            yield draft.thinking_delta(start.content_index, chunk)
        yield draft.thinking_end(start.content_index)
    if step.text is not None:
        opened = draft.text_start()
        yield opened
        for chunk in _chunks(step.text, step.chunk):
            if left == 0:
                return
            left -= 1
            yield draft.text_delta(opened.content_index, chunk)
        yield draft.text_end(opened.content_index)
    for position, call in enumerate(step.calls, 1):
        call_id = call.id or f"call_{number}_{position}"
        begun = draft.toolcall_start(call_id, call.name)
        yield begun
        if left == 0:
            return
        left -= 1
        yield draft.toolcall_delta(begun.content_index, json.dumps(call.arguments, ensure_ascii=False))
        block = ToolCall(id=call_id, name=call.name, arguments=call.arguments)
        yield draft.toolcall_end(begun.content_index, block)


def _chunks(text: str, size: int | None) -> Iterator[str]:
    if size is None:
        yield from _WORD.findall(text)
    else:
        yield from (text[at : at + size] for at in range(0, len(text), size))


def _replay(step: ScriptedEvents, draft: AssistantDraft) -> Iterator[AssistantMessageEvent]:
    """Give the events of a step by their wire names; `done` and `error` carry the final message."""
    for data in step.events:
        kind, index = data.get("type"), data.get("contentIndex", 0)
        index = index if isinstance(index, int) else 0
        delta, text = str(data.get("delta", "")), data.get("content")
        if kind == "start":
            yield draft.start()
        elif kind == "text_start":
            yield draft.text_start()
        elif kind == "text_delta":
            yield draft.text_delta(index, delta)
        elif kind == "text_end":
            yield draft.text_end(index, None if text is None else TextContent(text=str(text)))
        elif kind == "thinking_start":
            yield draft.thinking_start()
        elif kind == "thinking_delta":
            yield draft.thinking_delta(index, delta)
        elif kind == "thinking_end":
            yield draft.thinking_end(index, None if text is None else ThinkingContent(thinking=str(text)))
        elif kind == "toolcall_start":
            yield draft.toolcall_start(str(data.get("id", "")), str(data.get("name", "")))
        elif kind == "toolcall_delta":
            yield draft.toolcall_delta(index, delta)
        elif kind == "toolcall_end":
            yield draft.toolcall_end(index, ToolCall.model_validate(data.get("toolCall")))
        elif kind in ("done", "error"):
            yield _final(step, draft, data)
            return
        else:
            raise ScriptError(f"Unknown event {kind!r}")


def _final(step: ScriptedEvents, draft: AssistantDraft, data: JsonObject) -> StreamDone | StreamError:
    message = draft.message()
    wire = {**message.model_dump(mode="json"), **step.final}
    default = "error" if data["type"] == "error" else ("toolUse" if message.tool_calls else "stop")
    reason: StopReason = step.final.get("stopReason", data.get("reason", default))  # type: ignore[assignment]
    final = AssistantMessage.model_validate({**wire, "stopReason": reason})
    if data["type"] == "error":
        return StreamError.model_validate({"reason": reason, "error": final})
    return StreamDone.model_validate({"reason": reason, "message": final})
