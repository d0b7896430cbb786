"""Replays recorded session cases: `python -m tests.conformance.sessions [DIR ...]`.

Every `*.json` case file in the given folders (default: the bundled copies) is played against a real store in a
temporary folder. Prints one line per step that fails or deviates, and at the end `N passed, M failed`, counted in
steps. A step that differs from Pi passes only if `deviations` says exactly what ours must give instead.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pi_sessions.errors import PiSessionError
from tests.conformance.deviations import ROWS, Row, deviation_for
from tests.conformance.session_compare import differences
from tests.conformance.session_operations import play
from tests.conformance.session_replay import Replay
from tests.conformance.session_rules import Refused, Rule

Json = Any

BUNDLED = Path(__file__).resolve().parents[2] / "fixtures" / "conformance" / "sessions" / "cases"
SHOWN_DIFFERENCES = 3


class StepOutcome:
    """How one step went.

    Attributes:
        problems: What is wrong; empty when it passed.
        deviation: The row that allowed it to differ from Pi, None when it agreed or failed.
    """

    def __init__(self, number: int, op: str, problems: Sequence[str], deviation: Row | Rule | None = None) -> None:
        self.number = number
        self.op = op
        self.problems = list(problems)
        self.deviation = deviation


def replay_case(case: Json, fixtures: Path) -> Iterator[StepOutcome]:
    """Play all steps of a case; what is wrong with the store afterwards counts against the last step."""
    with tempfile.TemporaryDirectory(prefix="pi-session-case-") as folder:
        replay = Replay(case, Path(folder).resolve(), fixtures)
        try:
            outcomes = [replay_step(replay, number, step) for number, step in enumerate(case["steps"], 1)]
            if outcomes:
                outcomes[-1].problems += replay.check()
        finally:
            replay.close()
    yield from outcomes


def replay_step(replay: Replay, number: int, step: Json) -> StepOutcome:
    """Play one step and judge it; whatever goes wrong is a failure of this step, not of the run."""
    try:
        return _replay_step(replay, number, step)
    except Exception as error:  # noqa: BLE001 (a case of another maker may hold anything)
        return StepOutcome(number, step["op"], [f"{type(error).__name__}: {error}"])


def _replay_step(replay: Replay, number: int, step: Json) -> StepOutcome:
    before = _size(replay)
    problems = []
    try:
        ours: Json = play(replay, step)
    except PiSessionError as error:
        ours = Refused(error.code)
        if _size(replay) != before:
            problems.append("it was refused and changed the store all the same")
    found = judge(ours, step)
    allowed = deviation_for(replay, number, step, ours) if found or _has_row(replay, number) else None
    if allowed is None:
        return StepOutcome(number, step["op"], problems + found)
    deviation, expected = allowed
    if not found:
        return StepOutcome(number, step["op"], [*problems, "it agrees with Pi, but a deviation is written down for it"])
    found = [] if ours == expected else judge(ours, {**step, "result": expected, "error": None})
    return StepOutcome(number, step["op"], problems + found, None if problems or found else deviation)


def _has_row(replay: Replay, number: int) -> bool:
    return any(row.case == replay.case["id"] and number in row.steps for row in ROWS)


def _size(replay: Replay) -> tuple[int, int]:
    entries, operations = replay.store.connection.execute(
        "select (select count(*) from entries), (select count(*) from operations)"
    ).fetchone()
    return entries, operations


def judge(ours: Json, step: Json) -> list[str]:
    """Return how our result differs from a step's; a refusal agrees with every error that Pi raises on purpose."""
    error, recorded = step.get("error"), step.get("result")
    if isinstance(ours, Refused):
        if error is None:
            wanted = recorded if isinstance(recorded, Refused) else json.dumps(recorded)[:200]
            return [] if ours == recorded else [f"refused ({ours.code}); recorded {wanted}"]
        kind = error["kind"]
        on_purpose = kind == "Error" or kind.startswith("Error:") or kind in PURPOSEFUL
        return [] if on_purpose else [f"refused ({ours.code}); recorded a crash: {kind}"]
    if error is not None:
        return [f"{json.dumps(ours)[:200]}; recorded {error['kind']}: {error.get('message')}"]
    if isinstance(recorded, Refused):
        return [f"{json.dumps(ours)[:200]}; should be refused ({recorded.code})"]
    if step["op"] in ("list", "list_all"):
        return differences(_settled(ours), _settled(recorded))
    return differences(ours, recorded)


def _settled(rows: Json) -> Json:
    """Return the rows of a list with those of one time in the order of their files, which means nothing."""
    order = [row["modified"] for row in rows]
    return sorted(rows, key=lambda row: (order.index(row["modified"]), row["file"]))


PURPOSEFUL = ("MissingSessionCwdError", "SessionImportFileNotFoundError")


def case_files(folders: Sequence[Path]) -> list[Path]:
    """Return the JSON files in some folders and below them, sorted by path; a file stands for itself.

    Raises:
        FileNotFoundError: nothing has one of the names.
    """
    found: set[Path] = set()
    for folder in folders:
        if not folder.exists():
            raise FileNotFoundError(f"there is no folder {folder}")
        found.update(folder.rglob("*.json") if folder.is_dir() else [folder])
    return sorted(found)


def read_case(file: Path) -> Json | None:
    """Return the case in a file, None when it holds something else."""
    try:
        case = json.loads(file.read_text())
    except ValueError:
        return None
    is_case = isinstance(case, dict) and case.get("format") == 1 and "inputs" in case and "steps" in case
    return case if is_case and all("op" in step for step in case["steps"]) else None


def fixtures_of(case_file: Path) -> Path:
    """Return the folder of fixtures that goes with a case file: beside its folder, in it, or the bundled one."""
    for folder in (case_file.parent.parent / "fixtures", case_file.parent / "fixtures"):
        if folder.is_dir():
            return folder
    return BUNDLED.parent / "fixtures"


def main(arguments: Sequence[str]) -> int:
    """Replay the cases of folders and print what happened; returns the exit code."""
    folders = [Path(argument) for argument in arguments] or [BUNDLED]
    passed = failed = 0
    try:
        files = case_files(folders)
    except FileNotFoundError as error:
        print(f"FAIL {error}")
        files = []
    for file in files:
        case = read_case(file)
        if case is None:
            continue
        try:
            outcomes = list(replay_case(case, fixtures_of(file)))
        except Exception as error:  # noqa: BLE001 (as in replay_step)
            problem = f"{type(error).__name__}: {error}"
            outcomes = [StepOutcome(number, "case", [problem]) for number in range(1, len(case["steps"]) + 1)]
        for outcome in outcomes:
            where = f"{case['id']} {outcome.number} {outcome.op}"
            if outcome.problems:
                failed += 1
                print(f"FAIL {where}: {'; '.join(outcome.problems[:SHOWN_DIFFERENCES])}")
            else:
                passed += 1
            if outcome.deviation is not None:
                print(f"deviates {where}: {outcome.deviation.ours}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
