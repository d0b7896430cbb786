"""The formats there are, which one a file has, and where the tools keep their sessions.

A format is a module of this package with five names; it is loaded only when a file may be its own:

    def places(home, environ): ...     folders and files where its tool keeps sessions, existing or not
    def roots(path): ...               what to search when a person names the tool's data folder; () when it is none
    def detect(path, head): ...        "session", "companion" (the tool's own, but no conversation) or None
    def read(path): ...                iterator of ParsedSession; raises SourceError
    IMPORTER = "1"                     goes up when the reader changes what it makes of a source

To add one: write the module (`building.SessionBuilder` and `json_lines.JsonLines` do what all formats share), and add a
row to `FORMATS`. Readers open files by `pi_reader.open_source`, which unpacks what is packed. A format whose source is
a folder sets `folders`; `detect` then sees folders too, with an empty head. A source of several files or a database
defines `stamp(path)` as well, which must change whenever the source does.
"""

from __future__ import annotations

import os
import re
import sys

from pi_sessions.connection import APPLICATION_ID
from pi_sessions.errors import SourceError
from pi_sessions.formats.compressed import ending_for, inner_name, is_tar, look_through
from pi_sessions.formats.folders import walk
from pi_sessions.formats.parsed import Repair
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from types import ModuleType

    from pi_sessions.formats.parsed import ParsedSession

HEAD_BYTES = 1 << 17
DATABASE = b"SQLite format 3\0"
APPLICATION_ID_BYTES = slice(68, 72)
DATABASE_ENDINGS = frozenset((".db", ".sqlite", ".sqlite3"))
SESSION, COMPANION = "session", "companion"
ARCHIVE = ".zip"
_MADE_BY_MACOS = "__MACOSX/"
# What the data folders of tools hold beside sessions, as `Format.roots` leaves it out of folders.
_BESIDE_SESSIONS = re.compile(
    r"(^|/)(\.claude/(?!projects/)|\.codex/(?!sessions/|archived_sessions/)|\.gemini/(?!tmp/)|\.pi/(?!agent/sessions/))"
)
_ACCOUNT_EXPORT = re.compile(r"(^|/)conversations(-\d+)?\.json$")
_TOOLS_DATABASE = re.compile(r"(^|/)(opencode[^/]*|sessions|logs)\.db$")


