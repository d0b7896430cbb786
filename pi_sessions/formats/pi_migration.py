"""What versions 1 and 2 of Pi's session file mean in terms of version 3.

Ids and parents that are there are kept, whatever the version; `pi_links` makes the missing ones. Nothing is written to
the source.

Source: Pi 1.6.0, "Versions"; differs in that existing ids are kept (Pi replaces them, which breaks branches, labels and
kept ids) and that the settings in a version-1 header count.
"""

from __future__ import annotations

from array import array

from pi_sessions.formats.derived import derived_entry
from pi_sessions.formats.json_text import object_text, scan_fields
from pi_sessions.formats.pi_links import with_field
from pi_sessions.formats.pi_records import PiRecords
from pi_sessions.stored import StoredEntry
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.stored import JsonObject

CURRENT_VERSION = 3
DEFAULT_THINKING_LEVEL = "off"


def source_version(header: JsonObject) -> tuple[int, bool]:
    """Return the version a header stands for and whether it says so in an odd way.

    A header without `version` is version 1. Numbers are compared as JavaScript does (true is 1, 2.5 lies below 3);
    text counts as version 3.

    Source: Pi 1.6.0, "Versions".
    """
    if "version" not in header:
        return 1, False
    version = header["version"]
    if isinstance(version, int) and not isinstance(version, bool) and version >= 1:
        return version, False
    if version is None or isinstance(version, bool):
        return 1, True
    if isinstance(version, int | float):
        return (1 if version < 2 else 2 if version < CURRENT_VERSION else CURRENT_VERSION), True
    return CURRENT_VERSION, True


def migrate(records: PiRecords, version: int) -> None:
    """Bring entries of versions 1 and 2 into the form of version 3; ids are resolved already."""
    _rename_hook_messages(records.entries)
    _resolve_kept_indexes(records, version)
    if version < 2 and records.header is not None:
        _count_header_settings(records)


def _rename_hook_messages(entries: list[StoredEntry]) -> None:
    for entry in entries:
        if entry.type != "message" or '"hookMessage"' not in entry.payload:
            continue
        fields, _end = scan_fields(entry.payload)
        roles = [field for field in fields if field.name == "role"]
        if roles and roles[-1].value == "hookMessage":
            roles[-1].raw_value = '"custom"'
            entry.payload = object_text(fields)


def _resolve_kept_indexes(records: PiRecords, version: int) -> None:
    """Turn the numbers of first kept entries into ids; one that names no entry before the compaction keeps nothing."""
    for index, entry in enumerate(records.entries):
        if entry.type != "compaction" or (version > 1 and '"firstKeptEntryIndex"' not in entry.payload):
            continue
        fields = entry.fields
        kept = fields.get("firstKeptEntryIndex")
        migrated = with_field(entry, "firstKeptEntryIndex", None) if "firstKeptEntryIndex" in fields else entry
        if "firstKeptEntryId" not in fields:
            target = -1
            if isinstance(kept, int) and not isinstance(kept, bool) and 0 <= kept < len(records.numbered):
                target = records.numbered[kept]
            if 0 <= target < index:
                migrated = with_field(migrated, "firstKeptEntryId", records.entries[target].id)
            else:
                found = (
                    "has no first kept entry" if kept is None else f"keeps from entry {kept!r}, which is none before it"
                )
                found = f"the compaction {found}: the model gets its summary and what follows"
                records.repair(records.places[index], "kept_index", found, entry.id)
        records.entries[index] = migrated


def _count_header_settings(records: PiRecords) -> None:
    """Put the settings of a version-1 header before the first entry, where they are not the default or overtaken.

    The model is overtaken by the first answer or model change of the file, which in version 1 is one chain.
    """
    header = records.header or {}
    entries = records.entries
    first_ms = entries[0].time_ms if entries else None
    time_ms = parse_time(header.get("timestamp")) if first_ms is None else first_ms
    made: list[StoredEntry] = []
    provider, model = header.get("provider"), header.get("modelId")
    if isinstance(provider, str) and isinstance(model, str) and not any(map(_names_model, entries)):
        fields = {"provider": provider, "modelId": model}
        made.append(derived_entry("model_change", fields, time_ms, None))
    level = header.get("thinkingLevel")
    if isinstance(level, str) and level and level != DEFAULT_THINKING_LEVEL:
        fields = {"thinkingLevel": level}
        made.append(derived_entry("thinking_level_change", fields, time_ms, made[-1].id if made else None))
    taken = {entry.id for entry in entries}
    if not made or not entries or any(entry.id in taken for entry in made):
        return
    for entry in entries:
        if entry.parent_id is None:
            entry.parent_id = made[-1].id
    entries[:0] = made
    records.places[:0] = array("q", [0] * len(made))
    told = " and ".join("model" if entry.type == "model_change" else "thinking level" for entry in made)
    found = f"the {told} of the header became the first settings"
    records.repair(records.header_line, "header_settings", found, made[-1].id)


def _names_model(entry: StoredEntry) -> bool:
    return entry.type == "model_change" or (entry.type == "message" and entry.role == "assistant")
