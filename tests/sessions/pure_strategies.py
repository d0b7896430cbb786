"""Builders and hypothesis strategies for entries, shared by the tests of the pure modules."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pi_sessions.stored import StoredEntry

START_MS = 1_772_359_200_000


def entry(id: str, parent: str | None, type: str, /, **fields: Any) -> StoredEntry:
    made = StoredEntry.from_dict({"type": type, "id": id, "parentId": parent, **fields})
    made.time_ms = START_MS + sum(id.encode())
    return made


def message(id: str, parent: str | None, role: str, content: Any, /, **fields: Any) -> StoredEntry:
    return entry(id, parent, "message", message={"role": role, "content": content, **fields})


def chain(*items: tuple[str, dict[str, Any]]) -> list[StoredEntry]:
    """Return a path of entries `e0`, `e1`, ... of the given types and fields."""
    return [
        entry(f"e{place}", f"e{place - 1}" if place else None, kind, **fields)
        for place, (kind, fields) in enumerate(items)
    ]


def user(text: Any) -> tuple[str, dict[str, Any]]:
    return "message", {"message": {"role": "user", "content": text}}


def answer(text: str = "", calls: tuple[str, ...] = (), **fields: Any) -> tuple[str, dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "toolCall", "id": id, "name": "read", "arguments": {"path": f"{id}.py"}} for id in calls]
    stop = "toolUse" if calls else "stop"
    body = {"role": "assistant", "provider": "p", "model": "m", "content": blocks, "stopReason": stop, **fields}
    return "message", {"message": body}


def result(call: str, text: str) -> tuple[str, dict[str, Any]]:
    body = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": [{"type": "text", "text": text}]}
    return "message", {"message": body}


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)

KNOWN_FIELDS = (
    "message",
    "role",
    "content",
    "summary",
    "firstKeptEntryId",
    "tokensBefore",
    "details",
    "usage",
    "fromHook",
    "systemMessage",
    "fromId",
    "customType",
    "display",
    "targetId",
    "replacement",
    "thinkingLevel",
    "provider",
    "modelId",
    "model",
    "stopReason",
    "sections",
    "toolsAdded",
    "toolsRemoved",
    "toolCallId",
    "nestedCalls",
    "command",
    "output",
    "exitCode",
    "name",
    "label",
    "readFiles",
    "modifiedFiles",
)
ROLES = ("user", "assistant", "toolResult", "system", "custom", "bashExecution", "branchSummary", "mystery")
TYPES = (
    "message",
    "custom_message",
    "context_edit",
    "compaction",
    "branch_summary",
    "model_change",
    "thinking_level_change",
    "label",
    "session_info",
    "usage",
    "custom",
    "mystery",
)


@st.composite
def wild_fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields under known names with values of any kind, so that most types are wrong."""
    blocks = st.fixed_dictionaries(
        {}, optional={"type": st.sampled_from(("text", "image", "toolCall", "thinking")) | JSON_VALUES}
    )
    values = JSON_VALUES | st.sampled_from(("e0", "e1", "e2")) | st.lists(blocks | JSON_VALUES, max_size=3)
    fields = draw(st.dictionaries(st.sampled_from(KNOWN_FIELDS), values, max_size=5))
    if draw(st.booleans()):
        body = draw(st.dictionaries(st.sampled_from(KNOWN_FIELDS), values, max_size=5))
        fields["message"] = {**body, "role": draw(st.sampled_from(ROLES))}
    return fields


@st.composite
def wild_tree(draw: st.DrawFn) -> list[StoredEntry]:
    """Entries of any kind with parents that may be missing, later or themselves."""
    count = draw(st.integers(1, 8))
    parents = st.none() | st.sampled_from([f"e{place}" for place in range(count)] + ["gone"])
    entries = []
    for place in range(count):
        made = StoredEntry.from_dict(
            {**draw(wild_fields()), "type": draw(st.sampled_from(TYPES)), "id": f"e{place}", "parentId": draw(parents)}
        )
        made.time_ms = draw(st.none() | st.integers(0, 5))
        entries.append(made)
    return entries


@st.composite
def plausible_path(draw: st.DrawFn) -> list[StoredEntry]:
    """A path as agents write them: turns with tool calls whose results may come late and out of order, edits,
    earlier compactions, settings and facts between."""
    items: list[tuple[str, dict[str, Any]]] = []
    pending: list[str] = []
    calls = 0
    texts = st.integers(0, 120).map(lambda size: "w" * size)
    kinds = ("user", "answer", "calls", "result", "result", "shell", "custom", "setting", "fact", "system", "edit")
    for _ in range(draw(st.integers(0, 24))):
        kind = draw(st.sampled_from((*kinds, "compaction", "summary", "mystery", "hollow")))
        place = len(items)
        if kind == "user":
            items.append(user(f"question {place} " + draw(texts)))
        elif kind == "answer":
            items.append(answer(f"answer {place} " + draw(texts), stopReason=draw(st.sampled_from(("stop", "error")))))
        elif kind == "calls":
            made = tuple(f"c{calls + step}" for step in range(draw(st.integers(1, 3))))
            calls += len(made)
            pending += made
            items.append(answer(draw(st.sampled_from(("", "looking"))), made))
        elif kind == "result" and pending:
            call = pending.pop(draw(st.integers(0, len(pending) - 1)))
            items.append(result(call, draw(texts)))
        elif kind == "shell":
            items.append(("message", {"message": {"role": "bashExecution", "command": "ls", "output": draw(texts)}}))
        elif kind == "custom":
            items.append(("custom_message", {"customType": "x", "content": f"note {place}", "display": True}))
        elif kind == "setting":
            items.append(("model_change", {"provider": "p", "modelId": "m"}))
        elif kind == "fact":
            items.append(("label", {"targetId": "e0", "label": "l"}))
        elif kind == "system":
            items.append(("message", {"message": {"role": "system", "content": "be brief"}}))
        elif kind == "edit" and items:
            targets = [i for i, (_, fields) in enumerate(items) if is_editable_item(fields)]
            if targets:
                replacement = draw(st.sampled_from((None, {"content": "replaced"})))
                target = f"e{draw(st.sampled_from(targets))}"
                items.append(("context_edit", {"targetId": target, "replacement": replacement}))
        elif kind == "compaction":
            kept = draw(st.sampled_from([f"e{i}" for i in range(place + 1)]))
            items.append(("compaction", {"summary": f"summary {place}", "firstKeptEntryId": kept, "tokensBefore": 1}))
        elif kind == "summary":
            items.append(("branch_summary", {"summary": f"branch {place}", "fromId": "e0"}))
        elif kind == "mystery":
            items.append(("mystery", {"data": 1}))
        elif kind == "hollow":
            items.append(("message", {}))
    return chain(*items)


def is_editable_item(fields: dict[str, Any]) -> bool:
    role = fields.get("message", {}).get("role") or ("user" if "customType" in fields else None)
    return role in ("user", "assistant", "toolResult")
