"""Slash commands: the command line's own commands, typed in the conversation, about the session that is open.

The arguments are read by the same parser from the same declarations; what is not done by the runner itself is run as
the command line would run it.
"""

from __future__ import annotations

import io
import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from pi_session_cli.catalog import NAMES, find
from pi_session_cli.main import main
from pi_session_cli.render.help import command_help
from pi_sessions.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from pi_session_cli.declare import Command
    from pi_session_cli.invocation import Invocation

# Those that make no sense inside a conversation.
ELSEWHERE = ("new", "run", "resume", "import", "demo", "help")
OWN = {
    "model": "show or switch the model: /model PROVIDER/MODEL",
    "thinking": "show or set the thinking level: /thinking LEVEL",
    "deferred": "an answer that comes later: /deferred wait, or /deferred close to give it up",
    "help": "list these commands, or tell of one: /help COMMAND",
    "quit": "leave; everything is stored",
}
# Commands that only look, and so may be used while the model works.
LOOKING = ("ls", "show", "log", "tree", "context", "ops", "search", "stats", "diff", "models", "config")
# How many words the program's own commands take.
WORDS = {"model": 1, "thinking": 1, "deferred": 1, "help": 1, "quit": 0}
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?=\s|$)")
_CALL = re.compile(r"\bpi-session ([a-z]+)(?: (?:(?:-s|--session) )?([\w-]+))?")


class Typed(NamedTuple):
    """A slash command."""

    name: str
    words: list[str]


def names() -> list[str]:
    """Return the names of all slash commands."""
    return sorted({*OWN, *(name for name in NAMES if name not in ELSEWHERE)})


def is_command(text: str) -> bool:
    """Whether a text is meant as a command: its first word is `/` and what could be a name, so no path.

    A text of several lines is one only when there is such a command.
    """
    if text.strip() == "/":
        return True
    named = _COMMAND.match(text)
    return named is not None and ("\n" not in text.strip() or _full(named[1]) in names())


def read(text: str) -> Typed:
    """Read what was typed.

    Raises:
        UsageError: quotes do not match, there is no such command, or it is several lines.
    """
    if "\n" in text.strip():
        raise UsageError("A command is one line", hint="begin with a space to send it as text")
    try:
        name, *words = shlex.split(text[1:]) or [""]
    except ValueError as error:
        raise UsageError(f"Cannot read {text}: {error}", hint="close the quotes, or escape them") from error
    name = _full(name)
    if name == "name" and words and not any(word.startswith("-") for word in words):
        # A name may have several words, and nobody quotes it here.
        words = [" ".join(words)]
    if not name:
        raise UsageError("Name a command after the /", hint="/help lists them; begin with a space to say it")
    if name not in names():
        raise UsageError(f"There is no command /{name}", hint="/help lists them; begin with a space to say it")
    most = WORDS.get(name)
    if most is not None and len(words) > most:
        takes = "nothing" if not most else "one word"
        raise UsageError(f"/{name} takes {takes}, not {' '.join(words)}", hint=f"/help {name} tells what it does")
    return Typed(name, words)


def _full(name: str) -> str:
    return "quit" if name == "exit" else name


def told() -> dict[str, str]:
    """Return what each slash command does, in a line."""
    lines = dict(OWN)
    for name in names():
        command = find(name)
        if command is not None and name not in lines:
            lines[name] = command.help[0].lower() + command.help[1:]
    return lines


def help_lines() -> list[str]:
    """Return one line per slash command."""
    lines = told()
    widest = max(len(name) for name in lines)
    return [f"/{name:{widest}}  {lines[name]}" for name in sorted(lines)]


def help_of(name: str, columns: int) -> Iterator[str]:
    """Yield the help of one command.

    Raises:
        UsageError: there is no such command.
    """
    name = _full(name.removeprefix("/"))
    if name not in names():
        raise UsageError(f"There is no command /{name}", hint="/help lists them")
    command = find(name)
    if command is None or name in OWN:
        yield f"/{name}  {OWN[name]}"
    else:
        yield from command_help(command, False, columns)


def as_typed_here(text: str, session_id: str) -> str:
    """Return a sentence with the program's commands as they are typed in the conversation.

    Args:
        session_id: The open session, which need not be named.
    """

    def shorter(call: re.Match[str]) -> str:
        name, first = call[1], call[2]
        if name not in names():
            return call[0]
        if first == session_id:
            return f"/{name}"
        return f"/{name}{call[0][len('pi-session ') + len(name) :]}"

    return _CALL.sub(shorter, text)


def argv_for(command: Command, words: list[str], session_id: str) -> list[str]:
    """Return a command line about the open session, whichever way the command names one.

    Args:
        words: What was typed after the name; a session named there counts.
    """
    if any(option.name == "session" for option in command.options):
        named = any(word in ("-s", "--session") or word.startswith("--session=") for word in words)
        return [command.name, *words] if named else [command.name, "--session", session_id, *words]
    if command.arguments and command.arguments[0].name == "session":
        if words and not words[0].startswith("-"):
            return [command.name, *words]
        return [command.name, session_id, *words]
    return [command.name, *words]


class Talking(io.TextIOBase):
    """A stream for what a command says about its answer: its commands are told as they are typed here.

    Args:
        out: Where it goes.
        session_id: The open session.
    """

    def __init__(self, out: TextIO, session_id: str) -> None:
        self._out = out
        self._session_id = session_id

    def write(self, text: str) -> int:
        """Write a text."""
        return self._out.write(as_typed_here(text, self._session_id))

    def flush(self) -> None:
        """Let it be seen."""
        self._out.flush()


async def run_command(ctx: Invocation, argv: list[str], out: TextIO, session_id: str) -> int:
    """Run a command line about the open session and show its answer; returns its exit code."""
    return await anyio.to_thread.run_sync(partial(_run, ctx, argv, out, Talking(out, session_id)))


async def answer_of(ctx: Invocation, argv: list[str], out: TextIO, session_id: str) -> tuple[int, str]:
    """Run a command line whose answer is wanted; talk and errors are shown."""
    answer = io.StringIO()
    code = await anyio.to_thread.run_sync(partial(_run, ctx, argv, answer, Talking(out, session_id)))
    return code, answer.getvalue()


def _run(ctx: Invocation, argv: list[str], stdout: TextIO, stderr: io.TextIOBase) -> int:
    return main(
        argv,
        clock=ctx.clock,
        new_id=ctx.new_id,
        new_session_id=ctx.new_session_id,
        environ=ctx.environ,
        stdin=io.StringIO(),
        stdout=stdout,
        stderr=stderr,  # type: ignore[arg-type]
        cwd=ctx.place,
    )
