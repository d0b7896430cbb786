"""`python -m tests.benchmarks [NAME ...]`: runs the benchmarks and prints what each costs against its limit."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sqlite3
import sys

import tests.benchmarks


def benchmark_names() -> list[str]:
    """Return the names of the modules beside this one that have a `main`."""
    names = [module.name for module in pkgutil.iter_modules(tests.benchmarks.__path__) if module.name != "__main__"]
    return [name for name in names if hasattr(importlib.import_module(f"tests.benchmarks.{name}"), "main")]


def run(chosen: list[str]) -> int:
    names = benchmark_names()
    unknown = [name for name in chosen if name not in names]
    if unknown:
        print(f"Error: no benchmark {' '.join(unknown)}\nHint: there are: {' '.join(names)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} processors")
    print(
        "Medians of rounds in which limit and store take turns; the ratios are the result, times vary with the machine."
    )
    for name in chosen or names:
        importlib.import_module(f"tests.benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
