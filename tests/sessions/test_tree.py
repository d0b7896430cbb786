"""The tree, its rows, and where a rewind goes."""

from __future__ import annotations

from typing import Any

import pytest

from pi_sessions.errors import EntryNotFoundError
from pi_sessions.navigate import RewindPlan, plan_rewind
from pi_sessions.stored import StoredEntry
from pi_sessions.tree import build_tree, common_ancestor, tree_rows
from tests.sessions.pure_strategies import answer, chain, entry, message, result, user


def under(parent: str | None, id: str, item: tuple[str, dict[str, Any]]) -> StoredEntry:
    return entry(id, parent, item[0], **item[1])


def forked() -> list[StoredEntry]:
    """a - b - c - d, with x - y and z branching off at b."""
    return [
        under(None, "a", user("start")),
        under("a", "b", answer("ok")),
        under("b", "c", user("one way")),
        under("c", "d", answer("done")),
        under("b", "x", user("other way")),
        under("x", "y", answer("fine")),
        under("b", "z", user("third way")),
    ]


def test_cycles_are_cut_above_their_first_member_and_nothing_vanishes() -> None:
    entries = [
        message("below", "b", "user", "1"),
        message("a", "b", "user", "2"),
        message("b", "a", "user", "3"),
        message("self", "self", "user", "4"),
        message("orphan", "gone", "user", "5"),
    ]
    tree = build_tree(entries)
    assert tree.roots == ("a", "self", "orphan")
    assert sorted(tree.children["b"]) == ["below"]
    assert tree.children["a"] == ["b"]


def test_children_are_ordered_by_time_and_unreadable_times_stay_put() -> None:
    entries = [message("r", None, "user", "")]
    for id, time in (("late", 9), ("unread", None), ("early", 1), ("later", 12)):
        made = message(id, "r", "user", "")
        made.time_ms = time
        entries.append(made)
    assert build_tree([one for one in entries if one.id != "unread"]).children["r"] == ["early", "late", "later"]
    assert build_tree(entries).children["r"] == ["late", "unread", "early", "later"]


def test_the_common_ancestor_is_the_deepest_shared_entry() -> None:
    by_id = {one.id: one for one in forked()}
    assert common_ancestor(by_id, "d", "y") == "b"
    assert common_ancestor(by_id, "d", "c") == "c"
    assert common_ancestor(by_id, "d", None) is None
    with pytest.raises(EntryNotFoundError):
        common_ancestor(by_id, "d", "nope")


def test_rows_say_how_the_picture_is_drawn() -> None:
    view = tree_rows(forked(), "y", {"d": "good"})
    shown = [(row.id, row.indent, row.connector, row.last, row.guides()) for row in view.rows]
    assert shown == [
        ("a", 0, False, True, []),
        ("b", 0, False, True, []),
        ("x", 1, True, False, []),
        ("y", 2, False, True, [0]),
        ("c", 1, True, False, []),
        ("d", 2, False, True, [0]),
        ("z", 1, True, True, []),
    ]
    rows = {row.id: row for row in view.rows}
    assert view.rows[view.selected or 0].id == "y"
    assert view.active_path() == ["y", "x", "b", "a"]
    assert (rows["y"].leaf, rows["d"].label, rows["b"].children, rows["d"].parent) == (True, "good", 3, 4)


def test_several_roots_are_drawn_without_connectors() -> None:
    entries = [*forked(), under(None, "second", user("another beginning"))]
    view = tree_rows(entries, "second", {})
    assert view.rows[0].id == "second"
    assert [(row.indent, row.level, row.connector) for row in view.rows[:2]] == [(1, 0, False), (1, 0, False)]


def test_runs_of_tool_calls_fold_into_one_row() -> None:
    path = chain(
        user("go"),
        answer("", ("c1",)),
        result("c1", "r"),
        answer("", ("c2",)),
        result("c2", "r"),
        answer("done"),
    )
    view = tree_rows(path, "e5", {}, fold_tools=True)
    assert [(row.id, [one.id for one in row.folded]) for row in view.rows] == [
        ("e0", []),
        ("e1", ["e1", "e2", "e3", "e4"]),
        ("e5", []),
    ]
    labelled = tree_rows(path, "e5", {"e3": "here"}, fold_tools=True)
    assert [row.id for row in labelled.rows] == ["e0", "e1", "e3", "e4", "e5"]
    inside = tree_rows(path, "e4", {}, fold_tools=True)
    assert [row.id for row in inside.rows] == ["e0", "e1", "e4", "e5"]
    assert inside.rows[inside.selected or 0].id == "e4"


def test_filters_search_and_closed_rows() -> None:
    entries = forked()

    def ids(**options: Any) -> list[str]:
        return [row.id for row in tree_rows(entries, "d", {"x": "idea"}, **options).rows]

    assert ids(filter="user-only") == ["a", "c", "x", "z"]
    assert ids(filter="labeled-only") == ["x"]
    assert ids(search="WAY other") == ["x"]
    assert ids(search="idea") == ["x"]
    assert ids(closed=["x", "c"]) == ["a", "b", "c", "x", "z"]
    assert tree_rows(entries, "d", {}, search="nowhere").selected is None
    with pytest.raises(ValueError, match="unknown filter"):
        ids(filter="some")


def test_everything_is_shown_under_all() -> None:
    path = chain(
        user("q"),
        answer("", ("c",)),
        ("usage", {"kind": "k"}),
        ("label", {"targetId": "e0", "label": "l"}),
        user("leaf"),
    )
    assert len(tree_rows(path, "e4", {}, filter="all").rows) == 5
    assert [row.id for row in tree_rows(path, "e4", {}).rows] == ["e0", "e4"]


def test_choosing_a_user_message_gives_its_text_back() -> None:
    asked = message("m", "p", "user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    custom = entry("k", None, "custom_message", customType="x", content="note")
    said = message("s", "p", "assistant", [])
    assert plan_rewind(asked) == RewindPlan("p", "ab")
    assert plan_rewind(custom) == RewindPlan(None, "note")
    assert plan_rewind(said) == RewindPlan("s", None)
    assert plan_rewind(asked, exact=True) == RewindPlan("m", None)
    assert plan_rewind(asked, current="m") == RewindPlan("m", None)
    assert plan_rewind(None, start=True) == RewindPlan(None, None)
    with pytest.raises(EntryNotFoundError):
        plan_rewind(None)
