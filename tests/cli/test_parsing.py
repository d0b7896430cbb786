"""The quick parser and the Typer app read the same lines the same way, or the quick one leaves them alone."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_session_cli.app import parse_with_typer
from pi_session_cli.catalog import NAMES, find
from pi_session_cli.declare import Command, Option
from pi_session_cli.main import BEFORE
from pi_session_cli.parse import Parsed, parse
from pi_sessions.errors import UsageError
from tests.cli.launcher import Terminal

PLAIN = [
    ["ls"],
    ["ls", "--json"],
    ["--json", "ls"],
    ["--db", "x.db", "ls", "--here"],
    ["--db=x.db", "ls", "--limit", "5", "--page=2"],
    ["--db", "x.db", "ls", "--db", "y.db"],
    ["ls", "-n", "7", "--since", "7d"],
    ["ls", "--since="],
    ["fork"],
    ["fork", "7f3a", "--at", "@-2"],
    ["fork", "--before", "5c0d9e12", "--all-branches", "--json"],
    ["rewind", "@-1"],
    ["rewind", "--start", "-s", "7f3a"],
    ["rewind", "--exact", "--", "-odd"],
    ["rewind", "--", "--start"],
    ["append", "one", "two", "three"],
    ["append", "-"],
    ["append", "--json-lines", "-"],
    ["append", "--role", "assistant", "yes"],
    ["append", "--role=system", "", " "],
    ["label", "@", "x", "--session=7f3a"],
    ["undo", "--op", "12", "--durable"],
    ["undo", "--steps", "1"],
    ["import", "a", "b", "--dry-run"],
    ["export", "-o", "talk.jsonl", "--format", "pi"],
    ["export", "--output", "-"],
    ["name", "ünïcode \N{ROCKET}"],
    ["show"],
    ["ls", "--help"],
    ["rewind", "-h"],
    ["--help"],
    ["-h"],
    ["help"],
    ["help", "fork"],
]
ODD = [
    ["ls", "-n7"],
    ["append", "-s7f3a", "text"],
    ["undo", "--op", "+12"],
    ["rewind", "--session", "-x", "@"],
    ["rewind", "-s", "--exact", "@"],
]
WRONG = [
    ["lss"],
    ["ls", "--bogus"],
    ["ls", "extra"],
    ["rewind", "a", "b"],
    ["switch"],
    ["rm"],
    ["import", "--watch=yes"],
    ["ls", "--limit", "0"],
    ["ls", "--limit", "many"],
    ["ls", "--limit", "99999999999999999999"],
    ["undo", "--op", "99999999999999999999"],
    ["undo", "--steps", "1000000000"],
    ["ls", "--limit"],
    ["ls", "--here=yes"],
    ["append", "--role", "nobody", "text"],
    ["export", "--format", "docx"],
    ["fork", "--at"],
    ["--json"],
    ["-x", "ls"],
]


@pytest.mark.parametrize("line", PLAIN, ids=" ".join)
def test_both_ways_give_the_same_values_for_plain_lines(line: list[str]) -> None:
    quick = parse(line, find, BEFORE)
    assert quick is not None
    assert quick == parse_with_typer(line)


@pytest.mark.parametrize("line", ODD, ids=" ".join)
def test_the_quick_parser_leaves_odd_lines_to_typer(line: list[str]) -> None:
    assert parse(line, find, BEFORE) is None
    assert isinstance(parse_with_typer(line), Parsed)


@pytest.mark.parametrize("line", WRONG, ids=" ".join)
def test_wrong_lines_are_usage_errors_with_a_hint(line: list[str]) -> None:
    assert parse(line, find, BEFORE) is None
    with pytest.raises(UsageError) as caught:
        parse_with_typer(line)
    assert caught.value.hint is not None
    assert "--help" in caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("line", [["branch", "main", "foo", "--rename"], ["ls", "--limit"], ["fork", "--at"]])
def test_an_option_without_its_value_points_to_the_commands_help(line: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_with_typer(line)
    assert caught.value.hint == f"pi-session {line[0]} --help"


def words_of(command: Command) -> st.SearchStrategy[list[str]]:
    """Return words as people type them after a command, right and wrong ones mixed."""
    options = [st.sampled_from(spelt(option)) for option in command.every_option]
    values = st.sampled_from(["x", "@-1", "7", "0", "", "-", "user", "pi", "a b", "--", "-q", "--json=1", "007"])
    return st.lists(st.one_of(*options, values), max_size=5)


def spelt(option: Option) -> list[str]:
    """Return spellings of an option, some with a value."""
    return [*option.flags, *(f"{flag}=3" for flag in option.flags), *(f"{flag}=user" for flag in option.flags)]


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_the_quick_parser_never_disagrees_with_typer(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    command = find(name)
    assert command is not None
    line = [name, *data.draw(words_of(command))]
    quick = parse(line, find, BEFORE)
    if quick is not None:
        assert quick == parse_with_typer(line)


def test_both_ways_give_the_same_output(talk: Terminal) -> None:
    """`-n3` is odd and goes through Typer; `-n 3` is plain and does not."""
    assert talk.ok("log", "-n3").out == talk.ok("log", "-n", "3").out
    assert talk.ok("ls", "-n3", "--json").out == talk.ok("ls", "-n", "3", "--json").out


def test_every_example_is_understood_by_both() -> None:
    commands = [find(name) for name in NAMES]
    examples = itertools.chain.from_iterable(command.examples for command in commands if command is not None)
    import shlex

    for example in examples:
        line = shlex.split(example.split(" > ")[0].split("| ")[-1])
        assert line[0] == "pi-session"
        quick = parse(line[1:], find, BEFORE)
        assert quick is not None, example
        assert quick == parse_with_typer(line[1:])
