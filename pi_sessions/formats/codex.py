"""Codex's rollout files as a format of the registry: places, detection, reading.

Source: Codex 0.9x rollouts (`$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`) and their older layout, in
which the first line is a bare header and the others are bare items. Older ones may be packed (`.jsonl.zst`).
"""

from __future__ import annotations

import os

from pi_sessions.formats.json_lines import head_records
from pi_sessions.formats.registry import COMPANION, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

LINE_KINDS = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
ITEM_KINDS = frozenset(
    (
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "web_search_call",
        "ghost_snapshot",
    )
)


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of sessions, archived ones too: below `CODEX_HOME` or `~/.codex`."""
    base = os.path.expanduser(environ.get("CODEX_HOME") or os.path.join(home, ".codex"))
    return (os.path.join(base, "sessions"), os.path.join(base, "archived_sessions"))


def roots(path: str) -> tuple[str, ...]:
    """Return the folders of sessions below Codex's data folder."""
    own = ("config.toml", "auth.json", "history.jsonl", "session_index.jsonl", "version.json", "log")
    named = os.path.basename(os.path.abspath(path)) == ".codex"
    if not named and not any(os.path.exists(os.path.join(path, name)) for name in own):
        return ()
    found = [os.path.join(path, name) for name in ("sessions", "archived_sessions")]
    return tuple(folder for folder in found if os.path.isdir(folder))


def is_record(value: object) -> bool:
    """Whether a decoded object is a line of a rollout and not a part of one."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("payload"), dict) and isinstance(value.get("type"), str):
        return "timestamp" in value
    return False


def is_old_record(value: object) -> bool:
    """Whether a decoded object is a line of the older layout."""
    if not isinstance(value, dict) or "payload" in value:
        return False
    if "record_type" in value:
        return True
    if "type" not in value:
        return "id" in value and "timestamp" in value and ("instructions" in value or "git" in value)
    kind = value["type"]
    if kind == "message":
        content = value.get("content")
        inside = (
            [block.get("type") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        )
        return (
            "role" in value
            and "message" not in value
            and any(str(it).startswith(("input_", "output_")) for it in inside)
        )
    return isinstance(kind, str) and kind in ITEM_KINDS and ("call_id" in value or "summary" in value)


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is a rollout, by its first records; indexes and prompt histories are companions."""
    records = head_records(head)
    if any(is_record(record) and record["type"] in LINE_KINDS for record in records):
        return SESSION
    if records and is_old_record(records[0]) and all(is_old_record(record) for record in records[:4]):
        return SESSION
    if records and all({"session_id", "ts", "text"} <= record.keys() for record in records):
        return COMPANION
    if records and all({"id", "thread_name", "updated_at"} <= record.keys() for record in records):
        return COMPANION
    return None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the one session of a rollout.

    Raises:
        SourceError: it cannot be read, or holds no record of Codex.
    """
    from pi_sessions.formats.codex_reader import read_rollout

    return read_rollout(path)
