"""What Claude Code and Codex need in our exports so that they go on with them; found with the real tools.

`tests/interop/test_resumed.py` lets the tools go on; here the files are read as those tools read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats import claude_code_writer, codex_writer
from pi_sessions.formats.edited import LEFT_OUT
from pi_sessions.formats.exports import read_export
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import path_of, read_all, text_of
from tests.sessions.stores import open_store

Json = Any

WRITERS = {"claude-code": claude_code_writer, "codex": codex_writer}
# What the API takes in a question and in an answer; it refuses the whole request otherwise.
ASKED = {"text", "image", "document", "search_result", "tool_result"}
SAID = {"text", "thinking", "redacted_thinking", "tool_use"}
USAGE = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def ask(store: SessionStore, session_id: str, content: Json) -> str:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return store.append_message(session_id, {"role": "user", "content": blocks}).id


def answer(store: SessionStore, session_id: str, content: Json, **more: Any) -> str:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    message = {"role": "assistant", "content": blocks, "stopReason": "stop", "usage": USAGE}
    message |= {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-5"}
    return store.append_message(session_id, message | more).id


def exported(store: SessionStore, session_id: str, form: str) -> list[Json]:
    session = store.session(session_id)
    export = read_export(store, session, session.leaf, whole_tree=form == "claude-code")
    return [json.loads(line) for line in WRITERS[form].export_lines(export)]


def check_nothing_new(store: SessionStore, session_id: str, records: list[Json], folder: Path) -> None:
    """Importing an export again adds nothing and leaves the leaf where it is."""
    path = folder / "back.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    leaf = store.session(session_id).leaf
    [parsed] = read_all(path)
    assert parsed.repairs == ()
    result = store.import_session(parsed)
    assert (result.session.id, result.added) == (session_id, 0)
    assert store.session(session_id).leaf == leaf


def shown_by_claude_code(records: list[Json]) -> list[str]:
    """Give the texts Claude Code goes on with.

    Nothing before the last boundary but what it keeps; from there up from the newest record of the chain.
    """
    last = max((n for n, each in enumerate(records) if each.get("subtype") == "compact_boundary"), default=0)
    kept = records[last].get("compactMetadata", {}).get("preservedMessages", {})
    known = {each["uuid"]: each for each in records[last:] if "uuid" in each}
    before = {each.get("uuid"): each for each in records[:last]}
    above = kept.get("anchorUuid")
    for uuid in kept.get("uuids", ()):
        known[uuid] = {**before[uuid], "parentUuid": above}
        above = uuid
    named = [each["leafUuid"] for each in records if each["type"] == "last-prompt"]
    at = named[-1] if named else [each["uuid"] for each in records if "uuid" in each][-1]
    found: list[str] = []
    while at is not None:
        # It takes what lies below the place it is pointed at, too: the newest there.
        below = [each for each in known.values() if each["parentUuid"] == at] if not found else []
        if below:
            at = below[-1]["uuid"]
            continue
        record = known[at]
        if record["type"] in ("user", "assistant"):
            content = record["message"]["content"]
            found.append(content if isinstance(content, str) else " ".join(map(text, content)))
        elif not found:
            found.append("")
        at = record["parentUuid"]
    return [each for each in found[::-1] if each]


def text(block: Json) -> str:
    return str(block.get("text") or block.get("content") or f"[{block['type']}]")


def items_of(records: list[Json]) -> list[Json]:
    """Give the items Codex goes on with: after a compaction its replacement and what came later."""
    found: list[Json] = []
    for record in records:
        if record["type"] == "compacted":
            found = list(record["payload"]["replacement_history"])
        elif record["type"] == "response_item":
            found.append(record["payload"])
    return found


def said_by_codex(records: list[Json]) -> list[str]:
    return ["".join(part.get("text", "") for part in item["content"]) for item in items_of(records)]


def test_a_rollout_names_no_provider_of_ours_since_codex_resumes_with_that_one_only(store: SessionStore) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "Hello")
    head, *_rest = exported(store, session, "codex")
    assert head["type"] == "session_meta"
    assert "model_provider" not in head["payload"]


def test_a_summary_says_what_it_is_and_stands_first(store: SessionStore, tmp_path: Path) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "One")
    answer(store, session, "Two")
    kept = ask(store, session, "Three")
    answer(store, session, "Four")
    fields = {"type": "compaction", "summary": "One led to two.", "firstKeptEntryId": kept, "tokensBefore": 9}
    store.append(session, fields)
    ask(store, session, "Five")
    for form, said in (("claude-code", shown_by_claude_code), ("codex", said_by_codex)):
        records = exported(store, session, form)
        summary, *rest = said(records)
        assert "The conversation history before this point was compacted" in summary
        assert "One led to two." in summary
        assert rest == ["Three", "Four", "Five"]
        check_nothing_new(store, session, records, tmp_path)


def test_blocks_that_a_tool_would_refuse_stay_in_the_mark(store: SessionStore, tmp_path: Path) -> None:
    session = store.create_session(cwd="/p").id
    source = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    document = {"type": "document", "source": source}
    reference = {"type": "image_reference", "image_url": "https://example.org/a.png"}
    ask(store, session, [{"type": "text", "text": "What is this?"}, document, reference, {"type": "new_kind", "a": 1}])
    search = {"type": "web_search_call", "status": "completed"}
    answer(store, session, [search, {"type": "text", "text": "A loaf."}], provider="openai", api="openai-responses")
    claude, codex = (exported(store, session, form) for form in WRITERS)
    for record in claude:
        allowed = ASKED if record["type"] == "user" else SAID
        assert {block["type"] for block in record["message"]["content"]} <= allowed
    [question, served, said] = items_of(codex)
    assert [part["type"] for part in question["content"]] == ["input_text", "input_image"]
    assert (served["type"], said["role"]) == ("web_search_call", "assistant")
    for records in (claude, codex):
        check_nothing_new(store, session, records, tmp_path)


def test_a_leaf_that_others_follow_is_where_claude_code_goes_on(store: SessionStore, tmp_path: Path) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "One")
    leaf = answer(store, session, "Two")
    ask(store, session, "Three")
    answer(store, session, "Four")
    store.rewind(session, leaf)
    records = exported(store, session, "claude-code")
    assert shown_by_claude_code(records) == ["One", "Two"]
    check_nothing_new(store, session, records, tmp_path)


def test_what_goes_on_behind_the_place_we_pointed_at_goes_on_behind_the_leaf(
    store: SessionStore, tmp_path: Path
) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "One")
    leaf = answer(store, session, "Two")
    ask(store, session, "Three")
    store.rewind(session, leaf)
    records = exported(store, session, "claude-code")
    tip = next(each for each in records if each["type"] == "system")
    new = {**records[0], "uuid": "00000000-0000-4000-8000-0000000000aa", "parentUuid": tip["uuid"]}
    del new["piSession"]
    new["message"] = {"role": "user", "content": "And now?"}
    path = tmp_path / "grown.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*records, new]), encoding="utf-8")
    [parsed] = read_all(path)
    assert store.import_session(parsed).added == 1
    assert [text_of(entry.message) for entry in path_of(parsed)] == ["One", "Two", "And now?"]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_compaction_beside_the_path_cuts_nothing_off(store: SessionStore, tmp_path: Path, goes_on: bool) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "One")
    kept = ask(store, session, "Two")
    leaf = answer(store, session, "Three")
    fields = {"type": "compaction", "summary": "Said.", "firstKeptEntryId": kept, "tokensBefore": 9}
    compaction = store.append(session, fields).id
    if goes_on:
        ask(store, session, "After it")
    store.rewind(session, leaf)
    ask(store, session, "Four")
    records = exported(store, session, "claude-code")
    assert shown_by_claude_code(records) == ["One", "Two", "Three", "Four"]
    check_nothing_new(store, session, records, tmp_path)
    path = tmp_path / "alone.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with open_store(tmp_path / "other.db") as other:
        [parsed] = read_all(path)
        other.import_session(parsed)
        assert other.entry(session, compaction).fields == store.entry(session, compaction).fields


def test_branches_come_back_where_they_were(store: SessionStore, tmp_path: Path) -> None:
    """Also behind records that are no messages, as Claude Code writes them between two messages."""
    session = store.create_session(cwd="/p").id
    ask(store, session, "One")
    note = {"type": "attachment", "attachment": {"type": "date", "date": "2026-01-01"}}
    place = store.append(session, {"type": "custom", "customType": "claude-code.attachment", "data": note}).id
    answer(store, session, "Two")
    store.rewind(session, place)
    answer(store, session, "Another two")
    check_nothing_new(store, session, exported(store, session, "claude-code"), tmp_path)


def test_edited_entries_are_told_as_a_model_sees_them(store: SessionStore, tmp_path: Path) -> None:
    session = store.create_session(cwd="/p").id
    secret = ask(store, session, "The code is 1234")
    long = answer(store, session, "A very long answer")
    ask(store, session, "Go on")
    store.append(session, {"type": "context_edit", "targetId": secret, "replacement": None})
    store.append(session, {"type": "context_edit", "targetId": long, "replacement": {"content": "Short"}})
    for form, said in (("claude-code", shown_by_claude_code), ("codex", said_by_codex)):
        records = exported(store, session, form)
        assert said(records) == [LEFT_OUT, "Short", "Go on"]
        check_nothing_new(store, session, records, tmp_path)


def test_the_beginning_of_an_answer_that_was_cut_off_is_told(store: SessionStore, tmp_path: Path) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "Tell me")
    answer(store, session, "Once upon", stopReason="aborted", errorMessage="Request was aborted")
    ask(store, session, "And?")
    for form, said in (("claude-code", shown_by_claude_code), ("codex", said_by_codex)):
        records = exported(store, session, form)
        assert said(records) == ["Tell me", "Once upon", "And?"]
        check_nothing_new(store, session, records, tmp_path)


def test_records_of_unknown_kinds_without_a_uuid_go_out_without_one(store: SessionStore, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    head: Json = {"sessionId": "00000000-0000-4000-8000-000000000001", "cwd": "/p"}
    head["timestamp"] = "2026-01-01T00:00:00.000Z"
    asked = {**head, "type": "user", "uuid": "00000000-0000-4000-8000-0000000000a1", "parentUuid": None}
    asked["message"] = {"role": "user", "content": "Hello"}
    kinds = [{**head, "type": kind, "value": 1} for kind in ("cost-state", "kind-of-tomorrow")]
    source.write_text("".join(json.dumps(record) + "\n" for record in [asked, *kinds]), encoding="utf-8")
    [parsed] = read_all(source)
    assert [unknown.message for unknown in parsed.unknown] == [
        "a record of the unknown kind kind-of-tomorrow was kept as it is"
    ]
    session = store.import_session(parsed).session.id
    records = exported(store, session, "claude-code")
    assert [record["type"] for record in records] == ["user", "cost-state", "kind-of-tomorrow"]
    assert ["uuid" in record for record in records] == [True, False, False]
    check_nothing_new(store, session, records, tmp_path)


def test_an_export_of_a_fork_stands_on_its_own(store: SessionStore) -> None:
    """A header that names the place of a fork's beginning in another file would have Codex read that twice."""
    meta = {
        "history_base": {"thread_id": "t", "end_ordinal_exclusive": 3},
        "history_mode": "paginated",
        "git": {"a": 1},
    }
    session = store.create_session(cwd="/p", header={"codex": meta}).id
    ask(store, session, "Hello")
    head, *_rest = exported(store, session, "codex")
    assert head["payload"].keys() & {"history_base", "history_mode"} == set()
    assert head["payload"]["git"] == {"a": 1}


