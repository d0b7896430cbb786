"""Claude Code's transcripts as a format of the registry: places, detection, reading.

Source: Claude Code 2.1 session files (`~/.claude/projects/<folder>/<session uuid>.jsonl`, subagents beside them).
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

CHAIN = frozenset(("user", "assistant", "system", "attachment", "progress"))
# Records without a uuid, and what else of theirs tells them from other programs' records.
META_KINDS = {
    "summary": "leafUuid",
    "custom-title": "customTitle",
    "ai-title": "aiTitle",
    "last-prompt": "sessionId",
    "tag": "sessionId",
    "mode": "sessionId",
    "permission-mode": "sessionId",
    "agent-name": "sessionId",
    "agent-color": "sessionId",
    "agent-setting": "sessionId",
    "pr-link": "sessionId",
    "worktree-state": "sessionId",
    "relocated": "relocatedCwd",
    "queue-operation": "operation",
    "file-history-snapshot": "snapshot",
    "content-replacement": "replacements",
    **dict.fromkeys(
        """
        api-request api-request-blob api-request-resumed api-request-shape artifact-autoreact-ledger
        artifact-comment-monitor atis-latch attribution-snapshot bridge-session continued-in cost-state
        data-flow-handover data-flow-incomplete data-flow-records derived-from dev-mods ended-by-model
        file-history-delta fork-context-ref frame-link history-suppression host-row hybrid-organization isolation-latch
        memory-mode observer-ref repl-mode resume-head-vouch session-owner tools-used
        """.split(),  # noqa: SIM905
        "sessionId",
    ),
}


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folder of all projects: below `CLAUDE_CONFIG_DIR` or `~/.claude`."""
    base = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    return (os.path.join(os.path.expanduser(base), "projects"),)


def roots(path: str) -> tuple[str, ...]:
    """Return the folder of all projects below Claude Code's data folder."""
    projects = os.path.join(path, "projects")
    own = ("history.jsonl", "todos", "statsig", "settings.json", "shell-snapshots", "file-history", "plans")
    named = os.path.basename(os.path.abspath(path)) == ".claude"
    if os.path.isdir(projects) and (named or any(os.path.exists(os.path.join(path, name)) for name in own)):
        return (projects,)
    return ()


def is_record(value: object) -> bool:
    """Whether a decoded object is a record of a transcript and not a part of one."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    if kind in CHAIN:
        return isinstance(value.get("uuid"), str) and ("parentUuid" in value or "sessionId" in value)
    if kind in META_KINDS:
        return META_KINDS[kind] in value
    return isinstance(value.get("sessionId"), str)


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is a transcript, by its first records; the prompt history is a companion."""
    records = head_records(head)
    if any(is_record(record) and record.get("type") in CHAIN for record in records):
        return SESSION
    if any(is_record(record) for record in records):
        # Only titles and the like: a session nobody said anything in.
        return SESSION
    if records and all("display" in record and "project" in record for record in records):
        return COMPANION
    return None


def read(path: str) -> Iterator[ParsedSession]:
    """Read a transcript: its session, then the subagents' conversations that stand in it.

    Raises:
        SourceError: it cannot be read, or holds no record of Claude Code.
    """
    from pi_sessions.formats.claude_code_reader import read_transcript

    return read_transcript(path)
