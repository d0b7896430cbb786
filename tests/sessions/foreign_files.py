"""Helpers for tests of other agents' session files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pi_sessions.context import active_entries, build_context
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import format_named, identify
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.pi_files import CASES, FIXTURES, check

FORMATS = FIXTURES / "formats"
SAMPLES = CASES / "samples"


def read_all(path: Path | str) -> list[ParsedSession]:
    """Read a file as what it is; its bytes stay as they are and every session is sound."""
    before = Path(path).read_bytes()
    found = identify(str(path))
    assert found.format is not None, found.reason
    sessions = list(found.format.read(str(path)))
    for session in sessions:
        check(session)
    assert Path(path).read_bytes() == before
    return sessions


def read_as(name: str, path: Path | str) -> list[ParsedSession]:
    """Read a file as a format, whatever it is."""
    format = format_named(name)
    assert format is not None
    return list(format.read(str(path)))


def write_lines(path: Path, *records: Any) -> Path:
    """Write records, one JSON line each; text is written as it is."""
    lines = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def records_of(path: Path) -> list[dict[str, Any]]:
    """Return the records of a sound file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def path_of(session: ParsedSession, leaf: str | None = None) -> list[StoredEntry]:
    """Return the path to the leaf, root first."""
    by_id = {entry.id: entry for entry in session.entries}
    found: list[StoredEntry] = []
    at = leaf or session.leaf
    while at is not None:
        found.append(by_id[at])
        at = by_id[at].parent_id
    return found[::-1]


def told(entries: list[StoredEntry]) -> list[str]:
    """Return what the messages among some entries say, one line each."""
    return [f"{entry.role}: {text_of(entry.message)}" for entry in entries if entry.message is not None]


def context_of(session: ParsedSession) -> list[str]:
    """Return the context at the leaf, one line for each message."""
    context = build_context(active_entries(path_of(session)), None, "off")
    return [f"{each.message['role']}: {text_of(each.message)}" for each in context.messages]


def text_of(message: dict[str, Any] | None) -> str:
    """Return a message's text, with its calls by name."""
    given = message or {}
    if "summary" in given:
        return str(given["summary"])
    content = given.get("content")
    if isinstance(content, str):
        return content
    parts = []
    for block in content or []:
        parts.append(
            block.get("text") or (f"[{block['name']}]" if block["type"] == "toolCall" else f"<{block['type']}>")
        )
    return " ".join(parts)


def take_in(store: SessionStore, *paths: Path) -> list[str]:
    """Import files and return the sessions' ids."""
    return [store.import_session(session).session.id for path in paths for session in read_all(path)]
