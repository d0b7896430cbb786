"""Lines become records: what is whole is kept as it came, what is damaged is mended and counted."""

import json
from pathlib import Path

import pytest

from pi_sessions.formats.pi import read_pi_file
from tests.sessions.pi_files import CASES, answer, as_line, check, codes, entry, header, lost, read, texts, tree, user


def test_fields_are_kept_as_text(tmp_path: Path) -> None:
    """Numbers, repeated keys, key order and inner space come back as they stood."""
    message = '{"role":"user","content":"q","a":1.0,"b":1e5,"c":123456789012345678901234567890,"a":2, "z" : [ 1 ]}'
    line = f'{{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:01:00.000Z","message":{message}}}'
    other = (
        '{"type":"custom","id":"b","parentId":"a","timestamp":"2026-01-01T00:01:00.000Z","customType":"t","data":1.0}'
    )
    shuffled = (
        '{ "message":' + message + ' ,"timestamp":"2026-01-01T00:01:00.000Z","parentId":"b","id":"c","type":"message"}'
    )
    session = read(tmp_path, header(), line, other, shuffled)
    assert [one.payload for one in session.entries] == [message, '{"customType":"t","data":1.0}', message]
    assert [one.extra for one in session.entries] == [None, None, None]
    assert session.repairs == ()


def test_fields_beside_a_message_are_kept(tmp_path: Path) -> None:
    line = user("a", None)[:-1] + ',"extra":[1.0,{"b":2}]}'
    session = read(tmp_path, header(), line)
    assert session.entries[0].extra == '{"extra":[1.0,{"b":2}]}'
    assert session.entries[0].to_dict() == json.loads(line)


def test_unknown_types_and_fields_are_kept(tmp_path: Path) -> None:
    lines = [user("a", None), entry("mystery", "z", "a", payload={"deep": [1, 2]}), entry("future_kind", "y", "z")]
    session = read(tmp_path, header(colour="red"), *lines)
    assert [one.to_dict() for one in session.entries] == [json.loads(line) for line in lines]
    assert session.header["colour"] == "red"
    assert session.leaf == "y"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    """Characters that other readers split at are part of the text, escaped by the writer or not."""
    text = f"one{separator}two"
    session = read(tmp_path, header(), user("a", None, text), user("b", "a", "next"))
    assert texts(session) == [text, "next"]
    raw = user("a", None, "one|two").replace("|", separator)
    session = read(tmp_path, header(), raw, user("b", "a", "next"))
    assert texts(session) == [text, "next"]


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    session = read(tmp_path, header() + "\r", user("a", None) + "\r", answer("b", "a") + "\r")
    assert tree(session) == {"a": None, "b": "a"}
    assert session.repairs == ()


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    session = read(tmp_path, "\ufeff" + header(), user("a", None))
    assert session.id == "s1"
    assert codes(session) == [(1, "byte_order_mark")]


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    session = read(tmp_path, "", header(), "   ", user("a", None), "\t")
    assert (session.tally.blank, session.tally.entries, session.tally.lines) == (3, 1, 5)
    assert session.repairs == ()


def test_a_last_line_without_line_feed_is_whole(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), end="")
    assert tree(session) == {"a": None}
    assert session.losses == ()


def test_a_cut_off_last_line_is_reported(tmp_path: Path) -> None:
    cut = answer("b", "a")[:60]
    session = read(tmp_path, header(), user("a", None), cut, end="")
    assert lost(session) == [(3, "cut_off")]
    assert session.losses[0].original == cut.encode()
    assert session.losses[0].entry_id == "b"
    assert session.leaf == "a"


def test_glued_records_are_recovered_each_once(tmp_path: Path) -> None:
    """The case `s02-torn-records`: a torn record, its repetition on the same line, a cut last line."""
    path = str(CASES / "s02-torn-records" / "pi-glued.jsonl")
    session = read_pi_file(path)
    check(session)
    assert tree(session) == {"aa000001": None, "aa000002": "aa000001", "aa000003": "aa000002", "aa000004": "aa000003"}
    assert codes(session) == [(3, "glued_records"), (3, "torn_repeated")]
    assert lost(session) == [(6, "cut_off")]


