"""What an entry says, as the blocks the page's template lays out.

A block is a dict with a `kind`: `text` (html), `thinking` (title, html, size), `call` (tool, gist, parts), `output`
(tool, gist, first, html, size, failed), `image` (source or None, alt), `note` (text, failed). Texts are plain and are
escaped by the template; `html` is safe already.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from pi_sessions.context import blocks_of, content_text
from pi_sessions.formats.exports import TOOLS_NONE
from pi_sessions.formats.html.markup import code, markdown, plain_output, visible
from pi_sessions.texts import system_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from pi_sessions.stored import JsonObject, StoredEntry

    Block = dict[str, Any]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
GIST_FIELDS = ("command", "pattern", "query", "file_path", "path", "filePath", "url", "prompt", "description")
PATH_FIELDS = ("path", "file_path", "filePath")
GIST_LENGTH = 160
LONGEST_DIFF_LINES = 600
SHELLS = ("bash", "shell", "sh", "exec_command", "local_shell")
EDIT_FIELDS = (("oldText", "newText"), ("old_string", "new_string"), ("old_str", "new_str"))


class Calls:
    """The tool calls met so far on one path, by id, so that a result can say what it answers.

    Args:
        above: Those of the path that this one goes on from.
    """

    def __init__(self, above: Calls | None = None) -> None:
        self._above = above
        self._met: dict[str, list[tuple[str, str, str]]] = {}
        self._here: set[str] = set()

    def begin(self) -> None:
        """Begin an answer: its calls stand before earlier ones with the same id."""
        self._here = set()

    def met(self, call: JsonObject, gist: str) -> None:
        """Remember a call of the answer."""
        call_id, arguments = _text(call.get("id")), call.get("arguments")
        path = path_of(arguments) if isinstance(arguments, dict) else ""
        if call_id not in self._here:
            self._here.add(call_id)
            self._met[call_id] = []
        self._met[call_id].append((_text(call.get("name")), gist, path))

    def of(self, call_id: str) -> tuple[str, str, str]:
        """Return tool, gist and path of the call that a result answers; empty texts for an unknown one."""
        known: Calls | None = self
        while known is not None and call_id not in known._met:
            known = known._above
        if known is None:
            return "", "", ""
        waiting = known._met[call_id]
        if len(waiting) > 1:
            # Of calls of one answer that share an id, the next result is the next one's.
            self._met[call_id] = waiting[1:]
        return waiting[0]


def blocks_for(entry: StoredEntry, calls: Calls, *, tools: str, thinking: bool) -> list[Block]:
    """Return the blocks of an entry.

    Args:
        entry: Any entry.
        calls: Those of the entries before it; its own are added.
        tools: How tools are given (`exports.TOOLS`).
        thinking: Whether thinking is given.
    """
    is_message = entry.type == "message"
    made = _message(entry.message or {}, calls, tools) if is_message else _fields(entry.type, entry.fields)
    return [block for block in made if thinking or block["kind"] != "thinking"]


def _message(message: JsonObject, calls: Calls, tools: str) -> Iterator[Block]:
    role = message.get("role")
    if role == "assistant":
        yield from _answer(message, calls, tools)
    elif role == "toolResult":
        tool, gist, path = calls.of(_text(message.get("toolCallId")))
        tool = _text(message.get("toolName")) or tool or "tool"
        if tools == TOOLS_NONE:
            yield _note(f"{tool}: result left out")
            return
        yield _output(tool, gist, content_text(message.get("content")), message.get("isError") is True, path)
        yield from _images(message)
    elif role == "bashExecution":
        command = _text(message.get("command"))
        status = message.get("exitCode")
        failed = status not in (None, 0) or message.get("cancelled") is True
        yield {"kind": "text", "html": code(command, "bash")}
        if tools != TOOLS_NONE:
            yield _output("output", f"exit code {status}" if failed else "", _text(message.get("output")), failed, "")
    elif role in ("compactionSummary", "branchSummary"):
        yield {"kind": "text", "html": markdown(_text(message.get("summary")))}
    elif role == "system":
        yield {"kind": "thinking", "title": "System prompt", **_sized(system_text(message))}
    else:
        text = content_text(message.get("content")).strip("\n")
        if text:
            yield {"kind": "text", "html": markdown(text, breaks=True)}
        yield from _images(message)


def _answer(message: JsonObject, calls: Calls, tools: str) -> Iterator[Block]:
    calls.begin()
    for block in blocks_of(message.get("content")):
        kind = block.get("type")
        if kind == "text" and _text(block.get("text")).strip():
            yield {"kind": "text", "html": markdown(_text(block.get("text")).strip("\n"))}
        elif kind == "thinking" and _text(block.get("thinking")).strip():
            yield {"kind": "thinking", "title": "Thinking", **_sized(_text(block.get("thinking")))}
        elif kind == "toolCall":
            gist = call_gist(block)
            calls.met(block, gist)
            name = _text(block.get("name")) or "tool"
            if tools == TOOLS_NONE:
                yield _note(f"called {name}")
            else:
                yield {"kind": "call", "tool": name, "gist": gist, "parts": call_parts(name, block.get("arguments"))}
        elif kind == "image":
            yield _image(block)
    if message.get("stopReason") in ("error", "aborted", "length"):
        reason = _text(message.get("errorMessage"))
        yield _note(f"{message['stopReason']}{': ' + reason if reason else ''}", failed=True)


def _fields(kind: str, fields: JsonObject) -> Iterator[Block]:
    if kind in ("compaction", "branch_summary"):
        yield {"kind": "text", "html": markdown(_text(fields.get("summary")).strip("\n"))}
    elif kind == "custom_message":
        yield {"kind": "text", "html": markdown(content_text(fields.get("content")).strip("\n"), breaks=True)}
        yield from _images(fields)
    else:
        yield _note(note_text(kind, fields))


def note_text(kind: str, fields: JsonObject) -> str:
    """Return what an entry of bookkeeping says, in one line."""
    if kind == "model_change":
        return f"{_text(fields.get('provider'))}/{_text(fields.get('modelId'))}"
    if kind == "context_edit":
        return f"{'left out' if fields.get('replacement') is None else 'replaced'}: {_text(fields.get('targetId'))}"
    if kind == "label":
        return f"{_text(fields.get('label')) or 'no label'} on {_text(fields.get('targetId'))}"
    for name in ("thinkingLevel", "name", "customType", "kind"):
        if isinstance(fields.get(name), str):
            return str(fields[name])
    return ""


def path_of(arguments: JsonObject) -> str:
    """Return the file a call is about, empty text for none."""
    return next((_text(arguments.get(name)) for name in PATH_FIELDS if arguments.get(name)), "")


def call_gist(call: JsonObject) -> str:
    """Return what a tool call is about, in one short line: its command, its file, what it looks for."""
    arguments = call.get("arguments")
    if not isinstance(arguments, dict):
        return ""
    texts = [arguments[name] for name in GIST_FIELDS if isinstance(arguments.get(name), str)]
    texts += [value for value in arguments.values() if isinstance(value, str)]
    line = " ".join(texts[0][: GIST_LENGTH * 4].split()) if texts else ""
    return line if len(line) <= GIST_LENGTH else line[: GIST_LENGTH - 1] + "…"


def call_parts(name: str, arguments: object) -> list[Block]:
    """Return a call's arguments as blocks of code with a title each; edits as the lines taken out and put in."""
    if not isinstance(arguments, dict):
        return [{"title": "", "html": code(json.dumps(arguments, ensure_ascii=False, indent=2), "json")}]
    path = next(
        (_text(arguments.get(field)) for field in ("path", "file_path", "filePath") if arguments.get(field)), ""
    )
    short: JsonObject = {}
    parts: list[Block] = []
    edits = [arguments, *(each for each in _list(arguments.get("edits")) if isinstance(each, dict))]
    done = set()
    for edit in edits:
        for old, new in EDIT_FIELDS:
            if isinstance(edit.get(old), str) and isinstance(edit.get(new), str):
                parts.append({"title": "", "html": changed_lines(edit[old], edit[new])})
                done |= {old, new} if edit is arguments else {"edits"}
    for field, value in arguments.items():
        if field in done:
            continue
        if isinstance(value, str) and ("\n" in value or len(value) > 80 or (field == "command" and name in SHELLS)):
            language = "bash" if field == "command" or name in SHELLS else ""
            parts.append({"title": "" if field == "command" else field, "html": code(value, language, filename=path)})
        else:
            short[field] = value
    if not parts or set(short) - set(PATH_FIELDS):
        parts.insert(0, {"title": "", "html": code(json.dumps(short, ensure_ascii=False, indent=2), "json")})
    return parts


