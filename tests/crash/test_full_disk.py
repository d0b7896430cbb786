"""A full disk is said in our words and costs nothing that was acknowledged; a WAL cut short costs its last commit."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import StoreFullError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.crash.children import Child, Report
from tests.crash.test_commit_points import SOURCE

FRAME = 4096 + 24


def message(size: int = 2000) -> dict[str, Any]:
    return {"type": "message", "message": {"role": "user", "content": "x" * size}}


def limit_pages(store: SessionStore, more: int) -> None:
    """Let the file grow by so many pages and no further."""
    pages = store.connection.execute("pragma page_count").fetchone()[0]
    store.connection.execute(f"pragma max_page_count = {pages + more}")


def ids(store: SessionStore, session_id: str) -> list[str]:
    return [entry.id for entry in store.entries(session_id)]


def test_a_full_disk_refuses_the_append_and_keeps_the_rest(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    with SessionStore.open(str(tmp_path / "full.db")) as store:
        session_id = store.create_session().id
        limit_pages(store, 20)
        with pytest.raises(StoreFullError) as caught:
            acknowledged.extend(store.append(session_id, message()).id for _ in range(100))
        assert "full.db" in caught.value.message
        assert caught.value.hint
        assert len(acknowledged) > 10
        assert ids(store, session_id) == acknowledged
        assert store.leaf(session_id) == acknowledged[-1]
        assert store.verify() == []
        limit_pages(store, 100)
        acknowledged.append(store.append(session_id, message()).id)
        assert ids(store, session_id) == acknowledged


def test_a_full_disk_refuses_a_batch_and_an_import_as_a_whole(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text(SOURCE.replace('"2"', f'"{"x" * 200_000}"'), encoding="utf-8")
    with SessionStore.open(str(tmp_path / "full.db")) as store:
        session_id = store.create_session().id
        first = store.append(session_id, message()).id
        limit_pages(store, 20)
        with pytest.raises(StoreFullError):
            store.append_many(session_id, [message()] * 100)
        with pytest.raises(StoreFullError):
            store.import_session(read_pi_file(str(source)))
        assert [session.id for session in store.sessions()] == [session_id]
        assert ids(store, session_id) == [first]
        assert store.verify() == []


def test_a_file_that_may_not_grow_refuses_the_append_and_keeps_the_rest(tmp_path: Path) -> None:
    """As on a file system with a quota: the write ahead log hits the limit in the middle of a write."""
    path = str(tmp_path / "limited.db")

    def work(report: Report) -> None:
        store = SessionStore.open(path)
        session_id = store.create_session(id="limited").id
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
        try:
            while True:
                report(store.append(session_id, message()).id)
        except StoreFullError:
            report("full")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        report(store.append(session_id, message()).id)

    child = Child(work)
    *acknowledged, full, last = child.reports()
    assert child.wait() == 0
    assert full == "full"
    assert len(acknowledged) > 10
    with SessionStore.open(path) as store:
        assert ids(store, "limited") == [*acknowledged, last]
        assert store.verify() == []


@pytest.mark.parametrize("cut", [1, 24, 1000, FRAME - 1, FRAME])
def test_a_log_cut_short_loses_at_most_its_last_transaction(tmp_path: Path, cut: int) -> None:
    path = str(tmp_path / "cut.db")

    def work(report: Report) -> None:
        store = SessionStore.open(path)
        session_id = store.create_session(id="cut").id
        for _ in range(30):
            report(store.append(session_id, message(300)).id)
        os.kill(os.getpid(), signal.SIGKILL)

    child = Child(work)
    acknowledged = list(child.reports())
    assert child.wait() == -signal.SIGKILL
    os.truncate(f"{path}-wal", os.path.getsize(f"{path}-wal") - cut)
    with SessionStore.open(path) as store:
        assert ids(store, "cut") == acknowledged[:-1]
        assert store.leaf("cut") == acknowledged[-2]
        assert store.verify() == []
