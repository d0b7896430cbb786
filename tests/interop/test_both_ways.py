"""A session that goes to the real Claude Code or Codex and comes back: compacted, forked, gone on with in both places.

Run by `make interop`; needs the packages that `install.sh` installs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.context import active_entries, build_context
from pi_sessions.formats import claude_code_writer, codex_writer
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.foreign_ids import as_uuid
from pi_sessions.store import SessionStore
from tests.interop.agents import ClaudeCode, Codex
from tests.interop.asked import told_by_claude_code, told_by_codex
from tests.interop.mock_server import Answer, MockServer
from tests.sessions.foreign_files import read_all, text_of

Json = Any

TOOLS = ("claude-code", "codex")
SUMMARY = "Bread was spoken of."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore.open(str(tmp_path / "s.db")) as opened:
        yield opened


def talk(store: SessionStore, session_id: str, *texts: str) -> None:
    """Let a person and a model say something in turn."""
    for number, text in enumerate(texts):
        message: Json = {"role": "user", "content": text}
        if number % 2:
            message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop"}
            message |= {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-5-5"}
        store.append_message(session_id, message)


def begun(store: SessionStore) -> str:
    session_id = store.create_session(cwd="/proj/bakery").id
    talk(store, session_id, "Which bread?", "Rye.", "And which flour?", "Wheat.")
    return session_id


class Gone:
    """A session that was exported for a tool, and how to ask the tool about it."""

    def __init__(self, store: SessionStore, session_id: str, folder: Path, tool: str) -> None:
        session = store.session(session_id)
        self.tool = tool
        self.id = as_uuid(session_id)
        writer = claude_code_writer if tool == "claude-code" else codex_writer
        export = read_export(store, session, session.leaf, whole_tree=tool == "claude-code")
        text = "".join(writer.export_lines(export))
        self.claude, self.codex = ClaudeCode(folder), Codex(folder)
        if tool == "claude-code":
            self.file = self.claude.transcript(self.id)
            self.file.write_text(text, encoding="utf-8")
        else:
            self.file = self.codex.place(text, self.id)

    def ask(self, name: str, text: str, *, fork: bool = False) -> tuple[str, list[str]]:
        """Go on or fork; gives the session it is in and the texts the model was told."""
        with MockServer([Answer(text=f"Said to {name}.")], name=name, summaries={}) as server:
            if self.tool == "claude-code":
                more = ("--fork-session",) if fork else ()
                session = self.claude.ask(server, text, "--resume", self.id, *more)["session_id"]
                told = told_by_claude_code(server.requests[0])
            else:
                session = self.codex.ask(server, "fork" if fork else "resume", self.id, text)[0]["thread_id"]
                told = told_by_codex(server.requests[0])
        return session, [each[1] for each in told]

    def compact(self) -> None:
        answer = SUMMARY if self.tool == "codex" else f"<summary>{SUMMARY}</summary>"
        with MockServer([Answer(text=answer)], name="sum", summaries={}) as server:
            if self.tool == "claude-code":
                self.claude.ask(server, "/compact", "--resume", self.id)
            else:
                self.codex.compact(server, self.id)
            assert server.asked == 1

    def file_of(self, session: str) -> Path:
        if self.tool == "claude-code":
            return self.claude.transcript(session)
        return next(path for path in self.codex.rollouts() if session in path.name)


def texts(store: SessionStore, session_id: str, leaf: str | None = None) -> list[str]:
    """Give what people and models said on a path."""
    path = store.path(session_id, leaf) if leaf is not None else store.path(session_id)
    return [text_of(entry.message) for entry in path if entry.role in ("user", "assistant")]


@pytest.mark.parametrize("tool", TOOLS)
def test_gone_on_with_in_both_places_it_becomes_two_branches(store: SessionStore, tmp_path: Path, tool: str) -> None:
    session_id = begun(store)
    gone = Gone(store, session_id, tmp_path, tool)
    talk(store, session_id, "Here we ask.", "Here is answered.")
    gone.ask("x", "There they ask.")
    [parsed] = read_all(gone.file)
    assert store.import_session(parsed).session.id == session_id
    said = ["Which bread?", "Rye.", "And which flour?", "Wheat."]
    assert texts(store, session_id) == [*said, "Here we ask.", "Here is answered."]
    others = [branch for branch in store.branches(session_id) if branch.name != "main"]
    assert [texts(store, session_id, branch.leaf) for branch in others] == [
        [*said, "There they ask.", "Said to x."]
    ]  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_what_the_tool_compacts_comes_back_compacted(store: SessionStore, tmp_path: Path, tool: str) -> None:
    session_id = begun(store)
    gone = Gone(store, session_id, tmp_path, tool)
    gone.compact()
    _session, told = gone.ask("after", "And the price?")
    assert any(SUMMARY in text for text in told)
    assert "Rye." not in told
    [parsed] = read_all(gone.file)
    assert (parsed.repairs, parsed.losses) == ((), ())
    assert store.import_session(parsed).session.id == session_id
    [branch] = [branch for branch in store.branches(session_id) if branch.name != "main"]
    path = store.path(session_id, branch.leaf)
    shown = [shown.message for shown in build_context(active_entries(path), None, "off").messages]
    assert shown[0]["role"] == "compactionSummary"
    assert SUMMARY in shown[0]["summary"]
    said = [text_of(message) for message in shown]
    assert said[-2:] == ["And the price?", "Said to after."]
    assert "Rye." not in said
    [compaction] = [entry for entry in path if entry.type == "compaction"]
    before = path[: path.index(compaction)]
    assert [text_of(entry.message) for entry in before if entry.message is not None][:4] == [
        "Which bread?", "Rye.", "And which flour?", "Wheat.",
    ]  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_what_the_tool_forks_begins_with_what_we_said(store: SessionStore, tmp_path: Path, tool: str) -> None:
    session_id = begun(store)
    gone = Gone(store, session_id, tmp_path, tool)
    before = {entry.id for entry in store.entries(session_id)}
    fork, told = gone.ask("fork", "Another way.", fork=True)
    assert told == ["Which bread?", "Rye.", "And which flour?", "Wheat.", "Another way."]
    assert fork != gone.id
    [parsed] = read_all(gone.file_of(fork))
    assert (parsed.repairs, parsed.losses) == ((), ())
    result = store.import_session(parsed)
    assert result.session.id != session_id
    assert texts(store, result.session.id) == [*told, "Said to fork."]
    # Codex writes what it forks anew and without our marks: it says the same, and is not known to be the same.
    assert ({entry.id for entry in store.path(result.session.id)} >= before) is (tool == "claude-code")
    assert {entry.id for entry in store.entries(session_id)} == before


def test_a_tree_is_gone_on_with_at_its_leaf(store: SessionStore, tmp_path: Path) -> None:
    """Whatever lies beside the path: newer branches, a compaction that was taken back, what follows the leaf."""
    session_id = begun(store)
    leaf = store.session(session_id).leaf
    assert leaf is not None
    kept = store.path(session_id)[-2].id
    fields = {"type": "compaction", "summary": "Not this.", "firstKeptEntryId": kept, "tokensBefore": 1}
    store.append(session_id, fields)
    talk(store, session_id, "Beside", "the path.")
    store.rewind(session_id, leaf)
    gone = Gone(store, session_id, tmp_path, "claude-code")
    _session, told = gone.ask("y", "Go on")
    assert told == ["Which bread?", "Rye.", "And which flour?", "Wheat.", "Go on"]


def test_claude_code_goes_on_with_a_file_that_lies_anywhere(store: SessionStore, tmp_path: Path) -> None:
    gone = Gone(store, begun(store), tmp_path, "claude-code")
    file = tmp_path / "talk.claude.jsonl"
    gone.file.rename(file)
    with MockServer([Answer(text="Yes.")], summaries={}) as server:
        assert gone.claude.ask(server, "Still there?", "--resume", str(file))["session_id"] == gone.id
        assert told_by_claude_code(server.requests[0])[0][1] == "Which bread?"


def test_codex_resumes_with_the_persons_own_provider_model_and_policies(store: SessionStore, tmp_path: Path) -> None:
    gone = Gone(store, begun(store), tmp_path, "codex")
    with MockServer([]) as server:
        [resumed] = gone.codex.serve(server, ("thread/resume", {"threadId": gone.id}, ""))
    assert (resumed["modelProvider"], resumed["model"], resumed["approvalPolicy"]) == ("mock", "gpt-5.2", "never")
    assert resumed["cwd"] == "/proj/bakery"
