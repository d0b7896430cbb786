"""Versions 1 and 2 are read as version 3; what is there is kept, the source stays as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root
from pi_sessions.formats.pi import ParsedSession, read_pi_file
from tests.sessions.pi_files import (
    CASES,
    REAL_SESSIONS,
    answer,
    as_line,
    by_id,
    check,
    codes,
    counter,
    entry,
    export,
    header,
    read,
    real_session,
    reread,
    texts,
    tree,
    user,
)

V1 = as_line({"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"})


def bare(line: str) -> str:
    """An entry as version 1 has it: no id, no parent."""
    return as_line({key: value for key, value in json.loads(line).items() if key not in ("id", "parentId")})


def model_sees(session: ParsedSession) -> tuple[Any, str, list[str]]:
    path = path_to_root(by_id(session), session.leaf)
    context = build_context(active_entries(path), *path_settings(path))
    return context.model, context.thinking_level, [one.message["role"] for one in context.messages]


def test_version_1_becomes_one_chain(tmp_path: Path) -> None:
    session = read(tmp_path, V1, bare(user("", None, "q")), bare(answer("", None)), bare(user("", None, "q2")))
    assert tree(session) == {"10000001": None, "10000002": "10000001", "10000003": "10000002"}
    assert codes(session) == [(1, "migrated")]
    assert session.version == 1


def test_ids_that_are_there_are_kept_whatever_the_version(tmp_path: Path) -> None:
    """The recorded case `migrate-no-version-with-ids`: branches, label and kept id still mean what they meant."""
    lines = [
        user("a", None),
        answer("b", "a", "one"),
        answer("c", "a", "two"),
        entry("label", "d", "c", targetId="b", label="keep"),
        entry("compaction", "e", "d", summary="S", firstKeptEntryId="c", tokensBefore=1),
    ]
    session = read(tmp_path, V1, *lines)
    assert tree(session) == {"a": None, "b": "a", "c": "a", "d": "c", "e": "d"}
    assert list(session.labels) == ["b"]
    assert session.repairs == ()
    mixed = read(tmp_path, V1, user("a", None), bare(answer("", None)), user("c", "a"))
    assert tree(mixed) == {"a": None, "10000001": "a", "c": "a"}


@pytest.mark.parametrize(
    ("version", "read_as", "odd"),
    [
        (1, 1, False),
        (2, 2, False),
        (3, 3, False),
        (7, 7, False),
        (None, 1, True),
        (0, 1, True),
        (-1, 1, True),
        (True, 1, True),
        (2.5, 2, True),
        ("3", 3, True),
        ("x", 3, True),
    ],
)
def test_odd_versions_are_read_and_reported(tmp_path: Path, version: object, read_as: int, odd: bool) -> None:
    session = read(tmp_path, header(version=version), user("a", None), answer("b", "a"), answer("c", "a"))
    assert tree(session) == {"a": None, "b": "a", "c": "a"}
    assert session.version == read_as
    newer = [(1, "newer_version")] if read_as > 3 else []
    assert codes(session) == ([(1, "odd_version")] if odd else newer)


@pytest.mark.parametrize(
    ("index", "kept"), [(1, "10000001"), (3, "10000003"), (0, None), (5, None), (99, None), (-1, None), ("3", None)]
)
def test_a_kept_index_counts_records_with_the_header_as_0(tmp_path: Path, index: object, kept: str | None) -> None:
    compaction = entry("compaction", "", None, summary="S", firstKeptEntryIndex=index, tokensBefore=77)
    lines = [bare(user("", None, f"q{n}")) for n in range(3)]
    session = read(tmp_path, V1, *lines, bare(compaction), bare(user("", None, "end")))
    fields = by_id(session)["10000004"].fields
    assert fields.get("firstKeptEntryId") == kept
    assert "firstKeptEntryIndex" not in fields
    assert codes(session) == [(1, "migrated"), *([(5, "kept_index")] if kept is None else [])]


def test_a_compaction_of_version_1_without_a_kept_index_is_reported(tmp_path: Path) -> None:
    compaction = entry("compaction", "", None, summary="S", tokensBefore=77)
    session = read(tmp_path, V1, bare(user("", None, "q")), bare(compaction), bare(user("", None, "end")))
    assert codes(session) == [(1, "migrated"), (3, "kept_index")]


def test_a_kept_index_counts_only_what_was_parsed(tmp_path: Path) -> None:
    compaction = entry("compaction", "", None, summary="S", firstKeptEntryIndex=3, tokensBefore=77)
    lines = [bare(user("", None, "q1")), "{broken", "null", "", bare(user("", None, "q2")), bare(user("", None, "q3"))]
    session = read(tmp_path, V1, *lines, bare(compaction))
    assert by_id(session)["10000004"].fields["firstKeptEntryId"] == "10000003"


def test_hook_messages_become_custom_messages(tmp_path: Path) -> None:
    message = '{"role":"hookMessage","customType":"x","content":"say \\"hookMessage\\"","display":true,"n":1.0}'
    line = f'{{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-01T00:01:00.000Z","message":{message}}}'
    session = read(tmp_path, header(version=2), user("a", None), line)
    assert session.entries[1].payload == message.replace('"role":"hookMessage"', '"role":"custom"')
    assert read(tmp_path, header(version=3), user("a", None), line).entries[1].payload == message


def test_settings_of_a_version_1_header_come_first(tmp_path: Path) -> None:
    """The recorded case `migrate-mixed-corrupt-v1`: the thinking level counts; the first answer's model wins."""
    old = as_line(json.loads(V1) | {"provider": "anthropic", "modelId": "m0", "thinkingLevel": "high"})
    session = read(tmp_path, old, bare(user("", None)), "{broken", bare(answer("", None)), "", bare(user("", None)))
    model, level, roles = model_sees(session)
    assert (model.model_id, level, roles) == ("claude-sonnet-4-5", "high", ["user", "assistant", "user"])
    assert session.entries[0].type == "thinking_level_change"
    assert list(tree(session))[1:] == ["10000001", "10000002", "10000003"]
    assert (1, "header_settings") in codes(session)
    assert session.lines[0] == 0


