"""Taking in session files: again, grown, forked, removed, renamed, and in any order."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats.pi import ParsedSession, pi_lines, read_pi_file
from pi_sessions.results import ImportResult
from pi_sessions.store import SessionStore
from tests.sessions.pi_files import answer, as_line, entry, header, user, write
from tests.sessions.stores import SteadyClock, ids, open_store, rows_in, talk
from tests.strategies import user as draft

SEED = (header(), user("a", None, "question", 1), answer("b", "a", "answer", 2))


def take(store: SessionStore, folder: Path, *lines: str, name: str = "a.jsonl", **options: Any) -> ImportResult:
    """Write a file and import it."""
    return store.import_session(parse(folder, *lines, name=name), **options)


def parse(folder: Path, *lines: str, name: str = "a.jsonl") -> ParsedSession:
    return read_pi_file(write(folder, *lines, name=name))


def test_an_import_makes_a_session_of_the_same_id_with_everything_in_it(store: SessionStore, tmp_path: Path) -> None:
    lines = (
        *SEED,
        entry("label", "l", "b", 3, targetId="a", label="here"),
        entry("session_info", "n", "l", 4, name="N"),
    )
    result = take(store, tmp_path, *lines, place="/proj/demo")
    session = result.session
    assert (session.id, session.cwd, session.name, session.leaf) == ("s1", "/proj/demo", "N", "n")
    assert (result.created, result.added, result.shared, result.unchanged) == (True, 4, 0, False)
    assert store.labels("s1")["a"].text == "here"
    assert store.current_session("/proj/demo") == session
    assert [as_line(one.to_dict()) for one in store.entries("s1")] == [
        as_line(one.to_dict()) for one in read_pi_file(str(tmp_path / "a.jsonl")).entries
    ]
    assert store.verify() == []


def test_importing_again_adds_nothing(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    before = list(store.connection.iterdump())
    again = take(store, tmp_path, *SEED)
    assert (again.unchanged, again.added, again.shared, again.created, again.op) == (True, 0, 2, False, None)
    assert list(store.connection.iterdump()) == before


def test_the_same_session_from_another_place_adds_no_entry(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    (tmp_path / "copy").mkdir()
    again = take(store, tmp_path / "copy", *SEED, "", name="b.jsonl")
    assert (again.session.id, again.unchanged, again.added, again.shared) == ("s1", True, 0, 2)
    assert len(store.sessions()) == 1


def test_a_source_that_grew_moves_an_untouched_main_forward(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    grown = take(store, tmp_path, *SEED, user("c", "b", "more", 3))
    assert (grown.added, grown.shared, grown.moved_main, grown.new_branch) == (1, 2, True, None)
    assert store.leaf("s1") == "c"
    assert grown.session.message_count == 3
    assert [branch.name for branch in store.branches("s1")] == ["main"]
    store.undo("s1")
    assert store.leaf("s1") == "b"


def test_a_source_that_grew_becomes_a_branch_when_main_was_touched(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    (mine,) = talk(store, "s1", "my own")
    grown = take(store, tmp_path, *SEED, user("c", "b", "more", 3))
    assert (grown.moved_main, grown.new_branch) == (False, "main-2")
    assert {branch.name: branch.leaf for branch in store.branches("s1")} == {"main": mine, "main-2": "c"}
    assert store.session("s1").branch == "main"
    assert set(ids(store.entries("s1"))) == {"a", "b", "c", mine}
    assert store.verify() == []


def test_a_main_that_was_rewound_stays_where_the_person_put_it(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    store.rewind("s1", "a")
    grown = take(store, tmp_path, *SEED, user("c", "b", "more", 3))
    assert grown.new_branch is not None
    assert store.leaf("s1") == "a"
    assert store.leaf("s1", grown.new_branch) == "c"


def test_a_source_that_only_moved_its_leaf_moves_an_untouched_main(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED, user("c", "b", "more", 3))
    again = take(store, tmp_path, *SEED, user("c", "b", "more", 3), answer("d", "a", "other", 4))
    assert (again.moved_main, store.leaf("s1")) == (True, "d")
    assert store.tips("s1") == ["c"]


def test_a_removed_session_is_not_brought_back_unless_asked(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    store.delete_session("s1")
    before = list(store.connection.iterdump())
    again = take(store, tmp_path, *SEED, user("c", "b", "more", 3))
    assert (again.removed_before, again.added) == (True, 0)
    assert list(store.connection.iterdump()) == before
    restored = take(store, tmp_path, *SEED, user("c", "b", "more", 3), restore=True)
    assert (restored.session.deleted, restored.added, store.leaf("s1")) == (False, 1, "c")


def test_a_renamed_session_is_not_renamed_back(store: SessionStore, tmp_path: Path, clock: SteadyClock) -> None:
    named = (*SEED, entry("session_info", "n", "b", 3, name="Theirs"))
    take(store, tmp_path, *named)
    clock.now_ms += 1000
    store.set_name("s1", "Mine")
    take(store, tmp_path, *named, entry("session_info", "o", "n", 4, name="Theirs again"))
    assert store.session("s1").name == "Mine"
    store.set_name("s1", None)
    take(store, tmp_path, *named, user("c", "n", "more", 5))
    assert store.session("s1").name is None


def test_a_name_the_source_gets_later_is_taken(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    take(store, tmp_path, *SEED, entry("session_info", "n", "b", 3, name="Theirs"))
    assert store.session("s1").name == "Theirs"


def test_a_label_the_person_cleared_or_changed_does_not_come_back(
    store: SessionStore, tmp_path: Path, clock: SteadyClock
) -> None:
    labels = (
        entry("label", "l", "b", 3, targetId="a", label="theirs"),
        entry("label", "m", "l", 4, targetId="b", label="theirs"),
    )
    take(store, tmp_path, *SEED, *labels)
    clock.now_ms += 1000
    store.set_label("s1", "a", None)
    store.set_label("s1", "b", "mine")
    take(store, tmp_path, *SEED, *labels, user("c", "m", "more", 5))
    assert {label.entry_id: label.text for label in store.labels("s1").values()} == {"b": "mine"}


def test_the_same_id_with_other_content_gets_a_session_id_of_its_own(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    other = take(store, tmp_path, header(), user("a", None, "something else", 1), name="b.jsonl")
    assert (other.created, other.session.id, other.session.leaf) == (True, "s1-2", "a")
    third = take(store, tmp_path, header(), user("x", None, "third", 1), name="c.jsonl")
    assert third.session.id == "s1-3"
    assert store.session("s1").first_message == "question"
    again = take(store, tmp_path, header(), user("a", None, "something else", 1), name="b.jsonl")
    assert (again.unchanged, again.session.id) == (True, "s1-2")
    assert store.verify() == []


def test_an_id_that_has_other_content_in_the_session_gets_a_new_one(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    changed = (header(), user("a", None, "question", 1), answer("b", "a", "another answer", 2))
    compaction = entry("compaction", "k", "b", 3, summary="s", firstKeptEntryId="b", tokensBefore=1)
    result = take(store, tmp_path, *changed, compaction)
    ((old, new),) = result.renamed_entries
    assert (old, result.added, result.shared) == ("b", 2, 1)
    assert store.entry("s1", "k").fields["firstKeptEntryId"] == new
    assert store.entry("s1", "k").parent_id == new
    texts = {one.id: (one.message or {})["content"][0]["text"] for one in store.entries("s1") if one.message}
    assert texts == {"a": "question", "b": "answer", new: "another answer"}
    assert len(store.context("s1").messages) == 2
    assert store.verify() == []


FAMILY = {
    "parent": (header(id="parent"), user("a", None, "q", 1), answer("b", "a", "x", 2), user("c", "b", "y", 3)),
    "fork": (header(id="fork"), user("a", None, "q", 1), answer("b", "a", "x", 2), user("d", "b", "z", 4)),
    "deep": (
        header(id="deep"),
        *(user("a", None, "q", 1), answer("b", "a", "x", 2), user("d", "b", "z", 4), answer("e", "d", "w", 5)),
    ),
    "labelled": (
        header(id="labelled"),
        user("a", None, "q", 1),
        entry("label", "l", "a", 6, targetId="a", label="here"),
        answer("b", "l", "x", 2),
    ),
}


PATHS = {"parent": list("abc"), "fork": list("abd"), "deep": list("abde"), "labelled": list("ab")}


@pytest.mark.parametrize("order", list(itertools.permutations(FAMILY)))
def test_forks_of_one_another_share_entries_whatever_the_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    files = {name: write(tmp_path, *FAMILY[name], name=f"{name}.jsonl") for name in order}
    with open_store(tmp_path / "s.db") as store:
        for name in order:
            store.import_session(read_pi_file(files[name]))
        for name in order:
            parsed = read_pi_file(files[name])
            stored = store.entries(name)
            assert {one.id for one in stored} >= {one.id for one in parsed.entries}
            labels = {one.id: one.parent_id for one in stored if one.type == "label"}
            unlabelled = [one.id for one in store.path(name) if one.id not in labels]
            assert unlabelled == PATHS[name]
            assert store.session(name).message_count == sum(one.type == "message" for one in stored)
            assert store.import_session(parsed).unchanged
        stored_once = store.connection.execute("select id from entries order by id").fetchall()
        assert [one for (one,) in stored_once] == [*"abcdel"]
        assert store.verify() == []


def test_equal_beginnings_of_different_content_stay_apart(store: SessionStore, tmp_path: Path) -> None:
    take(store, tmp_path, *SEED)
    other = take(
        store, tmp_path, header(id="s2"), user("a", None, "question", 1), answer("b", "a", "else", 2), name="b.jsonl"
    )
    assert (other.shared, other.added) == (1, 1)
    assert (store.entry("s1", "b").message or {})["content"] != (store.entry("s2", "b").message or {})["content"]
    assert ids(store.entries("s1")) == ids(store.entries("s2")) == ["a", "b"]


@pytest.mark.parametrize("order", [("parent", "fork"), ("fork", "parent")])
@pytest.mark.parametrize("named", ["{folder}/p.jsonl", "/elsewhere/2026-01-01T00-00-00-000Z_parent.jsonl"])
def test_a_fork_finds_its_origin_whatever_the_order(tmp_path: Path, order: tuple[str, str], named: str) -> None:
    parent = write(tmp_path, *FAMILY["parent"], name="p.jsonl")
    origin = named.format(folder=tmp_path)
    fork = write(tmp_path, header(id="fork", parentSession=origin), *FAMILY["fork"][1:], name="f.jsonl")
    with open_store(tmp_path / "s.db") as store:
        for name in order:
            store.import_session(read_pi_file(parent if name == "parent" else fork))
        assert store.session("fork").origin == "parent"
        assert store.session("parent").origin is None


def test_a_removed_parent_harms_no_imported_fork(store: SessionStore, tmp_path: Path) -> None:
    for name in ("parent", "fork"):
        take(store, tmp_path, *FAMILY[name], name=f"{name}.jsonl")
    store.delete_session("parent")
    assert ids(store.path("fork")) == ["a", "b", "d"]
    assert store.verify() == []


def test_the_source_is_not_touched(store: SessionStore, tmp_path: Path) -> None:
    path = Path(write(tmp_path, *SEED))
    before = path.read_bytes(), path.stat().st_mtime_ns
    store.import_session(read_pi_file(str(path)))
    talk(store, "s1", "more")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_what_was_repaired_is_remembered_with_line_and_original(store: SessionStore, tmp_path: Path) -> None:
    result = take(store, tmp_path, *SEED, "{oops", user("d", "gone", "more", 4))
    rows = store.connection.execute("select line, code, lost, original from repairs order by line").fetchall()
    assert rows == [(4, "torn", 1, b"{oops\n"), (5, "missing_parent", 0, None)]
    assert result.session.leaf == "d"


def test_an_import_is_undone_and_redone_as_one_operation(store: SessionStore, tmp_path: Path) -> None:
    result = take(store, tmp_path, *SEED)
    assert result.op is not None
    assert store.undo("s1").session.deleted
    assert store.sessions() == []
    assert not store.redo("s1").session.deleted
    assert ids(store.path("s1")) == ["a", "b"]


def test_an_import_that_fails_leaves_nothing_behind(store: SessionStore, tmp_path: Path) -> None:
    parsed = parse(tmp_path, *SEED)
    before = list(store.connection.iterdump())
    entries = (*parsed.entries, parsed.entries[0])
    broken = parsed.replace(entries=entries, parent_ref=object())
    with pytest.raises(Exception, match="type"):
        store.import_session(broken)
    assert list(store.connection.iterdump()) == before


def test_an_exported_fork_comes_back_as_the_session_it_is(store: SessionStore, tmp_path: Path) -> None:
    """What goes out as a fork of an imported session and comes in again is recognised, and adds nothing."""
    take(store, tmp_path, *SEED)
    fork = store.fork("s1", id="f1")
    store.append(fork.id, draft("in the fork"))
    store.set_label(fork.id, "a", "start")
    labels = {label.entry_id: (label.text, label.time_ms) for label in store.labels(fork.id).values()}
    lines = pi_lines(
        {"id": fork.id, "cwd": fork.cwd, "timestamp": "2026-03-01T10:00:00.000Z"},
        store.entries(fork.id),
        leaf=store.leaf(fork.id),
        labels=labels,
        name="Mine",
    )
    path = tmp_path / "fork.jsonl"
    path.write_text("".join(lines))
    before = rows_in(store, "entries")
    result = store.import_session(read_pi_file(str(path)))
    assert (result.session.id, result.added, rows_in(store, "entries")) == ("f1", 0, before)
    assert store.labels("f1")["a"].text == "start"
    with open_store(tmp_path / "other.db") as other:
        other.import_session(read_pi_file(str(path)))
        assert [json.dumps(one.to_dict()) for one in other.path("f1")] == [
            json.dumps(one.to_dict()) for one in store.path("f1")
        ]
        assert other.session("f1").name == "Mine"


# --- copies of other ages ---------------------------------------------------------------------------------------------


def line(entry_id: str, parent: str | None, text: str, minute: int) -> dict[str, object]:
    message = {"role": "user", "content": text, "timestamp": 1767225600000 + minute * 60000}
    time = f"2026-01-01T00:{minute:02d}:00.000Z"
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": time, "message": message}


def source(folder: Path, *entries: dict[str, object]) -> ParsedSession:
    header = {"type": "session", "version": 3, "id": "sess-x", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"}
    path = folder / "source.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (header, *entries)), "utf-8")
    return read_pi_file(str(path))


START = (line("e1", None, "one", 1), line("e2", "e1", "two", 2), line("a1", "e2", "A", 3))
BRANCHED = (*START, line("b1", "e2", "B", 4), line("b2", "b1", "B2", 5))


@pytest.mark.parametrize("newest_first", [True, False])
def test_an_older_copy_moves_nothing_back(tmp_path: Path, newest_first: bool) -> None:
    copies = [source(tmp_path, *BRANCHED), source(tmp_path, *START)]
    with SessionStore.open(":memory:") as store:
        for copy in copies if newest_first else copies[::-1]:
            store.import_session(copy)
        assert store.leaf("sess-x") == "b2"
        assert store.tips("sess-x") == ["a1"]


def test_restoring_an_undone_import_brings_its_leaf_back(tmp_path: Path) -> None:
    with SessionStore.open(":memory:") as store:
        store.import_session(source(tmp_path, *START))
        store.undo("sess-x")
        assert store.import_session(source(tmp_path, *START)).removed_before
        assert store.import_session(source(tmp_path, *START), restore=True).session.leaf == "a1"
        grown = store.import_session(source(tmp_path, *START, line("a2", "a1", "A2", 6)))
        assert (grown.session.leaf, grown.new_branch) == ("a2", None)


def test_an_edited_entry_is_taken_in_once_however_the_source_grows(tmp_path: Path) -> None:
    chain = [line(f"k{n}", f"k{n - 1}" if n else None, f"text {n}", n) for n in range(4)]
    edited = [chain[0], line("k1", "k0", "edited", 1), *chain[2:]]
    added = []
    with SessionStore.open(":memory:") as store:
        for entries in (chain, edited, [*edited, line("k4", "k3", "x", 5)], [*edited, line("k4", "k3", "x", 5)]):
            added.append(store.import_session(source(tmp_path, *entries)).added)
        assert store.verify() == []
    assert added == [4, 3, 1, 0]


def test_the_branch_that_follows_the_source_goes_on_following_it(tmp_path: Path) -> None:
    with SessionStore.open(":memory:") as store:
        store.import_session(source(tmp_path, *START))
        store.append_message("sess-x", {"role": "user", "content": "mine"})
        assert store.import_session(source(tmp_path, *BRANCHED)).new_branch == "main-2"
        again = store.import_session(source(tmp_path, *BRANCHED, line("b3", "b2", "B3", 6)))
        assert again.new_branch is None
        assert store.leaf("sess-x", "main-2") == "b3"


def test_a_session_taken_back_before_its_first_entry_is_left_there(tmp_path: Path) -> None:
    with SessionStore.open(":memory:") as store:
        store.import_session(source(tmp_path, *START))
        store.rewind("sess-x", None)
        assert store.import_session(source(tmp_path, *BRANCHED)).new_branch == "main-2"
        assert store.leaf("sess-x") is None


def test_an_unchanged_source_still_becomes_the_current_session(tmp_path: Path) -> None:
    with SessionStore.open(":memory:") as store:
        store.import_session(source(tmp_path, *START), place="/here")
        other = store.create_session(place="/here")
        again = store.import_session(source(tmp_path, *START), place="/here")
        current = store.current_session("/here")
        assert again.unchanged
        assert current is not None
        assert current.id == "sess-x"
        store.undo("sess-x")
        current = store.current_session("/here")
        assert current is not None
        assert current.id == other.id


def test_the_log_is_written_back_as_before_once_many_sessions_are_in(store: SessionStore, tmp_path: Path) -> None:
    def setting(name: str) -> int:
        found: int = store.connection.execute(f"pragma {name}").fetchone()[0]
        return found

    before, cache = setting("wal_autocheckpoint"), setting("cache_size")
    with store.checkpoints_apart():
        take(store, tmp_path, *SEED)
        assert setting("wal_autocheckpoint") > 10 * before
        assert setting("cache_size") < cache < 0
    assert (setting("wal_autocheckpoint"), setting("cache_size")) == (before, cache)
    assert store.verify() == []
