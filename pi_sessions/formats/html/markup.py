"""Texts, Markdown and code as HTML in which nothing of the content can act.

Raw HTML in Markdown is text; links go to http, https and mail addresses only; pictures named by Markdown are links, so
that reading a page fetches nothing. Control characters and marks that reorder text are shown, not obeyed.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markdown_it.token import Token
    from pygments.lexer import Lexer

LONGEST_COLOURED = 40_000
DEEPEST_HEADING = 6
HEADING_SHIFT = 3

_LINK = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
# C0 and C1 controls but tab and line feed, direction marks, separators, invisible operators, tags, the byte order mark.
_STRANGE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# A text without any of these is the same with or without Markdown.
_MARKDOWN = re.compile(r"[*_`#<>\[\]|~\\&!\n]|^\s|^[-+=]|^\d+[.)]|  $")


def visible(text: str) -> str:
    """Return text with control characters and direction marks shown as `⟨U+202E⟩`, half characters replaced."""
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n"))
    return _STRANGE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def plain_output(text: str) -> str:
    """Return a program's output without the sequences that colour a terminal."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def markdown(text: str, *, breaks: bool = False) -> Markup:
    """Return Markdown as safe HTML.

    Args:
        text: CommonMark with tables.
        breaks: Keep line ends, as people who type mean them.
    """
    shown = visible(text)
    if not _MARKDOWN.search(shown):
        return Markup("<p>%s</p>") % shown
    return Markup(_parser(breaks).render(shown))


def code(text: str, language: str = "", *, filename: str = "") -> Markup:
    """Return a block of code, coloured where its language is known.

    Args:
        text: The code.
        language: As a fence names it.
        filename: Tells the language where `language` does not.
    """
    shown = visible(text)
    lexer = _lexer(language.lower(), filename.rpartition("/")[2]) if len(shown) <= LONGEST_COLOURED else None
    inner = escape(shown) if lexer is None else _coloured(shown, lexer)
    # The first line feed after <pre> would be swallowed.
    return Markup('<pre tabindex="0"><code class="hl">%s</code></pre>') % (
        Markup("\n") * shown.startswith("\n") + inner
    )


@functools.cache
def coloured_kinds() -> frozenset[str]:
    """Return the short names of the kinds of tokens that the style sheet gives a colour."""
    style = (Path(__file__).parent / "page.css").read_text("utf-8")
    return frozenset(re.findall(r"\.hl \.(\w+)", style))


def _coloured(text: str, lexer: Lexer) -> Markup:
    """Return code with an element for each run of a coloured kind; the rest, most of it, stays plain text."""
    pieces: list[str] = []
    run: list[str] = []
    kind, kinds = "", coloured_kinds()
    for token, value in lexer.get_tokens(text):
        found = STANDARD_TYPES.get(token, "")
        found = found if found in kinds else ""
        if found != kind and not (kind and value.isspace()):
            pieces.append(_run(run, kind))
            run, kind = [], found
        run.append(value)
    pieces.append(_run(run, kind))
    return Markup("").join(pieces)


def _run(values: list[str], kind: str) -> Markup:
    text = escape("".join(values))
    return Markup('<span class="%s">%s</span>') % (kind, text) if kind and text else text


@functools.lru_cache(maxsize=256)
def _lexer(language: str, filename: str) -> Lexer | None:
    try:
        if language:
            return get_lexer_by_name(language, stripnl=False, ensurenl=False)
        if filename:
            return get_lexer_for_filename(filename, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return None


@functools.cache
def _parser(breaks: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": breaks}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
    for name, rule in (
        ("fence", _fence),
        ("code_block", _fence),
        ("image", _image),
        ("link_open", _link_open),
        ("heading_open", _heading_open),
        ("heading_close", _heading_close),
        ("table_open", _table_open),
        ("table_close", _table_close),
    ):
        parser.add_render_rule(name, rule)
    return parser


def _fence(_self: Any, tokens: Sequence[Token], place: int, _options: Mapping[str, Any], _env: object) -> str:
    token = tokens[place]
    words = token.info.split()
    return str(code(token.content.removesuffix("\n"), words[0] if words else ""))


def _image(_self: Any, tokens: Sequence[Token], place: int, _options: Mapping[str, Any], _env: object) -> str:
    token = tokens[place]
    link = Markup('<a href="%s" rel="noopener noreferrer nofollow" target="_blank">picture: %s</a>')
    return str(link % (token.attrGet("src") or "", token.content or "without a title"))


def _link_open(self: Any, tokens: Sequence[Token], place: int, options: Mapping[str, Any], _env: object) -> str:
    tokens[place].attrSet("rel", "noopener noreferrer nofollow")
    tokens[place].attrSet("target", "_blank")
    return str(self.renderToken(tokens, place, options, _env))


def _heading_open(_self: Any, tokens: Sequence[Token], place: int, _options: Mapping[str, Any], _env: object) -> str:
    return f"<{_shifted(tokens[place])}>"


def _heading_close(_self: Any, tokens: Sequence[Token], place: int, _options: Mapping[str, Any], _env: object) -> str:
    return f"</{_shifted(tokens[place])}>\n"


def _table_open(_self: Any, _tokens: Sequence[Token], _place: int, _options: Mapping[str, Any], _env: object) -> str:
    return '<div class="wide" tabindex="0"><table>\n'


def _table_close(_self: Any, _tokens: Sequence[Token], _place: int, _options: Mapping[str, Any], _env: object) -> str:
    return "</table></div>\n"


def _shifted(token: Token) -> str:
    """Return the heading's name below those of the page."""
    return f"h{min(int(token.tag[1]) + HEADING_SHIFT, DEEPEST_HEADING)}"
