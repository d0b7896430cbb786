"""The recorded cases of damaged and old files: what Pi 1.6.0 made of them, or what is better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root
from pi_sessions.errors import SourceError
from pi_sessions.formats.pi import read_pi_file
from tests.sessions.pi_files import by_id, check, counter, make_inputs, recorded_case, recorded_cases

# Input file of a case: what differs from Pi, and why that is better. Everything not named here agrees.
BETTER: dict[str, tuple[set[str], str]] = {
    "damaged-bad-line/a.jsonl": ({"path", "context"}, "one lost line hides no history"),
    "damaged-cycle-off-path/a.jsonl": (set(), "the cycle is shown, cut at one link"),
    "damaged-duplicate-id-compaction/a.jsonl": ({"ids"}, "the message that shares the id is kept"),
    "damaged-duplicate-ids/a.jsonl": ({"ids"}, "both entries are kept"),
    "damaged-label-targets/a.jsonl": ({"labels"}, "labels on nothing and labels that are no text are ignored"),
    "damaged-message-without-message/a.jsonl": ({"context"}, "the context does not crash"),
    "damaged-non-object-lines/a1.jsonl": ({"ids"}, "a number is no entry"),
    "damaged-non-object-lines/a2.jsonl": ({"ids"}, "a text is no entry"),
    "damaged-non-object-lines/a3.jsonl": ({"ids"}, "a list is no entry"),
    "damaged-non-object-lines/a4.jsonl": ({"ids"}, "true is no entry"),
    "damaged-non-object-lines/a5.jsonl": ({"ids"}, "an empty object is no entry"),
    "migrate-mixed-corrupt-v1/a.jsonl": ({"ids", "path", "level"}, "the header's thinking level counts"),
    "migrate-v1-compaction/a.jsonl": ({"ids", "path", "level"}, "the header's thinking level counts"),
    "migrate-v1-linear/a.jsonl": ({"ids", "path"}, "the header's thinking level counts"),
    "migrate-no-version-with-ids/a.jsonl": ({"leaf", "path", "context"}, "ids that are there are kept"),
    "migrate-version-odd/a1.jsonl": ({"leaf", "path", "context"}, "ids that are there are kept"),
    "migrate-version-odd/a2.jsonl": ({"leaf", "path", "context"}, "ids that are there are kept"),
    "migrate-version-odd/a3.jsonl": ({"leaf", "path", "context"}, "ids that are there are kept"),
    "migrate-version-odd/a6.jsonl": ({"leaf", "path", "context"}, "ids that are there are kept"),
}
REFUSED = {"damaged-empty-file", "damaged-blank-file", "damaged-missing-file"}


def opened(case: dict[str, Any]) -> dict[str, Any]:
    """The snapshot Pi gave right after opening, by file."""
    seen: dict[str, Any] = {}
    files: dict[str, str] = {}
    for step in case["steps"]:
        handle = step.get("on")
        if step["op"] == "open":
            files[handle] = step["args"]["file"]
        elif step["op"] == "snapshot" and handle in files:
            seen.setdefault(files.pop(handle), step.get("result"))
        else:
            files.pop(handle, None)
    return seen


def summary(entries: dict[str, Any], leaf: str | None) -> tuple[list[str], str, list[tuple[str, str]]]:
    path = path_to_root(entries, leaf)
    context = build_context(active_entries(path), *path_settings(path))
    messages = [(one.entry_id, one.message["role"]) for one in context.messages]
    return [one.id for one in reversed(path)], context.thinking_level, messages


SNAPSHOTS = [
    (name, file)
    for name in recorded_cases("damaged", "migrate")
    if name not in REFUSED
    for file in opened(recorded_case(name))
]


@pytest.mark.parametrize(("name", "file"), SNAPSHOTS, ids=[f"{name}/{file}" for name, file in SNAPSHOTS])
def test_what_pi_opens_is_read_the_same_or_better(tmp_path: Path, name: str, file: str) -> None:
    case = recorded_case(name)
    make_inputs(case, tmp_path)
    ids = counter()
    for given in case["inputs"]:
        session = read_pi_file(str(tmp_path / given["name"]), new_id=ids)
        if given["name"] == file:
            break
    check(session)
    pi = opened(case)[file]
    path, level, messages = summary(by_id(session), session.leaf)
    ours: dict[str, Any] = {
        "ids": len(session.entries),
        "leaf": session.leaf,
        "name": session.name,
        "labels": {target: text for target, (text, _time_ms) in session.labels.items()},
        "path": path,
        "level": level,
        "context": messages,
    }
    theirs: dict[str, Any] = {
        "ids": pi["distinct_ids"],
        "leaf": pi["leaf"],
        "name": pi["session_name"],
        "labels": {target: label["label"] for target, label in pi["labels"].items()},
        "path": pi["branch_leaf_to_root"],
        "level": pi["context"].get("thinkingLevel"),
        "context": [(one["entry"], one["role"]) for one in pi["context"].get("messages", [])],
    }
    if "error" in pi["context"]:
        theirs["level"] = level
    differing = {part for part in ours if ours[part] != theirs[part]}
    better, reason = BETTER.get(f"{name}/{file}", (set(), ""))
    assert differing == better, reason


def test_every_named_difference_belongs_to_a_recorded_file() -> None:
    assert set(BETTER) <= {f"{name}/{file}" for name, file in SNAPSHOTS}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_nothing_is_started_from_what_is_no_session(tmp_path: Path, name: str) -> None:
    make_inputs(recorded_case(name), tmp_path)
    with pytest.raises(SourceError):
        read_pi_file(str(tmp_path / "a.jsonl"))
