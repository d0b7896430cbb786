"""What could be typed next: which value a command line is at, and the sessions, branches and entries that fit there.

For the prompt of `resume` and for the shell's completion; no other command loads it. Decided from the declarations
alone, so a new command is completed as soon as it is declared. Texts are safe for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pi_session_cli.commands.ls import PREFIX_LENGTHS
from pi_session_cli.declare import Argument, Option
from pi_session_cli.render.safe import block, one_line, short_id
from pi_session_cli.render.words import gist, speaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pi_session_cli.declare import Command
    from pi_sessions.reading import Reading

WORDS = 80
KINDS = {
    "SESSION": "session",
    "ENTRY": "entry",
    "ENTRY,...": "entry",
    "ENTRY..ENTRY": "entry",
    "A": "entry",
    "B": "entry",
    "BRANCH": "branch",
    "MODEL": "model",
    "PROVIDER/MODEL": "model",
    "FILE": "path",
    "DIR": "path",
    "PATH": "path",
}
# What joins the values of those that take more than one.
JOINED = {"ENTRY,...": ",", "ENTRY..ENTRY": ".."}
# Metavars that other values have, too.
NAMED = {("show", "what"): "entry", ("branch", "name"): "branch", ("search", "branch"): "branch"}


class Suggestion(NamedTuple):
    """Something that can be typed, and what it is."""

    text: str
    told: str = ""

    def fits(self, typed: str) -> bool:
        """Whether it has what was typed, in itself or in what it is; case does not count."""
        wanted = typed.casefold()
        return wanted in self.text.casefold() or wanted in self.told.casefold()


class Place(NamedTuple):
    """Where a command line ends.

    Attributes:
        declared: The value that comes next, None when there is none.
        given: Values typed before it, by name.
    """

    declared: Argument | Option | None
    given: dict[str, str]


def place_after(command: Command, words: Sequence[str]) -> Place:
    """Return which value comes after whole words behind a command's name."""
    given: dict[str, str] = {}
    arguments = iter(command.arguments)
    following = next(arguments, None)
    pending: Option | None = None
    options_end = False
    for word in words:
        if pending is not None:
            given[pending.name] = word
            pending = None
        elif word == "--" and not options_end:
            options_end = True
        elif word.startswith("-") and word != "-" and not options_end:
            flag, equals, value = word.partition("=")
            option = option_of(command, flag)
            if option is not None and equals:
                given[option.name] = value
            elif option is not None and option.kind != "flag":
                pending = option
        elif following is not None:
            given[following.name] = word
            if not following.repeatable:
                following = next(arguments, None)
    return Place(pending or following, given)


def option_of(command: Command, flag: str) -> Option | None:
    """Return the option of a command that a flag names."""
    return next((option for option in command.every_option if flag in option.flags), None)


def kind_of(command: Command, declared: Argument | Option) -> str | None:
    """Return what is to be named: `session`, `entry`, `branch`, `model` or `path`; None for anything else."""
    return NAMED.get((command.name, declared.name)) or KINDS.get(declared.metavar)


def last_of_several(declared: Argument | Option, typed: str) -> tuple[str, str]:
    """Part a value that holds several into what is whole and the last, which is still being typed."""
    joint = JOINED.get(declared.metavar)
    whole, found, part = typed.rpartition(joint) if joint else ("", "", typed)
    return whole + found, part


def flags(command: Command) -> Iterator[Suggestion]:
    """Yield a command's options with their help."""
    for option in command.every_option:
        yield Suggestion(option.flags[0], option.help)


def sessions(store: Reading) -> Iterator[Suggestion]:
    """Yield the sessions, newest first, by the shortest id of their own."""
    listed = store.sessions(limit=None, archived=True, children=True)
    shared: dict[str, int] = {}
    for session in listed:
        for length in PREFIX_LENGTHS:
            shared[session.id[:length]] = shared.get(session.id[:length], 0) + 1
    for session in listed:
        own = (session.id[:length] for length in PREFIX_LENGTHS if length < len(session.id))
        text = next((each.rstrip("-") for each in own if shared[each] == 1), session.id)
        yield from safe(text, session.name or session.first_message or "(no message)")


def branches(store: Reading, session_id: str) -> Iterator[Suggestion]:
    """Yield a session's branches."""
    for branch in store.branches(session_id):
        where = f"ends at {branch.leaf}" if branch.leaf else "before the first entry"
        yield from safe(branch.name, f"current, {where}" if branch.current else where)


def entries(store: Reading, session_id: str, branch: str | None = None) -> Iterator[Suggestion]:
    """Yield what names an entry: the leaf, labels, branches, and the path from the leaf back to the root.

    Args:
        branch: Whose path; None for the current one.
    """
    yield Suggestion("@", "the leaf")
    for label in store.labels(session_id).values():
        yield from safe(label.text, f"label of {label.entry_id}")
    yield from branches(store, session_id)
    for entry in reversed(store.path(session_id, store.leaf(session_id, branch))):
        yield from safe(short_id(entry.id), f"{speaker(entry)}: {gist(entry)[:WORDS]}")


def safe(text: str, told: str) -> Iterator[Suggestion]:
    """Yield a suggestion, or nothing for a text that no terminal should be sent."""
    if text and is_harmless(text):
        yield Suggestion(text, one_line(told, WORDS))


def is_harmless(text: str) -> bool:
    """Whether a text can be put into a line as it is."""
    return list(block(text)) == [text]


def fitting(suggestions: Iterable[Suggestion], typed: str, most: int) -> list[Suggestion]:
    """Return the first suggestions that fit, those that begin with what was typed before the others."""
    found = [each for each in suggestions if each.fits(typed)]
    wanted = typed.casefold()
    found.sort(key=lambda each: not each.text.casefold().startswith(wanted))
    return found[:most]
