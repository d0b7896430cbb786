"""Where a rewind puts the leaf, and which text it gives back to be written again.

Pure, one rule: choosing a user or custom message means to say it anew, so the leaf goes before it; choosing anything
else means to go on after it. Moving the leaf is the store's task.

Source: Pi 1.6.0, choosing an entry in the tree.
"""

from __future__ import annotations

from pi_sessions.context import content_text
from pi_sessions.errors import EntryNotFoundError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import StoredEntry


class RewindPlan(Record):
    """What a rewind does.

    Attributes:
        leaf: The leaf afterwards; None before the first entry.
        editor_text: The chosen message's text, to be edited and sent again; None when there is none to give back.
    """

    leaf: str | None
    editor_text: str | None


def plan_rewind(
    entry: StoredEntry | None, *, exact: bool = False, start: bool = False, current: str | None = None
) -> RewindPlan:
    """Decide where the leaf goes when a person chooses an entry.

    Args:
        entry: The chosen entry; None is allowed together with `start`.
        exact: Stay on the entry itself, even if it is a user message.
        start: Go before the first entry, whatever `entry` is.
        current: The leaf now. Choosing it changes nothing, even if it is a user message.

    Raises:
        EntryNotFoundError: no entry was chosen and `start` was not asked for.

    Source: Pi 1.6.0, choosing an entry in the tree; `exact` and `start` are ours.
    """
    if start:
        return RewindPlan(None, None)
    if entry is None:
        raise EntryNotFoundError("No entry to rewind to", hint="name an entry, or pass --start to go before the first")
    if exact or entry.id == current or not gives_text_back(entry):
        return RewindPlan(entry.id, None)
    return RewindPlan(entry.parent_id, entry_text(entry))


def gives_text_back(entry: StoredEntry) -> bool:
    """Whether choosing this entry goes before it and gives its text back: user messages and custom messages do."""
    return entry.type == "custom_message" or entry.role == "user"


def entry_text(entry: StoredEntry) -> str:
    """Return the text of a message or custom message, its text blocks joined without anything between."""
    message = entry.fields if entry.type == "custom_message" else entry.message or {}
    return content_text(message.get("content"), "")