class Format(Record):
    """A format of session files.

    Attributes:
        name: What `--format` and reports call it.
        title: The tool's name, for people.
        module: Where its functions are, below `pi_sessions.formats`.
        endings: Ends of the names of files worth a look when a folder is searched; "" looks at every file.
        folders: Whether a folder can be one source.
    """

    name: str
    title: str
    module: str
    endings: tuple[str, ...] = (".jsonl",)
    folders: bool = False

    @property
    def code(self) -> ModuleType:
        """Its module, loaded now."""
        path = f"pi_sessions.formats.{self.module}"
        __import__(path)
        return sys.modules[path]

    @property
    def importer(self) -> str:
        """Version of its reader."""
        version: str = self.code.IMPORTER
        return version

    def places(self, home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the folders and files where its tool keeps sessions, existing or not."""
        found: tuple[str, ...] = self.code.places(home, environ)
        return found

    def roots(self, path: str) -> tuple[str, ...]:
        """Return what to search when a person names the tool's data folder; () when `path` is none."""
        found: tuple[str, ...] = self.code.roots(path)
        return found

    def detect(self, path: str, head: bytes) -> str | None:
        """Tell by content whether a file (or folder) is this format's.

        Args:
            head: First bytes of the file, `HEAD_BYTES` at most; empty for a folder.

        Returns:
            `session`; `companion` for a file of the tool without a conversation; None for anything else.
        """
        found: str | None = self.code.detect(path, head)
        return found

    def read(self, path: str) -> Iterator[ParsedSession]:
        """Read the sessions of a source, one by one.

        Raises:
            SourceError: it cannot be read, or is none of this format after all.
        """
        try:
            cut = _what_is_cut(path)
            yield from _with_cut(self.code.read(path), cut) if cut is not None else self.code.read(path)
        except RecursionError as error:
            # What could just be decoded may be too deep to be written again, one level further in.
            raise SourceError(f"{path} holds values that are nested too deeply") from error

    def stamp(self, path: str) -> str:
        """Return a text that changes whenever the source does: size and time of the file and of its WAL.

        Raises:
            SourceError: the source is gone.
        """
        own = getattr(self.code, "stamp", None)
        return own(path) if own is not None and os.path.exists(path) else file_stamp(path)


FORMATS = (
    # First: it is known by how the file begins, and may hold the words others are known by.
    Format("pi-session", "pi-session JSON", "json_export_in", (".json",)),
    Format("claude-code", "Claude Code", "claude_code"),
    Format("codex", "Codex", "codex"),
    Format("opencode", "opencode", "opencode", (".db", ".json"), folders=True),
    Format("gemini-cli", "Gemini CLI", "gemini", (".jsonl", ".json")),
    Format("goose", "goose", "goose", (".db", ".jsonl")),
    Format("llm", "llm", "llm_logs", (".db",)),
    Format("chatgpt", "ChatGPT", "chatgpt", (".json",)),
    Format("claude-ai", "Claude.ai", "claude_ai", (".json",)),
    Format("messages", "Message list", "message_lists", (".json", ".jsonl", ".db", ".sqlite", ".sqlite3")),
    Format("markdown", "pi-session Markdown", "markdown_in", (".md", ".markdown")),
    # Last: it says why a file is nobody's.
    Format("pi", "Pi", "pi_format"),
)


class Found(Record):
    """A file or folder met while looking for sessions.

    Attributes:
        format: Whose sessions it holds; None when it is nobody's.
        reason: Why it is nobody's.
        broken: It may well be somebody's, and is told of wherever it lies: a damaged database, one with the name of a
            tool's own that cannot be read, or a damaged archive.
    """

    path: str
    format: Format | None
    reason: str | None = None
    broken: bool = False


def format_named(name: str) -> Format | None:
    """Return a format by name."""
    return next((each for each in FORMATS if each.name == name), None)


def file_stamp(path: str) -> str:
    """Return size and time of a file (of the archive it lies in) and, for a database, of its WAL.

    Raises:
        SourceError: the file is gone.
    """
    try:
        status = os.stat(path)
    except NotADirectoryError as error:
        inside = archives().split(path)
        if inside is None:
            raise SourceError(f"{path} does not exist") from error
        return file_stamp(inside[0])
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} does not exist") from error
    stamp = f"{status.st_size}:{status.st_mtime_ns}"
    try:
        wal = os.stat(f"{path}-wal")
    except OSError:
        return stamp
    return f"{stamp}:{wal.st_size}:{wal.st_mtime_ns}"


def source_size(path: str) -> int:
    """Return the bytes a source takes on the disk, 0 for a folder and for one that is gone."""
    try:
        return 0 if os.path.isdir(path) else os.path.getsize(path)
    except NotADirectoryError:
        return _size_in_archive(path)
    except OSError:
        return 0


def _size_in_archive(path: str) -> int:
    place = archives().split(path)
    try:
        member = archives().members(place[0]).get(place[1]) if place is not None else None
    except SourceError:
        return 0
    return member.packed if member is not None else 0


