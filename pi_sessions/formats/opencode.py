"""opencode's sessions as a format of the registry: its database, its older JSON folders, and its exported files.

Source: opencode 1.18 (`opencode.db`), before 1.2 (`storage/session/...`), `opencode export`.
"""

from __future__ import annotations

import os

from pi_sessions.formats.foreign_database import tables_of
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.registry import SESSION, file_stamp
from pi_sessions.ids import system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

_TABLES = {"session": "id parent_id title", "message": "id session_id data", "part": "id message_id data"}
_NEXT_TABLES = {"session": "id parent_id title", "session_message": "id session_id type seq data"}
# As long as a source has changed this lately, its last answer may still be on the way.
_SETTLED_MS = 60_000


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the database and the older folder, below the user's data directory."""
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    base = os.path.join(os.path.expanduser(data), "opencode")
    return (os.path.join(base, "opencode.db"), os.path.join(base, "storage"))


def roots(path: str) -> tuple[str, ...]:
    """Return the databases and the older folder below opencode's data folder."""
    if os.path.basename(os.path.abspath(path)) != "opencode":
        return ()
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return ()
    found = [name for name in names if (name.startswith("opencode") and name.endswith(".db")) or name == "storage"]
    return tuple(os.path.join(path, name) for name in found)


def is_storage(path: str) -> bool:
    """Whether a folder is one of the JSON files of opencode before 1.2, in either layout."""
    session = os.path.join(path, "session")
    if not os.path.isdir(session):
        return False
    if os.path.isdir(os.path.join(session, "info")) and os.path.isdir(os.path.join(session, "message")):
        return True
    return os.path.isdir(os.path.join(path, "message")) and os.path.basename(os.path.abspath(path)) == "storage"


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is opencode's database or an exported session, or a folder its storage."""
    if not head:
        return SESSION if is_storage(path) else None
    columns = tables_of(path, head)
    for wanted in (_TABLES, _NEXT_TABLES):
        if columns and all(set(names.split()) <= columns.get(table, frozenset()) for table, names in wanted.items()):
            return SESSION
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if start.startswith(b"{") and b'"info"' in start[:200] and b'"messages"' in head:
        return SESSION if b'"parts"' in head and (b'"projectID"' in head or b'"directory"' in head) else None
    return None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the sessions, parents before their subagents' conversations.

    Raises:
        SourceError: it cannot be read, or holds no session of opencode.
    """
    from pi_sessions.formats.opencode_sources import read_database, read_exported, read_storage

    if os.path.isdir(path):
        return read_storage(path)
    with open_source(path) as file:
        is_database = file.read(16).startswith(b"SQLite format 3")
    if is_database:
        return read_database(path, live=is_live(path))
    return read_exported(path)


def is_live(path: str) -> bool:
    """Whether a database was written a moment ago, so that its last answer may be unfinished."""
    times = [os.stat(path + end).st_mtime_ns for end in ("", "-wal") if os.path.exists(path + end)]
    return system_clock() - max(times, default=0) // 1_000_000 < _SETTLED_MS


def stamp(path: str) -> str:
    """Return what changes with the source; a database that has come to rest changes once more.

    Raises:
        SourceError: the source is gone.
    """
    if not os.path.isdir(path):
        told = file_stamp(path)
        return f"{told}:live" if path.endswith(".db") and is_live(path) else told
    newest = files = size = 0
    for place, _folders, names in os.walk(path):
        for name in names:
            try:
                status = os.stat(os.path.join(place, name))
            except OSError:
                continue
            newest, files, size = max(newest, status.st_mtime_ns), files + 1, size + status.st_size
    return f"{files}:{size}:{newest}"
