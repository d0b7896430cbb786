"""Tokens and cost of one response, from what each protocol reports.

Invariant: `input` never contains cached tokens, `total_tokens` is the sum of input, output, cache reads and cache
writes, and a number that a server leaves out or sends as null changes nothing.

Source: Pi 1.6.0, usage and cost.
"""

from collections.abc import Mapping
from typing import Any

from pi_loop.types import ModelCost
from pi_sessions.messages import Cost, JsonObject, Usage

_MILLION = 1_000_000


def openai_usage(reported: JsonObject) -> Usage:
    """Read the usage of Chat Completions or Responses; both count cached tokens inside the input.

    Source: OpenAI API types; DeepSeek and Kimi name cached tokens their own way.
    """
    asked = _details(reported, "prompt_tokens_details", "input_tokens_details")
    given = _details(reported, "completion_tokens_details", "output_tokens_details")
    read = _first(
        asked.get("cached_tokens"), reported.get("prompt_cache_hit_tokens"), reported.get("cached_tokens"), otherwise=0
    )
    written = _first(asked.get("cache_write_tokens"), otherwise=0)
    whole = _first(reported.get("prompt_tokens"), reported.get("input_tokens"), otherwise=0)
    output = _first(reported.get("completion_tokens"), reported.get("output_tokens"), otherwise=0)
    usage = _usage(max(0, whole - read - written), output, read, written)
    reasoning = _count(given.get("reasoning_tokens"))
    return usage if reasoning is None else usage.model_copy(update={"reasoning": reasoning})


def anthropic_usage(reported: JsonObject, before: Usage) -> Usage:
    """Read a usage of the Messages API, which is cumulative: what it leaves out stays as it was.

    Args:
        before: What the stream reported earlier.
    """
    usage = _usage(
        _first(reported.get("input_tokens"), otherwise=before.input),
        _first(reported.get("output_tokens"), otherwise=before.output),
        _first(reported.get("cache_read_input_tokens"), otherwise=before.cache_read),
        _first(reported.get("cache_creation_input_tokens"), otherwise=before.cache_write),
    )
    extra: dict[str, int] = {}
    long_writes = _count(_details(reported, "cache_creation").get("ephemeral_1h_input_tokens"))
    long_writes = before.cache_write_1h if long_writes is None else long_writes
    if long_writes:
        extra["cache_write_1h"] = long_writes
    thinking = _count(_details(reported, "output_tokens_details").get("thinking_tokens"))
    thinking = before.reasoning if thinking is None else thinking
    if thinking is not None:
        extra["reasoning"] = thinking
    return usage.model_copy(update=extra) if extra else usage


def with_cost(usage: Usage, prices: ModelCost, *, billed: float | None = None) -> Usage:
    """Fill in the cost of a usage.

    Args:
        prices: US dollars per million tokens. A `tiers` list in it gives other prices above an input size; they hold
            for the whole request.
        billed: Total in US dollars where the provider says it itself.

    Source: Pi 1.6.0, cost of a response; a cache write for an hour costs twice the input price.
    """
    rates = _rates(prices, usage.input + usage.cache_read + usage.cache_write)
    long_writes = usage.cache_write_1h or 0
    parts = (
        rates["input"] * usage.input / _MILLION,
        rates["output"] * usage.output / _MILLION,
        rates["cacheRead"] * usage.cache_read / _MILLION,
        (rates["cacheWrite"] * (usage.cache_write - long_writes) + 2 * rates["input"] * long_writes) / _MILLION,
    )
    cost = Cost(input=parts[0], output=parts[1], cache_read=parts[2], cache_write=parts[3], total=sum(parts))
    if billed is not None:
        cost = cost.model_copy(update={"total": billed, "total_from_provider": True})
    return usage.model_copy(update={"cost": cost})


def _usage(fresh: int, output: int, read: int, written: int) -> Usage:
    return Usage(
        input=fresh,
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=fresh + output + read + written,
    )


def _rates(prices: ModelCost, asked: int) -> dict[str, float]:
    rates: Mapping[str, Any] = {
        "input": prices.input,
        "output": prices.output,
        "cacheRead": prices.cache_read,
        "cacheWrite": prices.cache_write,
    }
    tiers = (prices.model_extra or {}).get("tiers")
    above = -1
    for tier in tiers if isinstance(tiers, list) else []:
        limit = tier.get("inputTokensAbove", 0) if isinstance(tier, dict) else asked
        if asked > limit > above:
            rates, above = {**rates, **tier}, limit
    return {name: float(rates[name] or 0) for name in ("input", "output", "cacheRead", "cacheWrite")}


def _details(reported: JsonObject, *names: str) -> JsonObject:
    for name in names:
        value = reported.get(name)
        if isinstance(value, dict):
            return value
    return {}


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _first(*values: object, otherwise: int) -> int:
    """Give the first number."""
    return next((count for count in map(_count, values) if count is not None), otherwise)
