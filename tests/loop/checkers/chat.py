"""OpenAI Chat Completions, as strict as its strictest servers: roles alternate, calls are answered at once in order.

Source: OpenAI API reference (Chat Completions, "messages"), and chat templates that insist on alternating roles.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.loop.checkers.shared import blank, is_object_text, refused_parameters, unknown_keys, unsendable

CALL_ID = re.compile(r"[!-~]{1,40}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
BODY_KEYS = (
    "model stream stream_options store tools messages max_tokens max_completion_tokens prompt_cache_key "
    "prompt_cache_retention temperature reasoning_effort reasoning thinking provider"
)
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
Message = dict[str, Any]


class _Reader:
    def __init__(self, body: Message, may_replay: Callable[[str], bool]) -> None:
        self.body = body
        self.may_replay = may_replay
        self.broken = unsendable(body)

    def expect(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def keys(self, value: Message, allowed: str, where: str) -> None:
        self.broken += unknown_keys(value, allowed.split(), where)

    def read(self) -> list[str]:
        body = self.body
        self.keys(body, BODY_KEYS, "body")
        self.expect(not blank(body["model"]), "model is missing")
        self.expect(not {"max_tokens", "max_completion_tokens"} <= body.keys(), "two output limits")
        functions = [tool["function"] for tool in body.get("tools", [])]
        for function in functions:
            self.keys(function, "name description parameters", "function")
            self.expect(bool(NAME.fullmatch(function["name"])), "function name does not match")
            self.broken += refused_parameters(function["parameters"])
        names = [function["name"] for function in functions]
        self.expect(len(names) == len(set(names)), "function names must be unique")
        self.expect("tools" not in body or bool(functions), "tools must not be empty")
        self.messages(body["messages"])
        return self.broken

    def messages(self, messages: list[Message]) -> None:
        if messages[0]["role"] in ("system", "developer"):
            self.keys(messages[0], "role content", "prompt")
            self.expect(self.says(messages[0]["content"]), "blank prompt")
            messages = messages[1:]
        self.expect(bool(messages) and messages[0]["role"] == "user", "the first message must be the user's")
        waiting: list[str] = []
        used: list[str] = []
        before = "tool"
        for message in messages:
            role = message["role"]
            if role == "tool":
                self.keys(message, "role content tool_call_id", "tool")
                self.expect(waiting[:1] == [message["tool_call_id"]], "tool message without its call, or out of order")
                self.expect(not blank(message["content"]), "blank result")
                waiting = waiting[1:]
            else:
                self.expect(not waiting, f"calls {waiting} did not have response messages")
                self.expect(role != before, "roles must alternate")
                if role == "assistant":
                    waiting = self.assistant(message)
                    used += waiting
                else:
                    self.keys(message, "role content", "user")
                    self.expect(role == "user" and self.says(message["content"]), "a user message must say something")
            before = role
        self.expect(not waiting, f"calls {waiting} did not have response messages")
        self.expect(before in ("user", "tool"), "the last message must be the user's or a tool's")
        self.expect(len(used) == len(set(used)), "call ids must be unique")

    def assistant(self, message: Message) -> list[str]:
        self.keys(message, f"role content tool_calls reasoning_details {' '.join(REASONING)}", "assistant")
        calls = message.get("tool_calls")
        self.expect(calls is None or bool(calls), "tool_calls must not be empty")
        content = message["content"]
        self.expect(not blank(content) or (content is None and bool(calls)), "content or tool_calls is required")
        for field in REASONING:
            if field in message:
                self.expect(self.may_replay(message[field]), f"{field} of another model")
        for call in calls or []:
            self.keys(call, "id type function", "call")
            self.expect(call["type"] == "function" and bool(CALL_ID.fullmatch(call["id"])), "call id does not match")
            self.expect(bool(NAME.fullmatch(call["function"]["name"])), "function name does not match")
            self.expect(is_object_text(call["function"]["arguments"]), "arguments must be the text of an object")
        return [call["id"] for call in calls or []]

    def says(self, content: object) -> bool:
        """Whether a content is text or parts, none of them empty."""
        if not isinstance(content, list):
            return not blank(content)
        for part in content:
            if part["type"] == "text":
                self.keys(part, "type text", "part")
                self.expect(not blank(part["text"]), "blank part")
            else:
                self.keys(part, "type image_url", "part")
                url = part["image_url"]["url"]
                fits = re.match(r"data:image/(png|jpeg|gif|webp);base64,\S", url)
                self.expect(part["type"] == "image_url" and fits is not None, "unknown image")
        return bool(content)


def check_chat(body: Message, may_replay: Callable[[str], bool]) -> list[str]:
    """Return the rules of the Chat protocol that a body breaks."""
    return _Reader(body, may_replay).read()
