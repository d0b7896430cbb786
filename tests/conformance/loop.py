"""Runs loop scenarios: `python -m tests.conformance.loop [DIR ...]`; without a folder, the bundled ones.

Each scenario runs on asyncio and on trio and passes if it passes on both. The comparison is the relaxed one of the
README, section 11: of a validator's own lines only the paths count; everything else is compared as it is.
"""

import json
import sys
from pathlib import Path

from tests.conformance.loop_normal import difference, relax
from tests.conformance.loop_runner import run_scenario

BUNDLED = Path(__file__).parents[2] / "fixtures" / "conformance" / "loop"
BACKENDS = ("asyncio", "trio")


def scenario_files(folders: list[Path]) -> list[Path]:
    """The scenario files of the folders, in order of their names."""
    return [path for folder in folders for path in sorted(folder.glob("*.json"))]


def check(scenario: dict, backend: str) -> str | None:
    """Run a scenario on a backend; where its outcome differs from what is expected, None if nowhere."""
    try:
        actual = run_scenario(scenario, backend)
    except BaseExceptionGroup as group:
        return f"failed: {group.exceptions!r}"
    except Exception as error:  # noqa: BLE001 - a scenario that breaks the runner has failed
        return f"failed: {error!r}"
    return difference(relax(scenario["expected"]), relax(actual))


def main(arguments: list[str]) -> int:
    """Run the scenarios of the folders and say how many passed."""
    folders = [Path(argument) for argument in arguments] or [BUNDLED]
    passed = failed = 0
    for path in scenario_files(folders):
        scenario = json.loads(path.read_text(encoding="utf-8"))
        problems = [f"{backend}: {found}" for backend in BACKENDS if (found := check(scenario, backend))]
        if problems:
            failed += 1
            print(f"FAILED {path.stem}")
            for problem in problems:
                print(f"  {problem}")
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
