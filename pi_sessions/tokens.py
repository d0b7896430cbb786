"""How many tokens messages and contexts take, and what the settings say about it.

Pure. Lengths count UTF-16 units and four of them make a token, as in Pi, so that sessions compact at the same place
wherever they are opened. No message is too strange to estimate: what cannot be measured counts nothing.

Source: Pi 1.6.0, compaction: token calculation, settings.
"""

from __future__ import annotations

import json
import re

from pi_sessions.context import blocks_of, content_text
from pi_sessions.errors import CannotError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_sessions.context import Model
    from pi_sessions.stored import JsonObject, StoredEntry

UNITS_PER_TOKEN = 4
IMAGE_UNITS = 4800
MAX_SAFE_INTEGER = 2**53 - 1
DEFAULT_RESERVE_TOKENS = 16384
DEFAULT_KEEP_RECENT_TOKENS = 20000
USAGE_PARTS = ("input", "output", "cacheRead", "cacheWrite")
INVALID_STOPS = ("aborted", "error")
# A measure below this part of the estimate is not believed.
BELIEVED_PART = 1 / 3

_JSON_ATOM = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|-?Infinity|NaN')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class CompactionSettings(Record):
    """When to compact and how much to keep, in tokens."""

    enabled: bool = True
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS
    keep_recent_tokens: int = DEFAULT_KEEP_RECENT_TOKENS


class BranchSummarySettings(Record):
    """How much of the window a branch summary leaves free, and whether its question is skipped."""

    reserve_tokens: int = DEFAULT_RESERVE_TOKENS
    skip_prompt: bool = False


class ContextEstimate(Record):
    """The size of a context in tokens.

    Attributes:
        tokens: In all.
        usage_tokens: The part a provider has measured.
        trailing_tokens: The estimate of what follows it; of everything when nothing was measured.
        last_usage_index: Index of the answer whose usage was taken, None when nothing was measured.
    """

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units: a character outside the basic plane counts two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_utf16(text: str, units: int) -> str:
    """Return at most the first `units` UTF-16 units of a text, one less rather than half of a surrogate pair."""
    if text.isascii():
        return text[: max(0, units)]
    coded = text.encode("utf-16-le", "surrogatepass")
    end = 2 * max(0, units)
    if 0 < end < len(coded) and coded[end - 1] & 0xFC == 0xD8 and coded[end + 1] & 0xFC == 0xDC:
        end -= 2
    return coded[:end].decode("utf-16-le", "surrogatepass")


