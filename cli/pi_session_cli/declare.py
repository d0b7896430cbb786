"""What a command is, as plain data.

A command is declared once, beside its function. The quick parser (`parse.py`), the Typer app (`app.py`) and the help
(`render/help.py`) are all made from the declaration, so they cannot disagree about it.
"""

from __future__ import annotations

from pi_sessions.records import Record

GROUPS = {
    "run": "Start and write",
    "branch": "Branch and take back",
    "inspect": "Look",
    "move": "Bring in and take out",
    "care": "Keep in order",
    "set up": "Set up",
}


LARGEST = 999_999_999


class Argument(Record):
    """A positional value.

    Attributes:
        name: Parameter of the command's function.
        metavar: How help names it: SESSION, ENTRY, TEXT.
        help: What it is, without a full stop.
        required: False gives None (or an empty tuple) when it is missing.
        repeatable: Takes all that are left, as a tuple. Only the last argument may.
    """

    name: str
    metavar: str
    help: str
    required: bool = True
    repeatable: bool = False


class Option(Record):
    """A named value.

    Attributes:
        name: Parameter of the command's function.
        flags: Spellings, the long one first: `("--session", "-s")`.
        help: What it does, without a full stop.
        kind: `flag` (True when given), `text`, `int` (a whole number from `least` to `most`) or `choice`.
        metavar: How help names the value; empty for flags.
        default: Value when it is missing.
        choices: The values a `choice` takes.
        least, most: Smallest and largest value an `int` takes.
    """

    name: str
    flags: tuple[str, ...]
    help: str
    kind: str = "flag"
    metavar: str = ""
    default: str | int | bool | None = None
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = LARGEST

    @property
    def absent(self) -> str | int | bool | None:
        """The value of the option when it is not given."""
        return bool(self.default) if self.kind == "flag" else self.default


class Command(Record):
    """One command.

    Attributes:
        name: What is typed.
        group: Key of `GROUPS`.
        help: Imperative first line without a full stop.
        details: Sentences that say what the first line leaves open.
        examples: Command lines that work as typed.
        json: What `--json` prints: the object's keys, in words.
        arguments: Positional values in order.
        options: Named values of its own; `every_option` adds the common ones.
        writes: Whether it changes the store (then `--durable` applies).
    """

    name: str
    group: str
    help: str
    details: str
    examples: tuple[str, ...]
    json: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    writes: bool = False

    @property
    def every_option(self) -> tuple[Option, ...]:
        """Its own options, then those every command has."""
        return self.options + (WRITING if self.writes else ()) + COMMON


DB = Option("db", ("--db",), "Store file (else PI_SESSION_DB, the settings, the default place)", "text", "FILE")
JSON = Option("json", ("--json",), "Answer with JSON on stdout and nothing else")
DURABLE = Option("durable", ("--durable",), "Wait until the change has reached the disk")
COMMON = (JSON, DB)
WRITING = (DURABLE,)

SESSION_ARGUMENT = Argument(
    "session",
    "SESSION",
    "Id, name or unique beginning of an id; the current session here when left out",
    required=False,
)
SESSION_OPTION = Option(
    "session",
    ("--session", "-s"),
    "Session (id, name or beginning of an id) instead of the current one",
    "text",
    "SESSION",
)
ENTRY_HELP = "@ (the leaf), @-N (N user messages back), an id or its beginning, a label, a branch, SESSION:ENTRY"
