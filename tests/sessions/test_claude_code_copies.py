"""Copies of Claude Code sessions share what they repeat, whatever they left out and whatever comes in first."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import read_all, text_of, write_lines
from tests.sessions.stores import open_store

Line = dict[str, Any]


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def spoken(session: str, number: int, parent: int | None, text: str) -> Line:
    """Return a question (even numbers) or an answer, `number` seconds into the conversation."""
    base = {"uuid": uuid(number), "parentUuid": None if parent is None else uuid(parent), "sessionId": session,
            "timestamp": f"2026-04-01T10:00:{number:02}.000Z", "cwd": "/proj/bakery"}  # fmt: skip
    if number % 2 == 0:
        return {**base, "type": "user", "message": {"role": "user", "content": text}}
    answer = {"role": "assistant", "id": f"msg_{number}", "model": "claude-sonnet-4-5",
              "content": [{"type": "text", "text": text}], "usage": {"output_tokens": 1}}  # fmt: skip
    return {**base, "type": "assistant", "message": answer}


def noted(session: str, number: int) -> list[Line]:
    """Return records without a uuid, as the program puts them between messages."""
    snapshot = {"type": "file-history-snapshot", "messageId": uuid(number), "snapshot": {}, "isSnapshotUpdate": False}
    return [snapshot, {"type": "mode", "mode": "normal", "sessionId": session}]


def sessions_of(lines: list[Line], session: str, *, renumbered: bool, forked: str | None) -> list[Line]:
    """Return a copy of records under another session, perhaps under other uuids."""
    found = []
    for line in lines:
        copy = {**line, "sessionId": session} if "sessionId" in line else dict(line)
        if renumbered:
            for name in ("uuid", "parentUuid"):
                if copy.get(name):
                    copy[name] = f"{session[:4]}{copy[name][4:]}"
        elif forked is not None and "uuid" in copy:
            copy["forkedFrom"] = {"sessionId": forked, "messageUuid": copy["uuid"]}
        found.append(copy)
    return found


def take_in(folder: Path, order: tuple[str, ...]) -> SessionStore:
    store = open_store(folder / ("-".join(order) + ".db"))
    for name in order:
        for parsed in read_all(folder / f"{name}.jsonl"):
            store.import_session(parsed)
    return store


def told(store: SessionStore, session: str) -> Any:
    """Return what a session says; records that are no conversation left out."""
    path = [text_of(entry.message) for entry in store.path(session) if entry.message is not None]
    entries = Counter(text_of(entry.message) for entry in store.entries(session) if entry.message is not None)
    shown = [text_of(shown.message) for shown in store.context(session).messages]
    return path, entries, shown, store.session(session).message_count


def check_orders(folder: Path, names: tuple[str, ...], sessions: tuple[str, ...]) -> Counter[str]:
    """Import in every order: every session says the same, and no message is there twice that another order shares."""
    found = []
    for order in itertools.permutations(names):
        with take_in(folder, order) as store:
            assert store.verify() == []
            held = Counter(text_of(entry.message) for entry in every_entry(store) if entry.message is not None)
            found.append(([told(store, each) for each in sessions], held))
            for name in names:
                assert all(store.import_session(parsed).unchanged for parsed in read_all(folder / f"{name}.jsonl"))
            for name in names:
                text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
                rewritten = folder / f"{name}-rewritten.jsonl"
                rewritten.write_text("\n" + text, encoding="utf-8")
                for parsed in read_all(rewritten):
                    result = store.import_session(parsed)
                    assert (result.added, result.new_branch) == (0, None)
            assert store.verify() == []
            assert [told(store, each) for each in sessions] == found[-1][0]
    assert all(one == found[0] for one in found)
    return found[0][1]


def every_entry(store: SessionStore) -> list[Any]:
    keys = store.connection.execute("select key from entries").fetchall()
    return [store.forest.entry(key) for (key,) in keys]


def test_copies_without_the_records_between_messages_share_every_message(tmp_path: Path) -> None:
    talk = [spoken("a", number, number - 1 if number else None, f"text {number}") for number in range(4)]
    original = [*noted("a", 0), *talk[:2], *noted("a", 2), *talk[2:]]
    original.append({"type": "last-prompt", "lastPrompt": "text 2", "leafUuid": uuid(3), "sessionId": "a"})
    write_lines(tmp_path / "a.jsonl", *original)
    branch = sessions_of(talk, "bbbb", renumbered=False, forked="a")
    write_lines(tmp_path / "b.jsonl", *branch, spoken("bbbb", 4, 3, "branched"))
    copy = sessions_of([*talk, spoken("c", 6, 3, "copied")], "cccc", renumbered=True, forked=None)
    write_lines(tmp_path / "c.jsonl", *copy)
    held = check_orders(tmp_path, ("a", "b", "c"), ("a", "bbbb", "cccc"))
    assert held == dict.fromkeys([*(f"text {number}" for number in range(4)), "branched", "copied"], 1)


def test_a_session_stored_with_its_notes_in_the_line_goes_on_there(tmp_path: Path) -> None:
    """A source that grew is known again although the program rewrote it without its notes."""
    talk = [spoken("a", number, number - 1 if number else None, f"text {number}") for number in range(4)]
    with open_store(tmp_path / "s.db") as store:
        (first,) = read_all(write_lines(tmp_path / "a.jsonl", *talk[:1], *noted("a", 1), *talk[1:2], *noted("a", 2)))
        store.import_session(first)
        (again,) = read_all(write_lines(tmp_path / "a.jsonl", *talk))
        result = store.import_session(again)
        assert (result.added, result.shared, result.new_branch) == (2, 2, None)
        assert told(store, "a")[0] == [f"text {number}" for number in range(4)]


def test_a_copy_that_begins_in_the_middle_joins_the_session_it_was_made_from(tmp_path: Path) -> None:
    talk = [spoken("a", number, number - 1 if number else None, f"text {number}") for number in range(6)]
    original = write_lines(tmp_path / "a.jsonl", *talk[:3], *noted("a", 3), *talk[3:])
    copied = [*sessions_of(talk[3:], "bbbb", renumbered=False, forked=None), spoken("bbbb", 40, 5, "on a copy")]
    copy = write_lines(tmp_path / "b.jsonl", *noted("bbbb", 9), *copied)
    whole = [f"text {number}" for number in range(6)]
    with open_store(tmp_path / "s.db") as store:
        for path in (original, copy):
            (parsed,) = read_all(path)
            result = store.import_session(parsed)
        assert (result.shared, result.session.message_count, result.session.origin) == (3, 7, "a")
        assert told(store, "bbbb")[0] == [*whole, "on a copy"]
        assert told(store, "a")[0] == whole
        assert store.verify() == []
        (grown,) = read_all(write_lines(copy, *noted("bbbb", 9), *copied, spoken("bbbb", 41, 40, "and on")))
        result = store.import_session(grown)
        assert (result.added, result.new_branch, result.session.message_count) == (1, None, 8)
        assert told(store, "bbbb")[0] == [*whole, "on a copy", "and on"]
        assert store.verify() == []
    with open_store(tmp_path / "alone.db") as store:
        for path in (copy, original, copy):
            (parsed,) = read_all(path)
            result = store.import_session(parsed)
        assert (result.added, store.verify()) == (0, [])
        assert told(store, "a")[0] == whole
        assert told(store, "bbbb")[0] == [*whole[3:], "on a copy", "and on"]


@st.composite
def families(draw: st.DrawFn) -> dict[str, list[Line]]:
    """Draw a session with notes and rewinds, and copies of paths of it with and without these."""
    size = draw(st.integers(1, 8))
    tree: list[tuple[Line, list[Line]]] = []
    parents: list[int | None] = []
    for number in range(size):
        parents.append(draw(st.integers(0, number - 1)) if number else None)
        notes = noted("a", number) if draw(st.booleans()) else []
        text = draw(st.sampled_from(("same", f"text {number}")))
        tree.append((spoken("a", number, parents[number], text), notes))
    files = {"a": [line for said, notes in tree for line in (*notes, said)]}
    for name in ("bbbb", "cccc")[: draw(st.integers(1, 2))]:
        at: int | None = draw(st.integers(0, size - 1))
        own = spoken(name, 40 + len(files) * 2, at, f"own {name}")
        path: list[Line] = []
        kept = draw(st.booleans())
        while at is not None:
            path[:0] = [*(tree[at][1] if kept else []), tree[at][0]]
            at = parents[at]
        renumbered, forked = draw(st.booleans()), draw(st.sampled_from((None, "a")))
        files[name] = sessions_of([*path, own], name, renumbered=renumbered, forked=forked)
    return files


@settings(max_examples=25, deadline=None)
@given(families())
def test_the_order_of_importing_copies_makes_no_difference(files: dict[str, list[Line]]) -> None:
    with tempfile.TemporaryDirectory(prefix="pi-session-copies-") as name:
        folder = Path(name)
        for each, lines in files.items():
            write_lines(folder / f"{each}.jsonl", *lines)
        held = check_orders(folder, tuple(files), tuple(files))
        said = [line["message"]["content"] for line in files["a"] if "message" in line]
        texts = Counter(text if isinstance(text, str) else text[0]["text"] for text in said)
        assert held == texts + Counter(f"own {each}" for each in files if each != "a")
