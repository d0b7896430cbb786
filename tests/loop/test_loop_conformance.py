"""Every bundled scenario of Pi's loop, on both backends."""

import json

import pytest

from tests.conformance.loop import BACKENDS, BUNDLED, check, main, scenario_files

FILES = scenario_files([BUNDLED])


def test_all_scenarios_are_bundled() -> None:
    assert len(FILES) == 247


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path, backend: str) -> None:
    scenario = json.loads(path.read_text(encoding="utf-8"))
    assert check(scenario, backend) is None


@pytest.mark.parametrize(
    ("expected", "put_instead"),
    [(False, 0), (None, "absent"), ("first line", "other line"), ([1, 2], [2, 1]), ({"a": None}, {})],
)
def test_the_comparison_tells_values_apart(expected, put_instead) -> None:
    from tests.conformance.loop_normal import difference

    assert difference([expected], [put_instead]) is not None
    assert difference([expected], [expected]) is None


def test_the_comparison_forgives_only_the_wording_of_validator_lines() -> None:
    from tests.conformance.loop_normal import difference, relax

    text = 'Validation failed for tool "t":\n  - {path}: {message}\n\nReceived arguments:\n{{"a": {value}}}'

    def differs(**other: str) -> bool:
        usual = {"path": "a", "message": "expected integer", "value": "1"}
        return difference(relax(text.format(**usual)), relax(text.format(**{**usual, **other}))) is not None

    assert not differs(message="must be integer")
    assert differs(path="b")
    assert differs(value="2")


def test_the_runner_says_what_failed(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = json.loads(FILES[0].read_text(encoding="utf-8"))
    scenario["expected"]["trace"][0]["type"] = "something_else"
    (tmp_path / "broken.json").write_text(json.dumps(scenario), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "FAILED broken" in said
    assert said.endswith("0 passed, 1 failed\n")
