"""Exports of accounts: ChatGPT's nodes, Claude.ai's messages, files too large to hold, cut and damaged files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import SourceError
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import find_sources
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS, context_of, kinds, read_all, totals

CHATGPT = FORMATS / "chatgpt" / "conversations.json"
CLAUDE = FORMATS / "claude-ai" / "conversations.json"


@pytest.fixture
def chatgpt() -> dict[str, ParsedSession]:
    return read_all("chatgpt", CHATGPT)


@pytest.fixture
def claude() -> dict[str, ParsedSession]:
    return read_all("claude-ai", CLAUDE)


def test_chatgpts_tree_is_kept_and_the_current_node_is_the_leaf(chatgpt: dict[str, ParsedSession]) -> None:
    session = chatgpt["conv-1"]
    assert session.leaf == "a3"
    assert context_of(session) == [
        ("custom", "I bake.\n\nBe brief."),
        ("user", "[image]|[image_reference]|What is it?"),
        ("assistant", "<**Looking**\na dot>"),
        ("assistant", "toolCall:c1"),
        ("toolResult", "1"),
        ("assistant", "A dot."),
        ("user", "Edited: draw it"),
        ("assistant", "Here|[hologram]"),
    ]
    assert context_of(session, "a2")[-4:] == [
        ("user", "Search it"),
        ("assistant", "toolCall:c2"),
        ("toolResult", "Found"),
        ("assistant", "Found a dot."),
    ]


def test_chatgpts_calls_models_and_rest(chatgpt: dict[str, ParsedSession]) -> None:
    session = chatgpt["conv-1"]
    by_id = {entry.id: entry.message for entry in session.entries}
    call, result, stopped = by_id["c1"], by_id["r2"], by_id["a2"]
    assert call is not None
    assert call["content"][0]["arguments"] == {"input": "print(1)"}
    assert (call["model"], call["stopReason"]) == ("gpt-5-thinking", "toolUse")
    assert result is not None
    assert (result["toolCallId"], result["toolName"]) == ("c2", "web.run")
    assert stopped is not None
    assert stopped["stopReason"] == "aborted"
    assert dict(session.kept) == {"reasoning_recap": 1}
    assert [unknown.code for unknown in session.unknown] == ["unknown_kind"]
    assert [each.name for each in chatgpt.values()] == ["A dot", None, "Empty"]
    assert session.header["chatgpt"] == {
        "update_time": 1790000012.5,
        "default_model_slug": "gpt-5",
        "is_archived": True,
    }
    assert chatgpt["conv-3"].entries == ()
    assert session.entries[1].timestamp == "2026-09-21T14:13:20.500Z"


def test_claudes_answers_come_apart_at_their_results(claude: dict[str, ParsedSession]) -> None:
    session = claude["c-1"]
    assert session.leaf == "m6"
    assert context_of(session) == [
        ("user", "How do I bake?|[flour.txt]\nwheat|[file]"),
        ("assistant", "<Let me search.>|I search.|toolCall:m2-2"),
        ("toolResult", "Knead."),
        ("assistant", "toolCall:toolu_9"),
        ("toolResult", "boom"),
        ("assistant", "Knead it."),
        ("user", "Edited: and pie?"),
        ("assistant", "Roll it."),
    ]
    assert context_of(session, "m4")[-1] == ("assistant", "Beat eggs.|toolCall:toolu_open")
    assert [repair.code for repair in session.repairs] == ["call_without_result"]
    assert (totals(session).tool_calls, totals(session).tool_results) == (3, 2)
    assert kinds(claude["c-2"].entries) == ["user", "assistant", "user"]
    assert [each.name for each in claude.values()] == ["Bread", None]


def test_both_are_known_by_content_below_a_folder(tmp_path: Path) -> None:
    for source in (CHATGPT, CLAUDE):
        shutil.copytree(source.parent, tmp_path / source.parent.name)
        (tmp_path / source.parent.name / "user.json").write_text('{"id":"user-1","email":"a@example.test"}')
    found = [each for each in find_sources([str(tmp_path)]) if each.format or each.reason]
    assert [each.format.name for each in found if each.format] == ["chatgpt", "claude-ai"]


def test_a_later_export_adds_only_what_is_new(tmp_path: Path, store: SessionStore) -> None:
    for session in read_all("claude-ai", CLAUDE).values():
        store.import_session(session)
    given = json.loads(CLAUDE.read_text("utf-8"))
    more = {"uuid": "k4", "sender": "assistant", "text": "bye bye", "content": [], "created_at": "2026-09-02T00:00:00Z"}
    given[1]["chat_messages"].append(more)
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(given))
    results = [store.import_session(session) for session in read_all("claude-ai", path).values()]
    assert [(result.added, result.unchanged) for result in results] == [(0, True), (1, False)]
    assert results[1].moved_main


@pytest.mark.parametrize(("name", "source"), [("chatgpt", CHATGPT), ("claude-ai", CLAUDE)])
def test_a_file_that_is_cut_keeps_every_whole_message(name: str, source: Path, tmp_path: Path) -> None:
    raw = source.read_bytes()
    whole = {entry.id for session in read_all(name, source).values() for entry in session.entries}
    last = -1
    for cut in range(200, len(raw), 997):
        path = tmp_path / "conversations.json"
        path.write_bytes(raw[:cut])
        try:
            sessions = read_all(name, path)
        except SourceError:
            assert last <= 0
            continue
        kept = {entry.id for session in sessions.values() for entry in session.entries}
        assert kept <= whole
        assert len(kept) >= last
        assert sum(len(session.losses) for session in sessions.values()) == 1
        last = len(kept)
    assert last > len(whole) // 2


LARGE = """
import json, resource, sys
from pi_sessions.formats.registry import identify
found = identify(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sessions = messages = 0
for session in found.format.read(sys.argv[1]):
    sessions += 1
    messages += len(session.entries)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([sessions, messages, peak - before]))
"""


def test_a_large_file_is_read_in_the_memory_of_one_conversation(tmp_path: Path) -> None:
    """Sixty megabytes; the working set may grow by a third of that at most."""
    conversation: dict[str, Any] = json.loads(CLAUDE.read_text("utf-8"))[1]
    conversation["chat_messages"][1]["text"] = "hello " * 20_000
    path = tmp_path / "conversations.json"
    with path.open("w") as file:
        for number in range(500):
            conversation["uuid"] = f"c-{number}"
            file.write("[" if not number else ",")
            json.dump(conversation, file)
        file.write("]")
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    sessions, messages, grown_kib = json.loads(done.stdout)
    assert (sessions, messages) == (500, 1500)
    assert grown_kib < path.stat().st_size // 3 // 1024


def test_half_a_character_in_a_damaged_conversation_is_replaced_in_ids_and_texts(tmp_path: Path) -> None:
    whole = json.loads(CHATGPT.read_text())
    text = json.dumps(whole[0]).replace('"a1"', '"a\\ud800"').replace("Edited: draw it", "Edited \\udc00 draw it")
    source = tmp_path / "conversations.json"
    source.write_text(f"[{text[:-2]}")
    with SessionStore.open(str(tmp_path / "store.db")) as store:
        sessions = [store.import_session(parsed).session.id for parsed in read_all("chatgpt", source).values()]
        assert sessions
        told = json.dumps([entry.to_dict() for each in sessions for entry in store.entries(each)], ensure_ascii=False)
    assert "Edited \ufffd draw it" in told
    assert not any("\ud800" <= character <= "\udfff" for character in told)
