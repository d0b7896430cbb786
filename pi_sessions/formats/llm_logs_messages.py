"""What llm's rows mean: parts, attachments, fragments, tokens. Pure.

Source: llm 0.36, parts and responses.
"""

from __future__ import annotations

import base64
import json

from pi_sessions.formats.foreign_values import (
    call_block,
    count_of,
    json_of,
    object_of,
    objects_of,
    text_block,
    text_of,
    usage_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pi_sessions.stored import JsonObject

_PROVIDERS = (
    (("gpt-", "chatgpt", "o1", "o3", "o4", "openai/"), "openai", "openai-completions"),
    (("claude", "anthropic/"), "anthropic", "anthropic-messages"),
    (("gemini", "google/"), "google", "google-generative-ai"),
)
_TYPES = ("text", "reasoning", "tool_call", "tool_result", "attachment")


def provider_of(model: str) -> tuple[str, str]:
    """Return provider and protocol of a model; llm itself names neither."""
    for starts, provider, api in _PROVIDERS:
        if model.startswith(starts):
            return provider, api
    return "llm", "openai-completions"


def attachment_block(row: JsonObject | None, given: str) -> JsonObject:
    """Return an attachment as an image block, or as a reference when it is no image at hand."""
    if row is None:
        return {"type": "attachment", "id": given}
    mime, content = text_of(row.get("type")), row.get("content")
    if isinstance(content, bytes) and content:
        data = base64.b64encode(content).decode()
        if mime.startswith("image/"):
            return {"type": "image", "data": data, "mimeType": mime}
        return {"type": "attachment", "id": given, "mimeType": mime, "data": data}
    told = {name: row[name] for name in ("path", "url") if row.get(name)}
    return {"type": "attachment", "id": given, "mimeType": mime, **told}


def part_text(row: JsonObject, payload: JsonObject, fragment: Callable[[object], str]) -> str:
    """Return a part's text, pieces that are kept as fragments put in."""
    if isinstance(row.get("text"), str):
        return str(row["text"])
    if "text_ref" in payload:
        pieces = objects_of(payload["text_ref"])
        return "".join(
            text_of(piece["literal"]) if "literal" in piece else fragment(piece.get("fragment")) for piece in pieces
        )
    return text_of(payload.get("text"))


def part_block(
    row: JsonObject, fragment: Callable[[object], str], attachment: Callable[[str], JsonObject]
) -> tuple[str, JsonObject]:
    """Return the kind of a part and its block; of a tool's result its payload."""
    payload = object_of(json_of(row.get("payload")))
    kind = text_of(row.get("type"))
    metadata = payload.get("provider_metadata")
    if kind == "text":
        block = text_block(part_text(row, payload, fragment))
    elif kind == "reasoning":
        block = {"type": "thinking", "thinking": part_text(row, payload, fragment)}
        if payload.get("redacted"):
            block["redacted"] = True
        if metadata:
            block["thinkingSignature"] = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    elif kind == "tool_call":
        block = call_block(payload.get("tool_call_id"), payload.get("name") or row.get("tool_name"), None)
        block |= call_block(block["id"], block["name"], payload.get("arguments"))
        if payload.get("server_executed"):
            block["serverExecuted"] = True
    elif kind == "tool_result":
        return kind, payload
    elif kind == "attachment":
        block = attachment(text_of(object_of(payload.get("attachment")).get("id")))
    else:
        block = {**payload, "type": kind or "part", "text": part_text(row, payload, fragment)}
    if metadata and kind != "reasoning":
        block["providerMetadata"] = metadata
    return kind if kind in _TYPES else "other", block


def tokens_of(row: JsonObject) -> JsonObject:
    """Return the usage of a response or a turn; cached tokens are a part of the input where OpenAI counted."""
    details = object_of(json_of(row.get("token_details")))
    prompt = object_of(details.get("prompt_tokens_details")) or object_of(details.get("input_tokens_details"))
    answer = object_of(details.get("completion_tokens_details")) or object_of(details.get("output_tokens_details"))
    total = count_of(row.get("input_tokens"))
    cached = min(count_of(prompt.get("cached_tokens") or details.get("cached_tokens")), total)
    return usage_of(
        total - cached,
        row.get("output_tokens"),
        cache_read=cached or details.get("cache_read_input_tokens"),
        cache_write=details.get("cache_creation_input_tokens"),
        reasoning=answer.get("reasoning_tokens") or details.get("reasoning_tokens"),
    )


def answer_of(row: JsonObject, blocks: list[JsonObject]) -> JsonObject:
    """Return an answer as a message.

    Args:
        row: Of the response or the turn.
        blocks: Its content.
    """
    model = text_of(row.get("model"))
    provider, api = provider_of(model)
    called = any(block["type"] == "toolCall" and not block.get("serverExecuted") for block in blocks)
    message: JsonObject = {
        "role": "assistant",
        "content": blocks,
        "api": api,
        "provider": provider,
        "model": model,
        "usage": tokens_of(row),
        "stopReason": "toolUse" if called else "stop",
    }
    if text_of(row.get("resolved_model")) not in ("", model):
        message["responseModel"] = row["resolved_model"]
    if count_of(row.get("duration_ms")):
        message["durationMs"] = row["duration_ms"]
    kept = {name: row[name] for name in ("schema_id", "response_json") if row.get(name) not in (None, "")}
    options = json_of(row.get("options_json"))
    kept |= {"options": options} if options else {}
    kept |= {"id": row["id"]} if row.get("id") else {}
    return message | ({"llm": kept} if kept else {})
