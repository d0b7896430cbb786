"""`log`, `show ENTRY` and `context` to their full worth: what is chosen, folded, broken, paged and counted."""

import json
import os
import sys
from pathlib import Path

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_session_cli.render.pager import page, pager_command
from pi_session_cli.render.prose import broken, paint_line, paint_lines
from pi_session_cli.render.screen import UNICODE, Screen
from pi_session_cli.render.width import width
from tests.cli.launcher import Terminal
from tests.cli.test_pictures import SAMPLE

PLAIN = Screen(columns=40, colour=False, signs=UNICODE, now_ms=1_772_442_000_000)
COLOUR = PLAIN.replace(colour=True)
PIPE = PLAIN.replace(columns=None)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a shell with the demo's session."""
    shell = Terminal(tmp_path_factory.mktemp("log"), cwd="/home/dev/tideline")
    shell.ok("import", str(SAMPLE))
    return shell


def ids(shell: Terminal, *words: str) -> list[str]:
    """Return the ids of the entries a log gives."""
    return [entry["id"] for entry in json.loads(shell.ok("log", *words, "--json").out)["entries"]]


def test_from_and_to_choose_a_part_of_the_path(sample: Terminal) -> None:
    assert ids(sample, "--from", "8316c93e", "--to", "2dfdedb1") == ["8316c93e", "7e50900a", "2dfdedb1"]
    assert ids(sample, "--from", "e482cab0") == ["e482cab0", "4b1295b7"]
    assert ids(sample, "--from", "@-1", "--last", "1") == ["4b1295b7"]
    told = json.loads(sample.ok("log", "--from", "e482cab0", "--json").out)
    assert told["before"] + 2 == len(ids(sample))


def test_role_chooses_who_speaks(sample: Terminal) -> None:
    for role, roles in (("user", {"user"}), ("assistant", {"assistant"}), ("tool", {"toolResult", "bashExecution"})):
        entries = json.loads(sample.ok("log", "--role", role, "--json").out)["entries"]
        assert {entry["message"]["role"] for entry in entries} == roles
    assert "compaction" in sample.ok("log", "--role", "summary").out
    assert sample.ok("log", "--role", "user", "--last", "2").out.count("user  ") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "ada8bed8"], 1, "not on the path"),
        (["--from", "4b1295b7", "--to", "e482cab0"], 2, "comes before"),
        (["--at", "@", "--to", "@"], 2, "both say where it ends"),
    ],
)
def test_what_makes_no_sense_is_said(sample: Terminal, words: list[str], code: int, said: str) -> None:
    ran = sample.run("log", *words)
    assert ran.code == code
    assert said in ran.err


def test_results_stand_under_their_calls_until_the_whole_is_wanted(sample: Terminal) -> None:
    folded = sample.ok("log", "--from", "8316c93e", "--to", "2dfdedb1").lines
    assert [line.split("  ")[0] for line in folded if line and line[0] not in " ("] == ["assistant", "assistant"]
    assert "    -> 9f3c2ab Renew the lease after every batch" in folded
    full = sample.ok("log", "--from", "8316c93e", "--to", "2dfdedb1", "--full").out
    assert "tool  7e50900a" in full
    assert "->" not in full


def test_a_result_without_its_call_stands_for_itself(sample: Terminal) -> None:
    assert "| 9f3c2ab Renew" in sample.ok("log", "--from", "7e50900a", "--to", "7e50900a").out


def test_a_failed_call_says_so(sample: Terminal) -> None:
    assert "-> failed: " in sample.ok("log", "--at", "072860a1").out


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"]), max_size=200), st.integers(24, 60))
@settings(max_examples=150, deadline=None)
def test_broken_lines_lose_no_word(line: str, room: int) -> None:
    pieces = list(broken(line, room))
    assert "".join("".join(pieces).split()) == "".join(line.split())
    words = [width(word) for word in line.split()]
    assert all(width(piece) <= max(room, *words, 0) + room // 2 for piece in pieces)


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("short", ["short"]),
        ("one two three four", ["one two", "three four"]),
        ("- one two three", ["- one two", "  three"]),
        ("1. one two three", ["1. one two", "   three"]),
        ("日本語 日本語 日本語", ["日本語", "日本語", "日本語"]),
    ],
)
def test_long_lines_are_broken_between_words(line: str, pieces: list[str]) -> None:
    assert list(broken(line, 10)) == pieces


