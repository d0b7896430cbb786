"""Makes a tree of the drafts of a Pi session file: unique ids, parents that exist, no cycles.

Works on the whole file, since links may point forwards. A reference means the nearest definition of its id before it,
else the last one behind it. What is changed is reported; nothing is dropped but exact repetitions of a line.

Source: Pi 1.6.0, "Reading" (there a missing parent hides the history before it, a cycle never returns and of two
entries with one id the first is lost).
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left

from pi_sessions.formats.pi_records import Fragment, PiRecords
from pi_sessions.stored import StoredEntry, dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.ids import NewId

REFERENCES = {
    "compaction": "firstKeptEntryId",
    "context_edit": "targetId",
    "label": "targetId",
    "branch_summary": "fromId",
}


def is_sound(records: PiRecords) -> bool:
    """Whether every id is there and unique and every parent stands before its child, as in nearly every file."""
    if records.unlinked or records.fragments:
        return False
    seen: set[str | None] = {None}
    for entry in records.entries:
        if entry.parent_id not in seen or entry.id in seen or not entry.id:
            return False
        seen.add(entry.id)
    return True


class Linker:
    """Resolves the links of one file's records in place.

    Args:
        records: As read; entries, places and reports are changed.
        new_id: Gives an id per entry that needs one, in file order. None: ids are computed from what the entry says
            and what stands before it, so that the same file gives the same ids each time it is read.
        chained: Whether entries without a parent field simply follow the entry before (version 1).
    """

    def __init__(self, records: PiRecords, *, new_id: NewId | None, chained: bool) -> None:
        self.records = records
        self.entries = records.entries
        self.new_id = new_id
        self.chained = chained
        self.made = 0
        self._places_of: dict[str, list[int]] = {}
        self._names: list[str] = []
        # Index of an entry whose parent was bridged: the id that is missing.
        self._bridged: dict[int, str] = {}

    def resolve(self) -> None:
        """Give every entry an id of its own and a parent that exists, or none."""
        self._drop_repetitions()
        self._name_entries()
        parents = self._find_parents()
        self._cut_cycles(parents)
        for index, entry in enumerate(self.entries):
            parent = parents[index]
            entry.parent_id = None if parent is None else self._names[parent]
        self._mend_references(parents)
        for index, entry in enumerate(self.entries):
            entry.id = self._names[index]

    def _drop_repetitions(self) -> None:
        first: dict[str, StoredEntry] = {}
        dropped: set[int] = set()
        for index, entry in enumerate(self.entries):
            if not entry.id:
                continue
            before = first.get(entry.id)
            if before is not None and _same(before, entry):
                dropped.add(index)
            else:
                first[entry.id] = entry
        if dropped:
            self._drop(dropped)
        for index, entry in enumerate(self.entries):
            if entry.id:
                self._places_of.setdefault(entry.id, []).append(index)

    def _drop(self, dropped: set[int]) -> None:
        records = self.records
        # The file still ends in the repeated entry, which is Pi's leaf.
        records.last_repeats = self.entries[-1].id if len(self.entries) - 1 in dropped else None
        kept_lines = {line for index, line in enumerate(records.places) if index not in dropped}
        in_order = sorted(dropped)
        moved: dict[int, int] = {}
        for index in range(len(self.entries)):
            if index in dropped:
                line = records.places[index]
                records.repair(line, "repeated", "a repetition of an entry was left out", self.entries[index].id)
                if line not in kept_lines:
                    records.outcome[line] = "skipped"
            else:
                moved[index] = len(moved)
        records.unlinked = {moved[index] for index in records.unlinked if index in moved}
        records.numbered = array("q", [moved.get(index, -1) for index in records.numbered])
        for fragment in records.fragments:
            fragment.index -= bisect_left(in_order, fragment.index)
        records.places = array("q", [line for index, line in enumerate(records.places) if index not in dropped])
        self.entries[:] = [entry for index, entry in enumerate(self.entries) if index not in dropped]

    def _name_entries(self) -> None:
        """Keep ids; make one where there is none, and for all but the last entry that share one."""
        taken = set(self._places_of)
        before = ""
        for index, entry in enumerate(self.entries):
            name = entry.id
            if not name:
                name = self._fresh(taken, before, entry)
                self.made += 1
                if not self.chained:
                    self._report(index, "missing_id", "an entry without an id got one", name)
            elif self._places_of[name][-1] != index:
                name = self._fresh(taken, before, entry)
                found = f"the id {entry.id} is used again further down; this entry got the id {name}"
                self._report(index, "duplicate_id", found, name)
            taken.add(name)
            self._names.append(name)
            before = name

    def _fresh(self, taken: set[str], before: str, entry: StoredEntry) -> str:
        count = 0
        while True:
            if self.new_id is not None:
                name = self.new_id()
            else:
                told = dump([before, entry.type, entry.time_ms, entry.payload, entry.extra, count])
                name = hashlib.sha256(b"pi-session entry\n" + told.encode()).hexdigest()[:8]
            count += 1
            # A source of ids that repeats itself must not keep us here.
            name = name if count < 100 else f"{name}-{count}"
            if name and name not in taken:
                return name

    def _lookup(self, reference: str, index: int) -> int | None:
        """Return the entry a reference made by the entry at `index` means, None when there is none."""
        places = self._places_of.get(reference)
        if not places:
            return None
        before = bisect_left(places, index)
        return places[before - 1] if before else places[-1]

    def _find_parents(self) -> list[int | None]:
        parents: list[int | None] = []
        lost = {fragment.id: fragment for fragment in self.records.fragments if fragment.id is not None}
        bridges: dict[str, int | None] = {}
        for index, entry in enumerate(self.entries):
            reference = entry.parent_id
            if index in self.records.unlinked:
                previous = index - 1 if index else None
                parents.append(previous)
                if not self.chained and previous is not None:
                    found = f"an entry without a parent field was joined to {self._names[previous]} before it"
                    self._report(index, "missing_parent_field", found)
                continue
            if reference is None:
                parents.append(None)
                continue
            parent = self._lookup(reference, index)
            if parent is None:
                if reference not in bridges:
                    bridges[reference] = self._bridge(reference, index, lost)
                parent = bridges[reference]
                self._bridged[index] = reference
                where = "made a root" if parent is None else f"joined to {self._names[parent]}"
                self._report(index, "missing_parent", f"its parent {reference} is missing; it was {where}")
            parents.append(parent)
        return parents

    def _bridge(self, reference: str, index: int, lost: dict[str, Fragment]) -> int | None:
        """Return the nearest kept ancestor behind a missing parent."""
        seen = set()
        previous = index - 1
        while reference in lost and reference not in seen:
            seen.add(reference)
            fragment = lost[reference]
            previous = min(fragment.index, index) - 1
            if not fragment.parent_known:
                break
            if fragment.parent_id is None:
                return None
            reference = fragment.parent_id
            found = self._lookup(reference, fragment.index)
            if found is not None and found != index:
                return found
        return previous if previous >= 0 else None

    def _cut_cycles(self, parents: list[int | None]) -> None:
        done = bytearray(len(parents))
        for start in range(len(parents)):
            walked: list[int] = []
            at: int | None = start
            while at is not None and not done[at]:
                done[at] = 1
                walked.append(at)
                at = parents[at]
            if at is not None and done[at] == 1:
                cycle = walked[walked.index(at) :]
                guessed = [index for index in cycle if index in self._bridged or index in self.records.unlinked]
                # Links point backwards, so of a cycle the earliest entry's link is the wrong one.
                cut = min(guessed or cycle)
                parents[cut] = None
                self._report(cut, "cycle", "the entry is among its own ancestors; it was made a root")
            for index in walked:
                done[index] = 2

    def _mend_references(self, parents: list[int | None]) -> None:
        """Let references to renamed entries follow them, and a lost first kept entry be the next one kept."""
        renamed = {name for name, places in self._places_of.items() if len(places) > 1}
        if not renamed and not self._bridged:
            return
        for index, entry in enumerate(self.entries):
            field = REFERENCES.get(entry.type)
            if field is None:
                continue
            reference = entry.fields.get(field)
            if not isinstance(reference, str):
                continue
            target: int | None = None
            if reference in renamed:
                # Its own id is how a compaction says that it keeps nothing.
                own = entry.type == "compaction" and reference == entry.id
                target = index if own else self._lookup(reference, index)
            elif entry.type == "compaction" and reference not in self._places_of:
                target = self._next_kept(reference, index, parents)
            if target is None or self._names[target] == reference:
                continue
            self._report(index, "reference", f"its {field} {reference} was changed to {self._names[target]}")
            self.entries[index] = with_field(entry, field, self._names[target])

    def _next_kept(self, missing: str, index: int, parents: list[int | None]) -> int | None:
        at: int | None = index
        while at is not None:
            if self._bridged.get(at) == missing:
                return at
            at = parents[at]
        return None

    def _report(self, index: int, code: str, message: str, entry_id: str | None = None) -> None:
        self.records.repair(self.records.places[index], code, message, entry_id or self._names[index])


def with_field(entry: StoredEntry, field: str, value: object) -> StoredEntry:
    """Return an entry with one own field changed or, for None, left out."""
    fields = json.loads(entry.payload)
    fields.pop(field, None) if value is None else fields.update({field: value})
    return StoredEntry(entry.id, entry.parent_id, entry.type, entry.time_ms, dump(fields), entry.extra)


def _same(one: StoredEntry, other: StoredEntry) -> bool:
    return (one.type, one.parent_id, one.time_ms, one.payload, one.extra) == (
        other.type,
        other.parent_id,
        other.time_ms,
        other.payload,
        other.extra,
    )
