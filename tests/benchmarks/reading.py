"""Reading against one plain range SELECT of the same rows: contexts, whole paths, lists, common ancestors."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from pi_sessions.store import SessionStore
from tests.benchmarks.data import filled, messages
from tests.benchmarks.measure import Piece, medians, repeat, show, show_ratio, show_time

ACTIVE = 500
ROWS = "select key, id, kind, ts, payload, extra, blobs from entries where key between ? and ? order by key"


def main() -> None:
    with TemporaryDirectory() as folder:
        show(f"context of {ACTIVE} active entries after a compaction")
        _context(folder)
        show("whole path")
        _path(folder)
        show("list of 10,000 sessions")
        _list(folder)
        show("common ancestor of two paths of 1,000 segments")
        _ancestor(folder)


def _compacted(folder: str, length: int) -> tuple[SessionStore, str]:
    store, session_id = filled(folder, f"compacted-{length}", length)
    kept = store.path(session_id)[-200].id
    compaction = {"type": "compaction", "summary": "What happened.", "firstKeptEntryId": kept, "tokensBefore": 1000}
    tail = [{"type": "message", "message": message} for message in messages(ACTIVE - 201)]
    store.append_many(session_id, [compaction, *tail])
    return store, session_id


def _context(folder: str) -> None:
    short, short_id = _compacted(folder, 1000)
    long, long_id = _compacted(folder, 100_000)
    leaf = long.connection.execute("select leaf from branches").fetchone()[0]
    variants = {
        "limit": repeat(lambda: long.connection.execute(ROWS, (leaf - ACTIVE + 1, leaf)).fetchall(), 5),
        "rows short": repeat(lambda: short.active(short_id), 5),
        "rows": repeat(lambda: long.active(long_id), 5),
        "short": repeat(lambda: short.context(short_id), 5),
        "long": repeat(lambda: long.context(long_id), 5),
    }
    found = medians(variants, rounds=15, per_round=5)
    assert len(long.active(long_id)) == ACTIVE
    show_time("range SELECT of the active rows", found["limit"])
    show_ratio("active entries, history of 1,000", found["rows short"], found["limit"], "1.5 x")
    show_ratio("active entries, history of 100,000", found["rows"], found["limit"], "1.5 x")
    show_time("context, decoded, history of 1,000", found["short"])
    show_ratio("context, decoded, history of 100,000, against 1,000", found["long"], found["short"], "1.2 x")
    short.close()
    long.close()


def _path(folder: str) -> None:
    for length in (10_000, 100_000):
        store, session_id = filled(folder, f"whole-{length}", length)
        found = medians(_whole(store, session_id), rounds=9)
        show_time(f"range SELECT, {length:,} entries", found["limit"])
        show_ratio(f"path, {length:,} entries", found["path"], found["limit"], "1.3 x")
        store.close()


def _whole(store: SessionStore, session_id: str) -> dict[str, Piece]:
    [whole] = store.forest.ranges(store.forest.find(store._sid(session_id), str(store.leaf(session_id))))
    return {
        "limit": lambda: store.connection.execute(ROWS, whole).fetchall(),
        "path": lambda: store.path(session_id),
    }


def _list(folder: str) -> None:
    store = SessionStore.open(os.path.join(folder, "many.db"))
    conversation = [{"type": "message", "message": message} for message in messages(4)]
    with store.transaction():
        for number in range(10_000):
            session_id = store.create_session(cwd=f"/proj/{number % 50}").id
            store.append_many(session_id, conversation)
    store.connection.execute("analyze")
    query = "select * from sessions order by last desc limit 20"
    variants = {
        "limit": repeat(lambda: store.connection.execute(query).fetchall(), 10),
        "page": repeat(lambda: store.sessions(), 10),
        "late": repeat(lambda: store.sessions(offset=9000), 10),
        "here": repeat(lambda: store.sessions(cwd="/proj/7"), 10),
    }
    found = medians(variants, rounds=15, per_round=10)
    show_time("the 20 newest rows of the table", found["limit"])
    show_ratio("page of 20", found["page"], found["limit"], "1 ms")
    show_ratio("page of 20 of one directory", found["here"], found["limit"], "1 ms")
    show_ratio("page of 20 behind 9,000 others", found["late"], found["limit"], "-")
    store.close()


def _ancestor(folder: str) -> None:
    store, session_id = filled(folder, "segments", 4)
    tips = []
    for _ in range(2):
        store.rewind(session_id, store.path(session_id)[1].id)
        for _ in range(500):
            # Going on under an entry that has a child begins a segment.
            first = store.append_message(session_id, {"role": "user", "content": "left behind"})
            store.rewind(session_id, first.parent_id)
            store.append_message(session_id, {"role": "user", "content": "went on"})
        tips.append(store.forest.find(store._sid(session_id), str(store.leaf(session_id))))
    assert len(store.forest.ranges(tips[0])) > 450
    found = medians({"ancestor": lambda: store.forest.common_ancestor(*tips)}, rounds=15)
    walk = medians({"path": lambda: (store.forest.ranges(tips[0]), store.forest.ranges(tips[1]))}, rounds=15)
    show_time("both paths as ranges", walk["path"])
    show_ratio("common ancestor", found["ancestor"], walk["path"], "1 ms")
    store.close()