def identify(path: str) -> Found:
    """Tell whose sessions a file holds, by its content.

    Returns:
        The format or the reason why there is none. A companion file has neither.
    """
    try:
        with open_source(path) as file:
            head = file.read(HEAD_BYTES)
    except SourceError as error:
        return _unreadable(path, error)
    except OSError as error:
        return _unreadable(path, SourceError(f"{path} cannot be read: {error.strerror or error}"))
    if not head:
        cut = inner_name(path) != path and source_size(path) > 0
        return Found(path, None, f"{path} is cut off so early that nothing is in it" if cut else f"{path} is empty")
    if head.startswith(DATABASE) and is_packed(path):
        return Found(path, None, f"{path} is a database, which can only be read where it is unpacked")
    if is_tar(head):
        return Found(path, None, f"{path} is a tar archive (unpack it and import the folder)")
    if head.startswith(b"PK") and archives().is_archive(head):
        return Found(path, None, f"{path} is a zip archive, which is looked into only when it is named itself")
    for each in FORMATS:
        # A database holds texts of all kinds, and is read by those who know its tables or not at all.
        if head.startswith(DATABASE) and DATABASE_ENDINGS.isdisjoint(each.endings):
            continue
        try:
            kind = each.detect(path, head)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001
            # As in the import itself: one odd file must not keep the others of a folder out.
            return Found(path, None, stumbled(path, error))
        if kind is not None:
            return Found(path, each if kind == SESSION else None)
    if head.startswith(DATABASE):
        return _nobodys_database(path, head)
    if (ending := ending_for(head)) is not None:
        return Found(path, None, f"{path} is compressed (give it the ending {ending}, or unpack it)")
    if inner_name(path).endswith(".json"):
        return Found(path, None, f"{path} is no session file of a known kind: there is no conversation in it")
    from pi_sessions.formats.pi_files import reason_against

    reason = reason_against(path) or f"{path} holds no session"
    return Found(path, None, reason.replace("is not a Pi session", "is no session file of a known kind"))


def stumbled(path: str, error: Exception) -> str:
    """Return the reason for refusing a file that a reader failed on in a way nobody foresaw."""
    return f"{path}: internal error reading it ({type(error).__name__}: {error})"


def _nobodys_database(path: str, head: bytes) -> Found:
    """Return why a database is nobody's source."""
    from pi_sessions.formats.foreign_database import DamagedDatabaseError, why_unreadable

    if int.from_bytes(head[APPLICATION_ID_BYTES], "big") == APPLICATION_ID:
        return Found(path, None, f"{path} is a store of pi-session itself (open it with --db)")
    error = why_unreadable(path)
    if error is None:
        return Found(path, None, f"{path} is an SQLite database of a program that is not known here")
    return _unreadable(path, error, broken=isinstance(error, DamagedDatabaseError))


def _unreadable(path: str, error: SourceError, *, broken: bool = False) -> Found:
    """Return the refusal of a file that cannot be read; one with the name of a tool's database counts as broken."""
    broken = broken or _TOOLS_DATABASE.search(path) is not None
    return Found(path, None, f"{error.message} ({error.hint})" if error.hint else error.message, broken=broken)


def find_sources(paths: Iterable[str], *, known: Callable[[str], Format | None] = lambda path: None) -> Iterator[Found]:
    """Find the sources below some paths, each once: files as named, folders searched, data folders of tools narrowed.

    Args:
        paths: Files and folders.
        known: Returns the format of a source that is known not to have changed, so that it need not be opened.

    Yields:
        Sources, and each file that is none with the reason: those named directly, files below a folder whose name
        ends in `.jsonl`, and what is broken there. Companion files of a tool are left out.
    """
    met: set[str] = set()
    for path in paths:
        for found in _below(path, known):
            if found.path not in met:
                met.add(found.path)
                yield found


def is_packed(path: str) -> bool:
    """Whether a file is compressed or lies inside an archive."""
    return inner_name(path) != path or not os.path.exists(path)


def archives() -> ModuleType:
    """Return the module that reads archives, loaded now."""
    from pi_sessions.formats import archives

    return archives


def _what_is_cut(path: str) -> str | None:
    """Return what is missing of a source that was cut off, None when it is whole.

    What is packed is unpacked once to see that it is sound, so that nothing of a damaged one is stored.
    """
    if is_packed(path):
        with open_source(path) as file:
            is_cut = look_through(file)
        return "the compressed file is cut off; what came after is not in it" if is_cut else None
    if os.path.splitext(path)[1] not in DATABASE_ENDINGS:
        return None
    from pi_sessions.formats.foreign_database import missing_end

    return missing_end(path)


def _with_cut(sessions: Iterator[ParsedSession], cut: str) -> Iterator[ParsedSession]:
    """Yield the sessions of a source that was cut off; the last one says so."""
    last: ParsedSession | None = None
    for session in sessions:
        if last is not None:
            yield last
        last = session
    if last is not None:
        loss = Repair(None, "cut_off", cut)
        yield last.replace(losses=(*last.losses, loss))


