"""Stores for tests: how they are opened, filled and measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pi_sessions.store import SessionStore
from tests.strategies import answer, user

START_MS = 1_772_359_200_000


class SteadyClock:
    """Gives the same time until it is set; Unix milliseconds."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def open_store(path: Path, clock: Callable[[], int] | None = None, **options: Any) -> SessionStore:
    """Open a store whose entry ids are `e001`, `e002`, ... and whose session ids are `s-001`, ..."""
    entry_numbers, session_numbers = itertools.count(1), itertools.count(1)
    return SessionStore.open(
        str(path),
        clock=clock or SteadyClock(),
        new_id=lambda: f"e{next(entry_numbers):03}",
        new_session_id=lambda: f"s-{next(session_numbers):03}",
        **options,
    )


def talk(store: SessionStore, session_id: str, *texts: str) -> list[str]:
    """Append questions and answers in turn and return their ids."""
    drafts = [user(text) if place % 2 == 0 else answer(text) for place, text in enumerate(texts)]
    return [entry.id for entry in store.append_many(session_id, drafts)]


def ids(entries: Iterable[Any]) -> list[str]:
    """Return the ids of entries, sessions or the like."""
    return [entry.id for entry in entries]


def steps_of(store: SessionStore, work: Callable[[], object]) -> int:
    """Return how many hundred instructions of SQLite's virtual machine some work takes: its cost without any clock."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    store.connection.set_progress_handler(count, 100)
    try:
        work()
    finally:
        store.connection.set_progress_handler(None, 100)
    return counted


def rows_in(store: SessionStore, table: str) -> int:
    """Return the number of rows of a table."""
    count: int = store.connection.execute(f"select count(*) from {table}").fetchone()[0]
    return count
