"""What a Claude Code transcript becomes: tree, context, usage, titles, subagents."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.file_operations import file_operations
from pi_sessions.search_index import catch_up, is_behind
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import (
    FORMATS,
    SAMPLES,
    context_of,
    path_of,
    read_all,
    records_of,
    take_in,
    told,
    write_lines,
)
from tests.sessions.pi_files import CASES, by_id, codes, lost, tree

HOME = FORMATS / "claude-code"
EVERY = HOME / "projects" / "-proj-bakery" / "5f1e0c2a-0000-4000-8000-00000000000a.jsonl"
AGENT = EVERY.with_suffix("") / "subagents" / "agent-a1b2.jsonl"


def usage_by_id(path: Path) -> dict[str, dict[str, int]]:
    """Count the usage of a file independently: the last one of each answer."""
    found = {}
    for record in records_of(path):
        message = record.get("message") or {}
        if record["type"] == "assistant" and message.get("model") != "<synthetic>":
            found[message["id"]] = message["usage"]
    return found


def test_s15_records_of_one_answer_are_one_message_and_count_once() -> None:
    path = CASES / "s15-split-assistant-message" / "split-message.jsonl"
    (session,) = read_all(path)
    messages = [entry for entry in path_of(session) if entry.message]
    assert [entry.role for entry in messages] == ["user", "assistant", "toolResult", "toolResult", "assistant"]
    answer = messages[1].message
    assert answer is not None
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "toolCall", "toolCall"]
    usages = [entry.message["usage"] for entry in messages if entry.role == "assistant" and entry.message]
    assert sum(usage["output"] for usage in usages) == 190
    assert [usage["cacheRead"] for usage in usages] == [14874, 16205]
    assert session.name is None


def test_s06_a_missing_parent_is_bridged_and_the_side_chain_stays_apart() -> None:
    main, side = read_all(CASES / "s06-dangling-parent" / "dangling-parent.jsonl")
    assert [line[:4] for line in told(path_of(main))] == ["user", "assi"] * 3
    assert codes(main) == [(4, "missing_parent")]
    assert (codes(side), [entry.id for entry in side.entries]) == ([], ["e1"])
    assert side.child_of is not None
    assert side.child_of.session_id == main.id


def test_s07_children_may_stand_before_their_parents() -> None:
    (session,) = read_all(CASES / "s07-child-before-parent" / "child-before-parent.jsonl")
    said = [line for line in told(path_of(session)) if line.startswith("user")]
    assert said == ["user: First request: fix the parser.", "user: Second request: fix the lexer.",
                    "user: Third request: release notes."]  # fmt: skip
    assert codes(session) == []
    assert [item.line for item in session.unknown] == [7]
    assert dict(session.kept) == {"progress": 1, "system.turn_duration": 1}


def test_s11_empty_blocks_are_stored_as_they_came() -> None:
    path = CASES / "s11-empty-blocks" / "empty-blocks.jsonl"
    (session,) = read_all(path)
    blocks = [
        block.get("text")
        for record in records_of(path)
        if isinstance((record.get("message") or {}).get("content"), list)
        for block in record["message"]["content"]
        if block["type"] == "text"
    ]
    stored = [
        block["text"]
        for entry in session.entries
        if entry.message and entry.role != "toolResult" and isinstance(entry.message["content"], list)
        for block in entry.message["content"]
        if block["type"] == "text"
    ]
    assert "" in blocks
    assert stored == blocks
    assert (codes(session), lost(session)) == ([], [])


def test_the_reduced_sample() -> None:
    main, side = read_all(SAMPLES / "claude-code-reduced.jsonl")
    assert [line for line in told(path_of(main)) if not line.startswith("toolResult")] == [
        "assistant: I will look for commands first. [Glob] [Glob]",
        "assistant: None found.",
    ]
    calls = [entry.message["toolCallId"] for entry in main.entries if entry.role == "toolResult" and entry.message]
    assert calls == ["toolu_s4", "toolu_s5"]
    assert main.title == "/plan make a to-do app"
    assert told(list(side.entries)) == ["assistant: Side task text."]


def test_a_compaction_after_a_rewind_keeps_the_tree_in_one_piece() -> None:
    (session,) = read_all(SAMPLES / "claude-code-compact-after-rewind-reduced.jsonl")
    assert tree(session) == {
        "r1": None, "r2": "r1", "r3": "r2", "r4": "r3", "r5": "r2", "r6": "r5", "r7": "r6", "r9": "r7", "r10": "r9",
    }  # fmt: skip
    assert session.leaf == "r10"
    summary, *later = context_of(session)
    assert "two attempts were made" in summary
    assert later == ["user: After compaction", "assistant: Final answer"]


def test_every_kind_of_record_is_kept() -> None:
    (session,) = read_all(EVERY)
    assert session.losses == ()
    assert codes(session) == []
    lines = {line for line in session.lines if line}
    shared_lines = {10, 11, 12, 13}  # Further parts of the answer on line 9.
    assert lines | shared_lines == set(range(1, session.lines_read + 1))
    assert [(item.line, item.code) for item in session.unknown] == [(42, "unknown_kind")]
    assert session.name == "Bakery leaflet"
    stored = json.dumps([entry.to_dict() for entry in session.entries])
    for fact in ("todo_reminder", "PostToolUse", "hookCount", "and the rolls?", "Model fallback", "trackedFileBackups",
                 "permissionMode", "prUrl", "relocatedCwd", "toolu_read.txt", "No response requested."):  # fmt: skip
        assert fact in stored, fact


def test_numbers_equal_an_independent_count() -> None:
    (session,) = read_all(EVERY)
    answers = [entry.message for entry in session.entries if entry.role == "assistant" and entry.message]
    expected = usage_by_id(EVERY)
    found = {message["responseId"]: message["usage"] for message in answers if message["stopReason"] != "error"}
    assert found.keys() == expected.keys()
    for name, usage in expected.items():
        assert found[name]["input"] == usage["input_tokens"]
        assert found[name]["output"] == usage["output_tokens"]
        assert found[name]["cacheRead"] == usage["cache_read_input_tokens"]
        assert found[name]["cacheWrite"] == usage["cache_creation_input_tokens"]
    calls = sum(block["type"] == "toolCall" for message in answers for block in message["content"])
    assert calls == sum(entry.role == "toolResult" for entry in session.entries) == 3


def test_blocks_keep_their_content() -> None:
    (session,) = read_all(EVERY)
    entries = by_id(session)
    question = entries["5f1e0000-0000-4000-8000-000000000004"].message
    answer = entries["5f1e0000-0000-4000-8000-000000000006"].message
    assert question is not None
    assert answer is not None
    assert [block["type"] for block in question["content"]] == ["text", "image", "document"]
    assert question["content"][1]["mimeType"] == "image/png"
    assert [block["type"] for block in answer["content"]] == ["thinking", "thinking", "text", "toolCall", "toolCall"]
    assert answer["content"][0]["thinkingSignature"] == "c2ln"
    assert (answer["content"][1]["redacted"], answer["content"][1]["thinkingSignature"]) == (True, "b3BhcXVl")
    failed = next(entry.message for entry in session.entries if entry.message and entry.message.get("isError"))
    assert failed["toolName"] == "Bash"
    assert failed["details"] == "Error: No such directory"


def test_machine_text_is_no_question_but_stays_in_the_context() -> None:
    (session,) = read_all(EVERY)
    asked = [line for line in told(path_of(session)) if line.startswith("user")]
    assert asked == ["user: What is on this picture, and what does the leaflet say? <image> <document>",
                     "user: And the rolls?", "user: Then close."]  # fmt: skip
    kinds = [entry.fields["customType"] for entry in session.entries if entry.type == "custom_message"]
    assert kinds == ["claude-code.meta", "claude-code.command", "claude-code.local-command",
                     "claude-code.interrupted", "claude-code.shell", "claude-code.shell"]  # fmt: skip
    assert "custom: <bash-input>ls</bash-input>" in context_of(session)


def test_results_of_parallel_calls_follow_their_answer_in_one_line() -> None:
    (session,) = read_all(EVERY)
    path = [entry.id[-2:] for entry in path_of(session) if entry.message]
    assert path[:4] == ["04", "06", "0b", "0d"]


def test_an_error_of_the_api_names_no_made_up_model() -> None:
    (session,) = read_all(EVERY)
    failed = [
        entry.message for entry in session.entries if entry.message and entry.message.get("stopReason") == "error"
    ]
    (message,) = failed
    assert (message["model"], message["errorMessage"]) == ("claude-opus-4-1", "API Error: 529 overloaded")


def test_files_that_were_touched_are_known_under_the_tools_own_names() -> None:
    (session,) = read_all(EVERY)
    found = file_operations(entry.message for entry in session.entries if entry.message)
    assert found.read == ("/proj/bakery/leaflet.txt",)


def test_what_a_compaction_kept_flattens_as_in_claude_code(tmp_path: Path) -> None:
    (session,) = read_all(HOME / "kept-segment.jsonl")
    summary, *rest = context_of(session)
    assert summary == "compactionSummary: Summary of one, two and four"
    assert rest == [
        "user: Third question",
        "assistant: Third answer",
        "user: Fifth question",
        "assistant: Fifth answer",
    ]
    assert codes(session) == [(11, "kept_again")]
    listed = records_of(HOME / "kept-segment.jsonl")
    segment = listed[8]["compactMetadata"].pop("preservedSegment")
    listed[8]["compactMetadata"]["preservedMessages"] = {
        "anchorUuid": segment["anchorUuid"], "uuids": [segment["headUuid"], segment["tailUuid"]]
    }  # fmt: skip
    (again,) = read_all(write_lines(tmp_path / "listed.jsonl", *listed))
    assert context_of(again) == context_of(session)


def test_a_subagents_file_is_a_child_of_the_call_that_began_it(tmp_path: Path) -> None:
    for order in ((EVERY, AGENT), (AGENT, EVERY)):
        with SessionStore.open(str(tmp_path / f"{order[0].stem}.db")) as store:
            take_in(store, *order)
            main = store.session("5f1e0c2a-0000-4000-8000-00000000000a")
            child = store.session("5f1e0c2a-0000-4000-8000-00000000000a.agent-a1b2")
            assert (child.parent_session, child.parent_call) == (main.id, "toolu_task")
            assert [session.id for session in store.sessions()] == [main.id]
            assert {session.id for session in store.sessions(children=True)} == {main.id, child.id}


def test_an_inline_side_chain_is_linked_by_its_prompt(tmp_path: Path) -> None:
    records = records_of(EVERY)
    side = [{**record, "sessionId": records[3]["sessionId"]} for record in records_of(AGENT)]
    for record in side:
        del record["agentId"]
    main, child = read_all(write_lines(tmp_path / "inline.jsonl", *records[:20], *side, *records[20:]))
    assert child.child_of is not None
    assert child.child_of.call_id == "toolu_task"
    assert told(list(child.entries)) == ["user: Count the loaves.", "assistant: Twelve loaves"]
    assert main.tally.adds_up()


@pytest.mark.parametrize("name", ["kept-ids", "new-ids"])
@pytest.mark.parametrize("fork_first", [False, True])
def test_a_fork_shares_what_it_copied_whatever_comes_first(name: str, fork_first: bool, tmp_path: Path) -> None:
    origin, fork = HOME / "forks" / "origin.jsonl", HOME / "forks" / f"{name}.jsonl"
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        take_in(store, *((fork, origin) if fork_first else (origin, fork)))
        count = store.connection.execute("select count(*) from entries").fetchone()[0]
        assert count == 5
        first, second = (read_all(path)[0].id for path in (origin, fork))
        assert told(store.path(first))[:2] == told(store.path(second))[:2]
        assert [len(store.path(each)) for each in (first, second)] == [4, 3]
        assert store.verify() == []
        assert [store.import_session(read_all(path)[0]).added for path in (fork, origin)] == [0, 0]


def test_an_answer_that_was_read_in_part_becomes_whole_and_is_not_doubled(tmp_path: Path) -> None:
    records = records_of(CASES / "s15-split-assistant-message" / "split-message.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for count in range(2, len(records) + 1):
            (parsed,) = read_all(write_lines(tmp_path / "growing.jsonl", *records[:count]))
            result = store.import_session(parsed)
            assert result.new_branch is None
        (whole,) = read_all(CASES / "s15-split-assistant-message" / "split-message.jsonl")
        assert [entry.to_dict() for entry in store.path(result.session.id)] == [
            entry.to_dict() for entry in path_of(whole)
        ]
        assert store.connection.execute("select count(*) from entries").fetchone()[0] == len(whole.entries)


def test_the_index_follows_an_answer_that_grew(tmp_path: Path) -> None:
    records = records_of(CASES / "s15-split-assistant-message" / "split-message.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for count in (3, 4, 9):
            take_in(store, write_lines(tmp_path / "growing.jsonl", *records[:count]))
            catch_up(store.connection)
        found = store.connection.execute("select rowid from entry_index where entry_index match 'look AND both'")
        assert len(found.fetchall()) == 1
        assert store.connection.execute("insert into entry_index(entry_index) values('integrity-check')") is not None
        assert not is_behind(store.connection)


def test_a_session_that_went_on_in_both_places_becomes_two_branches(tmp_path: Path) -> None:
    records = records_of(HOME / "forks" / "origin.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, write_lines(tmp_path / "a.jsonl", *records[:2]))
        store.append_message(sid, {"role": "user", "content": "here"})
        (parsed,) = read_all(write_lines(tmp_path / "a.jsonl", *records))
        result = store.import_session(parsed)
        assert (result.added, result.new_branch) == (2, "main-2")
        assert told(store.path(sid))[-1] == "user: here"
        assert told(store.path(sid, store.leaf(sid, "main-2")))[-1] == "assistant: Iron"


def test_entries_know_where_they_come_from(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, EVERY)
        (parsed,) = read_all(EVERY)
        for entry, line in zip(parsed.entries, parsed.lines, strict=True):
            origin = store.origin(sid, entry.id)
            assert origin is not None
            assert (origin.format, origin.source, origin.line) == ("claude-code", str(EVERY), line)
        own = store.append_message(sid, {"role": "user", "content": "here"})
        assert store.origin(sid, own.id) is None


def test_damage_is_mended_as_in_pi_files(tmp_path: Path) -> None:
    lines = EVERY.read_text(encoding="utf-8").splitlines()
    question, answer = lines[19], lines[20]
    damaged: list[Any] = [lines[3], question[:60], question + answer, "\0\0" + lines[21], '{"x":', lines[22][:50]]
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join(damaged).replace("rolls?", "rolls \\ud83d?"), encoding="utf-8")
    (session,) = read_all(path)
    assert [entry.role for entry in session.entries if entry.message] == ["user", "assistant", "toolResult"]
    found = dict(codes(session))
    assert found[2] == "torn_repeated"
    assert found[4] in ("nul_padding", "missing_parent")
    assert lost(session) == [(5, "torn"), (6, "cut_off")]
    assert "rolls \ufffd?" in told(list(session.entries))[0]


def record(kind: str, uuid: str, parent: str | None, content: object, second: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"msg_{second}", "model": "claude-sonnet-4-5", "usage": {"output_tokens": 1}}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message,
            "timestamp": f"2026-04-01T10:00:{second:02}.000Z"}  # fmt: skip


RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "one"}
CALL = [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (record("user", "b", "a", "Hello", 2), record("user", "b", "a", "Something else", 3)),
        (record("assistant", "b", "a", [{"type": "text", "text": "One"}], 2),
         record("assistant", "b", "a", [{"type": "text", "text": "Two"}], 3)),
        (record("user", "b", "a", [RESULT], 2), record("user", "b", "a", [{**RESULT, "content": "two"}], 3)),
        (record("user", "b", "a", "Hello", 2), record("assistant", "b", "a", CALL, 3)),
    ],
)  # fmt: skip
def test_a_uuid_that_is_there_with_other_content_gets_an_id_of_its_own(
    tmp_path: Path, first: dict[str, Any], other: dict[str, Any]
) -> None:
    start = record("user", "a", None, "Begin", 1)
    (twice,) = read_all(write_lines(tmp_path / "s.jsonl", start, first, first))
    assert ([entry.id for entry in twice.entries], codes(twice)) == (["a", "b"], [(3, "repeated")])
    (session,) = read_all(write_lines(tmp_path / "s.jsonl", start, first, other))
    assert [entry.id for entry in session.entries] == ["a", "b", "b-2"]
    assert codes(session) == [(3, "duplicate_id")]


@pytest.mark.parametrize("behind", [0, 1])
def test_a_compaction_waits_for_its_summary(tmp_path: Path, behind: int) -> None:
    start = [record("user", "a", None, "Begin", 1), record("assistant", "b", "a", [{"type": "text", "text": "Yes"}], 2)]
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None, "sessionId": "s",
                "logicalParentUuid": "b", "timestamp": "2026-04-01T10:01:00.000Z", "compactMetadata": {}}  # fmt: skip
    note = [{"type": "mode", "mode": "normal", "sessionId": "s"}] * behind
    summary = {**record("user", "d", "c", "What was said.", 3), "isCompactSummary": True}
    path = tmp_path / "s.jsonl"
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (early,) = read_all(write_lines(path, *start, boundary, *note))
        assert ([entry.id for entry in early.entries], codes(early)) == (["a", "b"], [(3, "unfinished")])
        assert (early.kept, early.leaf) == ((), "b")
        assert early.repairs[0].message.endswith("; lines left out: 3, 4" if behind else "is written")
        store.import_session(early)
        (whole,) = read_all(write_lines(path, *start, boundary, *note, summary))
        result = store.import_session(whole)
        assert (result.added, result.shared) == (1 + behind, 2)
        kinds = [entry.type for entry in store.entries("s")]
        assert kinds == ["message", "message", "compaction", *["custom"] * behind]
        assert store.path("s")[2].fields["summary"] == "What was said."
