"""`resume` where the last answer is to come later, in a real terminal with the scripted model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.pty_server import TerminalServer
from tests.cli.pty_talk import Person

READY = "Ctrl-D leaves"
NOT_YET = {"stopReason": "deferred"}
WAITS = "The last answer is to come later: scripted/scripted, later_1"


@pytest.fixture
def person(tmp_path: Path, server: TerminalServer) -> Iterator[Person]:
    """Give a person who asked something and went away."""
    person = Person(tmp_path, server)
    ran = person.run("run", "Why is the lease lost?", "--deferred", *person.script(pace_ms=20))
    assert ran.returncode == 0, ran.stderr
    yield person
    person.close()


def said(person: Person) -> list[tuple[str, str]]:
    """Return what is in the context."""
    with person.store() as store:
        context = store.context(store.sessions(limit=1)[0].id)
    shown = [one.message for one in context.messages if one.message["role"] in ("user", "assistant")]
    return [(one["role"], "".join(block.get("text", "") for block in one["content"])) for one in shown]


def test_an_answer_that_is_there_is_shown_on_opening(person: Person) -> None:
    with person.resume(*person.script("The heartbeat stalls.")) as terminal:
        terminal.sees(WAITS)
        terminal.sees("heartbeat stalls.")
        person.until_idle("The heartbeat stalls.")
        assert terminal.leaves() == 0
    assert said(person) == [("user", "Why is the lease lost?"), ("assistant", "The heartbeat stalls.")]


def test_one_that_is_not_there_can_be_waited_for_or_given_up(person: Person) -> None:
    with person.resume(*person.script(NOT_YET, NOT_YET, "There.", pace_ms=30)) as terminal:
        terminal.sees("not there yet: /deferred wait waits, /deferred close gives it up")
        terminal.types("/deferred wait")
        terminal.sees("There.")
        person.until_idle("There.")
        terminal.types("/undo")
        terminal.sees("Undid")
        terminal.types("/deferred close")
        terminal.sees("is given up; undo brings it back")
        terminal.types("/deferred")
        terminal.sees("waits for no answer")
        assert terminal.leaves() == 0
    assert said(person) == [("user", "Why is the lease lost?")]


def test_waiting_is_stopped_by_ctrl_c_and_goes_on_with_the_option(person: Person) -> None:
    script = person.script(*[NOT_YET] * 3, {"stopReason": "deferred", "paceMs": 60_000}, pace_ms=60_000)
    with person.resume("--recover", "continue", *script) as terminal:
        terminal.sees(READY)
        terminal.presses("\x03")
        terminal.sees("not there yet")
        assert terminal.leaves() == 0
    with person.resume("--recover", "continue", *person.script(NOT_YET, "At last.")) as terminal:
        terminal.sees("At last.")
        person.until_idle("At last.")
        assert terminal.leaves() == 0


def test_what_is_typed_while_it_is_waited_for_is_sent_afterwards(person: Person) -> None:
    script = person.script(*[NOT_YET] * 6, "Late.", "And that.", pace_ms=60)
    with person.resume("--recover", "continue", *script) as terminal:
        terminal.sees(READY)
        terminal.types("and the clock?")
        terminal.sees("(waits) and the clock?")
        terminal.sees("Late.")
        terminal.sees("And that.")
        person.until_idle("And that.")
        assert terminal.leaves() == 0
    assert [text for _, text in said(person)] == ["Why is the lease lost?", "Late.", "and the clock?", "And that."]


def test_it_is_given_up_by_the_option(person: Person) -> None:
    with person.resume("--recover", "close", *person.script("Anew.")) as terminal:
        terminal.sees("is given up; undo brings it back")
        terminal.types("once more")
        terminal.sees("Anew.")
        person.until_idle("Anew.")
        assert terminal.leaves() == 0
    assert [text for _, text in said(person)] == ["Why is the lease lost?", "once more", "Anew."]
