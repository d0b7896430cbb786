"""The body of an Anthropic Messages request.

A user message and the results before it are one message, results first. Three places carry a cache mark: the prompt,
the last tool, the last message. Nothing is repaired here; the request already is.

Source: Anthropic Messages API 2023-06-01; Pi 1.6.0, request building.
"""

from __future__ import annotations

from pi_loop.bodies.options import LEAST_BUDGET, cache_lifetime, cache_mark, output_limit, thinking_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.bodies.options import BodySettings
    from pi_loop.request import BuiltRequest
    from pi_sessions.stored import JsonObject

# The protocol asks for a number; a model without a known limit gets this one.
DEFAULT_MAX_TOKENS = 8192
LEAST_ANSWER_TOKENS = 1024
FORMER_TOOL = "Was used earlier in this conversation and is not available now."
IMAGES_FOLLOW = "(image attached after the tool results)"
# The protocol's words for how hard to think; a model's own map comes first.
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium"}

_THINKING = ("thinking", "redacted_thinking")


def anthropic_body(request: BuiltRequest, options: BodySettings) -> JsonObject:
    """Return the body of a streaming Messages request.

    Args:
        request: Built for a target of this protocol.
        options: Settings of the call.
    """
    target = request.target
    mark = cache_mark(cache_lifetime(target, options))
    messages = _messages(request)
    body: JsonObject = {"model": target.model, "max_tokens": 0, "stream": True}
    if request.system:
        body["system"] = [_marked({"type": "text", "text": request.system}, mark)]
    if request.tools:
        tools = [_tool(tool["name"], tool["description"], tool["parameters"]) for tool in request.tools]
        if target.trait("supportsCacheControlOnTools", True):
            tools[-1] = _marked(tools[-1], mark)
        body["tools"] = tools
    else:
        former = _called_names(request)
        if former:
            # Calls in the history are refused when no tool is declared.
            body["tools"] = [_tool(name, FORMER_TOOL, {"type": "object", "properties": {}}) for name in former]
            body["tool_choice"] = {"type": "none"}
    body["messages"] = messages
    thinking = _set_thinking(body, request, options)
    if target.reasoning and not thinking:
        # An answer in mid-turn may hold thinking only while the model thinks; in older ones it would be ignored.
        for message in messages:
            message["content"] = [block for block in message["content"] if block["type"] not in _THINKING]
    last = messages[-1]["content"]
    last[-1] = _marked(last[-1], mark)
    if options.temperature is not None and not thinking and target.trait("supportsTemperature", True):
        body["temperature"] = options.temperature
    user = (options.metadata or {}).get("user_id")
    if isinstance(user, str):
        body["metadata"] = {"user_id": user}
    return body


def _set_thinking(body: JsonObject, request: BuiltRequest, options: BodySettings) -> bool:
    """Set the output limit and how to think; return whether the model thinks."""
    target = request.target
    level = target.level(options.reasoning)
    body["max_tokens"] = output_limit(request, options) or DEFAULT_MAX_TOKENS
    if not target.reasoning:
        return False
    if level != "off" and target.trait("forceAdaptiveThinking", False):
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        word = target.level_word(level)
        body["output_config"] = {"effort": _EFFORTS.get(level, "high") if word == level else word}
        return True
    if level != "off" and _may_think(body["messages"]):
        wanted = thinking_budget(options, level)
        limit = output_limit(request, options, thinking=wanted) or DEFAULT_MAX_TOKENS
        budget = min(wanted, limit - LEAST_ANSWER_TOKENS)
        if budget >= LEAST_BUDGET:
            body["max_tokens"] = limit
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
            return True
    if target.can_stop_thinking():
        body["thinking"] = {"type": "disabled"}
    return False


def _may_think(messages: list[JsonObject]) -> bool:
    """Whether thinking with a budget is allowed at this point.

    In the middle of a tool loop the answer that began it must begin with thinking. It does not after a switch of
    models; the request then goes without thinking until the next user message.
    """
    place = len(messages) - 1
    if not _has_results(messages[place]):
        return True
    while place > 0:
        if messages[place - 1]["content"][0]["type"] in _THINKING:
            return True
        place -= 2
        if any(block["type"] != "tool_result" for block in messages[place]["content"]):
            return False
    return False


def _has_results(message: JsonObject) -> bool:
    return any(block["type"] == "tool_result" for block in message["content"])


def _messages(request: BuiltRequest) -> list[JsonObject]:
    messages: list[JsonObject] = []
    after_results: list[JsonObject] = []
    for message in request.messages:
        role = message["role"]
        if role == "assistant":
            _add(messages, "user", after_results)
            after_results = []
            _add(messages, "assistant", [_answer_block(block) for block in message["content"]])
        elif role == "user":
            _add(messages, "user", [*after_results, *(_input_block(block) for block in message["content"])])
            after_results = []
        else:
            result, images = _result(message)
            _add(messages, "user", [result])
            after_results.extend(images)
    _add(messages, "user", after_results)
    return messages


def _add(messages: list[JsonObject], role: str, blocks: list[JsonObject]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(blocks)
    elif blocks:
        messages.append({"role": role, "content": blocks})


def _answer_block(block: JsonObject) -> JsonObject:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    if block["type"] == "thinking":
        return dict(block["wire"])
    return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"]}


def _input_block(block: JsonObject) -> JsonObject:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
    return {"type": "image", "source": source}


def _result(message: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return a result and the blocks that must follow all results: an error result holds nothing but text.

    Source: Pi 1.6.0, request building.
    """
    content = message["content"]
    images = [_input_block(block) for block in content if block["type"] == "image"]
    texts = [block["text"] for block in content if block["type"] == "text"]
    made: JsonObject = {"type": "tool_result", "tool_use_id": message["toolCallId"]}
    if images and not message["isError"]:
        return {**made, "content": [_input_block(block) for block in content]}, []
    if images:
        texts.append(IMAGES_FOLLOW)
    made["content"] = "\n".join(texts)
    if not message["isError"]:
        return made, []
    caption = f"Images from the error result of tool call {message['toolCallId']} ({message['toolName']}):"
    return {**made, "is_error": True}, [{"type": "text", "text": caption}, *images] if images else []


def _tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    made: JsonObject = {"name": name, "input_schema": schema}
    if description.strip():
        made["description"] = description
    return made


def _called_names(request: BuiltRequest) -> list[str]:
    blocks = (block for message in request.messages if message["role"] == "assistant" for block in message["content"])
    return list(dict.fromkeys(block["name"] for block in blocks if block["type"] == "toolCall"))


def _marked(block: JsonObject, mark: dict[str, str] | None) -> JsonObject:
    return {**block, "cache_control": mark} if mark else block
