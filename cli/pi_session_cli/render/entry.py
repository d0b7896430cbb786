"""View of `show ENTRY`: everything about one entry, its text in full."""

from __future__ import annotations

from pi_session_cli.render.log import body
from pi_session_cli.render.summary import facts
from pi_session_cli.render.words import speaker, text_of
from pi_sessions.records import Record

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
    """

    session: Session
    entry: StoredEntry
    children: tuple[str, ...]
    active: bool
    label: str | None
    branches: tuple[str, ...]
    tokens: int | None


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
        ("model", model if message.get("role") == "assistant" else None),
        ("tokens", f"about {data.tokens:,}" if data.tokens is not None else None),
    ]
    yield from facts(told, screen)
    text = [f"  {line}".rstrip() for line in body(entry, whole=True)]
    if text:
        yield ""
        yield from text


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
    }
