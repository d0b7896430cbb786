"""The logs of simonw/llm as a format of the registry.

Source: llm 0.36, `logs.db`; conversations and responses of older versions lie in the same file.
"""

from __future__ import annotations

import os

from pi_sessions.formats.foreign_database import tables_of
from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

OLDER = {"responses": frozenset(("id", "prompt", "response", "conversation_id")), "conversations": frozenset(("id",))}
CURRENT = {
    "messages": frozenset(("hash", "parent_hash", "role")),
    "parts": frozenset(("message_hash", "position", "type")),
    "threads": frozenset(("id", "tip_message_hash")),
    "turns": frozenset(("id", "thread_id", "tip_message_hash")),
}


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the database: below `LLM_USER_PATH`, the user's configuration directory, or macOS's."""
    own = environ.get("LLM_USER_PATH")
    if own:
        return (os.path.join(os.path.expanduser(own), "logs.db"),)
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    mac = os.path.join(home, "Library", "Application Support")
    return tuple(os.path.join(base, "io.datasette.llm", "logs.db") for base in (config, mac))


def roots(path: str) -> tuple[str, ...]:
    """Return the database below llm's data folder."""
    found = os.path.join(path, "logs.db")
    return (found,) if os.path.basename(os.path.abspath(path)) == "io.datasette.llm" and os.path.isfile(found) else ()


def has(columns: Mapping[str, frozenset[str]], wanted: Mapping[str, frozenset[str]]) -> bool:
    """Whether a database has the tables of one of the two generations."""
    return all(names <= columns.get(table, frozenset()) for table, names in wanted.items())


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is llm's database."""
    columns = tables_of(path, head)
    return SESSION if columns and (has(columns, OLDER) or has(columns, CURRENT)) else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read threads, then the conversations of older versions that are no threads.

    Raises:
        SourceError: it cannot be read, or is no database of llm.
    """
    from pi_sessions.formats.llm_logs_reader import read_database

    return read_database(path)