def _below(path: str, known: Callable[[str], Format | None]) -> Iterator[Found]:
    if not os.path.isdir(path):
        yield from _named(path, known)
        return
    roots = tuple(root for each in FORMATS for root in each.roots(path)) or (path,)
    for root in roots:
        if os.path.isdir(root):
            yield from _walk(root, known)
        elif os.path.exists(root):
            yield _known_or_identified(root, known)


def _named(path: str, known: Callable[[str], Format | None]) -> Iterator[Found]:
    """Yield the sources of a file that was named by itself."""
    if not os.path.lexists(path) and archives().split(path) is None:
        yield Found(path, None, f"{path} does not exist")
        return
    if _is_archive(path):
        yield from _in_archive(path, known, is_named=True)
        return
    found = _known_or_identified(path, known)
    if found.format is None and found.reason is None:
        found = found.replace(reason=f"{path} holds no conversation")
    yield found


def _walk(folder: str, known: Callable[[str], Format | None]) -> Iterator[Found]:
    refused: list[Found] = []

    def refuse(error: OSError) -> None:
        refused.append(Found(str(error.filename), None, f"{error.filename} cannot be read: {error.strerror}"))

    for place, folders, files in walk(folder, refuse):
        whole = next((each for each in FORMATS if each.folders and each.detect(place, b"") == SESSION), None)
        if whole is not None:
            yield Found(place, whole)
            folders.clear()
            continue
        there = set(files)
        for name in folders:
            if name.endswith(".jsonl"):
                yield Found(os.path.join(place, name), None, f"{os.path.join(place, name)} is a directory")
        for name in files:
            if name.endswith(ARCHIVE):
                yield from _in_archive(os.path.join(place, name), known, is_named=False)
            elif _is_worth_a_look(name, there):
                found = _known_or_identified(os.path.join(place, name), known)
                told = found.broken or (found.reason is not None and inner_name(name).endswith(".jsonl"))
                if found.format is not None or told:
                    yield found
    yield from refused


def _is_archive(path: str) -> bool:
    try:
        with open_source(path) as file:
            found: bool = archives().is_archive(file.read(20))
            return found
    except (SourceError, OSError):
        return False


def _is_worth_a_look(name: str, beside: Collection[str]) -> bool:
    """Whether a file's name is one that sessions have; of a file and its packed form, the file is read."""
    inner = inner_name(name)
    return (inner == name or inner not in beside) and any(inner.endswith(each.endings) for each in FORMATS)


def _in_archive(path: str, known: Callable[[str], Format | None], *, is_named: bool) -> Iterator[Found]:
    """Yield the sources in a zip archive.

    Args:
        is_named: A person named the archive, and hears of everything in it that cannot be read. Of one that merely lies
            in a folder, which may hold anything, only what looks like a person's conversations is spoken of.
    """
    try:
        members = archives().members(path)
    except SourceError as error:
        if is_named or _is_archive(path):
            yield _unreadable(path, error, broken=True)
        return
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        # As in `identify`.
        yield Found(path, None, stumbled(path, error))
        return
    met = False
    for name in sorted(members):
        inside = f"{path}/{name}"
        if not _is_worth_a_look(name, members) or name.startswith(_MADE_BY_MACOS) or _BESIDE_SESSIONS.search(name):
            continue
        found = _known_or_identified(inside, known)
        telling = inner_name(name).endswith(".jsonl") or _ACCOUNT_EXPORT.search(name) is not None
        is_database = members[name].size > 0 and name.endswith((".db", ".sqlite", ".sqlite3"))
        if found.format is not None or (found.reason is not None and (telling or (is_named and is_database))):
            met = True
            yield found
        if members[name].times > 1 and found.format is not None:
            yield Found(path, None, f"{path} has {members[name].times} files called {name}; only the last was read")
    if is_named and not met:
        hint = "if it is a tool's data folder, unpack it and import the folder"
        yield Found(path, None, f"{path} is a zip archive without conversations of a known kind ({hint})")


def _known_or_identified(path: str, known: Callable[[str], Format | None]) -> Found:
    format = known(path)
    return Found(path, format) if format is not None else identify(path)
