"""Hypothesis strategies for what is appended to a store: entries as agents write them, in Pi's form."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Entry = dict[str, Any]

TEXTS = st.text(max_size=12)
NAMES = st.sampled_from(("main", "main-2", "idea", "fix", "try 2"))
KINDS = (
    *("user", "answer", "answer", "result", "system", "model", "level", "compaction", "edit"),
    *("custom", "summary", "note", "mystery"),
)
LABELS = st.none() | st.sampled_from(("start", "here", "good", ""))


def message(role: str, content: Any, **fields: Any) -> Entry:
    """Return a `message` entry."""
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def user(text: str = "question") -> Entry:
    """Return a user message."""
    return message("user", text)


def answer(text: str = "answer", *, provider: str = "p", model: str = "m") -> Entry:
    """Return an assistant message."""
    content = [{"type": "text", "text": text}]
    return message("assistant", content, provider=provider, model=model, stopReason="stop")


@st.composite
def entries(draw: st.DrawFn, known: list[str]) -> Entry:
    """Draw an entry without id; references name known entries, or none that exists.

    Args:
        known: Ids of entries of the session, in any order.
    """
    target = st.sampled_from([*known[-8:], "gone"])
    kind = draw(st.sampled_from(KINDS))
    if kind == "user":
        return user(draw(TEXTS))
    if kind == "answer":
        return answer(draw(TEXTS), provider=draw(st.sampled_from("pq")), model=draw(st.sampled_from("mn")))
    if kind == "result":
        return message("toolResult", [{"type": "text", "text": draw(TEXTS)}], toolCallId="c1", toolName="read")
    if kind == "system":
        return message("system", draw(TEXTS))
    if kind == "model":
        return {"type": "model_change", "provider": draw(st.sampled_from("pq")), "modelId": draw(st.sampled_from("mn"))}
    if kind == "level":
        return {"type": "thinking_level_change", "thinkingLevel": draw(st.sampled_from(("off", "low", "high")))}
    if kind == "compaction":
        return {"type": "compaction", "summary": "so far", "firstKeptEntryId": draw(target), "tokensBefore": 7}
    if kind == "edit":
        replacement = draw(st.sampled_from((None, {"content": "replaced"})))
        return {"type": "context_edit", "targetId": draw(target), "replacement": replacement}
    if kind == "custom":
        return {"type": "custom_message", "customType": "x", "content": draw(TEXTS), "display": False}
    if kind == "summary":
        return {"type": "branch_summary", "fromId": "root", "summary": draw(TEXTS)}
    if kind == "note":
        return {"type": "custom", "customType": "x", "data": {"n": draw(st.integers(0, 3))}}
    return {"type": "mystery", "payload": [1, {"deep": draw(TEXTS)}]}
