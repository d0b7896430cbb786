"""People's cases whose input is a Pi session file: what reading and writing must give."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root
from pi_sessions.formats.pi import ParsedSession, read_pi_file
from tests.sessions.pi_files import CASES, by_id, check, export, message_text, reread, texts


def load(name: str) -> ParsedSession:
    session = read_pi_file(str(CASES / name))
    check(session)
    assert (session.repairs, session.losses) == ((), ())
    return session


def context_ids(session: ParsedSession, leaf: str | None) -> list[str]:
    path = path_to_root(by_id(session), leaf)
    return [one.entry_id for one in build_context(active_entries(path), *path_settings(path)).messages]


def test_s08_both_branches_are_there_as_written() -> None:
    """The stray result stays where it was stored; keeping it out of a request is the request's task."""
    session = load("s08-result-on-wrong-branch/wrong-branch.jsonl")
    assert context_ids(session, "c0000002") == ["c0000001", "c0000002"]
    assert context_ids(session, session.leaf) == ["c0000001", "c0000003", "c0000004", "c0000005"]


def test_s09_only_the_outer_summary_counts() -> None:
    session = load("s09-chained-compaction/chained-compaction.jsonl")
    active = active_entries(path_to_root(by_id(session), session.leaf))
    assert active[0].fields["summary"].startswith("OUTER SUMMARY")
    ids = context_ids(session, session.leaf)
    assert ids[0] == active[0].id
    assert ids[1:] == sorted(ids[1:])
    assert ids[1] == "d0000003"
    assert sum(by_id(session)[one].type == "compaction" for one in ids) == 1


def test_s10_the_two_results_are_kept_in_their_order() -> None:
    session = load("s10-two-of-three-results/two-of-three.jsonl")
    calls = [one.message["toolCallId"] for one in session.entries if one.message and one.role == "toolResult"]
    assert calls == ["call_3", "call_1"]


def test_s12_the_first_summary_and_what_it_kept() -> None:
    session = load("s12-second-compaction/before-second-compaction.jsonl")
    active = active_entries(path_to_root(by_id(session), session.leaf))
    assert active[0].fields["summary"].startswith("SUMMARY-1")
    said = " ".join(message_text(one) for one in active if one.message)
    assert all(word in said for word in ("Q-two", "A-two", "Q-three", "A-three"))
    assert "Q-one" not in said


def test_s14_the_last_request_is_whole() -> None:
    session = load("s14-last-request-survives/one-long-turn.jsonl")
    assert any("(3) do NOT touch docs/" in text for text in texts(session))


@pytest.mark.parametrize("name", ["s16-foreign-thinking/foreign-thinking", "s17-tool-call-ids/tool-ids"])
def test_s16_s17_what_providers_gave_is_stored_as_it_came(name: str) -> None:
    path = CASES / f"{name}.jsonl"
    session = load(f"{name}.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    assert all(one.payload.strip("{}") in line for one, line in zip(session.entries, lines, strict=True))
    assert [json.loads(line) for line in lines] == [one.to_dict() for one in session.entries]


def test_s22_twenty_thousand_entries_go_in_and_out_in_seconds(tmp_path: Path) -> None:
    script = CASES / "s22-deep-chain" / "make_deep_chain.py"
    deep = tmp_path / "deep.jsonl"
    with deep.open("wb") as file:
        subprocess.run([sys.executable, str(script), "20000"], stdout=file, check=True, timeout=60)
    started = time.process_time()
    session = read_pi_file(str(deep))
    lines = export(session, whole_tree=False)
    assert time.process_time() - started < 10
    assert len(session.entries) == 20_000
    assert "".join(lines[1:]).encode() == deep.read_bytes().partition(b"\n")[2]


def test_s26_the_entries_of_every_query_are_there() -> None:
    session = load("s26-search-punctuation/search-punctuation.jsonl")
    rows = (CASES / "s26-search-punctuation" / "queries.tsv").read_text(encoding="utf-8").splitlines()
    named = {cell for row in rows for cell in row.split("\t")} & set(by_id(session))
    assert len(named) > 3


def test_s28_ids_are_those_of_the_file() -> None:
    first = load("s28-ambiguous-prefix/first.jsonl")
    second = load("s28-ambiguous-prefix/second.jsonl")
    assert [one.id for one in first.entries] == ["a1b2", "a1b2c3d4"]
    assert [one.id for one in second.entries] == ["a1b2", "a1b2c3d5"]
    assert (first.id[:12], second.id[:13]) == ("019c5381-aaa", "019c5381-aaab")


def test_s29_secrets_go_through_unchanged_when_nothing_is_redacted(tmp_path: Path) -> None:
    raw = (CASES / "s29-secrets" / "secrets.jsonl.in").read_bytes().replace(b"~", b"")
    path = tmp_path / "secrets.jsonl"
    path.write_bytes(raw)
    session = read_pi_file(str(path))
    check(session)
    assert "".join(export(session)).encode() == raw
    assert [one.to_dict() for one in reread(tmp_path, export(session)).entries] == [
        one.to_dict() for one in session.entries
    ]


def test_stored_entries_are_what_the_line_said() -> None:
    """Every Pi file of the cases: decoding what is stored gives the line's own object."""
    seen = 0
    for path in sorted(CASES.glob("s*/*.jsonl")):
        lines = path.read_bytes().split(b"\n")
        if not lines[0].startswith(b'{"type":"session","version":3'):
            continue
        session = read_pi_file(str(path))
        if session.repairs or session.losses:
            continue
        told = [json.loads(line) for line in lines[1:] if line]
        assert [one.to_dict() for one in session.entries] == told
        seen += 1
    assert seen > 25
