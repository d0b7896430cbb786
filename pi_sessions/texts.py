"""Plain text of message contents: what a list, a picture or a name shows of a message. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def content_text(content: Any, joiner: str = "\n") -> str:
    """Return the text of a message's content.

    Args:
        content: Text, a list of content blocks, or anything else (which has no text).
        joiner: Put between text blocks.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return joiner.join(
        block["text"]
        for block in content
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    )


def system_text(message: dict[str, Any]) -> str:
    """Return the prompt that a system message holds: its text, then those of its sections, a blank line between."""
    sections = message.get("sections")
    texts = [content_text(message.get("content")), *(sections.values() if isinstance(sections, dict) else ())]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def one_line(text: str, limit: int) -> str:
    """Return text with runs of white space as single spaces, cut to at most `limit` characters."""
    line = " ".join(text[: limit * 8].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
