"""opencode: steps, results, forks, reverts, compactions, subagents; its database, its folders, its exported files."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import SourceError
from pi_sessions.formats import opencode
from pi_sessions.formats.parsed import ChildOf, ParsedSession
from pi_sessions.formats.registry import find_sources
from pi_sessions.store import SessionStore
from tests.sessions.foreign import context_of, database, kinds, path_of, read_all, totals

DUMP = "opencode/database.sql"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return database(tmp_path, DUMP, name="opencode.db")


@pytest.fixture
def sessions(source: str) -> dict[str, ParsedSession]:
    return read_all("opencode", source)


def test_each_step_of_an_answer_is_an_entry_and_its_results_follow_it(sessions: dict[str, ParsedSession]) -> None:
    first = sessions["ses_1"]
    assert kinds(first.entries)[:9] == [
        "user", "opencode.synthetic", "opencode.agent",
        "assistant", "toolResult", "toolResult", "assistant", "opencode.patch", "opencode.retry",
    ]  # fmt: skip
    step = first.entries[3].message
    assert step is not None
    assert [block["type"] for block in step["content"]] == ["thinking", "text", "toolCall", "toolCall"]
    assert step["content"][0]["thinkingSignature"] == "sig-1"
    assert step["stopReason"] == "toolUse"
    assert step["usage"] == {
        "input": 100, "output": 25, "cacheRead": 1000, "cacheWrite": 50, "totalTokens": 1175, "reasoning": 5,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.01},
    }  # fmt: skip
    failed = first.entries[5].message
    assert failed is not None
    assert (failed["toolCallId"], failed["toolName"], failed["isError"]) == ("toolu_2", "bash", True)


def independent_usage(source: str) -> tuple[float, float, float, float, float]:
    """Usage counted from the rows alone: steps where a message has some, else the message."""
    connection = sqlite3.connect(source)
    sums = [0.0] * 5
    seen: set[tuple[int, str]] = set()
    for message_id, created, raw in connection.execute("select id, time_created, data from message"):
        data = json.loads(raw)
        if data["role"] != "assistant" or (created, data["modelID"]) in seen:
            continue
        seen.add((created, data["modelID"]))
        parts = [
            json.loads(row[0]) for row in connection.execute("select data from part where message_id=?", (message_id,))
        ]
        for told in [part for part in parts if part["type"] == "step-finish"] or [data]:
            tokens = told["tokens"]
            counts = (tokens["input"], tokens["output"] + tokens["reasoning"], *tokens["cache"].values(), told["cost"])
            sums = [one + other for one, other in zip(sums, counts, strict=True)]
    connection.close()
    return tuple(sums)  # type: ignore[return-value]


def test_usage_equals_what_the_rows_say_and_copies_count_once(source: str, sessions: dict[str, ParsedSession]) -> None:
    told = totals(sessions["ses_1"], sessions["ses_2"], sessions["ses_3"])
    counted = (told.input, told.output, told.cache_read, told.cache_write, told.cost)
    assert counted == pytest.approx(independent_usage(source))
    assert told.tool_calls == 4
    assert told.tool_results == 3


def test_an_undone_tail_is_a_branch_that_was_left(sessions: dict[str, ParsedSession]) -> None:
    first = sessions["ses_1"]
    assert path_of(first)[-1].message["content"] == [{"type": "text", "text": "Done."}]  # type: ignore[index]
    assert any("A wrong way." in entry.payload for entry in first.entries)
    assert all("A wrong way." not in entry.payload for entry in path_of(first))


def test_the_context_is_what_opencode_would_send(sessions: dict[str, ParsedSession]) -> None:
    """The summary, the tail it names, then what follows; synthetic text is for the model."""
    assert context_of(sessions["ses_1"]) == [
        ("compactionSummary", "SUMMARY: the loop spins."),
        ("user", "Let a subagent look."),
        ("assistant", "toolCall:toolu_3|toolCall:toolu_4"),
        ("toolResult", "found it"),
        ("custom", "Continue if you have next steps"),
        ("user", "Fix it."),
        ("assistant", "Done."),
    ]


def test_an_output_that_was_cleared_is_kept_and_not_sent(sessions: dict[str, ParsedSession]) -> None:
    third = sessions["ses_3"]
    assert ("toolResult", "[Old tool result content cleared]") in context_of(third)
    assert any("while True: pass" in entry.payload for entry in third.entries)


def test_a_fork_shares_the_entries_it_copied(sessions: dict[str, ParsedSession], store: SessionStore) -> None:
    results = {name: store.import_session(session) for name, session in sessions.items()}
    assert results["ses_3"].shared == 9
    assert results["ses_3"].added == 2
    assert all(store.import_session(session).unchanged for session in sessions.values())


def test_a_subagents_conversation_is_a_child_of_its_call(sessions: dict[str, ParsedSession]) -> None:
    assert sessions["ses_2"].child_of == ChildOf("ses_1", None, "toolu_3")
    assert sessions["ses_1"].child_of is None


def test_made_titles_are_no_names(sessions: dict[str, ParsedSession]) -> None:
    assert {name: session.name for name, session in sessions.items()} == {
        "ses_1": "Freeze of the kiosk", "ses_2": None, "ses_3": None, "ses_4": "Next tables",
    }  # fmt: skip
    assert sessions["ses_1"].cwd == "/proj/kiosk"


def test_nothing_is_dropped(sessions: dict[str, ParsedSession]) -> None:
    first = sessions["ses_1"]
    assert first.losses == ()
    assert dict(first.kept) == {"agent": 1, "patch": 1, "retry": 1, "compaction": 1, "text": 1}
    assert [unknown.code for unknown in first.unknown] == ["unknown_kind"]
    assert [repair.code for repair in first.repairs] == ["call_without_result"]
    stopped = next(entry.message for entry in first.entries if entry.message and "stopped by" in entry.payload)
    assert (stopped["stopReason"], stopped["errorMessage"]) == ("aborted", "stopped by the user")
    assert first.header["opencode"]["share_url"] == "https://example.test/s/1"


def test_the_next_tables_are_read(sessions: dict[str, ParsedSession]) -> None:
    fourth = sessions["ses_4"]
    assert kinds(fourth.entries) == [
        "opencode.agent-switched", "model_change", "system", "user", "assistant", "toolResult",
        "opencode.synthetic", "bashExecution", "compaction", "user", "opencode.warp",
    ]  # fmt: skip
    assert context_of(fourth) == [("compactionSummary", "SUM\n\nRECENT"), ("user", "go on")]
    assert totals(fourth).output == 5
    assert [unknown.line for unknown in fourth.unknown] == [11]


def as_export(source: str, session_id: str) -> dict[str, Any]:
    """What `opencode export` writes of a session."""
    connection = sqlite3.connect(source)
    title, directory, created, revert = connection.execute(
        "select title, directory, time_created, revert from session where id=?", (session_id,)
    ).fetchone()
    info: dict[str, Any] = {"id": session_id, "title": title, "directory": directory, "version": "1.18.33"}
    info |= {"projectID": "prj_1", "time": {"created": created, "updated": created}}
    info |= {"revert": json.loads(revert)} if revert else {}
    messages = []
    for message_id, data in connection.execute(
        "select id, data from message where session_id=? order by time_created, id", (session_id,)
    ):
        rows = connection.execute("select id, data from part where message_id=? order by id", (message_id,))
        parts = [{**json.loads(raw), "id": id, "messageID": message_id, "sessionID": session_id} for id, raw in rows]
        messages.append({"info": {**json.loads(data), "id": message_id, "sessionID": session_id}, "parts": parts})
    connection.close()
    return {"info": info, "messages": messages}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize("nested", [False, True])
def test_the_older_folders_give_the_same_entries(
    tmp_path: Path, source: str, sessions: dict[str, ParsedSession], nested: bool
) -> None:
    exported = as_export(source, "ses_1")
    base = tmp_path / "storage"
    inner = base / "session" if nested else base
    write(base / "session" / ("info" if nested else "prj_1") / "ses_1.json", exported["info"])
    for message in exported["messages"]:
        write(inner / "message" / "ses_1" / f"{message['info']['id']}.json", message["info"])
        for part in message["parts"]:
            between = ["ses_1"] if nested else []
            write(inner.joinpath("part", *between, part["messageID"], f"{part['id']}.json"), part)
    (found,) = find_sources([str(tmp_path / "storage")])
    assert found.format is not None
    assert found.format.name == "opencode"
    (read,) = read_all("opencode", base).values()
    assert [entry.to_dict() for entry in read.entries] == [entry.to_dict() for entry in sessions["ses_1"].entries]
    assert read.leaf == sessions["ses_1"].leaf
    before = opencode.stamp(str(base))
    write(inner / "message" / "ses_1" / "msg_99.json", {"id": "msg_99", "role": "user", "time": {"created": 1}})
    assert opencode.stamp(str(base)) != before


def test_an_exported_file_gives_the_same_entries(
    tmp_path: Path, source: str, sessions: dict[str, ParsedSession]
) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(as_export(source, "ses_1"), indent=1))
    (found,) = find_sources([str(path)])
    assert found.format is not None
    (read,) = read_all("opencode", path).values()
    assert [entry.to_dict() for entry in read.entries] == [entry.to_dict() for entry in sessions["ses_1"].entries]
    path.write_text(path.read_text()[:-2000])
    (cut,) = read_all("opencode", path).values()
    assert len(cut.entries) > 10
    assert [loss.code for loss in cut.losses] == ["torn"]
    assert {entry.id for entry in cut.entries} <= {entry.id for entry in read.entries}


def test_a_session_that_was_undone_to_its_start_has_no_leaf(tmp_path: Path, source: str) -> None:
    connection = sqlite3.connect(source)
    connection.execute("update session set revert = ? where id = 'ses_1'", (json.dumps({"messageID": "msg_01"}),))
    connection.commit()
    connection.close()
    assert read_all("opencode", source)["ses_1"].leaf is None


WRITER = """
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma wal_autocheckpoint = 0")
n = 0
print("ready", flush=True)
for line in sys.stdin:
    n += 1
    db.execute("begin immediate")
    data = {"role": "user", "time": {"created": 1790000100000 + n}}
    db.execute("insert into message values(?, 'ses_2', ?, ?, ?)", (f"msg_9{n}", 1790000100000 + n, 0, json.dumps(data)))
    part = json.dumps({"type": "text", "text": f"live {n}"})
    db.execute("insert into part values(?, ?, 'ses_2', 0, 0, ?)", (f"prt_9{n}", f"msg_9{n}", part))
    db.execute("commit")
    print("written", flush=True)
