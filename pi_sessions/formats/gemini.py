"""Gemini CLI's chats as a format of the registry: places, detection, reading.

Source: Gemini CLI 0.3x (`~/.gemini/tmp/<project>/chats/session-*.jsonl`, subagents in folders beside them), and its
older files of one JSON object; what `/chat save` wrote (`checkpoint-<tag>.json` beside the folder of chats).
"""

from __future__ import annotations

import os
import re

from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.json_lines import head_records
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.registry import COMPANION, HEAD_BYTES, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

_HISTORY = re.compile(
    rb'[\xef\xbb\xbf\s\0]*(?:\{\s*(?:"authType"\s*:\s*"[^"]*"\s*,\s*)?"history"\s*:\s*)?\[\s*'
    rb'\{\s*(?:"role"\s*:\s*"(?:user|model)"\s*,\s*)?"parts"\s*:\s*\[\s*(?!\s*\{\s*"type")'
)
_ROLE = re.compile(rb'"role"\s*:\s*"(?:user|model)"')
MESSAGE_KINDS = frozenset(("user", "gemini", "info", "error", "warning"))


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folder of all projects: below `GEMINI_CLI_HOME` or the home directory."""
    base = os.path.expanduser(environ.get("GEMINI_CLI_HOME") or home)
    return (os.path.join(base, ".gemini", "tmp"),)


def roots(path: str) -> tuple[str, ...]:
    """Return the folder of all projects below Gemini CLI's data folder."""
    found = os.path.join(path, "tmp")
    own = ("settings.json", "oauth_creds.json", "GEMINI.md", "installation_id", "google_accounts.json")
    named = os.path.basename(os.path.abspath(path)) == ".gemini"
    known = named or any(os.path.exists(os.path.join(path, name)) for name in own)
    return (found,) if known and os.path.isdir(found) else ()


def is_message(value: object) -> bool:
    """Whether a decoded object is a message of a chat."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return False
    kind = value.get("type")
    return isinstance(kind, str) and kind in MESSAGE_KINDS and "timestamp" in value and "content" in value


def is_record(value: object) -> bool:
    """Whether a decoded object is a line of a chat and not a part of one."""
    if not isinstance(value, dict):
        return False
    if "$set" in value or "$rewindTo" in value:
        return True
    return is_message(value) or (isinstance(value.get("sessionId"), str) and "projectHash" in value)


def is_content(value: object) -> bool:
    """Whether a decoded object is a content as it goes to the model."""
    if not isinstance(value, dict) or value.get("role") not in ("user", "model"):
        return False
    parts = value.get("parts")
    # Other programs' lists of parts name the type of each.
    return isinstance(parts, list) and not any(isinstance(part, dict) and "type" in part for part in parts)


def is_checkpoint(head: bytes) -> bool:
    """Whether a file is a checkpoint, by its first bytes: a list of contents, or an object whose history is one."""
    return _HISTORY.match(head) is not None and _ROLE.search(head) is not None


def is_chat(value: object) -> bool:
    """Whether a decoded object is a whole chat of the older kind."""
    return isinstance(value, dict) and isinstance(value.get("messages"), list) and "sessionId" in value


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is a chat; the log of prompts beside it is a companion."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if start.startswith(b"{") and b'"sessionId"' in start[:4096] and b'"projectHash"' in start[:4096]:
        return SESSION
    if start.startswith(b"[") and os.path.basename(path) == "logs.json" and b'"messageId"' in start[:4096]:
        return COMPANION
    if is_checkpoint(head):
        return SESSION
    records = head_records(head) if inner_name(path).endswith(".jsonl") else []
    telling = sum("$set" in record or "$rewindTo" in record or is_message(record) for record in records)
    return SESSION if telling and telling * 2 > len(records) else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the one session of a chat or checkpoint.

    Raises:
        SourceError: it cannot be read, or holds no record of Gemini CLI.
    """
    with open_source(path) as file:
        saved = is_checkpoint(file.read(HEAD_BYTES))
    if saved:
        from pi_sessions.formats.gemini_checkpoint import read_checkpoint

        return read_checkpoint(path)
    from pi_sessions.formats.gemini_reader import read_chat

    return read_chat(path)
