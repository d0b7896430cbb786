"""`resume`, driven in a real terminal with the scripted model."""

import json
import os
import pty
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from pi_session_cli.interactive import slash
from pi_session_cli.interactive.status import opening_of
from pi_session_cli.model_access import SCRIPTED
from pi_sessions import stored
from pi_sessions.stored import decode
from tests.cli.pty_talk import LIMIT_S, PROGRAM, Person

READY = "Ctrl-D leaves"
LONG = "one two three four five six seven eight nine ten eleven twelve"


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
