"""Small Pi session files for tests, line by line, and the recorded cases."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pi_sessions.formats.pi import ParsedSession, pi_lines, read_pi_file
from pi_sessions.stored import StoredEntry

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = FIXTURES / "cases"
RECORDED = FIXTURES / "conformance" / "sessions"
REAL_SESSIONS = ("before-compaction", "large-session")


def header(**fields: Any) -> str:
    base = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/proj/demo"}
    return as_line(base | fields)


def as_line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def entry(kind: str, id: str, parent: str | None, minute: int = 1, **fields: Any) -> str:
    stamp = f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00.000Z"
    return as_line({"type": kind, "id": id, "parentId": parent, "timestamp": stamp, **fields})


def user(id: str, parent: str | None, text: str = "hello", minute: int = 1) -> str:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1767225600000 + minute}
    return entry("message", id, parent, minute, message=message)


def answer(id: str, parent: str | None, text: str = "hi", minute: int = 1) -> str:
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0.5}}
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1767225600000 + minute,
    }
    return entry("message", id, parent, minute, message=message)


def write(folder: Path, *lines: str | bytes, end: str = "\n", name: str = "a.jsonl") -> str:
    """Write lines, each with its LF, the last with `end`; return the path."""
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path = folder / name
    path.write_bytes(b"\n".join(raw) + end.encode())
    return str(path)


def read(folder: Path, *lines: str | bytes, end: str = "\n") -> ParsedSession:
    """Write lines and read them; every line must be counted and the file untouched."""
    path = write(folder, *lines, end=end)
    before = Path(path).read_bytes()
    session = read_pi_file(path, new_id=counter())
    assert Path(path).read_bytes() == before
    check(session)
    return session


def check(session: ParsedSession) -> None:
    """What holds for every file that is read: a sound tree, and numbers that add up."""
    ids = {one.id for one in session.entries}
    assert len(ids) == len(session.entries) == len(session.lines)
    parents = {one.id: one.parent_id for one in session.entries}
    settled: set[str | None] = {None}
    for start in parents:
        walked: list[str] = []
        at: str | None = start
        while at not in settled:
            assert at in parents, f"missing parent {at}"
            assert at not in walked, "cycle"
            walked.append(at)
            at = parents[at]
        settled.update(walked)
    assert session.leaf is None or session.leaf in ids
    assert session.tally.adds_up(), session.tally
    assert session.tally.lines == session.lines_read
    if session.format == "pi":
        assert len({line for line in session.lines if line} - {0}) >= session.tally.entries
    for one in session.entries:
        json.loads(one.payload or "null")
        one.to_dict()


def codes(session: ParsedSession) -> list[tuple[int | None, str]]:
    """Where what was repaired."""
    return [(repair.line, repair.code) for repair in session.repairs]


def lost(session: ParsedSession) -> list[tuple[int | None, str]]:
    """Where what was lost."""
    return [(loss.line, loss.code) for loss in session.losses]


def tree(session: ParsedSession) -> dict[str, str | None]:
    return {one.id: one.parent_id for one in session.entries}


def texts(session: ParsedSession) -> list[str]:
    """The text of every message, in file order."""
    return [message_text(one) for one in session.entries if one.message]


def message_text(one: StoredEntry) -> str:
    content = (one.message or {}).get("content")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or [] if block.get("type") == "text")


def by_id(session: ParsedSession) -> dict[str, StoredEntry]:
    return {one.id: one for one in session.entries}


def export(session: ParsedSession, *, whole_tree: bool = True, leaf: str | None = "") -> list[str]:
    """Write a session that was read; `leaf` "" means its own."""
    return list(
        pi_lines(
            {**session.header, "id": session.id, "cwd": session.cwd},
            session.entries,
            leaf=session.leaf if leaf == "" else leaf,
            labels=session.labels,
            name=session.name,
            name_time_ms=session.name_time_ms,
            whole_tree=whole_tree,
        )
    )


def reread(folder: Path, lines: list[str]) -> ParsedSession:
    path = folder / "exported.jsonl"
    path.write_text("".join(lines), encoding="utf-8", newline="")
    session = read_pi_file(str(path), new_id=counter())
    check(session)
    return session


def counter() -> Callable[[], str]:
    """Ids as in the recorded cases: 10000001, 10000002, ..."""
    made = 0

    def new_id() -> str:
        nonlocal made
        made += 1
        return f"{0x10000000 + made:08x}"

    return new_id


def recorded_case(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((RECORDED / "cases" / f"{name}.json").read_text(encoding="utf-8"))
    return case


def recorded_cases(*themes: str) -> list[str]:
    names = sorted(path.stem for path in (RECORDED / "cases").glob("*.json"))
    return [name for name in names if name.split("-")[0] in themes]


def make_inputs(case: dict[str, Any], folder: Path) -> None:
    """Make the files a recorded case starts with."""
    for given in case["inputs"]:
        path = folder / given["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_input_bytes(given, folder))


def _input_bytes(given: dict[str, Any], folder: Path) -> bytes:
    if "base64" in given:
        return base64.b64decode(given["base64"])
    if "fixture" in given:
        return gzip.decompress((RECORDED / "fixtures" / given["fixture"]).read_bytes())
    if "text_with_run" in given:
        run = given["text_with_run"]
        return f"{run['before']}{run['char'] * run['times']}{run['after']}".encode()
    return str(given["text"]).replace("$DIR", str(folder)).encode()


def real_session(name: str, folder: Path) -> str:
    """Unpack a bundled real session; return its path."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(gzip.decompress((RECORDED / "fixtures" / f"{name}.jsonl.gz").read_bytes()))
    return str(path)
