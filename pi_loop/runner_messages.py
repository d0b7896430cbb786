"""From stored messages to those of the loop, and from those to what a model is asked. Pure.

Resuming always works: a stored message that is not what its role promises is read as far as it can be, never refused.
"""

from collections.abc import Iterable, Sequence

from pydantic import JsonValue, ValidationError

from pi_loop.declarations import replay_system_messages
from pi_loop.types import MODEL_ROLES
from pi_sessions.context import Context, blocks_of, content_text, to_llm
from pi_sessions.messages import (
    ContentBlock,
    ImageContent,
    JsonObject,
    Message,
    OtherMessage,
    SystemMessage,
    TextContent,
    UserMessage,
    WireModel,
    block_texts,
    parse_message,
    to_wire,
)
from pi_sessions.texts import one_line

PROMPT_SECTION = "prompt"
SUMMARY_CHARS = 80
_STOP_REASONS = ("stop", "length", "toolUse", "error", "aborted", "deferred")


def loop_messages(context: Context) -> list[Message]:
    """Give the messages of a stored context as the loop has them."""
    return [readable(one.message) for one in context.messages]


def readable(message: JsonObject) -> Message:
    """Read one stored message; of one that lacks what its role needs, what is sound."""
    try:
        return parse_message(message)
    except ValidationError:
        pass
    try:
        return parse_message(_sound_parts(message))
    except ValidationError:
        return OtherMessage(role="unreadable")


def _sound_parts(message: JsonObject) -> JsonObject:
    role, content = message.get("role"), message.get("content")
    kept: JsonObject = {"role": role}
    if isinstance(message.get("timestamp"), int | float):
        kept["timestamp"] = message["timestamp"]
    if role == "assistant":
        blocks: list[JsonValue] = [block for block in blocks_of(content) if _is_sound(block)]
        reason = message.get("stopReason")
        kept |= {name: str(message.get(name) or "") for name in ("api", "provider", "model")}
        return {**kept, "content": blocks, "stopReason": reason if reason in _STOP_REASONS else "stop"}
    if role == "toolResult":
        kept |= {"toolCallId": message.get("toolCallId"), "toolName": str(message.get("toolName") or "")}
        kept["isError"] = message.get("isError") is True
    return {**kept, "content": content_text(content)}


def _is_sound(block: JsonObject) -> bool:
    try:
        parse_message({"role": "assistant", "content": [block]})
    except ValidationError:
        return False
    return True


def model_messages(messages: Sequence[Message]) -> list[Message]:
    """Give messages in the roles every provider knows: summaries, shell commands and custom ones become the user's."""
    given: list[Message] = []
    for message in messages:
        if message.role in MODEL_ROLES:
            given.append(message)
        else:
            given += [readable(seen) for seen in to_llm(to_wire(message))]
    return given


def prompt_change(messages: Sequence[Message], system: str | None, timestamp: int | float) -> SystemMessage | None:
    """Give the system message that puts a prompt in force, None when it is already, or none is wanted.

    The prompt is a named section, so that a later one replaces it.
    """
    if system is None:
        return None
    replayed = replay_system_messages(messages)
    current = (replayed.sections or {}).get(PROMPT_SECTION) if replayed is not None else None
    if current == system or (not system and current is None):
        return None
    return SystemMessage(content="", sections={PROMPT_SECTION: system or None}, timestamp=timestamp)


def user_messages(
    prompt: str | Message | Sequence[Message], images: Iterable[ImageContent], timestamp: int | float
) -> list[Message]:
    """Give a prompt as messages: a text becomes a user message with the images."""
    if isinstance(prompt, str):
        content: list[ContentBlock] = [TextContent(text=prompt), *images]
        return [UserMessage(content=content, timestamp=timestamp)]
    return [prompt] if isinstance(prompt, WireModel) else list(prompt)


def prompt_summary(messages: Sequence[Message]) -> str:
    """Give a prompt in a few words, for the list of operations."""
    texts = [" ".join(block_texts(message.content)) for message in messages if isinstance(message, UserMessage)]
    return one_line(" ".join(texts), SUMMARY_CHARS) or "a prompt"
