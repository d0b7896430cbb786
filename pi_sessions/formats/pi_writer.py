"""Writes a session as a Pi session file of version 3, in lines.

Pure: plain values in, text out. Pi takes the last line of a file as the leaf, so the leaf is written last; what else
the file must say (labels, name) stands before it, beside the path and never on it. Such entries get derived ids, so
that reading the file back gives the same facts and no entries for them.

Source: Pi 1.6.0, "File" and "Fork, clone, copy"; differs from its clone in that the leaf stays what it was (there the
last label becomes the leaf) and that all labels and the name are carried. An entry without a message, on which Pi
crashes, is written as a custom entry.
"""

from __future__ import annotations

import json

from pi_sessions.errors import EntryNotFoundError, NothingToExportError
from pi_sessions.formats.derived import MISSING_MESSAGE, derived_entry, label_fields, name_fields
from pi_sessions.formats.json_text import Field, object_text, scan_fields
from pi_sessions.formats.pi_links import with_field
from pi_sessions.formats.pi_migration import CURRENT_VERSION
from pi_sessions.stored import StoredEntry, dump
from pi_sessions.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pi_sessions.stored import JsonObject

HEADER_ORDER = ("type", "version", "id", "timestamp", "cwd", "parentSession")
FIELD_ORDER = {
    "model_change": ("provider", "modelId"),
    "thinking_level_change": ("thinkingLevel",),
    "usage": ("kind", "provider", "model", "usage", "note"),
    "compaction": ("summary", "firstKeptEntryId", "tokensBefore", "details", "usage", "fromHook", "systemMessage"),
    "branch_summary": ("fromId", "summary", "details", "usage", "fromHook"),
    "custom": ("customType", "data"),
    "custom_message": ("customType", "content", "display", "details"),
    "context_edit": ("targetId", "replacement"),
    "label": ("targetId", "label"),
    "session_info": ("name",),
}


def pi_lines(
    header: JsonObject,
    entries: Iterable[StoredEntry],
    *,
    leaf: str | None,
    labels: Mapping[str, tuple[str, int | None]] | None = None,
    name: str | None = None,
    name_time_ms: int | None = None,
    whole_tree: bool = False,
) -> Iterator[str]:
    """Return the lines of a Pi session file with the path to a leaf, or with all branches.

    Args:
        header: `id`, `cwd` and what else the file's header shall say; type and version are set here.
        entries: The session's entries in the order they were appended; with `whole_tree` off, at least the path.
        leaf: The leaf; Pi will go on from it.
        labels: `{target id: (text, Unix milliseconds)}`; those on entries that are not written are left out.
        name: The session's name.
        name_time_ms: When it got its name; None: the time of the leaf.
        whole_tree: Whether to write every branch. Then no leaf is needed.

    Returns:
        The lines, each with its line feed.

    Raises:
        NothingToExportError: there is no leaf and not the whole tree is wanted.
        EntryNotFoundError: the leaf is not among the entries.

    Source: Pi 1.6.0, JSONL export and clone: label entries are lifted out of the tree and their children re-chained, a
        kept id that was a label moves to the next entry.
    """
    if leaf is None and not whole_tree:
        raise NothingToExportError(
            "The session has no leaf, so its path is empty", hint="pass --all-branches to export the whole tree"
        )
    by_id = {entry.id: entry for entry in entries}
    if leaf is not None and leaf not in by_id:
        raise EntryNotFoundError(f"No entry {leaf} in this session")
    chosen = list(by_id.values()) if whole_tree else _path(by_id, leaf)
    return _Export(by_id, chosen, leaf).lines(header, labels or {}, name, name_time_ms)


def _path(by_id: Mapping[str, StoredEntry], leaf: str | None) -> list[StoredEntry]:
    path: list[StoredEntry] = []
    seen: set[str] = set()
    while leaf is not None and leaf in by_id and leaf not in seen:
        seen.add(leaf)
        path.append(by_id[leaf])
        leaf = path[-1].parent_id
    path.reverse()
    return path