def json_text(value: object) -> str:
    """Return a value as JavaScript's JSON.stringify writes it: no spaces, whole numbers without a fraction."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _JSON_ATOM.sub(lambda found: found[0] if found[0][0] == '"' else _number_text(found[0]), text)


def estimate_tokens(message: JsonObject) -> int:
    """Return the estimated tokens of one message of a context; unknown roles take none.

    Source: Pi 1.6.0, compaction: a quarter of the UTF-16 units, rounded up; an image counts 4800 units.
    """
    role = message.get("role")
    if role in ("user", "custom", "toolResult"):
        units = _content_units(message.get("content"))
    elif role == "assistant":
        units = sum(_answer_block_units(block) for block in blocks_of(message.get("content")))
    elif role == "bashExecution":
        units = _units(message.get("command")) + _units(message.get("output"))
    elif role in ("branchSummary", "compactionSummary"):
        units = _units(message.get("summary"))
    elif role == "system":
        units = _system_units(message)
    else:
        units = 0
    return -(-units // UNITS_PER_TOKEN)


def context_tokens(usage: JsonObject) -> int:
    """Return the tokens of the context a usage tells of: its total, else the sum of its four parts."""
    return int(number(usage.get("totalTokens")) or sum(number(usage.get(part)) for part in USAGE_PARTS))


def usable_usage(message: JsonObject) -> JsonObject | None:
    """Return the usage of an answer that measures a context: not failed, not aborted, not zero. Else None."""
    usage = message.get("usage")
    if message.get("role") != "assistant" or message.get("stopReason") in INVALID_STOPS:
        return None
    return usage if isinstance(usage, dict) and context_tokens(usage) > 0 else None


def estimate_context(messages: Sequence[JsonObject]) -> ContextEstimate:
    """Return the size of a context: the last usable usage, plus estimates of the messages after it.

    Source: Pi 1.6.0, compaction: token calculation.
    """
    measured = 0
    start = 0
    for place in range(len(messages) - 1, -1, -1):
        usage = usable_usage(messages[place])
        if usage is not None:
            measured, start = context_tokens(usage), place + 1
            break
    trailing = sum(estimate_tokens(message) for message in messages[start:])
    return ContextEstimate(measured + trailing, measured, trailing, start - 1 if start else None)


def estimate_projected(
    projected: Sequence[tuple[StoredEntry, Sequence[JsonObject]]], path: Sequence[StoredEntry]
) -> ContextEstimate:
    """Return the size of a path's context, trusting no usage from before the last context edit or compaction.

    Args:
        projected: From `context.project_entries` of the path's active entries.
        path: The whole path, root first.

    Returns:
        As `estimate_context`; or, when something changed the context after the last usage, an estimate of everything
        with the system messages counted as the one prompt they make together.

    Source: Pi 1.6.0, compaction: token calculation.
    """
    messages = [message for _, given in projected for message in given]
    estimate = estimate_context(messages)
    if estimate.last_usage_index is not None:
        owner = _owner_of(projected, estimate.last_usage_index)
        for entry in reversed(path):
            if entry.id == owner:
                return estimate
            if entry.type in ("context_edit", "compaction"):
                break
    return _all_estimated(messages)


def believed_size(
    projected: Sequence[tuple[StoredEntry, Sequence[JsonObject]]], path: Sequence[StoredEntry]
) -> ContextEstimate:
    """Return the size of a path's context as `estimate_projected`, all estimated where the measure cannot be right.

    Imported answers and odd servers report usage that has nothing to do with the context.

    Source: ours; Pi 1.6.0 believes every usage above zero.
    """
    measured = estimate_projected(projected, path)
    estimated = _all_estimated([message for _, given in projected for message in given])
    return measured if is_believable(measured.tokens, estimated.tokens) else estimated


def is_believable(measured: int, estimated: int) -> bool:
    """Whether a measured size can be that of a context of this estimated size, both in tokens."""
    return measured >= estimated * BELIEVED_PART


def in_path_order(active: Sequence[StoredEntry]) -> list[StoredEntry]:
    """Return active entries as they stand on the path: the compaction behind what it kept.

    Args:
        active: From `context.active_entries`.
    """
    if not active or active[0].type != "compaction":
        return list(active)
    first, *others = active
    place = next((place for place, entry in enumerate(others) if entry.parent_id == first.id), len(others))
    return [*others[:place], first, *others[place:]]


def _all_estimated(messages: Sequence[JsonObject]) -> ContextEstimate:
    system = merged_system(messages)
    tokens = 0 if system is None else estimate_tokens(system)
    tokens += sum(estimate_tokens(message) for message in messages if message.get("role") != "system")
    return ContextEstimate(tokens, 0, tokens, None)


def merged_system(messages: Sequence[JsonObject]) -> JsonObject | None:
    """Return the system prompt in force as one message, None when there is none.

    Returns:
        Contents joined, later sections over earlier ones (null removes one), tools added and not removed since.

    Source: Pi 1.6.0, the current system message.
    """
    texts: list[str] = []
    sections: JsonObject = {}
    tools: JsonObject = {}
    timestamp: object = None
    systems = [message for message in messages if message.get("role") == "system"]
    for message in systems:
        timestamp = message.get("timestamp") if timestamp is None else timestamp
        text = content_text(message.get("content"))
        if text:
            texts.append(text)
        own = message.get("sections")
        for name, value in own.items() if isinstance(own, dict) else ():
            sections.pop(name, None) if value is None else sections.update({name: value})
        for tool in _named_tools(message.get("toolsRemoved")):
            tools.pop(tool["name"], None)
        for tool in _named_tools(message.get("toolsAdded")):
            tools[tool["name"]] = tool
    if not systems:
        return None
    merged: JsonObject = {"role": "system", "content": "\n\n".join(texts)}
    if sections:
        merged["sections"] = sections
    if tools:
        merged["toolsAdded"] = list(tools.values())
    return {**merged, "timestamp": 0 if timestamp is None else timestamp}


def should_compact(tokens: int, window: int, settings: CompactionSettings) -> bool:
    """Whether a context of this size asks for a compaction: more tokens than the window less the reserve."""
    return settings.enabled and tokens > window - settings.reserve_tokens


def compaction_settings(settings: JsonObject, model: Model | None = None) -> CompactionSettings:
    """Return the compaction settings in force for a model.

    Args:
        settings: The person's settings; `compaction` holds `enabled`, `reserveTokens`, `keepRecentTokens` and
            `modelOverrides` by exact `provider/model`.
        model: Whose overrides count; None: nobody's.

    Raises:
        CannotError: a value that counts here is no whole number from 0 to 2**53 - 1, or an override is no object.

    Source: Pi 1.6.0, settings.
    """
    own = settings.get("compaction")
    own = own if isinstance(own, dict) else {}
    enabled = own.get("enabled")
    return CompactionSettings(
        True if enabled is None else bool(enabled),
        _token_setting(own, "reserveTokens", model, DEFAULT_RESERVE_TOKENS),
        _token_setting(own, "keepRecentTokens", model, DEFAULT_KEEP_RECENT_TOKENS),
    )


def branch_summary_settings(settings: JsonObject) -> BranchSummarySettings:
    """Return the branch-summary settings in force.

    Raises:
        CannotError: the reserve is no whole number from 0 to 2**53 - 1 (Pi takes any value).

    Source: Pi 1.6.0, settings.
    """
    own = settings.get("branchSummary")
    own = own if isinstance(own, dict) else {}
    reserve = own.get("reserveTokens")
    if reserve is None:
        reserve = DEFAULT_RESERVE_TOKENS
    return BranchSummarySettings(_checked("branchSummary.reserveTokens", reserve), bool(own.get("skipPrompt") or False))


def number(value: object) -> int | float:
    """Return a value as a number; 0 for anything that is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else 0


