"""One huge source is imported in bounded memory: what it takes, measured in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.huge_sources import write_huge
from tests.benchmarks.importing_one import import_apart

# Interpreter, modules, SQLite, and what is held of any session: about 75. Held whole, these took 140 and 230.
MOST_MB = 105


@pytest.mark.parametrize(("name", "size_mb"), [("claude-code", 32), ("chatgpt-one", 24)])
def test_one_huge_source_is_imported_in_bounded_memory(tmp_path: Path, name: str, size_mb: int) -> None:
    path = write_huge(str(tmp_path), name, size_mb * 1_000_000)
    assert import_apart(str(tmp_path / "store.db"), path)["peak_mb"] < MOST_MB