def test_two_whole_records_on_one_line(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None) + answer("b", "a") + user("c", "b"), answer("d", "c"))
    assert list(tree(session)) == ["a", "b", "c", "d"]
    assert [*session.lines] == [2, 2, 2, 3]
    assert codes(session) == [(2, "glued_records")]


def test_a_header_glued_to_the_first_record(tmp_path: Path) -> None:
    session = read(tmp_path, header() + user("a", None), answer("b", "a"))
    assert session.id == "s1"
    assert tree(session) == {"a": None, "b": "a"}


def test_parts_of_a_torn_record_are_no_records(tmp_path: Path) -> None:
    """Content blocks and details inside a torn line look like objects with a type, but are not entries."""
    inner = as_line({"type": "custom", "timestamp": 5, "parentId": "a"})
    torn = answer("b", "a").replace('"text":"hi"}]', '"text":"hi"},' + inner + "]")[:-3]
    session = read(tmp_path, header(), user("a", None), torn, user("c", "b"))
    assert tree(session) == {"a": None, "c": "a"}
    assert lost(session) == [(3, "torn")]


def test_a_record_torn_right_behind_a_part_leaves_no_record(tmp_path: Path) -> None:
    torn = answer("b", "a")
    torn = torn[: torn.index('"text":"hi"}') + len('"text":"hi"}')]
    session = read(tmp_path, header(), user("a", None), torn, user("c", "b"), torn)
    assert tree(session) == {"a": None, "c": "a"}
    assert lost(session) == [(3, "torn"), (5, "torn")]


def test_a_base_field_that_comes_twice_counts_as_it_last_stood(tmp_path: Path) -> None:
    """As every JSON reader has it; none of them goes into the entry's own fields."""
    line = entry("custom", "first", None, customType="t")[:-1] + ',"id":"a","parentId":null}'
    session = read(tmp_path, header(), line, user("b", "a"))
    assert tree(session) == {"a": None, "b": "a"}
    assert session.entries[0].payload == '{"customType":"t"}'


def test_a_torn_line_and_its_repetition_count_once(tmp_path: Path) -> None:
    whole = answer("b", "a")
    session = read(tmp_path, header(), user("a", None), whole[:70], whole, user("c", "b"))
    assert tree(session) == {"a": None, "b": "a", "c": "b"}
    assert codes(session) == [(3, "torn_repeated")]
    assert session.losses == ()
    old = '{"type":"message","timestamp":"2026-01-01T00:01:00.000Z","message":{"role":"user","content":"v1"}}'
    session = read(tmp_path, '{"type":"session","id":"s1","cwd":"/p"}', old[:60], old)
    assert texts(session) == ["v1"]
    assert session.losses == ()


def test_a_repeated_line_counts_once(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), answer("b", "a"), answer("b", "a"), user("c", "b"))
    assert tree(session) == {"a": None, "b": "a", "c": "b"}
    assert codes(session) == [(4, "repeated")]


def test_a_repetition_at_the_end_is_the_leaf(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), answer("b", "a"), user("c", "b"), answer("b", "a"))
    assert session.leaf == "b"


@pytest.mark.parametrize("pad", [b"\0" * 7, b"\0 \0\0"])
def test_nul_padding_is_stripped_and_the_record_kept(tmp_path: Path, pad: bytes) -> None:
    first, second = user("a", None).encode(), answer("b", "a").encode()
    session = read(tmp_path, header(), first + pad, pad + second, pad)
    assert tree(session) == {"a": None, "b": "a"}
    assert codes(session) == [(2, "nul_padding"), (3, "nul_padding"), (4, "nul_padding")]
    glued = read(tmp_path, header(), first + pad + second)
    assert tree(glued) == {"a": None, "b": "a"}


def test_invalid_utf8_is_replaced_and_the_bytes_kept(tmp_path: Path) -> None:
    bad = user("a", None, "caf|").encode().replace(b"|", b"\xc3\x28")
    session = read(tmp_path, header(), bad, answer("b", "a"))
    assert texts(session) == ["caf\ufffd(", "hi"]
    assert codes(session) == [(2, "invalid_utf8")]
    assert session.repairs[0].original == bad + b"\n"


