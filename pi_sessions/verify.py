"""Checks the invariants of a stored forest, reported one by one. Reads only; imported only when asked for."""

from __future__ import annotations

import json

from pi_sessions.errors import StoreDamagedError
from pi_sessions.forest import LAST_POSITION, POSITION_BITS, Forest, first_key, segment_of
from pi_sessions.results import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.base import StoreBase


def verify(store: StoreBase, sid: int | None = None) -> list[Problem]:
    """Return the broken invariants of a store.

    Args:
        store: An open store.
        sid: Check only what this session sees; None checks every session and the file itself.
    """
    execute = store.connection.execute
    problems: list[Problem] = []
    if sid is None:
        for (text,) in execute("pragma integrity_check").fetchall():
            if text != "ok":
                problems.append(Problem("damaged_file", text, None, None))
        problems += _segments(store)
        problems += _pointers(store)
    sids = [sid] if sid is not None else [row[0] for row in execute("select sid from sessions").fetchall()]
    for one in sids:
        problems += _session(store, one)
    return problems


def _segments(store: StoreBase) -> Iterator[Problem]:
    """Segments hang on older, existing entries, are filled from their first position, and know their depth."""
    forest = store.forest
    for segment, parent, depth in store.connection.execute("select segment, parent, depth from segments").fetchall():
        first, last, count = store.connection.execute(
            "select min(key), max(key), count(*) from entries where key between ? and ?",
            (first_key(segment), first_key(segment) + LAST_POSITION),
        ).fetchone()
        if not count or first != first_key(segment) or last - first + 1 != count:
            yield Problem("gap", f"segment {segment} has a gap", None, None)
        if parent is not None and (segment_of(parent) >= segment or not _exists(forest, parent)):
            yield Problem("parent", f"segment {segment} hangs on nothing", None, None)
        else:
            try:
                known = forest.depth(parent)
            except StoreDamagedError as error:
                yield Problem("parent", f"segment {segment}: {error.message}", None, None)
            else:
                if known != depth:
                    yield Problem("depth", f"segment {segment} has a wrong depth", None, None)
    lost = store.connection.execute(
        f"select count(*) from entries where not exists (select 1 from segments where segment = key >> {POSITION_BITS})"
    ).fetchone()[0]
    if lost:
        yield Problem("segment", f"{lost} entries lie in no segment", None, None)


def _pointers(store: StoreBase) -> Iterator[Problem]:
    """Branches, tips, labels, compactions, blobs, current branches and runs point to something that is there."""
    checks = {
        "branch": "select leaf from branches where leaf is not null and leaf not in (select key from entries)",
        "tip": "select key from tips where key not in (select key from entries)",
        "label": "select target from labels where target not in (select key from entries)",
        "compaction": "select key from compactions where key not in (select key from entries)"
        " or keep not in (select key from entries)",
        "blob": "select key from entry_blobs where hash not in (select hash from blobs)",
        "current_branch": "select sid from sessions s where not exists"
        " (select 1 from branches b where b.sid = s.sid and b.name = s.branch)",
        "run": "select leaf from runs where ended is null and leaf is not null"
        " and leaf not in (select key from entries)",
        "started_call": "select answer from started_calls where answer not in (select key from entries)",
    }
    for code, query in checks.items():
        for (where,) in store.connection.execute(query).fetchall():
            yield Problem(code, f"{code.replace('_', ' ')} {where} points to nothing", None, None)


def _session(store: StoreBase, sid: int) -> Iterator[Problem]:
    """Ids are unique within the session, texts are JSON, counts agree with the entries."""
    execute = store.connection.execute
    session_id, messages = execute("select id, messages from sessions where sid = ?", (sid,)).fetchone()
    seen: set[str] = set()
    count = 0
    try:
        visible = store.forest.visible(sid)
    except StoreDamagedError as error:
        yield Problem("path", error.message, session_id, None)
        return
    for segment, last in visible.items():
        for entry_id, kind, payload in execute(
            "select id, kind, payload from entries where key between ? and ?", (first_key(segment), last)
        ):
            count += kind == "message"
            if entry_id in seen:
                yield Problem("duplicate_id", "two entries have this id", session_id, entry_id)
            seen.add(entry_id)
            try:
                json.loads(payload or "null")
            except ValueError:
                yield Problem("payload", "its text is no JSON", session_id, entry_id)
    if count != messages:
        yield Problem("count", f"{messages} messages counted, {count} stored", session_id, None)


def _exists(forest: Forest, key: int) -> bool:
    return forest.connection.execute("select 1 from entries where key = ?", (key,)).fetchone() is not None