def changed_lines(old: str, new: str) -> Markup:
    """Return two texts as one, lines taken out and put in marked."""
    before, after = visible(old).split("\n"), visible(new).split("\n")
    told: list[tuple[str, str]] = []
    if len(before) + len(after) > LONGEST_DIFF_LINES:
        told = [("del", line) for line in before] + [("ins", line) for line in after]
    else:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        for kind, first, last, start, end in matcher.get_opcodes():
            if kind == "equal":
                told += [("", line) for line in before[first:last]]
            else:
                told += [("del", line) for line in before[first:last]] + [("ins", line) for line in after[start:end]]
    signs = {"del": "-", "ins": "+", "": " "}
    lines = [
        Markup("<%s>%s %s\n</%s>") % (kind, signs[kind], line, kind) if kind else escape(f"  {line}\n")
        for kind, line in told
    ]
    return Markup('<pre tabindex="0"><code class="edit">%s</code></pre>') % Markup("").join(lines)


def _output(tool: str, gist: str, text: str, failed: bool, path: str) -> Block:
    shown = plain_output(text).strip("\n")
    lines = shown.count("\n") + 1 if shown else 0
    size = "no output" if not shown else f"{lines:,} line{'s' if lines > 1 else ''}"
    first = " ".join(visible(shown[:400]).split("\n", 1)[0].split()) if lines == 1 else ""
    filename = path if tool in ("read", "Read", "view") and not failed else ""
    html = code(shown, filename=filename) if shown else None
    return {
        "kind": "output",
        "tool": tool,
        "gist": gist,
        "first": first[:GIST_LENGTH],
        "html": html,
        "size": size,
        "failed": failed,
    }


def _note(text: str, *, failed: bool = False) -> Block:
    return {"kind": "note", "text": text, "failed": failed}


def _sized(text: str) -> Block:
    return {"html": markdown(text.strip("\n")), "size": f"{len(text):,} characters"}


def _images(message: Mapping[str, Any]) -> Iterator[Block]:
    for block in blocks_of(message.get("content")):
        if block.get("type") == "image":
            yield _image(block)


def _image(block: JsonObject) -> Block:
    kind, data = _text(block.get("mimeType")).lower(), "".join(_text(block.get("data")).split())
    try:
        size = len(base64.b64decode(data, validate=True)) if data else 0
    except (binascii.Error, ValueError):
        size = 0
    if kind not in PICTURES or not size:
        return {"kind": "image", "source": None, "alt": f"picture that cannot be shown ({kind or 'unknown kind'})"}
    return {"kind": "image", "source": f"data:{kind};base64,{data}", "alt": f"picture ({kind}, {size:,} bytes)"}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
