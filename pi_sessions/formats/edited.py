"""What edited entries say on their way out to programs that know no context edits.

A model must not be told by another program what was taken out of its context here: the edited content goes out, and the
original in the mark by which an entry comes back as it was. Pure.
"""

from __future__ import annotations

from pi_sessions.context import apply_edit, latest_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject

# Stands for what was left out altogether: the record itself must stay, since others hang under it.
LEFT_OUT = "(left out)"


def edits_of(export: Export) -> dict[str, JsonObject | None]:
    """Return the replacement in force for each edited entry of the path; None for an omitted one."""
    return {target: edit.fields["replacement"] for target, edit in latest_edits(export.path()).items()}


def as_edited(entry_id: str, message: JsonObject, edits: dict[str, JsonObject | None]) -> tuple[JsonObject, JsonObject]:
    """Return a message as a model sees it, and what its mark must say so that it comes back as it was."""
    if entry_id not in edits:
        return message, {}
    replacement = edits[entry_id]
    if replacement is None and not message.get("content"):
        return message, {}
    if replacement is None:
        replacement = {"content": [{"type": "text", "text": LEFT_OUT}]}
    [edited] = apply_edit([message], replacement)
    return edited, {"content": message.get("content")}
