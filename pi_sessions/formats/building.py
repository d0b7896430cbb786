"""Collects the entries of a foreign session and makes a sound tree of them: `SessionBuilder`.

What every importer needs and none should write again: unique ids, parents that exist, no cycles, computed ids that
are the same each time, counts of what was kept as custom entries, and the origin of each entry. What the records of a
format mean is the format's own affair.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter

from pi_sessions.formats.json_values import value_bytes, value_text
from pi_sessions.formats.parsed import ParsedSession, Repair
from pi_sessions.formats.spool import BUDGET, TextBudget
from pi_sessions.stored import StoredEntry, message_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any, Protocol

    from pi_sessions.formats.json_lines import JsonLines
    from pi_sessions.formats.parsed import ChildOf, Tally
    from pi_sessions.stored import JsonObject

    class HasEntry(Protocol):
        """What a reader keeps of a record that became an entry."""

        entry: StoredEntry


_NO_TIME = '{"timestamp":null}'


def computed_id(*told: object) -> str:
    """Return 12 hex digits that are the same whenever the same things are told (JSON values or text)."""
    return hashlib.sha256(value_bytes(list(told))).hexdigest()[:12]


class SessionBuilder:
    """One session while it is being read.

    Args:
        format: Name in the registry.
        source: Path of the source.
        importer: Version of the reader.
        untimed: Entries without a time stay so. Else the store gives them the time of the import.
        named: Where the reader itself notes entries by id (`noted`).

    Attributes:
        entries: So far, in the order of the source. A reader may change an entry's parent until `finish`.
        lines: The line or row of each entry.
        own_ids: Ids given by our exporter.
        torn_off: Ids of roots that followed something that the source does not hold.
        repairs, losses, unknown: As in `ParsedSession`.
    """

    def __init__(
        self,
        format: str,
        source: str,
        importer: str,
        *,
        untimed: bool = False,
        named: Mapping[str, HasEntry] | None = None,
    ) -> None:
        self.format = format
        self.source = source
        self.importer = importer
        self._untimed = untimed
        self.entries: list[StoredEntry] = []
        self.own_ids: set[str] = set()
        self.torn_off: set[str] = set()
        self.repairs: list[Repair] = []
        self.losses: list[Repair] = []
        self.unknown: list[Repair] = []
        self._texts = TextBudget(self.entries, source)
        self.lines: array[int] = array("q")
        # None where the source calls an entry by its id; ends with the last that it calls otherwise.
        self._foreign: list[str | None] = []
        self._known: dict[str, StoredEntry] = {}
        self._named = named
        self._kept: Counter[str] = Counter()

    def __contains__(self, entry_id: object) -> bool:
        if self._named is None or entry_id in self._known:
            return entry_id in self._known
        return isinstance(entry_id, str) and self.entry(entry_id) is not None

    def entry(self, entry_id: str | None) -> StoredEntry | None:
        """Return an entry by id."""
        known = self._known.get(entry_id or "")
        if known is None and self._named is not None:
            held = self._named.get(entry_id or "")
            return held.entry if held is not None and held.entry.id == entry_id else None
        return known

    def noted(self, entry: StoredEntry) -> None:
        """Say that `named` knows an entry by its id now, so that it need not be known twice."""
        self._known.pop(entry.id, None)

    def add(
        self,
        kind: str,
        fields: JsonObject,
        *,
        id: str,
        parent: str | None,
        time_ms: int | None,
        line: int,
        foreign_id: str | None = None,
        text: str | None = None,
    ) -> StoredEntry:
        """Add an entry.

        Args:
            kind: Pi's entry type.
            fields: Own fields of the entry; for type `message` the message itself.
            id: A taken one gets a number behind it, and that is reported.
            parent: Id of another entry, which may come later; None for a root.
            time_ms: Unix milliseconds.
            line: 1-based line or row of the source.
            foreign_id: What the source calls it, when that is not `id`.
            text: `dump` of the fields, where it is at hand.
        """
        if id in self._known or (self._named is not None and id in self):
            number = 2
            while f"{id}-{number}" in self:
                number += 1
            self.repairs.append(Repair(line, "duplicate_id", f"the id {id} is there twice; this one got a number"))
            id, foreign_id = f"{id}-{number}", foreign_id or id
        # A text that is still to come brings its head along.
        head = message_head(fields) if kind == "message" and text != "" else None
        extra = _NO_TIME if time_ms is None and self._untimed else None
        if text is None:
            text = self._text(fields, line, id)
        entry = StoredEntry(id, parent, kind, time_ms, text, extra, head=head)
        self._known[id] = entry
        if foreign_id is not None:
            self._foreign += [None] * (len(self.entries) - len(self._foreign))
            self._foreign.append(foreign_id)
        self.entries.append(entry)
        self.lines.append(line)
        self._count(text)
        return entry

    def _count(self, text: str) -> None:
        self._texts.held += text.__sizeof__()
        if self._texts.held > BUDGET:
            self._texts.put_away()

    def message(self, message: JsonObject, *, time_ms: int | None, **where: Any) -> StoredEntry:
        """Add a message entry; arguments as in `add`. The message's timestamp is set when it lacks one."""
        if time_ms is not None:
            message.setdefault("timestamp", time_ms)
        return self.add("message", message, time_ms=time_ms, **where)

    def custom(self, kind: str, data: object, **where: Any) -> StoredEntry:
        """Keep a record that has no place in our model, as a custom entry `<format>.<kind>`; it is counted."""
        self._kept[kind] += 1
        return self.add("custom", {"customType": f"{self.format}.{kind}", "data": data}, **where)

    def not_understood(self, kind: str, data: object, **where: Any) -> StoredEntry:
        """Keep a record of a kind the reader does not know, as a custom entry; its line is reported."""
        entry = self.add("custom", {"customType": f"{self.format}.{kind}", "data": data}, **where)
        found = f"a record of the unknown kind {kind} was kept as it is"
        self.unknown.append(Repair(where["line"], "unknown_kind", found, entry.id))
        return entry

    def text_for_model(
        self, kind: str, content: object, *, display: bool = False, details: object = None, **where: Any
    ) -> StoredEntry:
        """Add text that a program, not the person, put before the model: a custom message, in the context."""
        fields: JsonObject = {"customType": f"{self.format}.{kind}", "content": content, "display": display}
        if details is not None:
            fields["details"] = details
        return self.add("custom_message", fields, **where)

    def take_back(self, entry: StoredEntry) -> None:
        """Take the last entry out again."""
        assert self.entries[-1] is entry
        self.entries.pop()
        self.lines.pop()
        del self._foreign[len(self.entries) :]
        self._known.pop(entry.id, None)
        self.own_ids.discard(entry.id)
        unknown = [repair for repair in self.unknown if repair.entry_id != entry.id]
        if len(unknown) == len(self.unknown) and entry.type == "custom":
            self._kept[str(entry.fields["customType"]).removeprefix(f"{self.format}.")] -= 1
            self._kept += Counter()
        self.unknown = unknown

    def replace(self, entry: StoredEntry, fields: JsonObject) -> None:
        """Give an entry other content: a record that was written in parts is whole only at its end."""
        entry.payload = text = self._text(fields, None, entry.id)
        entry.head = message_head(fields) if entry.type == "message" else None
        entry._fields = None
        self._count(text)

    def _text(self, fields: JsonObject, line: int | None, entry_id: str) -> str:
        text, had_infinity = value_text(fields)
        if had_infinity:
            line = self._line_of(entry_id) if line is None else line
            self.repairs.append(Repair(line, "not_strict_json", "numbers too large to hold became null", entry_id))
        return text

    def _line_of(self, entry_id: str) -> int:
        return next(line for entry, line in zip(self.entries, self.lines, strict=True) if entry.id == entry_id)

    def lines_used(self) -> int:
        """Return how many lines or rows gave entries."""
        used = bytearray(max(self.lines, default=0) + 1)
        for line in self.lines:
            used[line] = 1
        return sum(used)

    def resolve_links(self) -> None:
        """See to it that every parent exists and that there is no cycle; what is changed is reported."""
        known: Container[str] = self._known if self._named is None else self
        for place, entry in enumerate(self.entries):
            if entry.parent_id is None or (entry.parent_id in known and entry.parent_id != entry.id):
                continue
            before = self.entries[place - 1].id if place else None
            found = f"the parent {entry.parent_id} is missing; " + (
                f"linked to the entry before, {before}" if before else "this is a root"
            )
            self.repairs.append(Repair(self.lines[place], "missing_parent", found, entry.id))
            entry.parent_id = before
        self._cut_cycles()

    def _cut_cycles(self) -> None:
        # While this goes on, an entry's key says that the way from it to a root is known; a set of all would be large.
        for entry in self.entries:
            path: list[StoredEntry] = []
            on_path: set[str] = set()
            at: StoredEntry | None = entry
            while at is not None and not at.key:
                if at.id in on_path:
                    at.parent_id = None
                    found = "the parents went round in a circle; cut here"
                    self.repairs.append(Repair(self._line_of(at.id), "cycle", found, at.id))
                    break
                path.append(at)
                on_path.add(at.id)
                at = self.entry(at.parent_id) if at.parent_id is not None else None
            for settled in path:
                settled.key = -1
        for entry in self.entries:
            entry.key = 0

    def finish(
        self,
        *,
        id: str,
        tally: Tally,
        digest: str,
        size: int,
        mtime_ms: int,
        header: JsonObject | None = None,
        cwd: str = "",
        created_ms: int | None = None,
        leaf: str | None = None,
        parent_ref: str | None = None,
        name: str | None = None,
        title: str | None = None,
        labels: dict[str, tuple[str, int | None]] | None = None,
        child_of: ChildOf | None = None,
        copied: bool = False,
    ) -> ParsedSession:
        """Resolve the links and return the session; once.

        Args:
            id: Session id: the source's own, so that importing again finds it.
            tally: What became of the lines (`JsonLines.tally`) or rows.
            leaf: The active leaf; the last entry when it is None.
            others: As in `ParsedSession`.
        """
        self.resolve_links()
        self._fill_times(created_ms)
        entries = self.entries
        if leaf not in self:
            leaf = entries[-1].id if entries else None
        # Not needed any more, but the memory is.
        self._known, self._named = {}, None
        return ParsedSession(
            format=self.format,
            source=self.source,
            id=id,
            header=_finite({"type": "session", "id": id, "cwd": cwd} | (header or {})),
            version=3,
            cwd=cwd,
            created_ms=created_ms if created_ms is not None else (entries[0].time_ms if entries else None),
            parent_ref=parent_ref,
            entries=tuple(entries),
            lines=self.lines,
            leaf=leaf,
            labels=labels or {},
            name=name,
            name_time_ms=None,
            repairs=_by_line(self.repairs),
            losses=_by_line(self.losses),
            lines_read=tally.lines,
            tally=tally,
            digest=digest,
            size=size,
            mtime_ms=mtime_ms,
            importer=self.importer,
            foreign_ids=self._foreign,
            kept=tuple(sorted(self._kept.items())),
            unknown=tuple(self.unknown),
            title=title,
            child_of=child_of,
            copied=copied,
            torn_off=frozenset(self.torn_off),
            own_ids=frozenset(self.own_ids),
        )

    def _fill_times(self, created_ms: int | None) -> None:
        """Give entries without a time that of the entry before, since it is when they were written.

        Those at the beginning take the time of what was said first, or the session's own; else they stay without one.
        All of this is the same however much the source grows, so that the entries are known again.
        """
        known: int | None = None
        for entry in self.entries:
            known = entry.time_ms
            if known is not None or entry.type == "message":
                break
        if known is None and not self._untimed:
            known = created_ms
        for entry in self.entries:
            if entry.time_ms is None and known is not None:
                entry.time_ms, entry.extra = known, None
            elif entry.time_ms is None:
                entry.extra = _NO_TIME
            known = entry.time_ms

    def finish_lines(self, lines: JsonLines, **told: Any) -> ParsedSession:
        """As `finish`, for a file of JSON Lines that gave this one session."""
        self.repairs += lines.repairs
        self.losses += lines.losses
        return self.finish(tally=lines.tally(), digest=lines.digest, size=lines.size, mtime_ms=lines.mtime_ms, **told)


def _finite(header: JsonObject) -> JsonObject:
    text, had_infinity = value_text(header)
    found: JsonObject = json.loads(text) if had_infinity else header
    return found


def _by_line(found: list[Repair]) -> tuple[Repair, ...]:
    return tuple(sorted(found, key=lambda repair: repair.line or 0))
