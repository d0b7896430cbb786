"""What goes out is a version-3 file that Pi opens at the same leaf with the same context, and that comes back whole."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root, to_llm
from pi_sessions.errors import EntryNotFoundError, NothingToExportError
from pi_sessions.formats.derived import is_derived_fact
from pi_sessions.formats.pi import pi_lines, read_pi_file
from pi_sessions.stored import StoredEntry
from tests.sessions.pi_files import (
    CASES,
    answer,
    by_id,
    codes,
    entry,
    export,
    header,
    read,
    recorded_case,
    recorded_cases,
    reread,
    tree,
    user,
)

HEADER = json.loads(header())
BASE = [json.loads(line) for line in (user("a", None, "q"), answer("b", "a"), user("c", "b"), answer("side", "a"))]


def stored(*objects: dict[str, Any]) -> list[StoredEntry]:
    return [StoredEntry.from_dict(one) for one in objects]


def decoded(lines: list[str]) -> list[dict[str, Any]]:
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


class PiView:
    """What Pi 1.6.0 makes of a file, by its own rules: the last line is the leaf, labels and name go by file order."""

    def __init__(self, lines: list[str]) -> None:
        head, *objects = decoded(lines)
        assert (head["type"], head["version"]) == ("session", 3)
        self.entries = {one["id"]: StoredEntry.from_dict(one) for one in objects}
        assert len(self.entries) == len(objects)
        self.leaf = objects[-1]["id"] if objects else None
        self.labels: dict[str, object] = {}
        self.name = None
        for one in objects:
            if one["type"] == "label":
                self.labels.pop(one["targetId"], None)
                if one.get("label"):
                    self.labels[one["targetId"]] = one["label"]
            if one["type"] == "session_info":
                self.name = one.get("name", "").strip() or None

    def context(self) -> Any:
        return flattened(self.entries, self.leaf)


def flattened(entries: dict[str, StoredEntry], leaf: str | None) -> Any:
    path = path_to_root(entries, leaf)
    context = build_context(active_entries(path), *path_settings(path))
    messages = [(one.entry_id, one.message["role"], to_llm(one.message)) for one in context.messages]
    return context.model, context.thinking_level, messages


def test_the_active_path_is_written_in_pi_s_key_order() -> None:
    lines = list(pi_lines(HEADER | {"colour": "red"}, stored(*BASE), leaf="c"))
    assert lines[0] == (
        '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/proj/demo","colour":"red"}\n'
    )
    assert [line.rstrip("\n") for line in lines[1:]] == [user("a", None, "q"), answer("b", "a"), user("c", "b")]


def test_each_type_is_written_in_pi_s_key_order() -> None:
    orders = {
        "usage": ["kind", "provider", "model", "usage", "note"],
        "compaction": ["summary", "firstKeptEntryId", "tokensBefore", "details", "usage", "fromHook", "systemMessage"],
        "branch_summary": ["fromId", "summary", "details", "usage", "fromHook"],
        "context_edit": ["targetId", "replacement"],
        "custom": ["customType", "data"],
    }
    for kind, order in orders.items():
        fields = {name: {"x": 1} for name in reversed([*order, "zz"])}
        line = list(pi_lines(HEADER, stored({"type": kind, "id": "a", "parentId": None} | fields), leaf="a"))[1]
        assert list(json.loads(line)) == ["type", "id", "parentId", *order, "zz"]
    custom = {"type": "custom_message", "id": "a", "parentId": None, "display": True, "content": "x", "customType": "t"}
    line = list(pi_lines(HEADER, stored(custom), leaf="a"))[1]
    assert line == '{"type":"custom_message","customType":"t","content":"x","display":true,"id":"a","parentId":null}\n'


def test_the_header_names_its_origin() -> None:
    old = {"id": "s1", "cwd": "/p", "branchedFrom": "/old.jsonl", "provider": "x", "version": 1}
    head = json.loads(next(iter(pi_lines(old, stored(*BASE), leaf="a"))))
    assert list(head) == ["type", "version", "id", "timestamp", "cwd", "parentSession", "branchedFrom", "provider"]
    assert (head["version"], head["parentSession"], head["timestamp"]) == (3, "/old.jsonl", "2026-01-01T00:01:00.000Z")


def test_without_a_leaf_only_the_whole_tree_goes_out() -> None:
    with pytest.raises(NothingToExportError):
        pi_lines(HEADER, stored(*BASE), leaf=None)
    with pytest.raises(EntryNotFoundError):
        pi_lines(HEADER, stored(*BASE), leaf="nobody")
    assert len(list(pi_lines(HEADER, [], leaf=None, whole_tree=True))) == 1


def test_a_leaf_before_the_first_entry_survives(tmp_path: Path) -> None:
    lines = list(pi_lines(HEADER, stored(*BASE), leaf=None, name="Nm", whole_tree=True))
    assert PiView(lines).context() == (None, "off", [])
    back = reread(tmp_path, lines)
    assert (back.leaf, back.name, len(back.entries)) == (None, "Nm", 4)


def test_the_leaf_is_the_last_line_wherever_it_stands_in_the_tree(tmp_path: Path) -> None:
    for leaf in ("a", "b", "c", "side"):
        lines = list(pi_lines(HEADER, stored(*BASE), leaf=leaf, labels={leaf: ("L", 5)}, name="N", whole_tree=True))
        assert json.loads(lines[-1])["id"] == leaf
        back = reread(tmp_path, lines)
        assert (back.leaf, back.labels, back.name) == (leaf, {leaf: ("L", 5)}, "N")
        assert tree(back) == tree_of(BASE)
        assert back.tally.facts == 2
        assert back.repairs == ()


def tree_of(objects: list[dict[str, Any]]) -> dict[str, str | None]:
    return {one["id"]: one["parentId"] for one in objects}


def test_facts_stand_beside_the_path() -> None:
    labels = {"a": ("first", 1767225660000), "c": ("end", None), "side": ("gone", 1), "nobody": ("x", 1)}
    lines = list(pi_lines(HEADER, stored(*BASE), leaf="c", labels=labels, name="Nm", name_time_ms=7))
    objects = decoded(lines)[1:]
    assert [one["type"] for one in objects] == ["message", "message", "label", "label", "session_info", "message"]
    assert [one["parentId"] for one in objects[2:5]] == ["a", "b", "b"]
    assert all(is_derived_fact(StoredEntry.from_dict(one)) for one in objects[2:5])
    view = PiView(lines)
    assert view.labels == {"a": "first", "c": "end"}
    assert view.name == "Nm"
    assert view.context() == flattened({one.id: one for one in stored(*BASE)}, "c")


def test_what_was_appended_below_a_fact_moves_up(tmp_path: Path) -> None:
    """Pi can go on from any entry of our export, also from one that stands for a label."""
    lines = list(pi_lines(HEADER, stored(*BASE), leaf="c", labels={"b": ("mark", 5)}, name="n"))
    fact = next(one for one in decoded(lines) if one["type"] == "label")
    session = reread(tmp_path, [*lines, user("new", fact["id"], "on from the label") + "\n"])
    assert (tree(session)["new"], session.leaf) == ("b", "new")
    ended = reread(tmp_path, [*lines, next(line for line in lines if fact["id"] in line).replace(fact["id"], "own")])
    assert ended.leaf == "own"
    assert len(ended.entries) == len(session.entries)


def test_a_single_entry_can_be_labelled_and_named(tmp_path: Path) -> None:
    lines = list(pi_lines(HEADER, stored(BASE[0]), leaf="a", labels={"a": ("x", 5)}, name="n"))
    assert json.loads(lines[-1])["id"] == "a"
    back = reread(tmp_path, lines)
    assert (tree(back), back.labels, back.name, back.leaf) == ({"a": None}, {"a": ("x", 5)}, "n", "a")


def test_imported_label_entries_are_lifted_and_their_children_joined(tmp_path: Path) -> None:
    """As Pi's clone does; a kept id that was a label moves to the next entry; a leaf that was a label moves up."""
    lines = [
        user("a", None),
        entry("label", "l1", "a", 2, targetId="a", label="one"),
        entry("label", "l2", "l1", 3, targetId="a", label="two"),
        answer("b", "l2"),
        entry("compaction", "k", "b", 5, summary="S", firstKeptEntryId="l1", tokensBefore=1.5, details={"n": 1.0}),
        entry("label", "l3", "k", 6, targetId="l1", label="on a label"),
        entry("label", "l4", "l3", 7, targetId="b", label="end"),
    ]
    session = read(tmp_path, header(), *lines)
    assert session.leaf == "l4"
    for whole_tree in (True, False):
        written = export(session, whole_tree=whole_tree)
        back = reread(tmp_path, written)
        assert tree(back) == {"a": None, "b": "a", "k": "b"}
        assert by_id(back)["k"].fields["firstKeptEntryId"] == "b"
        assert back.labels == {"a": ("two", 1767225780000), "b": ("end", 1767226020000)}
        assert back.leaf == "k"
        assert PiView(written).context() == flattened(by_id(session), "l4")


