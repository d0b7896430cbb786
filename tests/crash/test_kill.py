"""A process killed with SIGKILL loses nothing it acknowledged, and leaves no half operation behind."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from pi_sessions.store import SessionStore
from tests.crash.children import Child, Report
from tests.crash.random_work import Ledger, RandomWork

KILLS_PER_STORE = 10


def kill_rounds(folder: Path, kills: int, seed: int, *, durable: bool = False) -> int:
    """Kill a working child again and again on one store, check the store each time; returns what was acknowledged."""
    path = folder / f"{seed}.db"
    ledger = Ledger()
    chance = random.Random(seed)
    for number in range(kills):
        round_seed = seed * 1000 + number

        def work(report: Report, round_seed: int = round_seed) -> None:
            store = SessionStore.open(str(path), durable=durable)
            RandomWork(store, round_seed, report, str(folder / "source.jsonl")).run()

        child = Child(work)
        stop_after = chance.randint(1, 40)
        for count, report in enumerate(child.reports(), 1):
            ledger.take(report)
            if count >= stop_after:
                break
        spin_until = time.perf_counter() + chance.random() * 0.001
        while time.perf_counter() < spin_until:
            pass
        child.kill()
        for report in child.reports():
            ledger.take(report)
        assert child.wait() == -signal.SIGKILL
        with SessionStore.open(str(path)) as store:
            ledger.check(store)
    return ledger.acknowledged


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_acknowledged_operation_outlives_a_kill(tmp_path: Path, seed: int) -> None:
    """Ten stores, ten kills each, at random points of append, import, fork, rewind, undo and others."""
    assert kill_rounds(tmp_path, KILLS_PER_STORE, seed) > KILLS_PER_STORE


@pytest.mark.soak
@pytest.mark.parametrize("durable", [False, True])
def test_every_acknowledged_operation_outlives_a_thousand_kills(tmp_path: Path, durable: bool) -> None:
    for seed in range(100, 200):
        assert kill_rounds(tmp_path, KILLS_PER_STORE, seed, durable=durable) > KILLS_PER_STORE
