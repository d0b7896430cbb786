"""What a message list does not hold of the session it was made of, counted from the list as it was built.

Each entry of the session is either in the list (maybe as text) or counted once as missing; beyond that, what is missing
or changed inside of the messages that are in it is counted by kind. Pure.
"""

from __future__ import annotations

from collections import Counter

from pi_loop.repair.answers import is_unfinished
from pi_loop.repair.pairing import is_call
from pi_loop.target import CHAT
from pi_sessions.context import blocks_of, entry_messages, latest_edits, to_llm
from pi_sessions.formats import export_losses as words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_loop.message_lists import MessageList
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

# Repairs that keep a message out of the request; an unfinished answer with an answered call is in it, though.
_LEFT_OUT = {
    "unfinished_answer": words.UNFINISHED,
    "empty_message": words.BLANK,
    "unknown_role": words.UNKNOWN,
    "stray_result": words.STRAY,
    "duplicate_result": words.DUPLICATE,
}
_CHANGED = {
    "nameless_tool": words.TOOLS,
    "call_id": words.CALL_IDS,
    "tool_name": words.TOOL_NAMES,
    "bad_arguments": words.ARGUMENTS,
    "bad_parameters": words.TOOL_PARAMETERS,
    "lone_surrogate": words.HALF_CHARACTERS,
    "image_type": words.PICTURE_TYPES,
    "moved_result": words.MOVED_RESULTS,
    "empty_result": words.EMPTY_RESULTS,
    "missing_result": words.MADE_RESULTS,
    "answer_first": words.MADE_MESSAGES,
    "nothing_to_send": words.MADE_MESSAGES,
}
_FIELDS = frozenset(
    "role content timestamp provider model api usage stopReason errorMessage details toolCallId toolName isError".split()
)
_OTHER_FIELDS = {
    "system": {"sections", "toolsAdded", "toolsRemoved"},
    "custom": {"customType", "display"},
    "bashExecution": {"command", "output", "exitCode", "cancelled", "truncated", "fullOutputPath", "excludeFromContext"},
    "branchSummary": {"summary", "fromId"},
    "compactionSummary": {"summary", "tokensBefore"},
}
_BLOCK_FIELDS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "thinkingSignature", "redacted"},
    "toolCall": {"type", "id", "name", "arguments"},
    "image": {"type", "data", "mimeType"},
}
_TALK = ("user", "assistant")


def list_losses(export: Export, made: MessageList) -> dict[str, int]:
    """Return what a list does not hold or says differently: `{what: how many}`.

    Args:
        export: What the list was made of.
        made: The list.
    """
    lost = words.fact_losses(export, ())
    lost[words.COMPACTED] = len(made.path) - len(made.active)
    held = _entry_losses(made, lost)
    _message_losses(made, held, lost)
    _block_losses(made, held, lost)
    for repair in made.request.repairs:
        if repair.code in _CHANGED:
            lost[_CHANGED[repair.code]] += 1
    if made.body.get("tool_choice") == {"type": "none"}:
        lost[words.MADE_TOOLS] += len(made.body["tools"])
    return words.counts_of(lost)


def _entry_losses(made: MessageList, lost: Counter[str]) -> dict[str, StoredEntry]:
    """Count the active entries that are not in the list, each once, and return the others."""
    held: dict[str, StoredEntry] = {}
    taken = {each.entry_id for each in made.messages}
    cut = {each.entry_id for each in made.cut}
    edits = latest_edits(made.active)
    applied = {edit.id for edit in edits.values()} - {edit.id for edit in edits.values() if not _does(edit, made)}
    left_out = _left_out(made)
    for place, entry in enumerate(made.active):
        if entry.type == "context_edit" and entry.id in applied:
            continue
        own = entry_messages(entry)
        silent = not own or (entry.type == "compaction" and place > 0)
        if silent and _states_model(entry, made):
            continue
        edit = edits.get(entry.id)
        if silent:
            word = words.COMPACTED if entry.type == "compaction" else words.kind_word(entry)
        elif edit is not None and edit.fields["replacement"] is None:
            word = words.OMITTED
        elif entry.id in cut:
            word = words.CUT
        elif entry.role == "bashExecution" and not to_llm(own[0]):
            word = words.KEPT_OUT
        else:
            word = left_out.get(entry.id)
        if word is not None:
            lost[word] += 1
        elif entry.id in taken:
            held[entry.id] = entry
            lost[words.ORIGINALS] += edit is not None
    return held
