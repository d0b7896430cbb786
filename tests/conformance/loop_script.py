"""The scripted parts of a scenario: the record with its matchers, and the model that replays responses.

Source: the README of the loop scenarios, sections 1, 4 and 9.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import anyio.lowlevel

from pi_loop.events import (
    AssistantMessageEvent,
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
from pi_loop.partial import PartialLog
from pi_loop.types import Model, StreamOptions
from pi_sessions.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, parse_message
from tests.conformance.loop_normal import plain, same_json

ZERO_USAGE = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}


class ScriptError(AssertionError):
    """The implementation asked for something the scenario does not have."""


def matches(matcher: dict, entry: dict) -> bool:
    """Whether an entry has every key of the matcher, `nth` aside."""
    return all(key in entry and same_json(value, entry[key]) for key, value in matcher.items() if key != "nth")


class Record:
    """The trace: entries in order, those who wait for one, and the actions bound to one."""

    def __init__(self, rules: list[dict], act: Callable[[list[dict]], Awaitable[None]]) -> None:
        self.entries: list[dict] = []
        self._rules = rules
        self._fired: set[int] = set()
        self._act = act
        self._waiting: list[tuple[dict, anyio.Event]] = []

    async def add(self, entry: dict) -> None:
        """Record an entry, wake who waits for it, then run the actions bound to it."""
        entry = plain(entry)
        self.entries.append(entry)
        for matcher, event in self._waiting:
            if matches(matcher, entry) and self._count(matcher) >= matcher.get("nth", 1):
                event.set()
        for index, rule in enumerate(self._rules):
            when = rule["when"]
            if index not in self._fired and matches(when, entry) and self._count(when) == when.get("nth", 1):
                self._fired.add(index)
                await self._act(rule["do"])

    async def wait_for(self, matcher: dict) -> None:
        """Wait until that many matching entries are there."""
        if self._count(matcher) >= matcher.get("nth", 1):
            return
        waiter = (matcher, anyio.Event())
        self._waiting.append(waiter)
        await waiter[1].wait()

    def _count(self, matcher: dict) -> int:
        return sum(matches(matcher, entry) for entry in self.entries)


class ScriptedResponse:
    """One response being replayed; its result is the final message, whatever the steps say."""

    def __init__(self, response: dict, model: Model, options: StreamOptions, record: Record) -> None:
        defaults = {
            "role": "assistant",
            "content": [],
            "api": "scripted",
            "provider": "scripted-provider",
            "model": model.id,
            "usage": ZERO_USAGE,
            "stopReason": "pending",
            "timestamp": 0,
        }
        self._final = parse_message(plain({**defaults, **response.get("final", {})}))
        self._partial = PartialLog(AssistantMessage.model_validate(plain(defaults)))
        self._options = options
        self._record = record
        self._events = self._play(response.get("events", []))

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self._events

    async def __anext__(self) -> AssistantMessageEvent:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._events.aclose()

    async def result(self) -> AssistantMessage:
        return self._final

    async def _play(self, steps: list[dict]) -> AsyncIterator[AssistantMessageEvent]:
        for step in steps:
            await anyio.lowlevel.checkpoint()
            kind = step["type"]
            if kind == "end":
                return
            if kind == "throw":
                raise RuntimeError(step["message"])
            if kind == "wait_abort":
                await self._options.signal.wait()
            elif kind == "wait_for":
                await self._record.wait_for(step["when"])
            else:
                yield self._event(kind, step)

    def _event(self, kind: str, step: dict) -> AssistantMessageEvent:
        log, index = self._partial, step.get("contentIndex", 0)
        if kind == "start":
            return StreamStart(view=log.view())
        if kind == "done":
            return StreamDone.model_construct(type="done", reason=self._final.stop_reason, message=self._final)
        if kind == "error":
            return StreamError.model_construct(type="error", reason=self._final.stop_reason, error=self._final)
        if kind == "text_start":
            return TextStart(content_index=index, view=log.put_block(index, TextContent(text="")))
        if kind == "text_delta":
            return TextDelta(content_index=index, delta=step["delta"], view=log.append_text(index, step["delta"]))
        if kind == "text_end":
            view = log.put_block(index, TextContent(text=step["content"]))
            return TextEnd(content_index=index, content=step["content"], view=view)
        if kind == "thinking_start":
            return ThinkingStart(content_index=index, view=log.put_block(index, ThinkingContent(thinking="")))
        if kind == "thinking_delta":
            return ThinkingDelta(content_index=index, delta=step["delta"], view=log.append_text(index, step["delta"]))
        if kind == "thinking_end":
            view = log.put_block(index, ThinkingContent(thinking=step["content"]))
            return ThinkingEnd(content_index=index, content=step["content"], view=view)
        if kind == "toolcall_start":
            block = ToolCall(id=step["id"], name=step["name"], arguments={})
            return ToolCallStart(content_index=index, view=log.put_block(index, block))
        if kind == "toolcall_delta":
            return ToolCallDelta(content_index=index, delta=step["delta"], view=log.view())
        if kind == "toolcall_end":
            block = ToolCall.model_validate(plain(step["toolCall"]))
            return ToolCallEnd(content_index=index, tool_call=block, view=log.put_block(index, block))
        raise ScriptError(f"Unknown step {kind}")
