"""`resume`, driven in a real terminal with the scripted model."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from pi_loop.events import MessageUpdate, TextDelta
from pi_loop.runner_types import CompactionEnd
from pi_session_cli.interactive import slash
from pi_session_cli.interactive.overhearing import Overhearing, Said, is_looked_up
from pi_session_cli.interactive.picker import Picker
from pi_session_cli.interactive.status import opening_of
from pi_session_cli.model_access import SCRIPTED
from pi_session_cli.render import screen_for
from pi_session_cli.render.live import LivePrinter
from pi_session_cli.render.markdown import MarkdownLines
from pi_session_cli.render.screen import UNICODE, Screen
from pi_sessions import stored
from pi_sessions.messages import AssistantMessage
from pi_sessions.stored import decode
from tests.cli.launcher import Stream
from tests.cli.launcher import Terminal as Shell
from tests.cli.pty_server import TerminalServer
from tests.cli.pty_talk import LIMIT_S, PROGRAM, Person, Terminal

READY = "Ctrl-D leaves"
LONG = "one two three four five six seven eight nine ten eleven twelve"


@pytest.fixture(scope="module")
def server() -> Iterator[TerminalServer]:
    """Return what starts the program in terminals."""
    server = TerminalServer()
    yield server
    server.close()


@pytest.fixture
def person(tmp_path: Path, server: TerminalServer) -> Iterator[Person]:
    """Give a person whose current session has one question and its answer."""
    person = Person(tmp_path, server)
    ran = person.run("run", "Why is the lease lost?", *person.script("The heartbeat stalls."))
    assert ran.returncode == 0, ran.stderr
    person.run("name", "lease bug")
    yield person
    person.close()


def test_opening_says_where_you_are_and_leaving_how_to_come_back(person: Person) -> None:
    # This one starts the program as the shell does.
    person.server = None
    with person.resume(*person.script()) as terminal:
        terminal.sees(READY)
        opening = terminal.seen
        assert terminal.leaves() == 0
    assert "lease bug" in opening
    assert "main (1 branch)" in opening
    assert "user: Why is the lease lost?" in opening
    assert "assistant: The heartbeat stalls." in opening
    assert "scripted/scripted" in opening
    assert "of 200,000 tokens" in opening
    assert "Next: pi-session resume " in terminal.seen
    assert len(person.spoken()) == 2


def test_what_is_typed_meanwhile_steers_or_follows_up(person: Person) -> None:
    steps = (
        {"text": LONG, "calls": [{"name": "ls"}], "paceMs": 60},
        {"text": "Steered.", "paceMs": 60},
        "Followed up.",
    )
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees("three")
        terminal.types("look at the clock instead")
        terminal.sees("(waits) look at the clock instead")
        terminal.presses("and then rest\x1b\r")
        terminal.sees("(waits) and then rest")
        terminal.sees("> look at the clock instead")
        terminal.sees("Followed up.")
        person.until_idle("and then rest", "Followed up.")
        assert terminal.leaves() == 0
    assert [text for _, text in person.spoken()][2:] == [
        "go",
        LONG,
        "look at the clock instead",
        "Steered.",
        "and then rest",
        "Followed up.",
    ]


def test_ctrl_c_stops_the_run_and_not_the_program(person: Person) -> None:
    steps = ({"text": LONG, "after": 3, "stall": True}, "Here again.")
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees("three")
        terminal.presses("\x03")
        terminal.sees("Aborted; what was said so far is stored")
        person.until_idle("one two three")
        terminal.types("are you there?")
        terminal.sees("Here again.")
        person.until_idle("Here again.")
        terminal.presses("\x03")
        terminal.sees("Ctrl-D or /quit leaves")
        terminal.types("/quit")
        assert terminal.ends() == 0
    assert [message.get("stopReason") for message in person.messages() if message["role"] == "assistant"] == [
        "stop",
        "aborted",
        "stop",
    ]


def test_changing_calls_are_asked_about_and_the_decision_is_kept(person: Person) -> None:
    def call(name: str, **arguments: str) -> dict[str, object]:
        return {"calls": [{"name": name, "arguments": arguments}]}

    steps = (
        call("write", path="yes.txt", content="1"),
        call("bash", command="touch no.txt"),
        call("bash", command="touch always.txt"),
        call("bash", command="touch again.txt"),
        "All done.",
    )
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees('Allow write(path="yes.txt", content="1")?')
        terminal.types("maybe")
        terminal.sees("Answer y, n, a or s first")
        terminal.types("what is it?")
        terminal.sees("Answer y, n, a or s first")
        terminal.presses("\x15")
        terminal.types("y")
        terminal.sees('Allow bash(command="touch no.txt")?')
        terminal.types("n")
        terminal.sees('Allow bash(command="touch always.txt")?')
        terminal.types("a")
        terminal.sees("All done.")
        person.until_idle("All done.")
        assert terminal.leaves() == 0
    assert sorted(path.name for path in person.work.iterdir()) == ["again.txt", "always.txt", "yes.txt"]
    results = [message for message in person.messages() if message["role"] == "toolResult"]
    assert [(one["isError"], (one.get("details") or {}).get("approvedBy")) for one in results] == [
        (False, "person"),
        (True, None),
        (False, "person, always"),
        (False, "person, always"),
    ]
    assert "the person refused it" in results[1]["content"][0]["text"]


def test_what_is_always_allowed_holds_until_you_leave_and_in_this_folder_only(person: Person) -> None:
    def touch(name: str) -> dict[str, object]:
        return {"calls": [{"name": "bash", "arguments": {"command": f"touch {name}"}}]}

    (person.work / "elsewhere").mkdir()
    person.run("new", "--cwd", "elsewhere", "other place")
    # A fork begins the script again.
    steps = [step for name in "abc" for step in (touch(name), f"Made {name}.")]
    with person.resume("lease bug", *person.script(*steps)) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees("y yes, n no, a always for bash, s shows it again")
        terminal.sees('Allow bash(command="touch a")?')
        terminal.types("a")
        terminal.sees("Made a.")
        person.until_idle("go", "", "Made a.")
        for typed, seen, made in (
            ("/fork --name side", "Always allowed here until you leave: bash", "Made a."),
            ("/rewind @-1 --exact", "now ends at", "Made b."),
            ("/model anthropic/claude-sonnet-5", "Model: anthropic/claude-sonnet-5", "Made c."),
        ):
            terminal.types(typed)
            terminal.sees(seen)
            terminal.types("again")
            terminal.sees(made)
            person.until_idle(made)
        assert terminal.seen.count("• bash(") == 4
        terminal.types("/fork 'other place' --name there")
        terminal.sees("elsewhere you are asked again about bash")
        terminal.types("and here")
        terminal.sees('Allow bash(command="touch a")?')
        terminal.types("n")
        terminal.sees("Made a.")
        person.until_idle("Made a.")
        assert terminal.leaves() == 0
    assert [(path.name, path.is_dir()) for path in sorted(person.work.rglob("*"))] == [
        *((name, False) for name in "abc"),
        ("elsewhere", True),
    ]
    with person.store() as store:
        sessions = {session.name or "": session.id for session in store.sessions(limit=None)}
    by = {
        name: [
            (message.get("details") or {}).get("approvedBy")
            for message in person.messages(sessions[name])
            if message["role"] == "toolResult"
        ]
        for name in ("side", "there")
    }
    # The way to the first call of the fork was left by the rewind.
    assert by == {"side": ["person, always"] * 3, "there": [None]}


def resize(terminal: Terminal, rows: int, columns: int) -> None:
    """Give a terminal another size."""
    fcntl.ioctl(terminal.child.child_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def unwrapped(shown: str) -> str:
    """Return what was written above the prompt as it was before it was wrapped."""
    return shown.replace("\r", "").replace("\n  : ", "")


def test_a_command_is_seen_whole_before_it_is_approved(person: Person) -> None:
    command = "echo " + "x" * 300 + " ; echo TAIL\rls\x1b[2K\ntouch made"
    with person.resume(*person.script({"calls": [{"name": "bash", "arguments": {"command": command}}]})) as terminal:
        terminal.sees(READY)
        resize(terminal, 12, 40)
        terminal.types("go")
        terminal.sees("  | touch made")
        terminal.sees("y yes, n no, a always for bash, s shows")
        terminal.sees("Allow bash(")
        assert "x" * 300 + " ; echo TAIL\\x0dls\\x1b[2K\n  | touch made" in unwrapped(terminal.seen)
        terminal.types("s")
        terminal.sees("  | touch made")
        assert not (person.work / "made").exists()
        terminal.types("n")
        terminal.sees("the person refused it")
        person.until_idle()
        assert terminal.leaves() == 0
    assert not (person.work / "made").exists()


def test_a_file_is_seen_before_it_is_approved_and_all_of_it_on_demand(person: Person) -> None:
    content = "".join(f"line {number}\n" for number in range(200)) + "the end"
    calls = [{"name": "write", "arguments": {"path": "big.txt", "content": content}}]
    with person.resume(*person.script({"calls": calls})) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees('A new file "big.txt" with 201 lines')
        terminal.sees("181 of 201 lines not shown")
        terminal.sees("s shows all")
        assert "| the end" not in terminal.seen
        terminal.types("s")
        terminal.sees("  | the end")
        terminal.sees("s shows it again")
        terminal.types("y")
        person.until((person.work / "big.txt").exists)
        person.until_idle()
        assert terminal.leaves() == 0


def test_an_edit_is_seen_as_the_change_it_makes(person: Person) -> None:
    (person.work / "a.txt").write_text("one\nalpha\nthree\n")

    def edit(old: str, new: str) -> dict[str, object]:
        edits = [{"oldText": old, "newText": new}]
        return {"calls": [{"name": "edit", "arguments": {"path": "a.txt", "edits": edits}}]}

    with person.resume(*person.script(edit("alpha", "beta" + "y" * 300 + "END"), edit("gone", "x"))) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees('A change of "a.txt"')
        terminal.sees("  | -2 alpha")
        terminal.sees("  |  3 three")
        terminal.sees("Allow edit(")
        assert "  | +2 beta" + "y" * 300 + "END\n" in unwrapped(terminal.seen)
        terminal.types("n")
        terminal.sees("As things are it would fail: Could not find")
        terminal.sees("  | -gone")
        terminal.sees("  | +x")
        terminal.types("n")
        person.until_idle()
        assert terminal.leaves() == 0


def test_a_question_that_cannot_be_seen_takes_no_answer(person: Person) -> None:
    steps = ({"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}, "Made it.")
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        resize(terminal, 4, 20)
        terminal.types("go")
        terminal.sees("  | touch made")
        terminal.types("y")
        terminal.sees("make it larger, then answer")
        assert not (person.work / "made").exists()
        resize(terminal, 30, 20)
        terminal.sees("y yes, n no, a")
        terminal.sees("Allow")
        terminal.types("y")
        terminal.sees("Made it.")
        person.until_idle("Made it.")
        assert terminal.leaves() == 0
    assert (person.work / "made").exists()


def test_an_open_question_is_no_when_the_run_is_stopped(person: Person) -> None:
    steps = ({"calls": [{"name": "bash", "arguments": {"command": "touch no.txt"}}]}, "Stopped.", "Here.")
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees("Allow bash")
        terminal.presses("\x03")
        terminal.sees("Aborted")
        person.until_idle()
        terminal.types("/quit")
        assert terminal.ends() == 0
    assert not (person.work / "no.txt").exists()
    results = [message for message in person.messages() if message["role"] == "toolResult"]
    assert [one["isError"] for one in results] == [True]


def test_rewind_gives_the_text_back_and_undo_takes_it_back(person: Person) -> None:
    with person.resume(*person.script("It was the clock.")) as terminal:
        terminal.sees(READY)
        terminal.types("/rewind @-1")
        terminal.sees("main now ends at")
        terminal.sees("Why is the lease lost?")
        terminal.types(" Really?")
        terminal.sees("It was the clock.")
        person.until_idle("Why is the lease lost? Really?", "It was the clock.")
        terminal.types("/undo")
        terminal.sees("Undid operation")
        terminal.types("/undo")
        terminal.sees("(rewind) which did")
        terminal.types("/rewind @-1")
        terminal.sees("Your words are in the prompt again; Ctrl-C empties it")
        terminal.types("/undo")
        terminal.sees("Undid operation")
        assert terminal.leaves() == 0
    assert person.spoken() == [("user", "Why is the lease lost?"), ("assistant", "The heartbeat stalls.")]


def test_commands_and_entries_are_completed(person: Person) -> None:
    with person.resume(*person.script()) as terminal:
        terminal.sees(READY)
        terminal.presses("/rewi")
        terminal.sees("move the leaf")
        terminal.presses("\t")
        terminal.sees("nd")
        terminal.presses(" lost")
        terminal.sees("user: Why")
        terminal.presses("\t")
        terminal.types("")
        terminal.sees("main now ends at")
        terminal.presses("\x03")
        assert terminal.leaves() == 0
    assert person.spoken() == []


def test_model_and_thinking_are_switched_and_stored(person: Person) -> None:
    with person.resume(*person.script("Fine.")) as terminal:
        terminal.sees(READY)
        terminal.types("/model anthropic/claude-sonnet-5")
        terminal.sees("Model: anthropic/claude-sonnet-5")
        terminal.types("/thinking high")
        terminal.sees("Thinking: high")
        terminal.types("/model no-such-model")
        terminal.sees("No model is called")
        terminal.types("How are you?")
        terminal.sees("Fine.")
        person.until_idle("Fine.")
        assert terminal.leaves() == 0
    context = json.loads(person.run("context", "--json").stdout)
    assert (context["model"]["modelId"], context["thinkingLevel"]) == ("claude-sonnet-5", "high")
    assert person.messages()[-1]["model"] == "claude-sonnet-5"


def test_slash_commands_are_the_commands_of_the_program(person: Person) -> None:
    with person.resume(*person.script("Forked answer.")) as terminal:
        terminal.sees(READY)
        for typed, seen in (
            ("/tree", "1 branch: main"),
            ("/label @ found-it", "found-it"),
            ("/name better name", "better name"),
            ("/export -o talk.jsonl", "talk.jsonl"),
            ("/context", "tokens"),
            ("/ops", "label"),
            ("/rewind nowhere", "nowhere"),
            ("/fly", "There is no command /fly"),
            ("/help", "/rewind"),
            ("/help tree", "Usage: /tree [SESSION]"),
            ("/help quit", "/quit  leave"),
            ("/label @ again", "Next: /"),
            ("/undo", "Undid operation"),
            ("/fork --name side", "Forked from"),
        ):
            terminal.types(typed)
            terminal.sees(seen)
        terminal.sees("side")
        terminal.types("and here?")
        terminal.sees("Forked answer.")
        person.until_idle("Forked answer.")
        assert terminal.leaves() == 0
    assert (person.work / "talk.jsonl").exists()
    with person.store() as store:
        newest, oldest = store.sessions(limit=2)
        assert (newest.name, oldest.name) == ("side", "better name")
        assert [label.text for label in store.labels(oldest.id).values()] == ["found-it"]
        assert (newest.message_count - oldest.message_count) >= 2


def test_compact_can_be_looked_at_done_and_taken_back(person: Person) -> None:
    for number in range(4):
        person.run("run", f"question {number} " + "x" * 400, "--last", *person.script("answer " + "y" * 400))
    with person.resume(*person.script()) as terminal:
        (person.db.parent / "config").mkdir(exist_ok=True)
        terminal.sees(READY)
        terminal.types("/compact --dry-run --to @-2")
        terminal.sees("Nothing was changed")
        terminal.types("/compact --offline --to @-2 ")
        terminal.sees("Compacted")
        terminal.types("/undo")
        terminal.sees("Undid operation")
        assert terminal.leaves() == 0
    assert len(person.spoken()) == 10


def test_only_what_could_be_a_command_is_one(person: Person) -> None:
    with person.resume(*person.script("A path.", "Pasted.")) as terminal:
        terminal.sees(READY)
        terminal.types("/")
        terminal.sees("Name a command after the /")
        terminal.types("/usr/bin/foo crashed")
        terminal.sees("A path.")
        person.until_idle("/usr/bin/foo crashed", "A path.")
        terminal.presses("\x1b[200~/tmp\nis full\x1b[201~")
        terminal.types("")
        terminal.sees("Pasted.")
        person.until_idle("/tmp\nis full", "Pasted.")
        terminal.presses("\x1b[200~/undo\nfoo\x1b[201~")
        terminal.types("")
        terminal.sees("A command is one line")
        terminal.presses("\x03")
        terminal.types("/quit now")
        terminal.sees("/quit takes nothing, not now")
        assert terminal.leaves() == 0
    assert person.spoken()[-1] == ("assistant", "Pasted.")


@pytest.mark.parametrize(
    ("text", "is_command"),
    [
        ("/", True),
        ("/tree", True),
        ("/tre --all", True),
        ("/undo\n", True),
        ("/undo\nfoo", True),
        ("/exit\nfoo", True),
        ("/tmp\nfoo", False),
        ("/usr/bin", False),
        ("/etc is full of /tree", True),
        ("//", False),
        ("/ tree", False),
        ("/1", False),
        (" /tree", False),
    ],
)
def test_a_command_begins_with_what_could_be_its_name(text: str, is_command: bool) -> None:
    assert slash.is_command(text) is is_command


def test_commands_are_told_as_they_are_typed_in_the_conversation() -> None:
    told = "Next: pi-session tree 7f3a-1 --all; pi-session undo -s 7f3a-1; pi-session tree other; pi-session run --last"
    assert slash.as_typed_here(told, "7f3a-1") == "Next: /tree --all; /undo; /tree other; pi-session run --last"


def test_what_is_typed_before_the_prompt_is_there_is_sent(person: Person) -> None:
    with person.resume(*person.script("One.", "Two.")) as terminal:
        terminal.presses("first\rsecond\r")
        terminal.sees(READY)
        terminal.sees("Two.")
        person.until_idle("first", "One.", "second", "Two.")
        assert terminal.leaves() == 0


def test_what_waits_goes_back_into_the_prompt_when_the_work_is_stopped(person: Person) -> None:
    for number in range(3):
        person.run("run", f"question {number} " + "x" * 400, "--last", *person.script("answer " + "y" * 400))
    steps = ({"text": LONG, "after": 1, "stall": True}, {"text": LONG, "after": 3, "stall": True}, "Sent.")
    config = person.work / "config.toml"
    config.write_text("[compaction]\nkeepRecentTokens = 10\n")
    with person.resume(*person.script(*steps), PI_SESSION_CONFIG=str(config)) as terminal:
        terminal.sees(READY)
        terminal.types("/compact")
        terminal.sees("Compacting ...")
        terminal.types("and then")
        terminal.sees("(waits) and then")
        terminal.presses("\x03")
        terminal.sees("What waited was not sent; it is in the prompt again")
        terminal.types("!")
        terminal.sees("three")
        terminal.types("later")
        terminal.sees("(waits) later")
        terminal.presses("\x03")
        terminal.sees("What waited was not sent; it is in the prompt again")
        person.until_idle("and then!", "one two three")
        terminal.types("")
        terminal.sees("Sent.")
        person.until_idle("later", "Sent.")
        assert terminal.leaves() == 0


def test_several_lines_are_pasted_as_one_message(person: Person) -> None:
    with person.resume(*person.script("Read.")) as terminal:
        terminal.sees(READY)
        terminal.presses("\x1b[200~first line\nsecond line\n\nlast\x1b[201~")
        terminal.sees("last")
        terminal.types("")
        terminal.sees("Read.")
        person.until_idle("first line\nsecond line\n\nlast", "Read.")
        terminal.presses("one\x0atwo\x1b\rthree")
        terminal.sees("three")
        terminal.presses("\x03")
        assert terminal.leaves() == 0
    assert person.spoken()[-1] == ("assistant", "Read.")


def test_the_folder_that_is_gone_is_said_in_one_line(person: Person) -> None:
    person.run("new", "--cwd", "/gone/away")
    with person.resume(*person.script({"calls": [{"name": "ls"}]}, "Looked.")) as terminal:
        terminal.sees("The session's folder /gone/away is gone; working in")
        terminal.sees(READY)
        terminal.types("look")
        terminal.sees("Looked.")
        person.until_idle("Looked.")
        assert terminal.leaves() == 0
    with person.store() as store:
        assert store.sessions(limit=1)[0].cwd == "/gone/away"


def test_repairs_that_will_apply_are_told(person: Person) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
    lines = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "assistant", "content": [call], "provider": "a", "model": "b", "api": "c", "stopReason": "toolUse"},
    ]
    (person.work / "cut.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert person.run("append", "--json-lines", "cut.jsonl").returncode == 0
    with person.resume(*person.script()) as terminal:
        terminal.sees("1 repair will apply")
        terminal.sees(READY)
        assert terminal.leaves() == 0


def test_a_cut_off_run_is_told_and_closed_as_the_person_chooses(person: Person) -> None:
    calls = [{"name": "bash", "arguments": {"command": "touch ready; sleep 60"}}]
    process = person.start(
        "run", "work", "--last", *person.script({"calls": calls}), "--tools", "all", "--approve", "all"
    )
    person.until((person.work / "ready").exists)
    process.kill()
    process.communicate()
    with person.resume(*person.script("Fine.")) as terminal:
        terminal.sees("was cut off; may have run: bash")
        terminal.sees("Continue it (c), close it (x) or leave (q)?")
        terminal.types("x")
        terminal.sees(READY)
        terminal.types("how is it?")
        terminal.sees("Fine.")
        person.until_idle("Fine.")
        assert terminal.leaves() == 0
    assert [message["isError"] for message in person.messages() if message["role"] == "toolResult"] == [True]


def test_a_place_that_somebody_else_changed_is_told_before_anything_is_sent(person: Person) -> None:
    person.run("branch", "side")
    with person.resume(*person.script("One.", "Two.", "Three.")) as terminal:
        terminal.sees(READY)
        person.run("append", "from elsewhere")
        terminal.types("first")
        terminal.sees("main has moved on meanwhile: 1 entry of somebody else's; nothing was sent yet")
        terminal.sees("Enter sends it behind them, /fork --at")
        terminal.sees("user: from elsewhere")
        terminal.types("")
        terminal.sees("One.")
        person.until_idle("from elsewhere", "first", "One.")
        person.run("rewind", "@-1", "--exact")
        terminal.types("second")
        terminal.sees("main has been moved meanwhile")
        terminal.types("")
        terminal.sees("Two.")
        person.until_idle("second", "Two.")
        person.run("switch", "side")
        terminal.types("third")
        terminal.sees("The session has been switched from main to side meanwhile")
        terminal.types("")
        terminal.sees("Three.")
        person.until_idle("The heartbeat stalls.", "third", "Three.")
        assert terminal.leaves() == 0


def test_a_session_that_was_removed_meanwhile_takes_no_prompt(person: Person) -> None:
    with person.resume(*person.script("Back again.")) as terminal:
        terminal.sees(READY)
        person.run("rm", "lease bug")
        terminal.types("go")
        terminal.sees("The session has been removed meanwhile; nothing was sent yet")
        terminal.sees("Hint: /undo --op")
        terminal.types("")
        terminal.sees("removed meanwhile")
        terminal.presses("\x03")
        terminal.types("/undo")
        terminal.sees("Undid operation")
        terminal.types("go")
        terminal.sees("Back again.")
        person.until_idle("go", "Back again.")
        assert terminal.leaves() == 0


def test_losing_the_race_is_said_with_the_command_that_comes_back(person: Person) -> None:
    quick = person.script_path.with_name("quick.json")
    quick.write_text('["Elsewhere."]')
    steps = ({"text": LONG, "calls": [{"name": "ls"}], "paceMs": 40}, "Mine.")
    with person.resume(*person.script(*steps)) as terminal:
        terminal.sees(READY)
        person.run("append", "somebody else")
        terminal.types("go")
        terminal.sees("main has moved on meanwhile")
        terminal.types("")
        terminal.sees("three")
        person.run("append", "somebody else again")
        terminal.sees("main-2")
        terminal.sees("Mine.")
        terminal.sees("--branch main-2 comes back to it")
        assert terminal.leaves() == 0
    assert "--branch main-2" in terminal.seen.rpartition("Next:")[2]


def test_what_the_model_says_never_reaches_the_terminal_raw(person: Person) -> None:
    nasty = "evil \x1b]0;title\x07 and \x1b[2Jmore\u202e"
    steps = ({"calls": [{"name": "bash", "arguments": {"command": "printf '\\033[2Jbad'"}}]}, nasty)
    with person.resume(*person.script(*steps), "--approve", "all") as terminal:
        terminal.sees(READY)
        terminal.types("go")
        terminal.sees("and \\x1b[2Jmore\\u202e")
        person.until_idle()
        assert terminal.leaves() == 0
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]0;" not in terminal.raw
    assert "\\x1b[2Jbad" in terminal.seen


def test_the_picker_narrows_as_you_type(person: Person) -> None:
    person.run("run", "Something else entirely", *person.script("Yes."))
    with person.resume("--pick", *person.script("Picked.")) as terminal:
        terminal.sees("Something else entirely")
        terminal.presses("nothing like it")
        terminal.sees("nothing fits")
        terminal.types("")
        terminal.presses("\x15lease")
        terminal.sees("lease bug")
        terminal.types("")
        terminal.sees(READY)
        assert "user: Why is the lease lost?" in terminal.seen
        assert terminal.leaves() == 0


def test_the_picker_finds_what_was_said_and_shows_it(person: Person) -> None:
    person.run("run", "Something else", *person.script("Yes."))
    person.run("append", "and then the zebracrossing, as it was")
    person.run("new", "newest")
    with person.resume("--pick", *person.script()) as terminal:
        terminal.sees("Enter opens, Esc leaves")
        terminal.presses("zebra")
        terminal.sees("zebracrossing,")
        terminal.types("")
        terminal.sees(READY)
        assert "user: and then the zebracrossing, as it was" in terminal.seen
        assert terminal.leaves() == 0


def test_a_compaction_asked_for_in_vain_is_left_to_the_commands_error() -> None:
    out = Stream()
    printer = LivePrinter(out, Screen(80, True, UNICODE, 0), lambda: None)
    printer.hear(CompactionEnd(reason="manual", error_message="There is nothing to compact"))
    assert out.content() == b""
    printer.hear(CompactionEnd(reason="threshold", error_message="no"))
    assert printer.told == {"Not compacted: no"}


def test_sigterm_ends_it_with_the_code_of_shells(person: Person) -> None:
    person.server = None
    with person.resume(*person.script()) as terminal:
        terminal.sees(READY)
        terminal.child.kill(signal.SIGTERM)
        terminal.sees("Next: pi-session resume")
        assert terminal.ends() == 143


@pytest.mark.parametrize("signals", [(), (signal.SIGHUP,), (signal.SIGTERM, signal.SIGHUP)])
def test_a_terminal_that_goes_away_ends_it_quietly(person: Person, signals: tuple[signal.Signals, ...]) -> None:
    person.run("new", "one")
    option = person.script({"text": "word " * 2000}, pace_ms=5)
    near, far = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "resume", *option], cwd=person.work, env=person.env, stdin=far, stdout=far, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    os.close(far)
    shown = b""
    try:
        for awaited, answer in ((READY.encode(), b"hello\r"), (b"word word word", b"")):
            while awaited not in shown:
                shown += os.read(near, 4096)
            os.write(near, answer)
        for number in signals:
            process.send_signal(number)
        os.close(near)
        _, told = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, b"Traceback" in told) == (129, False), told.decode()
    assert person.messages()[-1]["stopReason"] == "aborted"
    person.until_idle()


@pytest.mark.parametrize(("words", "awaited"), [(("resume", "--pick"), b"Esc leaves"), (("browse",), b"one")])
def test_lists_end_quietly_with_their_terminal(person: Person, words: tuple[str, ...], awaited: bytes) -> None:
    person.run("new", "first")
    person.run("append", "one")
    near, far = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *words], cwd=person.work, env=person.env, stdin=far, stdout=far, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    os.close(far)
    shown = b""
    try:
        while awaited not in shown:
            shown += os.read(near, 4096)
        os.close(near)
        _, told = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, b"Traceback" in told) == (129, False), told.decode()


def test_opening_decodes_each_entry_once(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"provider": "a", "model": "b", "api": "c", "stopReason": "stop"}
    lines = [
        {
            "role": role,
            "content": [{"type": "text", "text": f"text {number}"}],
            **(source if role == "assistant" else {}),
        }
        for number in range(150)
        for role in ("user", "assistant")
    ]
    (person.work / "long.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert person.run("append", "--json-lines", "long.jsonl").returncode == 0
    decoded: list[str] = []

    def counted(text: str) -> object:
        decoded.append(text)
        return decode(text)

    with person.store() as store:
        (session,) = store.sessions(limit=1)
        count = len(store.path(session.id))
        monkeypatch.setattr(stored, "decode", counted)
        runner = SimpleNamespace(branch=None, model=SCRIPTED, thinking_level=None)
        talk: Any = SimpleNamespace(session=session, runner=runner, notes=())
        opening = anyio.run(opening_of, store, talk)
    assert len(decoded) <= count
    assert opening.history == tuple(f"text {number}" for number in range(50, 150))
    assert [entry.role for entry in opening.last] == ["user", "assistant"]


def test_it_needs_a_terminal_and_a_model(person: Person) -> None:
    assert person.run("resume").returncode == 2
    with person.resume() as terminal:
        terminal.sees("scripted/scripted cannot be used: it is the scripted model")
        assert terminal.ends() == 1


def test_the_picker_moves_within_what_is_found(shell: Shell) -> None:
    for name in ("alpha", "beta", "gamma"):
        shell.ok("new", name)
    from pi_sessions import SessionStore

    with SessionStore.open(str(shell.folder / "sessions.db"), read_only=True) as store:
        sessions = store.sessions(limit=None)
    picker = Picker(sessions, screen_for(Stream(), {}, "never", 0))
    names = [session.name for session in sessions]
    picker.move(1)
    assert (chosen := picker.chosen()) is not None
    assert chosen.name == names[1]
    picker.move(10)
    assert (chosen := picker.chosen()) is not None
    assert chosen.name == names[2]
    picker.narrow("bet")
    assert [session.name for session in picker.found] == ["beta"]
    picker.narrow("re:(")
    assert [session.name for session in picker.found] == ["beta"]
    picker.narrow("nothing like it")
    assert picker.chosen() is None


def test_the_picker_puts_words_before_what_was_said_and_that_before_letters(shell: Shell) -> None:
    for name, text in (("lone eagle", "hi"), ("two", "x " * 200 + "the EAGLE has landed"), ("e a glen", "hi")):
        shell.ok("new", name)
        shell.ok("append", text)
    shell.ok("fork", "two", "--name", "three")
    shell.ok("append", "--session", "three", "eagles")
    from pi_sessions import SessionStore

    with SessionStore.open(str(shell.folder / "sessions.db")) as store:
        picker = Picker(store.sessions(limit=None), screen_for(Stream(), {}, "never", 0))
        overhearing = Overhearing(store, picker.hear)
        picker.narrow("eagle")
        assert [session.name for session in picker.found] == ["lone eagle", "e a glen"]
        picker.move(1)
        said = overhearing.look_up("eagle")
        assert said is not None
        picker.hear(said)
    names = [session.name or "" for session in picker.found]
    assert names == ["lone eagle", "three", "two", "e a glen"]
    assert (marked := picker.chosen()) is not None
    assert marked.name == "e a glen"
    rows = {name: row for name, (_, row) in zip(names, picker.rows(), strict=True)}
    assert "three  eagles" in rows["three"]
    assert "the EAGLE has landed" in rows["two"]
    picker.narrow("eagle has")
    assert (best := picker.chosen()) is not None
    assert best.name == "three"
    picker.narrow("ea")
    assert "EAGLE" not in "".join(row for _, row in picker.rows())


def test_only_queries_that_can_mean_something_are_looked_up() -> None:
    looked_up = {query: is_looked_up(query) for query in ("ab", "abc", " ab ", "時間", "時", "re:abc", "")}
    assert [query for query, is_so in looked_up.items() if is_so] == ["abc", "時間"]


def test_what_was_said_is_given_up_when_the_person_leaves(shell: Shell) -> None:
    shell.ok("new", "one")
    shell.ok("append", "the eagle has landed")
    from pi_sessions import SessionStore

    heard: list[Said] = []
    with SessionStore.open(str(shell.folder / "sessions.db")) as store:

        async def listen() -> None:
            overhearing = Overhearing(store, heard.append)
            overhearing.ask("eagle")
            overhearing.leave()
            assert overhearing.look_up("eagle") is None
            await overhearing.run()

        anyio.run(listen)
    assert heard == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Title", "\x1b[1m# Title\x1b[0m"),
        ("- a `b`", "• a \x1b[36m`b`\x1b[0m"),
        ("  * a - b", "  • a - b"),
        ("2 + 3 = 5, 2 * 3 = 6, 5 - 3 = 2", "2 + 3 = 5, 2 * 3 = 6, 5 - 3 = 2"),
        ("**bold** - then", "\x1b[1m**bold**\x1b[0m - then"),
        ("* * *", "* * *"),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_markdown_is_styled_line_by_line(text: str, shown: str) -> None:
    assert MarkdownLines(Screen(80, True, UNICODE, 0)).line(text) == shown
    assert "\x1b" not in MarkdownLines(Screen(80, False, UNICODE, 0)).line(text)


def test_a_line_broken_at_the_width_gets_no_bullet_inside() -> None:
    out = Stream()
    printer = LivePrinter(out, Screen(20, True, UNICODE, 0), lambda: None)
    answer = AssistantMessage(content=[])
    for delta in ("nineteen characters - and then", " some more\n", "- a bullet\n"):
        inner = TextDelta(content_index=0, delta=delta, partial=answer)
        printer.hear(MessageUpdate(message=answer, assistant_message_event=inner))
    shown = out.content().decode().splitlines()
    assert " ".join(shown[:-1]) == "nineteen characters - and then some more"
    assert shown[-1] == "• a bullet"


def test_code_is_left_as_it_is_until_its_fence_ends() -> None:
    lines = MarkdownLines(Screen(80, True, UNICODE, 0))
    shown = [lines.line(text) for text in ("```py", "- `x`", "```", "- y")]
    assert shown[1] == "\x1b[36m- `x`\x1b[0m"
    assert shown[3] == "• y"


def test_a_fork_keeps_the_model_that_was_switched_to(person: Person) -> None:
    with person.resume(*person.script("Forked."), "--branch", "main") as terminal:
        terminal.sees(READY)
        terminal.types("/model anthropic/claude-sonnet-5")
        terminal.sees("Model: anthropic/claude-sonnet-5")
        terminal.types("/fork")
        terminal.sees("Forked from")
        terminal.types("here?")
        terminal.sees("Forked.")
        person.until_idle("Forked.")
        assert terminal.leaves() == 0
    assert person.messages()[-1]["model"] == "claude-sonnet-5"


def test_a_session_that_is_being_run_elsewhere_is_told(person: Person) -> None:
    wait = {"name": "bash", "arguments": {"command": "touch ready; while [ ! -e go ]; do sleep 0.02; done"}}
    other = person.start(
        "run", "work", "--last", *person.script({"calls": [wait]}, "Theirs."), "--tools", "all", "--approve", "all"
    )
    person.until((person.work / "ready").exists)
    with person.resume(*person.script("Mine.")) as terminal:
        terminal.sees("what you send goes on on a branch of its own")
        terminal.sees(READY)
        terminal.types("meanwhile")
        terminal.sees("Mine.")
        terminal.sees("--branch main-2 comes back to it")
        assert terminal.leaves() == 0
    (person.work / "go").touch()
    assert other.communicate(timeout=LIMIT_S)[1].count("Stored in") == 1
