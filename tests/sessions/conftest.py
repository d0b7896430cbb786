"""A store in a temporary folder, with a clock that stands still until it is set and ids that count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_sessions.store import SessionStore
from tests.sessions.stores import SteadyClock, open_store


@pytest.fixture
def clock() -> SteadyClock:
    return SteadyClock()


@pytest.fixture
def store(tmp_path: Path, clock: SteadyClock) -> Iterator[SessionStore]:
    with open_store(tmp_path / "sessions.db", clock) as opened:
        yield opened
