"""Reads JSON that our export made (`json_export`) back into the session it was.

The export writes an entry a line, each as Pi writes it. So the lines are read by the reader of Pi's files, with all it
knows of damage, and every entry comes back as the text it was. Files that another program wrote anew (indented, say)
are read as one object. What only the store knew, such as branches and facts, becomes a `SessionState`.

Not in the file, and so not given back: operations (what can be undone), runs, and where entries were imported from.
"""

from __future__ import annotations

import hashlib
import os
from itertools import chain

from pi_sessions.errors import SourceError
from pi_sessions.formats.json_export import FORMAT, VERSION
from pi_sessions.formats.json_export_in import IMPORTER
from pi_sessions.formats.json_items import JsonItems
from pi_sessions.formats.json_text import BLANK, NotJsonError, scan
from pi_sessions.formats.parsed import ChildOf, Repair, SessionState
from pi_sessions.formats.pi_reader import finish_records, open_source
from pi_sessions.formats.pi_records import PiRecords
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.stored import dump
from pi_sessions.times import parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_NAME = "pi-session"
_LONGEST_HEAD = 64 << 20
_BEGIN, _END = b'"entries":[', b"]}"
# What Pi's reader finds odd in a file, and a store may hold.
_AS_STORED = frozenset(("no_time", "no_message", "label_target", "label_text", "name_text"))


class _Lines:
    """The lines of an export as lines of a Pi file: the facts become a header, what stands around entries goes.

    Attributes:
        head: The facts; None where they could not be read.
        ended: The end of the object was met.
        digest, size: Of the bytes read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.head: JsonObject | None = None
        self.ended = False
        self.size = 0
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def of_file(self, file: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of a file that lies there as it was exported."""
        yield self._header(self._counted(next(file)))
        for raw in file:
            text = self._counted(raw).strip()
            if text == _BEGIN:
                yield b"\n"
            elif text == _END:
                self.ended = True
                yield b"\n"
            else:
                yield text.removesuffix(b",") + (b"\n" if raw.endswith(b"\n") else b"")

    def of_items(self, items: JsonItems) -> Iterator[bytes]:
        """Yield the lines of a file that was written anew by another program."""
        for item in items:
            value = item.value
            if self.head is None and value.get("format") == FORMAT:
                self.head = {name: each for name, each in value.items() if name != "entries"}
                yield self._made(self.head)
            listed = item.parts if item.parts is not None else value.get("entries")
            for entry in listed if isinstance(listed, list) else []:
                yield f"{dump(entry)}\n".encode()
            self.ended = item.parts is None
        self.size = items.size
        self._hash = hashlib.sha256(items.digest.encode())

    def _counted(self, raw: bytes) -> bytes:
        self._hash.update(raw)
        self.size += len(raw)
        return raw

    def _header(self, raw: bytes) -> bytes:
        """Return the header that the first line stands for; the line itself when it is damaged."""
        text = raw.decode(errors="replace").strip("\ufeff" + BLANK)
        try:
            head, _end = scan(text.removesuffix(",") + "}", 0)
        except NotJsonError:
            return raw
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            return raw
        self.head = head
        return self._made(head)

    def _made(self, head: JsonObject) -> bytes:
        session = _object(head.get("session"))
        if isinstance(head.get("version"), int) and head["version"] > VERSION:
            hint = "a later version of pi-session made it; update pi-session"
            raise SourceError(f"{self.path} is pi-session's JSON of version {head['version']}", hint=hint)
        header = {"type": "session", "version": 3, "id": session.get("id"), "timestamp": session.get("created")}
        origin = {"parentSession": session["origin"]} if session.get("origin") else {}
        return f"{dump({**header, 'cwd': session.get('cwd') or '', **origin})}\n".encode()


