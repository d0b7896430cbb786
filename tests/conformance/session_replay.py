"""Plays the steps of a recorded session case against a real `SessionStore`, with the case's clock and ids.

A file that is opened is imported and never written to. Labels and names set by steps are appended as Pi's entries,
which set the facts they stand for. A handle is a writer of its own: two handles on one session do not see each other's
leaf. What needs no store is computed by `session_pure`, from what the store gives back.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from pi_sessions.appending import clean_name
from pi_sessions.base import check_session_id
from pi_sessions.context import check_edit
from pi_sessions.errors import (
    CannotError,
    InvalidForkTargetError,
    PiSessionError,
    SessionNotFoundError,
)
from pi_sessions.formats.pi import pi_lines, read_pi_file
from pi_sessions.formats.pi_writer import entry_line, header_line
from pi_sessions.navigate import entry_text
from pi_sessions.results import Session
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from pi_sessions.times import format_time
from pi_sessions.tokens import merged_system
from pi_sessions.writer import Writer
from tests.conformance import session_pure as pure
from tests.conformance.session_compare import differences, records_of
from tests.conformance.session_folder import CaseFolder, digest

Json = Any

NEW_ID = "<new id>"


class Handle:
    """An open session: what it is and where it writes.

    Attributes:
        writer: Writes under the leaf this handle knows, on a branch of its own once somebody else got there first.
        file: Name of the file Pi would keep it in; None for one in memory.
    """

    def __init__(self, writer: Writer, file: str | None) -> None:
        self.writer = writer
        self.file = file

    @property
    def session_id(self) -> str:
        return self.writer.session_id

    @property
    def leaf(self) -> str | None:
        return self.writer.leaf


class Replay:
    """One case being played.

    Args:
        case: The decoded case file.
        folder: Where its files are made; the store lies beside it.
        fixtures: Folder with the gzip files that inputs may name.
    """

    def __init__(self, case: Json, folder: Path, fixtures: Path) -> None:
        self.case = case
        self.folder = CaseFolder(folder / "case", fixtures)
        self.folder.root.mkdir(parents=True)
        self.now_ms = 0
        self._scratch = folder / "scratch"
        self._scratch_number = 0
        self._entry_number = 0
        self._session_number = 0
        self._hidden_ids: set[str] = set()
        self._numbered = False
        self._opened: dict[str, tuple[str, str]] = {}
        self.handles: dict[str, Handle] = {}
        self.library: Json = []
        self.store = SessionStore.open(
            str(folder / "store" / "sessions.db"),
            clock=lambda: self.now_ms,
            new_id=self.next_id,
            new_session_id=self._next_session_id,
        )
        for given in case["inputs"]:
            self.folder.add_input(given)
        self.folder.make_folders(case["steps"])

    def close(self) -> None:
        self.store.close()

    def at(self, time: str) -> None:
        """Put the clock to the time of a step."""
        self.now_ms = int(datetime.fromisoformat(time).timestamp() * 1000)

    def shown(self, result: Json) -> Json:
        """Return a result with the case folder and new session ids shown as the case shows them."""
        shown = self.folder.shown(result)
        return _replaced(shown, self._hidden_ids) if self._hidden_ids else shown

    def scratch_store(self) -> SessionStore:
        """Open an empty store for files that are only looked at."""
        self._scratch_number += 1
        return SessionStore.open(str(self._scratch / f"{self._scratch_number}.db"), clock=lambda: self.now_ms)

    # ids

    def next_id(self) -> str:
        """Return the next entry id of the case."""
        self._entry_number += 1
        return f"{0x10000000 + self._entry_number:x}"

    def _next_session_id(self) -> str:
        if self._numbered:
            self._session_number += 1
            return f"sess-{self._session_number:04}"
        made = f"made-{len(self._hidden_ids) + 1:04}"
        self._hidden_ids.add(made)
        return made

    # handles and views

    def handle(self, name: str | None) -> Handle:
        """Return an open session by its handle."""
        found = self.handles.get(name or "")
        if found is None:
            raise SessionNotFoundError(f"No session is open under {name}")
        return found

    def hold(self, name: str | None, session_id: str, file: str | None) -> Handle:
        """Let a handle name a session."""
        made = self.handles[name or ""] = Handle(self.store.writer(session_id), file)
        return made

    def view(self, handle: Handle) -> pure.View:
        """Return what a handle's session holds, for the pure operations."""
        store, session_id = self.store, handle.session_id
        session = store.session(session_id)
        labels = {
            label.entry_id: (label.text, None if label.time_ms is None else format_time(label.time_ms))
            for label in store.labels(session_id).values()
        }
        return pure.View(store.entries(session_id), handle.leaf, labels, session.name, self.header(session))

    def header(self, session: Session) -> Json:
        """Return a session's header as Pi would show it."""
        if "type" in session.header:
            header = dict(session.header)
            return {**header, "version": 3} if is_older(header.get("version")) else header
        header = {"type": "session", "version": 3, "id": session.id, "timestamp": format_time(session.created_ms)}
        header["cwd"] = session.cwd
        parent = self.parent_file(session)
        return header | ({"parentSession": parent} if parent else {}) | session.header

    def parent_file(self, session: Session) -> str | None:
        """Return what Pi would name as a session's parent: the file of its origin."""
        if session.origin is None:
            return None
        if session.origin in {handle.session_id for handle in self.handles.values() if handle.file is None}:
            return None
        file = self._file_of(session.origin)
        return session.origin if file is None else str(self.folder.path(file))

    def _file_of(self, session_id: str) -> str | None:
        opened = (name for name, (_digest, kept) in self._opened.items() if kept == session_id)
        return self.folder.file_of(session_id) or next(opened, None)

    def file_text(self, session_id: str) -> str:
        """Return a session as the file Pi would keep it in: header and entries in the order of appending."""
        header = self.header(self.store.session(session_id))
        entries = self.store.entries(session_id)
        return header_line(header) + "".join(entry_line(entry, entry.parent_id) for entry in entries)

    # sessions

    def create(self, args: Json, on: str | None, *, in_memory: bool = False) -> Json:
        self._numbered = True
        try:
            session = self.store.create_session(
                cwd=args.get("cwd", ""), id=args.get("id"), origin=args.get("parentSession")
            )
        finally:
            self._numbered = False
        file = None if in_memory else f"{self._stamp()}_{session.id}.jsonl"
        if file is not None:
            self.folder.kept[file] = session.id
        self.hold(on, session.id, file)
        return {"id": session.id, "file": None if file is None else str(self.folder.path(file))}

    def _stamp(self) -> str:
        return format_time(self.now_ms).replace(":", "-").replace(".", "-")

    def take_in(self, file: str, *, numbered: bool = True) -> Session:
        """Import a file, or return the session that came of it when its bytes were opened before."""
        held = self.held(file)
        if held is not None:
            return self.store.session(held)
        parsed = read_pi_file(str(self.folder.path(file)), new_id=self.next_id if numbered else None)
        session = self.store.import_session(parsed).session
        self._opened[self.folder.name_of(file)] = (parsed.digest, session.id)
        return session

    def held(self, file: str) -> str | None:
        """Return the session that the store holds for a file, None when the file was not opened in its present form."""
        kept = self.folder.session_of(file)
        content = self.folder.on_disk(file)
        known = self._opened.get(self.folder.name_of(file))
        return known[1] if known and content is not None and known[0] == digest(content) else kept

    def open(self, args: Json, on: str | None) -> Json:
        session = self.take_in(args["file"])
        handle = self.hold(on, session.id, self.folder.name_of(args["file"]))
        return {"id": session.id, "cwd": session.cwd, "entries": len(self.store.entries(handle.session_id))}

    # appends

    def append(self, on: str | None, kind: str, fields: Json) -> str:
        return self.handle(on).writer.append({"type": kind, **fields}).id

    def append_message(self, args: Json, on: str | None) -> str:
        return self.append(on, "message", {"message": args["message"]})

    def append_compaction(self, args: Json, on: str | None) -> str:
        handle = self.handle(on)
        messages = [one.message for one in self.store.context(handle.session_id, at=handle.leaf).messages]
        entry_id = self.next_id()
        names = ("summary", "tokensBefore", "details", "usage", "fromHook")
        fields = {name: args[name] for name in names if name in args}
        kept = args.get("firstKeptEntryId") or entry_id
        system = merged_system(messages)
        replayed = {} if system is None else {"systemMessage": system}
        return self.append(on, "compaction", {"id": entry_id, "firstKeptEntryId": kept, **fields, **replayed})

    def append_context_edit(self, args: Json, on: str | None) -> str:
        handle = self.handle(on)
        store, session_id = self.store, handle.session_id
        session = store.session(session_id)
        if session.branch == handle.writer.branch and session.leaf == handle.leaf:
            stored = store.edit_context(session_id, args["targetId"], args["replacement"])
            handle.writer.leaf = stored.id
            return stored.id
        fields = check_edit(store.path(session_id, at=handle.leaf), args["targetId"], args["replacement"])
        return handle.writer.append({"type": "context_edit", **fields}).id

    def set_session_name(self, args: Json, on: str | None) -> str:
        return self.append(on, "session_info", {"name": clean_name(args["name"]) or ""})

    def set_label(self, args: Json, on: str | None) -> str:
        return self.label(on, args["targetId"], args.get("label"))

    def label(self, on: str | None, target: str, text: str | None) -> str:
        self.store.entry(self.handle(on).session_id, target)
        return self.append(on, "label", {"targetId": target} if text is None else {"targetId": target, "label": text})

    # moves

    def move(self, handle: Handle, to: str | None) -> None:
        """Move a handle's leaf."""
        session_id, branch = handle.session_id, handle.writer.branch
        if self.store.session(session_id).branch != branch:
            self.store.switch(session_id, branch)
        self.store.rewind(session_id, to)
        handle.writer = self.store.writer(session_id, branch)

    def move_leaf(self, args: Json, on: str | None) -> Json:
        handle = self.handle(on)
        self.move(handle, args["id"])
        return {"leaf": handle.leaf}

    def reset_leaf(self, _args: Json, on: str | None) -> Json:
        return self.move_leaf({"id": None}, on)

    def apply(self, on: str | None, change: pure.Change) -> StoredEntry | None:
        """Do what a pure operation planned; all of it or nothing."""
        handle = self.handle(on)
        stored = None
        with self.store.transaction():
            if change.moves or (change.kind is not None and change.parent != handle.leaf):
                self.move(handle, change.parent)
            if change.kind is not None:
                stored = handle.writer.append({"type": change.kind, **change.fields})
            if change.label is not None:
                target, text = change.label
                self.label(on, target or (stored.id if stored else ""), text)
        return stored

    def branch_with_summary(self, args: Json, on: str | None) -> str | None:
        stored = self.apply(on, pure.branch_with_summary(self.view(self.handle(on)), args))
        return stored.id if stored else None

    def navigate(self, args: Json, on: str | None) -> Json:
        change = pure.navigate(self.view(self.handle(on)), args)
        stored = self.apply(on, change)
        made = stored.to_dict() if stored else None
        return {**change.result, "summaryEntry": made, "leaf": self.handle(on).leaf}

    def compact(self, args: Json, on: str | None) -> Json:
        change = pure.compact(self.view(self.handle(on)), args)
        stored = self.apply(on, change)
        return {**change.result, "id": stored.id} if stored else change.result

    # copies

    def fork(self, args: Json, on: str | None) -> Json:
        handle = self.handle(on)
        entry = self.store.entry(handle.session_id, args["entry"])
        if entry.role != "user":
            raise InvalidForkTargetError(f"Cannot fork before {entry.id}: it is no user message")
        return self._copy(handle, entry.parent_id, args["into"], entry_text(entry))

    def clone(self, args: Json, on: str | None) -> Json:
        handle = self.handle(on)
        return self._copy(handle, args.get("entry") or handle.leaf, args["into"], None)

    def _copy(self, handle: Handle, at: str | None, into: str, text: str | None) -> Json:
        """Fork a session; the entries shown are those of the fork's Pi export."""
        session = self.store.fork(handle.session_id, at=at)
        file = None if handle.file is None else f"{self._stamp()}_{session.id}.jsonl"
        if file is not None:
            self.folder.kept[file] = session.id
        copy = self.hold(into, session.id, file)
        entries = self.export(copy)[1:] if at is not None else []
        for entry in entries:
            if entry["type"] == "label":
                self.next_id()
        return {
            "cancelled": False,
            "selectedText": text,
            "written": file is not None,
            "header": self.header(session),
            "entries": entries,
        }

    def export(self, handle: Handle) -> list[Json]:
        """Return the lines of a session's Pi export, decoded."""
        return [line for line in records_of(self.export_text(handle)) if line != ""]

    def export_text(self, handle: Handle) -> str:
        store, session = self.store, self.store.session(handle.session_id)
        header = {**self.header(session), "timestamp": format_time(self.now_ms)}
        labels = {label.entry_id: (label.text, label.time_ms) for label in store.labels(session.id).values()}
        entries = store.entries(session.id)
        return "".join(pi_lines(header, entries, leaf=handle.leaf, labels=labels, name=session.name))

    def clone_digest(self, args: Json, on: str | None) -> Json:
        copy = self.clone({**args, "into": on or ""}, on)
        handle = self.handle(on)
        return {
            "entries": len(self.store.entries(handle.session_id)),
            "leaf": handle.leaf,
            "parentSession": copy["header"].get("parentSession"),
            "written": copy["written"],
        }

    def fork_from(self, args: Json, on: str | None) -> Json:
        if args.get("id") is not None:
            check_session_id(args["id"])
        source = self.take_in(args["file"], numbered=False)
        session = self.store.fork(source.id, all_branches=True, cwd=args["cwd"], id=args.get("id"))
        file = f"dest/{self._stamp()}_{session.id}.jsonl"
        self.folder.kept[file] = session.id
        self.hold(on, session.id, file)
        return {"file": str(self.folder.path(file)), "header": self.header(session)}

    def import_file(self, args: Json, on: str | None) -> Json:
        session = self.take_in(args["file"])
        if args.get("cwd_override") is not None:
            self.store.set_cwd(session.id, self.folder.real(args["cwd_override"]))
            session = self.store.session(session.id)
        file = self.folder.file_of(session.id)
        if file is None:
            in_place = os.path.dirname(self.folder.name_of(args["file"])) == "store"
            file = args["file"] if in_place else self.folder.free_name("store", os.path.basename(args["file"]))
            if not in_place:
                self.folder.kept[file] = session.id
        self.hold(on, session.id, file)
        return {"file": str(self.folder.path(file)), "id": session.id, "cwd": session.cwd}

    # files from outside

    def read_file(self, args: Json, _on: str | None) -> Json:
        text = self.text_of(args["file"])
        return {"exists": False} if text is None else {"exists": True, "text": text}

    def text_of(self, file: str) -> str | None:
        """Return the text of a file on disk, or of a session kept under that name; None for neither."""
        content = self.folder.on_disk(file)
        if content is not None:
            return content.decode(errors="replace")
        kept = self.folder.session_of(file)
        return None if kept is None else self.file_text(kept)

    def session_file(self, _args: Json, on: str | None) -> Json:
        handle = self.handle(on)
        if handle.file is None:
            return {"exists": False}
        return {"exists": True, "name": os.path.basename(handle.file), "text": self.file_text(handle.session_id)}

    def exists(self, args: Json, _on: str | None) -> bool:
        return self.folder.path(args["file"]).exists() or self.folder.session_of(args["file"]) is not None

    def list_files(self, _args: Json, _on: str | None) -> Json:
        return [{"name": name, "lines": self.lines_in(name)} for name in self.folder.names_in(".")]

    def lines_in(self, name: str) -> int | None:
        text = self.text_of(name)
        return None if text is None else text.count("\n")

    def line_ends(self, args: Json, _on: str | None) -> Json:
        text = self.text_of(args["file"]) or ""
        crlf = text.count("\r\n")
        return {"lf": text.count("\n") - crlf, "crlf": crlf, "ends_with_line_end": text.endswith("\n")}

    def write_file(self, args: Json, _on: str | None) -> None:
        self.folder.write(args["file"], args["text"])

    def delete_file(self, args: Json, _on: str | None) -> None:
        self.folder.delete(args["file"])

    def replace_file_by_folder(self, args: Json, _on: str | None) -> None:
        self.folder.put_folder_in_place(args["file"])

    def export_html(self, _args: Json, _on: str | None) -> Json:
        raise CannotError("There is no HTML page of a session yet")

    def check(self) -> list[str]:
        """Return what is wrong with the store after the case: broken invariants, contexts that depend on the way."""
        found = [problem.message for problem in self.store.verify()]
        for name, handle in self.handles.items():
            try:
                view = self.view(handle)
                path = [entry.id for entry in view.path(handle.leaf)]
            except PiSessionError as error:
                found.append(f"{name}: {error.message}")
                continue
            if [entry.id for entry in self.store.path(handle.session_id, at=handle.leaf)] != path:
                found.append(f"{name}: the stored path is not that of the parents")
            stored, whole = self.store.context(handle.session_id, at=handle.leaf), pure.context_of(view, handle.leaf)
            if pure.context_form(stored) != pure.context_form(whole):
                found.append(f"{name}: the context read by ranges is not that of the whole path")
            found += [f"{name}: {difference}" for difference in self._there_and_back(handle, view)]
        return found

    def _there_and_back(self, handle: Handle, view: pure.View) -> list[str]:
        """Return what is lost when the whole session is exported for Pi and read again."""
        labels = {
            label.entry_id: (label.text, label.time_ms) for label in self.store.labels(handle.session_id).values()
        }
        lines = pi_lines(view.header, view.entries, leaf=handle.leaf, labels=labels, name=view.name, whole_tree=True)
        file = self._scratch / "export.jsonl"
        self._scratch.mkdir(exist_ok=True)
        file.write_text("".join(lines))
        again = read_pi_file(str(file))
        lifted = {entry.id: entry.parent_id for entry in view.entries if entry.type == "label"}

        def above(entry_id: str | None) -> str | None:
            while entry_id in lifted:
                entry_id = lifted[entry_id]
            return entry_id

        kept = {
            entry.id: {**entry.to_dict(), "parentId": above(entry.parent_id)}
            for entry in view.entries
            if entry.id not in lifted
        }
        told = {target: text for target, (text, _time) in labels.items() if target not in lifted}
        return [
            *differences({entry.id: entry.to_dict() for entry in again.entries}, kept),
            *differences(again.leaf, above(handle.leaf)),
            *differences(again.name, view.name),
            *differences({target: text for target, (text, _time) in again.labels.items()}, told),
            *(f"reading it again reports {repair.message}" for repair in again.losses),
        ]


def is_older(version: Json) -> bool:
    """Whether a header's version is below 3 as JavaScript compares, so that Pi sets it to 3."""
    return version is None or (isinstance(version, int | float) and version < 3)


def _replaced(value: Json, hidden: set[str]) -> Json:
    if isinstance(value, str):
        for session_id in hidden:
            value = value.replace(session_id, NEW_ID)
        return value
    if isinstance(value, list):
        return [_replaced(one, hidden) for one in value]
    if isinstance(value, dict):
        return {name: _replaced(one, hidden) for name, one in value.items()}
    return value