class _Export:
    """One file: the chosen entries, label entries lifted, the leaf last."""

    def __init__(self, by_id: Mapping[str, StoredEntry], chosen: list[StoredEntry], leaf: str | None) -> None:
        self._by_id = by_id
        self._lifted = {entry.id: entry.parent_id for entry in chosen if entry.type == "label"}
        self._leaf = self._above(leaf)
        self._entries = [entry for entry in chosen if entry.id not in self._lifted and entry.id != self._leaf]
        if self._leaf is not None:
            self._entries.append(by_id[self._leaf])

    def lines(
        self,
        header: JsonObject,
        labels: Mapping[str, tuple[str, int | None]],
        name: str | None,
        name_time_ms: int | None,
    ) -> Iterator[str]:
        last = self._entries[-1] if self._entries and self._leaf is not None else None
        facts = self._label_entries(labels, last)
        told = self._told_name()
        wanted = (name or "").strip() or None
        named_last: StoredEntry | None = None
        if told != wanted or (self._leaf is None and self._entries):
            when = name_time_ms if name_time_ms is not None else self._latest()
            # A new root puts Pi's leaf before everything; under a leaf that is itself a name, only a later line counts.
            at_end = last is None or last.type == "session_info"
            parent = self._leaf if at_end else self._parent(last)
            named = derived_entry("session_info", name_fields(wanted), when, parent)
            if at_end:
                named_last = named
            else:
                facts.append(named)
        yield header_line(self._dated(header))
        for entry in self._entries:
            if entry is last:
                yield from (entry_line(fact, fact.parent_id) for fact in facts)
                facts = []
            yield entry_line(self._with_kept_id(entry), self._parent(entry))
        yield from (entry_line(fact, fact.parent_id) for fact in facts)
        if named_last is not None:
            yield entry_line(named_last, named_last.parent_id)

    def _dated(self, header: JsonObject) -> JsonObject:
        first = self._entries[0].time_ms if self._entries else None
        return header if "timestamp" in header or first is None else {**header, "timestamp": format_time(first)}

    def _above(self, entry_id: str | None) -> str | None:
        while entry_id in self._lifted:
            entry_id = self._lifted[entry_id]
        return entry_id

    def _parent(self, entry: StoredEntry | None) -> str | None:
        return None if entry is None else self._above(entry.parent_id)

    def _latest(self) -> int:
        last = self._entries[-1] if self._entries else None
        return last.time_ms if last is not None and last.time_ms is not None else 0

    def _label_entries(
        self, labels: Mapping[str, tuple[str, int | None]], last: StoredEntry | None
    ) -> list[StoredEntry]:
        written = {entry.id for entry in self._entries}
        made = []
        for target, (text, time_ms) in labels.items():
            if target in written and text:
                # The target itself if it is written before; the last line must keep its place.
                parent = self._parent(last) if last is not None and target == last.id else target
                when = self._latest() if time_ms is None else time_ms
                made.append(derived_entry("label", label_fields(target, text), when, parent))
        return made

    def _told_name(self) -> str | None:
        """Return the name a reader takes from the written name entries: the last in file order."""
        told: str | None = None
        for entry in self._entries:
            if entry.type == "session_info":
                name = entry.fields.get("name")
                if name is None or isinstance(name, str):
                    told = (name or "").strip() or None
        return told

    def _with_kept_id(self, entry: StoredEntry) -> StoredEntry:
        """Move a kept id from a lifted label to the next entry on the path to the compaction."""
        if entry.type != "compaction" or not self._lifted:
            return entry
        kept = entry.fields.get("firstKeptEntryId")
        if kept not in self._lifted:
            return entry
        following = entry.id
        at = entry.parent_id
        seen: set[str] = set()
        while at is not None and at != kept and at in self._by_id and at not in seen:
            seen.add(at)
            if at not in self._lifted:
                following = at
            at = self._by_id[at].parent_id
        return with_field(entry, "firstKeptEntryId", following) if at == kept else entry


def header_line(header: JsonObject) -> str:
    """Return the header's line: Pi's fields in Pi's order, then the others as they came."""
    parent = header.get("parentSession") or header.get("branchedFrom")
    told = {**header, "type": "session", "version": CURRENT_VERSION}
    told.setdefault("id", "")
    told.setdefault("cwd", "")
    if parent:
        told["parentSession"] = parent
    ordered = {field: told[field] for field in HEADER_ORDER if field in told}
    return dump(ordered | told) + "\n"


def entry_line(entry: StoredEntry, parent_id: str | None) -> str:
    """Return an entry's line, its fields in Pi's order and as they came."""
    beside = scan_fields(entry.extra)[0] if entry.extra else []
    stamps = [field for field in beside if field.name == "timestamp"]
    beside = [field for field in beside if field.name != "timestamp"]
    base = [f'"id":{_quoted(entry.id)}', f'"parentId":{"null" if parent_id is None else _quoted(parent_id)}']
    if stamps:
        base.append(f'"timestamp":{stamps[-1].raw_value}')
    elif entry.time_ms is not None:
        base.append(f'"timestamp":"{format_time(entry.time_ms)}"')
    missing = entry.type == "message" and entry.payload[:1] != "{"
    parts = [f'"type":{dump("custom" if missing else entry.type)}']
    if missing:
        parts += [*base, f'"customType":"{MISSING_MESSAGE}"']
        parts += [f'"instead":{entry.payload}'] if entry.payload else []
    elif entry.type == "message":
        parts += [*base, f'"message":{entry.payload}']
    else:
        own = _in_order(entry.type, scan_fields(entry.payload)[0] if entry.payload else [])
        body = [object_text(own)[1:-1]] if own else []
        parts += body + base if entry.type == "custom_message" else base + body
    if beside:
        parts.append(object_text(beside)[1:-1])
    line = "{" + ",".join(parts) + "}"
    # Space between tokens may hold line feeds when the entry did not come from a line.
    return (dump(json.loads(line)) if "\n" in line else line) + "\n"


def _quoted(name: str) -> str:
    return f'"{name}"' if name.isalnum() and name.isascii() else dump(name)


def _in_order(kind: str, fields: list[Field]) -> list[Field]:
    order = FIELD_ORDER.get(kind)
    if order is None:
        return fields
    return sorted(fields, key=lambda field: order.index(field.name) if field.name in order else len(order))
