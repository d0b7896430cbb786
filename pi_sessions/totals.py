"""What a session has cost and how full its context is.

Pure: sums over all entries of all branches, since all of them were paid for.

Source: Pi 1.6.0, session totals.
"""

from __future__ import annotations

from pi_sessions.context import active_entries, blocks_of, project_entries
from pi_sessions.records import Record
from pi_sessions.tokens import USAGE_PARTS, estimate_projected, number, usable_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry

OTHER_KEY = "Tools/summaries"
COST_PARTS = (*USAGE_PARTS, "total")


class Totals(Record):
    """Counts and sums over a session's entries.

    Attributes:
        total_messages: All `message` entries, whatever their role.
        tool_calls: Tool-call blocks in answers.
        input, output, cache_read, cache_write: Tokens.
        cost: In the currency of the usages (US dollars).
    """

    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    input: float
    output: float
    cache_read: float
    cache_write: float
    cost: float

    @property
    def tokens(self) -> float:
        """The sum of input, output and both cache figures."""
        return self.input + self.output + self.cache_read + self.cache_write


class CostRow(Record):
    """Cost and tokens of one model, or of tools and summaries together."""

    key: str
    cost: float
    tokens: float


class ContextUsage(Record):
    """How full a context is.

    Attributes:
        tokens: Its size.
        window: The model's context window, tokens.
        percent: Of the window.
        estimated: Nothing of it was measured by a provider since the last compaction or context edit.
        after_compaction: It is an estimate because no answer has come since the last compaction.
    """

    tokens: int
    window: int
    percent: float
    estimated: bool
    after_compaction: bool


def session_totals(entries: Iterable[StoredEntry]) -> Totals:
    """Return the totals of a session over all its branches; failed and aborted answers count.

    Source: Pi 1.6.0, session totals.
    """
    roles: dict[object, int] = {}
    messages = 0
    calls = 0
    sums: list[float] = [0, 0, 0, 0, 0]
    for entry in entries:
        if entry.type == "message":
            messages += 1
            role = entry.role
            roles[role] = roles.get(role, 0) + 1
            if role == "assistant" and entry.message:
                blocks = blocks_of(entry.message.get("content"))
                calls += sum(block.get("type") == "toolCall" for block in blocks)
        for _, usage in entry_usages(entry):
            for place, value in enumerate((*_token_parts(usage), _cost(usage))):
                sums[place] += value
    counts = (roles.get("user", 0), roles.get("assistant", 0), calls, roles.get("toolResult", 0), messages)
    return Totals(*counts, *sums)


def cost_breakdown(entries: Iterable[StoredEntry]) -> list[CostRow]:
    """Return cost and tokens by model, dearest first; rows with neither are left out.

    Source: Pi 1.6.0, cost breakdown: answers under `provider/(responseModel or model)`, usage entries under
        `provider/model`, everything else under `Tools/summaries`.
    """
    sums: dict[str, tuple[float, float]] = {}
    for entry in entries:
        for key, usage in entry_usages(entry):
            cost, tokens = sums.get(key, (0, 0))
            sums[key] = (cost + _cost(usage), tokens + sum(_token_parts(usage)))
    rows = [CostRow(key, cost, tokens) for key, (cost, tokens) in sums.items() if cost > 0 or tokens > 0]
    return sorted(rows, key=lambda row: -row.cost)


def combine_usage(first: JsonObject, second: JsonObject) -> JsonObject:
    """Return the sum of two usages; the optional splits are there when either has them.

    Source: Pi 1.6.0, combined usage.
    """
    total: JsonObject = {part: number(first.get(part)) + number(second.get(part)) for part in USAGE_PARTS}
    for part in ("cacheWrite1h", "reasoning"):
        if part in first or part in second:
            total[part] = number(first.get(part)) + number(second.get(part))
    total["totalTokens"] = number(first.get("totalTokens")) + number(second.get("totalTokens"))
    costs = [_object(first.get("cost")), _object(second.get("cost"))]
    cost: JsonObject = {part: sum(number(one.get(part)) for one in costs) for part in COST_PARTS}
    cost["totalFromProvider"] = all(one.get("totalFromProvider") is True for one in costs)
    return {**total, "cost": cost}


def context_usage(path: Sequence[StoredEntry], window: int | None) -> ContextUsage | None:
    """Return how full the context at the end of a path is, None without a window.

    Args:
        path: Root first.
        window: The model's context window, tokens.

    Source: Pi 1.6.0, context usage, except that after a compaction, where Pi knows nothing until the next answer, an
        estimate is given and marked as one.
    """
    if not window or window < 0:
        return None
    projected = project_entries(active_entries(path))
    estimate = estimate_projected(projected, path)
    return ContextUsage(
        estimate.tokens,
        window,
        estimate.tokens / window * 100,
        estimate.last_usage_index is None,
        _unmeasured_compaction(projected, path),
    )


def _unmeasured_compaction(
    projected: Sequence[tuple[StoredEntry, Sequence[JsonObject]]], path: Sequence[StoredEntry]
) -> bool:
    """Whether the path has a compaction and no usable answer after it."""
    measured = {entry.id for entry, given in projected if any(usable_usage(message) for message in given)}
    for entry in reversed(path):
        if entry.type == "compaction":
            return True
        if entry.id in measured:
            return False
    return False


def entry_usages(entry: StoredEntry) -> Iterator[tuple[str, JsonObject]]:
    """Yield what an entry used, with the key of `cost_breakdown` it counts under; nothing for most entries."""
    fields = entry.fields
    if entry.type == "usage":
        key, usage = _model_key(fields, "model"), fields.get("usage")
    elif entry.type in ("branch_summary", "compaction"):
        key, usage = OTHER_KEY, fields.get("usage")
    elif entry.role == "assistant":
        message = entry.message or {}
        named = "model" if message.get("responseModel") is None else "responseModel"
        key, usage = _model_key(message, named), message.get("usage")
    elif entry.role == "toolResult":
        key, usage = OTHER_KEY, (entry.message or {}).get("usage")
    else:
        return
    if isinstance(usage, dict):
        yield key, usage


def _model_key(named: JsonObject, field: str) -> str:
    return f"{named.get('provider') or 'unknown'}/{named.get(field) or 'unknown'}"


def _token_parts(usage: JsonObject) -> list[int | float]:
    return [number(usage.get(part)) for part in USAGE_PARTS]


def _cost(usage: JsonObject) -> int | float:
    return number(_object(usage.get("cost")).get("total"))


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def unpriced_answers(entries: Iterable[StoredEntry]) -> int:
    """Return how many usages of tokens carry no price; a cost of nothing means that it is unknown, not free."""
    return sum(
        sum(_token_parts(usage)) > 0 and _cost(usage) <= 0 for entry in entries for _, usage in entry_usages(entry)
    )
