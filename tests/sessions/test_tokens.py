"""Token estimates, conversation texts and totals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.context import Model, active_entries, project_entries
from pi_sessions.conversation import last_assistant_text, serialize_conversation
from pi_sessions.errors import CannotError
from pi_sessions.tokens import (
    CompactionSettings,
    branch_summary_settings,
    compaction_settings,
    context_tokens,
    cut_utf16,
    estimate_projected,
    estimate_tokens,
    json_text,
    merged_system,
    should_compact,
    utf16_length,
)
from pi_sessions.totals import combine_usage, context_usage, cost_breakdown, session_totals
from tests.sessions.pure_strategies import answer, chain, user

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT, st.integers(-1, 12))
def test_cutting_never_splits_a_pair_and_lengths_count_units(text: str, units: int) -> None:
    kept = cut_utf16(text, units)
    assert text.startswith(kept)
    assert utf16_length(kept) <= max(0, units)
    assert utf16_length(text) == sum(2 if ord(letter) > 0xFFFF else 1 for letter in text)
    if len(kept) < len(text):
        assert utf16_length(text[: len(kept) + 1]) > max(0, units)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.0, 2.5, True, None], "b": 'é"\n\ud800'}, '{"a":[1,2,2.5,true,null],"b":"é\\"\\n\\ud800"}'),
        ([1e21, 1e20, 1.5e-7, 0.00001, -0.0, float("nan"), float("inf")], None),
        ("1.0 stays text, so does NaN", '"1.0 stays text, so does NaN"'),
        (-1.25e30, "-1.25e+30"),
    ],
)
def test_json_is_written_as_javascript_writes_it(value: Any, text: str | None) -> None:
    expected = "[1e+21,100000000000000000000,1.5e-7,0.00001,0,null,null]" if text is None else text
    assert json_text(value) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53), max_size=40))
def test_json_numbers_read_back_as_the_same_number(values: list[float]) -> None:
    assert [float(one) for one in json.loads(json_text(values))] == [float(one) for one in values]


def test_json_numbers_are_those_a_javascript_engine_prints() -> None:
    small = [1e-12, 1.5e-7, 9.99e-7, 0.000001, 1.5e-5, 0.00225, 71.1, 5e-324]
    large = [1e15, 2.25e16, 1.5e20, 9.9e20, 7.1e22, 1.7976931348623157e308, 9007199254740993]
    assert json_text(small) == "[1e-12,1.5e-7,9.99e-7,0.000001,0.000015,0.00225,71.1,5e-324]"
    assert json_text(large) == (
        "[1000000000000000,22500000000000000,150000000000000000000,990000000000000000000,7.1e+22,"
        "1.7976931348623157e+308,9007199254740992]"
    )


def test_the_context_is_estimated_anew_after_an_edit_or_a_compaction() -> None:
    usage = {"input": 900, "output": 100, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1000}
    path = chain(user("x" * 40), answer("y" * 40, usage=usage), user("z" * 8))
    assert estimate_projected(project_entries(active_entries(path)), path).tokens == 1002
    edited = chain(
        user("x" * 40),
        answer("y" * 40, usage=usage),
        ("context_edit", {"targetId": "e0", "replacement": {"content": "xxxx"}}),
    )
    estimate = estimate_projected(project_entries(active_entries(edited)), edited)
    assert (estimate.tokens, estimate.last_usage_index) == (11, None)


def test_the_system_prompt_is_counted_once_as_it_stands() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "one", "sections": {"a": "x", "b": "y"}, "toolsAdded": [{"name": "t"}]},
        {"role": "system", "content": [{"type": "text", "text": "two"}], "sections": {"a": None}, "timestamp": 7},
        {"role": "system", "toolsRemoved": [{"name": "t"}, "broken"], "toolsAdded": [{"name": "u"}]},
    ]
    assert merged_system(messages) == {
        "role": "system",
        "content": "one\n\ntwo",
        "sections": {"b": "y"},
        "toolsAdded": [{"name": "u"}],
        "timestamp": 7,
    }
    assert merged_system([{"role": "user", "content": "q"}]) is None


def test_settings_are_checked_where_they_count() -> None:
    settings = {"compaction": {"keepRecentTokens": 7, "modelOverrides": {"p/m": {"reserveTokens": "no"}, "p/n": 5}}}
    assert compaction_settings(settings) == CompactionSettings(True, 16384, 7)
    for model in (Model("p", "m"), Model("p", "n")):
        with pytest.raises(CannotError, match="modelOverrides"):
            compaction_settings(settings, model)
    with pytest.raises(CannotError):
        compaction_settings({"compaction": {"reserveTokens": True}})
    assert branch_summary_settings({"branchSummary": {"reserveTokens": 5, "skipPrompt": True}}).reserve_tokens == 5
    with pytest.raises(CannotError):
        branch_summary_settings({"branchSummary": {"reserveTokens": -5}})


def test_compacting_starts_above_the_window_less_the_reserve() -> None:
    settings = CompactionSettings(True, 10, 0)
    assert not should_compact(90, 100, settings)
    assert should_compact(91, 100, settings)
    assert not should_compact(91, 100, settings.replace(enabled=False))


def test_usage_without_a_total_is_summed_up() -> None:
    assert context_tokens({"input": 1, "output": 2, "cacheRead": None, "cacheWrite": "x", "totalTokens": 0}) == 3


def test_tool_results_are_cut_and_the_cut_is_counted() -> None:
    def told(text: str) -> str:
        return serialize_conversation([{"role": "toolResult", "content": [{"type": "text", "text": text}]}])

    assert told("q" * 2000) == "[Tool result]: " + "q" * 2000
    assert told("q" * 2003).endswith("q\n\n[... 3 more characters truncated]")
    assert told("q" * 1999 + "😀" + "q").endswith("q\n\n[... 3 more characters truncated]")


def test_the_last_answer_with_words_is_found() -> None:
    def said(text: str, stop: str) -> dict[str, Any]:
        return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": stop}

    assert last_assistant_text([said(" hi ", "stop"), said("", "aborted"), said("", "toolUse")]) == "hi"
    assert last_assistant_text([said("hi", "stop"), said("", "stop")]) is None
    assert last_assistant_text([]) is None


def test_totals_take_what_is_there() -> None:
    usage = {"input": 10, "output": 5, "cost": {"total": 0.5}}
    path = chain(
        user("q"),
        answer("a", ("c",), usage=usage),
        answer("b", usage=None),
        ("compaction", {"summary": "S", "usage": usage}),
        ("usage", {"provider": "p", "model": "m", "usage": {**usage, "cost": None}}),
        ("message", {}),
    )
    totals = session_totals(path)
    assert (totals.total_messages, totals.assistant_messages, totals.tool_calls) == (4, 2, 1)
    assert (totals.tokens, totals.cost) == (45, 1.0)
    assert [(row.key, row.cost, row.tokens) for row in cost_breakdown(path)] == [
        ("p/m", 0.5, 30),
        ("Tools/summaries", 0.5, 15),
    ]


def test_combined_usage_keeps_the_optional_parts() -> None:
    first = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 10, "reasoning": 5}
    cost = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "total": 2, "totalFromProvider": True}
    total = combine_usage({**first, "cost": cost}, {**first, "cacheWrite1h": 1, "cost": cost})
    assert (total["reasoning"], total["cacheWrite1h"], total["totalTokens"]) == (10, 1, 20)
    assert total["cost"] == {
        "input": 2,
        "output": 2,
        "cacheRead": 0,
        "cacheWrite": 0,
        "total": 4,
        "totalFromProvider": True,
    }


def test_context_use_after_a_compaction_is_an_estimate_marked_as_one() -> None:
    usage = {"totalTokens": 500}
    path = chain(user("q"), answer("a", usage=usage))
    measured = context_usage(path, 1000)
    assert measured is not None
    assert (measured.percent, measured.estimated, measured.after_compaction) == (50, False, False)
    compacted = chain(
        user("q"), answer("a", usage=usage), ("compaction", {"summary": "four", "firstKeptEntryId": "e1"})
    )
    guessed = context_usage(compacted, 1000)
    assert guessed is not None
    assert (guessed.tokens, guessed.estimated, guessed.after_compaction) == (2, True, True)
    assert context_usage(path, None) is None
    assert context_usage(path, 0) is None


def test_strange_blocks_take_no_tokens() -> None:
    assert (
        estimate_tokens({"role": "assistant", "content": [{"type": "toolCall"}, {"type": "text", "text": 5}, 7]}) == 0
    )
    assert estimate_tokens({"role": "system", "content": None, "toolsAdded": []}) == 1
