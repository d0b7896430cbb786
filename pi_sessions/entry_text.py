"""The text of an entry that people search: what was said, called, answered and summed up. Never base64, never ids.

Pure. The search index, the scan and the snippets all take their text from here, so they cannot disagree. It can be
written as UTF-8, whatever the entry holds.
"""

from __future__ import annotations

from pi_sessions.stored import decode as decode_text
from pi_sessions.texts import content_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# Entry types with text; all others (model changes, labels, an extension's own state) are bookkeeping.
KINDS = ("message", "custom_message", "compaction", "branch_summary", "context_edit")
SUMMARIES = ("compaction", "branch_summary")


class EntryText:
    """What is searched of one entry; made for every entry that is looked at, so no `Record`.

    Attributes:
        text: Everything that can be found, parts on lines of their own.
        role: The message's role, or the entry's type.
        tools: Tools it calls or answers for.
    """

    __slots__ = ("role", "text", "tools")

    def __init__(self, text: str, role: str, tools: tuple[str, ...] = ()) -> None:
        self.text = text
        self.role = role
        self.tools = tools


def entry_text(
    kind: str, payload: str, *, names: bool = False, decode: Callable[[str], Any] = decode_text
) -> EntryText:
    """Return the text of a stored entry.

    Args:
        kind: Entry type.
        payload: JSON text as it is stored; pictures may be cut out.
        names: With the names of a call's arguments, too, as they are searched.
        decode: Reads JSON text as `stored.decode` does.
    """
    if kind not in KINDS or not payload:
        return EntryText("", kind)
    fields = decode(payload)
    if not isinstance(fields, dict):
        return EntryText("", kind)
    if kind == "message":
        return _message_text(fields, names)
    if kind in SUMMARIES:
        return EntryText(_text(fields.get("summary")), kind)
    return EntryText(content_text(fields.get("content" if kind == "custom_message" else "replacement")), kind)


def _message_text(message: dict[str, Any], names: bool) -> EntryText:
    role = _text(message.get("role")) or "message"
    content = message.get("content")
    if isinstance(content, str):
        return EntryText(content, role)
    parts: list[str] = []
    tools: list[str] = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text":
            parts.append(_text(block.get("text")))
        elif kind == "thinking":
            parts.append(_text(block.get("thinking")))
        elif kind == "toolCall":
            parts += _call_text(block, tools, names)
    if role == "toolResult":
        tools.append(_text(message.get("toolName")))
        nested = message.get("nestedCalls")
        for call in nested.get("calls") or () if isinstance(nested, dict) else ():
            if isinstance(call, dict):
                parts += _call_text(call, tools, names)
    elif role == "bashExecution":
        parts += (_text(message.get("command")), _text(message.get("output")))
    elif role != "user":
        parts += (_text(message.get("summary")), _text(message.get("errorMessage")))
    return EntryText("\n".join(filter(None, parts)), role, tuple(tools))


def _call_text(call: dict[str, Any], tools: list[str], names: bool) -> Iterator[str]:
    """Yield a call's tool and the texts among its arguments."""
    name = _text(call.get("name"))
    tools.append(name)
    yield name
    yield from _strings(call.get("arguments"), names)


def _strings(value: Any, names: bool) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            parts = [part for item in one.items() for part in item] if names else list(one.values())
            waiting += reversed(parts)
        elif isinstance(one, list):
            waiting += reversed(one)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
