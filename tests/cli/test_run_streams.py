"""`run` and others when their streams, their terminal or their files are not what they should be."""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import Terminal as Shell
from tests.cli.pty_talk import LIMIT_S, PROGRAM, Person

WAIT = {"name": "bash", "arguments": {"command": "echo $$ > pid; touch ready; while :; do sleep 0.02; done"}}


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    person = Person(tmp_path)
    yield person
    person.close()


def typed(person: Person, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `P` stands for the program."""
    command = line.replace("P ", f"{shlex.join(PROGRAM)} ", 1)
    return subprocess.run(
        ["bash", "-c", command], cwd=person.work, env=person.env, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip


def lives(pid: int) -> bool:
    """Whether a process is there and no corpse."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_its_tools(person: Person, number: signal.Signals) -> None:
    process = person.start("run", "go", "--tools", "all", "--approve", "all", *person.script({"calls": [WAIT]}))
    person.until((person.work / "ready").exists)
    tool = int((person.work / "pid").read_text())
    process.send_signal(number)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number
    assert person.spoken()[0] == ("user", "go")
    person.until_idle()
    deadline = time.monotonic() + LIMIT_S
    while lives(tool) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lives(tool)


def test_under_nohup_a_run_outlives_its_terminal(person: Person) -> None:
    option = shlex.join(person.script({"text": "a b c d e f g h"}, pace_ms=60))
    done = typed(person, f"trap '' HUP; P run Hi {option} & sleep 0.7; kill -HUP $!; wait $!")
    assert (done.returncode, done.stdout) == (0, "a b c d e f g h\n")


def test_a_reader_that_leaves_is_a_failure_that_is_told(person: Person) -> None:
    option = shlex.join(person.script({"text": "word " * 20000}, pace_ms=0.01))
    done = typed(person, f"set -o pipefail; P run Hi {option} | head -c 3")
    assert (done.returncode, done.stdout) == (1, "wor")
    assert "Error: Cannot write the answer: Broken pipe" in done.stderr
    assert "the run's end: aborted" in done.stderr


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_full_output_does_not_become_the_models_error(person: Person, form: str) -> None:
    option = shlex.join(person.script("Hello there."))
    done = typed(person, f"P run Hi {form} {option} > /dev/full")
    assert done.returncode == 1
    assert "Cannot write the answer: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    last = person.messages()[-1]
    assert (person.spoken()[-1], last["stopReason"]) == (("assistant", "Hello there."), "stop")


def test_talk_that_cannot_be_written_changes_nothing(person: Person) -> None:
    option = shlex.join(person.script("Hello there."))
    done = typed(person, f"P run Hi {option} 2> /dev/full")
    assert (done.returncode, done.stdout) == (0, "Hello there.\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["run Hi", "ls", "models"])
def test_streams_that_are_closed_lead_nowhere(person: Person, closed: str, words: str) -> None:
    option = shlex.join(person.script("Hello there.")) if words == "run Hi" else ""
    person.run("new", "one")
    done = typed(person, f"P {words} {option} {closed}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if words == "run Hi":
        assert person.spoken()[-1] == ("assistant", "Hello there.")


def test_a_disk_that_fills_up_in_the_middle_says_what_stays(person: Person) -> None:
    person.run("new", "one")
    option = shlex.join(person.script({"text": "word " * 1_000_000}))
    done = typed(person, f"ulimit -f 2000; P run Hi --last {option} > answer; cat answer | wc -c")
    assert "The disk refused to write" in done.stderr, done.stderr
    assert "what was acknowledged before stays" in done.stderr
    assert "nothing was changed" not in done.stderr
    assert ("user", "Hi") in person.spoken()


def test_only_files_of_a_sensible_size_are_sent(shell: Shell) -> None:
    folder = shell.folder / "work"
    folder.mkdir()
    shell.cwd = str(folder)
    os.mkfifo(folder / "pipe")
    with (folder / "huge").open("wb") as file:
        file.truncate(10_000_001)
    (folder / "script.json").write_text(json.dumps({"steps": ["x"]}))
    for name, said in {
        "/dev/zero": "/dev/zero is not a regular file",
        "pipe": "pipe is not a regular file",
        "huge": "huge is too large to send (10,000,001 bytes)",
        ".": "Is a directory",
    }.items():
        ran = shell.run("run", "look", f"@{name}", "--script", "script.json")
        assert (ran.code, said in ran.err) == (1, True), ran.err
    assert not (shell.folder / "sessions.db").exists()


def test_a_prompt_that_is_not_sent_after_a_recovery_is_said(person: Person) -> None:
    call = {"calls": [WAIT]}
    process = person.start("run", "go", "--tools", "all", "--approve", "all", *person.script(call))
    person.until((person.work / "ready").exists)
    tool = int((person.work / "pid").read_text())
    process.kill()
    process.communicate(timeout=LIMIT_S)
    os.kill(tool, signal.SIGKILL)
    failed = person.run("run", "my words", "--last", "--recover", "continue", *person.script({"error": "401 no"}))
    assert failed.returncode == 4
    assert "The prompt was not sent" in failed.stderr
    assert "pi-session run --session " in failed.stderr
    assert "my words" not in [text for _, text in person.spoken()]
    sent = person.run("run", "my words", "--last", *person.script("Fine."))
    assert "not sent" not in sent.stderr
    assert person.spoken()[-2:] == [("user", "my words"), ("assistant", "Fine.")]


def test_nothing_is_told_twice(shell: Shell) -> None:
    shell.ok("new", "long")
    for number in range(4):
        shell.ok("append", f"{number} " + "why " * 30_000)
        shell.ok("append", "--role", "assistant", "so " * 40_000)
    path = shell.folder / "script.json"
    path.write_text(json.dumps({"steps": [{"error": "400 no\nChange it."}, "fine"]}))
    ran = shell.run("run", "and now?", "--last", "--script", str(path))
    assert ran.err.count("Not compacted: ") == 1, ran.err
    assert "400 no. Change it." in ran.err
    ambiguous = shell.run("run", "x", "--last", "--model", "claude")
    assert "models fit 'claude'" in ambiguous.err
    listed = [word.strip(",: ") for word in ambiguous.err.split() if "/" in word]
    assert len(listed) == len(set(listed)), ambiguous.err
