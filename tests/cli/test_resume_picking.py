"""Choosing a session from a list: what narrows it, what is found, how it ends with its terminal."""

import os
import pty
import subprocess

import anyio
import pytest

from pi_session_cli.interactive.overhearing import Overhearing, Said, is_looked_up
from pi_session_cli.interactive.picker import Picker
from pi_session_cli.render import screen_for
from tests.cli.launcher import Stream
from tests.cli.launcher import Terminal as Shell
from tests.cli.pty_talk import LIMIT_S, PROGRAM, Person

READY = "Ctrl-D leaves"


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
