"""Synthetic conversations with tool calls, about 650 bytes of JSON per message, the same each time."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from pi_sessions.store import SessionStore

Message = dict[str, Any]

START_MS = 1772442000000
_WORDS = [
    "lease",
    "queue",
    "worker",
    "retry",
    "the",
    "a",
    "of",
    "token",
    "branch",
    "entry",
    "commit",
    "session",
    "after",
    "before",
    "file",
    "line",
    "error",
    "parse",
    "when",
    "store",
    "reads",
    "writes",
    "index",
    "page",
    "cache",
    "flush",
    "test",
    "fails",
    "passes",
    "because",
    "timeout",
    "socket",
    "handler",
    "returns",
    "value",
]


def messages(number: int) -> list[Message]:
    """Return the first messages of an endless conversation: prompts, calls, results, answers."""
    return list(islice(_conversation(random.Random(1)), number))


def _conversation(chance: random.Random) -> Iterator[Message]:
    for turn in count():
        at = START_MS + turn * 60_000
        yield {"role": "user", "content": [{"type": "text", "text": _text(chance, 20, 80)}], "timestamp": at}
        call = {
            "type": "toolCall",
            "id": f"call_{turn:08x}",
            "name": "bash",
            "arguments": {"command": _text(chance, 3, 9)},
        }
        yield _answer([{"type": "text", "text": _text(chance, 5, 40)}, call], "toolUse", at + 1000)
        yield {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": "bash",
            "content": [{"type": "text", "text": _text(chance, 20, 200)}],
            "isError": False,
            "timestamp": at + 2000,
        }
        yield _answer([{"type": "text", "text": _text(chance, 20, 120)}], "stop", at + 3000)


def _answer(content: list[Message], stop_reason: str, at: int) -> Message:
    cost = {"input": 0.003, "output": 0.0021, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0051}
    usage = {"input": 1000, "output": 140, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1140, "cost": cost}
    return {
        "role": "assistant",
        "content": content,
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": usage,
        "stopReason": stop_reason,
        "timestamp": at,
    }


def _text(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(least, most)))


def filled(folder: str, name: str, entries: int, *, durable: bool = False) -> tuple[SessionStore, str]:
    """Return an open store with one session of so many messages, and the session's id."""
    store = SessionStore.open(os.path.join(folder, f"{name}.db"), durable=durable)
    session_id = store.create_session(cwd="/proj").id
    store.append_many(session_id, [{"type": "message", "message": message} for message in messages(entries)])
    return store, session_id


def bare(folder: str, name: str, *, full: bool = False) -> sqlite3.Connection:
    """Return a database with one table of two columns and no index, in WAL mode: the physical limit of a commit."""
    connection = sqlite3.connect(os.path.join(folder, f"{name}.db"), isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute(f"pragma synchronous = {'full' if full else 'normal'}")
    connection.execute("create table entries(key integer primary key, payload text not null)")
    return connection


def write_session_file(path: str, number: int) -> int:
    """Write a Pi session file of so many messages in one chain and return its size in bytes."""
    time = "2026-03-02T09:00:00.000Z"
    # Random, as Pi's are: ids in order would fill the pages of their index better than real ones do.
    ids = random.Random(2).sample(range(1 << 32), number)
    with open(path, "w", encoding="utf-8") as file:
        header = {"type": "session", "version": 3, "id": f"bench-{number}", "timestamp": time, "cwd": "/proj"}
        file.write(json.dumps(header) + "\n")
        parent = None
        for entry_number, message in zip(ids, messages(number), strict=True):
            entry_id = f"{entry_number:08x}"
            line = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": time, "message": message}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            parent = entry_id
    return os.path.getsize(path)
