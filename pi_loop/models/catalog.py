"""Known models: names, windows and prices from the data package `genai-prices`, and what it does not say.

The package, kept up to date by its makers, knows models, context windows and prices, but not which models see images,
think, or how long an answer may be. That is said here by families, newest behaviour last resort: a new member of a
known family gets what its family can. `models.json` overrides all of it. The package is imported only when a catalogue
is asked for: that costs about a third of a second.

Source: genai-prices; the providers' model pages for the families.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pi_loop.models.providers import PROVIDERS, Provider
from pi_loop.target import ANTHROPIC
from pi_loop.types import Model, ModelCost
from pi_sessions.messages import JsonObject, Number

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

# Models that answer with something else than text, or read something else than a conversation.
_NOT_CHAT = re.compile(
    r"embed|whisper|\btts\b|-tts|dall-e|image|moderation|realtime|transcri|audio|translate|rerank|guard|\bocr\b|-ocr"
    r"|video|speech|voice|\blive\b|-live|robotics|search-api|computer-use|davinci|babbage|curie|^ada$|banana|omni"
    r"|instruct$|:batch$|^ft:|deep-research|imagine|flux|sora|veo|lyria|^gpt-4-32k|rosalind|-0301|\.ft-|:extended|gpt-4-vision|^claude-(?:v?[12]\b|instant)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a family of models can do.

    Args:
        vision: Whether it takes images.
        reasoning: Whether it can think.
        max_tokens: Most tokens of an answer.
        levels: The provider's words for thinking levels, None for a level that is missing.
        compat: Settings of the protocol module.
    """

    vision: bool = False
    reasoning: bool = False
    max_tokens: int = 16_384
    levels: Mapping[str, str | None] = field(default_factory=dict)
    compat: Mapping[str, bool] = field(default_factory=dict)


