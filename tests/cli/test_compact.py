"""compact, summarize, merge, and moves with a summary: flags, streams, exit codes; offline, so no key is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Terminal

LONG = "word " * 300


@pytest.fixture
def long_talk(shell: Terminal) -> Terminal:
    """Return a shell whose current session has four long questions with answers."""
    shell.ok("new", "alias work")
    for number in range(4):
        shell.ok("append", f"Question {number}: please do not touch docs/guide{number}.md. {LONG}")
        shell.ok("append", "--role", "assistant", f"We decided to keep plan {number} in src/file{number}.py. {LONG}")
    return shell


def entries(shell: Terminal) -> list[str]:
    return [str(entry["id"]) for entry in path(shell)]


def path(shell: Terminal) -> list[dict[str, Any]]:
    lines = shell.ok("export", "--format", "pi").out.splitlines()
    return [entry for line in lines[1:] if (entry := json.loads(line))["type"] != "session_info"]


def test_a_dry_run_says_what_goes_and_changes_nothing(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    ran = long_talk.ok("compact", "--dry-run", "--offline", "--to", ids[3])
    assert "Summed up: 4 messages" in ran.out
    assert "Kept: 4 messages" in ran.out
    assert "docs/guide0.md" in ran.out
    assert "We decided to keep plan 1 in src/file1.py." in ran.out
    assert "guide3.md\n" not in ran.out.partition("Files named only")[2]
    assert "Nothing was changed" in ran.err
    told = json.loads(long_talk.ok("compact", "--dry-run", "--offline", "--to", ids[3], "--json").out)
    assert told["summarized"] == ids[:4]
    assert told["kept"] == ids[4:]
    assert told["tokensAfter"] < told["tokensBefore"]
    assert told["onlyInSummarized"]["files"] == ["docs/guide0.md", "src/file0.py", "docs/guide1.md", "src/file1.py"]
    assert entries(long_talk) == ids


def test_compact_and_undo(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    before = long_talk.ok("context").out
    told = json.loads(long_talk.ok("compact", "--offline", "--to", ids[3], "--json").out)
    assert (told["firstKeptEntryId"], told["kept"][0]) == (ids[4], told["entryId"])
    assert told["summarized"] == ids[:4]
    assert "## Key Decisions" in told["summary"]
    assert long_talk.ok("context").out != before
    again = long_talk.run("compact", "--offline")
    assert (again.code, "nothing to compact" in again.err) == (1, True)
    assert "choose the last entry to sum up: --to ENTRY" in again.err
    for form in ([], ["--dry-run"]):
        told_end = long_talk.run("compact", "--offline", "--to", ids[5], *form)
        assert (told_end.code, f"There is nothing to compact up to {ids[5]}" in told_end.err) == (1, True), told_end.err
        assert "name a later entry of the context" in told_end.err
    long_talk.ok("undo")
    assert long_talk.ok("context").out == before


def test_kept_entries_stay_word_for_word(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    told = json.loads(
        long_talk.ok("compact", "--offline", "--to", ids[5], "--keep", f"{ids[0]},{ids[2]}", "--json").out
    )
    assert told["verbatim"] == [ids[0], ids[2]]
    assert f"Question 0: please do not touch docs/guide0.md. {LONG.strip()}" in told["summary"]


def test_a_range_in_the_middle(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    shown = long_talk.ok("compact", "--dry-run", "--offline", "--from", ids[2], "--to", ids[5])
    assert "Summed up: 4 messages" in shown.out
    told = json.loads(long_talk.ok("compact", "--offline", "--from", ids[2], "--to", ids[5], "--json").out)
    assert told["summarized"] == ids[2:6]
    assert told["entryId"] == ids[2]
    context = long_talk.ok("context").out
    assert "Question 0" in context
    assert "summed up" in context
    long_talk.ok("undo")
    assert "summed up" not in long_talk.ok("context").out


def test_a_script_or_a_model_makes_the_summary(long_talk: Terminal, tmp_path: Path) -> None:
    ids = entries(long_talk)
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["A SUMMARY FROM THE SCRIPT"]))
    told = json.loads(long_talk.ok("compact", "--script", str(script), "--to", ids[3], "--json").out)
    assert told["summary"].startswith("A SUMMARY FROM THE SCRIPT")


@pytest.mark.parametrize(
    ("words", "code", "needle"),
    [
        (("compact", "--offline", "--model", "x"), 2, "only one of"),
        (("compact", "--offline", "--to", "nothere99"), 1, "nothere99"),
        (("compact", "--script", "missing.json", "--to", "@-2"), 1, "missing.json"),
        (("compact", "--model", "no/such-model", "--to", "@-2"), 1, "no/such-model"),
        (("summarize", "..@", "--offline"), 2, "missing before"),
        (("merge", "nowhere", "--offline"), 1, "nowhere"),
        (("merge", "nowhere", "--offline", "--pick", "abcd"), 2, "--pick"),
        (("merge", "nowhere", "--pick", ","), 2, "--pick names no entry"),
        (("compact", "--offline", "--keep", " , "), 2, "--keep names no entry"),
        (("rewind", "@-1", "--focus", "x"), 2, "--summarize"),
        (("switch", "main", "--offline"), 2, "--summarize"),
    ],
)
def test_what_cannot_be_is_said(long_talk: Terminal, words: tuple[str, ...], code: int, needle: str) -> None:
    before = entries(long_talk)
    ran = long_talk.run(*words)
    assert ran.code == code, ran
    assert needle in ran.err
    assert "Traceback" not in ran.err
    assert entries(long_talk) == before


def test_a_summary_that_fails_changes_nothing(long_talk: Terminal, tmp_path: Path) -> None:
    before = entries(long_talk)
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"error": "401 no key"}]))
    ran = long_talk.run("compact", "--script", str(script), "--to", before[3])
    assert ran.code == 1
    assert "no key" in ran.err
    assert entries(long_talk) == before


def test_summarize_prints_and_changes_nothing(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    ran = long_talk.ok("summarize", f"{ids[2]}..{ids[3]}", "--offline")
    assert "Question 1" in ran.out
    assert "Question 0" not in ran.out
    told = json.loads(long_talk.ok("summarize", "@", "--offline", "--json").out)
    assert (told["from"], told["to"]) == (None, ids[-1])
    assert entries(long_talk) == ids


def test_rewind_and_switch_write_a_summary_where_they_go(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    long_talk.ok("branch", "side", "--at", ids[1])
    told = json.loads(long_talk.ok("rewind", ids[4], "--summarize", "--offline", "--focus", "plan", "--json").out)
    assert told["editorText"].startswith("Question 2")
    assert told["oldLeaf"] == ids[-1]
    last = path(long_talk)[-1]
    assert (last["type"], last["fromId"], last["parentId"]) == ("branch_summary", ids[-1], ids[3])
    told = json.loads(long_talk.ok("switch", "side", "--summarize", "--offline", "--json").out)
    assert path(long_talk)[-1]["id"] == told["summaryId"]
    long_talk.ok("undo")
    long_talk.ok("undo")
    assert entries(long_talk) == ids


def test_merge_brings_a_branch_over(long_talk: Terminal) -> None:
    ids = entries(long_talk)
    long_talk.ok("branch", "attempt")
    long_talk.ok("rewind", ids[1], "--exact")
    told = json.loads(long_talk.ok("merge", "attempt", "--offline", "--json").out)
    assert (told["from"], told["oldLeaf"]) == ("attempt", ids[1])
    merged = path(long_talk)[-1]
    assert merged["details"]["merged"]["leaf"] == ids[-1]
    assert "Question 3" in merged["summary"]
    again = long_talk.run("merge", "attempt", "--offline")
    assert (again.code, "nothing that is not here" in again.err) == (1, True)
    long_talk.ok("undo")
    merged = long_talk.ok("merge", "attempt", "--pick", ids[7])
    assert merged.out.startswith("1 message of attempt stands in ")
    assert "We decided to keep plan 3" in path(long_talk)[-1]["content"]


def test_only_ends_that_can_be_chosen_are_named(long_talk: Terminal) -> None:
    usage = {"input": 1, "output": 1, "cost": {"total": 0}}
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}
    lines = [
        {"role": "assistant", "content": [call], "provider": "p", "model": "m", "usage": usage},
        {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": [{"type": "text", "text": "out"}]},
        {"role": "user", "content": "And then?"},
    ]
    long_talk.ok("append", "--json-lines", "-", stdin="".join(json.dumps(line) + "\n" for line in lines).encode())
    asked = next(entry["id"] for entry in path(long_talk) if "And" in str(entry.get("message", {}).get("content")))
    ids = entries(long_talk)
    called = ids[ids.index(asked) - 2]
    for more in ((), ("--dry-run",)):
        refused = long_talk.run("compact", "--offline", "--to", called, *more)
        assert refused.code == 1
        named = refused.err.partition("--to can be: ")[2].split()
        assert ids[ids.index(asked) - 1] in named
        assert called not in named
        for end in named:
            long_talk.ok("compact", "--offline", "--dry-run", "--to", end)


def measured_talk(shell: Terminal, tokens: int) -> list[str]:
    """Make a session of four long questions and answers, each answer with this usage; give the ids."""
    usage = {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens}
    text = {"type": "text", "text": LONG}
    said: list[dict[str, Any]] = []
    for number in range(4):
        said.append({"role": "user", "content": f"Question {number}. {LONG}"})
        said.append({"role": "assistant", "content": [text], "stopReason": "stop", "usage": usage})
    shell.ok("new")
    return shell.ok("append", "--json-lines", "-", stdin="\n".join(map(json.dumps, said)).encode()).lines


def size_of(shell: Terminal) -> dict[str, int]:
    tokens: dict[str, int] = json.loads(shell.ok("context", "--json").out)["tokens"]
    return tokens


def test_context_believes_no_measure_from_before_the_compaction(shell: Terminal) -> None:
    ids = measured_talk(shell, 124_001)
    assert size_of(shell) == {"total": 124_001, "measured": 124_001, "estimated": 0}
    assert "Compacted 124,001 tokens to " in shell.ok("compact", "--offline", "--to", ids[3]).out
    for _ in range(2):
        told = json.loads(shell.ok("context", "--json").out)
        assert told["tokens"]["measured"] == 0
        assert told["tokens"]["total"] == sum(told["shares"].values()) < 4000
        assert "(all estimated)" in shell.ok("context").lines[1]
        # An answer whose usage is not known changes nothing about that.
        shell.ok("append", "--role", "assistant", "more")


@pytest.mark.parametrize("tokens", [2, 1500])
def test_a_compaction_never_seems_to_make_the_context_larger(shell: Terminal, tokens: int) -> None:
    """A recorded usage may be far too small, or just below what the estimate says is left."""
    ids = measured_talk(shell, tokens)
    preview = json.loads(shell.ok("compact", "--offline", "--dry-run", "--to", ids[1], "--json").out)
    told = json.loads(shell.ok("compact", "--offline", "--to", ids[1], "--json").out)
    for one in (preview, told):
        assert one["tokensBefore"] > one["tokensAfter"] > tokens
    (entry,) = [one for one in path(shell) if one["type"] == "compaction"]
    assert entry["tokensBefore"] == told["tokensBefore"]


def test_context_does_not_believe_a_measure_that_cannot_be_right(shell: Terminal) -> None:
    measured_talk(shell, 2)
    told = size_of(shell)
    assert told["measured"] == 0
    assert told["total"] > 2000
