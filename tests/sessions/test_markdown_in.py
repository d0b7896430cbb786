"""Markdown of our own export read back: the same entries within what Markdown holds, whatever was edited or cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_loop.repair.well_formed import well_formed_text
from pi_sessions.errors import SourceError
from pi_sessions.formats.exports import Export
from pi_sessions.formats.markdown import export_lines
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import find_sources, format_named
from pi_sessions.store import SessionStore
from tests.sessions.foreign import context_of, read_all
from tests.sessions.pi_files import check
from tests.sessions.test_markdown import TEXTS, answer, chain, document, user

CALL = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls ```\n<!-- x -->"}}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call_1",
    "toolName": "bash",
    "content": [{"type": "text", "text": "a\n\n```b\n"}],
    "isError": True,
    "timestamp": 3,
}
SHELL = {
    "role": "bashExecution",
    "command": "make",
    "output": "<!-- pi-session entry {} -->",
    "exitCode": 2,
    "timestamp": 4,
}
TALK = chain(
    {"role": "system", "content": "Be kind.", "timestamp": 1},
    user("Why <b>this</b>?"),
    answer({"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Look:\n\n- a\n- b"}, CALL),
    RESULT,
    SHELL,
    answer({"type": "text", "text": "one"}, {"type": "text", "text": "two"}),
    {"role": "user", "content": [{"type": "text", "text": "done"}], "timestamp": 5},
)


def read_text(folder: Path, text: str) -> ParsedSession:
    path = folder / "export.md"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    (session,) = read_all("markdown", path).values()
    return session


@pytest.mark.parametrize("tools", ["full", "folded"])
def test_entries_come_back_as_they_were(tmp_path: Path, tools: str) -> None:
    session = read_text(tmp_path, document(TALK, tools=tools))
    assert [entry.to_dict() for entry in session.entries] == [entry.to_dict() for entry in TALK]
    assert session.leaf == TALK[-1].id
    assert session.repairs == session.losses == ()
    assert session.name == "A *name* with <tags>"
    assert session.cwd == "/proj/demo"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_any_text_comes_back(tmp_path: Path, texts: list[str]) -> None:
    entries = chain(*(user(text) for text in texts), answer(*({"type": "text", "text": text} for text in texts)))
    session = read_text(tmp_path, document(entries))
    said = [entry.message["content"] for entry in session.entries if entry.message]
    texts = [well_formed_text(text) for text in texts]
    assert said[:-1] == texts
    assert [block["text"] for block in said[-1]] == [text for text in texts if text]


@pytest.mark.parametrize("text", ["  indented", "ends\n\n", "\n\tboth \u2003", " ", "     ", "\n\n", "\r", "\x85a\x85"])
def test_white_space_at_the_ends_of_a_text_comes_back(tmp_path: Path, text: str) -> None:
    blocks = [{"type": "thinking", "thinking": f"{text}why{text}"}, {"type": "text", "text": text}]
    session = read_text(tmp_path, document(chain(user(text), answer(*blocks))))
    assert [entry.message["content"] for entry in session.entries if entry.message] == [text, blocks]


def test_white_space_at_the_end_leaves_a_text_readable() -> None:
    assert "\n\n# Plan\n" in document(chain(user("# Plan\n")))


def test_compactions_notes_and_labels(tmp_path: Path, store: SessionStore) -> None:
    made = store.create_session(cwd="/proj/demo")
    first, second = store.append_many(
        made.id, [{"type": "message", "message": user("a")}, {"type": "message", "message": user("b")}]
    )
    more: list[dict[str, Any]] = [
        {"type": "compaction", "summary": "So far.", "firstKeptEntryId": second.id, "tokensBefore": 9},
        {"type": "custom_message", "customType": "note", "content": "mind this", "display": True},
        {"type": "model_change", "provider": "openai", "modelId": "gpt-5"},
        {"type": "custom", "customType": "x", "data": 1},
        {"type": "message", "message": user("c")},
    ]
    store.append_many(made.id, more)
    store.set_label(made.id, first.id, "start")
    path = tuple(store.path(made.id))
    export = Export(store.session(made.id), path, path[-1].id, labels=tuple(store.labels(made.id).values()))
    file = tmp_path / "talk.md"
    file.write_text("".join(export_lines(export)), encoding="utf-8")
    (found,) = [each for each in find_sources([str(tmp_path)]) if each.format]
    assert found.format is not None
    (session,) = read_all("markdown", file).values()
    assert context_of(session) == [
        ("compactionSummary", "So far."), ("user", "b"), ("custom", "mind this"), ("user", "c"),
    ]  # fmt: skip
    assert session.labels == {first.id: ("start", None)}
    before = store.operations(made.id)
    result = store.import_session(session)
    assert (result.session.id, result.added, result.unchanged) == (made.id, 0, True)
    assert store.operations(made.id) == before
    assert [each.id for each in store.sessions()] == [made.id]


@pytest.mark.parametrize("last", [None, 2])
def test_what_was_edited_becomes_a_branch_of_the_session(tmp_path: Path, store: SessionStore, last: int | None) -> None:
    sid = store.create_session(cwd="/p", name="Oven").id
    drafts = [user("one"), answer({"type": "text", "text": "two"}), user("three")]
    *_before, answered, asked = store.append_many(sid, [{"type": "message", "message": each} for each in drafts])
    path = tuple(store.path(sid))
    text = "".join(export_lines(Export(store.session(sid), path, path[-1].id, last=last)))
    result = store.import_session(read_text(tmp_path, text.replace("three", "four")))
    assert (result.session.id, result.added, result.new_branch) == (sid, 1, "main-2")
    other = store.path(sid, "".join(each.leaf or "" for each in store.branches(sid) if each.name == "main-2"))
    assert [entry.message["content"] for entry in other if entry.message][-1] == "four"
    assert other[-1].parent_id == answered.id
    assert store.session(sid).leaf == asked.id


def test_where_the_session_is_not_a_form_of_it_is_a_session_of_its_own(tmp_path: Path, store: SessionStore) -> None:
    text = document(TALK)
    first = store.import_session(read_text(tmp_path, text))
    assert first.session.id.endswith("-markdown")
    assert store.import_session(read_text(tmp_path, text)).unchanged
    with SessionStore.open(str(tmp_path / "home.db")) as home:
        whole = home.create_session(cwd="/p", id=first.session.id.removesuffix("-markdown")).id
        home.append(whole, {"type": "message", "message": user("something else")})
        assert home.import_session(read_text(tmp_path, text)).session.id == first.session.id


def test_a_removed_session_is_not_brought_back_by_a_form_of_it(tmp_path: Path, store: SessionStore) -> None:
    sid = store.create_session(cwd="/p").id
    store.append(sid, {"type": "message", "message": user("one")})
    path = tuple(store.path(sid))
    parsed = read_text(tmp_path, "".join(export_lines(Export(store.session(sid), path, path[-1].id))))
    store.delete_session(sid)
    assert store.import_session(parsed).removed_before


def test_an_edited_file_keeps_what_can_be_read(tmp_path: Path) -> None:
    text = document(TALK)
    torn = text.replace('<!-- pi-session entry {"id":"e2"', '<!-- pi-session entry {"id":"e2', 1)
    session = read_text(tmp_path, torn)
    assert [entry.id for entry in session.entries] == ["e1", "e3", "e4", "e5", "e6", "e7"]
    assert [loss.code for loss in session.losses] == ["torn"]
    assert session.entries[1].parent_id == "e1"
    crlf = read_text(tmp_path, text.replace("\n", "\r\n"))
    assert [entry.to_dict() for entry in crlf.entries] == [entry.to_dict() for entry in TALK]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(document(TALK).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        length = data.draw(st.integers(0, 40))
        raw[at : at + length] = data.draw(st.sampled_from([b"", b"\0" * 9, b"```", b"\xff\xfe", b"\n<!-- ", b"\n"]))
    path = tmp_path / "damaged.md"
    path.write_bytes(raw)
    format = format_named("markdown")
    assert format is not None
    try:
        (session,) = format.read(str(path))
    except SourceError:
        return
    check(session)


def test_other_markdown_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\ntitle: x\n---\n\n# Hello\n")
    assert [found for found in find_sources([str(tmp_path)]) if found.format] == []
    (tmp_path / "later.md").write_text('---\nformat: "pi-session-markdown/2"\n---\n')
    format = format_named("markdown")
    assert format is not None
    with pytest.raises(SourceError, match="unknown kind"):
        list(format.read(str(tmp_path / "later.md")))
