"""Lists, searches and looking sessions up by what a person types, over the files of a case's folder.

Files that no step has opened are imported into a second store, so that listing uses up no id and opens nothing;
sessions that the case's own store holds are listed from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pi_sessions.context import content_text
from pi_sessions.errors import PiSessionError, SessionNotFoundError, SourceError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.refs import resolve_session
from pi_sessions.results import Session
from pi_sessions.stored import StoredEntry
from pi_sessions.times import format_time
from tests.conformance import session_pure as pure
from tests.conformance.session_replay import Replay

Json = Any

NO_MESSAGES = "(no messages)"


class Listing:
    """The sessions whose files lie directly in a case's folder.

    Attributes:
        stores: The case's store and the one for files not opened yet.
        files: Store and session id -> name of the file.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        unopened = replay.scratch_store()
        self.stores = (replay.store, unopened)
        self.files: dict[tuple[int, str], str] = {}
        for name in replay.folder.session_files():
            held = replay.held(name)
            if held is not None:
                self.files[0, held] = name
                continue
            try:
                parsed = read_pi_file(str(replay.folder.path(name)))
            except SourceError:
                continue
            self.files[1, unopened.import_session(parsed).session.id] = name

    def sessions(self, cwd: str | None) -> list[tuple[int, Session]]:
        """Return the listed sessions of a directory (None: of all), newest activity first."""
        place = None if cwd is None else os.path.normpath(cwd)
        found = [
            (number, session)
            for number, store in enumerate(self.stores)
            for session in store.sessions(cwd=place, archived=True, limit=None)
            if (number, session.id) in self.files
        ]
        found.sort(key=lambda one: -one[1].updated_ms)
        return found

    def row(self, number: int, session: Session) -> Json:
        """Return a session as a list shows it."""
        entries = self.stores[number].entries(session.id)
        first = next((text for text in _texts(entries, "user") if text), None)
        return {
            "file": self.files[number, session.id],
            "id": session.id,
            "cwd": session.cwd,
            "name": session.name,
            "created": format_time(session.created_ms),
            "modified": format_time(session.updated_ms),
            "parentSession": self._parent(number, session),
            "messageCount": session.message_count,
            "firstMessage": NO_MESSAGES if session.first_message is None else first,
            "allMessagesText": " ".join(text for text in _texts(entries, "user", "assistant") if text),
        }

    def _parent(self, number: int, session: Session) -> str | None:
        origin = session.origin
        if origin is None:
            return None
        file = self.files.get((number, origin)) or self.files.get((1 - number, origin))
        return origin if file is None else str(self.replay.folder.path(file))

    def close(self) -> None:
        self.stores[1].close()


def _texts(entries: list[StoredEntry], *roles: str) -> list[str]:
    return [content_text((one.message or {}).get("content"), " ") for one in entries if one.role in roles]


def rows(replay: Replay, cwd: str | None) -> list[Json]:
    """Return what a list shows."""
    listing = Listing(replay)
    try:
        return [listing.row(*one) for one in listing.sessions(cwd)]
    finally:
        listing.close()


def list_threaded(replay: Replay, args: Json, _on: str | None) -> Json:
    """Return the sessions below the ones they were forked from, families by their newest activity."""
    listing = Listing(replay)
    try:
        sessions = [session for _number, session in listing.sessions(args.get("cwd"))]
    finally:
        listing.close()
    known = {session.id for session in sessions}
    below: dict[str | None, list[Session]] = {}
    for session in sessions:
        below.setdefault(session.origin if session.origin in known else None, []).append(session)

    def newest(session: Session) -> int:
        return max([session.updated_ms, *map(newest, below.get(session.id, []))])

    def family(session: Session, depth: int) -> list[Json]:
        inner = sorted(below.get(session.id, []), key=newest, reverse=True)
        return [{"id": session.id, "depth": depth}, *(row for one in inner for row in family(one, depth + 1))]

    return [row for one in sorted(below.get(None, []), key=newest, reverse=True) for row in family(one, 0)]


def most_recent(replay: Replay, args: Json, _on: str | None) -> Json:
    """Return the file of the session with the newest activity."""
    if args.get("folder") is not None:
        return None if not replay.folder.path(args["folder"]).is_dir() else _newest_in(replay, args["folder"])
    found = rows(replay, args.get("cwd"))
    return found[0]["file"] if found else None


def _newest_in(replay: Replay, folder: str) -> str | None:
    found = [row for row in rows(replay, None) if os.path.dirname(row["file"]) == folder]
    return found[0]["file"] if found else None


def find_by_id(replay: Replay, args: Json, _on: str | None) -> Json:
    """Return the file of the session with exactly this id."""
    return next((row["file"] for row in rows(replay, args.get("cwd")) if row["id"] == args["id"]), None)


