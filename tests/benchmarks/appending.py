"""Appending against the physical limit: one SQLite commit into two columns without an index, at the same level."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from itertools import cycle
from tempfile import TemporaryDirectory

from pi_sessions.store import SessionStore
from tests.benchmarks.data import Message, bare, messages
from tests.benchmarks.measure import Piece, medians, show, show_figure, show_ratio, show_time


def main() -> None:
    with TemporaryDirectory() as folder:
        show("append, one commit each")
        _single(folder, full=False)
        _single(folder, full=True)
        if find_spec("agents") is not None:
            show("append at level FULL against openai-agents' SQLiteSession, both with their defaults else")
            _peer(folder)
        show("append, 1000 in one transaction")
        _batch(folder)


def _single(folder: str, *, full: bool) -> None:
    level = "FULL" if full else "NORMAL"
    limit = bare(folder, f"limit-{level}", full=full)
    store = SessionStore.open(os.path.join(folder, f"store-{level}.db"), durable=full)
    session_id = store.create_session().id
    conversation = messages(400)
    texts = cycle([json.dumps(message, separators=(",", ":")) for message in conversation])
    following = cycle(conversation)

    def commit() -> None:
        limit.execute("begin immediate")
        limit.execute("insert into entries(payload) values(?)", (next(texts),))
        limit.execute("commit")

    variants: dict[str, Piece] = {
        "limit": commit,
        "append": lambda: store.append_message(session_id, next(following)),
    }
    if full:
        variants["jsonl"] = _line_writer(folder, conversation)
    found = medians(variants, rounds=300 if full else 3000)
    show_time(f"{level}: bare commit", found["limit"])
    show_ratio(f"{level}: append_message", found["append"], found["limit"], "2.6 x" if not full else "-")
    if full:
        show_ratio("FULL: append_message against a JSON line + fdatasync", found["append"], found["jsonl"], "1.5 x")
    store.close()
    limit.close()


def _peer(folder: str) -> None:
    """Compare with the closest peer, where it is installed: one message a call, each in its own commit."""
    session = importlib.import_module("agents").SQLiteSession("bench", os.path.join(folder, "peer.db"))
    store = SessionStore.open(os.path.join(folder, "store-peer.db"), durable=True)
    session_id = store.create_session().id
    ours, theirs = cycle(messages(400)), cycle(messages(400))
    loop = asyncio.new_event_loop()
    found = medians(
        {
            "ours": lambda: store.append_message(session_id, next(ours)),
            "theirs": lambda: loop.run_until_complete(session.add_items([next(theirs)])),
        },
        rounds=300,
    )
    show_time("FULL: append_message", found["ours"])
    show_ratio("FULL: SQLiteSession.add_items", found["theirs"], found["ours"], "slower")
    session.close()
    loop.close()
    store.close()


def _line_writer(folder: str, conversation: list[Message]) -> Callable[[], None]:
    file = os.open(os.path.join(folder, "lines.jsonl"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    following = cycle(conversation)

    def write() -> None:
        os.write(file, json.dumps(next(following)).encode() + b"\n")
        os.fdatasync(file)

    return write


def _batch(folder: str) -> None:
    limit = bare(folder, "limit-batch")
    store = SessionStore.open(os.path.join(folder, "store-batch.db"))
    session_id = store.create_session().id
    conversation = messages(1000)
    entries = [{"type": "message", "message": message} for message in conversation]

    def insert_texts() -> None:
        limit.execute("begin immediate")
        texts = ((json.dumps(message, separators=(",", ":")),) for message in conversation)
        limit.executemany("insert into entries(payload) values(?)", texts)
        limit.execute("commit")

    found = medians(
        {"limit": insert_texts, "batch": lambda: store.append_many(session_id, entries)}, rounds=15, per_round=1000
    )
    show_time("executemany of the same JSON, per entry", found["limit"])
    show_ratio("append_many, per entry", found["batch"], found["limit"], "1.25 x")
    show_figure("append_many", f"{1 / found['batch']:,.0f}/s", "-")
    store.close()
    limit.close()
