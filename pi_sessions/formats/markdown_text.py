"""Any text inside a Markdown document: readable, unchanged in meaning, unable to break out of its place.

A text is put in as it is wherever that is safe. What would act beyond it is made harmless: raw HTML is escaped so that
it shows (`<` becomes `&lt;` outside code), a fence left open is closed. Whether that worked is not believed but tried:
the result is parsed, and must say the same as the text alone and end where it ends; if it does not, the text goes into
a fence longer than any in it. `inserted` and `extracted` are each other's inverse. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from pi_sessions.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

PLAIN, CLOSED, FENCED, QUOTED = "plain", "closed", "fenced", "quoted"

_HAZARD = re.compile(r"[<\[`~]|^(?: {4}|\t)|&(?:lt|#0*60);", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.\-]{1,31}:[^\s<>]*>)(?![\w.!#$%&'*+/=?^`{|}~\-]+@[\w.\-]+>)")
_ESCAPED = re.compile(r"&lt;|&#0*60;")
_FENCE_OPEN = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS = re.compile(r"`+")
_UNKEPT = re.compile("[\r\0\ud800-\udfff]")
_END = "\n\n## end\n"


class Inserted(Record):
    """A text as it stands in a document.

    Attributes:
        markdown: Its lines.
        form: `plain`; `closed` (a last line was added that closes a fence); `fenced` (all of it stands in a fence);
            `quoted` (it stands in a fence as a JSON string, since Markdown cannot hold its characters).
    """

    markdown: str
    form: str


def inserted(text: str) -> Inserted:
    """Return a text for a document; `extracted` gives it back."""
    if _UNKEPT.search(text):
        return Inserted(fence(json.dumps(text), "json"), QUOTED)
    if not _HAZARD.search(text):
        return Inserted(text, PLAIN) if text.strip() == text and text else Inserted(fence(text), FENCED)
    made = _escaped(text)
    if made is not None:
        for candidate in (Inserted(made, PLAIN), Inserted(f"{made}\n{_closing(text)}", CLOSED)):
            if text.strip() and text.strip("\n") == text and _holds(candidate, text):
                return candidate
    return Inserted(fence(text), FENCED)


def extracted(markdown: str, form: str) -> str:
    """Return the text that `inserted` put into a document."""
    if form in (FENCED, QUOTED):
        inner = markdown.split("\n", 1)[1].rpartition("\n")[0]
        return str(json.loads(inner)) if form == QUOTED else inner
    if form == CLOSED:
        markdown = markdown.rpartition("\n")[0]
    return _outside_code(markdown, lambda piece: _ESCAPED.sub(_raw_again, piece)) if "&" in markdown else markdown


def fence(text: str, language: str = "") -> str:
    """Return text in a fence that nothing in it can close."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def inline_code(text: str) -> str:
    """Return one line of text as a code span."""
    line = " ".join(text.split())
    if not line:
        return ""
    ticks = "`" * (max((len(found) for found in _TICKS.findall(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def inline_text(text: str) -> str:
    """Return one line of text in which no character means anything to Markdown."""
    return re.sub(r"([\\`*_\[\]<>#&!|~])", r"\\\1", " ".join(text.split()))


@functools.cache
def parser(*, html: bool) -> MarkdownIt:
    """Return a CommonMark parser."""
    return MarkdownIt("commonmark", {"html": html})


def _escaped(text: str) -> str | None:
    """Return the text with raw HTML and its own escapes escaped outside code."""
    if "<" not in text and "&" not in text:
        return text
    return _outside_code(text, lambda piece: _TAG.sub("&lt;", _ESCAPED.sub(_one_zero_more, piece)))


def _one_zero_more(found: re.Match[str]) -> str:
    """Make room for our escapes: `&lt;` of the text itself becomes `&#60;`, that `&#060;`, and so on."""
    return "&#60;" if found[0] == "&lt;" else f"&#0{found[0][2:]}"


def _raw_again(found: re.Match[str]) -> str:
    if found[0] == "&lt;":
        return "<"
    return "&lt;" if found[0] == "&#60;" else f"&#{found[0][3:]}"


def _outside_code(text: str, change: object) -> str:
    """Return the text with a change applied to what stands outside blocks of code and code spans."""
    assert callable(change)
    lines = text.split("\n")
    code: set[int] = set()
    for token in parser(html=False).parse(text):
        if token.type in ("fence", "code_block") and token.map:
            code.update(range(*token.map))
    made: list[str] = []
    run: list[str] = []
    for place, line in enumerate(lines):
        if place in code or not line.strip():
            if run:
                made.append(_outside_spans("\n".join(run), change))
                run = []
            made.append(line)
        else:
            run.append(line)
    if run:
        made.append(_outside_spans("\n".join(run), change))
    return "\n".join(made)


def _outside_spans(text: str, change: object) -> str:
    """Return a paragraph's text with a change applied outside its code spans."""
    assert callable(change)
    pieces: list[str] = []
    at = 0
    while True:
        opening = _TICKS.search(text, at)
        while opening and opening.start() and text[opening.start() - 1] == "\\":
            opening = _TICKS.search(text, opening.start() + 1)
        if opening is None:
            break
        closing = next((each for each in _TICKS.finditer(text, opening.end()) if each[0] == opening[0]), None)
        end = closing.end() if closing else opening.end()
        pieces += (change(text[at : opening.start()]), text[opening.start() : end])
        at = end
    return "".join([*pieces, change(text[at:])])


def _closing(text: str) -> str:
    """Return the line that closes the last fence of a text."""
    opened = ""
    for line in text.split("\n"):
        found = _FENCE_OPEN.match(line)
        if found and (not opened or (found[1].startswith(opened) and not line.strip(f" {opened[0]}"))):
            opened = "" if opened else found[1]
    return opened


def _holds(candidate: Inserted, text: str) -> bool:
    """Whether an inserted text says what the text says, ends where it ends, and can be taken out again."""
    if extracted(candidate.markdown, candidate.form) != text:
        return False
    found: dict[str, object] = {}
    tokens = parser(html=True).parse(candidate.markdown + _END, found)
    if found.get("references"):
        # Definitions of links hold for the whole document: those of one text would change the others.
        return False
    last = [token.content or token.tag for token in tokens[-3:]]
    if last != ["h2", "end", "h2"] or tokens[-1].level != 0:
        return False
    return _outline(tokens[:-3]) == _outline(parser(html=False).parse(text))


def _outline(tokens: Sequence[Token]) -> list[tuple[object, ...]]:
    """Return what a document says: its tokens, those of its lines included, escapes resolved."""
    told: list[tuple[object, ...]] = []
    for token in tokens:
        content = token.content.rstrip("\n") if token.type in ("fence", "code_block", "html_block") else ""
        told.append((token.type, token.tag, token.info, content))
        text = ""
        for child in token.children or ():
            if child.type in ("text", "text_special", "entity"):
                text += child.content
                continue
            told.append((text, child.type, child.tag, child.content, tuple(sorted(child.attrs.items()))))
            text = ""
        told.append((text,))
    return told
