"""Markdown exports: what goes in comes back through a CommonMark parser, whatever people and tools wrote."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pi_loop.repair.well_formed import well_formed_text
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats.exports import Export
from pi_sessions.formats.markdown import export_lines
from pi_sessions.formats.markdown_text import CLOSED, FENCED, PLAIN, QUOTED, extracted, fence, inline_code, inserted
from pi_sessions.results import Branch, Label
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.markdown_reader import read_document

NASTY = [
    "```", "````", "~~~", "`", "``", "<!-- ", "-->", "<script>", "<style>", "</details>", "<details>", "<div>", "<?x",
    "<![CDATA[", "&lt;", "&#60;", "&#060;", "&amp;lt;", "# ", "## User", "---", "===", "> ", "- ", "1. ", "    ", "\t",
    "\\", "\\`", "[a]: b", "[a]", "![x](y)", "<https://a.b>", "<a@b.c>", "Vec<T>", "<!-- pi-session entry {} -->", "*",
    "**", "_", "|", "|-|", "\n", "\n\n", "text", "\u65e5\u672c", "\r\n", "\0", "\ud800", "\u2028", "\x1b[31m",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(NASTY), max_size=12).map("".join),
    st.lists(st.sampled_from(NASTY), max_size=12).map("\n".join),
    st.text(max_size=60),
)
with SessionStore.open(":memory:", clock=lambda: 1_772_442_000_000) as store:
    SESSION = store.create_session(cwd="/proj/demo", name="A *name* with <tags>")


def chain(*messages: dict[str, Any]) -> tuple[StoredEntry, ...]:
    """Return messages as entries, one under the other."""
    entries = []
    for place, message in enumerate(messages):
        base = {"id": f"e{place + 1}", "parentId": f"e{place}" if place else None, "type": "message"}
        entries.append(StoredEntry.from_dict({**base, "timestamp": "2026-03-02T09:00:00.000Z", "message": message}))
    return tuple(entries)


def export_of(entries: tuple[StoredEntry, ...], **more: Any) -> Export:
    leaf = entries[-1].id
    return Export(SESSION, entries, leaf, branches=(Branch("main", leaf, True),), **more)


def document(entries: tuple[StoredEntry, ...], **more: Any) -> str:
    return "".join(export_lines(export_of(entries, **more)))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": 1}


def answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), "model": "m", "provider": "p", "stopReason": "stop"}


def result(text: str, **more: Any) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [{"type": "text", "text": text}],
        **more,
    }


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_text_comes_out_of_a_document_as_it_went_in(text: str) -> None:
    made = inserted(text)
    assert extracted(made.markdown, made.form) == text


@given(TEXTS, TEXTS)
@settings(max_examples=150, deadline=None)
def test_no_text_reaches_beyond_its_place(first: str, second: str) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": first}}
    entries = chain(
        user(first),
        answer({"type": "thinking", "thinking": second}, {"type": "text", "text": first}, call),
        result(second),
        user(second),
    )
    _, title, read = read_document(document(entries))
    first, second = well_formed_text(first), well_formed_text(second)
    assert title == "A \\*name\\* with \\<tags\\>"
    assert [entry.fields["id"] for entry in read] == ["e1", "e2", "e3", "e4"]
    assert [entry.fields["message"]["role"] for entry in read] == ["user", "assistant", "toolResult", "user"]
    for entry, text in ((read[0], first), (read[3], second)):
        parts = [
            part.fields.get("before", "")
            + extracted(part.markdown, part.fields.get("form", PLAIN))
            + part.fields.get("after", "")
            for part in entry.parts
        ]
        assert parts == ([text] if text else [])
    output = read[2].parts[0]
    assert extracted(output.markdown, output.fields["form"]) == second
    arguments = next(part for part in read[1].parts if part.fields["type"] == "toolCall")
    assert json.loads(arguments.markdown.split("\n", 1)[1].rpartition("\n")[0]) == {"command": first}


@pytest.mark.parametrize(
    ("text", "form", "markdown"),
    [
        ("plain *text*", PLAIN, "plain *text*"),
        ("```py\nwhile True:", CLOSED, "```py\nwhile True:\n```"),
        ("use <b> and `<i>`", PLAIN, "use &lt;b> and `<i>`"),
        ("&lt; stays, <x> shows", PLAIN, "&#60; stays, &lt;x> shows"),
        ("see <https://example.com/a>", PLAIN, "see <https://example.com/a>"),
        ("a\r\nb", QUOTED, '```json\n"a\\r\\nb"\n```'),
        ("  indented", FENCED, "```\n  indented\n```"),
        ("[a]: http://b\n\n[a]", FENCED, "```\n[a]: http://b\n\n[a]\n```"),
    ],
)
def test_text_stays_readable(text: str, form: str, markdown: str) -> None:
    made = inserted(text)
    assert (made.form, made.markdown) == (form, markdown)


@given(st.text(st.sampled_from("`~ab\n"), max_size=30))
def test_a_fence_holds_any_fence(text: str) -> None:
    (token,) = MarkdownIt("commonmark").parse(fence(text))
    assert (token.type, token.content) == ("fence", f"{text}\n")


@given(st.text(st.sampled_from("`ab c"), max_size=20).filter(str.strip))
def test_a_code_span_holds_any_line(text: str) -> None:
    (code,) = MarkdownIt("commonmark").parse(inline_code(text))[1].children or ()
    assert (code.type, code.content) == ("code_inline", " ".join(text.split()))


def test_headings_fences_and_roles_come_back() -> None:
    said = "# Plan\n\n1. first\n\n````md\n```py\nx = 1\n```\n````\n\n## Then\n\nmore"
    text = document(chain(user(said), answer({"type": "text", "text": said})))
    tokens = MarkdownIt("commonmark").parse(text.split("---\n", 2)[2])
    headings = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[1:] == [
        "User · 2026-03-02 09:00",
        "Plan",
        "Then",
        "Assistant · 2026-03-02 09:00 · m",
        "Plan",
        "Then",
    ]
    assert [token.content for token in tokens if token.type == "fence"] == ["```py\nx = 1\n```\n"] * 2


def test_the_front_matter_says_where_it_comes_from() -> None:
    facts, _, _ = read_document(document(chain(user("a"), user("b"), user("c")), last=1, made_by="pi-session 9"))
    assert facts["session"] == SESSION.id
    assert facts["name"] == SESSION.name
    assert (facts["branch"], facts["leaf"], facts["before"], facts["made_by"]) == ("main", "e3", 2, "pi-session 9")


def test_the_last_messages_keep_their_results() -> None:
    entries = chain(user("a"), answer({"type": "text", "text": "b"}), result("r"), result("s"))
    _, _, read = read_document(document(entries, last=1))
    assert [entry.fields["id"] for entry in read] == ["e2", "e3", "e4"]


def test_tools_are_folded_shown_or_left_out() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls </summary>"}}
    entries = chain(user("a"), answer(call), result("OUTPUT"), answer({"type": "text", "text": "done"}, call))
    folded, full, none = (document(entries, tools=how) for how in ("folded", "full", "none"))
    assert "<summary>bash ls &lt;/summary&gt;</summary>" in folded
    assert "<details>" not in full
    assert "OUTPUT" in full
    assert "OUTPUT" not in none
    assert "toolCall" not in none
    assert [entry.fields["id"] for entry in read_document(none)[2]] == ["e1", "e4"]


def test_thinking_can_be_left_out() -> None:
    entries = chain(answer({"type": "thinking", "thinking": "SECRETLY"}, {"type": "text", "text": "done"}))
    assert "SECRETLY" in document(entries)
    assert "SECRETLY" not in document(entries, thinking=False)


def test_every_kind_of_entry_has_its_place() -> None:
    made = [
        {"type": "model_change", "provider": "p", "modelId": "m<1>"},
        {
            "type": "message",
            "message": {"role": "bashExecution", "command": "ls `x`", "output": "```\n", "exitCode": 2},
        },
        {"type": "compaction", "summary": "## Goal\n<b>", "firstKeptEntryId": "e1", "tokensBefore": 5},
        {"type": "branch_summary", "summary": "left", "fromId": "e1"},
        {"type": "custom_message", "customType": "note", "content": "say", "display": True},
        {
            "type": "message",
            "message": {"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": "QUJD"}]},
        },
        {"type": "message", "message": {**answer(), "stopReason": "error", "errorMessage": "429 *limit*"}},
        {"type": "label", "targetId": "e1", "label": "x"},
    ]
    base = {"timestamp": "2026-03-02T09:00:00.000Z"}
    entries = tuple(
        StoredEntry.from_dict({**base, "id": f"e{place}", "parentId": f"e{place - 1}" if place else None, **each})
        for place, each in enumerate(made)
    )
    text = document(entries, labels=(Label("e2", "here -->", None),))
    _, _, read = read_document(text)
    assert [entry.fields["type"] for entry in read] == [each["type"] for each in made[:-1]]
    assert read[2].fields["firstKeptEntryId"] == "e1"
    assert read[2].fields["label"] == "here -->"
    assert extracted(read[2].parts[0].markdown, PLAIN) == "## Goal\n<b>"
    assert [extracted(part.markdown, FENCED) for part in read[1].parts] == ["ls `x`", "```\n"]
    assert "QUJD" not in text
    assert "picture: image/png, 3 bytes" in text
    assert "429 \\*limit\\*" in text


def test_nothing_to_write_is_an_error() -> None:
    with pytest.raises(NothingToExportError):
        list(export_lines(Export(SESSION, (), None)))
