"""Links are resolved over the whole file: nothing hidden, nothing circular, each change reported."""

import json
from pathlib import Path

from tests.sessions.pi_files import answer, as_line, by_id, codes, entry, header, lost, read, texts, tree, user


def test_a_parent_may_stand_behind_its_child(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("c", "b"), answer("b", "a"), user("a", None))
    assert tree(session) == {"c": "b", "b": "a", "a": None}
    assert session.repairs == ()
    assert session.leaf == "a"


def test_a_lost_line_is_bridged_by_what_it_still_shows(tmp_path: Path) -> None:
    """The torn line tells its own id and parent: its child goes to that parent, not to the line before."""
    lines = [user("a", None), answer("b", "a"), user("side", "b"), '{"type":"message","id":"lost","parentId":"a","mess']
    session = read(tmp_path, header(), *lines, user("c", "lost"))
    assert tree(session)["c"] == "a"
    assert codes(session) == [(6, "missing_parent")]
    assert lost(session) == [(5, "torn")]


def test_a_lost_root_leaves_a_root(tmp_path: Path) -> None:
    session = read(
        tmp_path, header(), user("a", None), '{"type":"message","id":"x","parentId":null,"me', user("c", "x")
    )
    assert tree(session) == {"a": None, "c": None}


def test_several_lost_lines_in_a_row_are_bridged(tmp_path: Path) -> None:
    torn = [f'{{"type":"message","id":"{one}","parentId":"{up}","mess' for one, up in ("xa", "yx", "zy")]
    session = read(tmp_path, header(), user("a", None), *torn, user("side", "a"), user("c", "z"))
    assert tree(session)["c"] == "a"


def test_a_missing_parent_nobody_saw_is_bridged_to_the_entry_before(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), answer("b", "a"), user("c", "never-written"))
    assert tree(session) == {"a": None, "b": "a", "c": "b"}
    assert codes(session) == [(4, "missing_parent")]


def test_children_of_one_missing_parent_stay_siblings(tmp_path: Path) -> None:
    lines = [user("a", None), answer("one", "gone"), user("deeper", "one"), answer("two", "gone")]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"a": None, "one": "a", "deeper": "one", "two": "a"}


def test_a_first_entry_without_parent_becomes_the_root(tmp_path: Path) -> None:
    session = read(tmp_path, header(), answer("b", "gone"), user("c", "b"))
    assert tree(session) == {"b": None, "c": "b"}
    assert codes(session) == [(2, "missing_parent")]


def test_an_entry_without_parent_field_follows_the_entry_before(tmp_path: Path) -> None:
    """What Pi writes after copying a version-1 file: an id, but no `parentId`."""
    bare = as_line({key: value for key, value in json.loads(user("c", None)).items() if key != "parentId"})
    session = read(tmp_path, header(), user("a", None), answer("b", "a"), bare)
    assert tree(session)["c"] == "b"
    assert codes(session) == [(4, "missing_parent_field")]


def test_a_self_parent_becomes_a_root(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("r", None), user("a", "a"))
    assert tree(session) == {"r": None, "a": None}
    assert codes(session) == [(3, "cycle")]
    assert session.leaf == "a"


def test_a_cycle_is_cut_at_one_link(tmp_path: Path) -> None:
    lines = [user("a", "c"), answer("b", "a"), user("c", "b"), user("r", None), answer("s", "r")]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"a": None, "b": "a", "c": "b", "r": None, "s": "r"}
    assert codes(session) == [(2, "cycle")]


def test_a_cycle_made_by_a_guess_gives_up_the_guess(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("p", "c"), user("c", "gone"))
    assert tree(session) == {"p": "c", "c": None}


def test_of_two_entries_with_one_id_the_later_keeps_it_and_the_children(tmp_path: Path) -> None:
    lines = [user("a", None), answer("b", "a", "first b"), answer("b", "a", "second b", 2), user("c", "b")]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"a": None, "10000001": "a", "b": "a", "c": "b"}
    assert texts(session) == ["hello", "first b", "second b", "hello"]
    assert codes(session) == [(3, "duplicate_id")]


def test_a_child_between_two_entries_with_one_id_stays_with_the_first(tmp_path: Path) -> None:
    """Otherwise the second, a descendant of the first, would be its own ancestor."""
    lines = [user("k", None, "first"), answer("d", "k"), user("k", "d", "second"), answer("e", "k")]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"10000001": None, "d": "10000001", "k": "d", "e": "k"}


def test_a_compaction_with_the_id_of_a_message_hides_nothing(tmp_path: Path) -> None:
    kept = entry("compaction", "k", "d", summary="S", firstKeptEntryId="b", tokensBefore=1)
    lines = [user("a", None), answer("b", "a"), user("k", "b", "dup"), answer("d", "b"), kept, user("e", "k")]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"a": None, "b": "a", "10000001": "b", "d": "b", "k": "d", "e": "k"}
    assert by_id(session)["k"].fields["firstKeptEntryId"] == "b"


def test_references_follow_a_renamed_entry(tmp_path: Path) -> None:
    lines = [
        user("k", None, "first"),
        answer("d", "k"),
        entry("compaction", "s", "d", summary="S", firstKeptEntryId="k", tokensBefore=1.5),
        entry("label", "l", "s", targetId="k", label="mark"),
        user("k", "l", "second"),
    ]
    session = read(tmp_path, header(), *lines)
    assert by_id(session)["s"].fields["firstKeptEntryId"] == "10000001"
    assert list(session.labels) == ["10000001"]
    assert [code for _line, code in codes(session)] == ["duplicate_id", "reference", "reference"]


