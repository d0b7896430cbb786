"""Reads session files in a second process, ahead of the one that stores them, so that a large import uses two cores.

The other process reads, parses and hands values over; it knows no store. Whatever goes wrong with it or in it (a file
that cannot be read, too), the source is read here instead, so that results and errors are those of a plain read.
Memory stays bounded: sessions wait up to a few megabytes, then the other process waits, and large files are read here.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from itertools import islice

from pi_sessions.errors import PiSessionError
from pi_sessions.formats.registry import format_named
from pi_sessions.stored import StoredEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    import queue
    import subprocess
    import threading
    from collections.abc import Iterable, Iterator
    from socket import socket
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.formats.registry import Format

    Part = tuple[int, Any]

# Smaller imports are done before a second process would be of use (it takes 200 ms to begin).
LEAST_BYTES = 24 << 20
# The texts of larger files would have to wait in both processes.
MOST_BYTES = 32 << 20
# Few large messages: this process, busy storing, lets its thread receive some of them a second only.
_CHARS_AT_ONCE = 3 << 20
_MESSAGES_WAITING = 6
_LENGTH = 8
_MOMENT_S = 0.05
_COMMAND = "from pi_sessions.formats.ahead import serve; serve()"
# What messages hold. For each source: its stamp; for each session its entries, then the rest; whether it was whole.
_BEGIN, _ENTRIES, _SESSION, _END = range(4)


class ReadAhead:
    """`with ReadAhead(sources) as ahead:` ask for the sources in their order; some may be left out.

    Args:
        sources: (path, format) of what will be read.
        least: Bytes below which no second process is begun.
    """

    def __init__(self, sources: Iterable[tuple[str, Format]], *, least: int = LEAST_BYTES) -> None:
        sizes = {(path, format.name): _size(path) for path, format in sources}
        fit = {job: size for job, size in sizes.items() if 0 < size <= MOST_BYTES}
        self._jobs = list(fit) if sum(fit.values()) >= least and len(fit) > 1 and _has_two_cores() else []
        self._place = {job: place for place, job in enumerate(self._jobs)}
        self._at = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._waiting: queue.Queue[bytearray | None]
        self._parts: Iterator[Part] = iter(())

    def __enter__(self) -> ReadAhead:
        if self._jobs and sys.executable:
            self._begin()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end()

    def read(self, path: str, format: Format) -> tuple[str, Iterator[ParsedSession]]:
        """Read a source.

        Returns:
            What told its state before it was read (`Format.stamp`), and its sessions as `Format.read` gives them.

        Raises:
            SourceError: the source is gone.
        """
        stamp = self._find((path, format.name))
        if stamp is None:
            return format.stamp(path), format.read(path)
        return stamp, self._sessions(path, format)

    # --- the other process ----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        import pickle
        import queue
        import socket
        import subprocess
        import threading

        # -P: what lies in the current directory is not imported.
        command = (sys.executable, "-P", "-c", _COMMAND)
        # A socket gives a whole message in one call; a pipe gives it in pieces, each of which costs a turn.
        ours, theirs = socket.socketpair()
        try:
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=pipe, stdout=theirs.fileno(), stderr=nowhere)
        except OSError:
            ours.close()
            return
        finally:
            theirs.close()
        self._process = process
        self._waiting = queue.Queue(_MESSAGES_WAITING)
        self._thread = threading.Thread(target=self._receive, args=(ours,), daemon=True)
        self._thread.start()
        assert process.stdin is not None
        try:
            with process.stdin as jobs:
                pickle.dump(self._jobs, jobs)
        except OSError:
            self._end()

    def _receive(self, ours: socket) -> None:
        """Collect messages, so that the other process need not wait whenever this one stores; None ends them."""
        with ours:
            while size := int.from_bytes(_received(ours, _LENGTH), "little"):
                message = _received(ours, size)
                if len(message) < size:
                    break
                self._waiting.put(message)
        self._waiting.put(None)

    def _end(self) -> None:
        import queue

        process, self._process = self._process, None
        if process is None or self._thread is None:
            return
        process.kill()
        while self._thread.is_alive():
            # It may wait for room.
            with suppress(queue.Empty):
                self._waiting.get(timeout=_MOMENT_S)
        process.wait()

    # --- messages -------------------------------------------------------------------------------------------------

    def _next(self) -> Part | None:
        """Return what comes next; None when there will be nothing."""
        import pickle

        while (part := next(self._parts, None)) is None:
            message = self._waiting.get() if self._process is not None else None
            if message is None:
                self._end()
                return None
            self._parts = iter(pickle.loads(message))
        return part

    def _find(self, job: tuple[str, str]) -> str | None:
        """Go to a source and return its stamp; None when it must be read here."""
        place = self._place.get(job, -1)
        while self._at < place and (part := self._next()) is not None:
            if part[0] == _BEGIN:
                self._at += 1
                if self._at == place:
                    stamp: str | None = part[1]
                    return stamp
        return None

    def _sessions(self, path: str, format: Format) -> Iterator[ParsedSession]:
        given = 0
        entries: list[StoredEntry] = []
        while (part := self._next()) is not None:
            kind, told = part
            if kind == _ENTRIES:
                entries += [StoredEntry(*fields) for fields in told]
            elif kind == _SESSION:
                session: ParsedSession = told.replace(entries=tuple(entries))
                entries = []
                yield session
                given += 1
            elif told:
                return
            else:
                break
        # Nobody knows here what went wrong there; reading it here tells.
        yield from islice(format.read(path), given, None)


def _size(path: str) -> int:
    """Return the size of a file of plain lines, 0 for anything else."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0
    return status.st_size if path.endswith(".jsonl") and stat.S_ISREG(status.st_mode) else 0


