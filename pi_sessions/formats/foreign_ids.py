"""Ids of our entries in files of other programs, which want UUIDs; and the mark by which we know them again.

A record we write carries `piSession` beside its own fields. Other programs keep or ignore it; our readers take the id
(and what the format cannot say) from it, so that a file that comes back joins the session it came from.
"""

from __future__ import annotations

import hashlib
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

MARK = "piSession"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def as_uuid(own_id: str, *more: str) -> str:
    """Return an id that is a UUID already as it is, else a UUID computed from it."""
    if not more and _UUID.fullmatch(own_id):
        return own_id
    digest = bytearray(hashlib.sha256("\n".join((own_id, *more)).encode("utf-8", "backslashreplace")).digest()[:16])
    digest[6] = 0x80 | (digest[6] & 0x0F)
    digest[8] = 0x80 | (digest[8] & 0x3F)
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def mark_of(record: JsonObject) -> JsonObject:
    """Return the mark a record carries, empty for other programs' records."""
    mark = record.get(MARK)
    return mark if isinstance(mark, dict) else {}


def overrides(mark: JsonObject, message: JsonObject) -> None:
    """Give a message the fields a mark says it has; None takes one away."""
    told = mark.get("message")
    for name, value in told.items() if isinstance(told, dict) else ():
        if value is None:
            message.pop(name, None)
        else:
            message[name] = value


def marked_text(mark: JsonObject, name: str) -> str | None:
    """Return a text a mark holds, None when it holds none."""
    value = mark.get(name)
    return value if isinstance(value, str) and value else None
