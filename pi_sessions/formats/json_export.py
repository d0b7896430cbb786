"""Writes an export as one JSON object, for programs: the facts, then the entries as Pi writes them, one a line.

    {"format": "pi-session", "version": 1,
     "session": {id, name, cwd, created, updated, model, origin, originEntry, archived, pinned, parentSession,
                 parentCall, header},
     "leaf": ..., "wholeTree": ..., "branches": [{name, leaf, current}], "tips": [...],
     "labels": [{entryId, text, timestamp}], "entries": [...]}

Names are Pi's camelCase, times ISO 8601 UTC. The text is ASCII where content is no valid UTF-8.
"""

from __future__ import annotations

from pi_sessions.formats.export_losses import FACTS, counts_of, fact_losses
from pi_sessions.stored import dump
from pi_sessions.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject

FORMAT = "pi-session"
VERSION = 1


def export_lines(export: Export) -> Iterator[str]:
    """Yield the lines of the object."""
    yield f"{dump(head_of(export))[:-1]},\n"
    yield '"entries":['
    before = "\n"
    for entry in export.entries:
        yield f"{before}{dump(entry.to_dict())}"
        before = ",\n"
    yield "\n]}\n"


def export_losses(export: Export) -> dict[str, int]:
    """Return what the object does not hold: the entries beside the path, when it is made of one."""
    return counts_of(fact_losses(export, FACTS))


def head_of(export: Export) -> JsonObject:
    """Return everything but the entries."""
    session = export.session
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": {
            "id": session.id,
            "name": session.name,
            "cwd": session.cwd,
            "created": _iso(session.created_ms),
            "updated": _iso(session.updated_ms),
            "model": session.model,
            "origin": session.origin,
            "originEntry": session.origin_entry,
            "archived": session.archived,
            "pinned": session.pinned,
            "parentSession": session.parent_session,
            "parentCall": session.parent_call,
            "header": session.header,
        },
        "leaf": export.leaf,
        "wholeTree": export.whole_tree,
        "branches": [{"name": each.name, "leaf": each.leaf, "current": each.current} for each in export.branches],
        "tips": list(export.tips),
        "labels": [
            {"entryId": each.entry_id, "text": each.text, "timestamp": _iso(each.time_ms)} for each in export.labels
        ],
    }


def _iso(time_ms: int | None) -> str | None:
    try:
        return None if time_ms is None else format_time(time_ms)
    except OverflowError:
        return None
