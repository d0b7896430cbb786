"""The quick parser: plain spellings of every command, without Typer.

It reads a command line exactly as the Typer app made from the same declarations would, or not at all: whatever is
unusual or wrong gives None and goes to Typer, which also words the usage errors. A test feeds both the same lines.
"""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pi_session_cli.declare import Command, Option

    Value = str | int | bool | None | tuple[str, ...]

HELP_FLAGS = ("--help", "-h")


class Parsed(Record):
    """A command line, understood.

    Attributes:
        command: Its declaration; None for the program itself.
        values: Value of every argument and option of the command, defaults filled in; options given before the
            command's name count as given after it.
        help: Whether help was asked for instead.
    """

    command: Command | None
    values: dict[str, Value]
    help: bool = False


def parse(argv: Sequence[str], find: Callable[[str], Command | None], before: Sequence[Option]) -> Parsed | None:
    """Read a plain command line.

    Args:
        argv: Words after the program's name.
        find: Gives a command's declaration by name, None for an unknown one.
        before: Options that may also stand before the command's name.

    Returns:
        What was typed, or None when the line is not plain.
    """
    given: dict[str, Value] = {}
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        if rest[0] in HELP_FLAGS:
            return Parsed(None, {}, True) if len(rest) == 1 and not given else None
        taken = take_option(rest, before)
        if taken is None:
            return None
        given[taken[0]] = taken[1]
    command = find(rest[0]) if rest else None
    if command is None:
        return None
    words = read_words(rest[1:], command.every_option)
    if words is None:
        return None
    values, positional, asked = words
    if asked:
        return Parsed(command, {}, True)
    placed = place(positional, command)
    if placed is None:
        return None
    absent = {option.name: option.absent for option in command.every_option}
    return Parsed(command, absent | given | values | placed)


def read_words(words: Sequence[str], options: Sequence[Option]) -> tuple[dict[str, Value], list[str], bool] | None:
    """Tell options from positional words.

    Returns:
        Given options by name, positional words, whether help was asked for; None when the line is not plain.
    """
    values: dict[str, Value] = {}
    positional: list[str] = []
    asked = False
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            positional += rest[1:]
            break
        if word in HELP_FLAGS:
            asked = True
            rest.pop(0)
        elif word.startswith("-") and word != "-":
            taken = take_option(rest, options)
            if taken is None:
                return None
            values[taken[0]] = taken[1]
        else:
            positional.append(rest.pop(0))
    return values, positional, asked


def take_option(rest: list[str], options: Sequence[Option]) -> tuple[str, Value] | None:
    """Take one option and its value off the front of `rest`; None when that is not plain."""
    flag, equals, text = rest.pop(0).partition("=")
    option = next((option for option in options if flag in option.flags), None)
    if option is None or (equals and not flag.startswith("--")):
        return None
    if option.kind == "flag":
        return None if equals else (option.name, True)
    if not equals:
        if not rest or (rest[0].startswith("-") and rest[0] != "-"):
            return None
        text = rest.pop(0)
    if option.kind == "int":
        plain = text.isascii() and text.isdigit() and len(text) < 10 and option.least <= int(text) <= option.most
        return (option.name, int(text)) if plain else None
    if option.kind == "choice" and text not in option.choices:
        return None
    return option.name, text


def place(words: list[str], command: Command) -> dict[str, Value] | None:
    """Give positional words to the command's arguments; None when there are too few or too many."""
    values: dict[str, Value] = {}
    left = list(words)
    for argument in command.arguments:
        if argument.repeatable:
            if argument.required and not left:
                return None
            values[argument.name], left = tuple(left), []
        elif left:
            values[argument.name] = left.pop(0)
        elif argument.required:
            return None
        else:
            values[argument.name] = None
    return None if left else values
