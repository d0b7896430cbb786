"""OpenAI Responses: calls and outputs pair by call id, reasoning is followed by what it led to.

Nothing is stored but an answer that comes later.

Source: OpenAI API reference (Responses, "input" items), `openai` type definitions, and the texts of its 400 answers.
"""

import re
from collections.abc import Callable
from typing import Any

from tests.loop.checkers.shared import blank, is_object_text, refused_parameters, unknown_keys, unsendable

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{0,63}[a-zA-Z0-9-]")
ITEM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
BODY_KEYS = (
    "model stream store tools input max_output_tokens prompt_cache_key prompt_cache_retention reasoning include "
    "temperature background"
)
Item = dict[str, Any]


class _Reader:
    def __init__(self, body: Item, may_replay: Callable[[str], bool]) -> None:
        self.body = body
        self.may_replay = may_replay
        self.broken = unsendable(body)
        self.item_ids: list[str] = []
        self.call_ids: list[str] = []
        self.open: list[str] = []

    def expect(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def keys(self, value: Item, allowed: str, where: str) -> None:
        self.broken += unknown_keys(value, allowed.split(), where)

    def read(self) -> list[str]:
        body = self.body
        self.keys(body, BODY_KEYS, "body")
        later = body.get("background", False)
        self.expect(not blank(body["model"]), "model")
        self.expect(
            body["store"] is later and body["stream"] is not later, "stored if, and streamed unless, background"
        )
        self.expect(body.get("max_output_tokens", 16) >= 16, "max_output_tokens must be at least 16")
        self.expect(len(body.get("prompt_cache_key", "")) <= 64, "prompt_cache_key is too long")
        self.expect(not ("temperature" in body and "reasoning" in body), "temperature is not supported")
        names = [tool["name"] for tool in body.get("tools", [])]
        for tool in body.get("tools", []):
            self.keys(tool, "type name description parameters strict", "tool")
            self.expect(bool(NAME.fullmatch(tool["name"])), "tool name does not match")
            self.broken += refused_parameters(tool["parameters"])
            self.expect(isinstance(tool["strict"], bool), "strict is required")
        self.expect(len(names) == len(set(names)), "tool names must be unique")
        self.items(body["input"])
        return self.broken

    def items(self, items: list[Item]) -> None:
        self.expect(bool(items), "input must not be empty")
        for place, item in enumerate(items):
            kind = item.get("type", "message")
            if kind == "function_call_output":
                self.output(item)
                continue
            if self.open:
                # Other items of the same answer may stand between its calls and the outputs.
                same = item.get("role") != "user" and items[place - 1].get("type") != "function_call_output"
                self.expect(same, f"no tool output found for function calls {self.open}")
            if kind == "function_call":
                self.call(item)
            elif kind == "reasoning":
                self.reasoning(item, items[place + 1 :])
            else:
                self.message(item, place)
        self.expect(not self.open, f"no tool output found for function calls {self.open}")
        last = items[-1]
        self.expect(last.get("type") == "function_call_output" or last.get("role") == "user", "ends on an answer")
        first = next(item for item in items if item.get("role") not in ("system", "developer"))
        self.expect(first.get("role") == "user", "begins with an answer")
        self.expect(len(self.item_ids) == len(set(self.item_ids)), "duplicate item found with id")
        self.expect(len(self.call_ids) == len(set(self.call_ids)), "call ids must be unique")

    def item_id(self, item: Item, prefix: str) -> None:
        if "id" in item:
            self.item_ids.append(item["id"])
            fits = bool(ITEM_ID.fullmatch(item["id"])) and item["id"].startswith(prefix)
            self.expect(fits, f"item id must begin with {prefix} and have at most 64 characters")

    def call(self, item: Item) -> None:
        self.keys(item, "type call_id name arguments id namespace status", "function_call")
        self.item_id(item, "fc_")
        self.expect(bool(CALL_ID.fullmatch(item["call_id"])), "call_id does not match")
        self.expect(bool(NAME.fullmatch(item["name"])), "name does not match")
        self.expect(is_object_text(item["arguments"]), "arguments must be the text of an object")
        self.call_ids.append(item["call_id"])
        self.open.append(item["call_id"])

    def output(self, item: Item) -> None:
        self.keys(item, "type call_id output", "function_call_output")
        self.expect(self.open[:1] == [item["call_id"]], "no tool call found for this output, or not in call order")
        self.open = self.open[1:]
        output = item["output"]
        if isinstance(output, str):
            self.expect(not blank(output), "blank output")
        else:
            self.parts(output)

    def reasoning(self, item: Item, following: list[Item]) -> None:
        self.keys(item, "type id summary content encrypted_content status", "reasoning")
        self.item_id(item, "")
        self.expect("id" in item and isinstance(item["summary"], list), "reasoning needs id and summary")
        held = item.get("encrypted_content")
        self.expect(bool(held or item.get("content")), "item not found: items are not persisted")
        self.expect(held is None or self.may_replay(held), "the encrypted content could not be verified")
        follower = next((other for other in following if other.get("type") != "reasoning"), {})
        led_to = follower.get("type") == "function_call" or follower.get("role") == "assistant"
        self.expect(led_to, "reasoning was provided without its required following item")

    def message(self, item: Item, place: int) -> None:
        role, content = item["role"], item["content"]
        if role == "user":
            self.keys(item, "role content type", "user")
            self.parts(content)
        elif role == "assistant":
            self.keys(item, "type role content id status phase", "assistant")
            self.item_id(item, "msg_")
            if "id" in item:
                self.expect(item["status"] == "completed", "an output message needs a status")
                texts = [
                    part["text"] for part in content if part["type"] == "output_text" and part["annotations"] == []
                ]
                self.expect(len(texts) == len(content), "an output message holds output_text")
            else:
                texts = [content]
            self.expect(bool(texts) and not any(blank(text) for text in texts), "blank answer")
        else:
            self.keys(item, "role content", "prompt")
            self.expect(role in ("system", "developer") and place == 0 and not blank(content), "prompt comes first")

    def parts(self, parts: list[Item]) -> None:
        self.expect(isinstance(parts, list) and bool(parts), "content must not be empty")
        for part in parts:
            if part["type"] == "input_text":
                self.expect(not blank(part["text"]), "blank text")
            else:
                self.expect(part["type"] == "input_image" and part["detail"] == "auto", "unknown part")
                url = part["image_url"]
                fits = re.match(r"data:image/(png|jpeg|gif|webp);base64,\S", url)
                self.expect(fits is not None, "unknown image")


def check_responses(body: Item, may_replay: Callable[[str], bool]) -> list[str]:
    """Return the rules of the Responses protocol that a body breaks."""
    return _Reader(body, may_replay).read()
