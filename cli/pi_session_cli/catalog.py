"""Which commands there are, in the order help lists them; each is loaded only when it is needed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from pi_session_cli.declare import Command

# Name typed: module of `commands/`, where that is named otherwise (`import` is a word of Python's).
MODULES = {
    "new": "new",
    "append": "append",
    "run": "run",
    "resume": "resume",
    "compact": "compact",
    "summarize": "summarize",
    "fork": "fork",
    "rewind": "rewind",
    "switch": "switch",
    "branch": "branch",
    "label": "label",
    "omit": "omit",
    "merge": "merge",
    "undo": "undo",
    "redo": "redo",
    "ops": "ops",
    "ls": "ls",
    "show": "show",
    "log": "log",
    "tree": "tree",
    "browse": "browse",
    "context": "context",
    "diff": "diff",
    "stats": "stats",
    "search": "search",
    "import": "import_",
    "export": "export",
    "name": "name",
    "archive": "archive",
    "pin": "pin",
    "rm": "rm",
    "scrub": "scrub",
    "models": "models",
    "config": "config",
    "demo": "demo",
    "help": "help",
}
NAMES = tuple(MODULES)


def module_of(name: str) -> ModuleType:
    """Return the module of a command there is."""
    path = f"pi_session_cli.commands.{MODULES[name]}"
    __import__(path)
    return sys.modules[path]


def find(name: str) -> Command | None:
    """Return a command's declaration, None for an unknown name."""
    if name not in MODULES:
        return None
    command: Command = module_of(name).COMMAND
    return command