def test_a_compaction_that_keeps_nothing_still_keeps_nothing_when_renamed(tmp_path: Path) -> None:
    first = entry("compaction", "k", "a", summary="one", firstKeptEntryId="k", tokensBefore=1)
    second = entry("compaction", "k", "a", 2, summary="two", firstKeptEntryId="k", tokensBefore=1)
    session = read(tmp_path, header(), user("a", None), first, second)
    kept = {one.id: one.fields["firstKeptEntryId"] for one in session.entries if one.type == "compaction"}
    assert kept == {"10000001": "10000001", "k": "k"}


def test_a_lost_first_kept_entry_gives_way_to_the_next(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        '{"type":"message","id":"b","parentId":"a","mess',
        answer("c", "b"),
        user("d", "c"),
        entry("compaction", "e", "d", summary="S", firstKeptEntryId="b", tokensBefore=1),
    ]
    session = read(tmp_path, header(), *lines)
    assert by_id(session)["e"].fields["firstKeptEntryId"] == "c"


def test_missing_ids_are_made_in_file_order(tmp_path: Path) -> None:
    bare = [
        as_line({"type": "custom", "parentId": None, "timestamp": "2026-01-01T00:01:00.000Z", "data": n})
        for n in (1, 2)
    ]
    session = read(tmp_path, header(), bare[0], user("a", None), bare[1])
    assert list(tree(session)) == ["10000001", "a", "10000002"]
    assert codes(session) == [(2, "missing_id"), (4, "missing_id")]


def test_numbers_as_ids_become_text(tmp_path: Path) -> None:
    lines = [user("a", None).replace('"a"', "7", 1), user("b", "a").replace('"parentId":"a"', '"parentId":7')]
    session = read(tmp_path, header(), *lines)
    assert tree(session) == {"7": None, "b": "7"}


def test_a_new_id_is_never_one_in_use(tmp_path: Path) -> None:
    bare = as_line({"type": "custom", "parentId": None, "timestamp": "2026-01-01T00:01:00.000Z"})
    session = read(tmp_path, header(), bare, user("10000001", None))
    assert list(tree(session)) == ["10000002", "10000001"]


def test_entries_without_readable_time_get_one(tmp_path: Path) -> None:
    """Of its message, else of the entry before; what cannot be read is reported with its line."""
    lines = [
        '{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"q","timestamp":1767225660000}}',
        entry("branch_summary", "b", "a", summary="S", fromId="a").replace('"2026-01-01T00:01:00.000Z"', "5"),
        entry("custom", "c", "b").replace("2026-01-01T00:01:00.000Z", "?"),
        user("d", "c", minute=9),
        entry("custom", "e", "d").replace("2026-01-01T00:01:00.000Z", "2026-01-01T10:00:00.000+09:00"),
    ]
    session = read(tmp_path, header(), *lines)
    assert [one.time_ms for one in session.entries] == [1767225660000] * 3 + [1767226140000, 1767229200000]
    assert codes(session) == [(2, "no_time"), (3, "no_time"), (4, "no_time")]
    assert session.entries[4].timestamp == "2026-01-01T10:00:00.000+09:00"
    assert [one.extra for one in session.entries[:4]] == [None, '{"timestamp":5}', '{"timestamp":"?"}', None]


def test_without_any_readable_time_the_header_gives_it(tmp_path: Path) -> None:
    bare = '{"type":"custom","id":"a","parentId":null}'
    assert read(tmp_path, header(), bare).entries[0].time_ms == 1767225600000
    assert read(tmp_path, header(timestamp="nonsense"), bare).entries[0].time_ms is None


def test_a_message_entry_without_message_is_kept(tmp_path: Path) -> None:
    lines = [user("a", None), entry("message", "z", "a"), entry("message", "y", "z", message=None), user("b", "y")]
    session = read(tmp_path, header(), *lines)
    assert [one.to_dict() for one in session.entries] == [json.loads(line) for line in lines]
    assert codes(session) == [(3, "no_message"), (4, "no_message")]


def test_a_second_header_is_left_out(tmp_path: Path) -> None:
    session = read(tmp_path, header(), user("a", None), header(id="second", cwd="/other"), answer("b", "a"))
    assert (session.id, session.cwd) == ("s1", "/proj/demo")
    assert tree(session) == {"a": None, "b": "a"}
    assert codes(session) == [(3, "second_header")]
    assert session.tally.skipped == 1


def test_damage_before_the_header_is_reported(tmp_path: Path) -> None:
    session = read(tmp_path, "", "{oops", "   ", header(), user("a", None))
    assert session.id == "s1"
    assert lost(session) == [(2, "torn")]


def test_a_chain_of_twenty_thousand_entries_is_read_in_any_order(tmp_path: Path) -> None:
    lines = [user(f"{n:08x}", f"{n - 1:08x}" if n else None, "x") for n in range(20_000)]
    assert len(tree(read(tmp_path, header(), *lines))) == 20_000
    session = read(tmp_path, header(), *reversed(lines))
    assert session.repairs == ()
    assert session.leaf == "00000000"
