"""Numbers, JSON text and patterns as JavaScript has them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.ecmascript import json_text, number_to_text, ordered_keys, regex, text_to_number
from pi_loop.formats import FORMATS


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (123456789012345680000.0, "123456789012345680000"),
        (2**60, "1152921504606847000"),
        (-2.5, "-2.5"),
        (10**400, "Infinity"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(number: float, text: str) -> None:
    assert number_to_text(number) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        (" \t\n", 0),
        ("12.", 12),
        (".5", 0.5),
        ("0b11", 3),
        ("0o17", 15),
        ("0xFf", 255),
        ("+1e3", 1000),
        ("-0x1", None),
        ("1e999", None),
        ("NaN", None),
        ("1_0", None),
        ("1n", None),
        (".", None),
        ("\u0661", None),
        ("9007199254740993", 9007199254740992),
    ],
)
def test_a_text_is_read_as_javascript_reads_it(text: str, number: float | None) -> None:
    assert text_to_number(text) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_written_is_read_back(number: float) -> None:
    assert text_to_number(number_to_text(number)) == number


def test_json_text_is_that_of_javascript() -> None:
    value = {"b": [], "a": {}, "10": 1.0, "9": "é\u2028\x01\x7f", "c": [1, {"d": None}], "-1": True}
    assert json_text(value) == ('{"9":"é\u2028\\u0001\x7f","10":1,"b":[],"a":{},"c":[1,{"d":null}],"-1":true}')
    assert json_text(value["c"], 2) == '[\n  1,\n  {\n    "d": null\n  }\n]'
    assert json_text("\ud800x") == '"\\ud800x"'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(json_values, st.integers(0, 4))
def test_json_text_is_json(value: object, indent: int) -> None:
    assert json.loads(json_text(value, indent)) == value


def test_array_indexes_come_first_in_an_object() -> None:
    assert ordered_keys({"b": 1, "2": 1, "01": 1, "10": 1, "4294967295": 1}) == ["2", "10", "b", "01", "4294967295"]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a\n", False),
        (r"^\d+$", "١٢", False),
        (r"^\w+$", "é", False),
        (r"\bfoo\b", "éfooé", True),
        (r"^\p{Lu}\P{Lu}$", "Éa", True),
        (r"^[^\D]$", "5", True),
        (r"^[\S]$", " ", False),
        ("^[[]$", "[", True),
        (r"(?<year>\d{4})-\k<year>", "2020-2020", True),
        (r"^\u{1F600}$", "😀", True),
        (r"^\ud83d\ude00$", "😀", True),
        ("^.$", "\u2028", False),
        ("a[]b", "ab", False),
        ("a[^]b", "a\nb", True),
        (r"\/\-", "/-", True),
        (r"^\cJ\x41\0$", "\nA\0", True),
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(pattern: str, text: str, found: bool) -> None:
    assert (regex(pattern).search(text) is not None) is found


@pytest.mark.parametrize("pattern", ["(", "[a", "\\", r"\p{Nonsense}", r"\pL"])
def test_a_bad_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises((re.error, ValueError)):
        regex(pattern)


FORMAT_SAMPLES = {
    "date": (["2020-02-29", "0000-01-01"], ["2021-02-29", "2020-1-1", "2020-01-01\n"]),
    "time": (["10:00:00Z", "23:59:60Z", "22:59:60-01:00"], ["10:00:00", "10:00:60Z", "24:00:00Z", "10:00:00+24:00"]),
    "date-time": (["2020-01-01t10:00:00z"], ["2020-01-01 10:00:00Z", "2020-01-01T10:00:00"]),
    "duration": (["P1D", "PT1H", "P1Y2M3D", "P1W"], ["P", "PT", "P1Y3D", "P1WT1H"]),
    "email": (["A@B", '"x y"@a.b', "a@[1.2.3.4]"], ["a b@c.d", "a@-b.c", "a..b@c.d"]),
    "hostname": (["a.b", "1.2.3.4"], ["-a.b", "a" * 64, "a.b.", "", "ab--cd.com"]),
    "idn-hostname": (["é.fr"], ["-é", ""]),
    "idn-email": (["é@é.fr"], ["a b@c", "x"]),
    "ipv4": (["1.2.3.4"], ["1.2.3", "01.2.3.4", "256.1.1.1"]),
    "ipv6": (["::1", "::ffff:1.2.3.4"], ["fe80::1%eth0", "12345::"]),
    "uuid": (["123E4567-E89B-12D3-A456-426614174000"], ["123e4567e89b12d3a456426614174000"]),
    "uri": (["a:b", "http://[::1]/", "mailto:a@b.c"], ["a", "http://a b", "http://[::g]/", "http://a.b/%zz"]),
    "uri-reference": (["a", "//h/p", "", "?q"], ["a b", "1:b", "é"]),
    "url": (["http://a.b", "mailto:x", "file:///x"], ["a", "//x", "http://", "https://x:99999"]),
    "iri": (["http://é.fr"], ["é", "http://a<b"]),
    "iri-reference": (["é", "//é/x"], ["a b"]),
    "json-pointer": (["", "/a~0"], ["a", "/a~2"]),
    "json-pointer-uri-fragment": (["#", "#/a%25"], ["/a"]),
    "relative-json-pointer": (["0", "1/a", "0#"], ["01", "-1"]),
    "regex": (["a", r"\p{L}", "(?<n>a)", r"[\-\]]", "a{1,2}"], ["(", "{", "]", "(?i)a", "[z-a]", r"\-"]),
    "uri-template": (["{a}", "http://x/{+p}{?q*}"], ["{", "{a b}", "%zz"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_format(name: str) -> None:
    good, bad = FORMAT_SAMPLES[name]
    assert [text for text in good if not FORMATS[name](text)] == []
    assert [text for text in bad if FORMATS[name](text)] == []
