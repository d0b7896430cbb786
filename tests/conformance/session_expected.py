"""What our results must be where they differ from recorded ones: values, and changes to what Pi gave."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

Json = Any
Expect = Callable[[Json], Json]


def exactly(value: Json) -> Expect:
    """Return an expectation: this value."""
    return lambda _recorded: value


def patched(changes: dict[str, Json]) -> Expect:
    """Return an expectation: Pi's result with some places changed; `a/b/0` names a place, `GONE` takes it away."""

    def expect(recorded: Json) -> Json:
        result = copy.deepcopy(recorded)
        for place, value in changes.items():
            *way, last = place.split("/")
            inner = result
            for name in way:
                inner = inner[int(name)] if isinstance(inner, list) else inner[name]
            key = int(last) if isinstance(inner, list) else last
            if value is GONE:
                del inner[key]
            elif isinstance(inner, list) and key == len(inner):
                inner.append(value)
            else:
                inner[key] = value
        return result

    return expect


class _Gone:
    """Marks a place that ours does not have."""


GONE = _Gone()


def user(entry: str, text: str, timestamp: int) -> Json:
    """Return a user message as a context shows it."""
    return {"entry": entry, "role": "user", "text": text, "timestamp": timestamp, "llm": {"role": "user", "text": text}}


def answer(entry: str, text: str, timestamp: int, **model: str) -> Json:
    """Return an answer as a context shows it."""
    named = {"provider": "anthropic", "model": "claude-sonnet-4-5", **model, "stopReason": "stop"}
    seen = {"role": "assistant", "text": text}
    return {"entry": entry, "role": "assistant", "text": text, **named, "timestamp": timestamp, "llm": seen}


def with_own_ids(recorded: Json) -> Json:
    """Return a snapshot of a migrated file in which the entries keep their ids, and c is a second child of a."""
    first, _second, third = recorded["context"]["messages"]
    return patched(
        {
            "header/version": "3",
            "leaf": "c",
            "branch_leaf_to_root": ["c", "a"],
            "tree": {"roots": ["a"], "children": {"a": ["b", "c"]}},
            "context_entries": ["a", "c"],
            "context/messages": [{**first, "entry": "a"}, {**third, "entry": "c"}],
        }
    )(recorded)


def every_file_listed(recorded: Json) -> Json:
    """Return the list of damaged files with every session in it, newest first."""
    by_file = {row["file"]: row for row in recorded}
    plain = by_file["e.jsonl"]
    listed = [
        by_file["i.jsonl"],
        {**by_file["h.jsonl"], "id": "pi-cf3f9ff311256ca9578c80bd7f80ab8f"},
        plain,
        {**plain, "file": "d.jsonl", "id": "bom"},
        by_file["b.jsonl"],
        by_file["f.jsonl"],
        by_file["a.jsonl"],
    ]
    one = {"file": "c.jsonl", "id": "header-second", "modified": "2026-01-01T00:01:00.000Z", "messageCount": 1}
    none = {"file": "g.jsonl", "id": "no-message-object", "modified": plain["created"], "messageCount": 1}
    return [
        *listed,
        {**plain, **one, "allMessagesText": "q"},
        {**plain, **none, "firstMessage": "(no messages)", "allMessagesText": ""},
    ]


def cut_at_the_question(recorded: Json) -> Json:
    """Return the plan whose kept part begins at question three; its history is that of the case's step before."""
    head = recorded["serialized_history"]["head"]
    digest = "6404786fd19252506783fdb41a1638b932cac13a15cdaac86cf6492dca9e0971"
    return {
        **recorded,
        "firstKeptEntryId": "10000009",
        "isSplitTurn": False,
        "summarize_entries": [f"1000000{number}" for number in range(1, 8)],
        "turn_prefix_entries": [],
        "serialized_history": {"chars": 1757, "sha256": digest, "head": head},
        "serialized_turn_prefix": "",
    }


LEGACY_IDS = ("425f6cc3", "6ac87d7a")
LEGACY_MESSAGES = (
    user(LEGACY_IDS[0], "hello", 1767225660000),
    answer(LEGACY_IDS[1], "hi", 1767225720000, provider="p", model="m"),
)


def legacy_file(recorded: Json) -> Json:
    """Return the file of a copied version-1 session with ids and parents on every line."""
    header, first, second, third, _end = recorded["text"].split("\n")
    one, two, three = json.loads(first), json.loads(second), json.loads(third)
    one |= {"id": LEGACY_IDS[0], "parentId": None}
    two |= {"id": LEGACY_IDS[1], "parentId": LEGACY_IDS[0]}
    three |= {"parentId": LEGACY_IDS[1]}
    lines = [header, *(json.dumps(line) for line in (one, two, three)), ""]
    return {**recorded, "text": "\n".join(lines)}


def whole_session(recorded: Json) -> Json:
    """Return the file of a session with its header and the two messages before the last."""
    header = {"type": "session", "version": 3, "id": "sess-0001", "timestamp": "2026-03-01T10:00:01.000Z"}
    first = {"role": "user", "content": "one", "timestamp": 1772359202000}
    costs = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    second = {
        "role": "assistant",
        "content": [{"type": "text", "text": "two"}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {**costs, "totalTokens": 0, "cost": {**costs, "total": 0}},
        "stopReason": "stop",
        "timestamp": 1772359203000,
    }
    base = {"type": "message", "id": "10000001", "parentId": None, "timestamp": "2026-03-01T10:00:02.000Z"}
    then = {"type": "message", "id": "10000002", "parentId": "10000001", "timestamp": "2026-03-01T10:00:03.000Z"}
    lines = [{**header, "cwd": "/proj/demo"}, {**base, "message": first}, {**then, "message": second}]
    return {**recorded, "text": "".join(json.dumps(line) + "\n" for line in lines) + recorded["text"]}
