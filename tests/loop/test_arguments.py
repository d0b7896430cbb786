"""Arguments are coerced, checked and refused as Pi 1.6.0 does it, call by call."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.coercion import Coercer
from pi_loop.explain import Explainer
from pi_loop.providers.arguments import parse_arguments, partial_object
from pi_loop.schema import Schema, is_multiple
from pi_loop.types import Tool
from pi_loop.validation import InvalidArgumentsError, validate_arguments
from tests.conformance.loop_normal import same_json

RECORDED = Path(__file__).parents[2] / "fixtures" / "conformance" / "arguments" / "recorded.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def tool_of(schema: dict) -> Tool:
    async def execute(*_: object) -> None:
        raise AssertionError("not executed here")

    return Tool(name="t", description="", parameters=schema, execute=execute)


def outcome(schema: dict, arguments: dict) -> dict:
    try:
        return {"accepted": validate_arguments(tool_of(schema), arguments)}
    except InvalidArgumentsError as error:
        return {"error": str(error)}


def test_recorded_calls_come_out_as_recorded() -> None:
    differing = []
    for number, case in enumerate(CASES, 1):
        expected = {key: case[key] for key in ("accepted", "error") if key in case}
        if not same_json(outcome(case["schema"], case["arguments"]), expected):
            differing.append(number)
    assert len(CASES) == 400
    assert differing == []


@pytest.mark.parametrize(
    ("schema", "value", "coerced"),
    [
        ({"type": "integer"}, "0x10", 16),
        ({"type": "integer"}, "-3.9", -3),
        ({"type": "integer"}, "12n", 12),
        ({"type": "integer"}, "1_000", None),
        ({"type": "number"}, "Infinity", None),
        ({"type": "number"}, "\u00a0 2 \ufeff", 2),
        ({"type": "boolean"}, "TRUE", True),
        ({"type": "boolean"}, " true", None),
        ({"type": "string"}, 1e21, "1e+21"),
        ({"type": "string"}, 1e-7, "1e-7"),
        ({"type": "null"}, "Undefined", None),
        ({"type": "array", "items": {"type": "string"}}, 3, ["3"]),
        ({"type": ["integer", "null"]}, "3.0", 3),
        ({"type": ["integer", "null"]}, "3.5", "refused"),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
    ],
)
def test_one_value(schema: dict, value: object, coerced: object) -> None:
    got = outcome({"type": "object", "properties": {"a": schema}, "required": ["a"]}, {"a": value})
    if coerced == "refused" or (coerced is None and schema["type"] != "null"):
        assert "error" in got
    else:
        assert same_json(got["accepted"]["a"], coerced)


def test_arguments_are_copied_deeply() -> None:
    arguments = {"a": {"b": [1]}}
    validated = validate_arguments(tool_of({"type": "object"}), arguments)
    validated["a"]["b"].append(2)
    assert arguments == {"a": {"b": [1]}}


def test_a_whole_number_of_an_integer_is_an_int() -> None:
    validated = validate_arguments(tool_of({"properties": {"n": {"type": "integer"}}}), {"n": 3.0})
    assert type(validated["n"]) is int


def test_an_arguments_error_wins_over_everything() -> None:
    with pytest.raises(InvalidArgumentsError, match=r'^Invalid arguments for tool "t": not JSON$'):
        validate_arguments(tool_of({"type": "object"}), {}, "not JSON")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "any"},
        {"required": True},
        {"properties": 3},
        {"enum": "x"},
        {"minimum": "3"},
        {"$ref": 7},
        {"pattern": "("},
        {"items": {"type": "strin"}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"x": {}}},
        {"properties": {"a": {"$ref": "https://example.com/elsewhere.json"}}},
    ],
)
def test_a_schema_with_mistakes_never_breaks_a_call(schema: dict) -> None:
    assert set(outcome(schema, {"a": "x"})) in ({"accepted"}, {"error"})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
leaf_schemas = st.sampled_from(
    [{"type": name} for name in ("string", "number", "integer", "boolean", "null")]
    + [{"enum": [1, "a", None]}, {"const": "x"}, {"type": ["string", "null"]}, {}, {"type": "string", "minLength": 2}]
)
schemas = st.recursive(
    leaf_schemas,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
        | st.builds(
            lambda a, b, closed: {
                "type": "object",
                "properties": {"a": a, "b": b},
                "required": ["a"],
                "additionalProperties": not closed,
            },
            inner,
            inner,
            st.booleans(),
        )
    ),
    max_leaves=5,
)


@given(schemas, json_values)
def test_an_accepted_value_is_not_changed_and_a_refused_one_is_explained(schema: dict, value: object) -> None:
    compiled = Schema({"allOf": [schema]})
    coerced = Coercer(compiled).coerce(value)
    if compiled.accepts(value):
        assert same_json_deep(coerced, value)
    elif not compiled.accepts(coerced):
        errors = Explainer(compiled).errors(coerced)
        assert errors
        assert all(error.message != "invalid" for error in errors)


def same_json_deep(left: object, right: object) -> bool:
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True) or same_json(left, right)


@given(schemas, json_values)
def test_coercing_leaves_its_input_alone(schema: dict, value: object) -> None:
    before = json.dumps(value)
    Coercer(Schema(schema)).coerce(value)
    assert json.dumps(value) == before


def test_multiples_are_exact_for_decimals() -> None:
    assert is_multiple(0.0075, 0.0001)
    assert is_multiple(19.99, 0.01)
    assert not is_multiple(0.00751, 0.0001)
    assert not is_multiple(1, 0)


def test_multiples_of_numbers_at_the_edge_of_doubles() -> None:
    assert is_multiple(1, 1e-320)
    assert not is_multiple(float("inf"), 3)
    assert is_multiple(1e30, 3e-5)


LONG = "9" * 5000
UNREADABLE = [
    *((kind, LONG) for kind in ("integer", "number")),
    *((kind, int("9" * 400)) for kind in ("integer", "number")),
    *((kind, float("inf")) for kind in ("integer", "number")),
    ("integer", float("nan")),
    ("integer", LONG + "n"),
]


@pytest.mark.parametrize(("kind", "value"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_numbers_that_no_double_holds_are_refused_as_any_other_mistake(kind: str, value: object) -> None:
    schema = {"properties": {"a": {"type": kind, "multipleOf": 1e-320}, "9": {}}}
    error = outcome(schema, {"a": value, LONG: 1})["error"]
    assert error.startswith('Validation failed for tool "t":\n  - a')
    assert "limit" not in error


def test_an_integer_of_thousands_of_digits_arrives_as_javascript_reads_it() -> None:
    # Infinity, which JSON writes as null.
    assert parse_arguments(f'{{"a": {LONG}, "b": -{LONG}, "c": 12}}').arguments == {"a": None, "b": None, "c": 12}
    assert partial_object(f'{{"a": {LONG}, "c": 1').get("a", 0) is None


def test_a_recursive_union_ends_and_is_explained() -> None:
    node = {"type": "object", "properties": {"kind": {"enum": ["leaf"]}, "child": {"$ref": "#/$defs/n"}}}
    schema = {"properties": {"tree": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": [node, {"type": "string"}]}}}
    tree: object = 7
    for _ in range(8):
        tree = {"child": tree, "kind": "twig"}
    error = outcome(schema, {"tree": tree})["error"]
    assert error.startswith('Validation failed for tool "t":\n  - tree')
