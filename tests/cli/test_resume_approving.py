"""`resume` asks before a call changes something, and shows what it would do; driven in a real terminal."""

import fcntl
import struct
import termios

from tests.cli.pty_talk import Person, Terminal

READY = "Ctrl-D leaves"


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