def test_a_kept_label_right_before_its_compaction_keeps_nothing(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        entry("label", "l", "a", targetId="a", label="x"),
        entry("compaction", "k", "l", summary="S", firstKeptEntryId="l", tokensBefore=1),
    ]
    back = reread(tmp_path, export(read(tmp_path, header(), *lines)))
    assert by_id(back)["k"].fields["firstKeptEntryId"] == "k"


@pytest.mark.parametrize("name", ["Imported", "Changed", None])
def test_a_name_entry_stays_and_a_changed_name_wins(tmp_path: Path, name: str | None) -> None:
    """Also when the leaf itself is a name entry: then the new name stands behind it, and the leaf comes back."""
    named = entry("session_info", "n", "a", 2, name="Imported")
    for lines, leaf in (([user("a", None), named], "n"), ([user("a", None), named, user("b", "n")], "b")):
        session = read(tmp_path, header(), *lines)
        written = list(pi_lines(HEADER, session.entries, leaf=leaf, name=name, whole_tree=True))
        assert len(written) == 1 + len(lines) + (name != "Imported")
        assert PiView(written).name == name
        back = reread(tmp_path, written)
        assert (back.name, back.leaf, len(back.entries)) == (name, leaf, len(lines))


def test_odd_timestamps_and_extra_fields_go_out_as_they_came(tmp_path: Path) -> None:
    odd = user("a", None)[:-1].replace("2026-01-01T00:01:00.000Z", "2026-01-01T09:01:00+09:00") + ',"x":[1.0]}'
    bare = user("b", "a").replace('"timestamp":"2026-01-01T00:01:00.000Z",', "")
    lines = export(read(tmp_path, header(), odd, bare))
    assert lines[1] == odd + "\n"
    assert json.loads(lines[2])["timestamp"] == "2026-01-01T00:00:00.001Z"


