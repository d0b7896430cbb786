"""Sources without times or headers: the same entries and the same session at every import, however the source grows."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats.registry import identify
from pi_sessions.store import SessionStore
from tests.sessions.foreign_files import write_lines

Record = dict[str, Any]


def claude(number: int, **more: Any) -> Record:
    kind = "user" if number % 2 else "assistant"
    message: Record = {"role": kind, "content": f"text {number}"}
    if kind == "assistant":
        message |= {"id": f"msg_{number}", "model": "m", "content": [{"type": "text", "text": f"text {number}"}]}
    parent = f"u{number - 1}" if number > 1 else None
    return {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "message": message, **more}


def codex(number: int) -> Record:
    role, part = ("user", "input_text") if number % 2 else ("assistant", "output_text")
    content = [{"type": part, "text": f"text {number}"}]
    return {"type": "message", "role": role, "content": content}


def pi(number: int) -> Record:
    parent = f"e{number - 1}" if number > 1 else None
    return {
        "type": "message",
        "id": f"e{number}",
        "parentId": parent,
        "message": {"role": "user", "content": str(number)},
    }


SOURCES: dict[str, list[Record]] = {
    "claude-code": [claude(number) for number in range(1, 7)],
    "claude-code-timed-later": [*(claude(1), claude(2)),
                                *(claude(number, timestamp=f"2026-01-01T00:00:0{number}Z") for number in range(3, 7))],
    "claude-code-side": [claude(1), claude(2), *(claude(number, isSidechain=True) for number in range(3, 7))],
    "claude-code-no-session": [{name: value for name, value in claude(number, cwd="/p").items() if name != "sessionId"}
                               for number in range(1, 7)],
    "codex": [{"id": "c", "timestamp": "2026-01-01T00:00:00Z", "instructions": None},
              *(codex(number) for number in range(1, 7))],
    "codex-no-header": [codex(number) for number in range(1, 7)],
    "pi": [{"type": "session", "version": 3, "id": "p", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"},
           *(pi(number) for number in range(1, 7))],
    "pi-no-header": [pi(number) | {"timestamp": f"2026-01-01T00:00:0{number}.000Z"} for number in range(1, 7)],
    "pi-nothing": [pi(number) for number in range(1, 7)],
    "messages": [{"role": ("assistant", "user")[number % 2], "content": f"text {number}"} for number in range(1, 7)],
}  # fmt: skip


def take(store: SessionStore, path: Path) -> int:
    found = identify(str(path))
    assert found.format is not None, found.reason
    return sum(store.import_session(parsed).added for parsed in found.format.read(str(path)) if parsed.has_begun())


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_without_times_is_known_again(tmp_path: Path, name: str) -> None:
    now = 1_800_000_000_000
    records = SOURCES[name]

    def clock() -> int:
        nonlocal now
        now += 60_000
        return now

    with SessionStore.open(str(tmp_path / "s.db"), clock=clock) as store:
        path = tmp_path / "source.jsonl"
        for count in range(2, len(records) + 1):
            write_lines(path, *records[:count])
            take(store, path)
            other = write_lines(tmp_path / "copy.jsonl", *records[:count], json.dumps({}))
            assert take(store, path) == 0
            other.unlink()
        entries = store.connection.execute("select count(*) from entries").fetchone()[0]
        with SessionStore.open(str(tmp_path / "whole.db"), clock=clock) as whole:
            take(whole, path)
            take(whole, path)
            count = whole.connection.execute("select count(*) from entries").fetchone()[0]
            assert entries == count
            sessions = [one.execute("select count(*) from sessions").fetchone()[0] for one in
                        (store.connection, whole.connection)]  # fmt: skip
        assert sessions[0] == sessions[1]
        assert store.verify() == []
