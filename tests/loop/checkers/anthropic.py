"""Anthropic Messages: messages alternate from user to user, calls are answered at once, thinking is the model's own.

Source: Anthropic API reference (Messages), "Thinking" and "Tool use" pages, and the texts of its 400 answers.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.loop.checkers.shared import blank, refused_parameters, unknown_keys, unsendable

ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
THINKING = ("thinking", "redacted_thinking")
BODY_KEYS = "model max_tokens stream system tools tool_choice messages thinking output_config temperature metadata"
Block = dict[str, Any]


class _Reader:
    def __init__(self, body: Block, may_replay: Callable[[str], bool]) -> None:
        self.body = body
        self.may_replay = may_replay
        self.broken = unsendable(body)
        self.marks = 0

    def expect(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def keys(self, value: Block, allowed: str, where: str) -> None:
        self.broken += unknown_keys(value, allowed.split(), where)
        if "cache_control" in value:
            self.marks += 1
            kinds = ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"})
            self.expect(value["cache_control"] in kinds, f"{where}: unknown cache mark")

    def read(self) -> list[str]:
        body = self.body
        self.keys(body, BODY_KEYS, "body")
        self.expect(not blank(body.get("model")), "model is missing")
        self.expect(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens must be positive")
        for block in body.get("system", []):
            self.text(block, "system")
        self.tools()
        self.messages()
        self.thinking()
        self.expect(self.marks <= 4, "at most four cache marks")
        return self.broken

    def text(self, block: Block, where: str) -> None:
        self.keys(block, "type text cache_control", where)
        self.expect(not blank(block.get("text")), f"{where}: text content blocks must be non-empty")

    def tools(self) -> None:
        tools = self.body.get("tools")
        self.expect(tools is None or len(tools) > 0, "tools must not be empty")
        names = []
        for tool in tools or []:
            self.keys(tool, "name description input_schema cache_control", "tool")
            self.expect(bool(NAME.fullmatch(tool["name"])), "tool name does not match")
            self.broken += refused_parameters(tool["input_schema"])
            self.expect("description" not in tool or not blank(tool["description"]), "blank tool description")
            names.append(tool["name"])
        self.expect(len(names) == len(set(names)), "tool names must be unique")
        self.expect(self.body.get("tool_choice") in (None, {"type": "none"}), "unknown tool_choice")

    def messages(self) -> None:
        messages = self.body["messages"]
        self.expect(bool(messages), "at least one message is required")
        used: list[str] = []
        for place, message in enumerate(messages):
            self.keys(message, "role content", "message")
            self.expect(message["role"] == ("user", "assistant")[place % 2], "roles must alternate, user first")
            content = message["content"]
            self.expect(isinstance(content, list) and bool(content), "content must not be empty")
            if message["role"] == "assistant":
                used += self.assistant(content)
            else:
                before = messages[place - 1]["content"] if place else []
                self.user(content, [block["id"] for block in before if block["type"] == "tool_use"])
        self.expect(messages[-1]["role"] == "user", "the conversation must end with a user message")
        self.expect(len(used) == len(set(used)), "tool_use ids must be unique")
        if used:
            self.expect(bool(self.body.get("tools")), "requests with tool_use blocks must define tools")

    def assistant(self, content: list[Block]) -> list[str]:
        used = []
        for block in content:
            kind = block["type"]
            if kind == "text":
                self.text(block, "assistant")
            elif kind == "thinking":
                self.keys(block, "type thinking signature", kind)
                self.expect(isinstance(block["thinking"], str), "thinking must be text")
                self.signature(block["signature"])
            elif kind == "redacted_thinking":
                self.keys(block, "type data", kind)
                self.signature(block["data"])
            else:
                self.expect(kind == "tool_use", f"assistant: block type {kind}")
                self.keys(block, "type id name input", kind)
                self.expect(bool(ID.fullmatch(block["id"])), "tool_use id does not match")
                self.expect(bool(NAME.fullmatch(block["name"])), "tool_use name does not match")
                self.expect(isinstance(block["input"], dict), "tool_use input must be an object")
                used.append(block["id"])
        self.expect(content[-1]["type"] not in THINKING, "the final block cannot be thinking")
        return used

    def signature(self, signature: object) -> None:
        self.expect(not blank(signature), "empty signature in thinking block")
        self.expect(isinstance(signature, str) and self.may_replay(signature), "invalid signature in thinking block")

    def user(self, content: list[Block], calls: list[str]) -> None:
        answered = []
        others = 0
        for block in content:
            if block["type"] == "tool_result":
                self.expect(others == 0, "tool_result blocks must come first")
                answered.append(block["tool_use_id"])
                self.result(block)
            else:
                others += 1
                self.text_or_image(block, "user")
        self.expect(answered == calls, f"results {answered} for calls {calls}")

    def result(self, block: Block) -> None:
        self.keys(block, "type tool_use_id content is_error cache_control", "tool_result")
        content = block["content"]
        if isinstance(content, str):
            self.expect(not blank(content), "blank tool_result")
            return
        self.expect(bool(content), "empty tool_result")
        for inner in content:
            self.text_or_image(inner, "tool_result")
            self.expect(not block.get("is_error") or inner["type"] == "text", "an error result holds text alone")

    def text_or_image(self, block: Block, where: str) -> None:
        if block["type"] == "text":
            self.text(block, where)
            return
        self.expect(block["type"] == "image", f"{where}: block type {block['type']}")
        self.keys(block, "type source cache_control", where)
        source = block["source"]
        self.keys(source, "type media_type data", "source")
        self.expect(source["type"] == "base64" and source["media_type"] in MEDIA_TYPES, "unknown image type")
        self.expect(not blank(source["data"]), "image cannot be empty")

    def thinking(self) -> None:
        body = self.body
        asked = body.get("thinking", {"type": "absent"})
        kind = asked["type"]
        self.keys(asked, {"enabled": "type budget_tokens", "adaptive": "type display"}.get(kind, "type"), "thinking")
        self.expect(kind in ("absent", "disabled", "enabled", "adaptive"), "unknown thinking type")
        if kind in ("enabled", "adaptive"):
            self.expect("temperature" not in body, "temperature may only be 1 when thinking")
            self.expect("tool_choice" not in body or body["tool_choice"]["type"] == "none", "forced tool use")
        if kind == "enabled":
            self.expect(1024 <= asked["budget_tokens"] < body["max_tokens"], "budget must be 1024 and below max_tokens")
        self.turn(kind)

    def turn(self, kind: str) -> None:
        """Look at the answer in the middle of whose turn the request stands, if there is one."""
        messages = self.body["messages"]
        if not any(block["type"] == "tool_result" for block in messages[-1]["content"]):
            return
        final = [block["type"] for block in messages[-2]["content"]]
        if kind == "disabled":
            self.expect(not set(final) & set(THINKING), "without thinking the final answer cannot contain thinking")
        if kind != "enabled":
            return
        begins = []
        for place in range(len(messages) - 2, 0, -2):
            begins.append(messages[place]["content"][0]["type"])
            if any(block["type"] != "tool_result" for block in messages[place - 1]["content"]):
                break
        self.expect(any(first in THINKING for first in begins), "a final answer must start with a thinking block")


def check_anthropic(body: Block, may_replay: Callable[[str], bool]) -> list[str]:
    """Return the rules of the Messages protocol that a body breaks."""
    return _Reader(body, may_replay).read()