def test_an_entry_without_a_message_goes_out_in_a_form_that_pi_survives(tmp_path: Path) -> None:
    lines = [
        user("a", None),
        entry("message", "x", "a"),
        entry("message", "y", "x", message=None),
        entry("message", "z", "y", message=["odd"], beside=[1.0]),
    ]
    session = read(tmp_path, header(), *lines)
    written = export(session)
    assert [one["type"] for one in decoded(written)[1:]] == ["message", "custom", "custom", "custom"]
    assert PiView(written).context() == flattened(by_id(session), "z")
    back = reread(tmp_path, written)
    assert [one.to_dict() for one in back.entries] == [json.loads(line) for line in lines]
    assert codes(back) == [(3, "no_message"), (4, "no_message"), (5, "no_message")]


def test_entries_not_from_a_file_become_one_line() -> None:
    spaced = StoredEntry("a", None, "message", 0, '{\n "role": "user",\n "content": "x\\ny"\n}', '{\n"x": 1}')
    line = list(pi_lines(HEADER, [spaced], leaf="a"))[1]
    assert line.count("\n") == 1
    assert json.loads(line)["message"]["content"] == "x\ny"


def test_images_come_back_byte_for_byte(tmp_path: Path) -> None:
    """The case `s18-repeated-image`."""
    path = CASES / "s18-repeated-image" / "same-image-thrice.jsonl"
    assert "".join(export(read_pi_file(str(path)))).encode() == path.read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "s08-result-on-wrong-branch/wrong-branch",
        "s09-chained-compaction/chained-compaction",
        "s12-second-compaction/before-second-compaction",
        "s16-foreign-thinking/foreign-thinking",
        "s17-tool-call-ids/tool-ids",
        "s20-line-separators/line-separators",
        "s21-control-characters/title-4",
        "s25-raw-html/raw-html",
    ],
)
def test_sound_files_come_back_byte_for_byte(name: str) -> None:
    path = CASES / f"{name}.jsonl"
    assert "".join(export(read_pi_file(str(path)))).encode() == path.read_bytes()


