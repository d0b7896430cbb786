"""Random families of session files: copies of parts of one tree, imported in any order, come to the same store."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.formats.pi import read_pi_file
from pi_sessions.store import SessionStore
from tests.sessions.pi_files import header, write
from tests.sessions.stores import open_store

Line = dict[str, Any]


@st.composite
def families(draw: st.DrawFn) -> dict[str, list[Line]]:
    """Draw files that copy paths of one random tree, with labels in the path, at its end or taken out, as Pi does."""
    tree: list[Line] = []
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.sampled_from([None, *(one["id"] for one in tree)])) if tree else None
        stamp = f"2026-01-01T00:00:{number:02}.000Z"
        base = {"id": f"e{number}", "parentId": parent, "timestamp": stamp}
        if tree and draw(st.integers(0, 3)) == 0:
            target = draw(st.sampled_from(tree))["id"]
            tree.append({"type": "label", **base, "targetId": target, "label": f"l{number}"})
        else:
            text = draw(st.sampled_from(("same", f"t{number}")))
            tree.append({"type": "message", **base, "message": {"role": "user", "content": text}})
    by_id = {one["id"]: one for one in tree}
    files = {}
    for number in range(draw(st.integers(2, 4))):
        end = draw(st.sampled_from(tree))["id"]
        path = []
        while end is not None:
            path.append(by_id[end])
            end = by_id[end]["parentId"]
        lifted = draw(st.booleans())
        files[f"s{number}"] = _without_labels(path[::-1]) if lifted else path[::-1]
        if draw(st.integers(0, 2)) == 0:
            files[f"s{number}"] = list(tree)
        last = files[f"s{number}"][-1]["id"] if files[f"s{number}"] else None
        own = {"type": "message", "id": f"own{number}", "parentId": last, "timestamp": "2026-01-02T00:00:00.000Z"}
        files[f"s{number}"] = [*files[f"s{number}"], {**own, "message": {"role": "user", "content": f"own {number}"}}]
    return files


def _without_labels(path: list[Line]) -> list[Line]:
    kept: list[Line] = []
    for one in path:
        if one["type"] != "label":
            kept.append({**one, "parentId": kept[-1]["id"] if kept else None})
    return kept


def imported(folder: Path, files: dict[str, list[Line]], order: list[str]) -> SessionStore:
    store = open_store(folder / ("-".join(order) + ".db"))
    for name in order:
        path = write(folder, header(id=name), *(json.dumps(line) for line in files[name]), name=f"{name}.jsonl")
        store.import_session(read_pi_file(path))
    return store


def told(store: SessionStore, name: str) -> Any:
    """Return what a session says, label entries left out."""
    entries = [one for one in store.entries(name) if one.type != "label"]
    path = [one.id for one in store.path(name) if one.type != "label"]
    labels = {label.entry_id: label.text for label in store.labels(name).values()}
    texts = [one.message for one in store.context(name).messages]
    contents = {one.id: one.payload for one in entries}
    return path, contents, labels, texts, store.session(name).message_count


def check_orders(files: dict[str, list[Line]], order: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="pi-session-orders-") as name:
        folder = Path(name)
        stores = [imported(folder, files, one) for one in (sorted(files), order)]
        try:
            for one in files:
                assert told(stores[0], one) == told(stores[1], one)
            held = [Counter(store.connection.execute("select id, payload from entries").fetchall()) for store in stores]
            assert held[0] == held[1]
            for store in stores:
                assert store.verify() == []
                for one in files:
                    again = store.import_session(read_pi_file(str(folder / f"{one}.jsonl")))
                    assert again.unchanged
                    lines = [line for line in files[one] if line["type"] != "label"]
                    assert told(store, one)[1].keys() >= {line["id"] for line in lines}
        finally:
            for store in stores:
                store.close()


@settings(max_examples=60, deadline=None)
@given(families(), st.randoms(use_true_random=False))
def test_the_order_of_importing_makes_no_difference(files: dict[str, list[Line]], random: Any) -> None:
    order = sorted(files)
    random.shuffle(order)
    check_orders(files, order)


@pytest.mark.soak
@settings(max_examples=1500, deadline=None)
@given(families(), st.randoms(use_true_random=False))
def test_the_order_of_importing_makes_no_difference_for_long(files: dict[str, list[Line]], random: Any) -> None:
    order = sorted(files)
    random.shuffle(order)
    check_orders(files, order)
