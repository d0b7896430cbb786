"""Search over 100,000 messages: the index, the scan, the catch-up, and what appends cost while it is in use."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from pi_sessions.entry_text import entry_text
from pi_sessions.search import Filters, search
from pi_sessions.search_index import catch_up
from pi_sessions.store import SessionStore
from tests.benchmarks.data import Message, filled, messages
from tests.benchmarks.measure import Piece, medians, repeat, show, show_figure, show_ratio, show_time

ENTRIES = 100_000
RARE = (
    "one zebrafish 数据库锁定",
    "snake_case_name and camelCaseName in src/app/main.py",
    "C++ and don't",
)
ALLOWED_MS = {"index": 2, "scan": 200}


def main() -> None:
    with TemporaryDirectory() as folder:
        show(f"search in {ENTRIES:,} messages")
        store, session_id = filled(folder, "search", ENTRIES)
        store.append_many(session_id, [_user(text) for text in RARE])
        _index(store)
        _find(store)
        store.close()
        show("appends with and without search in use")
        _appends(folder)


def _user(text: str) -> Message:
    return {"type": "message", "message": {"role": "user", "content": text}}


def _index(store: SessionStore) -> None:
    execute = store.connection.execute
    execute("pragma wal_checkpoint(truncate)").fetchall()
    before = os.path.getsize(store.file)
    found = medians({"catch up": lambda: catch_up(store.connection)}, rounds=1)
    assert found["catch up"] < 1
    execute("pragma wal_checkpoint(truncate)").fetchall()
    grown = os.path.getsize(store.file) - before
    text = sum(len(entry_text(*row).text.encode()) for row in execute("select kind, payload from entries"))
    show_figure("index, part of the size of the text", f"{grown / text:.2f}", "0.5")
    assert grown <= text / 2


def _find(store: SessionStore) -> None:
    queries = {
        "a rare word": "zebrafish",
        "its beginning": "zebraf",
        "an identifier": "snake_case_name",
        "a path": "src/app/main.py",
        "three CJK characters": "数据库",
        "one CJK character": "锁",
        "a word with signs": "C++",
    }
    for name, query in queries.items():
        _show(store, name, query, "index")
    parts = {
        "a part of a word": "brafis",
        "a part of an identifier": "e_case_na",
        "a word that is nowhere": "cormorant",
        "a name of JSON fields": "cacheRead",
        "signs": "#$%",
    }
    for name, query in parts.items():
        _show(store, name, query, "scan")
    found = medians({"common": lambda: search(store, "lease")}, rounds=5)
    show_time("newest 20 hits of a word in most messages", found["common"])
    with SessionStore.open(store.file, read_only=True) as reader:
        found = medians({"scan": lambda: search(reader, "据库", mode="substring")}, rounds=5)
    show_figure("two CJK characters by the scan", f"{found['scan'] * 1e3:.2f} ms", f"{ALLOWED_MS['scan']} ms")


def _show(store: SessionStore, name: str, query: str, by: str) -> None:
    found = medians({"search": repeat(lambda: search(store, query, filters=Filters()), 3)}, rounds=7, per_round=3)
    show_figure(name, f"{found['search'] * 1e3:.2f} ms", f"{ALLOWED_MS[by]} ms")


def _appends(folder: str) -> None:
    """Append in turns to a store that was never searched and to one that is searched after every tenth append."""
    plain, plain_id = filled(folder, "plain", 2000)
    used, used_id = filled(folder, "used", 2000)
    told = [{"type": "message", "message": message} for message in messages(10)]

    def append(store: SessionStore, session_id: str) -> Piece:
        def ten() -> None:
            for entry in told:
                store.append(session_id, entry)

        return ten

    appended = append(used, used_id)
    times: dict[str, float] = {}
    variants: dict[str, Piece] = {"without": append(plain, plain_id), "with": appended}
    catch_up(used.connection)
    times = medians({**variants, "search": lambda: search(used, "zebrafish")}, rounds=150, per_round=10)
    show_time("append without search", times["without"])
    show_ratio("append with search after every ten", times["with"], times["without"], "1.1 x")
    show_time("that search, ten new entries indexed", times["search"] * 10)
    plain.close()
    used.close()
