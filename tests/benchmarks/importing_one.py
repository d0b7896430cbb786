"""Importing one huge source of each format: how much memory that takes, and how long.

`python -m tests.benchmarks.importing_one 300 [FORMAT ...]` takes 300 MB. Each import is the command itself, the index
included, in a process of its own, so that its peak memory is nobody else's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

from tests.benchmarks.huge_sources import HUGE, write_huge
from tests.benchmarks.measure import show, show_figure

SIZE_MB = 24
# Ones that are a single JSON value are held whole, by `json` too.
_WHOLE = ("chatgpt-one", "claude-code-line")


def main(size_mb: float = SIZE_MB, names: tuple[str, ...] = tuple(HUGE)) -> None:
    show(f"import of one source of {size_mb:,.0f} MB, by the command: speed, and peak resident memory")
    for name in names:
        with TemporaryDirectory() as folder:
            path = write_huge(folder, name, int(size_mb * 1e6))
            size = os.path.getsize(path) / 1e6
            first = import_apart(os.path.join(folder, "store.db"), path)
        figure = f"{first['peak_mb']:.0f} MB"
        show_figure(f"{name} ({size / first['took_s']:.0f} MB/s)", figure, "-" if name in _WHOLE else "300 MB")


def import_apart(store: str, path: str) -> dict[str, float]:
    """Import a source in a process of its own and return what that took (seconds, megabytes)."""
    command = (sys.executable, "-m", "tests.benchmarks.importing_one", "--import", store, path)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _import_here(store: str, path: str) -> dict[str, float]:
    import io

    from pi_session_cli.main import main as run

    answer = io.StringIO()
    start = time.perf_counter()
    sys.stdout, stdout = answer, sys.stdout
    try:
        code = run(["--db", store, "import", "--json", path])
    finally:
        sys.stdout = stdout
    took_s = time.perf_counter() - start
    if code:
        raise SystemExit(f"Error: the import of {path} ended with {code}: {answer.getvalue()[:2000]}")
    return {"took_s": took_s, "peak_mb": _peak_bytes() / 1e6}


def _peak_bytes() -> int:
    """Return the most memory this process was resident in.

    Linux counts in `ru_maxrss` what the process that began this one had, too; in VmHWM it does not.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        return int(told["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Kibibytes, and bytes on macOS.
        return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["--import"]:
        print(json.dumps(_import_here(*sys.argv[2:])))
    else:
        main(float(sys.argv[1]) if sys.argv[1:] else SIZE_MB, tuple(sys.argv[2:]) or tuple(HUGE))
