"""Reads session files in a second process, ahead of the one that stores them, so that a large import uses two cores.

The other process reads, parses and hands values over; it knows no store. Whatever goes wrong with it or in it (a file
that cannot be read, too), the source is read here instead, so that results and errors are those of a plain read.
Memory stays bounded: sessions wait up to a few megabytes, then the other process waits, and large files are read here.
"""

from __future__ import annotations

import marshal
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
    import subprocess
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.formats.registry import Format

    Part = tuple[int, Any]

# Smaller imports are done before a second process would be of much use.
LEAST_BYTES = 24 << 20
# The texts of larger files would have to wait in both processes.
MOST_BYTES = 32 << 20
# The other process takes 250 ms to begin, and reading takes longer than storing.
START_BYTES = 10 << 20
OWN_SHARE = 0.14
_CHARS_AT_ONCE = 3 << 20
# Messages lie in so many files, which are used in turns.
_FILES = 6
_LENGTH = 8
_COMMAND = "import sys; from pi_sessions.formats.ahead import serve; serve(*map(int, sys.argv[1:]))"
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
        is_worth_it = sum(fit.values()) >= least and len(fit) > 1 and _has_two_cores()
        self._jobs = _others(fit) if is_worth_it else []
        self._place = {job: place for place, job in enumerate(self._jobs)}
        self._at = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._files: list[IO[bytes]] = []
        self._received = 0
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
        import subprocess
        import tempfile

        try:
            self._files = [tempfile.TemporaryFile(buffering=0) for _ in range(_FILES)]  # noqa: SIM115 (`_end` closes)
            places = [file.fileno() for file in self._files]
            # -P: what lies in the current directory is not imported.
            command = (sys.executable, "-P", "-c", _COMMAND, *map(str, places))
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=pipe, stdout=pipe, stderr=nowhere, pass_fds=places
            )
            jobs = pickle.dumps(self._jobs)
            self._answer(len(jobs).to_bytes(_LENGTH, "little") + jobs)
        except OSError:
            self._end()

    def _answer(self, data: bytes) -> None:
        """Write to the other process; where it is gone, that is seen when it is listened to."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            write_all(self._process.stdin.fileno(), data)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
        for file in self._files:
            file.close()
        self._files = []

    def _receive(self) -> bytes | None:
        """Return the next message, None when there will be none."""
        if self._process is None:
            return None
        assert self._process.stdout is not None
        size = int.from_bytes(read_all(self._process.stdout.fileno(), _LENGTH), "little")
        message = os.pread(self._files[self._received % _FILES].fileno(), size, 0)
        if not size or len(message) < size:
            return None
        self._received += 1
        self._answer(b".")
        return message

    # --- messages -------------------------------------------------------------------------------------------------

    def _next(self) -> Part | None:
        """Return what comes next; None when there will be nothing."""
        import pickle

        while (part := next(self._parts, None)) is None:
            message = self._receive()
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
                entries += [StoredEntry(*fields) for fields in marshal.loads(told)]
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


def _others(sizes: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return what the other process reads: not what comes until it has begun, and then all but a share."""
    others: list[tuple[str, str]] = []
    start = min(START_BYTES, sum(sizes.values()) // 3)
    total = own = 0
    for job, size in sizes.items():
        total += size
        if own < max(start, total * OWN_SHARE):
            own += size
        else:
            others.append(job)
    return others


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


def read_all(place: int, size: int) -> bytes:
    """Return so many bytes of a pipe, fewer at its end."""
    data = b""
    while len(data) < size and (more := os.read(place, size - len(data))):
        data += more
    return data


def write_all(place: int, data: bytes) -> None:
    """Write bytes to a pipe."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(place, rest) :]


# --- the second process -----------------------------------------------------------------------------------------------


def serve(*files: int) -> None:
    """Read the sources named on standard input and hand them over.

    Args:
        files: Descriptors of the files for messages. The length of a message on standard output says that it is there,
            a byte on standard input that its file is free again.
    """
    import pickle
    import signal

    # Ctrl-C reaches both; the first process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = _Out(os.dup(1), files)
    os.dup2(2, 1)
    jobs = read_all(0, int.from_bytes(read_all(0, _LENGTH), "little"))
    for path, name in pickle.loads(jobs):
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
        to: Pipe for lengths.
        files: For messages, in turns.
    """

    def __init__(self, to: int, files: tuple[int, ...]) -> None:
        self.to = to
        self.files = files
        self._parts: list[Part] = []
        self._chars = 0
        self._sent = 0
        self._free = len(files)

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
                self.add(_ENTRIES, marshal.dumps(rows))
                rows = []
                self.send()
        self.add(_ENTRIES, marshal.dumps(rows))
        self.add(_SESSION, session.replace(entries=()))

    def send(self) -> None:
        """Send the message, when a file is free."""
        import pickle

        message = pickle.dumps(self._parts, pickle.HIGHEST_PROTOCOL)
        self._parts, self._chars = [], 0
        if not self._free:
            self.wait()
        place = self.files[self._sent % len(self.files)]
        os.lseek(place, 0, os.SEEK_SET)
        write_all(place, message)
        write_all(self.to, len(message).to_bytes(_LENGTH, "little"))
        self._sent += 1
        self._free -= 1

    def wait(self) -> None:
        """Wait until a file is free."""
        free = len(os.read(0, len(self.files)))
        if not free:
            raise SystemExit
        self._free += free
