"""Reads Markdown that our export made back into entries.

A CommonMark parser finds the comments that begin entries and blocks, so that nothing a person or a tool wrote is taken
for one. What is read is a form of the exported session, without what Markdown cannot hold (usage, signatures, bytes of
pictures). Where that session is, its entries are known again, and what was edited becomes a branch of it; elsewhere the
form becomes a session with an id of its own, so that the whole one can still come.

Source: `pi-session-markdown/1` (`markdown`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from pi_sessions.errors import SourceError
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.foreign_values import arguments_of, object_of, text_block, text_of, time_of
from pi_sessions.formats.markdown_in import IMPORTER
from pi_sessions.formats.markdown_text import FENCED, PLAIN, QUOTED, extracted
from pi_sessions.formats.parsed import Repair, Tally
from pi_sessions.formats.pi_reader import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

NAME = "markdown"
FORMAT = "pi-session-markdown/1"
_ENTRY, _BLOCK = "<!-- pi-session entry ", "<!-- pi-session block "
_END = " -->"
_FOLDS = ("<details>", "</details>")
_FENCE = re.compile(r"^(`{3,})[^`\n]*\n", re.MULTILINE)
_BASE = ("id", "parentId", "type", "timestamp", "message", "content", "label")


class _Part:
    """A block of an entry: the fields of its comment and the Markdown behind it."""

    def __init__(self, fields: JsonObject) -> None:
        self.fields = fields
        self.lines: list[str] = []

    @property
    def kind(self) -> str:
        return text_of(self.fields.get("type"))

    def text(self) -> str:
        """Return the text that the export put there.

        Raises:
            ValueError: it does not stand there in that form.
        """
        markdown = "\n".join(self.lines).strip("\n")
        form = text_of(self.fields.get("form")) or PLAIN
        if form in (FENCED, QUOTED):
            markdown = _fenced(markdown)
        before, after = text_of(self.fields.get("before")), text_of(self.fields.get("after"))
        return before + extracted(markdown, form) + after


class _Entry:
    """An entry: where it begins, the fields of its comment, its parts."""

    def __init__(self, line: int, fields: JsonObject) -> None:
        self.line = line
        self.fields = fields
        self.headed = False
        self.parts: list[_Part] = []


def read_markdown(path: str) -> ParsedSession:
    """Read one file; errors as `markdown_in.read`."""
    with open_source(path) as file:
        mtime_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
        raw = file.read()
    if not raw:
        raise SourceError(f"{path} is empty", hint="there is nothing to import; the file was left as it is")
    builder = SessionBuilder(NAME, path, IMPORTER)
    text = raw.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in raw:
        builder.repairs.append(Repair(None, "invalid_utf8", "bytes that are no UTF-8 became U+FFFD"))
    lines = text.split("\n")
    start, facts = _front_matter(lines)
    if facts.get("format") not in (None, FORMAT):
        hint = "a later version of pi-session made it; update pi-session"
        raise SourceError(f"{path} is Markdown of the unknown kind {facts['format']}", hint=hint)
    lost: set[int] = set()
    entries = list(_entries(lines, start, builder, lost))
    if not entries:
        raise SourceError(f"{path} holds no entry of an export")
    labels = _add(builder, entries)
    made = {entry.line for entry in entries}
    blank = sum(not line.strip() for line in lines)
    total = len(lines) - (not lines[-1])
    blank -= not lines[-1]
    skipped = total - start - len(made) - len(lost) - blank
    blank_ahead = sum(not line.strip() for line in lines[:start])
    tally = Tally(
        lines=total,
        header=start - blank_ahead,
        entries=len(made),
        facts=0,
        blank=blank,
        skipped=skipped + blank_ahead,
        lost=len(lost),
    )
    session_id = text_of(facts.get("session"))
    parsed = builder.finish(
        id=f"{session_id or computed_id(entries[0].fields)}-markdown",
        tally=tally,
        digest=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        mtime_ms=mtime_ms,
        cwd=text_of(facts.get("cwd")),
        created_ms=time_of(facts.get("created")),
        parent_ref=session_id or None,
        name=text_of(facts.get("name")) or None,
        labels=labels,
        copied=True,
    )
    found: ParsedSession = parsed.replace(form_of=session_id or None)
    return found


def _front_matter(lines: list[str]) -> tuple[int, JsonObject]:
    """Return how many lines the front matter has, and what it says."""
    facts: JsonObject = {}
    if lines[0].strip() != "---":
        return 0, facts
    for number, line in enumerate(lines[1:], 1):
        if line.strip() == "---":
            return number + 1, facts
        name, _colon, value = line.partition(": ")
        if line.startswith("<!--"):
            break
        try:
            facts[name] = json.loads(value)
        except ValueError:
            continue
    return 0, facts


def _entries(lines: list[str], start: int, builder: SessionBuilder, lost: set[int]) -> Iterator[_Entry]:
    """Yield the entries of the document; comments that cannot be read are losses."""
    body = "\n".join(lines[start:])
    tokens = [token for token in MarkdownIt("commonmark").parse(body) if token.level == 0 and token.map]
    places = [token.map[0] + start for token in tokens if token.map] + [len(lines)]
    current: _Entry | None = None
    for place, token in enumerate(tokens):
        begin = places[place]
        piece = lines[begin : places[place + 1]]
        first = piece[0]
        is_html = token.type == "html_block"
        if is_html and first.startswith(_ENTRY):
            if current is not None:
                yield current
            fields = _comment(first, _ENTRY)
            current = None if fields is None else _Entry(begin + 1, fields)
            if fields is None:
                lost.add(begin + 1)
                found = "the comment of an entry cannot be read; the entry is lost"
                builder.losses.append(Repair(begin + 1, "torn", found, None, first.encode("utf-8", "replace")))
        elif current is None:
            continue
        elif not current.headed:
            current.headed = True
        elif is_html and first.startswith(_BLOCK):
            fields = _comment(first, _BLOCK)
            if fields is None:
                found = "the comment of a block cannot be read; what follows was taken as text"
                builder.repairs.append(Repair(begin + 1, "torn", found, None, first.encode("utf-8", "replace")))
            current.parts.append(_Part(fields if fields is not None else {"type": "text"}))
        elif not (is_html and first.startswith(_FOLDS)):
            if not current.parts:
                current.parts.append(_Part({"type": "text"}))
            current.parts[-1].lines += piece
    if current is not None:
        yield current


def _comment(line: str, start: str) -> JsonObject | None:
    text = line.strip()
    if not text.endswith(_END):
        return None
    try:
        fields = json.loads(text[len(start) : -len(_END)])
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _fenced(markdown: str) -> str:
    """Return the fence in a stretch of Markdown, its lines included.

    Raises:
        ValueError: there is none that ends.
    """
    opening = _FENCE.search(markdown)
    if opening is None:
        raise ValueError("there is no fence")
    end = markdown.rfind(f"\n{opening[1]}")
    if end < opening.end() - 1:
        raise ValueError("the fence does not end")
    return markdown[opening.start() : end + 1 + len(opening[1])]


def _add(builder: SessionBuilder, entries: list[_Entry]) -> dict[str, tuple[str, int | None]]:
    """Add the entries; what stands between them in the session and is not in the document is bridged.

    Returns:
        The labels.
    """
    labels: dict[str, tuple[str, int | None]] = {}
    known = {text_of(entry.fields.get("id")) for entry in entries}
    previous: str | None = None
    for entry in entries:
        fields = entry.fields
        parent = fields.get("parentId")
        added = builder.add(
            text_of(fields.get("type")) or "custom",
            _own_fields(builder, entry),
            id=text_of(fields.get("id")) or computed_id(fields, entry.line),
            parent=parent if isinstance(parent, str) and parent in known else previous,
            time_ms=time_of(fields.get("timestamp")),
            line=entry.line,
        )
        previous = added.id
        if added.id == fields.get("id"):
            builder.own_ids.add(added.id)
        if isinstance(fields.get("label"), str):
            labels[added.id] = (fields["label"], None)
    return labels


def _own_fields(builder: SessionBuilder, entry: _Entry) -> JsonObject:
    fields = entry.fields
    message = fields.get("message")
    own = {name: value for name, value in fields.items() if name not in _BASE}
    if isinstance(message, dict):
        return _message(builder, entry, object_of(message))
    if fields.get("type") in ("compaction", "branch_summary"):
        return {"summary": _text(builder, entry), **own}
    if fields.get("type") == "custom_message":
        return {**own, "content": _content(builder, entry)}
    return own


def _message(builder: SessionBuilder, entry: _Entry, message: JsonObject) -> JsonObject:
    role = message.get("role")
    if role == "bashExecution":
        told = {part.kind: _text_of(builder, entry, part) for part in entry.parts}
        return {**message, "command": told.get("command", ""), "output": told.get("output", "")}
    if role in ("compactionSummary", "branchSummary"):
        return {**message, "summary": _text(builder, entry)}
    return {**message, "content": _content(builder, entry)}


def _content(builder: SessionBuilder, entry: _Entry) -> str | list[JsonObject]:
    if entry.fields.get("content") == "text":
        return _text(builder, entry)
    found = (_block(builder, entry, part) for part in entry.parts)
    return [block for block in found if block is not None]


def _text(builder: SessionBuilder, entry: _Entry) -> str:
    return "\n\n".join(_text_of(builder, entry, part) for part in entry.parts)


def _block(builder: SessionBuilder, entry: _Entry, part: _Part) -> JsonObject | None:
    if part.kind == "text":
        return text_block(_text_of(builder, entry, part))
    if part.kind == "thinking":
        return {"type": "thinking", "thinking": _text_of(builder, entry, part)}
    if part.kind == "toolCall":
        part.fields["form"] = FENCED
        call = {"type": "toolCall", "id": text_of(part.fields.get("id")), "name": text_of(part.fields.get("name"))}
        return call | arguments_of(_text_of(builder, entry, part))
    if part.kind == "image":
        return {**part.fields, "type": "image_reference"}
    return None if part.kind == "stop" else {**part.fields, "type": part.kind or "text"}


def _text_of(builder: SessionBuilder, entry: _Entry, part: _Part) -> str:
    try:
        return part.text()
    except (ValueError, IndexError):
        found = "a block is not as the export wrote it; it was taken as it stands"
        builder.repairs.append(Repair(entry.line, "changed_block", found, text_of(entry.fields.get("id")) or None))
        return "\n".join(part.lines).strip("\n")
