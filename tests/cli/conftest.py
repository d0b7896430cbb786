"""Fixtures of the command line's tests."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import Terminal
from tests.cli.pty_server import TerminalServer
from tests.cli.pty_talk import Person


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    """Show times in UTC, whatever the machine's zone is."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    """Return a shell without a store."""
    return Terminal(tmp_path)


@pytest.fixture
def talk(shell: Terminal) -> Terminal:
    """Return a shell whose current session has four messages: question, answer, question, answer."""
    shell.ok("new", "lease bug")
    shell.ok("append", "Why is the lease lost?")
    shell.ok("append", "--role", "assistant", "--model", "anthropic/claude-sonnet-4-5", "The heartbeat stalls.")
    shell.ok("append", "How do we fix it?")
    shell.ok("append", "--role", "assistant", "Let the database lock decide.")
    return shell


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
