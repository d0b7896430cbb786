"""Tokens and cost of a response, and the arguments of its calls."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.providers.arguments import ArgumentsView, is_complete, parse_arguments, partial_object
from pi_loop.providers.usage import anthropic_usage, openai_usage, with_cost
from pi_loop.types import ModelCost
from pi_sessions.messages import Usage

COUNT = st.one_of(st.none(), st.integers(0, 1_000_000))


@given(prompt=COUNT, read=COUNT, written=COUNT, output=COUNT)
def test_cached_tokens_are_never_counted_twice(
    prompt: int | None, read: int | None, written: int | None, output: int | None
) -> None:
    usage = openai_usage(
        {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        }
    )
    assert usage.input == max(0, (prompt or 0) - (read or 0) - (written or 0))
    assert usage.total_tokens == usage.input + usage.output + usage.cache_read + usage.cache_write


def test_both_openai_protocols_read_the_same() -> None:
    chat = {"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 3}}
    responses = {"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}}
    assert openai_usage(chat) == openai_usage(responses)
    assert openai_usage(chat).reasoning == 3


def test_usage_of_the_messages_api_adds_up_over_the_stream() -> None:
    first = anthropic_usage(
        {"input_tokens": 100, "cache_read_input_tokens": 40, "cache_creation": {"ephemeral_1h_input_tokens": 5}},
        Usage(),
    )
    last = anthropic_usage({"output_tokens": 7, "input_tokens": None}, first)
    assert (last.input, last.output, last.cache_read, last.cache_write_1h) == (100, 7, 40, 5)
    assert last.total_tokens == 147


def test_cost_follows_the_prices() -> None:
    prices = ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75)
    usage = Usage(input=1_000_000, output=100_000, cache_read=200_000, cache_write=40_000, cache_write_1h=10_000)
    cost = with_cost(usage, prices).cost
    assert cost.input == pytest.approx(3)
    assert cost.output == pytest.approx(1.5)
    assert cost.cache_read == pytest.approx(0.06)
    assert cost.cache_write == pytest.approx(0.03 * 3.75 + 0.01 * 6)
    assert cost.total == pytest.approx(cost.input + cost.output + cost.cache_read + cost.cache_write)


@pytest.mark.parametrize(("asked", "price"), [(100, 1), (200, 1), (201, 2), (1000, 2), (1001, 5)])
def test_highest_price_tier_that_is_reached_counts(asked: int, price: float) -> None:
    tiers = [{"inputTokensAbove": 1000, "input": 5}, {"inputTokensAbove": 200, "input": 2}]
    prices = ModelCost.model_validate({"input": 1, "tiers": tiers})
    usage = with_cost(Usage(input=asked - 40, cache_read=40), prices)
    assert usage.cost.input == pytest.approx(price * (asked - 40) / 1_000_000)


def test_bill_of_the_provider_counts() -> None:
    cost = with_cost(Usage(input=100), ModelCost(input=1), billed=0.25).cost
    assert (cost.total, cost.total_from_provider) == (0.25, True)


# --- arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ('{"text": "two\nlines\tand a tab"}', {"text": "two\nlines\tand a tab"}),
        ('{"text": "\\ud83d\\ude80 \\ud83d"}', {"text": "🚀 �"}),
        ('{"far": 1e999}', {"far": None}),
    ],
)
def test_whole_arguments_are_parsed(text: str, arguments: object) -> None:
    parsed = parse_arguments(text)
    assert parsed.error is None
    assert parsed.arguments == arguments


@pytest.mark.parametrize(
    "text", ['{"a":', "[1]", "7", "null", "nonsense", '{"a": NaN}', '{"a": 1} {"b": 2}', "{" * 5000]
)
def test_other_arguments_are_an_error_that_shows_them(text: str) -> None:
    parsed = parse_arguments(text)
    assert parsed.arguments == {}
    assert parsed.error is not None
    assert text[:1000] in parsed.error
    assert len(parsed.error) < 3000
    assert not is_complete(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=5), JSON, max_size=4), data=st.data())
def test_cut_arguments_show_what_has_come(value: dict[str, object], data: st.DataObject) -> None:
    """What is shown never has a key that is not there in the end, and everything is shown at the end."""
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    place = data.draw(st.integers(0, len(text)))
    shown = partial_object(text[:place])
    assert list(shown) == list(value)[: len(shown)]
    for key in list(shown)[:-1]:
        assert shown[key] == value[key]
    assert partial_object(text) == value


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        ('{"path": "a.txt", "text": "Once up', {"path": "a.txt", "text": "Once up"}),
        ('{"path": "a.txt", "te', {"path": "a.txt"}),
        ('{"path": "a.txt", "text":', {"path": "a.txt"}),
        ('{"path": "a.txt", "n": tru', {"path": "a.txt"}),
        ('{"list": [1, 2, {"x": "y', {"list": [1, 2, {"x": "y"}]}),
        ('{"text": "half \\u00e', {"text": "half "}),
        ('{"text": "quote \\', {"text": "quote "}),
        ("{", {}),
        ("[", {}),
        ("", {}),
        ("nonsense", {}),
    ],
)
def test_cut_arguments_end_where_they_are_cut(cut: str, shown: object) -> None:
    assert partial_object(cut) == shown


def test_view_collects_deltas() -> None:
    view = ArgumentsView()
    for delta in ('{"pa', 'th": "a', '.txt"', "}"):
        view.feed(delta)
    assert view.text() == '{"path": "a.txt"}'
    assert view.value() == {"path": "a.txt"}
