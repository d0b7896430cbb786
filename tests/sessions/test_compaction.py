"""Compaction: what every plan keeps, what results must hold, which answers are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pi_sessions.compaction import (
    CompactionPlan,
    CompactionResult,
    NoGainError,
    compaction_requests,
    prepare_compaction,
    run_compaction,
)
from pi_sessions.context import (
    ContextMessage,
    active_entries,
    blocks_of,
    build_context,
    content_text,
    entry_messages,
    latest_edits,
    path_settings,
    project_entries,
)
from pi_sessions.stored import StoredEntry
from pi_sessions.summaries import SummaryAbortedError, SummaryError, reasoning_for
from pi_sessions.tokens import CompactionSettings, estimate_tokens
from tests.sessions.pure_strategies import answer, chain, entry, plausible_path, result, user

BIG = "x" * 400


def keeping(tokens: int) -> CompactionSettings:
    return CompactionSettings(True, 16384, tokens)


def replying(text: str = "S", **fields: Any) -> Any:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **fields}
    return lambda prompt, reasoning: message


def store(path: list[StoredEntry], done: CompactionResult) -> list[StoredEntry]:
    return [*path, entry("done", path[-1].id, "compaction", **done.fields())]


def calls_of(message: dict[str, Any]) -> list[str]:
    return [one["id"] for one in blocks_of(message.get("content")) if one["type"] == "toolCall"]


def conversation(path: list[StoredEntry]) -> list[ContextMessage]:
    """All messages of the context that are neither a system prompt nor the previous compaction."""
    return [
        ContextMessage(one.id, message)
        for one, given in project_entries(active_entries(path))
        for message in given
        if one.type != "compaction" and message["role"] != "system"
    ]


def last_user_text(path: list[StoredEntry]) -> str | None:
    edits = latest_edits(path)
    for one in reversed(path):
        if one.role == "user":
            edit = edits.get(one.id)
            replacement: Any = edit.fields["replacement"] if edit else {}
            if replacement is not None:
                return content_text({**entry_messages(one)[0], **replacement}["content"])
    return None


@settings(max_examples=150, deadline=None)
@given(plausible_path(), st.integers(0, 120))
def test_every_message_is_summed_up_or_kept_and_no_result_loses_its_call(path: list[StoredEntry], keep: int) -> None:
    plan = prepare_compaction(path, keeping(keep))
    assume(plan is not None)
    assert plan is not None
    assert [*plan.to_summarize, *plan.turn_head, *plan.kept] == conversation(path)
    called_before = {id for one in plan.summarized() for id in calls_of(one.message)}
    called_again = {id for one in plan.kept for id in calls_of(one.message)}
    kept_results = {one.message["toolCallId"] for one in plan.kept if one.message["role"] == "toolResult"}
    assert not kept_results & (called_before - called_again)


@settings(max_examples=150, deadline=None)
@given(plausible_path(), st.integers(0, 120))
def test_the_last_user_message_survives_and_the_next_compaction_sees_what_was_kept(
    path: list[StoredEntry], keep: int
) -> None:
    plan = prepare_compaction(path, keeping(keep))
    assume(plan is not None)
    assert plan is not None
    try:
        done = run_compaction(plan, replying())
    except NoGainError:
        return
    after = store(path, done)
    context = build_context(active_entries(after), *path_settings(after))
    said = [one for one in context.messages if one.message["role"] not in ("system", "compactionSummary")]
    assert said == list(plan.kept)
    last = last_user_text(path)
    kept_texts = [content_text(one.message["content"]) for one in plan.kept if one.message["role"] == "user"]
    assert last is None or last in kept_texts or last in done.summary
    if plan.previous_summary:
        prompts = compaction_requests(plan)
        assert any(plan.previous_summary in prompt for prompt in prompts) or plan.previous_summary in done.summary

    assert prepare_compaction(after, keeping(0)) is None
    more = [*after, entry("q", "done", "message", message={"role": "user", "content": "next"})]
    more.append(entry("a", "q", "message", message={"role": "assistant", "content": [], "stopReason": "stop"}))
    second = prepare_compaction(more, keeping(0))
    if second is None:
        # Only the question asked since is left, and the last user message is never summed up alone.
        assert not plan.kept
        return
    assert second.previous_summary == done.summary
    assert [*second.summarized(), *second.kept][: len(plan.kept)] == list(plan.kept)


@settings(max_examples=150, deadline=None)
@given(plausible_path(), st.integers(0, 120))
def test_a_stored_compaction_always_shrinks_the_context(path: list[StoredEntry], keep: int) -> None:
    plan = prepare_compaction(path, keeping(keep))
    assume(plan is not None)
    assert plan is not None
    try:
        done = run_compaction(plan, replying("summary " * 8), keep=())
    except NoGainError:
        return
    before = sum(estimate_tokens(one.message) for one in conversation(path))
    after = active_entries(store(path, done))
    now = sum(estimate_tokens(m) for _, given in project_entries(after) for m in given if m["role"] != "system")
    previous = estimate_tokens({"role": "compactionSummary", "summary": plan.previous_summary or ""})
    assert now < before + previous


def test_a_cut_between_a_call_and_its_late_result_is_not_taken() -> None:
    path = chain(
        user(BIG),
        answer("", ("c1", "c2")),
        result("c1", "one"),
        ("custom_message", {"customType": "x", "content": BIG, "display": True}),
        result("c2", "two"),
    )
    plan = prepare_compaction(path, keeping(50))
    assert plan is not None
    assert plan.first_kept_id == "e1"


def test_the_last_question_inside_a_summed_up_turn_stays_word_for_word() -> None:
    path = chain(user("Rename the flag\nto --old"), answer("", ("c",)), result("c", BIG * 9), answer(BIG), answer(BIG))
    plan = prepare_compaction(path, keeping(10))
    assert plan is not None
    assert plan.last_user is not None
    done = run_compaction(plan, replying())
    assert "<kept-messages>\n[User]: Rename the flag\nto --old\n</kept-messages>" in done.summary
    assert "kept-messages" not in run_compaction(plan, replying(), keep=()).summary


def test_the_last_question_survives_a_second_compaction_without_a_new_one() -> None:
    path = chain(user("The only question"), answer(BIG), answer(BIG), answer(BIG))
    plan = prepare_compaction(path, keeping(10))
    assert plan is not None
    path = store(path, run_compaction(plan, replying()))
    path += [entry("m", "done", "message", message=answer(BIG)[1]["message"])]
    path += [entry("n", "m", "message", message=answer(BIG)[1]["message"])]
    again = prepare_compaction(path, keeping(10))
    assert again is not None
    assert "The only question" in run_compaction(again, replying("new")).summary


def test_entries_asked_for_stay_word_for_word() -> None:
    path = chain(user("first"), answer("decided: blue"), user(BIG), answer(BIG), user("last"), answer("ok"))
    plan = prepare_compaction(path, keeping(1))
    assert plan is not None
    done = run_compaction(plan, replying(), keep=["e1"])
    assert "[Assistant]: decided: blue\n\n[User]: last" in done.summary
    assert done.details["keptEntries"] == ["e1", "e4"]


def test_labels_and_names_after_a_compaction_are_nothing_new() -> None:
    compaction = ("compaction", {"summary": "S", "firstKeptEntryId": "e0", "tokensBefore": 1})
    facts = [("label", {"targetId": "e0", "label": "x"}), ("session_info", {"name": "n"})]
    path = chain(user(BIG), answer(BIG), compaction, *facts)
    assert prepare_compaction(path, keeping(1)) is None
    assert prepare_compaction(chain(user(BIG), answer(BIG), *facts), keeping(1)) is not None


def test_the_system_prompt_in_force_goes_into_the_compaction() -> None:
    system: Any = ("message", {"message": {"role": "system", "content": "be brief", "sections": {"a": "1"}}})
    later: Any = ("message", {"message": {"role": "system", "content": "", "sections": {"a": None, "b": "2"}}})
    path = chain(system, user(BIG), answer(BIG), later, user("q"), answer("a"))
    plan = prepare_compaction(path, keeping(2))
    assert plan is not None
    done = run_compaction(plan, replying())
    assert done.fields()["systemMessage"] == {
        "role": "system",
        "content": "be brief",
        "sections": {"b": "2"},
        "timestamp": 0,
    }


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"stopReason": "error", "errorMessage": "overloaded"}, SummaryError),
        ({"stopReason": "length"}, SummaryError),
        ({"stopReason": "aborted"}, SummaryAbortedError),
        ({"content": [{"type": "toolCall", "id": "x", "name": "read", "arguments": {}}]}, SummaryError),
        ({"content": []}, SummaryError),
    ],
)
def test_an_answer_that_is_no_summary_is_refused(fields: dict[str, Any], error: type[SummaryError]) -> None:
    plan = prepare_compaction(chain(user(BIG), answer(BIG), user("q"), answer("a")), keeping(2))
    assert plan is not None
    with pytest.raises(error):
        run_compaction(plan, replying(**fields))


def test_a_longer_summary_than_what_it_replaces_is_refused() -> None:
    plan = prepare_compaction(chain(user("hi"), answer("yo")), keeping(1))
    assert plan is not None
    with pytest.raises(NoGainError, match="not make the context smaller"):
        run_compaction(plan, replying("a long summary of nearly nothing"))


def test_the_reason_level_reaches_only_reasoning_models() -> None:
    assert reasoning_for("high", reasoning_model=True) == "high"
    assert reasoning_for("high", reasoning_model=False) is None
    assert reasoning_for("off", reasoning_model=True) is None
    assert reasoning_for(None, reasoning_model=True) is None


def test_a_long_path_is_cut_in_linear_time() -> None:
    items: list[Any] = []
    for place in range(12_000):
        items += [user("q"), answer("", (f"c{place}",)), result(f"c{place}", "r" * 20), answer("done")]
    path = chain(*items)
    plan = prepare_compaction(path, keeping(60_000))
    assert isinstance(plan, CompactionPlan)
    assert len(plan.summarized()) + len(plan.kept) == 48_000
