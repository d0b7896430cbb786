"""What a Codex rollout becomes: tree, context, usage, titles, forks."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.file_operations import file_operations
from pi_sessions.formats import codex_writer
from pi_sessions.formats.exports import read_export
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import (
    FORMATS,
    SAMPLES,
    context_of,
    path_of,
    read_all,
    records_of,
    take_in,
    text_of,
    told,
    write_lines,
)
from tests.sessions.pi_files import CASES, codes, lost

HOME = FORMATS / "codex"
EVERY, FORK, CHILD = sorted((HOME / "sessions").rglob("*.jsonl"))
(OLD,) = (HOME / "archived_sessions").iterdir()


def test_s02_a_torn_record_that_comes_again_counts_once() -> None:
    (session,) = read_all(CASES / "s02-torn-records" / "rollout-torn-then-repeated.jsonl")
    assert told(path_of(session)) == [
        "user: Count the files in src.",
        "assistant: There are 12 files in src. <thinking>",
        "user: And in tests?",
        "assistant: There are 7 files in tests.",
    ]
    assert (codes(session), lost(session)) == ([(4, "torn_repeated")], [])


def test_s18_a_picture_in_a_compaction_is_stored_once(tmp_path: Path) -> None:
    path = CASES / "s18-repeated-image" / "rollout-compacted-image.jsonl"
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, path)
        assert store.connection.execute("select count(*) from blobs").fetchone()[0] == 1
        (parsed,) = read_all(path)
        assert [entry.to_dict() for entry in store.entries(sid)] == [entry.to_dict() for entry in parsed.entries]
        assert "A picture" not in context_of(parsed)[0]
        assert context_of(parsed)[0] == "compactionSummary: The user showed a picture of noise."


def test_the_reduced_sample() -> None:
    (session,) = read_all(SAMPLES / "codex-reduced.jsonl")
    assert told(path_of(session)) == [
        "user: Is the plan clear enough?",
        "assistant: <thinking> [apply_patch]",
        "toolResult: Done!",
        "assistant: Yes, it is clear.",
    ]
    assert [item.line for item in session.unknown] == [13]
    assert [entry.type for entry in session.entries].count("model_change") == 1


def test_every_kind_of_line_is_kept_or_said_twice() -> None:
    (session,) = read_all(EVERY)
    assert (codes(session), lost(session)) == ([], [])
    assert [item.line for item in session.unknown] == [41, 42, 43]
    stored = json.dumps([session.header, *(entry.to_dict() for entry in session.entries)])
    for fact in ("read only", "Be brief.", "You are Codex.", "task_started", "patch_apply_end", "turn_aborted",
                 "world_state", "ghost_snapshot", "bread price", "Z0FBQUFC", "window_number"):  # fmt: skip
        assert fact in stored, fact
    assert (session.name, session.cwd) == ("Price list", "/proj/bakery")
    assert session.tally.adds_up()


def test_nothing_is_said_twice() -> None:
    (session,) = read_all(EVERY)
    said = [line for line in told(list(session.entries)) if not line.startswith("toolResult")]
    assert said == [
        "user: Add a price list.",
        "assistant: <thinking> I write the list. [apply_patch] [shell] <web_search_call>",
        "assistant: Done.",
        "user: Wrong currency.",
        "assistant: Which one?",
        "user: Prices in zloty, please.",
        "assistant: [local_shell]",
        "assistant: bread 12",
        "user: Thanks.",
        "assistant: You are welcome.",
    ]


def test_events_count_where_no_item_says_the_same() -> None:
    (session,) = read_all(HOME / "events-only.jsonl")
    assert told(path_of(session)) == [
        "user: Said once",
        "assistant: <thinking> Answered once",
        "user: Said twice",
        "assistant: Answered twice",
    ]


def test_usage_belongs_to_the_answer_before_it_and_refreshes_do_not_count() -> None:
    (session,) = read_all(EVERY)
    usages = [entry.message["usage"] for entry in session.entries if entry.role == "assistant" and entry.message]
    total = [
        record["payload"]["info"]["total_token_usage"]
        for record in records_of(EVERY)
        if record["payload"].get("type") == "token_count"
    ][-1]
    assert sum(usage["input"] + usage["cacheRead"] for usage in usages) == total["input_tokens"]
    assert sum(usage["output"] for usage in usages) == total["output_tokens"]
    assert usages[0] == {
        "input": 400, "output": 80, "cacheRead": 600, "cacheWrite": 0, "totalTokens": 1080, "reasoning": 20,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }  # fmt: skip


def counted(number: int, total: int) -> dict[str, Any]:
    """Return an event that tells an answer's usage."""
    last = {"input_tokens": number, "cached_input_tokens": 0, "output_tokens": number // 10}
    return event("token_count", info={"last_token_usage": last, "total_token_usage": {"input_tokens": total}})


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, **fields}}


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    message = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "payload": message}


