"""Sessions, entries and operations as JSON objects: camelCase keys as in Pi's files, times in ISO 8601 UTC."""

from __future__ import annotations

from pi_sessions.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.results import Branch, KeptBranch, Label, Operation, Session
    from pi_sessions.stored import JsonObject


def iso(time_ms: int | None) -> str | None:
    """Return a time as text, None when it is unknown or outside the years 1 to 9999."""
    try:
        return None if time_ms is None else format_time(time_ms)
    except OverflowError:
        return None


def session_json(session: Session) -> JsonObject:
    """Return a session."""
    return {
        "id": session.id,
        "name": session.name,
        "cwd": session.cwd,
        "created": iso(session.created_ms),
        "updated": iso(session.updated_ms),
        "messageCount": session.message_count,
        "firstMessage": session.first_message,
        "branch": session.branch,
        "leaf": session.leaf,
        "model": session.model,
        "origin": session.origin,
        "originEntry": session.origin_entry,
        "parentSession": session.parent_session,
        "parentCall": session.parent_call,
        "archived": session.archived,
        "pinned": session.pinned,
        "deleted": session.deleted,
    }


def branch_json(branch: Branch) -> JsonObject:
    """Return a branch."""
    return {"name": branch.name, "leaf": branch.leaf, "current": branch.current}


def label_json(label: Label) -> JsonObject:
    """Return a label."""
    return {"entryId": label.entry_id, "text": label.text, "timestamp": iso(label.time_ms)}


def kept_json(kept: KeptBranch) -> JsonObject:
    """Return a branch that an undo made."""
    return {"name": kept.name, "leaf": kept.leaf, "entries": kept.entries}


def operation_json(operation: Operation) -> JsonObject:
    """Return an operation with its changes."""
    return {
        "op": operation.id,
        "sessionId": operation.session_id,
        "timestamp": iso(operation.time_ms),
        "command": operation.command,
        "summary": operation.summary,
        "undoes": operation.undoes,
        "undoneBy": operation.undone_by,
        "changes": [
            {
                "kind": each.kind,
                "sessionId": each.session_id,
                "name": each.name,
                "before": each.before,
                "after": each.after,
            }
            for each in operation.changes
        ],
    }
