"""The one way an entry ever changes: an imported answer, read in part, is completed while nothing depends on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_sessions.import_merge import completes
from pi_sessions.results import ImportResult
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import FORMATS, read_all, records_of, write_lines
from tests.sessions.pi_files import CASES

SPLIT = CASES / "s15-split-assistant-message" / "split-message.jsonl"
ROLLOUT = next((FORMATS / "codex" / "sessions").rglob("*0a.jsonl"))
BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=3)),
        st.builds(lambda name: {"type": "toolCall", "id": name, "name": name, "arguments": {}}, st.sampled_from("ab")),
    ),
    max_size=4,
)


def import_first(store: SessionStore, folder: Path, count: int) -> ImportResult:
    """Import a source of which so many records are written."""
    (parsed,) = read_all(write_lines(folder / "growing.jsonl", *records_of(SPLIT)[:count]))
    return store.import_session(parsed)


def payloads(store: SessionStore) -> dict[int, str]:
    return dict(store.connection.execute("select key, payload from entries").fetchall())


@given(BLOCKS, BLOCKS)
def test_a_later_form_of_an_answer_begins_with_the_earlier_one(before: list[Any], after: list[Any]) -> None:
    old, new = ({"role": "assistant", "model": "m", "content": blocks} for blocks in (before, after))
    assert completes(old, new) == (after[: len(before)] == before)
    assert completes(old, {**old, "content": before + after, "stopReason": "toolUse"})


@pytest.mark.parametrize(
    "change",
    [
        {"content": [{"type": "text", "text": "Two"}]},
        {"content": []},
        {"content": [{"type": "text", "text": "On"}]},
        {"model": "other"},
        {"details": {"diff": "-"}},
        {"isError": True},
        {"toolName": "write"},
    ],
)
def test_what_an_entry_says_is_never_said_otherwise(change: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "One"}]
    old = {"model": "m", "details": {"diff": "+"}, "isError": False, "toolName": "read", "content": content}
    for role in ("assistant", "toolResult", "user"):
        assert not completes({"role": role, **old}, {"role": role, **old, **change})
    more = {"content": [*content, {"type": "text", "text": "Two"}]}
    assert not completes({"role": "user", **old}, {"role": "user", **old, **more})
    assert completes({"role": "toolResult", **old, "toolName": ""}, {"role": "toolResult", **old})


def test_completion_keeps_every_id_and_place_and_only_adds_blocks(tmp_path: Path) -> None:
    grown = 0
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        import_first(store, tmp_path, 2)
        for count in range(3, len(records_of(SPLIT)) + 1):
            before = snapshot(store)
            grown += import_first(store, tmp_path, count).grown
            after = snapshot(store)
            assert list(after)[: len(before)] == list(before)
            for key, (entry_id, content) in before.items():
                assert after[key][0] == entry_id
                assert after[key][1][: len(content)] == content
    assert grown >= 3


def snapshot(store: SessionStore) -> dict[int, tuple[str, list[Any]]]:
    """Return id and content of every entry by its place."""
    keys = [row[0] for row in store.connection.execute("select key from entries order by key")]
    found = {key: store.forest.entry(key) for key in keys}
    return {key: (entry.id, list((entry.message or {}).get("content") or ())) for key, entry in found.items()}


def go_on_here(store: SessionStore, sid: str) -> None:
    store.append_message(sid, {"role": "user", "content": "here"})


def go_on_beside(store: SessionStore, sid: str) -> None:
    store.append(sid, {"type": "custom", "customType": "x"}, parent=store.path(sid)[0].id)


def fork_it(store: SessionStore, sid: str) -> None:
    store.fork(sid)


def step_back(store: SessionStore, sid: str) -> None:
    store.rewind(sid, None)


@pytest.mark.parametrize("depend", [go_on_here, go_on_beside, fork_it, step_back])
def test_nothing_changes_once_anything_else_depends_on_the_session(
    depend: Callable[[SessionStore, str], None], tmp_path: Path
) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        sid = import_first(store, tmp_path, 3).session.id
        depend(store, sid)
        before = payloads(store)
        result = import_first(store, tmp_path, len(records_of(SPLIT)))
        after = payloads(store)
        assert {key: after[key] for key in before} == before
        assert (result.grown, result.added > 0) == (0, True)
        assert store.verify() == []


def test_usage_that_comes_after_somebody_went_on_neither_changes_nor_doubles_the_answer(tmp_path: Path) -> None:
    records = records_of(ROLLOUT)
    late = next(
        number for number, record in enumerate(records) if (record.get("payload") or {}).get("type") == "token_count"
    )
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (parsed,) = read_all(write_lines(tmp_path / "rollout-late.jsonl", *records[:late]))
        sid = store.import_session(parsed).session.id
        store.append_message(sid, {"role": "user", "content": "here"})
        before = payloads(store)
        (parsed,) = read_all(write_lines(tmp_path / "rollout-late.jsonl", *records[: late + 1]))
        result = store.import_session(parsed)
        assert (result.added, result.grown, result.new_branch) == (0, 0, None)
        assert payloads(store) == before
