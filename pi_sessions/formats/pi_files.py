"""Finds Pi session files: one file, a folder, or Pi's own layout below its data folder.

Looks at the beginnings of files only, opens them for reading, enters each folder once. Every `.jsonl` file met is
named, also those that are no sessions, with the reason.

Source: Pi 1.6.0, "File" (`<agent dir>/sessions/--<cwd>--/<timestamp>_<session id>.jsonl`).
"""

from __future__ import annotations

import os
from itertools import islice

from pi_sessions.errors import SourceError
from pi_sessions.formats.folders import walk
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.pi_records import PiRecords, not_a_session
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".jsonl"
_GLANCE_LINES = 50


class PiFile(Record):
    """A file met while looking for sessions.

    Attributes:
        path: Where it is.
        reason: Why it is no Pi session; None when it is one.
    """

    path: str
    reason: str | None = None


def find_pi_files(path: str) -> tuple[PiFile, ...]:
    """Find the Pi session files a path stands for.

    Args:
        path: A file; Pi's data folder (`.pi`), its `agent` folder or session folder; or any folder, which is searched
            with all folders below it.

    Returns:
        The files, sorted by path. A file named directly is always among them.

    Raises:
        SourceError: nothing has that path.
    """
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            raise SourceError(f"{path} does not exist")
        return (PiFile(path, reason_against(path)),)
    return tuple(sorted(_walk(session_folder(path)), key=lambda file: file.path))


def session_folder(path: str) -> str:
    """Return the folder with Pi's sessions below its data folder, else the folder itself."""
    below_data = os.path.join(path, "agent", "sessions")
    if os.path.isdir(below_data):
        return below_data
    below_agent = os.path.join(path, "sessions")
    if os.path.isdir(below_agent):
        named = os.path.basename(os.path.abspath(path)) == "agent"
        if named or any(name.startswith("--") and name.endswith("--") for name in os.listdir(below_agent)):
            return below_agent
    return path


def _walk(folder: str) -> Iterator[PiFile]:
    refused: list[PiFile] = []

    def refuse(error: OSError) -> None:
        refused.append(PiFile(str(error.filename), f"{error.filename} cannot be read: {error.strerror}"))

    for place, folders, files in walk(folder, refuse):
        for name in folders:
            if name.endswith(SUFFIX):
                where = os.path.join(place, name)
                yield PiFile(where, f"{where} is a directory")
        for name in files:
            if name.endswith(SUFFIX):
                where = os.path.join(place, name)
                yield PiFile(where, reason_against(where))
    yield from refused


def reason_against(path: str) -> str | None:
    """Return why a file is no Pi session, None when it is one.

    Judged as the reader does, from the first lines where they decide.
    """
    for limit in (_GLANCE_LINES, None):
        records = PiRecords(path)
        try:
            with open_source(path) as file:
                records.read(islice(file, limit))
        except SourceError as error:
            return error.message
        if records.header is not None or records.has_pi_entries():
            return None
        if records.lines == 0:
            return f"{path} is empty"
        if limit is None or records.lines < limit:
            break
    return not_a_session(path).message
