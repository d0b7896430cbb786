"""What a model was told: read from the requests of Claude Code and Codex, and said of our messages in the same words.

Each thing told is a tuple: `("user", text)`, `("assistant", text)`, `("picture", base64)`, `("document",)`,
`("call", id, name, arguments)`, `("result", id, failed)` followed by what is in it, and `("thinking", text)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pi_sessions.context import to_llm
from pi_sessions.formats.edited import LEFT_OUT

Json = Any
Told = tuple[Any, ...]

# What the tools put before the model, or stands for a message that was left out or empty.
REMINDER = "<system-reminder>"
INJECTED = (
    "<environment_context>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<model_switch>",
    "# AGENTS.md instructions",
)
FILLERS = ("No response requested.", "(no content)", LEFT_OUT)
NO_RESULT = "aborted"
_CUT = re.compile(r"(.*)…(\d+) chars truncated…(.*)", re.DOTALL)


def told_by_claude_code(body: Json) -> list[Told]:
    """Read an Anthropic Messages request; without reminders and what fills gaps between two questions."""
    found: list[Told] = []
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        for block in _blocks(message["content"]):
            found += _anthropic_block(message["role"], block)
    return _cleaned(found)


def _anthropic_block(role: str, block: Json) -> Iterator[Told]:
    kind = block["type"]
    if kind == "text":
        if not block["text"].startswith(REMINDER) and block["text"].strip() not in FILLERS:
            yield role, block["text"]
    elif kind == "image":
        yield "picture", block["source"]["data"]
    elif kind == "tool_use":
        yield "call", block["id"], block["name"], block["input"]
    elif kind == "tool_result":
        yield "result", block["tool_use_id"], bool(block.get("is_error"))
        for inner in _blocks(block.get("content", [])):
            yield from _anthropic_block("user", inner)
    elif kind == "thinking":
        yield "thinking", block["thinking"]
    else:
        yield (kind,)


def told_by_codex(body: Json) -> list[Told]:
    """Read an OpenAI Responses request; without what Codex itself says to the model."""
    found: list[Told] = []
    for item in body["input"]:
        kind = item["type"]
        if kind == "message" and item["role"] in ("user", "assistant"):
            found += (told for part in item["content"] for told in _part(item["role"], part))
        elif kind in ("function_call", "custom_tool_call"):
            arguments = json.loads(item["arguments"]) if "arguments" in item else {"input": item["input"]}
            found.append(("call", item["call_id"], item["name"], arguments))
        elif kind.endswith("_output"):
            found.append(("result", item["call_id"], False))
            output = item["output"]
            parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
            found += (told for part in parts for told in _part("user", part))
        elif kind == "reasoning":
            found.append(("thinking", "\n\n".join(part["text"] for part in item["summary"])))
    return _cleaned(found)


def _part(role: str, part: Json) -> Iterator[Told]:
    if part["type"] == "input_image":
        yield "picture", part["image_url"].partition(";base64,")[2]
    elif not part["text"].startswith(INJECTED) and part["text"] not in FILLERS:
        yield role, part["text"]


def told_by_us(messages: Iterable[Json], tool: str, model: str = "") -> list[Told]:
    """Say what a tool should tell a model when it goes on with our messages.

    Args:
        messages: A context's, summaries of compactions as they should be told.
        tool: `claude-code` or `codex`.
        model: The model that is asked; Claude Code gives it its own thinking back, and no other model's.
    """
    sent = [shown for message in messages for shown in to_llm(message)]
    answered = {message["toolCallId"] for message in sent if message["role"] == "toolResult"}
    found: list[Told] = []
    for message in sent:
        if message["role"] == "assistant":
            found += _answer(message, tool, model, answered)
            continue
        if message["role"] == "system":
            continue
        if message["role"] == "toolResult":
            # Codex's results say in words alone that a tool failed.
            found.append(("result", message["toolCallId"], tool == "claude-code" and bool(message.get("isError"))))
        for block in _blocks(message["content"]):
            if block["type"] == "text":
                found.append(("user", block["text"]))
            elif block["type"] == "image":
                found.append(("picture", block["data"]))
            elif block["type"] == "document" and tool == "claude-code":
                found.append(("document",))
    if tool == "codex":
        found = [told for told in found if not (told[0] == "user" and told[1].startswith(INJECTED))]
    return _cleaned(found)


def with_cuts_of(theirs: list[Told], ours: list[Told]) -> list[Told]:
    """Cut our long results where Codex cut them; what it says it left out must be what is missing."""
    return [_cut_as(their, our) for our, their in zip(ours, theirs, strict=False)] + ours[len(theirs) :]


def _cut_as(theirs: Told, ours: Told) -> Told:
    if theirs[0] != "user" or ours[0] != "user":
        return ours
    cut = _CUT.fullmatch(theirs[1])
    if cut is None or not (ours[1].startswith(cut[1]) and ours[1].endswith(cut[3])):
        return ours
    return theirs if len(cut[1]) + int(cut[2]) + len(cut[3]) == len(ours[1]) else ours


def _answer(message: Json, tool: str, model: str, answered: set[str]) -> Iterator[Told]:
    if tool == "claude-code" and message.get("errorMessage") and not message["content"]:
        yield "assistant", message["errorMessage"]
    for block in message["content"]:
        if block["type"] == "text":
            yield "assistant", block["text"]
        elif block["type"] == "thinking" and _is_told(block, message, tool, model):
            yield "thinking", block["thinking"]
        elif block["type"] == "toolCall" and (tool == "codex" or block["id"] in answered):
            # Claude Code leaves out calls without a result, and calls its former tool Task by its new name.
            name = "Agent" if tool == "claude-code" and block["name"] == "Task" else block["name"]
            yield "call", block["id"], name, block["arguments"]
            if block["id"] not in answered:
                yield "result", block["id"], False
                yield "user", NO_RESULT


def _is_told(thinking: Json, message: Json, tool: str, model: str) -> bool:
    signature = thinking.get("thinkingSignature") or ""
    if tool == "codex":
        return '"type":"reasoning"' in signature
    return bool(signature) and message["model"] == model and message.get("provider") == "anthropic"


def _blocks(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _cleaned(found: list[Told]) -> list[Told]:
    """Leave out blank texts, and line ends at the end of a text: Claude Code joins questions with one."""
    trimmed = [(told[0], told[1].rstrip("\n")) if told[0] in ("user", "assistant") else told for told in found]
    return [told for told in trimmed if told[0] not in ("user", "assistant") or told[1].strip()]