def test_markdown_is_coloured_and_code_is_left_in_one_piece() -> None:
    long = "x = " + "1 + " * 30 + "1"
    lines = ["# Head", "", "```py", long, "# no head", "```", "use `code` and **bold**"]
    painted = list(paint_lines(lines, COLOUR, indent=2))
    assert painted[0] == "  \x1b[1m# Head\x1b[0m"
    assert painted[3] == f"  \x1b[36m{long}\x1b[0m"
    assert painted[4] == "  \x1b[36m# no head\x1b[0m"
    assert painted[6] == "  use \x1b[36m`code`\x1b[0m and \x1b[1m**bold**\x1b[0m"
    assert list(paint_lines(lines, PIPE, indent=2)) == [f"  {line}" if line else "" for line in lines]


@pytest.mark.parametrize("line", ["a * b ** c", "`", "``` x", "** no **", "snake_case_name", "> - 1. nested"])
def test_colour_only_adds_colour_to_odd_lines(line: str) -> None:
    assert paint_line(line, COLOUR).replace("\x1b[33m", "").replace("\x1b[0m", "") == line


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({}, ["less"]),
        ({"PAGER": "more -f"}, ["more", "-f"]),
        ({"PAGER": "more", "PI_SESSION_PAGER": "most"}, ["most"]),
        ({"PAGER": ""}, None),
        ({"PAGER": "cat"}, None),
        ({"PAGER": "'"}, None),
    ],
)
def test_the_pager_is_the_persons_own(environ: dict[str, str], command: list[str] | None) -> None:
    assert pager_command(environ) == command


def test_a_pager_that_cannot_start_or_stops_early_is_no_failure(tmp_path: Path) -> None:
    assert not page(["a"], {"PAGER": str(tmp_path / "none")})
    assert page(["a" * 1000] * 10_000, {"PAGER": "true", "PATH": os.environ["PATH"]})


