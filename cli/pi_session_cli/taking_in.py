"""Takes found sources into the store, one session after the other, and reports on each.

A source that was imported whole and has not changed since is not opened again. Each session is one transaction: an
interruption leaves every session wholly in or wholly out, and the next import goes on from there.
"""

from __future__ import annotations

import os
import sqlite3
from itertools import chain

from pi_session_cli.render.import_progress import Quiet
from pi_session_cli.render.imported import refusal, report_of, unchanged_report, waiting_report
from pi_sessions.errors import PiSessionError, SourceError, StoreError
from pi_sessions.formats.registry import find_sources, format_named, is_packed, source_size, stumbled
from pi_sessions.origins import KnownSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render.imported import FileReport
    from pi_sessions.formats.registry import Format, Found
    from pi_sessions.store import SessionStore


class Intake:
    """One import.

    Args:
        store: Open for writing; None only finds.
        place: Directory whose current session a single imported session becomes, None for none.
        restore: Bring removed sessions back, and read sources that did not change, too.

    Attributes:
        progress: Hears how far it has come.
        interrupted: Ctrl-C ended it before the last source.
    """

    def __init__(self, store: SessionStore | None, *, place: str | None = None, restore: bool = False) -> None:
        self.store = store
        self.place = place
        self.restore = restore
        self.progress = Quiet()
        self.interrupted = False

    def known(self, path: str) -> Format | None:
        """Return the format of a source that has not changed since it was imported whole."""
        if self.restore or self.store is None:
            return None
        told = self.store.known_source(path)
        format = format_named(told.format) if told is not None else None
        if told is None or format is None:
            return None
        try:
            same = told.importer == format.importer and told.stamp == format.stamp(path)
        except SourceError:
            return None
        return format if same else None

    def find(self, paths: Iterable[str]) -> tuple[list[Found], list[FileReport]]:
        """Return the sources below some paths, and a report on each file that is none."""
        sources: list[Found] = []
        refused: list[FileReport] = []
        for found in find_sources(paths, known=self.known):
            if found.format is None:
                refused.append(refusal(found.path, found.reason or "it holds no session"))
            else:
                sources.append(found)
        return sources, refused

    def take(self, sources: Iterable[Found]) -> Iterator[FileReport]:
        """Import sources one by one and report on every session.

        A copy that begins in the middle comes last, so that the session it was made from may come first.

        Raises:
            StoreError: the store cannot be used; what was imported before stays.
        """
        store = self.store
        assert store is not None
        sources = list(sources)
        waiting: list[Found] = []
        with store.checkpoints_apart():
            for number, source in enumerate(chain(sources, waiting), 1):
                if number > len(sources):
                    # Their bytes were counted before.
                    self.progress = Quiet()
                try:
                    yield from self._take_one(source, waiting if number < len(sources) else None)
                except KeyboardInterrupt:
                    self.interrupted = True
                    return
                self.progress.ends()

    def _take_one(self, source: Found, waiting: list[Found] | None) -> Iterator[FileReport]:
        """Import a source, or put it among those that wait (None: it must not)."""
        path, format = source.path, source.format
        store = self.store
        assert store is not None
        assert format is not None
        if self.known(path) is not None:
            told = store.earlier_imports(path)
            if told:
                yield from (unchanged_report(path, format.name, earlier) for earlier in told)
                return
        progress = self.progress
        try:
            stamp = format.stamp(path)
            told_whole = True
            # What is packed is unpacked once to see whether it is sound.
            passes = 2 if is_packed(path) else 1
            progress.begins(path, passes=passes)
            for parsed in format.read(path):
                if waiting is not None and store.waits_for_another(parsed):
                    waiting.append(source)
                    return
                if not parsed.has_begun():
                    # It is not stored, and what was lost of it would be told only once.
                    told_whole = told_whole and not (parsed.repairs or parsed.losses)
                    yield waiting_report(parsed)
                    continue
                place = self.place if parsed.child_of is None else None
                progress.storing(parsed.size)
                result = store.import_session(parsed, place=place, restore=self.restore)
                progress.reading()
                yield report_of(parsed, result)
            if told_whole:
                store.remember_source(path, KnownSource(format.name, format.importer, stamp))
        except StoreError:
            raise
        except PiSessionError as error:
            yield refusal(path, error.message, error.hint)
        except (MemoryError, sqlite3.OperationalError):
            # No fault of this file; the next one would meet it, too.
            raise
        except Exception as error:  # noqa: BLE001
            # Everything is caught, which is right only here and at detection: whatever a foreign file makes a reader
            # stumble over, the other files must still come in. The session's transaction was rolled back.
            yield refusal(path, stumbled(path, error))


def progress_for(ctx: Invocation, sources: list[Found]) -> Quiet:
    """Return what shows on a terminal how far a large import has come; nothing on pipes and with `--json`."""
    from pi_session_cli.render.import_progress import progress_of

    if ctx.as_json or not ctx.stderr.isatty():
        return Quiet()
    return progress_of(ctx.stderr, [size_of(source) for source in sources])


def size_of(source: Found) -> int:
    """Return a source's size in bytes, 0 when it is a folder or gone."""
    return source_size(source.path)


def default_places(ctx: Invocation) -> list[str]:
    """Return the places where the tools keep sessions, existing or not."""
    from pi_sessions.formats.registry import FORMATS

    home = ctx.environ.get("HOME") or os.path.expanduser("~")
    found = [place for format in FORMATS for place in format.places(home, ctx.environ)]
    return list(dict.fromkeys(found))


def watched_lines(
    ctx: Invocation, store: SessionStore, roots: list[str], *, wait: Callable[[], None], rounds: int | None = None
) -> Iterator[str]:
    """Yield a line for each session that got something new, for as long as it is watched.

    Args:
        roots: Files and folders to watch.
        wait: Sleeps until the next look.
        rounds: Looks to take; None for ever.
    """
    import json

    from pi_session_cli.render.imported import file_json, watch_line
    from pi_sessions.formats.watching import Watcher
    from pi_sessions.search_index import catch_up_if_free

    watcher = Watcher(roots)
    intake = Intake(store)
    first = True
    while rounds is None or rounds > 0:
        changed = watcher.changed()
        sources, _refused = intake.find(changed)
        for report in intake.take(sources):
            if report.status in ("new", "grown") or (report.status == "refused" and not first):
                yield json.dumps(file_json(report)) + "\n" if ctx.as_json else watch_line(report) + "\n"
        # A watch leaves nothing behind for the next search to do; with nothing new this costs one look.
        if intake.interrupted or not catch_up_if_free(store.connection):
            return
        first = False
        rounds = None if rounds is None else rounds - 1
        wait()
