"""Normal forms of messages, results and events, and the comparison of traces.

Source: the README of the loop scenarios, sections 9 to 11.
"""

import json
import re

from pi_loop.events import (
    AgentEnd,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
    TurnEnd,
    event_to_wire,
)
from pi_sessions.messages import AssistantMessage, Message, ToolResultMessage, WireModel, to_wire

_DROPPED = ("timestamp", "durationMs", "diagnostics")
_RESULT_FIELDS = ("content", "details", "structuredContent", "usage", "isError", "terminate")
_VALIDATOR_LINE = re.compile(r"^(  - [^\n]*?): [^\n]*$", re.MULTILINE)


def plain(value):
    """A deep copy of a JSON value."""
    return json.loads(json.dumps(value))


class Normal:
    """Normal forms under a scenario's `record` settings."""

    def __init__(self, record: dict) -> None:
        self._declarations = record.get("declarations", False)
        self._usage = record.get("usage", False)

    def message(self, message: Message) -> dict:
        data = to_wire(message) if isinstance(message, WireModel) else dict(message)
        data = {key: value for key, value in data.items() if key not in _DROPPED}
        if data["role"] == "assistant":
            hidden = ("api", "provider") if self._usage else ("api", "provider", "usage")
            data = {key: value for key, value in data.items() if key not in hidden}
        if data["role"] == "system":
            if "toolsAdded" in data and not self._declarations:
                data["toolsAdded"] = [tool["name"] for tool in data["toolsAdded"]]
            if "toolsRemoved" in data:
                data["toolsRemoved"] = [tool["name"] for tool in data["toolsRemoved"]]
        return data

    def result(self, result: ToolResult) -> dict:
        data = to_wire(result)
        return {key: data[key] for key in _RESULT_FIELDS if key in data}

    def event(self, event: LoopEvent) -> dict:
        if isinstance(event, MessageStart | MessageEnd):
            return {"type": event.type, "role": event.message.role, "message": self.message(event.message)}
        if isinstance(event, MessageUpdate):
            wire = event_to_wire(event.assistant_message_event)
            entry = {"type": event.type, "event": wire["type"], "contentIndex": wire["contentIndex"]}
            if "delta" in wire:
                entry["delta"] = wire["delta"]
            partial = to_wire(event.message)
            return {**entry, "partial": {"stopReason": partial["stopReason"], "content": partial["content"]}}
        if isinstance(event, TurnEnd):
            return {
                "type": event.type,
                "role": event.message.role,
                "stopReason": event.message.stop_reason,
                "toolResults": [result.tool_call_id for result in event.tool_results],
            }
        if isinstance(event, AgentEnd):
            return {"type": event.type, "messages": shapes(event.messages)}
        if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd):
            return self._tool_event(event)
        return {"type": event.type}

    def _tool_event(self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> dict:
        entry = {"type": event.type, "id": event.tool_call_id, "name": event.tool_name}
        if isinstance(event, ToolExecutionEnd):
            return {**entry, "isError": event.is_error, "result": self.result(event.result)}
        entry["args"] = plain(event.args)
        if isinstance(event, ToolExecutionUpdate):
            entry["partialResult"] = self.result(event.partial_result)
        return entry


def shape(message: Message) -> str:
    """A message in one word."""
    if isinstance(message, AssistantMessage):
        return f"assistant/{message.stop_reason}"
    if isinstance(message, ToolResultMessage):
        return f"toolResult/{message.tool_call_id}"
    return message.role


def shapes(messages: list[Message]) -> list[str]:
    """Messages in one word each."""
    return [shape(message) for message in messages]


def content_of(message: Message):
    """A message's content as a JSON value."""
    return to_wire(message)["content"]


def same_json(left, right) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, true is not 1, absent is not null."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same_json(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and left == right


def relax(value):
    """The value with the validator's own wording taken out of its lines; paths and all other text stay."""
    if isinstance(value, dict):
        return {key: relax(member) for key, member in value.items()}
    if isinstance(value, list):
        return [relax(item) for item in value]
    if (
        isinstance(value, str)
        and value.startswith("Validation failed for tool ")
        and "\n\nReceived arguments:" in value
    ):
        head, marker, tail = value.partition("\n\nReceived arguments:")
        return _VALIDATOR_LINE.sub(r"\1", head) + marker + tail
    return value


def difference(expected, actual, path: str = "") -> str | None:
    """The first place where two JSON values differ, in words; None if they are equal."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            if key not in expected or key not in actual:
                return f"{path}.{key}: {'unexpected' if key in actual else 'missing'}"
            found = difference(expected[key], actual[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(expected, list) and isinstance(actual, list):
        for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
            found = difference(left, right, f"{path}[{index}]")
            if found:
                return found
        if len(expected) != len(actual):
            rest = (expected if len(expected) > len(actual) else actual)[min(len(expected), len(actual))]
            word = "missing" if len(expected) > len(actual) else "unexpected"
            return f"{path}: {word} {json.dumps(rest)[:300]}"
        return None
    if same_json(expected, actual):
        return None
    return f"{path}: expected {json.dumps(expected)[:300]}, got {json.dumps(actual, default=str)[:300]}"
