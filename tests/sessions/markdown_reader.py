"""Reads our Markdown back as its documentation says, with a CommonMark parser and nothing of the writer."""

from __future__ import annotations

import json
from typing import Any

from markdown_it import MarkdownIt

ENTRY, BLOCK = "<!-- pi-session entry ", "<!-- pi-session block "
FOLDS = ("<details>", "</details>")


class Part:
    """A block of an entry: the comment's fields and the Markdown that follows."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.lines: list[str] = []

    @property
    def markdown(self) -> str:
        """What stands there, blank lines around it left out."""
        return "\n".join(self.lines).strip("\n")


class ReadEntry:
    """An entry: the comment's fields, the heading for people, the parts."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.heading = ""
        self.parts: list[Part] = []


def read_document(text: str) -> tuple[dict[str, Any], str, list[ReadEntry]]:
    """Return front matter, title and entries of a document."""
    opening, front, body = text.split("---\n", 2)
    assert opening == ""
    facts = {name: json.loads(value) for name, value in (line.split(": ", 1) for line in front.splitlines())}
    lines = body.split("\n")
    tokens = [token for token in MarkdownIt("commonmark").parse(body) if token.level == 0 and token.map]
    title = ""
    entries: list[ReadEntry] = []
    for place, token in enumerate(tokens):
        assert token.map is not None
        end = tokens[place + 1].map[0] if place + 1 < len(tokens) else len(lines)  # type: ignore[index]
        piece = lines[token.map[0] : end]
        first = piece[0]
        if token.type == "html_block" and first.startswith(ENTRY):
            entries.append(ReadEntry(json.loads(first.removeprefix(ENTRY).removesuffix(" -->"))))
        elif not entries:
            title = first.removeprefix("# ")
        elif not entries[-1].heading:
            entries[-1].heading = first
        elif token.type == "html_block" and first.startswith(BLOCK):
            entries[-1].parts.append(Part(json.loads(first.removeprefix(BLOCK).removesuffix(" -->"))))
        elif token.type == "html_block" and first.startswith(FOLDS):
            continue
        else:
            if not entries[-1].parts:
                entries[-1].parts.append(Part({"type": "text"}))
            entries[-1].parts[-1].lines += piece
    return facts, title, entries
