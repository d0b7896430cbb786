"""What Claude Code 2.1.332 and Codex 0.171 wrote, recorded by `python -m tests.interop.record`, comes in as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pi_sessions.store import SessionStore
from tests.sessions.agent_files import check_claude_code, check_codex, check_context, check_store, read
from tests.sessions.foreign_files import read_all, records_of, text_of, write_lines
from tests.sessions.pi_files import FIXTURES

AGENTS = FIXTURES / "agents"
PROJECT = AGENTS / "claude-code-2.1.332" / "projects" / "-proj-bakery"
CODEX = AGENTS / "codex-0.171.0"


def claude_files() -> tuple[Path, Path]:
    """Return the session's file and its fork's."""
    files = sorted(PROJECT.glob("*.jsonl"), key=lambda file: "Fork" in file.read_text(encoding="utf-8"))
    return files[0], files[1]


def codex_files() -> tuple[Path, Path]:
    files = sorted(CODEX.rglob("rollout-*.jsonl"), key=lambda file: "history_base" in records_of(file)[0]["payload"])
    return files[0], files[1]


def test_claude_code_rewound_compacted_forked_and_with_a_helper() -> None:
    session, fork = claude_files()
    check_claude_code(PROJECT, session.stem, fork.stem)


def test_codex_compacted_and_forked() -> None:
    session, fork = (records_of(file)[0]["payload"]["id"] for file in codex_files())
    check_codex(CODEX, session, fork)


def test_all_of_it_in_one_store_counts_once(tmp_path: Path) -> None:
    files = [*claude_files(), *PROJECT.rglob("agent-*.jsonl"), *codex_files()]
    assert len(files) == 5
    # Claude Code's requests but for the summary, and Codex's with it; none of those that failed.
    check_store(tmp_path, files, answers=9 + 6)


def test_a_codex_fork_without_its_origin_says_what_is_missing(tmp_path: Path) -> None:
    _session, fork = codex_files()
    alone = tmp_path / fork.name
    shutil.copy(fork, alone)
    [parsed] = read_all(alone)
    assert [(loss.line, loss.code) for loss in parsed.losses] == [(1, "history_missing")]
    assert read(parsed)["questions"] == ["Fork"]


def test_a_codex_fork_finds_its_origin_beside_it_and_among_archived_ones(tmp_path: Path) -> None:
    origin, fork = codex_files()
    for number, (at_origin, at_fork) in enumerate(
        [("", ""), ("archived_sessions", "sessions/2026/12/24"), ("sessions/2025/01/01", "archived_sessions")]
    ):
        made = []
        for file, folder in ((origin, at_origin), (fork, at_fork)):
            to = tmp_path / str(number) / folder / file.name
            to.parent.mkdir(parents=True, exist_ok=True)
            made.append(shutil.copy(file, to))
        [parsed] = read_all(made[1])
        assert parsed.losses == ()
        assert read(parsed)["questions"] == ["Read the notes", "What does it say?", "Fork"]


def test_a_fork_of_a_fork_and_forks_of_each_other(tmp_path: Path) -> None:
    """Bases are followed as far as they go; one that comes round again is said to be missing."""
    origin, fork = codex_files()
    head, *rest = fork.read_text(encoding="utf-8").splitlines(keepends=True)
    ids = [records_of(file)[0]["payload"]["id"] for file in (origin, fork)]
    second = "01a22a19-23ff-7000-8000-0000000000ff"
    shutil.copy(origin, tmp_path / origin.name)
    shutil.copy(fork, tmp_path / fork.name)
    last = records_of(fork)[-1]["ordinal"] + 1
    told = head.replace(ids[1], second).replace(ids[0], ids[1])
    told = told.replace('"end_ordinal_exclusive":', f'"end_ordinal_exclusive":{last},"was":')
    path = tmp_path / f"rollout-2026-11-30T02-00-00-{second}.jsonl"
    path.write_text(told + "".join(rest).replace('"Fork"', '"Again"'), encoding="utf-8")
    [parsed] = read_all(path)
    assert parsed.losses == ()
    assert read(parsed)["questions"] == ["Read the notes", "What does it say?", "Fork", "Again"]
    round_head = head.replace(ids[0], second)
    (tmp_path / fork.name).write_text(round_head + "".join(rest), encoding="utf-8")
    [parsed] = read_all(path)
    assert [loss.code for loss in parsed.losses] == ["history_missing"]
    assert read(parsed)["questions"] == ["Fork", "Again"]


def test_a_claude_code_fork_of_a_compacted_session_keeps_its_compaction(tmp_path: Path) -> None:
    """Such a fork begins with the compaction; what it kept is there once, behind it."""
    _session, fork = claude_files()
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        [parsed] = read_all(fork)
        session = store.import_session(parsed).session
        path = store.path(session.id)
        [compaction] = [entry for entry in path if entry.type == "compaction"]
        before = path[: path.index(compaction)]
        assert [entry.role for entry in before] == ["assistant"]
        assert compaction.fields["firstKeptEntryId"] == before[0].id


def test_gemini_cli_resumed_is_one_conversation() -> None:
    """A resumed chat lists the first message alone, then all of them in other words, with new times."""
    [file] = (AGENTS / "gemini-cli-0.61.0").rglob("session-*.jsonl")
    records = {record["id"]: record for record in records_of(file) if record.get("type") == "gemini"}
    used = [record["tokens"] for record in records.values()]
    [parsed] = read_all(file)
    assert (parsed.repairs, parsed.losses, parsed.unknown) == ((), (), ())
    counted = read(parsed)
    assert counted["questions"] == ["Read the notes", "What does it say?"]
    assert counted["answers"] == len(records) == 3
    assert counted["calls"] == counted["results"] == [call["id"] for each in records.values() for call in calls(each)]
    assert (counted["input"], counted["output"]) == (sum(each["input"] for each in used), 30)
    check_context(
        parsed,
        [
            ("custom", "<session_context>"),
            ("user", "Read the notes"),
            ("assistant", "I look."),
            ("toolResult", "a note"),
            ("toolResult", "No such file"),
            ("assistant", "One is there."),
            ("user", "What does it say?"),
            ("assistant", "It says: a note."),
        ],
    )


def calls(record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record.get("toolCalls", [])
    return found


def test_a_gemini_chat_that_went_another_way_after_a_short_list_has_two_branches(tmp_path: Path) -> None:
    """What a list left away comes back only with a list that names it again."""
    [file] = (AGENTS / "gemini-cli-0.61.0").rglob("session-*.jsonl")
    records = records_of(file)
    place = next(n for n, record in enumerate(records) if len(record.get("$set", {}).get("messages", [])) > 1)
    other = write_lines(tmp_path / file.name, *records[:place], *records[place + 1 :])
    [parsed] = read_all(other)
    assert read(parsed)["questions"] == ["Read the notes", "What does it say?"]
    check_context(
        parsed, [("custom", "<session_context>"), ("user", "What does it say?"), ("assistant", "It says: a note.")]
    )


def test_a_claude_code_fork_of_a_compacted_session_shares_what_it_repeats(tmp_path: Path) -> None:
    """Usage, prompt ids and new parents tell the records apart; their uuids and what they say do not."""
    session, fork = claude_files()
    repeated = {record.get("uuid") for record in records_of(session)} & {
        record["uuid"] for record in records_of(fork) if "uuid" in record
    }
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for _again in range(2):
            first, second = (store.import_session(read_all(file)[0]) for file in (session, fork))
        assert (first.added, second.added) == (0, 0)
        assert store.verify() == []
        stored = [row[0] for row in store.connection.execute("select id from entries") if row[0] in repeated]
        assert len(stored) == len(set(stored)) > 20
        asked = [text_of(entry.message) for entry in store.path(second.session.id) if entry.role == "user"]
        assert asked == ["Read the notes", "How long is it?", "Go on", "Ask", "Fork"]
        assert second.session.origin == first.session.id
