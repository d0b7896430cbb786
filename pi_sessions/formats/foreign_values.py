"""Cautious readings of foreign JSON values: text, counts, objects, pictures, usage; all else becomes nothing. Pure."""

from __future__ import annotations

import json
import re

from pi_sessions.formats.json_values import quick_object
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

_DATA_URL = re.compile(r"data:([A-Za-z0-9.+/-]{1,80})(?:;[A-Za-z0-9=._-]{1,80})*;base64,(.*)", re.DOTALL)
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
_MOST_NAME_CHARS = 200
_decode = json.JSONDecoder(parse_constant=lambda name: None).decode


def text_of(value: object) -> str:
    """Return text as it is, anything else as no text."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> JsonObject:
    """Return an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[JsonObject]:
    """Return the objects of a list; other items and anything that is no list are left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_of(value: object) -> int:
    """Return a number of tokens or the like; what cannot be one counts as nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


def money_of(value: object) -> float:
    """Return an amount of US dollars; what cannot be one counts as nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 < value < 1e12 else 0


def time_of(value: object) -> int | None:
    """Return the Unix milliseconds of a timestamp in any of the ways tools write one; None when it is none."""
    time_ms = parse_time(value)
    return time_ms if time_ms is not None and _EARLIEST_MS <= time_ms <= _LATEST_MS else None


def json_of(text: object) -> object:
    """Return the JSON value a text holds; None when it holds none."""
    if not isinstance(text, str):
        return None
    value = quick_object(text)
    if value is not None:
        return value
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def arguments_of(given: object) -> JsonObject:
    """Return the fields `arguments` and, when they were no object, `argumentsError` and `argumentsText` of a call."""
    if isinstance(given, dict):
        return {"arguments": given}
    if given is None or (isinstance(given, str) and not given.strip()):
        return {"arguments": {}}
    value = json_of(given)
    if isinstance(value, dict):
        return {"arguments": value}
    written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {"arguments": {}, "argumentsError": "the arguments are no JSON object", "argumentsText": written}


def call_block(id: object, name: object, arguments: object) -> JsonObject:
    """Return a toolCall block."""
    return {"type": "toolCall", "id": text_of(id), "name": text_of(name), **arguments_of(arguments)}


def text_block(text: str) -> JsonObject:
    """Return a text block."""
    return {"type": "text", "text": text}


def image_of(url: object) -> JsonObject | None:
    """Return the image block of a data URL; None for other addresses."""
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if found is None or not found[1].startswith("image/"):
        return None
    return {"type": "image", "data": found[2], "mimeType": found[1]}


def result_message(
    call_id: object, name: object, content: object, *, failed: bool, details: object = None
) -> JsonObject:
    """Return a toolResult message; text becomes one block, and empty text none.

    Args:
        details: What is for people and programs only, None for nothing.
    """
    blocks = ([text_block(content)] if content else []) if isinstance(content, str) else content
    message: JsonObject = {
        "role": "toolResult",
        "toolCallId": text_of(call_id),
        "toolName": text_of(name),
        "content": blocks,
        "isError": failed,
    }
    if details is not None:
        message["details"] = details
    return message


def usage_of(
    input: object = 0,
    output: object = 0,
    *,
    cache_read: object = 0,
    cache_write: object = 0,
    reasoning: object = 0,
    cost: object = 0,
) -> JsonObject:
    """Return a usage in our names.

    Args:
        input: Tokens read, those from a cache and into one not counted.
        output: Tokens written, those of `reasoning` counted.
        cost: US dollars in all.
    """
    counts = [count_of(each) for each in (input, output, cache_read, cache_write)]
    names = ("input", "output", "cacheRead", "cacheWrite")
    told: JsonObject = dict(zip(names, counts, strict=True))
    told["totalTokens"] = sum(counts)
    told["cost"] = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": money_of(cost)}
    if count_of(reasoning):
        told["reasoning"] = count_of(reasoning)
    return told


def line_of(text: object) -> str | None:
    """Return a title: the text on one line, cut where it is very long; None when there is none."""
    found = " ".join(text_of(text)[: _MOST_NAME_CHARS * 8].split())
    return found[:_MOST_NAME_CHARS] or None
