"""What a list shows of an imported session is what a person said first, not what programs put before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.stored import StoredEntry, dump
from pi_sessions.texts import spoken_text
from tests.sessions.foreign_files import read_all, write_lines
from tests.sessions.stores import open_store

OPENED = "<ide_opened_file>The user opened a.py</ide_opened_file>"
SELECTED = "<ide_selection>lines 1 to 3</ide_selection>"
HOOK = "<user-prompt-submit-hook>Branch: main</user-prompt-submit-hook>"
CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. The conversation is"
    " summarized below:\nAnalysis: dough was made."
)
CODEX_CONTEXT = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## Open tabs:\n- a.py\n\n"


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def claude(path: Path, *contents: object) -> ParsedSession:
    """Read a session of Claude Code in which these are the user records."""
    records = []
    for number, content in enumerate(contents):
        records.append({
            "type": "user", "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s",
            "timestamp": f"2026-04-01T10:00:{number:02}.000Z", "message": {"role": "user", "content": content},
        })  # fmt: skip
    (session,) = read_all(write_lines(path, *records))
    return session


def title(folder: Path, session: ParsedSession) -> str | None:
    with open_store(folder / "s.db") as store:
        return store.import_session(session).session.first_message


@pytest.mark.parametrize(
    "machine",
    [OPENED, SELECTED, HOOK, CONTINUED, f"{OPENED}\n{SELECTED}", [text(OPENED)], [text(HOOK), text(SELECTED)],
     [text("<system-reminder>x</system-reminder>"), text("<system-reminder>y</system-reminder>")]],
)  # fmt: skip
def test_a_claude_code_record_of_a_program_alone_is_no_question(tmp_path: Path, machine: object) -> None:
    session = claude(tmp_path / "s.jsonl", machine, "Which rolls?")
    assert [entry.type for entry in session.entries] == ["custom_message", "message"]
    assert session.entries[0].fields["content"] == machine
    assert title(tmp_path, session) == "Which rolls?"


@pytest.mark.parametrize(
    "content",
    [[text(OPENED), text("Which rolls?")], [text(OPENED), text(SELECTED), text("Which"), text("rolls?")],
     f"{OPENED}\n\nWhich rolls?", f"{HOOK}\n{OPENED}Which rolls?",
     [text("<system-reminder>x</system-reminder>"), text("Which rolls?")]],
)  # fmt: skip
def test_a_question_behind_what_an_editor_put_there_stays_whole_and_gives_the_title(
    tmp_path: Path, content: object
) -> None:
    session = claude(tmp_path / "s.jsonl", content)
    assert [(entry.role, (entry.message or {})["content"]) for entry in session.entries] == [("user", content)]
    assert title(tmp_path, session) == "Which rolls?"


def test_a_picture_behind_an_editors_text_is_a_persons(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    session = claude(tmp_path / "s.jsonl", [text(OPENED), picture], "Which rolls?")
    assert [entry.role for entry in session.entries] == ["user", "user"]
    assert title(tmp_path, session) == "Which rolls?"


def test_a_codex_request_with_the_editors_context_gives_the_request(tmp_path: Path) -> None:
    content = CODEX_CONTEXT + "## My request for Codex:\nWhich rolls?\n"
    stamp = {"timestamp": "2026-04-01T10:00:00.000Z"}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": content}]}
    meta = {"id": "01a22a38-0000-7000-8000-000000000001", "timestamp": stamp["timestamp"], "cwd": "/proj/bakery"}
    lines = [{**stamp, "type": "session_meta", "payload": meta}, {**stamp, "type": "response_item", "payload": asked}]
    (session,) = read_all(write_lines(tmp_path / "rollout-1.jsonl", *lines))
    assert [(entry.message or {})["content"][0]["text"] for entry in session.entries] == [content]
    assert title(tmp_path, session) == "Which rolls?"


@pytest.mark.parametrize(
    ("given", "spoken"),
    [("  Which rolls? ", "Which rolls? "), ("<ide_x>never closed", "<ide_x>never closed"), ("<ide_", "<ide_"),
     ("<ideas> for rolls", "<ideas> for rolls"), (OPENED, ""), ("", ""),
     (CODEX_CONTEXT, CODEX_CONTEXT), (CODEX_CONTEXT + "## My request for Codex:\n", CODEX_CONTEXT.rstrip())],
)  # fmt: skip
def test_what_was_spoken(given: str, spoken: str) -> None:
    assert spoken_text(given).startswith(spoken)
    assert bool(spoken_text(given)) == bool(spoken)


def test_a_store_that_took_an_editors_text_for_a_question_knows_it_again(tmp_path: Path) -> None:
    session = claude(tmp_path / "s.jsonl", OPENED, "Which rolls?")
    first = session.entries[0]
    message = {"role": "user", "content": OPENED, "timestamp": first.time_ms}
    before = StoredEntry(first.id, first.parent_id, "message", first.time_ms, dump(message))
    with open_store(tmp_path / "s.db") as store:
        old = session.replace(entries=(before, session.entries[1]), digest="before")
        store.import_session(old)
        result = store.import_session(claude(tmp_path / "moved.jsonl", OPENED, "Which rolls?", "And when?"))
        assert (result.added, result.shared, result.new_branch) == (1, 2, None)
