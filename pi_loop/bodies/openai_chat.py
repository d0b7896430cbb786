"""The body of an OpenAI Chat Completions request, for OpenAI and the many servers that speak it.

Text goes as plain strings, which every server takes; a list of parts only where there is an image. Results hold text
alone, so their images follow in the next user message. Nothing is repaired here; the request already is.

Source: OpenAI Chat Completions API; Pi 1.6.0, request building.
"""

from __future__ import annotations

import json

from pi_loop.bodies.options import LONGEST_CACHE_KEY, cache_lifetime, cache_mark, output_limit
from pi_loop.chat_traits import REASONING_FIELDS, ChatTraits, chat_traits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.bodies.options import BodySettings
    from pi_loop.request import BuiltRequest
    from pi_sessions.stored import JsonObject

SEE_IMAGE = "(see attached image)"
IMAGES_OF_RESULT = "Attached image(s) from tool result:"
RESULTS_PROCESSED = "I have processed the tool results."


def chat_body(request: BuiltRequest, options: BodySettings) -> JsonObject:
    """Return the body of a streaming Chat Completions request.

    Args:
        request: Built for a target of this protocol.
        options: Settings of the call.
    """
    target = request.target
    traits = chat_traits(target)
    body: JsonObject = {"model": target.model, "stream": True}
    if traits.usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if traits.store:
        body["store"] = False
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {key: tool[key] for key in ("name", "description", "parameters")},
            }
            for tool in request.tools
        ]
    elif traits.tools_with_history and any(message["role"] == "toolResult" for message in request.messages):
        body["tools"] = []
    body["messages"] = _Conversation(request, traits).build()
    limit = output_limit(request, options)
    if limit:
        body[traits.max_tokens_field] = limit
    lifetime = cache_lifetime(target, options)
    if lifetime != "none" and options.session_id and traits.cache_key:
        body["prompt_cache_key"] = options.session_id[:LONGEST_CACHE_KEY]
    if lifetime == "long" and traits.long_cache:
        body["prompt_cache_retention"] = "24h"
    if traits.anthropic_cache:
        _mark_caches(body, cache_mark(lifetime))
    if options.temperature is not None and not (traits.developer_role and target.reasoning):
        body["temperature"] = options.temperature
    if target.reasoning:
        _set_thinking(body, request, traits, target.level(options.reasoning))
    routing = target.trait("openRouterRouting", None)
    if routing:
        body["provider"] = routing
    return body


def _set_thinking(body: JsonObject, request: BuiltRequest, traits: ChatTraits, level: str) -> None:
    """Ask for a thinking level in the server's own way."""
    target, kind = request.target, traits.thinking_format
    on = level != "off"
    word = target.level_word(level)
    stoppable = target.can_stop_thinking()
    if kind == "openrouter":
        if on or stoppable:
            body["reasoning"] = {"effort": word if on or word != "off" else "none"}
        return
    if kind == "qwen-chat-template":
        body["chat_template_kwargs"] = {"enable_thinking": on, "preserve_thinking": True}
        return
    if kind == "zai":
        body["thinking"] = {"type": "enabled", "clear_thinking": False} if on else {"type": "disabled"}
    elif kind == "deepseek" and (on or stoppable):
        body["thinking"] = {"type": "enabled" if on else "disabled"}
    elif kind == "together":
        body["reasoning"] = {"enabled": on}
    elif kind == "qwen":
        body["enable_thinking"] = on
    # A word for `off` is sent only where the model's own map has one.
    if traits.reasoning_effort and (on or (kind == "openai" and word != "off")):
        body["reasoning_effort"] = word


