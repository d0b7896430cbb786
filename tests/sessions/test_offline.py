"""Summaries without a model: taken from the words of the conversation, the same every time, small enough."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_sessions.compaction import CutError, NoGainError, prepare_compaction
from pi_sessions.compaction_offline import offline_compaction
from pi_sessions.compaction_preview import preview_compaction
from pi_sessions.compaction_range import offline_range, plan_range
from pi_sessions.offline_summary import NOTE, decisions, errors, named_files, offline_summary, sentences
from pi_sessions.stored import StoredEntry
from pi_sessions.tokens import UNITS_PER_TOKEN, CompactionSettings, utf16_length

Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str, *calls: Json) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}, *calls], "stopReason": "stop"}


def call(id: str, name: str, **arguments: Any) -> Json:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(id: str, text: str, *, failed: bool = False) -> Json:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": id, "toolName": "bash", "content": content, "isError": failed}


TALK = [
    user("Fix the lease bug.\n\nIt loses the lease in production. Do not touch docs/guide.md."),
    said("I'll look at src/lease.py first.", call("1", "bash", command="pytest -q")),
    result("1", "collecting\nE   LeaseLostError: heartbeat stalled\n1 failed", failed=True),
    said("The root cause is the heartbeat. We decided to use the database lock instead of a timer."),
    {"role": "bashExecution", "command": "git status", "output": "clean", "exitCode": 1},
    user("Good. And now write the test."),
    said("Done: tests/test_lease.py has it."),
]


def path_of(messages: list[Json]) -> list[StoredEntry]:
    return [
        StoredEntry.from_dict(
            {"type": "message", "id": f"e{place:07}", "parentId": f"e{place - 1:07}" if place else None, "message": one}
        )
        for place, one in enumerate(messages)
    ]


def test_it_finds_goal_constraints_decisions_commands_errors_and_the_last_state() -> None:
    text = offline_summary(TALK)
    assert text.splitlines()[0] == NOTE
    sections = dict(part.split("\n", 1) for part in text.split("\n\n## ")[1:])
    assert sections["Goal"] == "- Fix the lease bug.\n- Good. And now write the test."
    assert sections["Constraints & Preferences"] == "- Do not touch docs/guide.md."
    assert "We decided to use the database lock instead of a timer." in sections["Key Decisions"]
    assert "The root cause is the heartbeat." in sections["Key Decisions"]
    assert sections["Commands"] == "- `pytest -q` (failed)\n- `git status` (exit 1)"
    assert "LeaseLostError: heartbeat stalled" in sections["Errors"] or "1 failed" in sections["Errors"]
    assert "Last answer: Done: tests/test_lease.py has it." in sections["Last State"]


def test_a_second_summary_carries_the_first_one_on() -> None:
    first = offline_summary(TALK)
    second = offline_summary([user("Now release it."), said("We chose version 2.")], previous=first)
    assert "Fix the lease bug." in second
    assert "database lock instead of a timer" in second
    assert "We chose version 2." in second
    assert second.count(NOTE) == 1
    assert second.count("## Goal") == 1


def test_what_was_kept_word_for_word_stays() -> None:
    previous = (
        "A model's words.\n\n<kept-messages>\n[User]: exactly this\n</kept-messages>\n\n<read-files>\na\n</read-files>"
    )
    text = offline_summary([user("more")], previous=previous)
    assert "[User]: exactly this" in text
    assert "A model's words." in text
    assert "read-files" not in text


def test_focus_brings_more_sentences() -> None:
    plain, focused = offline_summary(TALK), offline_summary(TALK, focus="production")
    assert "in production" not in plain
    assert "It loses the lease in production." in focused


def test_code_between_fences_is_no_sentence() -> None:
    text = "We decided this.\n```python\nwe decided = 1\n```\n- Let's use that one. It is fine."
    assert list(sentences(text)) == ["We decided this.", "Let's use that one.", "It is fine."]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("see src/a.py, ./b.toml and ~/c.txt", ["src/a.py", "./b.toml", "~/c.txt"]),
        ("version 1.2.3, e.g. this, i.e. that", []),
        ("mail me@example.com or https://example.com/x.html", []),
    ],
)
def test_files_are_named_in_words(text: str, files: list[str]) -> None:
    assert named_files([user(text)]) == files


def test_only_failing_output_is_an_error() -> None:
    assert errors([result("1", "all fine"), result("2", "ok\nValueError: no")]) == ["ValueError: no"]


texts = st.text(st.sampled_from("ab .!?\n#-`é🚀"), max_size=200) | st.sampled_from(
    ["We decided to use it.", "must not", "Error: x", "src/a.py is read", "x" * 5000]
)
messages = st.lists(
    st.one_of(
        texts.map(user),
        texts.map(said),
        st.builds(lambda text: said(text, call("1", "bash", command=text)), texts),
        st.builds(lambda text, failed: result("1", text, failed=failed), texts, st.booleans()),
        st.just({"role": "strange"}),
        st.just({"role": "assistant", "content": None}),
    ),
    max_size=12,
)


@given(messages, st.none() | texts, st.none() | st.just("the lease"), st.integers(60, 400))
def test_it_is_deterministic_and_stays_in_its_budget(
    given_messages: list[Json], previous: str | None, focus: str | None, most: int
) -> None:
    text = offline_summary(given_messages, previous=previous, focus=focus, max_tokens=most)
    assert text == offline_summary(given_messages, previous=previous, focus=focus, max_tokens=most)
    assert utf16_length(text) <= most * UNITS_PER_TOKEN
    assert text.startswith(NOTE)


@given(messages)
def test_decisions_are_words_of_the_conversation(given_messages: list[Json]) -> None:
    spoken = " ".join(json.dumps(one, ensure_ascii=False) for one in given_messages)
    for point in decisions(given_messages):
        assert all(word in spoken for word in point.split())


def test_an_offline_compaction_is_worth_storing_or_refused() -> None:
    long = [user("Question. " + "why " * 400), said("Answer. " + "so " * 400)] * 4
    plan = prepare_compaction(path_of(long), CompactionSettings(True, 0, 300))
    assert plan is not None
    done = offline_compaction(plan)
    assert done.tokens_after < plan.estimated_before
    tiny = prepare_compaction(path_of([user("a"), said("b"), user("c"), said("d")]), CompactionSettings(True, 0, 1))
    assert tiny is not None
    with pytest.raises(NoGainError):
        offline_compaction(tiny)


def test_a_preview_names_what_only_the_older_part_names() -> None:
    talk = [*TALK, user("Look at src/lease.py again. " + "why " * 100), said("ok " * 100)]
    plan = prepare_compaction(path_of(talk), CompactionSettings(True, 0, 150))
    assert plan is not None
    shown = preview_compaction(plan, keep=["e0000000"])
    assert "docs/guide.md" in shown.files
    assert "src/lease.py" not in shown.files
    assert any("database lock" in point for point in shown.decisions)
    assert shown.verbatim[0] == "e0000000"
    assert shown.tokens_going + shown.tokens_staying == plan.estimated_before


@given(messages, st.integers(0, 11), st.integers(0, 11))
def test_a_range_never_parts_calls_and_results_nor_touches_the_last_request(
    given_messages: list[Json], first: int, last: int
) -> None:
    path = path_of(given_messages)
    try:
        plan = plan_range(path, f"e{first:07}", f"e{last:07}")
        made = offline_range(plan)
    except (CutError, NoGainError):
        return
    assert made.tokens_after < made.tokens_before
    edited = {one["targetId"] for one in made.entries}
    users = [entry.id for entry in path if entry.role == "user"]
    assert not users or users[-1] not in edited
    gone = {block["id"] for one in plan.goes for block in calls_in(one.message)}
    stay = {block["id"] for one in plan.stays for block in calls_in(one.message)}
    for one in plan.goes:
        if one.message.get("role") == "toolResult":
            assert one.message["toolCallId"] not in stay - gone
    for one in plan.stays:
        if one.message.get("role") == "toolResult":
            assert one.message["toolCallId"] not in gone - stay


def calls_in(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if block["type"] == "toolCall"] if isinstance(content, list) else []
