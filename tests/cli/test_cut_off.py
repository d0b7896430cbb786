"""A run that was cut off is told wherever one looks, and what it holds is never lost without a word."""

import json
import sqlite3
from typing import Any

import pytest

from pi_sessions.formats.export_losses import PENDING_MESSAGES, PENDING_RESULTS
from pi_sessions.store import SessionStore
from tests.cli.launcher import Ran, Terminal

MAKE = 'finished: bash(command="make"); may have run: bash(command="make test")'
LOOKING = (["show"], ["show", "@"], ["log"], ["tree"], ["context"], ["context", "--explain"], ["export"])


def cut_off(shell: Terminal, *, branch: str | None = None, steering: str | None = None) -> str:
    """Cut off a run in the middle of two calls, the first of them finished; give the id of their answer's entry."""
    sid = json.loads(shell.ok("show", "--json").out)["id"]
    with SessionStore.open(f"{shell.folder}/sessions.db") as store:
        prompt = {"role": "user", "content": "build and test it"}
        run = store.begin_run(sid, command="run", summary="build and test it", accepted=[prompt], branch=branch)
        run.append({"type": "message", "message": prompt}, taken=run.numbers[0])
        calls = [
            {"type": "toolCall", "id": f"c{place}", "name": "bash", "arguments": {"command": order}}
            for place, order in enumerate(("make", "make test"))
        ]
        said = run.append(
            {"type": "message", "message": {"role": "assistant", "content": calls, "stopReason": "toolUse"}}
        )
        for call in ("c0", "c1"):
            run.start_call(said.id, call, "bash")
        made = {"role": "toolResult", "toolCallId": "c0", "toolName": "bash", "content": "MADE", "isError": False}
        run.finish_call(said.id, "c0", made)
        if steering is not None:
            run.accept("steering", {"role": "user", "content": steering})
        run.release()
        return said.id


def notes(ran: Ran) -> list[str]:
    return [line for line in ran.err.splitlines() if line.startswith("Note: ")]


def unfinished(ran: Ran) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran.out)["unfinishedRuns"]
    return found


@pytest.mark.parametrize("line", LOOKING, ids=" ".join)
def test_whoever_looks_is_told_in_one_line(talk: Terminal, line: list[str]) -> None:
    assert notes(talk.ok(*line)) == []
    cut_off(talk)
    sid = json.loads(talk.ok("show", "--json").out)["id"]
    (note,) = notes(talk.ok(*line))
    assert "The last run on main (“build and test it”) was cut off; " + MAKE in note
    assert note.endswith(
        f"; pi-session run --session {sid} --recover continue goes on with it, --recover close ends it as it stands"
    )
    if line != ["export"]:
        (told,) = unfinished(talk.ok(*line, "--json"))
        assert (told["prompt"], told["branch"]) == ("build and test it", "main")
        assert told["close"] == f"pi-session run --session {sid} --recover close"
        assert [call["state"] for call in told["calls"]] == ["finished", "may_have_run"]
        assert talk.ok(*line, "--json").err == ""


def test_programs_are_told_that_there_is_none(talk: Terminal) -> None:
    for line in LOOKING[:-1]:
        assert unfinished(talk.ok(*line, "--json")) == []
    assert unfinished(talk.ok("append", "more", "--json")) == []
    assert unfinished(talk.ok("fork", "--json")) == []


def test_a_run_on_another_branch_is_told_with_its_branch(talk: Terminal) -> None:
    talk.ok("branch", "side road")
    cut_off(talk, branch="side road")
    (note,) = notes(talk.ok("tree"))
    assert "on side road (" in note
    assert "--branch 'side road' --recover continue goes on" in note


def test_ls_marks_the_session(talk: Terminal) -> None:
    cut_off(talk)
    talk.ok("new")
    rows = json.loads(talk.ok("ls", "--json").out)["sessions"]
    assert {row["name"]: row["cutOff"] for row in rows} == {"lease bug": True, None: False}
    marked = [line for line in talk.ok("ls").lines if "(run cut off)" in line]
    assert ["lease bug" in line for line in marked] == [True]


@pytest.mark.parametrize("more", [[], ["--all-branches"]], ids=["path", "tree"])
def test_a_fork_that_ends_there_says_what_it_does_not_have(talk: Terminal, more: list[str]) -> None:
    said = cut_off(talk)
    talk.env["PI_SESSION_ID"] = json.loads(talk.ok("show", "--json").out)["id"]
    ran = talk.ok("fork", *more)
    assert "finished is not in this fork" in ran.err
    assert len(notes(ran)) == 1
    assert "not in this fork" not in talk.ok("fork", "--at", "@-2").err
    assert unfinished(talk.ok("fork", "--at", said, "--json"))[0]["leaf"] == said


