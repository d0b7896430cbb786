"""Made-up sources that are one huge file each: one long session, or one document with many.

The same each time. The three line formats come from `mixed_sources`; the others are made here, with messages of the
sizes that those have.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from itertools import count

from pi_sessions.times import format_time
from tests.benchmarks.data import START_MS
from tests.benchmarks.mixed_sources import Chance, Record, write_conversation

Maker = Callable[[str, int], None]

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NODES_OF_ONE = 40


def write_huge(folder: str, name: str, size: int) -> str:
    """Write one source.

    Args:
        folder: Where it goes.
        name: One of `HUGE`.
        size: Bytes, about.

    Returns:
        Its path.
    """
    file, maker = HUGE[name]
    path = os.path.join(folder, file)
    maker(path, size)
    return path


def _lines_of(tool: str) -> Maker:
    return lambda path, size: _nothing(write_conversation(path, tool, size))


def _nothing(_written: int) -> None:
    """Forget how much was written."""


def _said(chance: Chance) -> Iterator[tuple[str, str]]:
    while True:
        yield "user", chance.prose(60, 900)
        yield "assistant", chance.code(400, 6000)


def _pieces(path: str, size: int, start: str, pieces: Iterator[str], end: str, between: str) -> None:
    """Write pieces until a file is large enough."""
    with open(path, "wb") as file:
        written = file.write(start.encode())
        for number, piece in enumerate(pieces):
            written += file.write(((between if number else "") + piece).encode())
            if written >= size:
                break
        file.write(end.encode())


def _claude_line(path: str, size: int) -> None:
    """Write a transcript of which one line, the result of a tool, is nearly everything."""
    around = {"sessionId": "5f0c2d7e-0d5c-4a4e-9d57-0e6f5d0b2a11", "version": "2.1.4", "cwd": "/home/me"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/home/me/log"}}
    text = (Chance(5).code(300_000, 300_000) * (size // 300_000 + 1))[:size]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    messages: list[tuple[str, Record]] = [
        ("user", {"role": "user", "content": "What does the log say?"}),
        ("assistant", {"role": "assistant", "id": "msg_1", "model": "claude-sonnet-4-5", "content": [call]}),
        ("user", {"role": "user", "content": [result]}),
    ]
    with open(path, "wb") as file:
        parent = None
        for number, (kind, message) in enumerate(messages):
            told = {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "message": message}
            file.write(_ENCODE({**around, **told, "timestamp": format_time(START_MS + number)}).encode() + b"\n")
            parent = f"u{number}"


def _chatgpt(path: str, size: int, nodes_each: int | None) -> None:
    """Write an account export: conversations of some nodes each, or a single one."""
    chance = Chance(3)

    def node(talk: int, number: int, role: str, text: str, is_last: bool) -> str:
        before, own, after = (f"c{talk}n{number + step}" for step in (-1, 0, 1))
        message = {"id": own, "author": {"role": role}, "create_time": START_MS / 1000 + number}
        message |= {"content": {"content_type": "text", "parts": [text]}, "status": "finished_successfully"}
        above = {"id": own, "message": message, "parent": before if number else None}
        return f'"{own}":{_ENCODE({**above, "children": [] if is_last else [after]})}'

    def head(number: int) -> str:
        told = {"title": f"talk {number}", "create_time": START_MS / 1000, "conversation_id": f"c{number}"}
        return f'{_ENCODE(told)[:-1]},"current_node":'

    def conversation(number: int) -> str:
        said = zip(range(_NODES_OF_ONE), _said(chance), strict=False)
        nodes = [node(number, place, *each, place == _NODES_OF_ONE - 1) for place, each in said]
        return f'{head(number)}"c{number}n{_NODES_OF_ONE - 1}","mapping":{{{",".join(nodes)}}}}}'

    if nodes_each is not None:
        _pieces(path, size, "[", (conversation(number) for number in count()), "]", ",")
        return
    nodes = (node(0, number, *each, False) for number, each in enumerate(_said(chance)))
    _pieces(path, size, f'[{head(0)}null,"mapping":{{', nodes, "}}]", ",")


def _message_list(path: str, size: int) -> None:
    said = ({"role": role, "content": text} for role, text in _said(Chance(4)))
    _pieces(path, size, "[", map(_ENCODE, said), "]", ",\n")


def _gemini(path: str, size: int) -> None:
    def lines() -> Iterator[str]:
        time = format_time(START_MS)
        yield _ENCODE({"sessionId": "g1", "projectHash": "ab12", "startTime": time, "lastUpdated": time})
        for number, (role, text) in enumerate(_said(Chance(6))):
            told = {"id": f"m{number}", "timestamp": format_time(START_MS + number * 1000), "content": text}
            yield _ENCODE({**told, "type": "user" if role == "user" else "gemini", "model": "gemini-3-pro"})

    _pieces(path, size, "", lines(), "\n", "\n")


def _opencode(path: str, size: int) -> None:
    """Write a database with one session of a message and a part each."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "create table session(id text primary key, project_id text, parent_id text, slug text, directory text,"
        " title text, version text, time_created integer, time_updated integer);"
        "create table message(id text primary key, session_id text, time_created integer, time_updated integer,"
        " data text);"
        "create table part(id text primary key, message_id text, session_id text, time_created integer,"
        " time_updated integer, data text);"
        "create index of_session on message(session_id); create index of_message on part(message_id)"
    )
    told = ("ses_1", "prj", "talk", "/home/me", "A long talk", "1.2", START_MS, START_MS)
    connection.execute("insert into session values(?, ?, null, ?, ?, ?, ?, ?, ?)", told)
    written = 0
    for number, (role, text) in enumerate(_said(Chance(8))):
        at = START_MS + number * 1000
        data: Record = {"role": role, "time": {"created": at, "completed": at}}
        if role == "assistant":
            data |= {"providerID": "anthropic", "modelID": "claude-sonnet-4-5", "finish": "stop"}
            data["tokens"] = {"input": 10, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        message = (f"msg_{number:09}", "ses_1", at, at, _ENCODE(data))
        connection.execute("insert into message values(?, ?, ?, ?, ?)", message)
        part = (f"prt_{number:09}", message[0], "ses_1", at, at, _ENCODE({"type": "text", "text": text}))
        connection.execute("insert into part values(?, ?, ?, ?, ?, ?)", part)
        written += len(text)
        if written >= size:
            break
    connection.commit()
    connection.close()


HUGE: dict[str, tuple[str, Maker]] = {
    "pi": ("2026-03-02T09-00-00-000Z_huge.jsonl", _lines_of("pi")),
    "claude-code": ("huge.jsonl", _lines_of("claude")),
    "codex": ("rollout-huge.jsonl", _lines_of("codex")),
    "gemini": ("session-huge.jsonl", _gemini),
    "openai": ("messages.json", _message_list),
    "chatgpt": ("conversations.json", lambda path, size: _chatgpt(path, size, _NODES_OF_ONE)),
    "chatgpt-one": ("conversations.json", lambda path, size: _chatgpt(path, size, None)),
    "opencode": ("opencode.db", _opencode),
    "claude-code-line": ("line.jsonl", _claude_line),
}