def test_a_long_log_goes_through_the_pager_on_a_terminal(sample: Terminal, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    pager = f"{sys.executable} -c \"import sys; open('{seen}', 'w').write(sys.stdin.read())\""
    env = {**os.environ, **sample.env, "PAGER": pager, "LAUNCHER_CWD": sample.cwd, "TERM": "xterm"}
    env.pop("PI_SESSION_PAGER", None)
    for words, paged in ((["log"], True), (["log", "--last", "1"], False)):
        seen.write_text("")
        command = ["-m", "tests.cli.launcher", *words]
        child = pexpect.spawn(sys.executable, command, env=env, dimensions=(20, 80), timeout=20, encoding="utf-8")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert bool(seen.read_text()) == paged
        assert ("Two things" in (child.before or "")) != paged


def test_show_tells_everything_about_an_entry(sample: Terminal) -> None:
    told = json.loads(sample.ok("show", "8316c93e", "--json").out)
    assert told["partners"] == [{"toolCallId": "call_17", "entryId": "7e50900a"}]
    assert told["place"] == "entry 46 of its path; a model sees it"
    result = json.loads(sample.ok("show", "7e50900a", "--json").out)
    assert result["partners"] == [{"toolCallId": "call_17", "entryId": "8316c93e"}]
    assert "not seen any more: summed up in 5e18a162" in sample.ok("show", "76a1bf01").out
    assert "it is on another branch" in sample.ok("show", "ada8bed8").out
    assert "$0.0012" in sample.ok("show", "8316c93e").out


def test_show_tells_what_a_context_edit_does(talk: Terminal) -> None:
    talk.ok("omit", "@-1")
    assert "left out by" in talk.ok("show", "@-1").out


def test_context_tells_what_fills_it(sample: Terminal) -> None:
    told = json.loads(sample.ok("context", "--at", "84f30880", "--json").out)
    tokens = {each["entryId"]: each["tokens"] for each in told["messages"]}
    assert sum(told["shares"].values()) == sum(tokens.values())
    assert told["shares"]["files read"] > told["shares"]["tool output"] > 0
    assert told["dearest"][0]["tokens"] == max(tokens.values())
    drawn = sample.ok("context", "--at", "84f30880").out
    assert "files read" in drawn
    assert drawn.count("* ") >= 3


def test_context_is_measured_against_the_models_window(sample: Terminal) -> None:
    told = json.loads(sample.ok("context", "--window", "--json").out)
    assert told["window"] > 100_000
    drawn = sample.ok("context", "--window").out
    assert "free" in drawn
    assert "not stored" in drawn


def test_an_unknown_window_is_said(talk: Terminal) -> None:
    talk.ok("append", "--role", "assistant", "--model", "nobody/nothing", "hm")
    assert "not known here" in talk.ok("context", "--window").err


def repeated_ids(shell: Terminal) -> list[str]:
    """Make a session whose two runs both call `call_0`, and a third branch that answers the second; give its ids."""
    said = []
    for command in ("FIRST", "SECOND"):
        call = {"type": "toolCall", "id": "call_0", "name": "bash", "arguments": {"command": f"echo {command}"}}
        result = {"role": "toolResult", "toolCallId": "call_0", "toolName": "bash", "content": command}
        said += [{"role": "user", "content": f"say {command}"}, {"role": "assistant", "content": [call]}, result]
    shell.ok("new")
    lines = "\n".join(json.dumps(message) for message in said).encode()
    return shell.ok("append", "--json-lines", "-", stdin=lines).lines


def test_results_are_told_under_the_call_they_answer_when_ids_come_again(shell: Terminal) -> None:
    made = repeated_ids(shell)
    told = [line.strip() for line in shell.ok("log").lines]
    for word in ("FIRST", "SECOND"):
        assert told[told.index(f'bash(command="echo {word}")') + 1] == f"-> {word}"
    assert not any(line.startswith("tool ") for line in told)
    partners = [json.loads(shell.ok("show", entry, "--json").out)["partners"] for entry in made]
    halves = [pair[0]["entryId"] if pair else None for pair in partners]
    assert halves == [None, made[2], made[1], None, made[5], made[4]]


def test_show_finds_a_result_on_another_branch_but_not_that_of_a_later_call(shell: Terminal) -> None:
    made = repeated_ids(shell)
    shell.ok("rewind", "--exact", made[1])
    shell.ok("append", "left open")
    shell.ok("append", "--json-lines", "-", stdin=json.dumps({"role": "assistant", "content": []}).encode())
    assert json.loads(shell.ok("show", made[1], "--json").out)["partners"][0]["entryId"] == made[2]
    again = json.loads(shell.ok("show", made[4], "--json").out)["partners"]
    assert again == [{"toolCallId": "call_0", "entryId": made[5]}]


def test_a_system_message_tells_what_it_sets(shell: Terminal) -> None:
    shell.ok("new")
    said = [
        {
            "role": "system",
            "content": "",
            "sections": {"prompt": "Be brief. " * 40},
            "toolsAdded": [{"name": "read"}, {"name": "ls"}],
        },
        {"role": "system", "content": "", "sections": {"prompt": None}, "toolsRemoved": [{"name": "ls"}]},
        {"role": "system", "content": "Only \x1b[2Jtext."},
        {"role": "system", "content": ""},
    ]
    made = shell.ok("append", "--json-lines", "-", stdin="\n".join(map(json.dumps, said)).encode()).lines
    gists = [
        "system prompt (100 tokens); tools: read, ls",
        "without prompt; without tools: ls",
        "Only \\x1b[2Jtext.",
        "(empty)",
    ]
    rows = {row["id"]: row["text"] for row in json.loads(shell.ok("tree", "--all", "--json").out)["rows"]}
    assert [rows[entry] for entry in made] == gists
    log, context = shell.ok("log").out, shell.ok("context").out
    for told in gists[:3]:
        assert f"\n  {told}\n" in log
        assert f"system: {told}" in context
    full = shell.ok("show", made[0]).out
    assert "  Be brief. Be brief." in full
    assert full.rstrip().endswith("tools: read, ls")
