"""The HTML export without a browser: what stands in the page, and what cannot."""

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.formats.exports import Export
from pi_sessions.formats.html import export_lines
from pi_sessions.formats.html.content import call_parts, changed_lines
from pi_sessions.formats.html.markup import code, markdown, visible
from pi_sessions.formats.html.page import sections_of
from pi_sessions.tree import build_tree
from tests.browser.pages import ATTACKS, entry, from_file, hostile, said
from tests.sessions.test_markdown import SESSION

VOID = {"meta", "link", "input", "img", "br", "hr"}
ALLOWED = {
    "a", "article", "aside", "b", "blockquote", "body", "br", "button", "code", "dd", "del", "dialog", "div", "dl",
    "dt", "em", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "img", "input", "ins",
    "kbd", "label", "li", "link", "main", "meta", "nav", "ol", "option", "p", "pre", "s", "script", "section",
    "select", "span", "strong", "style", "table", "tbody", "td", "th", "thead", "time", "title", "tr", "ul",
}  # fmt: skip


class Page(HTMLParser):
    """Collects elements, attributes and the text a reader sees; complains about elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.scripts.append(data)
        elif self._open and self._open[-1] != "title":
            self.text.append(data)


def page_of(export: Export) -> str:
    return "".join(export_lines(export))


def of(*messages: dict[str, Any], **more: Any) -> Export:
    entries = tuple(entry(place, place - 1 if place else None, message) for place, message in enumerate(messages))
    return Export(SESSION, entries, entries[-1].id, True, **more)


def test_hostile_content_adds_no_element_and_no_attribute() -> None:
    page = Page(page_of(hostile()))
    assert {tag for tag, _ in page.tags} <= ALLOWED
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [
        name for name in names if name.startswith("on") or name in ("style", "srcdoc", "srcset", "action", "background")
    ]
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    for tag, attributes in page.tags:
        if "src" in attributes:
            assert tag == "img"
            assert str(attributes["src"]).startswith("data:image/")
        if "href" in attributes and tag == "a":
            assert str(attributes["href"]).startswith(("#", "https://evil.example/pixel.png"))
    seen = "".join(page.text)
    for attack in ATTACKS[:8]:
        assert visible(attack) in seen


def test_only_the_pages_own_script_and_style_are_allowed() -> None:
    text = page_of(of(said("user", "hello")))
    told = unescape(re.findall(r'Security-Policy" content="([^"]*)"', text)[0])
    policy = dict(part.split(" ", 1) for part in told.split("; "))
    inner = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", text, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in inner]
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"{hashes[0]} {hashes[2]}"
    assert policy["style-src"] == hashes[1]
    assert "unsafe" not in str(policy)


@given(st.lists(st.text(st.sampled_from("<>&\"'`*_[]()!#\n -ab\x00\u202e\ud800")), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_text_leaves_the_page_whole(texts: list[str]) -> None:
    calls = [
        {"type": "toolCall", "id": "c", "name": text, "arguments": {text: text, "command": text}} for text in texts
    ]
    page = Page(page_of(of(*(said("user", text) for text in texts), said("assistant", texts[0], *calls), tools="full")))
    assert {tag for tag, _ in page.tags} <= ALLOWED
    assert not set("".join(page.text)) & set("\x00\u202e\ud800")


def test_data_for_the_script_cannot_end_its_element() -> None:
    text = page_of(of(said("user", "</script><script>alert(1)</script> <!--")))
    data = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0]
    assert "<" not in data
    assert json.loads(data)["entries"][0][2] == "</script><script>alert(1)</script> <!--"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "<p>plain</p>"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>\n"),
        ("[a](#b) [c](data:text/html,x)", "<p>[a](#b) [c](data:text/html,x)</p>\n"),
        ("# Head", "<h4>Head</h4>\n"),
        (
            "[a](https://b.example)",
            '<p><a href="https://b.example" rel="noopener noreferrer nofollow" target="_blank">a</a></p>\n',
        ),
        (
            "![a](https://b.example)",
            '<p><a href="https://b.example" rel="noopener noreferrer nofollow" target="_blank">picture: a</a></p>\n',
        ),
        ("a\u202eb\x07", "<p>a⟨U+202E⟩b⟨U+0007⟩</p>"),
    ],
)
def test_markdown_is_safe(text: str, html: str) -> None:
    assert str(markdown(text)) == html


def test_code_is_coloured_where_its_language_is_known() -> None:
    assert '<span class="k">def </span>' in code("def f(): pass", "python")
    assert '<span class="k">def </span>' in code("def f(): pass", filename="/x/y.py")
    assert code("<x>", "no such language") == '<pre tabindex="0"><code class="hl">&lt;x&gt;</code></pre>'
    assert "<span" not in code("x = 1\n" * 20_000, "python")


@given(st.text(st.sampled_from("def f():\n\t 'x'<&>#1"), max_size=60))
@settings(max_examples=80, deadline=None)
def test_colours_change_no_character(text: str) -> None:
    html = str(code(text, "python"))
    inner = html.removeprefix('<pre tabindex="0"><code class="hl">').removesuffix("</code></pre>")
    page = Page(f"<div>{inner}</div>")
    shown = "".join(page.text)
    assert (shown[1:] if text.startswith("\n") else shown) == text


def test_an_edit_is_shown_as_lines_taken_out_and_put_in() -> None:
    html = str(changed_lines("a\nb\nc", "a\nB\nc"))
    assert "<del>- b\n</del><ins>+ B\n</ins>" in html
    (changed,) = call_parts("edit", {"path": "x.py", "edits": [{"oldText": "a", "newText": "b"}]})
    assert "<del>" in str(changed["html"])
    (short, changed) = call_parts("Edit", {"file_path": "x.py", "old_string": "a", "new_string": "b", "all": True})
    assert "x.py" in str(short["html"])
    assert "<ins>" in str(changed["html"])
    (path,) = call_parts("read", {"path": "x.py"})
    assert "x.py" in str(path["html"])


def test_every_path_is_a_run_of_sections_in_the_pages_order() -> None:
    parents = [None, 0, 1, 1, 3, 3, 2, None, 7]
    entries = [entry(place, parent, said("user", str(place))) for place, parent in enumerate(parents)]
    sections = sections_of(build_tree(entries), {entries[place].id for place in (0, 1, 3, 5)})
    assert sorted(each for section in sections for each in section.ids) == sorted(each.id for each in entries)
    assert all(section.parent < place for place, section in enumerate(sections))
    assert [int(each, 16) for each in sections[0].ids] == [0, 1]
    assert int(sections[1].ids[0], 16) == 3


def test_pictures_are_shown_and_what_is_none_is_named() -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    shown = {"type": "image", "mimeType": "image/png", "data": png}
    broken = {"type": "image", "mimeType": "image/png", "data": "%%"}
    drawing = {"type": "image", "mimeType": "image/svg+xml", "data": png}
    text = page_of(of(said("user", "look", shown, broken, drawing)))
    assert re.findall(r"<img [^>]*>", text) == [
        f'<img src="data:image/png;base64,{png}" alt="picture (image/png, 4 bytes)">'
    ]
    assert text.count("picture that cannot be shown") == 2


def test_tools_and_thinking_are_folded_open_or_left_out() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make THING"}}
    thinking = {"type": "thinking", "thinking": "SECRETLY"}
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": "RESULT\nlines"}
    messages = (said("assistant", "go", thinking, call), result)
    folded, opened = page_of(of(*messages)), page_of(of(*messages, tools="full"))
    without = page_of(of(*messages, tools="none", thinking=False))
    assert 'class="fold call"' in folded
    assert 'class="fold call open"' in opened
    assert "SECRETLY" in folded
    for gone in ("SECRETLY", "make THING", "RESULT\n"):
        assert gone not in without.partition('id="data"')[0]


def test_a_chain_of_twenty_thousand_entries_needs_no_recursion() -> None:
    text = page_of(of(*(said("user", f"step {place}") for place in range(20_000))))
    assert text.count("<article ") == 20_000
    assert "step 19999" in text


def test_a_session_without_entries_or_without_a_leaf_is_a_page() -> None:
    assert "<main" in page_of(Export(SESSION, (), None, True))
    entries = of(said("user", "before the first entry")).entries
    assert "data-off" not in page_of(Export(SESSION, entries, None, True)).partition("<main")[2].partition("<script")[0]


def test_raw_html_of_the_case_is_text() -> None:
    from tests.sessions.pi_files import CASES

    page = Page(page_of(from_file(CASES / "s25-raw-html" / "raw-html.jsonl")))
    assert any("LAST-MESSAGE-MARKER" in text for text in page.text)
    assert "iframe" not in {tag for tag, _ in page.tags}
    assert sum(tag == "style" for tag, _ in page.tags) == 1
