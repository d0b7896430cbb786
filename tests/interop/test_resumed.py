"""The real Claude Code and the real Codex go on with our exports: they tell the model what we would, and it comes back.

Run by `make interop`; needs the packages that `install.sh` installs. `asked.py` says in which words the two compare.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.context import active_entries, build_context
from pi_sessions.formats import claude_code_writer, codex_writer
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.foreign_ids import as_uuid
from pi_sessions.formats.registry import identify
from pi_sessions.store import SessionStore
from tests.interop.agents import ClaudeCode, Codex
from tests.interop.asked import Told, told_by_claude_code, told_by_codex, told_by_us, with_cuts_of
from tests.interop.mock_server import Answer, MockServer
from tests.sessions.foreign_files import FORMATS, SAMPLES, take_in
from tests.sessions.pi_files import CASES, FIXTURES, REAL_SESSIONS, RECORDED

Json = Any

SOURCES = [
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
    *sorted(SAMPLES.glob("*.jsonl")),
    *sorted((FORMATS / "claude-code" / "projects").rglob("*.jsonl")),
    *sorted((FORMATS / "codex" / "sessions").rglob("*.jsonl")),
    *sorted((FIXTURES / "agents").rglob("*.jsonl")),
    *sorted(path for path in CASES.glob("s1*/*.jsonl") if path.parent.name[:3] > "s09"),
    *(RECORDED / "fixtures" / f"{name}.jsonl.gz" for name in REAL_SESSIONS),
]
TOOLS = ("claude-code", "codex")
QUESTION, ANSWER = "And what now?", "Now we go on."


def prepared(source: Path, folder: Path) -> Path:
    """Copy a source, unpacked, and as if its Codex had talked to the tests' provider: it resumes with no other."""
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    made = folder / source.name.removesuffix(".gz")
    made.write_bytes(raw.replace(b'"model_provider":"openai"', b'"model_provider":"mock"'))
    return made


def context_messages(store: SessionStore, session_id: str, tool: str) -> list[Json]:
    """Return the messages of a session's context; a tool's own compactions as that tool tells them."""
    path = active_entries(store.path(session_id))
    messages = [shown.message for shown in build_context(path, None, "off").messages]
    newest = [entry for entry in store.path(session_id) if entry.type == "compaction"][-1:]
    if newest and tool == "claude-code" and isinstance(newest[0].fields.get("claudeCode"), dict):
        messages = [as_said(message) for message in messages]
    if newest and tool == "codex" and newest[0].fields.get("fromHook"):
        # What people said stands before the summary.
        place = next(n for n, message in enumerate(messages) if message["role"] == "compactionSummary")
        end = place + 1
        while end < len(messages) and messages[end].get("customType") == "codex.kept":
            end += 1
        messages[place:end] = [*messages[place + 1 : end], as_said(messages[place])]
    return messages


def as_said(message: Json) -> Json:
    return {"role": "user", "content": message["summary"]} if message["role"] == "compactionSummary" else message


def sessions_of(store: SessionStore, source: Path) -> Iterator[str]:
    for session_id in take_in(store, source):
        if store.session(session_id).leaf is not None:
            yield session_id


class Resumed:
    """A session that was exported and that a tool went on with.

    Attributes:
        told: What the tool told the model.
        model: The model it asked.
        file: The session's file of the tool, the new turn in it.
    """

    def __init__(self, store: SessionStore, session_id: str, folder: Path, tool: str, *, question: str = QUESTION):
        session = store.session(session_id)
        whole = tool == "claude-code"
        writer = claude_code_writer if whole else codex_writer
        export = read_export(store, session, session.leaf, whole_tree=whole)
        text = "".join(writer.export_lines(export))
        uuid = as_uuid(session_id)
        # Ids of a model's messages are its own: no two runs may give the same.
        with MockServer([Answer(text=ANSWER)], name=f"{tool}-{uuid[-6:]}-", summaries={}) as server:
            if whole:
                claude = ClaudeCode(folder)
                self.file = claude.transcript(uuid)
                self.file.write_text(text, encoding="utf-8")
                assert claude.ask(server, question, "--resume", uuid)["session_id"] == uuid
            else:
                codex = Codex(folder)
                self.file = codex.place(text, uuid)
                codex.ask(server, "resume", uuid, question)
            [body] = server.requests
        self.model: str = body["model"]
        self.told: list[Told] = told_by_claude_code(body) if whole else told_by_codex(body)
        assert self.file.read_text(encoding="utf-8").startswith(text)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name[:3]}-{path.name[-28:]}")
def test_a_tool_goes_on_with_our_export_and_the_new_turn_comes_back(tmp_path: Path, source: Path, tool: str) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for number, session_id in enumerate(sessions_of(store, prepared(source, tmp_path))):
            before = [entry.id for entry in store.entries(session_id)]
            messages = context_messages(store, session_id, tool)
            resumed = Resumed(store, session_id, tmp_path / str(number), tool)
            wanted = [*told_by_us(messages, tool, resumed.model), ("user", QUESTION)]
            assert resumed.told == (with_cuts_of(resumed.told, wanted) if tool == "codex" else wanted)
            take_back(store, session_id, resumed.file, before, messages, tool)


def take_back(
    store: SessionStore, session_id: str, file: Path, before: list[str], messages: list[Json], tool: str
) -> None:
    """Import what the tool wrote: one question and one answer more, and nothing lost; again, and nothing is added."""
    found = identify(str(file))
    assert found.format is not None
    assert found.format.name == tool
    for added in (True, False):
        [parsed] = found.format.read(str(file))
        assert parsed.losses == ()
        result = store.import_session(parsed)
        assert result.session.id == session_id
        assert bool(result.added) is added
    entries = store.entries(session_id)
    assert [entry.id for entry in entries[: len(before)]] == before
    new = [entry for entry in entries[len(before) :] if entry.message is not None]
    assert [entry.role for entry in new] == ["user", "assistant"]
    now = [*told_by_us(context_messages(store, session_id, tool), tool)]
    assert now == [*told_by_us(messages, tool), ("user", QUESTION), ("assistant", ANSWER)]