_ADAPTIVE = {"forceAdaptiveThinking": True}
_ADAPTIVE_COOL = {**_ADAPTIVE, "supportsTemperature": False}
_TO_MAX: dict[str, str | None] = {"xhigh": "xhigh", "max": "max"}
_ALWAYS_THINKS: dict[str, str | None] = {"off": None}
_EFFORTS: dict[str, str | None] = {"minimal": None, "low": "low", "medium": "medium", "high": "high"}
_OLD_EFFORTS = {**_ALWAYS_THINKS, **_EFFORTS}
_NO_LOW: dict[str, str | None] = {"off": None, "minimal": None, "low": None}
_GPT5 = {"off": None, "minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}
_GPT51 = {"off": "none", **_EFFORTS}
_GPT52 = {**_GPT51, "xhigh": "xhigh"}

# First match counts; the names are searched in the model's id with dots as dashes, so that gateways' spellings fit.
_FAMILIES: tuple[tuple[re.Pattern[str], Abilities], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), abilities)
    for pattern, abilities in (
        (
            r"claude-3-(?:haiku|opus|sonnet)|claude-(?:haiku|opus|sonnet)-3\b(?!-)",
            Abilities(vision=True, max_tokens=4096),
        ),
        (r"claude-3-5|claude-(?:haiku|sonnet)-3-5", Abilities(vision=True, max_tokens=8192)),
        (r"claude-3-7", Abilities(vision=True, reasoning=True, max_tokens=64_000)),
        (r"claude-(?:opus|sonnet)-4-6", Abilities(True, True, 128_000, {"max": "max"}, _ADAPTIVE)),
        (r"claude-(?:opus-4-[01]|4-opus|opus-4$)", Abilities(vision=True, reasoning=True, max_tokens=32_000)),
        (
            r"claude-(?:(?:sonnet|haiku)-4(?:-[0-5])?|opus-4-5|4-sonnet)(?:$|\D|-\d{8})",
            Abilities(vision=True, reasoning=True, max_tokens=64_000),
        ),
        (r"claude-fable", Abilities(True, True, 128_000, {**_ALWAYS_THINKS, **_TO_MAX}, _ADAPTIVE)),
        (
            r"claude-(?:opus|sonnet)-(?:5-[5-9]|[6-9])",
            Abilities(True, True, 128_000, {**_OLD_EFFORTS, **_TO_MAX}, _ADAPTIVE_COOL),
        ),
        (r"claude-", Abilities(True, True, 128_000, _TO_MAX, _ADAPTIVE_COOL)),
        (r"gpt-3-5|^gpt-4$|^gpt-4-0", Abilities(max_tokens=4096)),
        (r"gpt-4-turbo", Abilities(vision=True, max_tokens=4096)),
        (r"gpt-4-1", Abilities(vision=True, max_tokens=32_768)),
        (r"gpt-4o|chatgpt", Abilities(vision=True)),
        (r"gpt-oss", Abilities(False, True, 65_536, _OLD_EFFORTS)),
        (r"gpt-5(?:-1)?-chat", Abilities(vision=True)),
        (r"gpt-5-pro", Abilities(True, True, 128_000, {**_NO_LOW, "medium": None})),
        (r"gpt-\d(?:-\d)?-pro", Abilities(True, True, 128_000, {**_NO_LOW, "xhigh": "xhigh"})),
        (r"gpt-5(?:$|-mini|-nano|-codex|-20)", Abilities(True, True, 128_000, _GPT5)),
        (r"gpt-5-1", Abilities(True, True, 128_000, _GPT51)),
        (r"gpt-5-[2-5]", Abilities(True, True, 128_000, _GPT52)),
        (r"gpt-(?:6-1-sol|6-2|6-astra)|gpt-\d.*-cyber", Abilities(True, True, 128_000, {**_OLD_EFFORTS, **_TO_MAX})),
        (r"gpt-[5-9]", Abilities(True, True, 128_000, {**_GPT52, "max": "max"})),
        (r"(?:^|/)o1-(?:mini|preview)", Abilities(False, True, 65_536, _OLD_EFFORTS)),
        (r"(?:^|/)o3-mini", Abilities(False, True, 100_000, _OLD_EFFORTS)),
        (r"(?:^|/)o[1-9]", Abilities(True, True, 100_000, _OLD_EFFORTS)),
        (r"grok-(?:2-vision|3)", Abilities(vision=False, max_tokens=16_384)),
        (r"grok-.*non-reasoning|grok-2", Abilities(vision=True, max_tokens=16_384)),
        (r"grok-code", Abilities(False, True, 32_000)),
        (r"grok-", Abilities(True, True, 30_000, {**_OLD_EFFORTS, "xhigh": "xhigh"})),
        (r"gemini-(?:1-|2-0|pro|flash-1)", Abilities(vision=True, max_tokens=8192)),
        (r"gemini-", Abilities(True, True, 65_536, _EFFORTS)),
        (r"deepseek-flash", Abilities(True, True, 65_536, {"minimal": None, "medium": None, "max": "max"})),
        (
            r"deepseek-v4|deepseek-reasoner|deepseek-r",
            Abilities(False, True, 65_536, {"minimal": None, "low": None, "medium": None, "max": "max"}),
        ),
        (r"deepseek", Abilities(False, True, 8192)),
        (r"glm-[4-9](?:-\d)?v", Abilities(True, True, 32_768)),
        (r"glm-(?:4-[5-9]|[5-9])", Abilities(False, True, 131_072)),
        (r"kimi-k(?:2-[5-9]|[3-9])", Abilities(True, True, 131_072)),
        (r"kimi.*thinking|minimax-m|magistral|qwq|qwen3|thinking", Abilities(False, True, 32_768)),
        (
            r"pixtral|mistral-(?:medium|small|large)|llama-4|llama-3-2-(?:11|90)|gemma-[34]|-vl\b|vision",
            Abilities(True),
        ),
    )
)


def abilities_of(model_id: str) -> Abilities:
    """Say what a model can do, by its family; unknown families get text alone."""
    name = model_id.replace(".", "-")
    return next((abilities for pattern, abilities in _FAMILIES if pattern.search(name)), Abilities())