def test_the_model_of_a_version_1_header_counts_where_nothing_else_names_one(tmp_path: Path) -> None:
    old = as_line(json.loads(V1) | {"provider": "anthropic", "modelId": "m0", "thinkingLevel": "off"})
    model, level, roles = model_sees(read(tmp_path, old, bare(user("", None))))
    assert (model.provider, model.model_id, level, roles) == ("anthropic", "m0", "off", ["user"])


def test_a_version_1_file_copied_under_a_version_3_header_is_whole(tmp_path: Path) -> None:
    """The recorded case `forkfrom-legacy`: Pi's `--fork` leaves entries without ids, then goes on."""
    after = as_line({key: value for key, value in json.loads(user("c", None)).items() if key != "parentId"})
    hook = bare(entry("message", "", None, message={"role": "hookMessage", "content": "h"}))
    session = read(tmp_path, header(), bare(user("", None, "hello")), hook, bare(answer("", None)), after)
    assert tree(session) == {"10000001": None, "10000002": "10000001", "10000003": "10000002", "c": "10000003"}
    assert session.entries[1].role == "custom"


def test_ids_made_from_content_are_the_same_at_every_reading(tmp_path: Path) -> None:
    """And the same in a copy that went on, so that importing both shares what they have in common."""
    lines = [V1, *(bare(user("", None, text)) for text in ("q", "q", "r"))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text("\n".join([*lines, bare(answer("", None))]).replace('"old"', '"copy"'))
    first = read_pi_file(str(tmp_path / "a.jsonl"))
    second = read_pi_file(str(tmp_path / "b.jsonl"))
    assert len(set(tree(first))) == 3
    assert list(tree(second))[:3] == list(tree(first))


def test_the_parent_of_a_version_1_header_counts(tmp_path: Path) -> None:
    session = read(tmp_path, header(branchedFrom="/old.jsonl"), user("a", None))
    assert session.parent_ref == "/old.jsonl"
    session = read(tmp_path, header(branchedFrom="/old.jsonl", parentSession="/new.jsonl"), user("a", None))
    assert session.parent_ref == "/new.jsonl"


def test_the_reduced_version_1_sample() -> None:
    """The sample `pi-v1-reduced`: thirteen lines, one chain, context behind the compaction."""
    session = read_pi_file(str(CASES / "samples" / "pi-v1-reduced.jsonl"))
    check(session)
    model, level, _roles = model_sees(session)
    assert (len(session.entries), session.lines_read) == (12, 13)
    assert (model.model_id, level) == ("gpt-5", "high")
    path = path_to_root(by_id(session), session.leaf)
    assert len(path) == 12
    shown = [one.role or one.type for one in active_entries(path)]
    assert shown[:4] == ["compaction", "user", "assistant", "bashExecution"]
    assert session.parent_ref is not None
    assert session.parent_ref.endswith("older.jsonl")


def test_the_version_1_index_case() -> None:
    """The case `s12-second-compaction`: summary, then question two to question four."""
    session = read_pi_file(str(CASES / "s12-second-compaction" / "v1-index-compaction.jsonl"))
    active = active_entries(path_to_root(by_id(session), session.leaf))
    assert active[0].fields["summary"] == "V1 SUMMARY"
    kept = [one.message["content"][0]["text"] for one in active[1:] if one.message]
    assert kept == ["Question two", "Answer two", "Question three", "Answer three", "Question four"]


def test_the_version_2_sample() -> None:
    session = read_pi_file(str(CASES / "samples" / "pi-v2-hook-message.jsonl"))
    assert model_sees(session)[2] == ["user", "custom", "assistant"]
    assert session.version == 2


@pytest.mark.parametrize("name", REAL_SESSIONS)
def test_real_sessions_come_in_whole_and_go_out_the_same(tmp_path: Path, name: str) -> None:
    session = read_pi_file(real_session(name, tmp_path), new_id=counter())
    check(session)
    assert session.losses == ()
    assert session.tally.entries == len(session.entries) == session.lines_read - 1
    back = reread(tmp_path, export(session))
    assert [one.to_dict() for one in back.entries] == [one.to_dict() for one in session.entries]
    assert texts(back) == texts(session)
    assert model_sees(back) == model_sees(session)