class _Conversation:
    """Builds the messages of one body."""

    def __init__(self, request: BuiltRequest, traits: ChatTraits) -> None:
        self._request = request
        self._traits = traits
        self._messages: list[JsonObject] = []
        self._images: list[JsonObject] = []

    def build(self) -> list[JsonObject]:
        request, traits = self._request, self._traits
        if request.system:
            developer = traits.developer_role and request.target.reasoning
            self._messages.append({"role": "developer" if developer else "system", "content": request.system})
        for message in request.messages:
            if message["role"] == "user":
                self._user([_part(block) for block in message["content"]])
            elif message["role"] == "assistant":
                self._user([])
                self._messages.append(self._answer(message["content"]))
            else:
                self._result(message)
        self._user([])
        return self._messages

    def _user(self, parts: list[JsonObject]) -> None:
        """Add a user message: the images of results so far, then these parts; nothing if there is neither."""
        if self._images:
            parts = [{"type": "text", "text": IMAGES_OF_RESULT}, *self._images, *parts]
            self._images = []
        if not parts:
            return
        if self._traits.answer_after_results and self._messages and self._messages[-1]["role"] == "tool":
            self._messages.append({"role": "assistant", "content": RESULTS_PROCESSED})
        texts = [part["text"] for part in parts if part["type"] == "text"]
        content = "\n\n".join(texts) if len(texts) == len(parts) else parts
        self._messages.append({"role": "user", "content": content})

    def _answer(self, blocks: list[JsonObject]) -> JsonObject:
        traits = self._traits
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        made: JsonObject = {"role": "assistant", "content": None}
        thoughts: dict[str, list[str]] = {}
        spoken: list[str] = []
        details: list[JsonObject] = []
        for block in blocks:
            for field, value in block.get("wire", {}).items():
                if field == "reasoning_details":
                    details.extend(value)
                elif traits.thinking_as_text:
                    spoken.append(value)
                else:
                    thoughts.setdefault(field, []).append(value)
        calls = [_call(block) for block in blocks if block["type"] == "toolCall"]
        details = details or [block["detail"] for block in blocks if "detail" in block]
        if spoken or texts:
            made["content"] = "\n".join([*spoken, *texts])
        elif traits.non_null_content or traits.answer_after_results:
            made["content"] = ""
        if details:
            made["reasoning_details"] = details
        else:
            made |= {field: "\n".join(thoughts[field]) for field in REASONING_FIELDS if field in thoughts}
        if traits.reasoning_on_answers and self._request.target.reasoning:
            made.setdefault(REASONING_FIELDS[0], "")
        if calls:
            made["tool_calls"] = calls
        return made

    def _result(self, message: JsonObject) -> None:
        content = message["content"]
        texts = [block["text"] for block in content if block["type"] == "text"]
        self._images.extend(_part(block) for block in content if block["type"] == "image")
        text = "\n".join(texts) or SEE_IMAGE
        made = {"role": "tool", "tool_call_id": message["toolCallId"], "content": text}
        if self._traits.result_name:
            made["name"] = message["toolName"]
        self._messages.append(made)


def _call(block: JsonObject) -> JsonObject:
    arguments = json.dumps(block["arguments"], ensure_ascii=False, separators=(",", ":"))
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _part(block: JsonObject) -> JsonObject:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    return {"type": "image_url", "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"}}


def _mark_caches(body: JsonObject, mark: dict[str, str] | None) -> None:
    """Mark the prompt, the last tool and the last message with text, as Anthropic's models behind a gateway take it."""
    if mark is None:
        return
    messages = body["messages"]
    if messages[0]["role"] in ("system", "developer"):
        _mark_text(messages[0], mark)
    if body.get("tools"):
        body["tools"][-1] = {**body["tools"][-1], "cache_control": mark}
    next(message for message in reversed(messages) if _mark_text(message, mark))


def _mark_text(message: JsonObject, mark: dict[str, str]) -> bool:
    """Mark the last text of a message; return whether it has one."""
    content = message["content"]
    if isinstance(content, str) and content:
        message["content"] = [{"type": "text", "text": content, "cache_control": mark}]
        return True
    places = [place for place, part in enumerate(content or []) if part["type"] == "text"]
    if places:
        content[places[-1]] = {**content[places[-1]], "cache_control": mark}
    return bool(places)
