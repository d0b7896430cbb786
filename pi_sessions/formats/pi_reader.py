"""Reads a Pi session file into a `ParsedSession`; the source is opened for reading and never touched.

Puts the steps together: framing (`pi_records`), links (`pi_links`), versions (`pi_migration`), then facts. Refuses
files that are no Pi sessions and says why.

Source: Pi 1.6.0, session file.
"""

from __future__ import annotations

import hashlib
import os
import stat
from array import array

from pi_sessions.errors import SourceError
from pi_sessions.formats.bytes_read import heard
from pi_sessions.formats.compressed import inner_name, unpacked
from pi_sessions.formats.derived import is_derived_fact
from pi_sessions.formats.parsed import ParsedSession, Repair, Tally
from pi_sessions.formats.pi_links import Linker, is_sound
from pi_sessions.formats.pi_migration import CURRENT_VERSION, migrate, source_version
from pi_sessions.formats.pi_records import PiRecords, not_a_session
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.stored import StoredEntry, dump
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from pi_sessions.ids import NewId
    from pi_sessions.stored import JsonObject

_BLOCK = 1 << 20


class _Source:
    """The lines of an open file, hashed and counted on the way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def lines(self) -> Iterator[bytes]:
        update = self._hash.update
        size = 0
        for line in self._file:
            update(line)
            size += len(line)
            yield line
        self.size = size

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def read_pi_file(path: str, *, new_id: NewId | None = None) -> ParsedSession:
    """Read a Pi session file of any version, mending what is damaged.

    Args:
        path: The file.
        new_id: Gives ids to entries that have none of their own, one call per entry in file order. None: such ids are
            computed from the entries, so that reading a file again gives the same ids.

    Returns:
        The session with its links resolved, and a report in which every line of the file is counted.

    Raises:
        SourceError: the file is missing, unreadable, empty, no regular file, or not a Pi session.

    Source: Pi 1.6.0, "Reading" and "Versions"; deviations are named in `pi_records`, `pi_links` and `pi_migration`.
    """
    records = PiRecords(path)
    with open_source(path) as file:
        status = os.fstat(file.fileno())
        source = _Source(file)
        try:
            with CollectionsPaused():
                records.read(source.lines())
        except OSError as error:
            raise _unreadable(path, error) from error
    if source.size == 0:
        raise SourceError(f"{path} is empty", hint="there is nothing to import; the file was left as it is")
    mtime_ms = status.st_mtime_ns // 1_000_000
    return finish_records(records, path, digest=source.digest, size=source.size, mtime_ms=mtime_ms, new_id=new_id)


def open_source(path: str) -> BinaryIO:
    """Open a regular file for reading its lines as bytes; one that is packed, or lies in a zip archive, unpacked.

    Raises:
        SourceError: it is missing, no regular file, or may not be read.
    """
    try:
        file = open(path, "rb", buffering=_BLOCK, opener=_open_without_waiting)  # noqa: SIM115 (the caller closes it)
    except NotADirectoryError:
        from pi_sessions.formats.archives import open_member

        return unpacked(open_member(path), path)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise SourceError(f"{path!r} is no file name: {error}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise SourceError(f"{path} is not a regular file")
    return unpacked(heard(file, _BLOCK), path)


def _open_without_waiting(path: str, flags: int) -> int:
    # A named pipe would block the open until somebody writes to it.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _unreadable(path: str, error: OSError) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path} does not exist")
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{path} is a directory", hint="name a session file, or import the folder")
    return SourceError(f"{path} cannot be read: {error.strerror or error}")


def finish_records(
    records: PiRecords, path: str, *, digest: str, size: int, mtime_ms: int, new_id: NewId | None = None
) -> ParsedSession:
    """Make the session of a file's records: links, versions, facts.

    Args:
        records: All of the file's.
        path: The file.
        digest, size, mtime_ms: As in `ParsedSession`.
        new_id: As for `read_pi_file`.

    Raises:
        SourceError: this is no Pi session.
    """
    header = records.header
    if header is None:
        if not records.has_pi_entries():
            raise not_a_session(path)
        header = {}
        found = "the file has no header; the session got an id of its own"
        records.repair(None, "header_missing", found)
        version, odd = 3, False
    else:
        version, odd = source_version(header)
    if version > CURRENT_VERSION:
        found = f"version {version} is newer than {CURRENT_VERSION}, the newest known here; the file was read as that"
        records.repair(records.header_line, "newer_version", found)
    if odd:
        found = f"the version {header.get('version')!r} is odd; the file was read as version {version}"
        records.repair(records.header_line, "odd_version", found)
    if version < 2 or not is_sound(records):
        linker = Linker(records, new_id=new_id, chained=version < 2)
        linker.resolve()
        if version < 2 and linker.made:
            found = f"version 1 was read as version 3; {linker.made} entries got ids"
            records.repair(records.header_line or None, "migrated", found)
    if version < 3 or records.unlinked:
        migrate(records, version)
    leaf = records.last_repeats or (records.entries[-1].id if records.entries else None)
    facts = _Facts(records)
    leaf = facts.drop_derived(leaf)
    facts.collect()
    return ParsedSession(
        format="pi",
        source=path,
        id=_session_id(records, header, path),
        header=header,
        version=version,
        cwd=header["cwd"] if isinstance(header.get("cwd"), str) else "",
        created_ms=_created(header, records.entries),
        parent_ref=_parent(header),
        entries=tuple(records.entries),
        lines=records.places,
        leaf=leaf,
        labels=facts.labels,
        name=facts.name,
        name_time_ms=facts.name_time_ms,
        repairs=_in_line_order(records.repairs),
        losses=_in_line_order(records.losses),
        lines_read=records.lines,
        tally=facts.tally(),
        digest=digest,
        size=size,
        mtime_ms=mtime_ms,
    )


class _Facts:
    """Labels and name of a file: read off its entries, and the entries that only our exporter made for them."""

    def __init__(self, records: PiRecords) -> None:
        self.records = records
        self.labels: dict[str, tuple[str, int | None]] = {}
        self.name: str | None = None
        self.name_time_ms: int | None = None
        self._derived: list[tuple[int, StoredEntry]] = []
        self._kept: list[tuple[int, StoredEntry]] = []

    def drop_derived(self, leaf: str | None) -> str | None:
        """Take entries out that our exporter derived from facts; their children move up.

        Returns:
            The leaf, or the nearest entry above it that is kept.
        """
        records = self.records
        pairs = list(zip(records.places, records.entries, strict=True)) if self._has_facts() else []
        self._kept = [(line, entry) for line, entry in pairs if entry.type in ("label", "session_info")]
        derived = {entry.id: entry.parent_id for _line, entry in self._kept if is_derived_fact(entry)}
        if not derived:
            return leaf
        self._derived = [(line, entry) for line, entry in pairs if entry.id in derived]
        kept = [(line, entry) for line, entry in pairs if entry.id not in derived]
        for _line, entry in kept:
            entry.parent_id = _above(entry.parent_id, derived)
        records.places = array("q", [line for line, _entry in kept])
        records.entries[:] = [entry for _line, entry in kept]
        return _above(leaf, derived)

    def _has_facts(self) -> bool:
        return any(entry.type in ("label", "session_info") for entry in self.records.entries)

    def collect(self) -> None:
        """Read labels and name, in file order, whatever the branch (Pi 1.6.0, "Writing")."""
        if not self._kept:
            return
        known = {entry.id for entry in self.records.entries}
        for line, entry in self._kept:
            if entry.type == "label":
                self._label(line, entry, known)
            else:
                self._rename(line, entry)

    def _label(self, line: int, entry: StoredEntry, known: set[str]) -> None:
        target, text = entry.fields.get("targetId"), entry.fields.get("label")
        if not isinstance(target, str) or target not in known:
            found = f"a label was ignored: there is no entry {target}"
            self.records.repair(line, "label_target", found, entry.id)
        elif text is None or text == "":
            self.labels.pop(target, None)
        elif not isinstance(text, str):
            found = f"a label on {target} was ignored: {text!r} is no text"
            self.records.repair(line, "label_text", found, entry.id)
        else:
            self.labels[target] = (text, entry.time_ms)

    def _rename(self, line: int, entry: StoredEntry) -> None:
        name = entry.fields.get("name")
        if name is not None and not isinstance(name, str):
            self.records.repair(line, "name_text", f"a name was ignored: {name!r} is no text", entry.id)
            return
        self.name = (name or "").strip() or None
        self.name_time_ms = entry.time_ms if self.name else None

    def tally(self) -> Tally:
        """Count each line once."""
        records = self.records
        gave = bytearray(records.lines + 1)
        for line in records.places:
            gave[line] = 1
        gave[0] = gave[records.header_line] = 0
        fact_lines = {line for line, _entry in self._derived if not gave[line]} - {records.header_line}
        counts = {"header": 0, "blank": 0, "skipped": 0, "lost": 0}
        for line, outcome in records.outcome.items():
            if not gave[line] and line not in fact_lines:
                counts[outcome] += 1
        return Tally(lines=records.lines, entries=sum(gave), facts=len(fact_lines), **counts)


def _above(entry_id: str | None, derived: dict[str, str | None]) -> str | None:
    while entry_id in derived:
        entry_id = derived[entry_id]
    return entry_id


def _made_id(records: PiRecords, header: JsonObject) -> str:
    """Return an id made of how the file begins, which is the same however much it grows."""
    told: list[object] = [header]
    if "timestamp" not in header and records.entries:
        first = records.entries[0]
        told += [first.id, first.type, first.time_ms, first.payload, first.extra]
    return f"pi-{hashlib.sha256(dump(told).encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"


def _session_id(records: PiRecords, header: JsonObject, path: str) -> str:
    """Return the header's id; without one, the id in a file name as Pi makes it, else one made of the content."""
    given = header.get("id")
    if isinstance(given, str) and given.strip():
        return given
    stem = os.path.basename(inner_name(path)).removesuffix(".jsonl")
    named = stem.partition("_")[2] if stem[:4].isdigit() else ""
    made = named if named.replace("-", "").replace("_", "").replace(".", "").isalnum() else _made_id(records, header)
    if records.header is not None:
        found = "the header has no id" if given is None else f"the header's id {given!r} is no text"
        records.repair(records.header_line, "header_id", f"{found}; the session got the id {made}")
    return made


def _created(header: JsonObject, entries: list[StoredEntry]) -> int | None:
    created = parse_time(header.get("timestamp"))
    if created is not None:
        return created
    return entries[0].time_ms if entries else None


def _parent(header: JsonObject) -> str | None:
    for field in ("parentSession", "branchedFrom"):
        parent = header.get(field)
        if isinstance(parent, str) and parent:
            return parent
    return None


def _in_line_order(found: list[Repair]) -> tuple[Repair, ...]:
    return tuple(sorted(found, key=lambda repair: repair.line or 0))
