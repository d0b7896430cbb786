"""Writes messages as the plain text a model is asked to sum up, and reads the last answer's text.

Pure. Thinking is left out, long tool results are cut; what was said and called stays word for word.

Source: Pi 1.6.0, summaries: conversation text.
"""

from __future__ import annotations

from pi_sessions.context import blocks_of, content_text, to_llm
from pi_sessions.tokens import cut_utf16, json_text, utf16_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pi_sessions.stored import JsonObject

TOOL_RESULT_MAX_UNITS = 2000


def serialize_conversation(messages: Iterable[JsonObject]) -> str:
    """Return messages of a context as text.

    Args:
        messages: Any roles; each first becomes what a model would see (so shell commands, custom messages and
            summaries are the user's, system messages nothing).

    Returns:
        Parts `[User]: `, `[Assistant]: `, `[Assistant tool calls]: ` and `[Tool result]: ` with an empty line between;
        tool results after 2000 UTF-16 units are cut and the count of cut units is named.

    Source: Pi 1.6.0, summaries: conversation text, except that the count of cut units is the true one when the cut
        moves off a surrogate pair.
    """
    parts: list[str] = []
    for message in messages:
        for seen in to_llm(message):
            role = seen["role"]
            if role == "assistant":
                parts += _answer_parts(seen.get("content"))
                continue
            text = content_text(seen.get("content"), "")
            if role == "user" and text:
                parts.append(f"[User]: {text}")
            elif role == "toolResult" and text:
                parts.append(f"[Tool result]: {_cut_result(text)}")
    return "\n\n".join(parts)


def last_assistant_text(messages: Sequence[JsonObject]) -> str | None:
    """Return the text of the newest answer of a context, None when it has none.

    Answers without text that did not end normally (aborted, failed, only calling tools) are passed over.

    Source: Pi 1.6.0, last assistant text.
    """
    for message in reversed(messages):
        if message.get("role") == "assistant":
            texts = [block.get("text") for block in blocks_of(message.get("content")) if block.get("type") == "text"]
            text = "".join(text for text in texts if isinstance(text, str)).strip()
            if text or message.get("stopReason") == "stop":
                return text or None
    return None


def _answer_parts(content: object) -> list[str]:
    blocks = blocks_of(content)
    parts = []
    if any(block.get("type") == "text" for block in blocks):
        parts.append(f"[Assistant]: {content_text(content)}")
    calls = [_call_text(block) for block in blocks if block.get("type") == "toolCall"]
    if calls:
        parts.append(f"[Assistant tool calls]: {'; '.join(calls)}")
    return parts


def _call_text(block: JsonObject) -> str:
    arguments = block.get("arguments")
    given = arguments.items() if isinstance(arguments, dict) else ()
    return f"{block.get('name')}({', '.join(f'{name}={json_text(value)}' for name, value in given)})"


def _cut_result(text: str) -> str:
    length = utf16_length(text)
    if length <= TOOL_RESULT_MAX_UNITS:
        return text
    kept = cut_utf16(text, TOOL_RESULT_MAX_UNITS)
    return f"{kept}\n\n[... {length - utf16_length(kept)} more characters truncated]"
