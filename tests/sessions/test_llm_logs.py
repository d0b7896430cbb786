"""llm's logs: threads in a tree of hashes, forks, tokens; conversations of older versions beside them.

The dump was written by llm 0.36 itself; a fork and rows of the older tables were added.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import find_sources
from pi_sessions.store import SessionStore
from tests.sessions.foreign import context_of, database, kinds, path_of, read_all, totals

FRAGMENT = "FRAG TEXT " * 50


@pytest.fixture
def source(tmp_path: Path) -> str:
    return database(tmp_path, "llm/logs.sql", name="logs.db")


@pytest.fixture
def sessions(source: str) -> dict[str, ParsedSession]:
    return read_all("llm", source)


def test_a_thread_is_the_path_to_its_head(sessions: dict[str, ParsedSession]) -> None:
    assert context_of(sessions["thread-main"]) == [
        ("system", "be kind"),
        ("user", "hello|[image]"),
        ("assistant", "reply 1 to hello"),
        ("user", "use tool"),
        ("assistant", "toolCall:call_1"),
        ("toolResult", "3"),
        ("assistant", "<I add.>|reply 3 to "),
        ("user", FRAGMENT + "\nthird"),
        ("assistant", "reply 4"),
    ]


def test_each_threads_and_conversations_come_once(sessions: dict[str, ParsedSession]) -> None:
    assert list(sessions) == ["thread-main", "thread-fork", "conv-old", "01ac"]
    assert [session.title for session in sessions.values()] == ["hello", "another", "An old one", None]
    assert sessions["thread-fork"].parent_ref == "thread-main"


def test_model_time_and_usage_are_the_turns(sessions: dict[str, ParsedSession]) -> None:
    third = next(entry for entry in sessions["thread-main"].entries if "reply 3" in entry.payload)
    answer = third.message
    assert answer is not None
    assert (answer["provider"], answer["model"], answer["responseModel"]) == ("openai", "gpt-5", "gpt-5-2026-08-01")
    assert answer["usage"]["input"] == 20
    assert answer["usage"]["cacheRead"] == 10
    assert answer["usage"]["reasoning"] == 2
    assert answer["durationMs"] == 1500
    assert answer["llm"]["options"] == {"temperature": 0}
    assert third.timestamp == "2026-09-21T10:02:00.500Z"
    times = [entry.time_ms for entry in path_of(sessions["thread-main"])]
    assert times == sorted(times, key=lambda time: time or 0)


def test_tokens_equal_those_of_turns_and_responses(source: str, sessions: dict[str, ParsedSession]) -> None:
    """A response of a conversation that lives on as a thread is one of the thread's turns."""
    connection = sqlite3.connect(source)
    expected = connection.execute(
        "select sum(input_tokens), sum(output_tokens) from (select input_tokens, output_tokens from turns union all"
        " select input_tokens, output_tokens from responses where conversation_id is not 'thread-main')"
    ).fetchone()
    connection.close()
    told = totals(*sessions.values())
    assert (told.input + told.cache_read, told.output) == expected
    assert (told.tool_calls, told.tool_results) == (2, 2)


def test_a_fork_shares_what_has_the_same_hash(sessions: dict[str, ParsedSession], store: SessionStore) -> None:
    results = {name: store.import_session(session) for name, session in sessions.items()}
    assert (results["thread-fork"].shared, results["thread-fork"].added) == (3, 3)
    assert results["thread-fork"].session.origin == "thread-main"
    assert all(store.import_session(session).unchanged for session in sessions.values())
    fork = sessions["thread-fork"]
    assert context_of(fork)[-1] == ("assistant", "as you like")
    assert fork.entries[-1].type == "usage"
    assert fork.foreign_ids[0] is not None
    assert fork.foreign_ids[0].startswith("b2:")


def test_conversations_of_older_versions(sessions: dict[str, ParsedSession]) -> None:
    old = sessions["conv-old"]
    assert kinds(old.entries) == ["system", "user", "assistant", "toolResult", "assistant"]
    assert context_of(old) == [
        ("system", "Be brief"),
        ("user", "What is 1+1?"),
        ("assistant", "<Adding.>|toolCall:call_9"),
        ("toolResult", "2"),
        ("assistant", "Two."),
    ]
    first = old.entries[2].message
    assert first is not None
    assert first["content"][1]["arguments"] == {"a": 1, "b": 1}
    assert (first["usage"]["input"], first["usage"]["cacheRead"]) == (60, 40)
    assert json.loads(first["llm"]["response_json"]) == {"id": "x"}
    assert context_of(sessions["01ac"]) == [
        ("system", FRAGMENT),
        ("user", FRAGMENT + "\n\nLook|[image]"),
        ("assistant", "I see."),
    ]


def test_an_answer_from_before_the_threads_takes_its_facts_from_its_response(source: str) -> None:
    connection = sqlite3.connect(source)
    connection.execute("delete from turns where id = 'turn-1'")
    connection.commit()
    connection.close()
    first = next(entry for entry in read_all("llm", source)["thread-main"].entries if "reply 1" in entry.payload)
    assert first.message is not None
    assert first.message["usage"]["output"] == 2
    assert first.timestamp == "2025-03-03T10:00:02.000Z"


def test_a_new_turn_moves_the_thread_on(source: str, sessions: dict[str, ParsedSession], store: SessionStore) -> None:
    store.import_session(sessions["thread-fork"])
    connection = sqlite3.connect(source)
    connection.execute("insert into messages values('b2:f3', 'b2:f0000000000000000000000000000002', 'user', null)")
    connection.execute("insert into parts(message_hash, position, type, text) values('b2:f3', 0, 'text', 'more')")
    connection.execute("update threads set tip_message_hash = 'b2:f3' where id = 'thread-fork'")
    connection.commit()
    connection.close()
    result = store.import_session(read_all("llm", source)["thread-fork"])
    assert (result.added, result.moved_main) == (1, True)


def test_a_database_of_the_older_generation_alone(source: str) -> None:
    connection = sqlite3.connect(source)
    for table in ("part_attachments", "part_fragments", "parts", "turn_tools", "turn_fragments", "turns", "threads"):
        connection.execute(f"drop table {table}")
    connection.commit()
    connection.close()
    (found,) = find_sources([source])
    assert found.format is not None
    assert found.format.name == "llm"
    assert list(read_all("llm", source)) == ["conv-old", "01ac", "thread-main"]