@functools.cache
def _snapshot() -> dict[str, list[Any]]:
    from genai_prices.data_snapshot import get_snapshot

    return {provider.id: list(provider.models) for provider in get_snapshot().providers}


def known_models(provider: Provider, now: datetime) -> list[Model]:
    """Give the models the data package knows of a provider, in its order.

    Args:
        now: Prices change; those of this moment are given. With a time zone.
    """
    entries: list[ModelInfo] = _snapshot().get(provider.catalog, [])
    return [
        _model(provider, entry, entry.id.lower() if provider.lower_case else entry.id, now)
        for entry in entries
        if not entry.deprecated and not _NOT_CHAT.search(entry.id) and entry.id.startswith(provider.prefixes)
    ]


def known_model(provider: Provider, model_id: str, now: datetime) -> Model | None:
    """Give one model, also by a dated or otherwise longer name that the package's patterns know.

    Args:
        now: As for `known_models`.
    """
    entries: list[ModelInfo] = _snapshot().get(provider.catalog, [])
    entry = next((entry for entry in entries if entry.id in (model_id, model_id.upper())), None)
    entry = entry or next((entry for entry in entries if entry.is_match(model_id)), None)
    return None if entry is None else _model(provider, entry, model_id, now)


def bare_model(provider: Provider, model_id: str) -> Model:
    """Give a model of which only the name is known: no prices, no window."""
    return _built(provider, model_id, model_id, ModelCost(), 0)


def _model(provider: Provider, entry: "ModelInfo", model_id: str, now: datetime) -> Model:
    return _built(provider, model_id, entry.name or model_id, _cost(entry, now), entry.context_window or 0)


def _built(provider: Provider, model_id: str, name: str, cost: ModelCost, window: int) -> Model:
    abilities = abilities_of(model_id)
    limit = min(abilities.max_tokens, window) if window else abilities.max_tokens
    fields: JsonObject = {"thinkingLevelMap": dict(abilities.levels)} if abilities.levels else {}
    compat = dict(abilities.compat) if provider.api == ANTHROPIC else {}
    return Model.model_validate(
        {
            "id": model_id,
            "name": name,
            "api": provider.api,
            "provider": provider.id,
            "baseUrl": provider.base_url,
            "reasoning": abilities.reasoning,
            "input": ["text", "image"] if abilities.vision else ["text"],
            "cost": cost,
            "contextWindow": window,
            "maxTokens": limit if provider.needs_key else 0,
            **({"compat": compat} if compat else {}),
            **fields,
        }
    )


def _cost(entry: "ModelInfo", now: datetime) -> ModelCost:
    """Give prices as `models.json` writes them; size tiers become its `tiers`."""
    prices = entry.get_prices(now)
    parts = {
        "input": prices.input_mtok,
        "output": prices.output_mtok,
        "cacheRead": prices.cache_read_mtok,
        "cacheWrite": prices.cache_write_mtok,
    }
    base: dict[str, Any] = {name: _number(getattr(price, "base", price)) for name, price in parts.items()}
    limits = {tier.start for price in parts.values() for tier in getattr(price, "tiers", None) or []}
    tiers = [
        {"inputTokensAbove": limit, **{name: _price_above(price, limit) for name, price in parts.items()}}
        for limit in sorted(limits)
    ]
    return ModelCost.model_validate({**base, "tiers": tiers} if tiers else base)


def _price_above(price: Any, limit: int) -> Number:
    steps = [tier for tier in getattr(price, "tiers", None) or [] if tier.start <= limit]
    return _number(max(steps, key=lambda tier: tier.start).price if steps else getattr(price, "base", price))


def _number(price: Any) -> Number:
    value = float(price or 0)
    return int(value) if value.is_integer() else value


def all_known_models(now: datetime) -> list[Model]:
    """Give the known models of all providers.

    Args:
        now: As for `known_models`.
    """
    return [model for provider in PROVIDERS.values() if provider.catalog for model in known_models(provider, now)]
