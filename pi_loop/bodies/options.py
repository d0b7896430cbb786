"""What a body takes beside the request: settings of one call, and the limits that follow from them."""

from __future__ import annotations

from pi_loop.target import LEVELS
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from pi_loop.request import BuiltRequest
    from pi_loop.target import Target

    class BodySettings(Protocol):
        """The part of `pi_loop.types.StreamOptions` that shows in a body; `BodyOptions` is the light form."""

        @property
        def reasoning(self) -> str | None: ...
        @property
        def max_tokens(self) -> int | None: ...
        @property
        def temperature(self) -> float | None: ...
        @property
        def session_id(self) -> str | None: ...
        @property
        def cache_retention(self) -> str | None: ...
        @property
        def thinking_budgets(self) -> Mapping[str, int] | None: ...
        @property
        def metadata(self) -> Mapping[str, object] | None: ...
        @property
        def deferred(self) -> bool: ...

else:
    BodySettings = object

UNITS_PER_TOKEN = 4
IMAGE_TOKENS = 1200
SAFETY_TOKENS = 4096
SAFETY_RATIO = 0.15
ROOM_WITH_RATIO = 32768
LEAST_OUTPUT_TOKENS = 1024
LEAST_BUDGET = 1024
LONGEST_CACHE_KEY = 64
DEFAULT_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}


class BodyOptions(Record):
    """Settings of one call.

    Attributes:
        reasoning: Thinking level; None is off.
        max_tokens: Most tokens of the answer; None leaves it to the model.
        temperature: Sampling temperature.
        session_id: For providers that cache by session.
        cache_retention: `none`, `short` (the default) or `long`.
        thinking_budgets: Tokens per thinking level, where thinking is counted in tokens.
        metadata: Data about the request; only `user_id` is sent, to Anthropic.
        deferred: Let the answer come later, where the protocol can.
    """

    reasoning: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    session_id: str | None = None
    cache_retention: str | None = None
    thinking_budgets: Mapping[str, int] | None = None
    metadata: Mapping[str, object] | None = None
    deferred: bool = False


def output_limit(request: BuiltRequest, options: BodySettings, *, thinking: int = 0) -> int:
    """Return the most tokens the answer may have so that it fits into the window with the input; 0 when unknown.

    Args:
        request: The input is measured.
        options: `max_tokens` is the wish.
        thinking: Tokens for thinking that are to be had on top of the wish.

    The input is estimated, with a margin; a window too full leaves a small answer, and the provider says so.

    Source: Pi 1.6.0, output limit. Differs for small windows, where Pi's fixed margin would leave one token.
    """
    target = request.target
    wanted = options.max_tokens + thinking if options.max_tokens else target.max_tokens
    if target.max_tokens:
        wanted = min(wanted, target.max_tokens)
    if not target.context_window or not wanted:
        return wanted
    used = _input_tokens(request)
    small = min(SAFETY_TOKENS, target.context_window // 16)
    room = target.context_window - used - max(small, int(used * SAFETY_RATIO))
    if room < ROOM_WITH_RATIO:
        room = min(ROOM_WITH_RATIO, target.context_window - used - small)
    return min(wanted, max(LEAST_OUTPUT_TOKENS, room))


def thinking_budget(options: BodySettings, level: str) -> int:
    """Return the tokens a level may think; a level without a number of its own has that of the next lower one."""
    budgets = {**DEFAULT_BUDGETS, **(options.thinking_budgets or {})}
    known = [budgets[name] for name in LEVELS[: LEVELS.index(level) + 1] if name in budgets]
    return known[-1] if known else LEAST_BUDGET


def cache_lifetime(target: Target, options: BodySettings) -> str:
    """Return how long the provider should keep its prompt cache: `none`, `short` or `long`, as far as it can."""
    retention = options.cache_retention or "short"
    if retention == "long" and not target.trait("supportsLongCacheRetention", True):
        return "short"
    return retention


def cache_mark(lifetime: str) -> dict[str, str] | None:
    """Return Anthropic's mark of a place up to which the prompt is cached."""
    if lifetime == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if lifetime == "long" else {"type": "ephemeral"}


def _input_tokens(request: BuiltRequest) -> int:
    units = len(request.system) + sum(len(str(tool)) for tool in request.tools)
    images = 0
    for message in request.messages:
        for block in message["content"]:
            kind = block["type"]
            if kind == "image":
                images += 1
            else:
                units += len(block["text"]) if kind == "text" else len(str(block))
    return units // UNITS_PER_TOKEN + images * IMAGE_TOKENS
