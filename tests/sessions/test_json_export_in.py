"""Our own JSON, read back: the same session in another store, shared in its own, damaged files kept as far as whole."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import SourceError
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.json_export import export_lines
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import identify
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import FORMATS, SAMPLES
from tests.sessions.pi_files import CASES, FIXTURES, check
from tests.sessions.stores import START_MS, rows_in, talk
from tests.strategies import user

SOURCES = [
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
    *sorted(SAMPLES.glob("*.jsonl")),
    *sorted(CASES.glob("s*/*.jsonl")),
    *sorted(path for path in FORMATS.rglob("*") if path.suffix in (".json", ".jsonl")),
]


def exported(store: SessionStore, sid: str, *, whole_tree: bool = True) -> str:
    session = store.session(sid)
    return "".join(export_lines(read_export(store, session, session.leaf, whole_tree=whole_tree)))


def facts_of(text: str) -> dict[str, Any]:
    """What an export says, without the time of the latest change, which a store tells anew."""
    value: dict[str, Any] = json.loads(text)
    del value["session"]["updated"]
    return value


def read_back(folder: Path, text: str, name: str = "export.json") -> ParsedSession:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    found = identify(str(path))
    assert found.format is not None, found.reason
    assert found.format.name == "pi-session"
    (session,) = found.format.read(str(path))
    check(session)
    return session


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore.open(str(tmp_path / "other.db")) as opened:
        yield opened


@pytest.fixture
def full(store: SessionStore) -> str:
    """Return a session with all that a session can have."""
    sid = store.create_session(cwd="/proj", name="Bakery").id
    first = talk(store, sid, "one", "two", "three", "four")
    store.create_branch(sid, "side", at=first[1])
    store.switch(sid, "side")
    store.append(sid, user("on the side"))
    store.rewind(sid, first[0])
    store.append(sid, user("elsewhere"))
    store.create_branch(sid, "start", at=None)
    store.set_label(sid, first[1], "good")
    store.set_label(sid, first[3], "end")
    store.set_pinned(sid, True)
    store.set_archived(sid, True)
    store.append_message(sid, {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]})
    return sid


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: "-".join(path.parts[-2:])[-40:])
def test_every_session_comes_back_as_it_was(tmp_path: Path, source: Path, other: SessionStore) -> None:
    found = identify(str(source))
    if found.format is None:
        assert source.name != "export.json"
        return
    with SessionStore.open(str(tmp_path / "one.db")) as one:
        for parsed in found.format.read(str(source)):
            sid = one.import_session(parsed).session.id
            text = exported(one, sid)
            again = read_back(tmp_path, text)
            assert (again.repairs, again.losses) == ((), ())
            result = other.import_session(again)
            assert result.session.id == sid
            assert facts_of(exported(other, sid)) == facts_of(text)
            before = rows_in(one, "entries")
            home = one.import_session(again)
            assert (home.session.id, home.added, home.new_branch, home.moved_main) == (sid, 0, None, False)
            assert rows_in(one, "entries") == before
            assert facts_of(exported(one, sid)) == facts_of(text)


def test_branches_facts_and_pictures_come_back(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore
) -> None:
    text = exported(store, full)
    result = other.import_session(read_back(tmp_path, text))
    assert result.session.id == full
    assert facts_of(exported(other, full)) == facts_of(text)
    session = other.session(full)
    assert (session.name, session.cwd, session.archived, session.pinned) == ("Bakery", "/proj", True, True)
    assert (session.branch, session.leaf) == ("side", store.session(full).leaf)
    assert [(each.name, each.leaf) for each in other.branches(full)] == [
        (each.name, each.leaf) for each in store.branches(full)
    ]
    assert other.tips(full) == store.tips(full)
    assert session.created_ms == START_MS
    assert rows_in(other, "blobs") == rows_in(store, "blobs")


def test_an_import_of_an_export_is_one_operation_that_can_be_undone(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore
) -> None:
    parsed = read_back(tmp_path, exported(store, full))
    result = other.import_session(parsed)
    assert result.op is not None
    other.undo(full)
    assert [each.id for each in other.sessions(archived=True)] == []
    assert other.import_session(parsed).removed_before
    other.import_session(parsed, restore=True)
    assert facts_of(exported(other, full)) == facts_of(exported(store, full))


def test_a_fork_names_its_origin_and_shares_with_it(tmp_path: Path, store: SessionStore, other: SessionStore) -> None:
    sid = store.create_session(cwd="/p").id
    entries = talk(store, sid, "one", "two", "three", "four")
    fork = store.fork(sid, at=entries[1]).id
    store.append(fork, user("another way"))
    texts = {each: exported(store, each) for each in (sid, fork)}
    for order in ((sid, fork), (fork, sid)):
        with SessionStore.open(str(tmp_path / f"{order[0]}.db")) as fresh:
            for each in order:
                fresh.import_session(read_back(tmp_path, texts[each]))
            assert rows_in(fresh, "entries") == 5
            for each in order:
                assert facts_of(exported(fresh, each)) == facts_of(texts[each])
    assert fresh_origin(texts[fork]) == (sid, entries[1])


def fresh_origin(text: str) -> tuple[str, str]:
    session = json.loads(text)["session"]
    return session["origin"], session["originEntry"]


def test_an_export_that_grew_moves_what_was_not_moved_here(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore
) -> None:
    other.import_session(read_back(tmp_path, exported(store, full)))
    store.append(full, user("more"))
    store.switch(full, "main")
    store.append(full, user("more on main"))
    text = exported(store, full)
    result = other.import_session(read_back(tmp_path, text))
    assert (result.added, result.new_branch) == (2, None)
    wanted = facts_of(text) | {"leaf": other.session(full).leaf}
    given = facts_of(exported(other, full))
    assert {each["name"]: each["leaf"] for each in given["branches"]} == {
        each["name"]: each["leaf"] for each in wanted["branches"]
    }
    assert other.import_session(read_back(tmp_path, text)).unchanged


def test_a_session_that_went_on_in_both_stores_has_two_branches(
    tmp_path: Path, store: SessionStore, other: SessionStore
) -> None:
    sid = store.create_session(cwd="/p").id
    talk(store, sid, "one", "two")
    other.import_session(read_back(tmp_path, exported(store, sid)))
    here = other.append(sid, user("here")).id
    there = store.append(sid, user("there")).id
    result = other.import_session(read_back(tmp_path, exported(store, sid)))
    assert (result.added, result.new_branch) == (1, "main-2")
    assert {each.name: each.leaf for each in other.branches(sid)} == {"main": here, "main-2": there}
    assert other.session(sid).leaf == here


def test_what_the_person_named_here_stays(tmp_path: Path, store: SessionStore, other: SessionStore) -> None:
    sid = store.create_session(cwd="/p", name="Theirs").id
    talk(store, sid, "one", "two")
    other.import_session(read_back(tmp_path, exported(store, sid)))
    other.set_name(sid, "Mine")
    store.append(sid, user("three"))
    other.import_session(read_back(tmp_path, exported(store, sid)))
    assert other.session(sid).name == "Mine"


def test_an_export_of_the_path_is_the_path(tmp_path: Path, store: SessionStore, full: str, other: SessionStore) -> None:
    text = exported(store, full, whole_tree=False)
    parsed = read_back(tmp_path, text)
    assert parsed.repairs == ()
    other.import_session(parsed)
    assert [entry.to_dict() for entry in other.entries(full)] == json.loads(text)["entries"]
    assert other.session(full).leaf == store.session(full).leaf


def test_a_session_before_its_first_entry_comes_back(tmp_path: Path, store: SessionStore, other: SessionStore) -> None:
    empty = store.create_session(cwd="/p", name="Nothing yet").id
    begun = store.create_session(cwd="/p").id
    talk(store, begun, "one", "two")
    store.rewind(begun, None)
    for sid in (empty, begun):
        text = exported(store, sid)
        for target in (other, store):
            assert target.import_session(read_back(tmp_path, text)).session.id == sid
        assert facts_of(exported(other, sid)) == facts_of(text)
    assert len(store.sessions()) == 2


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_that_another_program_wrote_anew_is_the_same(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore, indent: int | None
) -> None:
    text = exported(store, full)
    parsed = read_back(tmp_path, json.dumps(json.loads(text), indent=indent))
    assert (parsed.repairs, parsed.losses) == ((), ())
    other.import_session(parsed)
    assert facts_of(exported(other, full)) == facts_of(text)


def test_a_compressed_export_is_the_same(tmp_path: Path, store: SessionStore, full: str) -> None:
    text = exported(store, full)
    path = tmp_path / "export.json.gz"
    path.write_bytes(gzip.compress(text.encode()))
    found = identify(str(path))
    assert found.format is not None
    (packed,) = found.format.read(str(path))
    plain = read_back(tmp_path, text)
    assert packed.replace(source="", mtime_ms=0) == plain.replace(source="", mtime_ms=0, entries=packed.entries)
    assert [entry.to_dict() for entry in packed.entries] == [entry.to_dict() for entry in plain.entries]


def test_a_file_of_version_1_is_read_for_ever(tmp_path: Path, other: SessionStore) -> None:
    text = (FORMATS / "pi-session" / "export.json").read_text("utf-8")
    session = read_back(tmp_path, text)
    assert (session.id, session.name, session.leaf) == ("0195c0de-0000-7000-8000-00000000000a", "Bakery", "e008")
    assert [entry.type for entry in session.entries] == ["message"] * 6 + ["compaction", "x_unknown"]
    assert session.labels == {"e002": ("good", START_MS)}
    assert session.state is not None
    assert session.state.branches == (("main", "e004"), ("side", "e008"), ("start", None))
    assert (session.state.current, session.state.pinned, session.state.archived) == ("side", True, False)
    other.import_session(session)
    assert other.tips(session.id) == ["e005"]
    assert facts_of(exported(other, session.id)) == facts_of(text)


def test_an_export_of_a_later_version_is_refused(tmp_path: Path, store: SessionStore, full: str) -> None:
    path = tmp_path / "export.json"
    for indent in (None, 1):
        value = json.loads(exported(store, full))
        value["version"] = 2
        path.write_text(json.dumps(value, indent=indent))
        found = identify(str(path))
        assert found.format is not None
        with pytest.raises(SourceError, match="version 2") as refused:
            list(found.format.read(str(path)))
        assert "update" in str(refused.value.hint)


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_cut_export_keeps_every_whole_entry_and_says_so(tmp_path: Path, store: SessionStore, full: str) -> None:
    text = exported(store, full)
    raw = text.encode()
    whole = [entry["id"] for entry in json.loads(text)["entries"]]
    begins = text.index('"entries":[')
    for cut in range(begins, len(raw) - 4, 7):
        session = read_back(tmp_path, raw[:cut].decode())
        kept = [entry.id for entry in session.entries]
        assert kept == whole[: len(kept)]
        assert session.losses
        assert len(kept) >= raw[:cut].count(b"},\n")
        assert session.id == full


def test_facts_about_entries_that_are_gone_are_left_out_and_named(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore
) -> None:
    lines = exported(store, full).splitlines(keepends=True)
    main = next(each.leaf for each in store.branches(full) if each.name == "main")
    kept = [line for line in lines if f'"id":"{main}"' not in line]
    session = read_back(tmp_path, "".join(kept))
    assert [repair.code for repair in session.repairs] == ["branch_leaf", "label_target"]
    other.import_session(session)
    assert {each.name for each in other.branches(full)} == {"side", "start"}


def test_damaged_facts_are_a_loss_and_the_entries_stay(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore
) -> None:
    text = exported(store, full)
    session = read_back(tmp_path, text.replace('"wholeTree":true', '"wholeTree":tru', 1))
    assert "facts" in [loss.code for loss in session.losses]
    assert len(session.entries) == len(json.loads(text)["entries"])
    assert len(other.entries(other.import_session(session).session.id)) == len(session.entries)


@pytest.mark.parametrize("indent", [None, 1])
def test_damage_anywhere_breaks_nothing(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore, indent: int | None
) -> None:
    chance = random.Random(indent)
    text = exported(store, full)
    raw = text.encode() if indent is None else json.dumps(json.loads(text), indent=indent).encode()
    path = tmp_path / "export.json"
    read = 0
    for _turn in range(300):
        damaged = bytearray(raw)
        at, length = chance.randrange(40, len(raw)), chance.choice((1, 1, 8, 60))
        match chance.randrange(4):
            case 0:
                damaged[at] ^= 1 << chance.randrange(8)
            case 1:
                del damaged[at : at + length]
            case 2:
                damaged[at : at + length] = bytes(length)
            case _:
                damaged[at:at] = damaged[at - length : at]
        path.write_bytes(damaged)
        found = identify(str(path))
        if found.format is None:
            assert found.reason
            continue
        try:
            sessions = list(found.format.read(str(path)))
        except SourceError:
            continue
        for session in sessions:
            check(session)
            other.import_session(session)
            read += 1
    assert read > 200


ODD: list[Any] = [{"a": 1}, ["x"], 7, None, "", "\ud800", True]


@pytest.mark.parametrize("name", ["session", "leaf", "branches", "tips", "labels", "entries", "version", "wholeTree"])
def test_odd_facts_are_not_believed(
    tmp_path: Path, store: SessionStore, full: str, other: SessionStore, name: str
) -> None:
    value = json.loads(exported(store, full))
    given = value[name]
    made = [{**value, name: odd} for odd in ODD]
    if isinstance(given, dict):
        made += [{**value, name: {**given, field: odd}} for field in given for odd in ODD]
    elif isinstance(given, list) and isinstance(given[0], dict):
        made += [{**value, name: [{**given[0], field: odd}]} for field in given[0] for odd in ODD]
    path = tmp_path / "export.json"
    for changed in made:
        path.write_text(json.dumps(changed))
        found = identify(str(path))
        assert found.format is not None
        try:
            sessions = list(found.format.read(str(path)))
        except SourceError:
            assert changed["version"] == 7
            continue
        for session in sessions:
            check(session)
            other.import_session(session)


# --- any history ---------------------------------------------------------------------------------------------------


def work_at_random(store: SessionStore, chance: random.Random, steps: int) -> None:
    """Do what a person might: talk, go back, branch, fork, name, label, undo."""
    store.create_session(cwd="/p")
    for step in range(steps):
        session = chance.choice(store.sessions(archived=True, limit=None))
        sid, entries = session.id, store.entries(session.id)
        branches = [each.name for each in store.branches(sid)]
        entry = chance.choice(entries).id if entries else None
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                talk(store, sid, *(f"text {step}.{number}" for number in range(chance.randrange(1, 4))))
            case 4:
                store.rewind(sid, chance.choice([entry, entry, None]))
            case 5:
                store.create_branch(sid, f"branch-{step}", at=chance.choice([entry, None]))
            case 6:
                store.switch(sid, chance.choice(branches))
            case 7:
                store.fork(sid, at=entry, all_branches=chance.random() < 0.3)
            case 8 if entry:
                store.set_label(sid, entry, chance.choice([f"label {step}", None]))
            case 9:
                store.set_name(sid, chance.choice([f"name {step}", None]))
                store.rename_branch(sid, chance.choice(branches), f"renamed-{step}")
            case 10:
                others = [name for name in branches if name != session.branch]
                if others:
                    store.delete_branch(sid, chance.choice(others))
                store.set_pinned(sid, chance.random() < 0.5)
            case 11 if entry:
                store.append(sid, {"type": "compaction", "summary": "s", "firstKeptEntryId": entry, "tokensBefore": 1})


@pytest.mark.parametrize("seed", range(40))
def test_any_history_comes_back(tmp_path: Path, store: SessionStore, other: SessionStore, seed: int) -> None:
    chance = random.Random(seed)
    work_at_random(store, chance, 40)
    texts = {session.id: exported(store, session.id) for session in store.sessions(archived=True, limit=None)}
    order = list(texts)
    chance.shuffle(order)
    for sid in order:
        assert other.import_session(read_back(tmp_path, texts[sid])).session.id == sid
    for sid, text in texts.items():
        assert in_one_order(facts_of(exported(other, sid))) == in_one_order(facts_of(text))
        with SessionStore.open(str(tmp_path / f"{sid}.db")) as alone:
            alone.import_session(read_back(tmp_path, text))
            assert in_one_order(facts_of(exported(alone, sid))) == in_one_order(facts_of(text))
        result = store.import_session(read_back(tmp_path, text))
        assert (result.session.id, result.added, result.unchanged) == (sid, 0, True)
        assert facts_of(exported(store, sid)) == facts_of(text)
    assert rows_in(other, "entries") == rows_in(store, "entries")


def in_one_order(facts: dict[str, Any]) -> dict[str, Any]:
    """Shared entries come first in an export, and which those are depends on the other sessions of the store."""
    return facts | {"entries": sorted(facts["entries"], key=lambda entry: str(entry["id"])), "tips": set(facts["tips"])}
