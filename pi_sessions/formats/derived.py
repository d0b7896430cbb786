"""Entries that stand for facts: how our exporter writes labels and names, and how a reader knows them again.

Labels, names and the settings of a version-1 header are no entries of the conversation. Where a file needs them as
entries, they get ids computed from what they say, so that reading the file back recognises them. Pure.
"""

from __future__ import annotations

import hashlib

from pi_sessions.stored import StoredEntry, dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

FACT_TYPES = ("label", "session_info")
# Pi 1.6.0 crashes on a message entry without a message; such entries go out as custom entries with this name, and what
# stood in the message's place under `instead`.
MISSING_MESSAGE = "pi-session.missing-message"


def derived_id(kind: str, fields: JsonObject, time_ms: int | None) -> str:
    """Return the id of a derived entry: 16 hex digits, where ids made by Pi or by us have 8 or 36 characters."""
    told = dump([kind, fields, time_ms])
    return hashlib.sha256(b"pi-session derived entry\n" + told.encode()).hexdigest()[:16]


def derived_entry(kind: str, fields: JsonObject, time_ms: int | None, parent_id: str | None) -> StoredEntry:
    """Return an entry of this kind whose id says that it was derived."""
    return StoredEntry(derived_id(kind, fields, time_ms), parent_id, kind, time_ms, dump(fields))


def is_derived_fact(entry: StoredEntry) -> bool:
    """Whether a label or name entry was written by our exporter."""
    if entry.type not in FACT_TYPES or len(entry.id) != 16 or entry.extra is not None:
        return False
    return entry.id == derived_id(entry.type, entry.fields, entry.time_ms)


def label_fields(target_id: str, text: str) -> JsonObject:
    """Return the own fields of a label entry, in Pi's order."""
    return {"targetId": target_id, "label": text}


def name_fields(name: str | None) -> JsonObject:
    """Return the own fields of a name entry; an empty name clears."""
    return {"name": name or ""}
