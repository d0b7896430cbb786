"""Entries as typed models: Pi's types told apart by `type`, everything unknown kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pi_sessions import entries as models
from pi_sessions.entries import entry_to_wire, parse_entry
from pi_sessions.errors import InvalidEntryError, SourceError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.stored import StoredEntry
from tests.sessions.pi_files import CASES, REAL_SESSIONS, answer, real_session, user

USAGE = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3}
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}
BASE = {"id": "a", "parentId": None, "timestamp": "2026-01-01T00:01:00.000Z"}
OWN: dict[str, dict[str, Any]] = {
    "message": {"message": {"role": "user", "content": "q", "timestamp": 5}},
    "model_change": {"provider": "p", "modelId": "m"},
    "thinking_level_change": {"thinkingLevel": "high"},
    "usage": {"kind": "k", "provider": "p", "model": "m", "usage": USAGE | {"cost": COST}, "note": "n"},
    "compaction": {
        "summary": "S",
        "firstKeptEntryId": "a",
        "tokensBefore": 7,
        "details": {"readFiles": ["r"], "modifiedFiles": []},
        "usage": USAGE | {"cost": COST},
        "fromHook": False,
        "systemMessage": {"role": "system", "content": "be kind", "timestamp": 1},
    },
    "branch_summary": {"fromId": "root", "summary": "S", "fromHook": True},
    "custom": {"customType": "t", "data": [1.5, None]},
    "custom_message": {
        "customType": "t",
        "content": [{"type": "text", "text": "x"}],
        "display": False,
        "details": None,
    },
    "context_edit": {"targetId": "a", "replacement": {"content": "short"}},
    "label": {"targetId": "a", "label": "mark"},
    "session_info": {"name": "Nm"},
    "mystery": {"payload": {"deep": [1, 2]}},
}
MODELS = {
    "message": models.MessageEntry,
    "model_change": models.ModelChangeEntry,
    "thinking_level_change": models.ThinkingLevelChangeEntry,
    "usage": models.UsageEntry,
    "compaction": models.CompactionEntry,
    "branch_summary": models.BranchSummaryEntry,
    "custom": models.CustomEntry,
    "custom_message": models.CustomMessageEntry,
    "context_edit": models.ContextEditEntry,
    "label": models.LabelEntry,
    "session_info": models.SessionInfoEntry,
    "mystery": models.OtherEntry,
}


@pytest.mark.parametrize("kind", OWN)
def test_each_type_has_its_model_and_comes_back_the_same(kind: str) -> None:
    data = {"type": kind, **BASE, **OWN[kind], "unknownField": [1, {"b": None}]}
    entry = parse_entry(data)
    assert type(entry) is MODELS[kind]
    assert entry_to_wire(entry) == data
    assert (entry.id, entry.parent_id) == ("a", None)


def test_every_type_of_pi_has_a_model() -> None:
    assert models.ENTRY_TYPES | {"mystery"} == set(MODELS)


def test_fields_have_python_names() -> None:
    entry = parse_entry({"type": "compaction", **BASE, **OWN["compaction"]})
    assert isinstance(entry, models.CompactionEntry)
    assert (entry.first_kept_entry_id, entry.tokens_before, entry.from_hook) == ("a", 7, False)
    assert entry.system_message is not None
    assert entry.usage is not None
    assert entry.usage.cost.total == 0.25


def test_what_is_absent_stays_absent_and_null_stays_null() -> None:
    """A base field that is not known yet, and a label that was cleared in either way."""
    for data in (
        {"type": "label", "targetId": "a"},
        {"type": "label", "targetId": "a", "label": None},
        {"type": "context_edit", "parentId": None, "targetId": "a", "replacement": None},
        {"type": "message", "id": "z", "timestamp": 5},
    ):
        assert entry_to_wire(parse_entry(data)) == data


def test_models_are_frozen() -> None:
    entry = parse_entry({"type": "session_info", **BASE, "name": "x"})
    with pytest.raises(ValidationError):
        entry.id = "b"
    assert entry.model_copy(update={"id": "b"}).id == "b"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (5, "it is wrong"),
        (None, "it is wrong"),
        ({}, "its field type is wrong"),
        ({"type": 3}, "its field type is wrong"),
        ({"type": "model_change", "provider": "p"}, "its field modelId is wrong"),
        ({"type": "label", "targetId": ["x"]}, "its field targetId is wrong"),
        ({"type": "message", "message": {"role": "user"}}, "its field message.user.content is wrong"),
        ({"type": "context_edit", "targetId": "a", "replacement": {}}, "its field replacement.content is wrong"),
    ],
)
def test_what_is_no_entry_is_refused_with_the_field(data: object, told: str) -> None:
    with pytest.raises(InvalidEntryError, match=told):
        parse_entry(data)


def test_a_stored_entry_is_read_as_well() -> None:
    stored = StoredEntry.from_dict(json.loads(answer("b", "a", "text")))
    entry = parse_entry(stored)
    assert isinstance(entry, models.MessageEntry)
    assert entry.message is not None
    assert entry.message.role == "assistant"
    assert parse_entry(entry) is entry


def includes(whole: object, part: object) -> bool:
    """Whether a JSON value holds everything another one holds."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(name in whole and includes(whole[name], value) for name, value in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return len(whole) == len(part) and all(map(includes, whole, part))
    return whole == part


def test_nothing_of_real_entries_is_lost(tmp_path: Path) -> None:
    """Every entry of the people's cases and of the bundled real sessions."""
    paths = [str(path) for path in sorted(CASES.glob("*/*.jsonl"))]
    paths += [real_session(name, tmp_path) for name in REAL_SESSIONS]
    count = 0
    for path in paths:
        try:
            session = read_pi_file(path)
        except SourceError:
            continue
        for stored in session.entries:
            data = stored.to_dict()
            assert includes(entry_to_wire(parse_entry(stored)), data)
            count += 1
    assert count > 2000


def test_a_plain_user_message_comes_back_exactly() -> None:
    data = json.loads(user("a", None, "x"))
    assert entry_to_wire(parse_entry(data)) == data