def test_lone_surrogates_become_replacement_characters() -> None:
    """The case `s19-lone-surrogate`: pairs stay, halves become U+FFFD, in keys and names as well."""
    path = CASES / "s19-lone-surrogate" / "lone-surrogate.jsonl"
    session = read_pi_file(str(path))
    check(session)
    assert texts(session)[0] == "Valid pair \U0001f680 and a cut one \ufffd\u2026 end"
    assert session.entries[1].fields["message"]["content"][0]["arguments"] == {
        "command": "echo \ufffd",
        "\ufffdkey": "v",
    }
    assert session.name == "cut emoji title \ufffd"
    assert codes(session) == [(line, "lone_surrogate") for line in (2, 3, 4, 5)]
    lines = path.read_bytes().splitlines(keepends=True)
    assert [repair.original for repair in session.repairs] == lines[1:]


def test_an_escaped_backslash_before_u_is_no_surrogate(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None, r"a path \ud83d\nothing"))
    assert texts(session) == [r"a path \ud83d\nothing"]
    assert session.repairs == ()


@pytest.mark.parametrize("value", ["null", "false", "0", '""', "5", '"text"', "[1]", "true", "{}"])
def test_other_json_values_are_skipped_and_reported(tmp_path: Path, value: str) -> None:
    session = read(tmp_path, header(), user("a", None), value, answer("b", "a"))
    assert tree(session) == {"a": None, "b": "a"}
    assert codes(session) == [(3, "not_an_object")]
    assert session.tally.skipped == 1


def test_what_is_no_json_is_lost_and_kept_in_the_report(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), "{oops", "@@ -1 +1 @@", '{"no":"type"}', answer("b", "a"))
    assert lost(session) == [(3, "torn"), (4, "not_json"), (5, "no_type")]
    assert [loss.original for loss in session.losses] == [b"{oops\n", b"@@ -1 +1 @@\n", b'{"no":"type"}\n']
    assert session.tally.lost == 3


def test_what_javascript_cannot_read_is_rewritten(tmp_path: Path) -> None:
    """Raw control characters, NaN and numbers without end: kept in a form that Pi reads."""
    tabbed = user("a", None, "x|y").replace("|", "\t\x00")
    odd = entry("custom", "b", "a", data="?").replace('"?"', "[NaN,Infinity," + "9" * 5000 + ",1.5]")
    session = read(tmp_path, header(), tabbed, odd)
    assert texts(session) == ["x\t\x00y"]
    assert session.entries[1].fields["data"] == [None, None, None, 1.5]
    assert codes(session) == [(2, "not_strict_json"), (3, "not_strict_json")]
    for one in session.entries:
        json.loads(one.payload, parse_constant=pytest.fail)


def test_what_is_nested_too_deeply_is_lost_not_fatal(tmp_path: Path) -> None:
    deep = entry("custom", "b", "a", data=[]).replace("[]", "[" * 50_000 + "]" * 50_000)
    session = read(tmp_path, header(), user("a", None), deep, user("c", "b"))
    assert tree(session) == {"a": None, "c": "a"}
    assert lost(session) == [(3, "torn")]


@pytest.mark.parametrize("unit", ['{"type":', '{"type":[', '{"a":"', '{"type":[{"type":1},', "\0", "{", '"'])
def test_hostile_lines_end_in_time(tmp_path: Path, unit: str) -> None:
    session = read(tmp_path, header(), unit * 30_000, user("a", None))
    assert tree(session) == {"a": None}


def test_a_line_of_many_megabytes_is_read(tmp_path: Path) -> None:
    text = "x" * 8_000_000
    session = read(tmp_path, header(pad=text), user("a", None, text), user("b", "a"))
    assert texts(session) == [text, "hello"]


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    import hashlib

    session = read(tmp_path, header(), "", user("a", None), "{oops", end="")
    raw = (tmp_path / "a.jsonl").read_bytes()
    assert (session.digest, session.size) == (hashlib.sha256(raw).hexdigest(), len(raw))
