"""Compares our result of a step with a recorded one: shortened values, file texts line by line, numbers within 1e-9."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.session_pure import comparable, short_ids, short_text

Json = Any

_SHORT_TEXT = {"chars", "sha256", "head"}
_SHORT_IDS = {"count", "sha256", "first", "last"}


def differences(ours: Json, recorded: Json) -> list[str]:
    """Return where two results differ, as `place: ours / recorded`; an empty list when they agree."""
    return list(_differences(comparable(ours), comparable(recorded), ""))


def records_of(text: str) -> list[Json]:
    """Return the lines of a session file: decoded where they are JSON, else as they stand."""
    return [_decoded(line) for line in text.split("\n")]


def _decoded(line: str) -> Json:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _differences(ours: Json, recorded: Json, place: str) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(ours, str) and recorded.keys() == _SHORT_TEXT:
        ours = short_text(ours)
    elif isinstance(recorded, dict) and isinstance(ours, list) and recorded.keys() == _SHORT_IDS:
        ours = short_ids(ours)
    if (
        isinstance(ours, str)
        and isinstance(recorded, str)
        and ours != recorded
        and _is_file(ours)
        and _is_file(recorded)
    ):
        ours, recorded = records_of(ours), records_of(recorded)
    if isinstance(ours, dict) and isinstance(recorded, dict):
        for name in [*recorded, *(name for name in ours if name not in recorded)]:
            if name not in ours:
                yield f"{place}.{name}: missing, recorded {_shown(recorded[name])}"
            elif name not in recorded:
                yield f"{place}.{name}: {_shown(ours[name])}, not recorded"
            else:
                yield from _differences(ours[name], recorded[name], f"{place}.{name}")
    elif isinstance(ours, list) and isinstance(recorded, list):
        for number, (one, other) in enumerate(zip(ours, recorded, strict=False)):
            yield from _differences(one, other, f"{place}[{number}]")
        if len(ours) != len(recorded):
            more = [_shown(one) for one in (ours[len(recorded) :] or recorded[len(ours) :])[:2]]
            yield f"{place}: {len(ours)} items, recorded {len(recorded)}; left over: {', '.join(more)}"
    elif not _equal(ours, recorded):
        yield f"{place or 'result'}: {_shown(ours)}, recorded {_shown(recorded)}"


def _is_file(text: str) -> bool:
    return text.startswith("{") and "\n" in text


def _equal(ours: Json, recorded: Json) -> bool:
    if isinstance(ours, bool) or isinstance(recorded, bool) or ours is None or recorded is None:
        return ours is recorded
    if isinstance(ours, int | float) and isinstance(recorded, int | float):
        return abs(ours - recorded) <= 1e-9 * max(1, abs(recorded))
    return type(ours) is type(recorded) and bool(ours == recorded)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}…"
