"""The bundled session cases, replayed; every deviation from Pi is written down, needed and exact."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import sessions
from tests.conformance.deviations import ROWS, RULES
from tests.conformance.session_compare import differences
from tests.conformance.session_rules import Refused

FILES = sessions.case_files([sessions.BUNDLED])


@functools.cache
def case_of(name: str) -> Any:
    return json.loads((sessions.BUNDLED / f"{name}.json").read_text())


@functools.cache
def outcomes_of(name: str) -> tuple[sessions.StepOutcome, ...]:
    return tuple(sessions.replay_case(case_of(name), sessions.fixtures_of(sessions.BUNDLED / f"{name}.json")))


@pytest.mark.parametrize("name", [file.stem for file in FILES])
def test_a_recorded_case_replays(name: str) -> None:
    failed = [f"{one.number} {one.op}: {'; '.join(one.problems)}" for one in outcomes_of(name) if one.problems]
    assert not failed
    assert len(outcomes_of(name)) == len(case_of(name)["steps"])


def test_all_bundled_cases_are_there() -> None:
    assert len(FILES) == 114


def test_every_row_covers_steps_that_exist_and_deviate() -> None:
    for row in ROWS:
        deviating = {one.number for one in outcomes_of(row.case) if one.deviation is row}
        assert deviating == set(row.steps), row


def test_every_rule_is_needed_by_a_recorded_step() -> None:
    used = {id(one.deviation) for file in FILES for one in outcomes_of(file.stem)}
    assert [rule.name for rule in RULES if id(rule) not in used] == []


def test_rows_and_rules_say_why() -> None:
    told = [(row.pi, row.ours, row.why) for row in ROWS] + [(rule.pi, rule.ours, rule.why) for rule in RULES]
    assert all(all(one) for one in told)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("name", ["damaged-bad-line", "persist-two-writers", "tree-views", "clone-labels"])
def test_a_wrong_recording_is_noticed(name: str) -> None:
    """Changing any recorded part of a snapshot makes its step fail, also where a deviation is allowed."""
    for number, step in enumerate(case_of(name)["steps"]):
        if step["op"] != "snapshot":
            continue
        for field in ("leaf", "session_name", "thinkingLevel"):
            case = copy.deepcopy(case_of(name))
            result = case["steps"][number]["result"]
            (result["context"] if field == "thinkingLevel" else result)[field] = "wrong"
            outcome = tuple(sessions.replay_case(case, sessions.BUNDLED.parent / "fixtures"))[number]
            told_by_row = outcome.deviation is not None and outcome.deviation in ROWS
            assert outcome.problems or told_by_row, (name, number, field)


def test_looks_at_a_copy_with_labels_agree_without_them() -> None:
    """Looks that no bundled case takes at such a copy, with what Pi's snapshot of it says."""
    case = copy.deepcopy(case_of("clone-labels"))
    seen = case["steps"][17]
    assert (seen["op"], seen["on"]) == ("snapshot", "f")
    looks: list[dict[str, Any]] = [
        {"op": "leaf", "result": {"leaf": seen["result"]["leaf"], "type": "label"}},
        {"op": "entries", "result": seen["result"]["entry_count"]},
        {"op": "get_branch", "args": {"id": "1000000b"}, "result": seen["result"]["branch_leaf_to_root"][3:][::-1]},
        {"op": "get_branch", "args": {"id": "10000012"}, "result": seen["result"]["branch_leaf_to_root"][::-1]},
    ]
    case["steps"][18:18] = [{"at": seen["at"], "on": "f", **look} for look in looks]
    outcomes = tuple(sessions.replay_case(case, sessions.BUNDLED.parent / "fixtures"))
    assert [one.problems for one in outcomes] == [[] for _ in case["steps"]]
    case["steps"][18]["result"]["leaf"] = "10000006"
    case["steps"][20]["result"][0] = "10000002"
    outcomes = tuple(sessions.replay_case(case, sessions.BUNDLED.parent / "fixtures"))
    assert [one.number for one in outcomes if one.problems] == [19, 21]