ASKED = (event("user_message", message="q"),)
FIRST = (item("user", "q"), item("assistant", "A"), counted(10, 10), item("user", "q2"))
CALL = {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "a"}


@pytest.mark.parametrize(
    ("records", "usages"),
    [
        ((*ASKED, event("agent_message", message="E"), counted(400, 400)), {"E": 440}),
        ((*ASKED, event("agent_message", message="E"), counted(400, 400), counted(400, 400)), {"E": 440}),
        ((*FIRST, event("agent_message", message="E"), counted(400, 410)), {"A": 11, "E": 440}),
        ((*FIRST, event("agent_message", message="E"), counted(400, 410), item("assistant", "E")), {"A": 11, "E": 440}),
        ((*FIRST, item("assistant", "E"), event("agent_message", message="E"), counted(400, 410)), {"A": 11, "E": 440}),
        ((*FIRST, event("agent_reasoning", text="T"), counted(400, 410)), {"A": 11, "<thinking>": 440}),
        (
            (*FIRST, event("agent_message", message="E"), counted(400, 410),
             event("user_message", message="q3"), event("agent_message", message="F"), counted(20, 430)),
            {"A": 11, "E": 440, "F": 22},
        ),
        (
            (*FIRST, {"type": "response_item", "payload": CALL}, counted(30, 40),
             {"type": "response_item", "payload": OUTPUT}, event("agent_message", message="E"), counted(400, 440)),
            {"A": 11, "[ls]": 33, "E": 440},
        ),
    ],
)  # fmt: skip
def test_usage_of_an_answer_that_only_an_event_tells_is_its_own(
    records: tuple[dict[str, Any], ...], usages: dict[str, int], tmp_path: Path
) -> None:
    header = {"type": "session_meta", "payload": {"id": "019d0000-0000-7000-8000-000000000099", "cwd": "/p"}}
    timed = [
        {"timestamp": f"2026-04-02T08:00:{second:02}.000Z", **record}
        for second, record in enumerate((header, *records))
    ]
    (session,) = read_all(write_lines(tmp_path / "rollout.jsonl", *timed))
    answers = [entry.message for entry in session.entries if entry.role == "assistant"]
    assert {text_of(answer): answer["usage"]["totalTokens"] for answer in answers if answer} == usages


def test_a_rollback_begins_a_branch_and_deletes_nothing() -> None:
    (session,) = read_all(EVERY)
    path = told(path_of(session))
    assert "user: Wrong currency." not in path
    assert "user: Prices in zloty, please." in path
    assert "user: Wrong currency." in told(list(session.entries))


def test_a_compaction_flattens_as_in_codex() -> None:
    (session,) = read_all(EVERY)
    assert context_of(session) == [
        "compactionSummary: A price list in zloty was written.",
        "custom: Add a price list.",
        "custom: Prices in zloty, please.",
        "user: Thanks.",
        "assistant: You are welcome.",
    ]


def test_encrypted_reasoning_is_kept_for_its_maker_and_marked() -> None:
    (session,) = read_all(EVERY)
    answer = next(entry.message for entry in session.entries if entry.role == "assistant")
    assert answer is not None
    thinking = answer["content"][0]
    assert (thinking["thinking"], thinking["encrypted"]) == ("**Planning** prices", True)
    assert json.loads(thinking["thinkingSignature"])["encrypted_content"] == "Z0FBQUFB"
    assert (answer["provider"], answer["model"], answer["api"]) == ("openai", "gpt-5", "openai-responses")


def test_settings_follow_the_turns() -> None:
    (session,) = read_all(EVERY)
    changes = [entry.fields for entry in session.entries if entry.type in ("model_change", "thinking_level_change")]
    assert changes == [
        {"thinkingLevel": "medium"}, {"provider": "openai", "modelId": "gpt-5"},
        {"thinkingLevel": "high"}, {"provider": "openai", "modelId": "gpt-5-codex"},
    ]  # fmt: skip