def read_json_export(path: str) -> ParsedSession:
    """Read one file; errors as `json_export_in.read`."""
    records = PiRecords(path)
    lines = _Lines(path)
    with open_source(path) as file, CollectionsPaused():
        mtime_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
        first = file.readline(_LONGEST_HEAD)
        if not first:
            raise SourceError(f"{path} is empty", hint="there is nothing to import; the file was left as it is")
        second = file.readline(_LONGEST_HEAD) if first.rstrip().endswith(b",") else b""
        try:
            if second.strip() == _BEGIN or (b'"session":{' in first and first.rstrip().endswith(b",")):
                records.read(lines.of_file(chain((first, second), file)))
            else:
                items = JsonItems(path, lambda value: value.get("format") == FORMAT, _is_entry)
                records.read(lines.of_items(items))
                records.repairs += items.repairs
                records.losses += items.losses
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    if lines.head is None and not records.entries:
        raise SourceError(f"{path} is damaged: it holds no entry of an export")
    if not lines.ended and not any(loss.code in ("cut_off", "torn") for loss in records.losses):
        records.losses.append(Repair(records.lines, "cut_off", "the file is cut off; what came after is not in it"))
    parsed = finish_records(records, path, digest=lines.digest, size=lines.size, mtime_ms=mtime_ms)
    return _with_facts(parsed, lines.head)


def _is_entry(value: JsonObject) -> bool:
    return isinstance(value.get("type"), str) and isinstance(value.get("id"), str) and "parentId" in value


def _with_facts(parsed: ParsedSession, head: JsonObject | None) -> ParsedSession:
    """Return a session with the facts of its export; those that name entries which are not in the file are left out."""
    for entry in parsed.entries:
        if entry.extra is not None and entry.timestamp is None:
            entry.time_ms = None
    repairs = tuple(repair for repair in parsed.repairs if repair.code not in _AS_STORED)
    told: ParsedSession = parsed.replace(format=_NAME, importer=IMPORTER, repairs=repairs)
    if head is None:
        loss = Repair(1, "facts", "the facts (id, name, branches, labels) are damaged and lost")
        without: ParsedSession = told.replace(losses=(loss, *told.losses))
        return without
    known = {entry.id for entry in parsed.entries}
    missing: list[Repair] = []
    session = _object(head.get("session"))
    branches: dict[str, str | None] = {}
    current = "main"
    for each in _objects(head.get("branches")):
        name, leaf = each.get("name"), each.get("leaf")
        if not isinstance(name, str) or not name:
            continue
        current = name if each.get("current") is True else current
        if leaf is None or _text(leaf) in known:
            branches[name] = leaf
        elif head.get("wholeTree"):
            missing.append(Repair(1, "branch_leaf", f"the branch {name} was left out: there is no entry {leaf}"))
    leaf = head.get("leaf")
    at_start = leaf is None and head.get("wholeTree") is True
    leaf = leaf if _text(leaf) in known else None if at_start else parsed.leaf
    branches.setdefault(current, leaf)
    labels: dict[str, tuple[str, int | None]] = {}
    for each in _objects(head.get("labels")):
        target, text = _text(each.get("entryId")), each.get("text")
        if target is not None and target in known and isinstance(text, str) and text:
            labels[target] = (text, parse_time(each.get("timestamp")))
        elif head.get("wholeTree"):
            missing.append(Repair(1, "label_target", f"a label was ignored: there is no entry {target}"))
    name = session.get("name")
    parent, call = _text(session.get("parentSession")), _text(session.get("parentCall"))
    whole: ParsedSession = told.replace(
        header=_object(session.get("header")),
        leaf=leaf,
        labels=labels,
        name=name if isinstance(name, str) else None,
        name_time_ms=None,
        repairs=(*missing, *told.repairs),
        child_of=ChildOf(parent, None, call) if parent else None,
        state=SessionState(
            branches=tuple(branches.items()),
            current=current,
            origin_entry=_text(session.get("originEntry")),
            archived=session.get("archived") is True,
            pinned=session.get("pinned") is True,
        ),
    )
    return whole


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