def test_an_export_counts_what_it_does_not_have(talk: Terminal) -> None:
    cut_off(talk, steering="hurry")
    ran = talk.ok("export")
    assert "1 result of a run that was cut off, 1 message that a run had accepted when it was cut off" in ran.err
    file = str(talk.folder / "talk.html")
    told = json.loads(talk.ok("export", "-o", file, "--json").out)
    assert told["losses"] == {PENDING_RESULTS: 1, PENDING_MESSAGES: 1}
    assert len(told["unfinishedRuns"]) == 1
    early = talk.ok("export", "--at", "@-1", "-o", str(talk.folder / "early.jsonl"), "--json")
    assert PENDING_RESULTS not in json.loads(early.out)["losses"]


def test_an_append_behind_it_warns(talk: Terminal) -> None:
    cut_off(talk)
    assert "Warning" not in talk.ok("branch", "side", "--at", "@-1").err
    ran = talk.ok("append", "and then?")
    assert "Warning: this stands behind a run that was cut off" in ran.err
    assert len(notes(ran)) == 1
    aside = talk.ok("append", "--branch", "side", "elsewhere")
    assert "Warning" not in aside.err
    assert notes(aside) == []


def test_a_compaction_behind_it_warns(talk: Terminal) -> None:
    for _ in range(4):
        talk.ok("append", "word " * 500)
    cut_off(talk)
    first = json.loads(talk.ok("log", "--json").out)["entries"][6]["id"]
    line = ["compact", "--offline", "--to", first]
    preview = talk.ok(*line, "--dry-run")
    assert len(notes(preview)) == 1
    assert "Warning" not in preview.err
    ran = talk.ok(*line)
    assert len(notes(ran)) == 1
    assert "Warning: this stands behind a run that was cut off; going on with that will leave main as it is" in ran.err


def test_undo_leaves_whole_what_it_takes_back(talk: Terminal) -> None:
    said = cut_off(talk)
    ran = talk.ok("undo")
    before = talk.ok("log", "--json").out
    assert "each of its calls got its one result" in ran.err
    assert json.loads(talk.ok("log", "--json").out)["entries"][-1]["message"]["role"] == "assistant"
    tip = json.loads(talk.ok("show", "--json").out)["tips"][0]
    talk.ok("rewind", "--exact", tip)
    entries = json.loads(talk.ok("log", "--json").out)["entries"]
    results = [entry["message"] for entry in entries if entry["message"]["role"] == "toolResult"]
    assert [one["toolCallId"] for one in results] == ["c0", "c1"]
    assert results[0]["content"] == "MADE"
    assert "may have run" in results[1]["content"][0]["text"]
    assert json.loads(talk.ok("show", said, "--json").out)["partners"][0]["entryId"] is not None
    assert "no result" not in talk.ok("context", "--explain").out
    assert notes(talk.ok("tree")) == []
    talk.ok("undo")
    assert talk.ok("log", "--json").out == before
    assert tip in talk.ok("redo").out


def test_looking_costs_one_look_at_an_index(talk: Terminal) -> None:
    connection = sqlite3.connect(f"{talk.folder}/sessions.db")
    plan = " ".join(
        row[3]
        for row in connection.execute(
            "explain query plan select 1 from runs where ended is null"
            " and sid = (select sid from sessions where id = ?) limit 1",
            ("x",),
        )
    )
    connection.close()
    assert "runs_unfinished" in plan
    assert "SCAN" not in plan


def test_names_of_others_cannot_move_the_cursor(talk: Terminal) -> None:
    sid = json.loads(talk.ok("show", "--json").out)["id"]
    with SessionStore.open(f"{talk.folder}/sessions.db") as store:
        store.begin_run(sid, command="run", summary="x\x1b[2J\u202ey", accepted=[]).release()
    (note,) = notes(talk.ok("show"))
    assert "“x\\x1b[2J\\u202ey”" in note


def test_a_run_in_a_fork_that_ends_there_says_what_the_fork_does_not_have(talk: Terminal) -> None:
    said = cut_off(talk)
    talk.cwd = str(talk.folder)
    script = talk.folder / "script.json"
    script.write_text('["Fine."]')
    sid = json.loads(talk.ok("ls", "--json").out)["sessions"][0]["id"]
    ran = talk.ok("run", "go", "--fork-from", f"{sid}:{said}", "--script", str(script))
    assert "finished is not in this fork" in ran.err
    assert ran.out == "Fine.\n"
