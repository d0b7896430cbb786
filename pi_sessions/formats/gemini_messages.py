"""What Gemini CLI's messages mean: parts, thoughts, tool calls and results, tokens. Pure.

Source: Gemini CLI 0.3x, chat recordings; Gemini API parts.
"""

from __future__ import annotations

import json

from pi_sessions.formats.foreign_values import (
    arguments_of,
    count_of,
    object_of,
    objects_of,
    result_message,
    text_block,
    text_of,
    usage_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

_DONE = ("success", "error", "cancelled")
# What the program puts before the first prompt.
_MACHINE = (
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
)


def parts_in(content: object) -> list[JsonObject]:
    """Return a content's parts; text counts as one."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    if isinstance(content, dict):
        return [content]
    if isinstance(content, list):
        return [{"text": part} if isinstance(part, str) else part for part in content if isinstance(part, str | dict)]
    return []


def block_of(part: JsonObject) -> JsonObject:
    """Return a part as a block; kinds without a place stay as they are."""
    if isinstance(part.get("text"), str):
        if part.get("thought"):
            return {"type": "thinking", "thinking": part["text"]}
        block = text_block(part["text"])
        return block | ({"textSignature": part["thoughtSignature"]} if part.get("thoughtSignature") else {})
    data = object_of(part.get("inlineData"))
    mime = text_of(data.get("mimeType"))
    if isinstance(data.get("data"), str) and mime.startswith("image/"):
        return {"type": "image", "data": data["data"], "mimeType": mime}
    return {"type": next(iter(part), "part"), **part}


def is_machine_made(content: object) -> bool:
    """Whether a user's message was written by the program."""
    text = next((text_of(part.get("text")) for part in parts_in(content) if "text" in part), "")
    return text.lstrip().startswith(_MACHINE)


def user_blocks(content: object) -> list[JsonObject]:
    """Return a user's content; results of tools are not his."""
    return [block_of(part) for part in parts_in(content) if "functionResponse" not in part]


def answers_in(content: object) -> list[JsonObject]:
    """Return the results of tools that stand in a user's content."""
    return [part["functionResponse"] for part in parts_in(content) if isinstance(part.get("functionResponse"), dict)]


def assistant_message(record: JsonObject, model: str) -> JsonObject:
    """Return an answer.

    Args:
        record: The message as recorded.
        model: Of the answer before, for an answer that names none.
    """
    blocks: list[JsonObject] = []
    for thought in objects_of(record.get("thoughts")):
        subject, description = text_of(thought.get("subject")), text_of(thought.get("description"))
        blocks.append(
            {"type": "thinking", "thinking": f"**{subject}**\n{description}".strip() if subject else description}
        )
    calls = objects_of(record.get("toolCalls"))
    called = {text_of(call.get("id")) for call in calls}
    for part in parts_in(record.get("content")):
        call = part.get("functionCall")
        if not isinstance(call, dict):
            blocks.append(block_of(part))
        elif text_of(call.get("id")) not in called:
            calls.append(call)
    blocks += [call_block(call) for call in calls]
    message: JsonObject = {
        "role": "assistant",
        "content": blocks,
        "api": "google-generative-ai",
        "provider": "google",
        "model": text_of(record.get("model")) or model,
        "usage": usage(record.get("tokens")),
        "stopReason": "toolUse" if calls else "stop",
    }
    return message


def call_block(call: JsonObject) -> JsonObject:
    """Return a tool call as a block."""
    block: JsonObject = {"type": "toolCall", "id": text_of(call.get("id")), "name": text_of(call.get("name"))}
    signature = call.get("thoughtSignature")
    return block | arguments_of(call.get("args")) | ({"thoughtSignature": signature} if signature else {})


def result_of(call: JsonObject) -> JsonObject | None:
    """Return the result a recorded tool call has; None while it has none."""
    status = call.get("status")
    given = call.get("result")
    if status not in _DONE and given is None:
        return None
    blocks: list[JsonObject] = []
    failed = status in ("error", "cancelled")
    for part in parts_in(given):
        response = part.get("functionResponse")
        if isinstance(response, dict):
            found, error = response_blocks(response)
            blocks += found
            failed = failed or error
        else:
            blocks.append(block_of(part))
    details = {name: call[name] for name in ("resultDisplay", "agentId") if call.get(name)}
    if status == "cancelled":
        details["cancelled"] = True
    return result_message(call.get("id"), call.get("name"), blocks, failed=failed, details=details or None)


def response_blocks(response: JsonObject) -> tuple[list[JsonObject], bool]:
    """Return the blocks of a function's response, and whether it failed."""
    told = response.get("response")
    failed = isinstance(told, dict) and "error" in told and "output" not in told
    if isinstance(told, dict):
        told = told.get("output", told.get("error") if failed else told)
    text = told if isinstance(told, str) else "" if told is None else json.dumps(told, ensure_ascii=False)
    blocks = [text_block(text)] if text else []
    return blocks + [block_of(part) for part in objects_of(response.get("parts"))], failed


def usage(tokens: object) -> JsonObject:
    """Return an answer's usage; Gemini counts cached tokens in the input, and thoughts beside the output."""
    given = object_of(tokens)
    cached, thoughts = count_of(given.get("cached")), count_of(given.get("thoughts"))
    return usage_of(
        max(count_of(given.get("input")) - cached, 0) + count_of(given.get("tool")),
        count_of(given.get("output")) + thoughts,
        cache_read=cached,
        reasoning=thoughts,
    )
