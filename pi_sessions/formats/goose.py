"""goose's sessions as a format of the registry: its database, and the files of lines before 1.10.

Source: goose 1.10 and later (`sessions.db`), before 1.10 (`<session>.jsonl`).
"""

from __future__ import annotations

import os

from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import tables_of
from pi_sessions.formats.json_lines import head_records
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

_TABLES = {
    "sessions": {"id", "working_dir"},
    "messages": {"session_id", "role", "content_json", "created_timestamp"},
}


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of sessions: below `GOOSE_PATH_ROOT`, the user's data directory, or macOS's."""
    root = environ.get("GOOSE_PATH_ROOT")
    if root:
        return (os.path.join(os.path.expanduser(root), "data", "sessions"),)
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    mac = os.path.join(home, "Library", "Application Support", "Block.goose")
    return (os.path.join(os.path.expanduser(data), "goose", "sessions"), os.path.join(mac, "sessions"))


def roots(path: str) -> tuple[str, ...]:
    """Return the folder of sessions below goose's data folder."""
    if os.path.basename(os.path.abspath(path)) not in ("goose", "Block.goose"):
        return ()
    folders = [os.path.join(path, inner) for inner in ("sessions", os.path.join("data", "sessions"))]
    return tuple(folder for folder in folders if os.path.isdir(folder))


def is_about(value: object) -> bool:
    """Whether a decoded object is the first line of a file: what is known of the session."""
    if not isinstance(value, dict) or "role" in value:
        return False
    return "working_dir" in value and ("message_count" in value or "description" in value)


def is_record(value: object) -> bool:
    """Whether a decoded object is a line of a file and not a part of one."""
    if is_about(value):
        return True
    if not isinstance(value, dict) or value.get("role") not in ("user", "assistant"):
        return False
    return isinstance(value.get("content"), list) and "created" in value


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is goose's database or one of its older files."""
    columns = tables_of(path, head)
    if columns:
        known = all(wanted <= columns.get(table, frozenset()) for table, wanted in _TABLES.items())
        return SESSION if known else None
    records = head_records(head, 4) if inner_name(path).endswith(".jsonl") else []
    return SESSION if records and (is_about(records[0]) or all(is_record(record) for record in records)) else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the sessions of the database, or the one of an older file.

    Raises:
        SourceError: it cannot be read, or holds no session of goose.
    """
    from pi_sessions.formats.goose_sources import read_database, read_lines

    with open_source(path) as file:
        is_database = file.read(16).startswith(b"SQLite format 3")
    return read_database(path) if is_database else read_lines(path)