def test_failed_commands_are_errors_and_patched_files_are_known() -> None:
    (session,) = read_all(EVERY)
    results = [entry.message for entry in session.entries if entry.role == "toolResult" and entry.message]
    assert [(message["toolName"], message["isError"]) for message in results] == [
        ("apply_patch", False), ("shell", True), ("local_shell", False),
    ]  # fmt: skip
    assert file_operations(entry.message for entry in session.entries if entry.message).written == ("prices.txt",)


def test_the_old_layout() -> None:
    (session,) = read_all(OLD)
    assert told(path_of(session))[:2] == ["user: Old question", "assistant: <thinking> [shell]"]
    assert session.id == "5b1e0c2a-0000-4000-8000-0000000000aa"
    assert dict(session.kept) == {"state": 2}
    assert session.unknown == ()


@pytest.mark.parametrize("fork_first", [False, True])
def test_a_fork_that_repeats_its_origin_shares_it(fork_first: bool, tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        take_in(store, *((FORK, EVERY) if fork_first else (EVERY, FORK)))
        (origin,), (fork,) = read_all(EVERY), read_all(FORK)
        stored = store.connection.execute("select count(*) from entries").fetchone()[0]
        assert stored == len(origin.entries) + 2
        spent = [
            entry["usage"]["output"]
            for (payload,) in store.connection.execute("select payload from entries where kind = 'message'")
            if (entry := json.loads(payload)).get("role") == "assistant"
        ]
        assert sum(spent) == 90
        assert told(store.path(fork.id))[-2:] == ["user: Also a menu.", "assistant: Menu written."]
        assert store.verify() == []
        assert [store.import_session(each).unchanged for each in (origin, fork)] == [True, True]


def test_a_subagents_thread_is_hidden_and_linked(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        take_in(store, EVERY, CHILD)
        (parsed,) = read_all(CHILD)
        assert store.session(parsed.id).parent_session == read_all(EVERY)[0].id
        assert parsed.id not in {session.id for session in store.sessions()}


def test_usage_that_comes_late_and_answers_that_grow_are_taken_in_place(tmp_path: Path) -> None:
    records = records_of(EVERY)
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for count in range(7, len(records) + 1):
            (parsed,) = read_all(write_lines(tmp_path / "rollout-growing.jsonl", *records[:count]))
            result = store.import_session(parsed)
            assert result.new_branch is None
        (whole,) = read_all(EVERY)
        stored = [entry.to_dict() for entry in store.path(result.session.id)]
        assert stored == [entry.to_dict() for entry in path_of(whole)]


def said_in(text: str, *, event_first: bool, event: bool = True, folder: Path) -> list[str]:
    """Read a rollout in which a person says something and is answered; return the path."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    meta = {"id": "a-b", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"}
    lines = [("session_meta", meta), ("response_item", item), ("response_item", answer)]
    if event:
        lines.insert(1 if event_first else 2, ("event_msg", {"type": "user_message", "message": text}))
    records = [
        {"timestamp": f"2026-01-01T00:00:0{at}Z", "type": kind, "payload": payload}
        for at, (kind, payload) in enumerate(lines)
    ]
    (session,) = read_all(write_lines(folder / "rollout.jsonl", *records))
    return [f"{entry.role or entry.type}" for entry in path_of(session)]


@pytest.mark.parametrize("event_first", [False, True])
@pytest.mark.parametrize("text", ["<div>Centre this.</div>", "<details>\nlog\n</details>", "<skill>mine</skill>"])
def test_what_a_person_wraps_in_tags_is_said_by_a_person_once(text: str, event_first: bool, tmp_path: Path) -> None:
    assert said_in(text, event_first=event_first, folder=tmp_path) == ["user", "assistant"]


def test_tags_of_codex_are_its_own_and_tags_of_nobody_a_persons(tmp_path: Path) -> None:
    own = "<environment_context>\n<cwd>/p</cwd>\n</environment_context>"
    assert said_in(own, event_first=False, event=False, folder=tmp_path) == ["custom_message", "assistant"]
    assert said_in("<div>x</div>", event_first=False, event=False, folder=tmp_path) == ["user", "assistant"]


def test_a_persons_tags_come_back_from_our_own_export(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        sid = store.create_session(cwd="/p").id
        content = "<environment_context>why does it say this?</environment_context>"
        store.append_message(sid, {"role": "user", "content": content})
        export = read_export(store, store.session(sid), store.session(sid).leaf, whole_tree=False)
        text = "".join(codex_writer.export_lines(export))
    path = tmp_path / "rollout.jsonl"
    path.write_text(text, encoding="utf-8")
    (session,) = read_all(path)
    assert [entry.role for entry in path_of(session)] == ["user"]
