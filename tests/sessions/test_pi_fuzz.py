"""Any damage: never a traceback, never a hang, every whole record kept, every line counted."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_sessions.errors import SourceError
from pi_sessions.formats.pi import ParsedSession, find_pi_files, read_pi_file
from tests.sessions.pi_files import answer, check, counter, entry, export, header, reread, user

LINES = [
    user("a", None, "first é \U0001f680"),
    answer("b", "a", 'quoted "text" and \\ud83d'),
    entry("model_change", "m", "b", provider="p", modelId="x"),
    user("c", "m", "{not json} [1]"),
    answer("d", "c"),
    entry("label", "l", "d", targetId="b", label="mark"),
    user("e", "b", "other branch"),
    entry("compaction", "k", "d", summary="S", firstKeptEntryId="c", tokensBefore=1.5),
    entry("custom", "x", "k", customType="t", data={"type": "message", "id": "no", "nested": [{"type": "text"}]}),
    entry("session_info", "n", "x", name="Name"),
    entry("mystery", "y", "n", payload=[1.0, {"deep": None}]),
    user("z", "y", "last"),
]


class Item:
    """A stretch of a file: its bytes without line feed, and the records in it that are whole."""

    def __init__(self, raw: bytes, records: list[str]) -> None:
        self.raw = raw
        self.records = records


def told(line: str) -> str:
    """What a record says, without its place in the tree."""
    fields: dict[str, Any] = json.loads(line)
    for name in ("id", "parentId", "timestamp", "firstKeptEntryId", "targetId"):
        fields.pop(name, None)
    return json.dumps(fields, sort_keys=True)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """A file after some damage, and the records that are still whole in it."""
    items = [Item(line.encode(), [line]) for line in draw(st.sampled_from([LINES, LINES[:4], LINES[::-1]]))]
    for _ in range(draw(st.integers(1, 6))):
        damage = draw(
            st.sampled_from(
                ["delete", "duplicate", "swap", "cut", "flip", "nul", "pad", "glue", "tear", "blank", "noise"]
            )
        )
        if not items:
            break
        at = draw(st.integers(0, len(items) - 1))
        here = items[at]
        if damage == "delete":
            del items[at]
        elif damage == "duplicate":
            items.insert(draw(st.integers(0, len(items))), Item(here.raw, here.records))
        elif damage == "swap":
            other = draw(st.integers(0, len(items) - 1))
            items[at], items[other] = items[other], here
        elif damage == "cut":
            items[at] = Item(here.raw[: draw(st.integers(0, max(len(here.raw) - 1, 0)))], [])
        elif damage == "flip" and here.raw:
            place = draw(st.integers(0, len(here.raw) - 1))
            changed = bytes([here.raw[place] ^ (1 << draw(st.integers(0, 7)))])
            items[at] = Item(here.raw[:place] + changed + here.raw[place + 1 :], [])
        elif damage == "nul":
            items.insert(at, Item(b"\0" * draw(st.integers(1, 9)), []))
        elif damage == "pad":
            pad = b"\0" * draw(st.integers(1, 9))
            items[at] = Item(pad + here.raw + pad, here.records)
        elif damage == "glue" and at + 1 < len(items) and here.records and items[at + 1].records:
            following = items.pop(at + 1)
            items[at] = Item(here.raw + following.raw, here.records + following.records)
        elif damage == "tear" and here.records:
            torn = here.raw[: draw(st.integers(0, len(here.raw) - 1))]
            items[at] = Item(torn + here.raw, here.records)
        elif damage == "blank":
            items.insert(at, Item(draw(st.sampled_from([b"", b"  ", b"\r"])), []))
        elif damage == "noise":
            items.insert(at, Item(draw(st.binary(max_size=30)), []))
    head = header().encode() + b"\n" if draw(st.integers(0, 9)) else b""
    whole = [record for item in items for record in item.records]
    end = draw(st.sampled_from([b"\n", b""]))
    return head + b"\n".join(item.raw for item in items) + end, whole


def read_damaged(raw: bytes, folder: Path) -> ParsedSession | None:
    path = folder / "a.jsonl"
    path.write_bytes(raw)
    (found,) = find_pi_files(str(path))
    if found.reason is not None:
        with pytest.raises(SourceError) as refused:
            read_pi_file(str(path))
        assert refused.value.message == found.reason
        return None
    session = read_pi_file(str(path), new_id=counter())
    assert path.read_bytes() == raw
    check(session)
    return session


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_every_whole_record_is_kept_whatever_happens_around_it(case: tuple[bytes, list[str]]) -> None:
    raw, whole = case
    with TemporaryDirectory() as folder:
        session = read_damaged(raw, Path(folder))
        if session is None:
            assert not whole
            return
        kept = {told(json.dumps(one.to_dict())) for one in session.entries}
        assert {told(line) for line in whole} <= kept
        assert session.lines_read == raw.count(b"\n") + (not raw.endswith(b"\n"))
        back = reread(Path(folder), export(session))
        assert back.losses == ()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_cut_anywhere_loses_only_the_cut_line(data: st.DataObject) -> None:
    raw = "\n".join([header(), *LINES]).encode() + b"\n"
    start = len(header()) + 1
    cut = raw[: data.draw(st.integers(start, len(raw)))]
    with TemporaryDirectory() as folder:
        session = read_damaged(cut, Path(folder))
    assert session is not None
    complete = cut.count(b"\n") - 1
    assert len(session.entries) in (complete, complete + 1)
    assert len(session.losses) == (len(session.entries) == complete and not cut.endswith(b"\n"))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_behind_a_header_are_read(noise: bytes) -> None:
    with TemporaryDirectory() as folder:
        assert read_damaged(header().encode() + b"\n" + noise, Path(folder)) is not None
        read_damaged(noise, Path(folder))
