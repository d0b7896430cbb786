"""Contexts: safe on any tree, linear, and what edits, kept entries and settings do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from pi_sessions.branch_summary import prepare_branch_entries
from pi_sessions.compaction import prepare_compaction
from pi_sessions.context import (
    Context,
    Model,
    active_entries,
    build_context,
    check_edit,
    content_text,
    path_settings,
    path_to_root,
    shell_text,
    to_llm,
)
from pi_sessions.conversation import last_assistant_text, serialize_conversation
from pi_sessions.errors import EntryNotFoundError, InvalidEditError
from pi_sessions.navigate import plan_rewind
from pi_sessions.stored import StoredEntry
from pi_sessions.tokens import CompactionSettings, estimate_context, merged_system
from pi_sessions.totals import context_usage, cost_breakdown, session_totals
from pi_sessions.tree import FILTERS, build_tree, tree_rows
from tests.sessions.pure_strategies import answer, chain, entry, message, result, user, wild_tree

ROOT = Path(__file__).parents[2]
HOT_MODULES = [
    "context",
    "tree",
    "tokens",
    "compaction",
    "branch_summary",
    "conversation",
    "totals",
    "navigate",
    "session_search",
]
SLOW_IMPORTS = (
    "typing dataclasses enum pathlib pydantic sqlite_utils rich typer httpx anyio tempfile inspect logging contextlib"
)


def context_at(path: list[StoredEntry]) -> Context:
    return build_context(active_entries(path), *path_settings(path))


def texts(context: Context) -> list[str]:
    return [one.message.get("summary") or content_text(one.message.get("content")) for one in context.messages]


@settings(max_examples=120, deadline=None)
@given(wild_tree())
def test_nothing_crashes_on_any_tree(entries: list[StoredEntry]) -> None:
    by_id = {one.id: one for one in entries}
    for leaf in by_id:
        path = path_to_root(by_id, leaf)
        assert path[-1].id == leaf
        assert len({one.id for one in path}) == len(path)
        context = context_at(path)
        seen = [one.message for one in context.messages]
        json.dumps([model_message for one in seen for model_message in to_llm(one)])
        serialize_conversation(seen)
        last_assistant_text(seen)
        estimate_context(seen)
        merged_system(seen)
        context_usage(path, 1000)
        prepare_compaction(path, CompactionSettings(True, 16384, 1))
        prepare_branch_entries(path, 10)
        plan_rewind(by_id[leaf])
    session_totals(entries)
    cost_breakdown(entries)
    tree = build_tree(entries)
    below = [id for under in tree.children.values() for id in under]
    assert sorted([*tree.roots, *below]) == sorted(by_id)
    for filter in FILTERS:
        rows = tree_rows(tree, entries[-1].id, {"e0": "label"}, filter=filter, search="", fold_tools=True).rows
        assert len({row.id for row in rows}) == len(rows)
    assert {row.id for row in tree_rows(tree, None, {}, filter="all").rows} == set(by_id)


def test_a_hundred_thousand_entries_are_walked_without_recursion() -> None:
    count = 100_000
    body = json.dumps({"role": "user", "content": "q"})
    path = [StoredEntry(f"e{n}", f"e{n - 1}" if n else None, "message", n, body) for n in range(count)]
    by_id = {one.id: one for one in path}
    assert path_to_root(by_id, path[-1].id) == path
    assert len(context_at(path).messages) == count
    rows = tree_rows(path, path[-1].id, {})
    assert len(rows.rows) == count
    assert rows.rows[-1].indent == 0


def test_a_path_ends_at_a_missing_parent_and_at_a_cycle() -> None:
    a, b, c = message("a", "gone", "user", "q"), message("b", "c", "user", "q"), message("c", "b", "user", "q")
    by_id = {one.id: one for one in (a, b, c)}
    assert path_to_root(by_id, "a") == [a]
    assert path_to_root(by_id, "c") == [b, c]
    assert path_to_root(by_id, None) == []
    with pytest.raises(EntryNotFoundError):
        path_to_root(by_id, "gone")


def test_settings_come_from_the_whole_path_and_kept_entries_lose_system_messages() -> None:
    path = chain(
        ("thinking_level_change", {"thinkingLevel": "high"}),
        user("old"),
        ("message", {"message": {"role": "system", "content": "s"}}),
        answer("kept", responseModel="other"),
        ("compaction", {"summary": "S", "firstKeptEntryId": "e2", "tokensBefore": 9}),
        user("new"),
    )
    context = context_at(path)
    assert context.model == Model("p", "m")
    assert context.thinking_level == "high"
    assert texts(context) == ["S", "kept", "new"]


def test_an_older_compaction_inside_the_kept_part_gives_nothing() -> None:
    path = chain(
        user("a"),
        ("compaction", {"summary": "first", "firstKeptEntryId": "e0"}),
        user("b"),
        ("compaction", {"summary": "second", "firstKeptEntryId": "e0"}),
    )
    context = context_at(path)
    assert texts(context) == ["second", "a", "b"]
    assert [one.id for one in context.entries] == ["e3", "e0", "e1", "e2"]


def test_a_replayed_system_message_comes_before_the_summary() -> None:
    system = {"role": "system", "content": None}
    path = chain(user("q"), ("compaction", {"summary": "S", "firstKeptEntryId": "e1", "systemMessage": system}))
    messages = [one.message for one in context_at(path).messages]
    assert [one["role"] for one in messages] == ["system", "compactionSummary"]
    assert messages[0]["content"] == ""


def test_a_malformed_edit_counts_for_nothing_and_the_one_before_it_stays() -> None:
    path = chain(
        user("original"),
        ("context_edit", {"targetId": "e0", "replacement": {"content": "edited"}}),
        ("context_edit", {"targetId": "e0", "replacement": {"content": 5}}),
        ("context_edit", {"targetId": "e0"}),
    )
    assert texts(context_at(path)) == ["edited"]


def test_a_summary_without_a_time_takes_that_of_the_entry_before() -> None:
    first, second = chain(user("q"), ("branch_summary", {"summary": "S", "fromId": "root"}))
    second.time_ms = None
    assert context_at([first, second]).messages[1].message["timestamp"] == first.time_ms


def test_an_edit_is_checked_and_normalised() -> None:
    path = chain(user("q"), answer("a"), result("c", "r"), ("model_change", {"provider": "p", "modelId": "m"}))
    block = [{"type": "text", "text": "x"}]
    assert check_edit(path, "e0", {"content": "x"})["replacement"] == {"content": "x"}
    assert check_edit(path, "e1", {"content": "x"})["replacement"] == {"content": block}
    assert check_edit(path, "e2", {"content": "x"})["replacement"] == {"content": block}
    assert check_edit(path, "e2", None) == {"targetId": "e2", "replacement": None}
    malformed: tuple[Any, ...] = ("x", {}, {"content": 5}, [])
    for bad in malformed:
        with pytest.raises(InvalidEditError):
            check_edit(path, "e0", bad)
    with pytest.raises(InvalidEditError):
        check_edit(path, "e3", None)
    with pytest.raises(EntryNotFoundError):
        check_edit(path, "elsewhere", None)


def test_shell_commands_read_as_the_user_ran_them() -> None:
    shell: dict[str, Any] = {"role": "bashExecution", "command": "make", "output": "boom", "exitCode": 2}
    long = {**shell, "truncated": True, "fullOutputPath": "/log"}
    assert shell_text(long) == (
        "Ran `make`\n```\nboom\n```\n\nCommand exited with code 2\n\n[Output truncated. Full output: /log]"
    )
    assert shell_text({**shell, "output": None, "exitCode": None}) == "Ran `make`\n(no output)"
    assert to_llm({**shell, "excludeFromContext": True}) == []


def test_a_message_entry_without_a_message_gives_nothing() -> None:
    assert texts(context_at([entry("a", None, "message"), message("b", "a", "user", "q")])) == ["q"]


def test_the_pure_modules_import_nothing_slow() -> None:
    code = (
        "import sys, json, re, functools, bisect, datetime; before = set(sys.modules)\n"
        f"for name in {HOT_MODULES!r}: __import__('pi_sessions.' + name)\n"
        f"print(sorted(set({SLOW_IMPORTS!r}.split()) & set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
