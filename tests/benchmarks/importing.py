"""Importing a session file against reading it with json.loads line by line, and what the store adds to its bytes."""

from __future__ import annotations

import json
import os
from itertools import count
from tempfile import TemporaryDirectory

from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.benchmarks.data import write_session_file
from tests.benchmarks.measure import medians, show, show_figure, show_ratio, show_time

ENTRIES = 20_000


def main() -> None:
    with TemporaryDirectory() as folder:
        source = os.path.join(folder, "session.jsonl")
        size = write_session_file(source, ENTRIES)
        show(f"import of {ENTRIES:,} entries, {size / 1e6:.1f} MB")
        _import(folder, source, size)
        show("bytes")
        _bytes(folder, source)


def _import(folder: str, source: str, size: int) -> None:
    parsed = read_pi_file(source)
    numbers = count()
    known = SessionStore.open(os.path.join(folder, "known.db"))
    known.import_session(parsed)

    def plain() -> None:
        with open(source, encoding="utf-8") as file:
            for line in file:
                json.loads(line)

    def import_new() -> None:
        with SessionStore.open(os.path.join(folder, f"new-{next(numbers)}.db")) as store:
            store.import_session(read_pi_file(source))

    found = medians(
        {
            "plain": plain,
            "read": lambda: read_pi_file(source),
            "import": import_new,
            "again": lambda: known.import_session(read_pi_file(source)),
        },
        rounds=5,
    )
    plain_s = found["plain"]
    show_time(f"json.loads line by line ({size / 1e6 / plain_s:.0f} MB/s)", plain_s)
    show_ratio("reading into entries", found["read"], plain_s, "-")
    show_ratio(f"import into a new store ({size / 1e6 / found['import']:.0f} MB/s)", found["import"], plain_s, "-")
    show_ratio("import of the same again", found["again"], plain_s, "-")
    known.close()


def _bytes(folder: str, source: str) -> None:
    path = os.path.join(folder, "size.db")
    with SessionStore.open(path) as store:
        store.connection.execute("pragma wal_autocheckpoint = 0")
        store.import_session(read_pi_file(source))
        store.connection.execute("pragma wal_checkpoint(truncate)")
        raw = store.connection.execute("select sum(length(cast(payload as blob))) from entries").fetchone()[0]
    stored = os.path.getsize(path)
    show_figure("database against raw message JSON", f"{stored / raw:.3f} x", "1.22 x")
    show_figure("session file against raw message JSON", f"{os.path.getsize(source) / raw:.3f} x", "-")
