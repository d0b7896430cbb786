"""Gemini CLI: replaced lines, rewinds, new lists of messages, subagents, the older files of one object."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pi_sessions.formats.parsed import ChildOf, ParsedSession
from pi_sessions.formats.registry import find_sources
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS, context_of, kinds, path_of, read_all, totals

LINES = FORMATS / "gemini" / "session-2026-09-01T10-00-0b1c2d3e.jsonl"
OBJECT = FORMATS / "gemini" / "session-2025-09-01T10-00-0b1c2d3e.json"


def chat(path: Path = LINES) -> ParsedSession:
    (session,) = read_all("gemini-cli", path).values()
    return session


def records() -> list[dict[str, object]]:
    return [json.loads(line) for line in LINES.read_text("utf-8").splitlines()]


def test_the_tree_has_the_rewound_branch_and_the_leaf_is_on_the_other() -> None:
    session = chat()
    assert session.leaf == path_of(session)[-1].id
    texts = [entry.payload for entry in path_of(session)]
    assert any("A right question" in text for text in texts)
    assert all("A wrong" not in text for text in texts)
    wrong = next(entry for entry in session.entries if "A wrong question" in entry.payload)
    right = next(entry for entry in session.entries if "A right question" in entry.payload)
    assert wrong.parent_id == right.parent_id


def test_the_context_before_the_compression_holds_masked_outputs() -> None:
    session = chat()
    place = next(entry for entry in session.entries if entry.type == "compaction")
    assert context_of(session, place.parent_id)[:6] == [
        ("custom", "<session_context>\nToday is Tuesday\n</session_context>"),
        ("user", "What is in this picture?|[image]"),
        ("assistant", "<**Looking**\nat the dot>|A dot."),
        ("user", "Read the plan"),
        ("assistant", "toolCall:c1|toolCall:c2|toolCall:c3"),
        ("toolResult", "[masked]"),
    ]
    assert '"PLAN"' in "".join(entry.payload for entry in session.entries)


def test_a_compression_keeps_the_tail_it_names() -> None:
    session = chat()
    assert context_of(session) == [
        (
            "compactionSummary",
            "<state_snapshot>all so far</state_snapshot>\n\nGot it. Thanks for the additional context!",
        ),
        ("user", "Go on"),
        ("assistant", "Going on"),
    ]


def test_usage_counts_each_message_once() -> None:
    """Against the tokens of the last line of each message."""
    last = {record["id"]: record for record in records() if "tokens" in record}
    tokens = [record["tokens"] for record in last.values()]
    told = totals(chat())
    sums = {name: sum(each[name] for each in tokens) for name in ("input", "output", "cached", "thoughts", "tool")}  # type: ignore[index]
    assert told.input == sums["input"] - sums["cached"] + sums["tool"]
    assert told.output == sums["output"] + sums["thoughts"]
    assert told.cache_read == sums["cached"]
    assert (told.tool_calls, told.tool_results, told.assistant_messages) == (3, 2, 6)


def test_what_is_no_conversation_is_kept_and_reported() -> None:
    session = chat()
    assert dict(session.kept) == {"info": 1, "error": 1}
    assert [(unknown.line, unknown.code) for unknown in session.unknown] == [(21, "unknown_kind"), (22, "unknown_kind")]
    assert [repair.code for repair in session.repairs] == ["call_without_result"]
    assert session.title == "About a picture and a plan"
    assert session.header["gemini"]["memoryScratchpad"] == {"x": 1}
    assert session.name is None


def test_an_older_file_and_its_successor_share_their_entries(tmp_path: Path, store: SessionStore) -> None:
    """Resuming an older chat copies it into a file of lines."""
    old = chat(OBJECT)
    assert kinds(old.entries) == ["user", "assistant", "user"]
    given = json.loads(OBJECT.read_text("utf-8"))
    messages = given.pop("messages")
    path = tmp_path / "session-x.jsonl"
    more = {"id": "a4", "timestamp": "2026-09-02T00:00:00.000Z", "type": "gemini", "content": "again"}
    path.write_text("".join(json.dumps(each) + "\n" for each in [given, *messages, more]))
    store.import_session(old)
    result = store.import_session(chat(path))
    assert (result.created, result.shared, result.added, result.moved_main) == (False, 3, 1, True)


def test_a_cut_object_keeps_its_whole_messages(tmp_path: Path) -> None:
    path = tmp_path / "session-cut.json"
    raw = OBJECT.read_bytes()
    path.write_bytes(raw[: raw.index(b'"bye"')])
    session = chat(path)
    assert session.id == "0b1c2d3e-aaaa-4bbb-8ccc-000000000002"
    assert kinds(session.entries) == ["user", "assistant"]
    assert [loss.code for loss in session.losses] == ["torn"]


def test_subagents_lie_in_a_folder_named_for_their_session(tmp_path: Path) -> None:
    project = tmp_path / ".gemini" / "tmp" / "kiosk"
    (project / "chats" / "parent-1").mkdir(parents=True)
    (project / ".project_root").write_text("/proj/kiosk\n")
    shutil.copy(LINES, project / "chats" / LINES.name)
    lines = LINES.read_text("utf-8").replace('"main"', '"subagent"').replace("000000000001", "000000000009")
    (project / "chats" / "parent-1" / "sub.jsonl").write_text(lines)
    (project / "logs.json").write_text('[{"sessionId":"s","messageId":0,"type":"user","message":"hi","timestamp":"x"}]')
    found = list(find_sources([str(tmp_path / ".gemini")]))
    assert [each.format.name for each in found if each.format] == ["gemini-cli", "gemini-cli"]
    main, child = (chat(Path(each.path)) for each in found)
    assert main.child_of is None
    assert main.cwd == child.cwd == "/proj/kiosk"
    assert child.child_of == ChildOf("parent-1", "0b1c2d3e-aaaa-4bbb-8ccc-000000000009")


def test_a_rewind_to_an_unknown_message_clears_all(tmp_path: Path) -> None:
    path = tmp_path / "session-x.jsonl"
    path.write_text(LINES.read_text("utf-8") + '{"$rewindTo":"nowhere"}\n')
    session = chat(path)
    assert session.leaf is None
    assert len(session.entries) == len(chat().entries)


def test_importing_again_adds_nothing_and_growth_only_what_is_new(tmp_path: Path, store: SessionStore) -> None:
    path = tmp_path / "session-x.jsonl"
    lines = LINES.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:8]))
    store.import_session(chat(path))
    path.write_text("".join(lines))
    grown = store.import_session(chat(path))
    assert grown.shared == len(chat(path).entries) - grown.added
    assert grown.moved_main
    assert store.import_session(chat(path)).unchanged


# --- what `/chat save` wrote ----------------------------------------------------------------------------------------

SAVED = FORMATS / "gemini" / "checkpoint-oven%20plan.json"


def test_a_checkpoint_is_a_session_named_after_its_tag() -> None:
    session = chat(SAVED)
    assert context_of(session) == [
        (
            "custom",
            "This is the Gemini CLI. We are setting up the context for our chat.\nToday's date is Monday.",
        ),
        ("assistant", "Got it. Thanks for the context!"),
        ("user", "What is in |the plan?|[image]"),
        ("assistant", "<I should read it.>|Let me look.|toolCall:call-1|toolCall:call-2|toolCall:own-3"),
        ("toolResult", "PLAN"),
        ("toolResult", "no such file"),
        ("toolResult", "plan.md"),
        ("assistant", "A plan.|[executableCode]"),
        ("user", "Thanks"),
    ]
    results = [entry.message or {} for entry in session.entries if entry.role == "toolResult"]
    assert [(each["toolCallId"], each["toolName"], each["isError"]) for each in results] == [
        ("call-1", "read_file", False),
        ("call-2", "read_file", True),
        ("own-3", "list_directory", False),
    ]
    assert session.name == "oven plan"
    assert session.id.startswith("gemini-cli-oven-plan-")
    assert session.header["gemini"] == {"checkpoint": "oven plan", "authType": "oauth-personal"}
    assert (totals(session).tool_calls, totals(session).tool_results, totals(session).cost) == (3, 3, 0)
    assert {entry.timestamp for entry in session.entries} == {None}
    assert session.created_ms == session.mtime_ms
    calls = next(entry.message for entry in session.entries if "call-1" in entry.payload)
    assert calls is not None
    assert [block.get("thoughtSignature") for block in calls["content"][2:]] == ["Y2FsbA==", None, None]


def test_the_older_bare_list_is_the_same_conversation(tmp_path: Path) -> None:
    given = json.loads(SAVED.read_bytes())
    for indent in (None, 2):
        path = tmp_path / SAVED.name
        path.write_text(json.dumps(given["history"], indent=indent))
        older = chat(path)
        assert [entry.id for entry in older.entries] == [entry.id for entry in chat(SAVED).entries]
        assert older.id == chat(SAVED).id


def test_checkpoints_of_one_chat_share_their_beginning_and_a_saved_again_one_grows(
    tmp_path: Path, store: SessionStore
) -> None:
    given = json.loads(SAVED.read_bytes())
    first, second = tmp_path / "checkpoint-a.json", tmp_path / "checkpoint-b.json"
    first.write_text(json.dumps({"history": given["history"][:6]}))
    second.write_text(json.dumps(given))
    assert store.import_session(chat(first)).added == 8
    result = store.import_session(chat(second))
    assert (result.created, result.added, result.shared) == (True, 1, 8)
    first.write_text(json.dumps(given))
    again = store.import_session(chat(first))
    assert (again.created, again.added, again.moved_main) == (False, 0, True)


def test_checkpoints_are_found_beside_the_chats_with_their_folder(tmp_path: Path) -> None:
    project = tmp_path / ".gemini" / "tmp" / "abc"
    (project / "chats").mkdir(parents=True)
    (project / "checkpoints").mkdir()
    (project / ".project_root").write_text("/home/me/oven\n")
    shutil.copy(SAVED, project)
    shutil.copy(LINES, project / "chats")
    restore = {"history": [{"type": "user", "text": "hi"}], "clientHistory": [], "toolCall": {"name": "replace"}}
    (project / "checkpoints" / "x-replace.json").write_text(json.dumps(restore))
    found = list(find_sources([str(tmp_path / ".gemini")]))
    assert sorted(Path(each.path).name for each in found) == sorted([SAVED.name, LINES.name])
    assert chat(project / SAVED.name).cwd == "/home/me/oven"


def test_lists_of_other_programs_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-x.json"
    chatgpt = json.loads((FORMATS / "chatgpt" / "conversations.json").read_bytes())
    for node in chatgpt[0]["mapping"].values():
        if node["message"]:
            node["message"]["content"]["parts"] = ["long " * 20_000]
    for value in (
        [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "content": "hi"}],
        chatgpt,
    ):
        path.write_text(json.dumps(value))
        (found,) = find_sources([str(path)])
        assert found.format is None or found.format.name in ("messages", "chatgpt")
        assert (value is chatgpt) == (found.format is not None and found.format.name == "chatgpt")


def test_a_checkpoint_that_is_cut_keeps_every_whole_content(tmp_path: Path) -> None:
    raw = SAVED.read_bytes()
    whole = [entry.id for entry in chat(SAVED).entries]
    path = tmp_path / SAVED.name
    most = 0
    for cut in range(260, len(raw), 53):
        path.write_bytes(raw[:cut])
        (found,) = find_sources([str(path)])
        if found.format is None:
            assert cut < 400
            continue
        session = chat(path)
        kept = [entry.id for entry in session.entries]
        assert kept == whole[: len(kept)]
        assert session.losses or cut > raw.rindex(b"]")
        most = max(most, len(kept))
    assert most == len(whole)
