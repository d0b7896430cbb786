"""Pictures are stored once by hash and come back byte for byte."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_sessions.blobs import take_out
from pi_sessions.formats.pi import pi_lines, read_pi_file
from pi_sessions.store import SessionStore
from tests.sessions.pi_files import CASES
from tests.sessions.stores import rows_in
from tests.strategies import message

PICTURE = base64.b64encode(random.Random(1).randbytes(12_000)).decode()


def picture(data: str) -> dict[str, Any]:
    return message("user", [{"type": "text", "text": "look"}, {"type": "image", "data": data, "mimeType": "image/png"}])


def test_the_same_picture_is_stored_once_and_not_in_the_text(store: SessionStore) -> None:
    one, other = store.create_session(), store.create_session()
    for session in (one, one, other):
        store.append(session.id, picture(PICTURE))
    assert rows_in(store, "blobs") == 1
    assert rows_in(store, "entry_blobs") == 3
    longest = store.connection.execute("select max(length(payload)) from entries").fetchone()[0]
    assert longest < 300
    for entry in store.entries(one.id) + store.entries(other.id):
        assert entry.message == picture(PICTURE)["message"]
    assert store.verify() == []


def test_the_context_and_a_fork_hold_the_picture(store: SessionStore) -> None:
    session = store.create_session()
    store.append(session.id, picture(PICTURE))
    fork = store.fork(session.id)
    for read in (session.id, fork.id):
        (one,) = store.context(read).messages
        assert one.message["content"][1]["data"] == PICTURE
    assert rows_in(store, "blobs") == 1


def test_two_pictures_in_one_message_and_in_fields_beside_it_come_back(store: SessionStore) -> None:
    session = store.create_session()
    other = base64.b64encode(b"other" * 160).decode()
    entry = picture(PICTURE) | {"icon": {"data": other}, "again": f"data:image/png;base64,{PICTURE}"}
    entry["message"]["content"].append({"type": "image", "data": other})
    stored = store.append(session.id, entry)
    assert store.entry(session.id, stored.id).to_dict() == stored.to_dict()
    assert store.entry(session.id, stored.id).fields == {name: entry[name] for name in ("message", "icon", "again")}
    assert rows_in(store, "blobs") == 2


@pytest.mark.parametrize(
    "text",
    [
        PICTURE[:1023],
        "A" * 1025,
        "A" * 1026 + "=",
        PICTURE[:1040] + "B=",
        PICTURE + "\n",
        "data:text/plain;base64," + PICTURE,
        '"data":"' + PICTURE + '"',
        "-" * 100,
    ],
)
def test_text_that_only_looks_like_a_picture_comes_back_too(store: SessionStore, text: str) -> None:
    session = store.create_session()
    stored = store.append(
        session.id, message("user", [{"type": "image", "data": text}, {"type": "text", "text": text}])
    )
    assert store.entry(session.id, stored.id).payload == stored.payload


@given(st.lists(st.one_of(st.just(PICTURE[:1200]), st.text(alphabet='A"\\=data:;b64,/+ \n', max_size=80)), max_size=6))
def test_what_is_cut_out_of_any_text_fits_in_again(pieces: list[str]) -> None:
    text = '"data":"'.join(pieces)
    shorter, cuts = take_out(text)
    rebuilt, at = "", 0
    for offset, run in cuts:
        rebuilt += shorter[at:offset] + run
        at = offset
    assert rebuilt + shorter[at:] == text


@given(st.integers(0, 200), st.integers(1024, 1200), st.sampled_from(("a" * 40, "a b ", "–")))
def test_every_long_run_is_cut_wherever_it_begins(before: int, length: int, around: str) -> None:
    text = (around * 200)[:before] + '"data":"' + PICTURE[:length] + '"' + around
    assert take_out(text)[1] == [(before + 8, PICTURE[:length])]


def test_a_picture_that_is_in_a_file_three_times_is_stored_once_and_exported_byte_for_byte(
    store: SessionStore, tmp_path: Path
) -> None:
    source = CASES / "s18-repeated-image" / "same-image-thrice.jsonl"
    parsed = read_pi_file(str(source))
    session = store.import_session(parsed).session
    assert rows_in(store, "blobs") == 1
    assert rows_in(store, "entry_blobs") == 3
    lines = list(pi_lines(session.header, store.entries(session.id), leaf=session.leaf, whole_tree=True))
    assert [line.encode() for line in lines[1:]] == source.read_bytes().splitlines(keepends=True)[1:]
    text_bytes = store.connection.execute("select sum(length(payload)) from entries").fetchone()[0]
    assert text_bytes < source.stat().st_size / 10