def test_a_rollout_imposes_neither_model_nor_policies_and_comes_back_with_its_models(
    store: SessionStore, tmp_path: Path
) -> None:
    """Codex takes model and policies of a turn context over the person's own settings, and none without a model."""
    session = store.create_session(cwd="/p").id
    store.append(session, {"type": "model_change", "provider": "anthropic", "modelId": "claude-opus-4-5"})
    ask(store, session, "Hello")
    answer(store, session, "Hi")
    answer(store, session, "Hi again", model="claude-haiku-4-5")
    records = exported(store, session, "codex")
    contexts = [record["payload"] for record in records if record["type"] == "turn_context"]
    assert contexts
    assert [context.keys() & {"model", "approval_policy", "sandbox_policy"} for context in contexts] == [set()] * 2
    check_nothing_new(store, session, records, tmp_path)
    with open_store(tmp_path / "other.db") as other:
        [parsed] = read_all(tmp_path / "back.jsonl")
        other.import_session(parsed)
        models = [(entry.message or entry.fields).get("model") for entry in other.path(session)]
        assert models == [None, None, "claude-opus-4-5", "claude-haiku-4-5"]
        assert other.path(session)[0].fields == {"provider": "anthropic", "modelId": "claude-opus-4-5"}


@pytest.mark.parametrize(("reason", "ended"), [("stop", True), ("aborted", False), (None, False)])
def test_a_turn_that_ended_is_said_to_have_ended(
    store: SessionStore, tmp_path: Path, reason: str | None, ended: bool
) -> None:
    session = store.create_session(cwd="/p").id
    ask(store, session, "Hello")
    if reason is not None:
        answer(store, session, "Hi", stopReason=reason)
    records = exported(store, session, "codex")
    assert (records[-1]["payload"]["type"] == "task_complete") is ended
    check_nothing_new(store, session, records, tmp_path)