def _number_text(text: str) -> str:
    """Return a JSON number as JavaScript prints it, null where it has none."""
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if "." not in text and "e" not in text and "E" not in text and abs(value) <= MAX_SAFE_INTEGER:
        return text if text != "-0" else "0"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    if -7 < power < 0:
        sign = "-" if digits.startswith("-") else ""
        return f"{sign}0.{'0' * (-power - 1)}{digits.lstrip('-').replace('.', '')}"
    return f"{digits.removesuffix('.0')}e{'+' if power > 0 else ''}{power}"


def _units(value: object) -> int:
    return utf16_length(value) if isinstance(value, str) else 0


def _content_units(content: object) -> int:
    if isinstance(content, str):
        return utf16_length(content)
    units = 0
    for block in blocks_of(content):
        kind = block.get("type")
        units += _units(block.get("text")) if kind == "text" else IMAGE_UNITS if kind == "image" else 0
    return units


def _answer_block_units(block: JsonObject) -> int:
    kind = block.get("type")
    if kind == "text":
        return _units(block.get("text"))
    if kind == "thinking":
        return _units(block.get("thinking"))
    if kind == "toolCall":
        arguments = utf16_length(json_text(block["arguments"])) if "arguments" in block else 0
        return _units(block.get("name")) + arguments
    return 0


def _system_units(message: JsonObject) -> int:
    sections = message.get("sections")
    units = _content_units(message.get("content"))
    units += sum(_units(section) for section in sections.values()) if isinstance(sections, dict) else 0
    tools = message.get("toolsAdded")
    return units + (utf16_length(json_text(tools)) if isinstance(tools, list) else 0)


def _named_tools(tools: object) -> list[JsonObject]:
    listed = tools if isinstance(tools, list) else []
    return [tool for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]


def _owner_of(projected: Sequence[tuple[StoredEntry, Sequence[JsonObject]]], index: int) -> str | None:
    for entry, given in projected:
        if index < len(given):
            return entry.id
        index -= len(given)
    return None


def _token_setting(own: JsonObject, name: str, model: Model | None, default: int) -> int:
    ordinary = _checked(f"compaction.{name}", own[name]) if name in own else default
    overrides = own.get("modelOverrides")
    key = f"{model.provider}/{model.model_id}" if model else None
    if key is None or not isinstance(overrides, dict) or key not in overrides:
        return ordinary
    override = overrides[key]
    place = f'compaction.modelOverrides["{key}"]'
    if not isinstance(override, dict):
        raise CannotError(f"Invalid {place} setting: {json_text(override)}", hint="it must be an object")
    return _checked(f"{place}.{name}", override[name]) if name in override else ordinary


def _checked(name: str, value: object) -> int:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole <= MAX_SAFE_INTEGER:
        raise CannotError(
            f"Invalid {name} setting: {json_text(value)}", hint="it must be a whole number of tokens, 0 or more"
        )
    return whole
