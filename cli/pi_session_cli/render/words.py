"""An entry in a few words: who speaks, and the beginning of what is said. Never base64, never a whole output."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line, sentences
from pi_sessions.texts import content_text, system_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pi_sessions.stored import JsonObject, StoredEntry

ENOUGH = 2000
STYLES = {"user": ("cyan", "bold"), "assistant": ("green",), "compaction": ("yellow",), "branch summary": ("yellow",)}
ROLES = {"bashExecution": "shell", "toolResult": "tool"}
NORMAL_STOPS = (None, "", "stop", "toolUse")
CUT_OFF = "cut off at the token limit"


def speaker(entry: StoredEntry) -> str:
    """Return who or what an entry is: a message's role, else the entry's type in words."""
    if entry.type == "message":
        role = entry.role or "message"
        return ROLES.get(role, role)
    return entry.type.replace("_", " ")


def styles(entry: StoredEntry) -> tuple[str, ...]:
    """Return how the speaker is painted."""
    return STYLES.get(speaker(entry), ("dim",))


def gist(entry: StoredEntry) -> str:
    """Return what an entry says, cut long before it gets expensive to draw; not yet safe for a terminal."""
    if entry.type == "message":
        return message_gist(entry.message or {})
    return fields_gist(entry.type, entry.fields)


def message_gist(message: JsonObject) -> str:
    """Return what a message says."""
    role = message.get("role")
    if role == "bashExecution":
        return f"$ {text_of(message.get('command'))}"[:ENOUGH]
    if role == "compactionSummary" or role == "branchSummary":
        return text_of(message.get("summary"))[:ENOUGH]
    text = content_text(message.get("content"))[:ENOUGH]
    if role == "toolResult":
        failed = "failed: " if message.get("isError") else ""
        return f"{text_of(message.get('toolName'))}: {failed}{text or pictures(message) or '(no output)'}"
    if role == "system":
        return system_gist(message)
    if role != "assistant":
        return " ".join(filter(None, (text, pictures(message)))) or "(empty)"
    stopped = stop_words(message)
    called = calls_in([message])
    parts = [text.strip(), f"calls {called}" if called and not text.strip() else ""]
    parts.append(f"({stopped})" if stopped else "")
    return " ".join(filter(None, parts)) or "(empty)"


def stop_words(message: JsonObject) -> str:
    """Return why an answer did not end as answers do, on one line; nothing where it did."""
    stop, reason = message.get("stopReason"), sentences(text_of(message.get("errorMessage")))
    if stop in NORMAL_STOPS:
        return reason
    word = CUT_OFF if stop == "length" else one_line(text_of(stop))
    return ": ".join(filter(None, (word, reason)))


def system_gist(message: JsonObject) -> str:
    """Return what a system message sets: its text, or how long its prompt is; the tools it declares and takes away."""
    parts = [content_text(message.get("content"))[:ENOUGH]]
    if not parts[0] and system_text(message):
        from pi_sessions.tokens import estimate_tokens

        tokens = estimate_tokens({"role": "system", "content": "", "sections": message.get("sections")})
        parts.append(f"system prompt ({tokens:,} tokens)")
    sections = message.get("sections")
    gone = [name for name, value in sections.items() if value is None] if isinstance(sections, dict) else []
    for word, names in (
        ("without", gone),
        ("tools:", tool_names(message.get("toolsAdded"))),
        ("without tools:", tool_names(message.get("toolsRemoved"))),
    ):
        parts.append(f"{word} {', '.join(names)}" if names else "")
    return "; ".join(filter(None, parts)) or "(empty)"


def tool_names(tools: Any) -> list[str]:
    """Return the names in a list of tool declarations."""
    listed = tools if isinstance(tools, list) else []
    names = (text_of(tool.get("name")) if isinstance(tool, dict) else text_of(tool) for tool in listed)
    return [name for name in names if name]


def fields_gist(kind: str, fields: JsonObject) -> str:
    """Return what an entry other than a message says."""
    if kind in ("compaction", "branch_summary"):
        return text_of(fields.get("summary"))[:ENOUGH] or "(empty)"
    if kind == "custom_message":
        return f"{text_of(fields.get('customType'))}: {content_text(fields.get('content'))[:ENOUGH]}"
    if kind == "model_change":
        return f"{text_of(fields.get('provider'))}/{text_of(fields.get('modelId'))}"
    if kind == "context_edit":
        return f"{'omits' if fields.get('replacement') is None else 'replaces'} {text_of(fields.get('targetId'))}"
    if kind == "label":
        return f"{text_of(fields.get('label')) or 'none'} on {text_of(fields.get('targetId'))}"
    if kind == "session_info":
        return text_of(fields.get("name")) or "(no name)"
    for name in ("thinkingLevel", "customType", "kind"):
        if isinstance(fields.get(name), str):
            return str(fields[name])[:ENOUGH]
    return ""


def pictures(message: JsonObject) -> str:
    """Return `[2 images]`, or nothing."""
    content = message.get("content")
    number = (
        sum(isinstance(block, dict) and block.get("type") == "image" for block in content)
        if isinstance(content, list)
        else 0
    )
    return "" if not number else "[image]" if number == 1 else f"[{number} images]"


def calls_in(messages: Iterable[JsonObject]) -> str:
    """Return the tool calls of answers as `read ×2, bash`, in the order they first appear."""
    numbers: dict[str, int] = {}
    for message in messages:
        for call in calls(message):
            name = text_of(call.get("name")) or "tool"
            numbers[name] = numbers.get(name, 0) + 1
    return ", ".join(name if number == 1 else f"{name} x{number}" for name, number in numbers.items())


def calls(message: JsonObject) -> list[JsonObject]:
    """Return the tool-call blocks of an answer."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == "toolCall"]


def run_gist(run: Sequence[StoredEntry]) -> str:
    """Return what a folded run of tool calls and results did."""
    messages = [entry.message or {} for entry in run]
    failed = sum(bool(message.get("isError")) for message in messages if message.get("role") == "toolResult")
    named = calls_in(messages) or ", ".join(dict.fromkeys(text_of(message.get("toolName")) for message in messages))
    return f"{named} ({len(run)} entries{f', {failed} failed' if failed else ''})"


def text_of(value: Any) -> str:
    """Return text as it is, and nothing for anything else."""
    return value if isinstance(value, str) else ""
