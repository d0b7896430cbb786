"""One import takes in copies after what they were made from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pi_session_cli.taking_in import Intake
from pi_sessions.store import SessionStore
from tests.sessions.test_recorded_agents import claude_files


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_fork_that_begins_in_the_middle_comes_after_its_origin(tmp_path: Path, names: tuple[str, str]) -> None:
    for file, name in zip(claude_files(), names, strict=True):
        shutil.copy(file, tmp_path / f"{name}.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        intake = Intake(store)
        sources, _refused = intake.find([str(tmp_path)])
        reports = list(intake.take(sources))
        assert [(Path(report.path).stem, report.status) for report in reports] == [(name, "new") for name in names]
        assert [report.shared for report in reports] == [0, 22]
        again = list(intake.take(intake.find([str(tmp_path)])[0]))
        assert [report.status for report in again] == ["unchanged", "unchanged"]


def test_a_fork_that_begins_in_the_middle_comes_alone_where_its_origin_is_not(tmp_path: Path) -> None:
    _session, fork = claude_files()
    for number in range(2):
        shutil.copy(fork, tmp_path / f"{number}.jsonl")
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        intake = Intake(store)
        reports = list(intake.take(intake.find([str(tmp_path)])[0]))
        assert [report.status for report in reports] == ["new", "unchanged"]
