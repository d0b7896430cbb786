"""Writes an export as a Pi session file (`pi_writer` says how)."""

from __future__ import annotations

from pi_sessions.formats import export_losses as words
from pi_sessions.formats.pi_writer import pi_lines
from pi_sessions.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.exports import Export
    from pi_sessions.results import Session
    from pi_sessions.stored import JsonObject


def export_lines(export: Export) -> Iterator[str]:
    """Return the lines of the file.

    Raises:
        NothingToExportError: there is no leaf, and the path to it is wanted.
    """
    session = export.session
    return pi_lines(
        header_of(session),
        export.entries,
        leaf=export.leaf,
        labels={label.entry_id: (label.text, label.time_ms) for label in export.labels},
        name=session.name,
        whole_tree=export.whole_tree,
    )


def export_losses(export: Export) -> dict[str, int]:
    """Return what the file does not hold: `{what: how many}`.

    Labels go out as what they are now: entries that set one which was replaced or taken back since do not.
    """
    lost = words.fact_losses(export, (words.NAME, words.FOLDER, words.LABELS, words.ORIGIN))
    lifted = [entry for entry in export.entries if entry.type == "label"]
    written = {entry.id for entry in export.entries} - {entry.id for entry in lifted}
    current = {(label.entry_id, label.text) for label in export.labels if label.entry_id in written}
    lost[words.LABEL_TEXTS] = sum(
        (entry.fields.get("targetId"), entry.fields.get("label")) not in current for entry in lifted
    ) + sum(label.entry_id in {entry.id for entry in lifted} for label in export.labels)
    return words.counts_of(lost)


def header_of(session: Session) -> JsonObject:
    """Return the file's header: what an import brought, with today's facts."""
    header = {"timestamp": format_time(session.created_ms), **session.header, "id": session.id, "cwd": session.cwd}
    if session.origin and not header.get("parentSession") and not header.get("branchedFrom"):
        header["parentSession"] = session.origin
    return header