def test_a_session_that_pi_has_not_saved_yet_is_there() -> None:
    at = "2026-03-01T10:00:0{}.000Z"
    file = "2026-03-01T10-00-01-000Z_sess-0001.jsonl"
    model = {"provider": "p", "modelId": "m"}
    steps: list[dict[str, Any]] = [
        {"op": "create", "on": "s", "args": {"cwd": "/proj"}, "result": {"id": "sess-0001", "file": f"$DIR/{file}"}},
        {"op": "append_model_change", "on": "s", "args": model, "result": "10000001"},
        {"op": "is_saved", "on": "s", "result": False},
        {"op": "exists", "args": {"file": file}, "result": False},
        {"op": "read_file", "args": {"file": file}, "result": {"exists": False}},
        {"op": "session_file", "on": "s", "result": {"exists": False}},
        {"op": "list_files", "result": []},
    ]
    steps = [{"at": at.format(number), **step} for number, step in enumerate(steps, 1)]
    case = {"format": 1, "id": "x", "inputs": [], "steps": steps}
    outcomes = tuple(sessions.replay_case(case, Path()))
    assert [one.problems for one in outcomes] == [[] for _ in steps]
    assert sum(one.deviation is not None for one in outcomes) == 5


def test_an_unknown_operation_fails_its_step_alone() -> None:
    step = {"at": "2026-03-01T10:00:01.000Z", "op": "no_such_operation", "result": 1}
    case = {"format": 1, "id": "x", "inputs": [], "steps": [step]}
    assert [bool(one.problems) for one in sessions.replay_case(case, Path())] == [True]


def test_refusals_agree_with_errors_raised_on_purpose_only() -> None:
    refused = Refused("entry_not_found")
    assert sessions.judge(refused, {"op": "fork", "error": {"kind": "Error", "message": "m"}}) == []
    assert sessions.judge(refused, {"op": "fork", "error": {"kind": "TypeError", "message": "m"}}) != []
    assert sessions.judge(refused, {"op": "fork", "result": {}}) != []
    assert sessions.judge({"id": "x"}, {"op": "open", "error": {"kind": "Error", "message": "m"}}) != []


def test_results_are_compared_as_the_case_format_says() -> None:
    long = "\N{ROCKET}" * 201
    digest = "5b2b5d3bd3a4d3f4b7d2ac7aeaae0b3e0c1ce6f4a3c4c9f17d61d6e0a7f38d27"
    assert differences(0.1 + 0.2, 0.3) == []
    assert differences(1, 1.5) != []
    assert differences(True, 1) != []
    assert differences("x", None) != []
    assert differences({"a": 1}, {"a": 1, "b": 2}) == [".b: missing, recorded 2"]
    assert differences({"a": 1, "b": 2}, {"a": 1}) == [".b: 2, not recorded"]
    assert differences('{"a":1,"b":2}\n', '{"b": 2, "a": 1}\n') == []
    assert differences('{"a":1}\n', '{"a":1}\n{"b":2}\n') != []
    assert differences(long, {"chars": 402, "sha256": digest, "head": long[:60]}) != []
    assert (
        differences([f"{number}" for number in range(61)], {"count": 61, "sha256": "", "first": [], "last": []}) != []
    )
    assert differences("[[instructions: 5 chars]]", "[[instructions: 7 chars]]") == []


def test_the_command_ends_with_the_count(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    case = copy.deepcopy(case_of("context-empty"))
    (tmp_path / "good.json").write_text(json.dumps(case))
    assert sessions.main([str(tmp_path)]) == 0
    count = len(case["steps"])
    assert capsys.readouterr().out.splitlines()[-1] == f"{count} passed, 0 failed"
    case["steps"][-1]["result"] = {"wrong": True}
    (tmp_path / "bad.json").write_text(json.dumps(case))
    assert sessions.main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{2 * count - 1} passed, 1 failed"
    assert lines[0].startswith("FAIL context-empty")


def test_no_cases_at_all_is_no_success(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": 1}')
    (tmp_path / "broken.json").write_text("{")
    assert sessions.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "0 passed, 0 failed\n"
    assert sessions.main([str(tmp_path / "gone")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed"
