"""Importing many files of Pi, Claude Code and Codex against a plain json.loads of every line, its memory, and again.

`python -m tests.benchmarks.importing_mixed 1000` takes 1,000 MB; so does PI_SESSION_BENCH_MB=1000. The import is the
one the command runs, in a process of its own, so that its peak memory is nobody else's.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

from pi_session_cli.taking_in import Intake
from pi_sessions.search_index import catch_up
from pi_sessions.store import SessionStore
from tests.benchmarks.measure import show, show_figure, show_ratio, show_time
from tests.benchmarks.mixed_sources import write_mixed_sources

SIZE_MB = 120
ONE_ROUND_MB = 500
TOOLS = ("pi", "claude", "codex")


def main(size_mb: float | None = None) -> None:
    wanted = size_mb if size_mb is not None else float(os.environ.get("PI_SESSION_BENCH_MB", SIZE_MB))
    with TemporaryDirectory() as folder:
        sources = os.path.join(folder, "sources")
        size = write_mixed_sources(sources, int(wanted * 1e6))
        show(f"import of {len(_files(sources)):,} files of Pi, Claude Code and Codex, {size / 1e6:,.0f} MB")
        rounds = 1 if wanted >= ONE_ROUND_MB else 3
        found = _medians(folder, sources, rounds)
        plain_s, first_s = found["plain_s"], found["first_s"]
        show_time(f"json.loads line by line ({size / 1e6 / plain_s:.0f} MB/s)", plain_s)
        show_ratio(f"import ({size / 1e6 / first_s:.0f} MB/s)", first_s, plain_s, "3 x")
        show_ratio("the same in processor time", found["first_cpu_s"], found["plain_cpu_s"], "3 x")
        show_ratio("import of the same again, against the first", found["again_s"], first_s, "0.1 x")
        show_ratio("search index, in processor time", found["index_cpu_s"], found["plain_cpu_s"], "-")
        show_figure("peak resident memory of all that", f"{found['peak_mb']:.0f} MB", "300 MB")
        if wanted < ONE_ROUND_MB:
            _show_each(folder, sources)


def _show_each(folder: str, sources: str) -> None:
    """Print what one tool's files cost."""
    for tool in TOOLS:
        found = _medians(folder, os.path.join(sources, tool), 3)
        show_ratio(f"import of {tool} alone, in processor time", found["first_cpu_s"], found["plain_cpu_s"], "3 x")


def _medians(folder: str, sources: str, rounds: int) -> dict[str, float]:
    """Parse and import in turns, each time into a new store, and return the median of each figure."""
    told: list[dict[str, float]] = []
    for _ in range(rounds):
        store = os.path.join(folder, "store.db")
        told.append({**_timed("plain", lambda: _parse(sources)), **_import_apart(store, sources)})
        for path in (store, f"{store}-wal", f"{store}-shm"):
            if os.path.exists(path):
                os.remove(path)
    return {name: statistics.median(each[name] for each in told) for name in told[0]}


def _files(folder: str) -> list[str]:
    return [os.path.join(place, name) for place, _folders, names in os.walk(folder) for name in sorted(names)]


def _parse(folder: str) -> None:
    for path in _files(folder):
        with open(path, encoding="utf-8") as file:
            for line in file:
                json.loads(line)


def _timed(name: str, piece: Callable[[], object]) -> dict[str, float]:
    """Return the seconds a piece takes, and the processor's part of them, which neighbours hardly change."""
    gc.collect()
    start, start_cpu = time.perf_counter(), time.process_time()
    piece()
    return {f"{name}_s": time.perf_counter() - start, f"{name}_cpu_s": time.process_time() - start_cpu}


def _import_apart(store: str, sources: str) -> dict[str, float]:
    command = (sys.executable, "-m", "tests.benchmarks.importing_mixed", "--import", store, sources)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _import_here(path: str, sources: str) -> dict[str, float]:
    """Import twice, index once, and return what that took (seconds, megabytes)."""
    found: dict[str, float] = {}
    with SessionStore.open(path) as store:
        for name in ("first", "again"):
            found |= _timed(name, lambda: _take_in(store, sources))
        found |= _timed("index", lambda: catch_up(store.connection))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kibibytes, and bytes on macOS.
    found["peak_mb"] = peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
    return found


def _take_in(store: SessionStore, sources: str) -> None:
    intake = Intake(store)
    found, refused = intake.find([sources])
    reports = list(intake.take(found))
    kept = sum(report.status in ("new", "unchanged") for report in reports)
    if refused or len(found) != kept:
        raise SystemExit(f"Error: of {len(found)} files {kept} were imported, {len(refused)} refused")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--import"]:
        print(json.dumps(_import_here(*sys.argv[2:])))
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else None)
