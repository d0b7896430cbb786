"""What the real Claude Code and Codex wrote in the scenarios of `tests/interop`: read here without our readers.

The checks hold for the recorded files in `fixtures/agents` and, under `make interop`, for files just written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pi_sessions.context import active_entries, build_context
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.statistics import statistics
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.foreign_files import read_all, records_of, text_of

Json = Any

# Claude Code gives every question the same way; a text of its own begins with a tag.
CLAUDE_CONTEXT = [
    ("compactionSummary", "A note was read."),
    ("assistant", "It is short."),
    ("custom", "<local-command-caveat>"),
    ("custom", "<command-name>/compact</command-name>"),
    ("custom", "<local-command-stdout>"),
    ("user", "Go on"),
    ("assistant", "Gladly."),
    ("user", "Ask"),
    ("assistant", "[Agent]"),
    ("toolResult", "[Subagent hand-back]"),
    ("assistant", "There is one."),
]
CODEX_CONTEXT = [
    ("compactionSummary", "A note was read."),
    ("custom", "Read the notes"),
    ("custom", "<environment_context>"),
    ("custom", "What does it say?"),
    ("user", "Go on"),
    ("assistant", "Gladly."),
    ("user", "Fail"),
]
CODEX_FORK = [
    ("user", "Read the notes"),
    ("assistant", "I look."),
    ("toolResult", "a note"),
    ("toolResult", "No such file"),
    ("assistant", "One is there."),
    ("user", "What does it say?"),
    ("assistant", "It says: a note."),
    ("user", "Fork"),
    ("assistant", "On a fork."),
]


def told(file: Path) -> dict[str, Any]:
    """Count what a transcript of Claude Code says, by its own records."""
    records = [record for record in records_of(file) if record["type"] in ("user", "assistant")]
    answers = {record["message"]["id"]: record["message"] for record in records if "requestRef" in record}
    said = [record["message"]["content"] for record in records if record["type"] == "user"]
    blocks = [block for record in records for block in _blocks(record["message"]["content"])]
    return {
        "questions": [text for text in said if isinstance(text, str) and text[:1] != "<" and len(text) < 30],
        "answers": len(answers),
        "failures": sum(bool(record.get("isApiErrorMessage")) for record in records),
        "calls": [block["id"] for block in blocks if block["type"] == "tool_use"],
        "results": [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
        "failed": [block["tool_use_id"] for block in blocks if block.get("is_error")],
        "thoughts": [block["thinking"] for block in blocks if block["type"] == "thinking"],
        "input": sum(message["usage"]["input_tokens"] for message in answers.values()),
        "output": sum(message["usage"]["output_tokens"] for message in answers.values()),
    }


def _blocks(content: Json) -> list[Json]:
    return content if isinstance(content, list) else []


def read(session: ParsedSession) -> dict[str, Any]:
    """Count what we read, in the words of `told`."""
    messages = [entry.message for entry in session.entries if entry.message is not None]
    answers = [message for message in messages if message["role"] == "assistant"]
    results = [message for message in messages if message["role"] == "toolResult"]
    blocks = [block for message in answers for block in message["content"]]
    return {
        "questions": [text_of(message) for message in messages if message["role"] == "user"],
        "answers": sum(message["stopReason"] != "error" for message in answers),
        "failures": sum(message["stopReason"] == "error" for message in answers),
        "calls": [block["id"] for block in blocks if block["type"] == "toolCall"],
        "results": [message["toolCallId"] for message in results],
        "failed": [message["toolCallId"] for message in results if message["isError"]],
        "thoughts": [block["thinking"] for block in blocks if block["type"] == "thinking"],
        "input": sum(message["usage"]["input"] for message in answers),
        "output": sum(message["usage"]["output"] for message in answers),
    }


def message_above(session: ParsedSession, text: str) -> str:
    """Return the text of the message that the message with a text follows."""
    by_id = {entry.id: entry for entry in session.entries}
    [at] = [entry for entry in session.entries if entry.role == "user" and text_of(entry.message) == text]
    above: StoredEntry | None = at
    while above is not None:
        above = by_id.get(above.parent_id or "")
        if above is not None and above.message is not None:
            return text_of(above.message)
    return ""


def check_context(session: ParsedSession, wanted: list[tuple[str, str]]) -> None:
    """Compare the context at the leaf: roles in their order, and a part of each text."""
    by_id = {entry.id: entry for entry in session.entries}
    path: list[StoredEntry] = []
    at = session.leaf
    while at is not None:
        path.append(by_id[at])
        at = by_id[at].parent_id
    found = [shown.message for shown in build_context(active_entries(path[::-1]), None, "off").messages]
    assert [message["role"] for message in found] == [role for role, _text in wanted]
    for message, (_role, text) in zip(found, wanted, strict=True):
        assert text in text_of(message)


def check_sound(session: ParsedSession) -> None:
    """Nothing was mended, nothing lost, and every kind of record is known."""
    assert (session.repairs, session.losses, session.unknown) == ((), (), ())


def check_claude_code(project: Path, session_id: str, fork_id: str) -> None:
    """Check the session and the fork that Claude Code wrote."""
    file, fork_file = (project / f"{each}.jsonl" for each in (session_id, fork_id))
    [session], [fork] = read_all(file), read_all(fork_file)
    for each, source in ((session, file), (fork, fork_file)):
        check_sound(each)
        assert read(each) == told(source)
    assert read(session)["questions"] == [
        "Read the notes", "What does it say?", "How long is it?", "Go on", "Ask", "Fail",
    ]  # fmt: skip
    assert [len(read(session)[name]) for name in ("calls", "results", "failed", "thoughts")] == [3, 3, 1, 2]
    # Rewound to where the first answer was, and gone on from there.
    above = {message_above(session, text) for text in ("What does it say?", "How long is it?")}
    assert len(above) == 1
    assert "One is there." in above.pop()
    check_context(session, [*CLAUDE_CONTEXT, ("user", "Fail"), ("assistant", "")])
    check_context(fork, [*CLAUDE_CONTEXT, ("user", "Fork"), ("assistant", "On a fork.")])
    [helper] = [each for path in project.rglob("agent-*.jsonl") for each in read_all(path)]
    check_sound(helper)
    assert helper.child_of is not None
    assert helper.child_of.session_id == session_id
    assert read(helper)["questions"] == ["Count the notes."]


def check_codex(data: Path, session_id: str, fork_id: str) -> None:
    """Check the session and the fork that Codex wrote; the fork's file holds only what it added."""
    [file] = data.rglob(f"rollout-*-{session_id}.jsonl")
    [fork_file] = data.rglob(f"rollout-*-{fork_id}.jsonl")
    [session], [fork] = read_all(file), read_all(fork_file)
    for each, source in ((session, file), (fork, fork_file)):
        check_sound(each)
        used = [line["payload"]["info"] for line in records_of(source) if line["payload"].get("type") == "token_count"]
        total = used[-1]["total_token_usage"]
        assert (read(each)["input"], read(each)["output"]) == (total["input_tokens"], total["output_tokens"])
    items = [line["payload"] for line in records_of(file) if line["type"] == "response_item"]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert len(calls) == 2
    assert read(session)["calls"] == read(session)["results"] == read(fork)["calls"] == calls
    thoughts = [item["summary"][0]["text"] for item in items if item["type"] == "reasoning"]
    assert read(session)["thoughts"] == thoughts == ["Which file?", "Good."]
    assert read(session)["questions"] == ["Read the notes", "What does it say?", "Go on", "Fail"]
    check_context(session, CODEX_CONTEXT)
    shown = [entry for entry in fork.entries if entry.message is not None]
    assert [entry.role for entry in shown] == [role for role, _text in CODEX_FORK]
    for entry, (_role, text) in zip(shown, CODEX_FORK, strict=True):
        assert text in text_of(entry.message)


def check_store(folder: Path, files: list[Path], answers: int) -> None:
    """Import files forwards and backwards: the same sessions, each answer counted once, nothing new the second time.

    What stands above a copy that begins in the middle is in sight only when its origin came first.
    """
    torn = {each.id for file in files for each in read_all(file) if each.torn_off}
    found, entries = [], []
    for number, order in enumerate((files, files[::-1])):
        with SessionStore.open(str(folder / f"{number}.db")) as store:
            for _again in range(2):
                added = [store.import_session(each).added for file in order for each in read_all(file)]
            assert not any(added)
            assert statistics(store, "model", day=str).total.answers == answers
            assert store.verify() == []
            sessions = sorted(session.id for session in store.sessions(children=True))
            found.append(
                {each: [text_of(shown.message) for shown in store.context(each).messages] for each in sessions}
            )
            entries.append([len(store.entries(each)) for each in sessions if each not in torn])
    assert found[0] == found[1]
    assert entries[0] == entries[1]
