"""goose: messages, compactions by hiding, the ledger, copies, subagents; its database and its older files."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from pi_sessions.formats.parsed import ChildOf, ParsedSession
from pi_sessions.formats.registry import find_sources
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS, context_of, database, kinds, read_all, totals

DUMP = "goose/sessions.sql"
LINES = FORMATS / "goose" / "20250220_090000.jsonl"
MAIN = "20260921_1"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return database(tmp_path, DUMP, name="goose.db", wal=True)


@pytest.fixture
def sessions(source: str) -> dict[str, ParsedSession]:
    return read_all("goose", source)


def test_results_follow_their_answer_and_the_ledger_stands_at_its_time(sessions: dict[str, ParsedSession]) -> None:
    assert kinds(sessions[MAIN].entries) == [
        "user", "assistant", "usage", "toolResult", "toolResult", "assistant", "usage", "goose.systemNotification",
        "compaction", "goose.hidden", "usage", "user", "assistant", "goose.hologram", "usage", "goose.hidden",
    ]  # fmt: skip
    answer = sessions[MAIN].entries[1].message
    assert answer is not None
    assert [block["type"] for block in answer["content"]] == ["thinking", "thinking", "text", "toolCall", "toolCall"]
    assert answer["content"][1] == {"type": "thinking", "thinking": "", "thinkingSignature": "opaque", "redacted": True}
    failed = sessions[MAIN].entries[4].message
    assert failed is not None
    assert (failed["toolName"], failed["isError"]) == ("developer__text_editor", True)
    second = sessions[MAIN].entries[5].message
    assert second is not None
    assert second["model"] == "claude-haiku-5"


def test_the_context_is_what_the_agent_may_see(sessions: dict[str, ParsedSession]) -> None:
    assert context_of(sessions[MAIN]) == [
        ("compactionSummary", "SUMMARY: it loops."),
        ("custom", "Your context was compacted. Go on."),
        ("user", "Fix it"),
        ("assistant", "Let me ask.|toolCall:c3"),
    ]


def test_usage_is_the_ledgers(source: str, sessions: dict[str, ParsedSession]) -> None:
    connection = sqlite3.connect(source)
    expected = connection.execute(
        "select sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(cost)"
        " from usage_ledger"
    ).fetchone()
    calls = sum(
        part["type"] == "toolRequest"
        for (raw,) in connection.execute("select content_json from messages where session_id = ?", (MAIN,))
        for part in json.loads(raw)
    )
    connection.close()
    told = totals(*sessions.values())
    counted = (told.input, told.output, told.cache_read, told.cache_write, told.cost)
    assert counted == pytest.approx(expected)
    assert (told.tool_calls, told.tool_results) == (calls, 2)


def test_a_copied_session_shares_and_a_later_compaction_changes_no_entry(
    source: str, sessions: dict[str, ParsedSession], store: SessionStore
) -> None:
    results = {name: store.import_session(session) for name, session in sessions.items()}
    assert (results["20260921_3"].shared, results["20260921_3"].added) == (2, 1)
    connection = sqlite3.connect(source)
    connection.execute('update messages set metadata_json = \'{"agentVisible":false,"userVisible":true}\' where id > 7')
    connection.execute("update messages set metadata_json = replace(metadata_json, 'true', 'false') where id in (6, 7)")
    connection.execute(
        "insert into messages(message_id, session_id, role, content_json, created_timestamp, metadata_json)"
        ' values(\'m11\', ?, \'user\', \'[{"type":"text","text":"SECOND"}]\', 1790000050, ?)',
        (MAIN, '{"userVisible":false,"agentVisible":true}'),
    )
    connection.commit()
    connection.close()
    grown = read_all("goose", source)[MAIN]
    assert context_of(grown) == [("compactionSummary", "SECOND")]
    result = store.import_session(grown)
    assert result.shared == len(sessions[MAIN].entries) - 1
    assert result.moved_main


def test_names_children_and_rest(sessions: dict[str, ParsedSession]) -> None:
    assert [session.name for session in sessions.values()] == [
        "Freeze of the kiosk", None, "Freeze of the kiosk (copy)",
    ]  # fmt: skip
    assert sessions["20260921_2"].child_of == ChildOf(MAIN, "20260921_2", "c3")
    assert sessions[MAIN].header["goose"]["recipe_json"] == '{"title": "r"}'
    assert dict(sessions[MAIN].kept) == {"systemNotification": 1, "hidden": 1}
    assert [unknown.code for unknown in sessions[MAIN].unknown] == ["unknown_kind"]
    assert sessions[MAIN].cwd == "/proj/kiosk"


def test_older_files_of_lines(tmp_path: Path) -> None:
    (old,) = read_all("goose", LINES).values()
    assert (old.id, old.name, old.cwd) == ("20250220_090000", "An old talk", "/proj/old")
    assert kinds(old.entries) == ["user", "assistant", "toolResult"]
    assert context_of(old)[-1] == ("toolResult", "a")
    assert (old.tally.header, old.tally.entries, old.tally.lines) == (1, 3, 4)
    assert old.header["goose"]["accumulated_total_tokens"] == 90


def test_both_are_found_below_gooses_folder(tmp_path: Path) -> None:
    folder = tmp_path / "goose" / "sessions"
    folder.mkdir(parents=True)
    database(folder, DUMP, name="sessions.db")
    (folder / LINES.name).write_bytes(LINES.read_bytes())
    found = [each for each in find_sources([str(tmp_path / "goose")]) if each.format]
    assert [Path(each.path).name for each in found] == [LINES.name, "sessions.db"]
    assert {each.format.name for each in found if each.format} == {"goose"}


def test_a_row_nobody_can_read_is_lost_alone(source: str) -> None:
    connection = sqlite3.connect(source)
    connection.execute("update messages set content_json = '[{' where message_id = 'm4'")
    connection.commit()
    connection.close()
    read = read_all("goose", source)[MAIN]
    assert [loss.code for loss in read.losses] == ["damaged_row"]
    assert read.tally.lost == 1
    assert len(kinds(read.entries)) == 15
