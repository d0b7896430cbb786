"""What a Markdown document does not hold of the path it was made of, counted entry by entry.

Goes by what `markdown` writes and `markdown_in_reader` makes of it; what an entry has beyond that is counted. Pure.
"""

from __future__ import annotations

from pi_sessions.context import blocks_of, content_text
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.exports import TOOLS_NONE, chosen_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

_BLOCK_FIELDS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "thinkingSignature"},
    "toolCall": {"type", "id", "name", "arguments"},
    "image": {"type", "mimeType", "data"},
}


def path_losses(
    export: Export, is_given: Callable[[StoredEntry], bool], message_fields: frozenset[str], dropped: frozenset[str]
) -> dict[str, int]:
    """Return what a document does not hold: `{what: how many}`.

    Args:
        export: What the document was made of.
        is_given: Whether an entry stands in the document.
        message_fields: Fields of a message that stand there, the content aside.
        dropped: Fields of other entries that do not.
    """
    lost = words.fact_losses(export, (words.NAME, words.FOLDER, words.LABELS, words.BRANCH, words.ORIGIN))
    path, _before = chosen_path(export)
    lost[words.CUT] = len(export.path()) - len(path)
    _fact_entries(export, path, lost)
    for entry in path:
        if not is_given(entry):
            word = words.UNREAD_CALLS if entry.type == "message" else words.kind_word(entry.type)
            lost[word or words.LABEL_TEXTS] += word is not None
        elif entry.message is not None:
            _message(export, entry.message, message_fields, lost)
            lost[words.MORE_FIELDS] += words.more_fields(entry.fields, ("message",))
        else:
            _other_entry(export, entry, dropped, lost)
    return words.counts_of(lost)


def _fact_entries(export: Export, path: list[StoredEntry], lost: Counter[str]) -> None:
    """Count names and labels that are no longer so; those that are stand in the document as facts."""
    texts = {label.entry_id: label.text for label in export.labels}
    given = {entry.id for entry in path}
    names = [entry.fields.get("name") for entry in path if entry.type == "session_info"]
    lost[words.NAMES] = sum(name != export.session.name for name in names)
    for entry in path:
        if entry.type == "label":
            target = entry.fields.get("targetId")
            lost[words.LABEL_TEXTS] += target not in given or texts.get(str(target)) != entry.fields.get("label")
    silent = {entry.id for entry in path if entry.type in ("label", "session_info", "usage", "custom")}
    lost[words.LABEL_TEXTS] += len(silent & texts.keys())


def _message(export: Export, message: JsonObject, fields: frozenset[str], lost: Counter[str]) -> None:
    role = message.get("role")
    told = {"content", "usage", "details"}
    if role == "bashExecution":
        told = {"command", "output", "details"}
    elif role in ("compactionSummary", "branchSummary"):
        told = {"summary", "details"}
    lost[words.USAGES] += words.has_usage(message.get("usage"))
    lost[words.DETAILS] += message.get("details") is not None
    lost[words.MORE_FIELDS] += words.more_fields(message, fields | told)
    if "content" in told:
        _blocks(export, message.get("content"), lost)


def _other_entry(export: Export, entry: StoredEntry, dropped: frozenset[str], lost: Counter[str]) -> None:
    own = entry.fields
    told = {"compaction": {"summary"}, "branch_summary": {"summary"}, "custom_message": {"content"}}
    missing = dropped - told.get(entry.type, frozenset())
    lost[words.USAGES] += words.has_usage(own.get("usage"))
    lost[words.DETAILS] += "details" in missing and own.get("details") is not None
    rest = {name: value for name, value in own.items() if name in missing - {"usage", "details"}}
    lost[words.MORE_FIELDS] += words.more_fields(rest, ())
    if entry.type == "custom_message":
        _blocks(export, own.get("content"), lost)


def _blocks(export: Export, content: object, lost: Counter[str]) -> None:
    if isinstance(content, str):
        return
    for block in blocks_of(content):
        kind = str(block.get("type"))
        if kind not in _BLOCK_FIELDS:
            lost[words.OTHER_BLOCKS] += 1
            continue
        if kind == "thinking":
            shown = export.thinking and bool(content_text(block.get("thinking")).strip())
            if not shown:
                lost[words.THINKING] += bool(block.get("thinking") or block.get("thinkingSignature"))
                continue
            lost[words.SIGNATURES] += bool(block.get("thinkingSignature"))
        if kind == "toolCall" and export.tools == TOOLS_NONE:
            lost[words.CALLS] += 1
            continue
        lost[words.PICTURE_BYTES] += kind == "image"
        lost[words.MORE_BLOCK_FIELDS] += words.more_fields(block, _BLOCK_FIELDS[kind])