# --- property: whatever the tree, out and in again is the same -----------------------------------------------------

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Entries of every kind but labels, each below any earlier one or a root, in append order."""
    count = draw(st.integers(1, 9))
    objects: list[dict[str, Any]] = []
    for number in range(count):
        ids = [one["id"] for one in objects]
        parent = draw(st.sampled_from([None, *ids])) if number else None
        kind = draw(
            st.sampled_from(
                ["user", "assistant", "model_change", "thinking_level_change", "compaction", "session_info", "mystery"]
            )
        )
        own: dict[str, Any] = {}
        if kind in ("user", "assistant"):
            message = {
                "role": kind,
                "content": draw(_texts),
                "provider": "p",
                "model": draw(_texts),
                "z": draw(_values),
            }
            own = {"message": message}
        elif kind == "model_change":
            own = {"provider": draw(_texts), "modelId": "m"}
        elif kind == "thinking_level_change":
            own = {"thinkingLevel": draw(st.sampled_from(["off", "high"]))}
        elif kind == "compaction":
            own = {"summary": draw(_texts), "firstKeptEntryId": draw(st.sampled_from([*ids, f"e{number}"]))}
        elif kind == "session_info":
            own = {"name": draw(_texts)}
        else:
            own = {"payload": draw(_values), "customType": draw(_values)}
        kind = "message" if kind in ("user", "assistant") else kind
        minute = f"{draw(st.integers(0, 59)):02d}"
        base = {"type": kind, "id": f"e{number}", "parentId": parent, "timestamp": f"2026-01-01T00:{minute}:00.000Z"}
        objects.append(base | own)
    return objects


@settings(max_examples=100, deadline=None)
@given(st.data(), trees())
def test_out_and_in_again_is_the_same(data: st.DataObject, objects: list[dict[str, Any]]) -> None:
    entries = stored(*objects)
    ids = [one.id for one in entries]
    leaf = data.draw(st.sampled_from([None, *ids]))
    labels = data.draw(
        st.dictionaries(
            st.sampled_from(ids), st.tuples(_texts.filter(bool), st.integers(0, 4_000_000_000_000)), max_size=4
        )
    )
    name = data.draw(st.none() | _texts.map(lambda text: text.strip() or None))
    whole_tree = leaf is None or data.draw(st.booleans())
    lines = list(pi_lines(HEADER, entries, leaf=leaf, labels=labels, name=name, whole_tree=whole_tree))
    view = PiView(lines)
    all_entries = {one.id: one for one in entries}
    kept = all_entries if whole_tree else {one.id: one for one in path_to_root(all_entries, leaf)}
    assert view.context() == flattened(all_entries, leaf)
    assert view.name == name
    with TemporaryDirectory() as folder:
        back = reread(Path(folder), lines)
    assert {one.id: one.to_dict() for one in back.entries} == {one.id: one.to_dict() for one in kept.values()}
    assert back.leaf == leaf
    assert back.labels == view_labels(labels, kept)
    assert back.name == name
    assert [code for _line, code in codes(back)] == []


def view_labels(labels: dict[str, tuple[str, int]], kept: dict[str, StoredEntry]) -> dict[str, tuple[str, int]]:
    return {target: label for target, label in labels.items() if target in kept}


@pytest.mark.parametrize("name", recorded_cases("export", "clone"))
def test_what_pi_exports_comes_in_and_goes_out_with_the_same_context(tmp_path: Path, name: str) -> None:
    """Every file text that Pi wrote in the recorded export and clone cases."""
    for step in recorded_case(name)["steps"]:
        text = step.get("result")
        if step["op"] != "export_jsonl" or not isinstance(text, str):
            continue
        path = tmp_path / "pi.jsonl"
        path.write_text(text, encoding="utf-8", newline="")
        session = read_pi_file(str(path))
        assert session.repairs == session.losses == ()
        written = export(session)
        assert PiView(written).context() == flattened(by_id(session), session.leaf)
        assert tree(reread(tmp_path, written)) == {
            one.id: up_to(by_id(session), one.parent_id) for one in session.entries if one.type != "label"
        }


def up_to(entries: dict[str, StoredEntry], parent: str | None) -> str | None:
    while parent is not None and entries[parent].type == "label":
        parent = entries[parent].parent_id
    return parent
