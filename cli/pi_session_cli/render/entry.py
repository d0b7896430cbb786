"""View of `show ENTRY`: everything about one entry, its text in full."""

from __future__ import annotations

from pi_session_cli.render.log import said_lines
from pi_session_cli.render.summary import UNKNOWN_MODEL, facts
from pi_session_cli.render.words import speaker, stop_words, text_of
from pi_sessions.records import Record
from pi_sessions.tokens import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Session
    from pi_sessions.stored import StoredEntry


class OneEntry(Record):
    """An entry and its place.

    Attributes:
        children: Ids of the entries under it.
        active: Whether it lies on the path to the leaf.
        label: Its label, None when it has none.
        branches: Names of branches whose leaf it is.
        tokens: What it takes in a context, estimated; None when a model sees nothing of it.
        place: Its number on its path and whether a model would see it at the leaf, in words; None when nobody asked.
        partners: The entries with the other half of its tool calls: `(call id, entry id)`; None for a missing result.
    """

    session: Session
    entry: StoredEntry
    children: tuple[str, ...]
    active: bool
    label: str | None
    branches: tuple[str, ...]
    tokens: int | None
    place: str | None = None
    partners: tuple[tuple[str, str | None], ...] = ()


def lines(data: OneEntry, screen: Screen) -> Iterator[str]:
    """Yield the facts, then the text."""
    entry = data.entry
    message = entry.message or {}
    model = "/".join(filter(None, (text_of(message.get("provider")), text_of(message.get("model")))))
    place = "on the path to the leaf" if data.active else "on another branch"
    told = [
        ("entry", entry.id),
        ("session", data.session.id),
        ("kind", speaker(entry)),
        ("time", screen.full_time(entry.time_ms)),
        ("under", entry.parent_id or "nothing: it is a root"),
        ("children", " ".join(data.children) or "none"),
        ("place", f"{place}{'; leaf of ' + ', '.join(data.branches) if data.branches else ''}"),
        ("label", data.label),
        ("model", model if message.get("role") == "assistant" and model != UNKNOWN_MODEL else None),
        ("tokens", f"about {data.tokens:,}" if data.tokens is not None else None),
        ("usage", usage_text(message.get("usage") or entry.fields.get("usage"))),
        ("stopped", stop_words(message) or None),
        ("context", data.place),
        *(("calls" if message.get("role") == "assistant" else "answers", partner_text(each)) for each in data.partners),
        ("size", f"{len(entry.payload.encode('utf-8', 'replace')):,} bytes"),
    ]
    yield from facts(told, screen)
    text = list(said_lines(entry, True, {}, screen))
    if text:
        yield ""
        yield from text


def usage_text(usage: object) -> str | None:
    """Return what an answer took, as the provider counted it; None where that is not recorded."""
    if not isinstance(usage, dict):
        return None
    kinds = (("input", "in"), ("output", "out"), ("cacheRead", "from cache"), ("cacheWrite", "to cache"))
    parts = [f"{number(usage.get(name)):,.0f} {word}" for name, word in kinds if number(usage.get(name))]
    cost = usage.get("cost")
    total = number(cost.get("total")) if isinstance(cost, dict) else 0
    return ", ".join(parts + ([f"${total:.4f}"] if total else [])) or None


def partner_text(partner: tuple[str, str | None]) -> str:
    """Return the other half of a tool call."""
    call_id, entry_id = partner
    return f"{entry_id}  ({call_id})" if entry_id else f"no result  ({call_id})"


def to_json(data: OneEntry) -> dict[str, object]:
    """Return the entry as Pi writes it, and its place."""
    return {
        "sessionId": data.session.id,
        "entry": data.entry.to_dict(),
        "children": list(data.children),
        "active": data.active,
        "label": data.label,
        "branches": list(data.branches),
        "tokens": data.tokens,
        "place": data.place,
        "partners": [{"toolCallId": call_id, "entryId": entry_id} for call_id, entry_id in data.partners],
    }
