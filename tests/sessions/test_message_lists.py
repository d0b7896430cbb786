"""Message lists: Chat Completions, Anthropic, Responses items, one per line, and the database of openai-agents."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import find_sources, identify
from pi_sessions.store import SessionStore
from tests.sessions.foreign import FORMATS, context_of, database, kinds, path_of, read_all, totals

FOLDER = FORMATS / "messages"


def one(name: str) -> ParsedSession:
    (session,) = read_all("messages", FOLDER / name).values()
    return session


def test_chat_completions() -> None:
    session = one("chat.json")
    assert context_of(session)[:-1] == [
        ("system", "Be brief."),
        ("user", "What is in it?|[image]|[input_audio]"),
        ("assistant", "<I must add.>|toolCall:call_1|toolCall:call_2"),
        ("toolResult", "1"),
        ("toolResult", "2"),
        ("assistant", "It is|no"),
        ("assistant", "toolCall:function_1"),
    ]
    last = session.entries[7].message
    assert last is not None
    assert (last["toolCallId"], last["toolName"]) == ("function_1", "old")
    calls = [block for block in session.entries[2].message["content"] if block["type"] == "toolCall"]  # type: ignore[index]
    assert calls[0]["arguments"] == {"a": 1}
    assert calls[1]["argumentsText"] == "{torn"
    assert session.entries[0].message["toolsAdded"][0]["name"] == "add"  # type: ignore[index]
    assert session.entries[1].message["messageList"] == {"name": "ada"}  # type: ignore[index]
    assert [unknown.code for unknown in session.unknown] == ["unknown_kind"]
    assert session.header["messageList"] == {"temperature": 0.2}
    told = totals(session)
    assert (told.input, told.output, told.cache_read) == (40, 20, 60)


def test_anthropic_messages() -> None:
    session = one("anthropic.json")
    assert context_of(session) == [
        ("system", "Be kind."),
        ("user", "Read it"),
        ("assistant", "<hm>|I read.|toolCall:toolu_1"),
        ("toolResult", "A|[image]"),
        ("user", "and now?"),
        ("assistant", "Done."),
    ]
    answer, result = session.entries[2].message, session.entries[3].message
    assert answer is not None
    assert (answer["provider"], answer["model"], answer["stopReason"]) == ("anthropic", "claude-opus-5", "toolUse")
    assert answer["content"][0]["thinkingSignature"] == "s"
    assert result is not None
    assert (result["toolName"], result["isError"]) == ("read", True)


def test_items_of_one_response_are_one_answer() -> None:
    session = one("responses.json")
    assert context_of(session) == [
        ("system", "Be exact."),
        ("user", "Go"),
        ("assistant", "<thinking>|I call.|toolCall:call_7"),
        ("toolResult", "2"),
        ("assistant", "Two."),
    ]
    assert kinds(session.entries)[-1] == "messages.mcp_list_tools"
    first = session.entries[2].message
    assert first is not None
    assert first["api"] == "openai-responses"
    assert json.loads(first["content"][0]["thinkingSignature"])["encrypted_content"] == "opaque"


def test_conversations_of_one_file_are_sessions_of_their_own(store: SessionStore) -> None:
    sessions = read_all("messages", FOLDER / "fine-tune.jsonl")
    assert len(sessions) == 4
    assert list(sessions)[3] == "batch-1"
    results = [store.import_session(session) for session in sessions.values()]
    assert [result.shared for result in results] == [0, 1, 3, 0]
    assert all(store.import_session(session).unchanged for session in sessions.values())


def test_each_line_of_a_file_is_counted_once_and_named_as_the_origin(tmp_path: Path, store: SessionStore) -> None:
    lines = (FOLDER / "fine-tune.jsonl").read_text("utf-8").splitlines()
    path = tmp_path / "tuned.jsonl"
    glued = lines[0] + lines[1].replace("word 2", "word 3")
    path.write_text("\n".join([lines[0], "", lines[1][:60], "[1]", lines[3], glued, '{"messages": [{"role": "u']))
    sessions = read_all("messages", path)
    assert [session.lines_read for session in sessions.values()] == [1, 1, 1, 4]
    assert sum(session.lines_read for session in sessions.values()) == 7
    told = [session.tally for session in sessions.values()]
    assert all(each.adds_up() for each in told)
    assert (told[-1].entries, told[-1].blank, told[-1].lost, told[-1].skipped) == (0, 1, 2, 1)
    batch = sessions["batch-1"]
    assert set(batch.lines) == {5}
    stored = store.import_session(batch)
    origin = store.origin(stored.session.id, batch.entries[0].id)
    assert origin is not None
    assert origin.line == 5
    # Messages by themselves are a session of their own, which tells of everything but the lists' lines.
    path.write_text("\n".join([*lines, '{"role": "user", "content": "and I"}', ""]) + "\n")
    mixed = read_all("messages", path)
    assert sum(session.lines_read for session in mixed.values()) == 6
    assert list(mixed.values())[-1].tally.entries == 1


def test_messages_one_per_line_have_their_times() -> None:
    session = one("one-per-line.jsonl")
    assert [entry.timestamp for entry in session.entries] == ["2026-09-01T10:00:00.000Z", "2026-09-01T10:00:05.000Z"]
    assert session.tally.entries == 2


def test_a_longer_list_shares_what_a_shorter_one_began(tmp_path: Path, store: SessionStore) -> None:
    given = json.loads((FOLDER / "anthropic.json").read_text("utf-8"))
    short, long = tmp_path / "short.json", tmp_path / "long.json"
    short.write_text(json.dumps({**given, "messages": given["messages"][:2]}))
    long.write_text(json.dumps({**given, "messages": [*given["messages"], {"role": "user", "content": "more"}]}))
    store.import_session(next(iter(read_all("messages", short).values())))
    result = store.import_session(next(iter(read_all("messages", long).values())))
    assert (result.created, result.shared, result.added) == (True, 3, 4)


def test_a_bare_array_and_an_array_of_arrays(tmp_path: Path) -> None:
    given = json.loads((FOLDER / "anthropic.json").read_text("utf-8"))["messages"]
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(given))
    (bare,) = read_all("messages", path).values()
    assert len(bare.entries) == 5
    path.write_text(json.dumps([given, given[:1]], indent=2))
    assert [len(session.entries) for session in read_all("messages", path).values()] == [5, 1]


def test_a_damaged_array_keeps_its_whole_messages(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    messages = [{"role": "user", "content": f"message {number}"} for number in range(9)]
    raw = json.dumps(messages)
    path.write_text(raw.replace('"content": "message 4"', '"content" "message 4"') + '\n{"role": "user", "cont')
    (session,) = read_all("messages", path).values()
    assert [text for _role, text in context_of(session)] == [f"message {number}" for number in range(9) if number != 4]
    assert len(session.losses) == 2


@pytest.mark.parametrize(
    "name", ["chat.json", "anthropic.json", "responses.json", "fine-tune.jsonl", "one-per-line.jsonl"]
)
def test_they_are_found_by_content(name: str) -> None:
    found = identify(str(FOLDER / name))
    assert found.format is not None
    assert found.format.name == "messages"


def test_other_json_is_nobodys(tmp_path: Path) -> None:
    for name, text in {
        "a.json": '{"role":"user"}',
        "b.json": "[1,2]",
        "package.json": '{"name":"x","messages":[]}',
    }.items():
        (tmp_path / name).write_text(text)
        assert identify(str(tmp_path / name)).format is None
    assert [found for found in find_sources([str(tmp_path)]) if found.format] == []


LISTED = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a case", "request": LISTED, "status": 200},
        {"context": {"messages": []}, "cases": [LISTED, LISTED]},
        {"input": [{"a": 1}], "about": {"role": "user", "content": "x"}},
        {"messages": [{"text": "no role"}], "settings": {"role": "system"}},
        {"text": '"messages": [{"role": "user", "content": "quoted"}]'},
        {"text": "long" * 40_000, "inner": LISTED},
        {"inner": {**LISTED, "text": "long" * 40_000}},
    ],
)
def test_json_with_messages_further_inside_is_no_list(tmp_path: Path, value: object) -> None:
    path = tmp_path / "case.json"
    for indent in (None, 1):
        path.write_text(json.dumps(value, indent=indent))
        found = identify(str(path))
        assert found.format is None
        assert found.reason == f"{path} is no session file of a known kind: there is no conversation in it"
        assert list(find_sources([str(tmp_path)])) == []


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"model": "m", "tools": [{"input": [{"a": 1}]}], **LISTED}),
        json.dumps({"custom_id": "1", "body": {"model": "m", **LISTED}}),
        json.dumps({"input": [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}]}),
        json.dumps({"about": 1}) + "\n" + json.dumps(LISTED),
        json.dumps({"messages": [{"role": "user", "content": "long" * 40_000}]}),
        json.dumps(LISTED)[:60],
        '{"model": "m" "max": 1, ' + json.dumps(LISTED)[1:],
    ],
)
def test_lists_in_all_their_places_are_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(text)
    found = identify(str(path))
    assert found.format is not None, found.reason
    assert found.format.name == "messages"
    assert any(session.has_begun() for session in found.format.read(str(path)))


def test_branches_of_openai_agents_are_one_tree(tmp_path: Path) -> None:
    path = database(tmp_path, "messages/agents.sql")
    (session,) = read_all("messages", path).values()
    assert session.id == "agent-1"
    assert context_of(session) == [
        ("user", "first"),
        ("assistant", "toolCall:c1"),
        ("toolResult", "3"),
        ("assistant", "three"),
        ("user", "second"),
        ("assistant", "on main"),
    ]
    ((other, (name, _time)),) = session.labels.items()
    assert name == "branch_from_turn_2"
    assert [text for _role, text in context_of(session, other)][-2:] == ["second, otherwise", "on the other"]
    shared = [one.id for one, two in zip(path_of(session), path_of(session, other), strict=False) if one is two]
    assert len(shared) == 5
    connection = sqlite3.connect(path)
    expected = connection.execute("select sum(input_tokens), sum(output_tokens) from turn_usage").fetchone()
    connection.close()
    told = totals(session)
    assert (told.input + told.cache_read, told.output) == expected
    assert session.entries[0].timestamp == "2026-09-01T10:00:00.000Z"
