"""The fast JSON code reads and writes what `json` does, or says that it cannot."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_sessions.formats.building import SessionBuilder
from pi_sessions.formats.json_lines import NotJsonError, decode
from pi_sessions.formats.json_values import quick_object, value_text
from pi_sessions.stored import dump
from tests.sessions.foreign_files import FORMATS, read_all, records_of, write_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=12,
)
# Pieces of which damaged JSON is made.
PIECES = st.sampled_from(
    (
        '{"a":', "}", "[", "]", '"', ",", ":", "1", "-0", "1e5", "1.", "NaN", "true", "nul", "\\ud83d", "\\ude00",
        "\\u00e9", " ", "\t", "\n", "\0", "\ufeff", "é", "\\x", "9" * 400, "9" * 4400, '{"a":1}', "\x01", "\u2028",
    )
)  # fmt: skip


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), st.booleans())
def test_objects_are_read_as_json_reads_them(value: dict[str, object], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    found = quick_object(text.encode("utf-8", "surrogatepass"))
    assert found is None or repr(found) == repr(json.loads(text))


@given(VALUES)
def test_values_are_written_as_the_same_value_and_text(value: object) -> None:
    """Only a fraction may be spelt otherwise (`0.00006` for `6e-05`), as JavaScript does; it is the same number."""
    text, had_infinity = value_text(value)
    fractions: list[str] = []
    assert not had_infinity
    assert json.loads(text) == value
    json.loads(text, parse_float=fractions.append)
    if not fractions:
        assert text == dump(value)


@given(st.lists(PIECES, max_size=12))
def test_what_is_read_fast_is_json(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = quick_object(text)
    if found is not None and "inf" not in repr(found):
        assert repr(found) == repr(decode(text.strip(" \t\r\n")))


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[1]", "1", '{"a":NaN}', '{"a":"\\ud83d"}', '{"a":"\x01"}', "{'a':1}", '{"a":1}{"b":2}', '{"a":1}\0',
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    ],
)  # fmt: skip
def test_everything_else_needs_a_closer_look(text: str) -> None:
    assert quick_object(text) is None
    assert quick_object(text.encode()) is None


def test_a_number_too_large_becomes_null_and_the_word_stays() -> None:
    assert quick_object('{"a":1e999}') == {"a": math.inf}
    with pytest.raises(NotJsonError):
        decode('{"a":1e999}')
    assert value_text({"a": [math.inf, -math.inf], "b": "Infinity"}) == ('{"a":[null,null],"b":"Infinity"}', True)
    assert value_text({"b": "Infinity"}) == ('{"b":"Infinity"}', False)


def test_halves_of_pairs_become_replacement_signs_and_deep_values_are_written() -> None:
    assert value_text({"a": "\ud83d"}) == ('{"a":"\ufffd"}', False)
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    assert value_text(deep) == (dump(deep), False)


def test_a_builder_reports_numbers_it_cannot_hold() -> None:
    builder = SessionBuilder("x", "source", "1")
    entry = builder.message({"role": "user", "content": "a", "n": math.inf}, id="a", parent=None, time_ms=1, line=7)
    assert json.loads(entry.payload)["n"] is None
    assert [(it.line, it.code, it.entry_id) for it in builder.repairs] == [(7, "not_strict_json", "a")]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_an_infinite_number_anywhere_in_a_source_leaves_no_infinity(name: str, tmp_path: Path) -> None:
    source = next(path for path in sorted((FORMATS / name).rglob("*0a.jsonl")))
    lines = write_lines(tmp_path / source.name, *({**record, "more": 0.5} for record in records_of(source)))
    lines.write_text(lines.read_text().replace(": 0.5", ":1e999").replace(":0.5", ":1e999"))
    assert "1e999" in lines.read_text()
    for session in read_all(lines):
        json.dumps(session.header, allow_nan=False)
        assert session.tally.adds_up()
        for entry in session.entries:
            assert json.dumps(json.loads(entry.payload), allow_nan=False)