def _has_two_cores() -> bool:
    usable = getattr(os, "sched_getaffinity", None)
    return (len(usable(0)) if usable is not None else os.cpu_count() or 1) > 1


def _received(ours: socket, size: int) -> bytearray:
    """Return so many bytes, fewer when the other end is closed."""
    import socket

    data = bytearray(size)
    at = 0
    with suppress(OSError):
        while at < size and (count := ours.recv_into(memoryview(data)[at:], size - at, socket.MSG_WAITALL)):
            at += count
    return data[:at] if at < size else data


# --- the second process -----------------------------------------------------------------------------------------------


def serve() -> None:
    """Read the sources named on standard input and hand them over on standard output."""
    import pickle
    import signal

    # Ctrl-C reaches both; the first process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = _Out(os.dup(1))
    os.dup2(2, 1)
    for path, name in pickle.load(sys.stdin.buffer):
        format = format_named(name)
        assert format is not None
        try:
            out.add(_BEGIN, format.stamp(path))
        except PiSessionError:
            out.add(_BEGIN, None)
            continue
        try:
            for session in format.read(path):
                out.add_session(session)
        except Exception:  # noqa: BLE001
            # Whatever it is, the first process meets it, too. Where that one is gone, the next line ends this one.
            out.add(_END, False)
        else:
            out.add(_END, True)
        out.send()


class _Out:
    """Sends parts, many in one message.

    Args:
        to: File descriptor.
    """

    def __init__(self, to: int) -> None:
        self.to = to
        self._parts: list[Part] = []
        self._chars = 0

    def add(self, kind: int, told: object) -> None:
        """Add a part to the message."""
        self._parts.append((kind, told))

    def add_session(self, session: ParsedSession) -> None:
        """Add a session; what has become large is sent."""
        rows: list[tuple[object, ...]] = []
        for each in session.entries:
            payload = each.payload
            rows.append((each.id, each.parent_id, each.type, each.time_ms, payload, each.extra, each.key, each.head))
            self._chars += len(payload)
            if self._chars > _CHARS_AT_ONCE:
                self.add(_ENTRIES, rows)
                rows = []
                self.send()
        self.add(_ENTRIES, rows)
        self.add(_SESSION, session.replace(entries=()))

    def send(self) -> None:
        """Send the message."""
        import pickle

        message = memoryview(pickle.dumps(self._parts, pickle.HIGHEST_PROTOCOL))
        self._parts, self._chars = [], 0
        for data in (memoryview(len(message).to_bytes(_LENGTH, "little")), message):
            while data:
                data = data[os.write(self.to, data) :]