def resolve(replay: Replay, args: Json, _on: str | None) -> Json:
    """Return what a typed session stands for: a path, a session of this directory, or one of another."""
    typed = next(value for name, value in args.items() if name != "cwd")
    if "/" in typed or "\\" in typed or typed.endswith(".jsonl"):
        return {"type": "path", "path": str(replay.folder.path(typed))}
    listing = Listing(replay)
    try:
        found = []
        for number, store in enumerate(listing.stores):
            try:
                session = resolve_session(store, typed)
            except SessionNotFoundError:
                continue
            found += [(number, session)] if (number, session.id) in listing.files else []
        if not found:
            return {"type": "not_found", "arg": typed}
        number, session = found[0]
        path = str(replay.folder.path(listing.files[number, session.id]))
        if session.cwd == args.get("cwd"):
            return {"type": "local", "path": path}
        return {"type": "global", "path": path, "cwd": session.cwd}
    finally:
        listing.close()


def continue_recent(replay: Replay, args: Json, on: str | None) -> Json:
    """Open the session of a directory with the newest activity, or begin one."""
    found = rows(replay, args["cwd"])
    if not found:
        session = replay.store.create_session(cwd=args["cwd"])
        replay.hold(on, session.id, None)
        return {"file": None, "new_session": True, "cwd": session.cwd}
    replay.open({"file": found[0]["file"]}, on)
    handle = replay.handle(on)
    session = replay.store.session(handle.session_id)
    return {
        "file": found[0]["file"],
        "entries": len(replay.store.entries(session.id)),
        "leaf": handle.leaf,
        "cwd": session.cwd,
        "name": session.name,
    }


def probe(replay: Replay, args: Json, _on: str | None) -> Json:
    """Open a file and take one look, without leaving anything open."""
    parsed = read_pi_file(str(replay.folder.path(args["file"])))
    with replay.scratch_store() as store:
        session = store.import_session(parsed).session
        view = pure.View(store.entries(session.id), session.leaf)
        outcome = {"outcome": "returns"}
        if args["what"] == "branch":
            return {**outcome, "branch": [entry.id for entry in store.path(session.id)]}
        if args["what"] == "context":
            return {**outcome, "messages": len(store.context(session.id).messages)}
        return {**outcome, **pure.tree_form(view)} if args["what"] == "tree" else outcome


def search_library(replay: Replay, _args: Json, _on: str | None) -> Json:
    """Take the sessions that the searches after this step look through: they are what the step records."""
    step = next(one for one in replay.case["steps"] if one["op"] == "search_library")
    replay.library = step["result"]
    return replay.library


def missing_cwd(replay: Replay, args: Json, on: str | None) -> Json:
    """Return what is said about a session whose directory is gone; None when it is there."""
    session = replay.take_in(args["file"]) if "file" in args else replay.store.session(replay.handle(on).session_id)
    if not session.cwd or os.path.isdir(session.cwd):
        return None
    return {"sessionCwd": session.cwd, "fallbackCwd": args.get("fallback", args.get("cwd"))}


def open_cwd(replay: Replay, args: Json, on: str | None) -> Json:
    """Open a file and return its directory."""
    return replay.open(args, on)["cwd"]


def open_with_cwd_override(replay: Replay, args: Json, on: str | None) -> Json:
    """Open a file for another directory and return that directory."""
    replay.open(args, on)
    override = next(value for name, value in args.items() if name != "file")
    session_id = replay.handle(on).session_id
    replay.store.set_cwd(session_id, replay.folder.real(override))
    return replay.store.session(session_id).cwd


def session_folder_name(_replay: Replay, args: Json, _on: str | None) -> str:
    """Return what we find sessions of a directory by: the directory itself."""
    return str(args["cwd"])


def search(replay: Replay, args: Json, _on: str | None) -> Json:
    """Search the library."""
    return pure.search(replay.library, args)


def cli(_replay: Replay, _args: Json, _on: str | None) -> Json:
    """Refuse: these are the options of Pi's own command."""
    raise PiSessionError("pi-session does not have the options of the pi command")


OPERATIONS: dict[str, Callable[[Replay, Json, str | None], Json]] = {
    "list": lambda replay, args, _on: rows(replay, args["cwd"]),
    "list_all": lambda replay, _args, _on: rows(replay, None),
    "list_threaded": list_threaded,
    "most_recent": most_recent,
    "find_by_id": find_by_id,
    "resolve": resolve,
    "continue_recent": continue_recent,
    "probe": probe,
    "search_library": search_library,
    "search": search,
    "missing_cwd": missing_cwd,
    "open_cwd": open_cwd,
    "open_with_cwd_override": open_with_cwd_override,
    "session_folder_name": session_folder_name,
    "cli": cli,
}
