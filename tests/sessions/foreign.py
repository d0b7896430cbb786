"""Foreign sources for tests: databases made of SQL dumps, and what must hold of everything that is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pi_sessions.context import active_entries, build_context, path_to_root
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import format_named
from pi_sessions.stored import StoredEntry
from pi_sessions.totals import Totals, session_totals
from tests.sessions.pi_files import check

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"


def database(folder: Path, dump: str, *, name: str = "source.db", wal: bool = False) -> str:
    """Make a database of a SQL dump in `fixtures/formats` and return its path."""
    path = folder / name
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("pragma journal_mode = wal")
    connection.executescript((FORMATS / dump).read_text("utf-8"))
    connection.close()
    return str(path)


def read_all(format: str, path: str | Path) -> dict[str, ParsedSession]:
    """Read a source; every session must be sound, and the source untouched."""
    chosen = format_named(format)
    assert chosen is not None
    before = Path(path).read_bytes() if Path(path).is_file() else None
    sessions = list(chosen.read(str(path)))
    for session in sessions:
        check(session)
        assert session.format == format
        assert session.importer == chosen.importer
    if before is not None:
        assert Path(path).read_bytes() == before
    found = {session.id: session for session in sessions}
    assert len(found) == len(sessions)
    return found


def path_of(session: ParsedSession, leaf: str | None = None) -> list[StoredEntry]:
    """The path to a leaf, the session's own by default."""
    return path_to_root({entry.id: entry for entry in session.entries}, leaf or session.leaf)


def context_of(session: ParsedSession, leaf: str | None = None) -> list[tuple[str, str]]:
    """Role and text of each message a model would see at a leaf."""
    context = build_context(active_entries(path_of(session, leaf)), None, "off")
    return [(given.message["role"], text_in(given.message)) for given in context.messages]


def text_in(message: dict[str, Any]) -> str:
    """Everything readable of a message, blocks marked by their kind where they are no text."""
    if message["role"] == "compactionSummary":
        return str(message["summary"])
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "|".join(shown(block) for block in content)


def shown(block: dict[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind == "thinking":
        return f"<{block['thinking']}>"
    return f"{kind}:{block['id']}" if kind == "toolCall" else f"[{kind}]"


def kinds(entries: Iterable[StoredEntry]) -> list[str]:
    """What each entry is: its role or custom type, else its type."""
    return [entry.role or entry.fields.get("customType") or entry.type for entry in entries]


def totals(*sessions: ParsedSession) -> Totals:
    """The totals of some sessions, entries they share counted once."""
    entries = {entry.id: entry for session in sessions for entry in session.entries}
    return session_totals(entries.values())
