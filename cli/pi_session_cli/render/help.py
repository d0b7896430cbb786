"""Help, drawn from the declarations: for the program by groups, for a command with an example that works as typed."""

from __future__ import annotations

from pi_session_cli.catalog import NAMES, find
from pi_session_cli.declare import GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.declare import Argument, Command, Option

COLUMNS = 80
WIDEST = 100
NARROWEST = 40
INDENT = 2


NAMING = (
    "A session: its id or the beginning of it (4 or more), or its name; else PI_SESSION_ID, else the current session "
    "of this directory. An entry: @ (the leaf), @-N (N user messages back), its id or the beginning of it, a label, "
    "a branch, or SESSION:ENTRY."
)


def program_help(bold: bool, columns: int = COLUMNS) -> Iterator[str]:
    """Yield the help of the program, for a terminal of so many columns."""
    columns = min(max(columns, NARROWEST), WIDEST)
    yield from wrap("Keep conversations with coding agents as trees you can fork, rewind and undo.", "", columns)
    yield ""
    yield f"{title('Usage:', bold)} pi-session COMMAND [ARGUMENT]... [OPTION]..."
    commands = [command for command in map(find, NAMES) if command is not None]
    for group, heading in GROUPS.items():
        members = [command for command in commands if command.group == group]
        if members:
            yield ""
            yield title(heading, bold)
            yield from table([(command.name, command.help) for command in members], columns)
    yield ""
    yield title("Options", bold)
    yield from table(
        [
            ("--db FILE", "Store file (else PI_SESSION_DB, the settings, the default place)"),
            ("--version", "Show the version"),
            ("--install-completion", "Install completion for this shell"),
            ("--show-completion", "Show that completion, to copy or adapt"),
            ("-h, --help", "Show this help; after a command, the command's"),
        ],
        columns,
    )
    yield ""
    yield title("Naming things", bold)
    yield from wrap(NAMING, "  ", columns)
    yield ""
    yield title("Start with", bold)
    yield "  pi-session import ~/.pi"
    yield "  pi-session ls"
    yield "  pi-session tree"


def command_help(command: Command, bold: bool, columns: int = COLUMNS) -> Iterator[str]:
    """Yield the help of one command, for a terminal of so many columns; examples stay on a line, to be copied."""
    columns = min(max(columns, NARROWEST), WIDEST)
    yield from wrap(command.help, "", columns)
    yield ""
    yield f"{title('Usage:', bold)} {usage(command)}"
    yield ""
    yield from wrap(command.details, "  ", columns)
    if command.arguments:
        yield ""
        yield title("Arguments", bold)
        yield from table([(argument_name(each), each.help) for each in command.arguments], columns)
    yield ""
    yield title("Options", bold)
    rows = [(spelling(option), described(option)) for option in command.every_option]
    yield from table([*rows, ("-h, --help", "Show this help")], columns)
    yield ""
    yield title("Examples", bold)
    for example in command.examples:
        yield f"  {example}"
    yield ""
    yield title("JSON", bold)
    yield from wrap(command.json, "  ", columns)


def usage(command: Command) -> str:
    """Return the command's line with its arguments."""
    return " ".join(["pi-session", command.name, *map(argument_name, command.arguments), "[OPTION]..."])


def argument_name(argument: Argument) -> str:
    """Return `SESSION`, `[SESSION]` or `[TEXT]...`."""
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return name + "..." if argument.repeatable else name


def spelling(option: Option) -> str:
    """Return `-s, --session SESSION`."""
    flags = ", ".join(sorted(option.flags, key=len))
    return f"{flags} {option.metavar}" if option.kind != "flag" else flags


def described(option: Option) -> str:
    """Return what an option does, with its choices and default."""
    text = option.help
    if option.choices:
        text += f": {', '.join(option.choices)}"
    if option.kind != "flag" and option.default is not None:
        text += f" (default {option.default})"
    return text


def table(rows: list[tuple[str, str]], columns: int) -> Iterator[str]:
    """Yield two aligned columns, the second wrapped."""
    left = min(max(len(name) for name, _ in rows), 28, columns // 3)
    for name, text in rows:
        start = f"{'':{INDENT}}{name:<{left}}  "
        if len(name) > left:
            yield f"{'':{INDENT}}{name}"
            start = " " * (INDENT + left + 2)
        first, *others = wrap(text, "", columns - INDENT - left - 2)
        yield start + first
        for line in others:
            yield " " * (INDENT + left + 2) + line


def wrap(text: str, indent: str, columns: int) -> list[str]:
    """Return text broken into lines at spaces, each indented; line feeds start a new paragraph."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split():
            if line and len(indent) + len(line) + 1 + len(word) > columns:
                lines.append(indent + line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        lines.append(indent + line)
    return lines


def title(text: str, bold: bool) -> str:
    """Return a heading."""
    return f"\x1b[1m{text}\x1b[0m" if bold else text
