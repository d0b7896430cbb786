"""What the parts of opencode's messages mean: contents, tool calls and results, usage, stop reasons. Pure.

Source: opencode 1.18, messages and parts.
"""

from __future__ import annotations

import json

from pi_sessions.formats.foreign_values import (
    arguments_of,
    call_block,
    count_of,
    image_of,
    money_of,
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

PRUNED = "[Old tool result content cleared]"
_APIS = {
    "anthropic": "anthropic-messages",
    "google-vertex-anthropic": "anthropic-messages",
    "openai": "openai-responses",
    "google": "google-generative-ai",
}
_STOPS = {
    "stop": "stop",
    "end_turn": "stop",
    "tool-calls": "toolUse",
    "tool_use": "toolUse",
    "length": "length",
    "max_tokens": "length",
    "content-filter": "error",
    "error": "error",
}
_ERRORS = {"MessageAbortedError": "aborted", "MessageOutputLengthError": "length"}


def api_of(provider: str) -> str:
    """Return the protocol a provider speaks, as far as its name tells."""
    return _APIS.get(provider, "openai-completions")


def user_block(part: JsonObject) -> JsonObject | None:
    """Return a part of a user's message as a block; None when it is none."""
    kind = part.get("type")
    if kind == "text" and not part.get("synthetic") and not part.get("ignored"):
        return text_block(text_of(part.get("text")))
    if kind == "file":
        return file_block(part)
    return None


def file_block(part: JsonObject) -> JsonObject:
    """Return a file as an image block, or as it is when it is no image at hand."""
    mime = text_of(part.get("mime"))
    image = image_of(part.get("url")) if mime.startswith("image/") else None
    kept: JsonObject = {name: part[name] for name in ("mime", "url", "filename", "source") if name in part}
    return image or {"type": "file", **kept}


def thinking_block(part: JsonObject) -> JsonObject:
    """Return a reasoning part; what a provider signed is kept for that provider only."""
    block: JsonObject = {"type": "thinking", "thinking": text_of(part.get("text"))}
    metadata = object_of(part.get("metadata"))
    signature = object_of(metadata.get("anthropic")).get("signature")
    if isinstance(signature, str) and signature:
        block["thinkingSignature"] = signature
    elif metadata:
        block["thinkingSignature"] = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    redacted = object_of(metadata.get("anthropic")).get("redactedData")
    if isinstance(redacted, str) and redacted:
        block |= {"thinkingSignature": redacted, "redacted": True}
    return block


def tool_call(part: JsonObject) -> JsonObject:
    """Return a tool part's call."""
    state = object_of(part.get("state"))
    given = state.get("input")
    if not given and isinstance(state.get("raw"), str):
        given = state["raw"]
    block = call_block(part.get("callID") or part.get("id"), part.get("tool"), None)
    return block | arguments_of(given)


def tool_result(part: JsonObject) -> JsonObject | None:
    """Return a tool part's result as a message; None while there is none."""
    state = object_of(part.get("state"))
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    call = part.get("callID") or part.get("id")
    rest = {name: state[name] for name in ("title", "metadata") if state.get(name)}
    if status == "error":
        return result_message(call, part.get("tool"), text_of(state.get("error")), failed=True, details=rest or None)
    output = state.get("output")
    text = output if isinstance(output, str) else "" if output is None else json.dumps(output, ensure_ascii=False)
    blocks = [text_block(text)] if text else []
    blocks += [file_block(each) for each in objects_of(state.get("attachments"))]
    return result_message(call, part.get("tool"), blocks, failed=False, details=rest or None)


def usage(tokens: object, cost: object) -> JsonObject:
    """Return the usage of one answer; opencode counts reasoning beside the output, we count it in it."""
    given = object_of(tokens)
    cache = object_of(given.get("cache"))
    reasoning = count_of(given.get("reasoning"))
    return usage_of(
        given.get("input"),
        count_of(given.get("output")) + reasoning,
        cache_read=cache.get("read"),
        cache_write=cache.get("write"),
        reasoning=reasoning,
        cost=money_of(cost),
    )


def stop_reason(finish: object, blocks: list[JsonObject]) -> str:
    """Return our stop reason; a missing one is told by whether the answer calls tools."""
    if isinstance(finish, str) and finish in _STOPS:
        return _STOPS[finish]
    return "toolUse" if any(block["type"] == "toolCall" for block in blocks) else "stop"


def failure(error: object) -> JsonObject:
    """Return `stopReason` and `errorMessage` of an answer that failed; {} when it did not."""
    if not isinstance(error, dict) or not error:
        return {}
    name = text_of(error.get("name")) or text_of(error.get("type"))
    told = object_of(error.get("data")).get("message") or error.get("message") or name or "unknown error"
    return {"stopReason": _ERRORS.get(name, "error"), "errorMessage": text_of(told) or json.dumps(told)}
