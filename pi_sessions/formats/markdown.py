"""Writes an export as Markdown: a transcript to read anywhere, which can also be read back.

The format, `pi-session-markdown/1`, is CommonMark with front matter:

    ---
    format: "pi-session-markdown/1"
    session: "0195c0de-..."            values are JSON, which is YAML
    ...
    ---

    # Title

    <!-- pi-session entry {"id":"76a1bf01","parentId":null,"type":"message","role":"user","timestamp":"..."} -->

    ## User · 2026-01-05 09:11

    The text.

    <!-- pi-session block {"type":"toolCall","id":"call_1","name":"bash"} -->
    ...

An entry lasts from its comment to the next one. Its first block of Markdown (a heading, or a line in italics for
bookkeeping) is for people only. What follows is its content: text up to the first block comment, then one content
block per block comment. Comments stand at the margin, outside of any fence, and content can hold none there
(`markdown_text`), so a CommonMark parser finds exactly ours. In comments `<`, `>` and `--` are written as JSON escapes.

- The entry comment has the entry's fields without its text, and `"content":"text"` where a message's content is a plain
  text and not a list of blocks. `label` is the label people gave the entry.
- A block comment has the block's fields without its text, and `form` where the text stands otherwise than as it is
  (`markdown_text.extracted` undoes it; fenced texts are the content of the fence). `before` and `after` are the white
  space at the ends of the text, which Markdown does not keep.
- Inside a block, `<details>`, `<summary>` and `</details>` lines fold it and mean nothing.
- A call's arguments are the JSON in its fence. A shell entry has a `command` and an `output` block.

Not in it: usage, signatures, the bytes of pictures, data of extensions; tool calls, results
and thinking where they were left out (front matter: `tools`, `thinking`), and what stands before the first entry
(`before`: how many messages).
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING

from pi_sessions.context import blocks_of, content_text
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats.exports import TOOLS_FOLDED, TOOLS_NONE, chosen_path, title_of
from pi_sessions.formats.markdown_text import FENCED, PLAIN, Inserted, fence, inline_code, inline_text, inserted
from pi_sessions.stored import dump
from pi_sessions.texts import one_line
from pi_sessions.times import format_time
from pi_sessions.tree import is_bare_tool_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

FORMAT = "pi-session-markdown/1"
ENTRY, BLOCK = "pi-session entry", "pi-session block"
GIST_LENGTH = 100
HEADINGS = {
    "user": "User",
    "assistant": "Assistant",
    "bashExecution": "Shell",
    "system": "System",
    "custom": "Note",
    "compactionSummary": "Compaction",
    "branchSummary": "Branch summary",
}
TYPES = {"compaction": "Compaction", "branch_summary": "Branch summary", "custom_message": "Note"}
# Fields of a message that the comment carries; the text, usages and signatures are not among them.
MESSAGE_FIELDS = (
    "role", "api", "provider", "model", "responseModel", "stopReason", "errorMessage", "toolCallId", "toolName",
    "isError", "exitCode", "cancelled", "truncated", "excludeFromContext", "customType", "display", "timestamp",
)  # fmt: skip
TEXT_FIELDS = ("summary", "content", "usage", "details", "data", "systemMessage")


def export_lines(export: Export) -> Iterator[str]:
    """Yield the document piece by piece.

    Raises:
        NothingToExportError: nothing of the path would be in it.
    """
    path, before = chosen_path(export)
    entries = [entry for entry in path if _is_given(entry, export)]
    if not entries:
        raise NothingToExportError("The path is empty, so there is nothing to write")
    yield from _front_matter(export, before)
    yield f"# {inline_text(one_line(title_of(export.session), 200))}\n"
    labels = export.label_texts()
    for entry in entries:
        yield "".join(f"\n{piece}\n" for piece in _entry(entry, export, labels.get(entry.id)))


def export_losses(export: Export) -> dict[str, int]:
    """Return what the document does not hold: `{what: how many}`."""
    from pi_sessions.formats.markdown_losses import path_losses

    return path_losses(
        export, lambda entry: _is_given(entry, export), frozenset(MESSAGE_FIELDS), frozenset(TEXT_FIELDS)
    )


def _front_matter(export: Export, before: int) -> Iterator[str]:
    session = export.session
    facts: JsonObject = {
        "format": FORMAT,
        "session": session.id,
        "name": session.name,
        "cwd": session.cwd,
        "created": format_time(session.created_ms),
        "branch": next((each.name for each in export.branches if each.leaf == export.leaf), None),
        "leaf": export.leaf,
        "model": session.model,
        "origin": session.origin,
        "before": before or None,
        "tools": export.tools,
        "thinking": export.thinking,
        "made_by": export.made_by,
    }
    yield "---\n"
    for name, value in facts.items():
        if value is not None:
            yield f"{name}: {dump(value)}\n"
    yield "---\n\n"


def _is_given(entry: StoredEntry, export: Export) -> bool:
    if entry.type in ("label", "session_info", "usage", "custom"):
        return False
    return export.tools != TOOLS_NONE or not (entry.role == "toolResult" or is_bare_tool_call(entry))


def _entry(entry: StoredEntry, export: Export, label: str | None) -> Iterator[str]:
    message = entry.message
    fields: JsonObject = {"id": entry.id, "parentId": entry.parent_id, "type": entry.type, "timestamp": entry.timestamp}
    if message is None:
        fields |= {name: value for name, value in entry.fields.items() if name not in TEXT_FIELDS}
    else:
        fields["message"] = {name: message[name] for name in MESSAGE_FIELDS if name in message}
    carrier = entry.fields if message is None else message
    if isinstance(carrier.get("content"), str):
        fields["content"] = "text"
    if label is not None:
        fields["label"] = label
    yield _comment(ENTRY, fields)
    yield _heading(entry, label)
    if message is not None:
        yield from _message(message, export)
    elif entry.type in ("compaction", "branch_summary"):
        yield from _text(carrier.get("summary"), first=True)
    elif entry.type == "custom_message":
        yield from _blocks(carrier.get("content"), export)


def _heading(entry: StoredEntry, label: str | None) -> str:
    """Return what a person reads first of an entry: a heading, or a line for bookkeeping."""
    message = entry.message or {}
    role = message.get("role")
    when = "" if entry.time_ms is None else format_time(entry.time_ms)[:16].replace("T", " ")
    parts = [when, message.get("model") if role == "assistant" else None, f"[{label}]" if label is not None else None]
    told = "".join(f" · {inline_text(part)}" for part in parts if isinstance(part, str) and part)
    if role == "toolResult":
        failed = " failed" if message.get("isError") else ""
        return f"### Result: {inline_text(str(message.get('toolName') or 'tool'))}{failed}{told}"
    if entry.type == "message" or entry.type in TYPES:
        who = TYPES.get(entry.type) or HEADINGS.get(str(role)) or inline_text(str(role or "Message"))
        return f"## {who}{told}"
    said = " ".join(str(value) for name, value in entry.fields.items() if isinstance(value, str) and name != "type")
    return f"*{inline_text(entry.type.replace('_', ' '))}: {inline_text(said) or '-'}*"


def _message(message: JsonObject, export: Export) -> Iterator[str]:
    role = message.get("role")
    if role == "bashExecution":
        yield _comment(BLOCK, {"type": "command", "form": FENCED})
        yield fence(_string(message.get("command")), "bash")
        yield _comment(BLOCK, {"type": "output", "form": FENCED})
        yield from _folded("output", fence(_string(message.get("output")), "text"), export)
    elif role in ("compactionSummary", "branchSummary"):
        yield from _text(message.get("summary"), first=True)
    elif role == "toolResult":
        for block in blocks_of(message.get("content")):
            if block.get("type") == "text":
                text = inserted(_string(block.get("text")))
                form = FENCED if text.form in (PLAIN, "closed", FENCED) else text.form
                shown = fence(_string(block.get("text")), "text") if form == FENCED else text.markdown
                yield _comment(BLOCK, {"type": "text", "form": form})
                lines = _string(block.get("text")).count("\n") + 1
                yield from _folded(f"{lines:,} line{'s' if lines > 1 else ''}", shown, export)
            else:
                yield from _blocks([block], export)
    else:
        yield from _blocks(message.get("content"), export)
        if message.get("stopReason") in ("error", "aborted", "length"):
            reason = inline_text(_string(message.get("errorMessage")))
            yield _comment(BLOCK, {"type": "stop"})
            yield f"*({message['stopReason']}{': ' + reason if reason else ''})*"


def _blocks(content: object, export: Export) -> Iterator[str]:
    for place, block in enumerate(blocks_of(content)):
        kind = block.get("type")
        if kind == "text":
            yield from _text(block.get("text"), first=place == 0)
        elif kind == "thinking":
            if export.thinking and _string(block.get("thinking")).strip():
                text, around = _trimmed(_string(block.get("thinking")))
                yield _comment(BLOCK, {"type": "thinking", "form": text.form, **around})
                yield from _folded("Thinking", text.markdown, export.replace(tools=TOOLS_FOLDED))
        elif kind == "toolCall":
            if export.tools != TOOLS_NONE:
                yield _comment(BLOCK, {"type": "toolCall", "id": block.get("id"), "name": block.get("name")})
                arguments = block.get("arguments")
                shown = fence(json.dumps(arguments, ensure_ascii=False, indent=2), "json")
                yield from _folded(f"{_string(block.get('name'))} {_gist(arguments)}".strip(), shown, export, call=True)
        elif kind == "image":
            size = len(_string(block.get("data"))) * 3 // 4
            yield _comment(BLOCK, {"type": "image", "mimeType": block.get("mimeType"), "bytes": size})
            yield f"*(picture: {inline_text(_string(block.get('mimeType')) or 'unknown kind')}, {size:,} bytes)*"


def _text(value: object, *, first: bool) -> Iterator[str]:
    text = _string(value)
    if not text:
        return
    made, around = _trimmed(text)
    fields = around if made.form == PLAIN else {"form": made.form, **around}
    if not first or fields:
        yield _comment(BLOCK, {"type": "text", **fields})
    yield made.markdown


def _trimmed(text: str) -> tuple[Inserted, JsonObject]:
    """Return a text without the white space at its ends, which Markdown does not keep, and the fields that hold it."""
    bare = text.strip()
    if not bare:
        return inserted(text), {}
    start = text.index(bare)
    around = {"before": text[:start], "after": text[start + len(bare) :]}
    return inserted(bare), {name: blanks for name, blanks in around.items() if blanks}


def _folded(title: str, shown: str, export: Export, *, call: bool = False) -> Iterator[str]:
    """Yield a block under a title: folded, or open."""
    line = " ".join(title.split())
    if export.tools == TOOLS_FOLDED:
        yield f"<details>\n<summary>{html.escape(line)}</summary>"
        yield shown
        yield "</details>"
        return
    if call:
        yield f"Calls {inline_code(line)}"
    yield shown


def _gist(arguments: object) -> str:
    """Return the first words of a call's first text."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((value for value in values if isinstance(value, str)), "")
    return one_line(text, GIST_LENGTH)


def _comment(kind: str, fields: JsonObject) -> str:
    text = dump(fields).replace("<", "\\u003c").replace(">", "\\u003e").replace("--", "-\\u002d")
    return f"<!-- {kind} {text} -->"


def _string(value: object) -> str:
    return content_text(value)
