"""The body of an OpenAI Responses request.

Nothing is kept at the provider (`store: false`), so the whole conversation is sent each time, reasoning items as they
came; only an answer that is to come later has to be kept there until it is fetched. Items go under their own id only
where the request says so: an id whose reasoning is missing, or one that comes twice, is refused. Nothing else is
decided here; the request is already repaired.

Source: OpenAI Responses API; Pi 1.6.0, request building.
"""

from __future__ import annotations

import json

from pi_loop.bodies.options import LONGEST_CACHE_KEY, cache_lifetime, output_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.bodies.options import BodySettings
    from pi_loop.request import BuiltRequest
    from pi_loop.target import Target
    from pi_sessions.stored import JsonObject

LEAST_OUTPUT = 16


def responses_body(request: BuiltRequest, options: BodySettings) -> JsonObject:
    """Return the body of a Responses request: a streaming one, or one whose answer is fetched later.

    Args:
        request: Built for a target of this protocol.
        options: Settings of the call.
    """
    target = request.target
    later = options.deferred
    body: JsonObject = {"model": target.model, "stream": not later, "store": later}
    if later:
        body["background"] = True
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["parameters"],
                # Left out it means true, and most schemas do not meet what that asks.
                "strict": False,
            }
            for tool in request.tools
        ]
    body["input"] = _input(request)
    limit = output_limit(request, options)
    if limit and target.trait("supportsMaxOutputTokens", True):
        body["max_output_tokens"] = max(limit, LEAST_OUTPUT)
    lifetime = cache_lifetime(target, options)
    if options.session_id and lifetime != "none" and target.trait("promptCacheKeyMode", "auto") != "disabled":
        body["prompt_cache_key"] = options.session_id[:LONGEST_CACHE_KEY]
    if lifetime == "long":
        body["prompt_cache_retention"] = "24h"
    level = target.level(options.reasoning)
    if level != "off":
        body["reasoning"] = {"effort": target.level_word(level), "summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
    elif target.reasoning and target.level_word("off") != "off":
        # Only a model that names a word for it takes one; for the others leaving it out is right.
        body["reasoning"] = {"effort": target.level_word("off")}
    if options.temperature is not None and not target.reasoning:
        body["temperature"] = options.temperature
    return body


def _input(request: BuiltRequest) -> list[JsonObject]:
    target = request.target
    items: list[JsonObject] = []
    if request.system:
        developer = target.reasoning and target.trait("supportsDeveloperRole", True)
        items.append({"role": "developer" if developer else "system", "content": request.system})
    item_ids: set[str] = set()
    for message in request.messages:
        if message["role"] == "user":
            items.append({"role": "user", "content": [_part(block) for block in message["content"]]})
        elif message["role"] == "assistant":
            items.extend(_answer_items(message["content"], item_ids))
        else:
            output = _output(message["content"], target)
            items.append({"type": "function_call_output", "call_id": message["toolCallId"], "output": output})
    return items


def _answer_items(blocks: list[JsonObject], item_ids: set[str]) -> list[JsonObject]:
    """Return the items of one answer; if any of its ids has been sent already, none of them is sent again."""
    own_ids = [block["wire"]["id"] for block in blocks if block["type"] == "thinking"]
    own_ids += [block["itemId"] for block in blocks if "itemId" in block]
    fresh = len(set(own_ids)) == len(own_ids) and item_ids.isdisjoint(own_ids)
    item_ids.update(own_ids)
    items: list[JsonObject] = []
    for block in blocks:
        if block["type"] == "thinking":
            if fresh:
                items.append(dict(block["wire"]))
        elif block["type"] == "text":
            items.append(_message(block, block.get("itemId") if fresh else None))
        else:
            items.append(_call(block, block.get("itemId") if fresh else None))
    return items


def _message(block: JsonObject, item_id: str | None) -> JsonObject:
    made: JsonObject = {"type": "message", "role": "assistant"}
    if item_id is None:
        made["content"] = block["text"]
    else:
        made["content"] = [{"type": "output_text", "text": block["text"], "annotations": []}]
        made |= {"id": item_id, "status": "completed"}
    if "phase" in block:
        made["phase"] = block["phase"]
    return made


def _call(block: JsonObject, item_id: str | None) -> JsonObject:
    made: JsonObject = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
    made["arguments"] = json.dumps(block["arguments"], ensure_ascii=False, separators=(",", ":"))
    if item_id is not None:
        made["id"] = item_id
    if "namespace" in block:
        made["namespace"] = block["namespace"]
    return made


def _part(block: JsonObject) -> JsonObject:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    url = f"data:{block['mimeType']};base64,{block['data']}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _output(content: list[JsonObject], target: Target) -> str | list[JsonObject]:
    if any(block["type"] == "image" for block in content):
        return [_part(block) for block in content]
    return "\n".join(block["text"] for block in content)
