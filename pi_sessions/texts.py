"""Plain text of message contents: what a list, a picture or a name shows of a message. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Tags in which editors and hooks wrap what they put before a person's words, each closed by its like.
_PUT_BEFORE = ("<ide_", "<user-prompt-submit-hook>", "<system-reminder>")
_EDITOR_CONTEXT, _REQUEST = "# Context from my IDE setup:", "## My request for Codex:"


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


def spoken_text(text: str) -> str:
    """Return what a person said in a message's text, without what programs put before it; perhaps empty.

    Source: Claude Code 2.1 (editor extensions, hooks); Codex 0.171 (editor extension), which shows messages so itself.
    """
    rest = text.lstrip()
    while rest.startswith(_PUT_BEFORE):
        tag = rest[1:].partition(">")[0]
        _put, end, behind = rest.partition(f"</{tag}>")
        if not end:
            break
        rest = behind.lstrip()
    if rest.startswith(_EDITOR_CONTEXT):
        request = rest.partition(_REQUEST)[2].lstrip()
        return request or rest
    return rest


def system_text(message: dict[str, Any]) -> str:
    """Return the prompt that a system message holds: its text, then those of its sections, a blank line between."""
    sections = message.get("sections")
    texts = [content_text(message.get("content")), *(sections.values() if isinstance(sections, dict) else ())]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def one_line(text: str, limit: int) -> str:
    """Return text with runs of white space as single spaces, cut to at most `limit` characters."""
    line = " ".join(text[: limit * 8].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