"""


def test_a_database_is_read_while_its_program_writes(tmp_path: Path, source: str) -> None:
    """Each reading sees what is committed, with the WAL; the files beside it stay as they are."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        for number in range(1, 4):
            print("go", file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "written\n"
            wal = Path(source + "-wal").read_bytes()
            read = read_all("opencode", source)
            assert context_of(read["ses_2"])[-1] == ("user", f"live {number}")
            assert Path(source + "-wal").read_bytes() == wal
        writer.stdin.close()
        assert writer.wait(timeout=20) == 0


def test_an_answer_on_the_way_waits_for_the_next_import(tmp_path: Path, source: str) -> None:
    connection = sqlite3.connect(source)
    data = {"role": "assistant", "modelID": "m", "providerID": "p", "time": {"created": 1790000200000}}
    connection.execute("insert into message values('msg_95', 'ses_2', 1790000200000, 0, ?)", (json.dumps(data),))
    connection.commit()
    connection.close()
    from pi_sessions.formats.opencode_sources import read_database

    live = {session.id: session for session in read_database(source, live=True)}
    settled = {session.id: session for session in read_database(source, live=False)}
    assert len(settled["ses_2"].entries) == len(live["ses_2"].entries) + 1
    assert live["ses_2"].tally.adds_up()


def test_damaged_rows_are_counted_and_the_others_kept(source: str) -> None:
    connection = sqlite3.connect(source)
    connection.execute("update message set data = '{torn' where id = 'msg_08'")
    connection.execute("update part set data = x'00ff' where message_id = 'msg_22'")
    connection.commit()
    connection.close()
    read = read_all("opencode", source)
    assert [loss.code for loss in read["ses_1"].losses] == ["damaged_row"]
    assert [loss.code for loss in read["ses_2"].losses] == ["damaged_row"]
    assert context_of(read["ses_1"])[-1] == ("assistant", "Done.")


def test_a_database_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 500)
    with pytest.raises(SourceError):
        list(opencode.read(str(path)))
