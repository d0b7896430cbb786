"""Slash commands: the command line's own commands, typed in the conversation, about the session that is open.

The arguments are read by the same parser from the same declarations; what is not done by the runner itself is run as
the command line would run it.
"""

from __future__ import annotations

import io
import shlex
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from pi_session_cli.catalog import NAMES, find
from pi_session_cli.main import main
from pi_sessions.errors import UsageError

if TYPE_CHECKING:
    from typing import TextIO

    from pi_session_cli.declare import Command
    from pi_session_cli.invocation import Invocation

# Those that make no sense inside a conversation.
ELSEWHERE = ("new", "run", "resume", "import", "demo", "help")
OWN = {
    "model": "show or switch the model: /model PROVIDER/MODEL",
    "thinking": "show or set the thinking level: /thinking LEVEL",
    "deferred": "an answer that comes later: /deferred wait, or /deferred close to give it up",
    "help": "list these commands",
    "quit": "leave; everything is stored",
}
# Commands that only look, and so may be used while the model works.
LOOKING = ("ls", "show", "log", "tree", "context", "ops", "search", "stats", "diff", "models", "config")


class Typed(NamedTuple):
    """A slash command."""

    name: str
    words: list[str]


def names() -> list[str]:
    """Return the names of all slash commands."""
    return sorted({*OWN, *(name for name in NAMES if name not in ELSEWHERE)})


def read(text: str) -> Typed:
    """Read what was typed.

    Raises:
        UsageError: quotes do not match, or there is no such command.
    """
    try:
        name, *words = shlex.split(text[1:])
    except ValueError as error:
        raise UsageError(f"Cannot read {text}: {error}", hint="close the quotes, or escape them") from error
    if name == "exit":
        name = "quit"
    if name == "name" and words and not any(word.startswith("-") for word in words):
        # A name may have several words, and nobody quotes it here.
        words = [" ".join(words)]
    if name not in names():
        raise UsageError(f"There is no command /{name}", hint="/help lists them; begin with a space to say it")
    return Typed(name, words)


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


async def run_command(ctx: Invocation, argv: list[str], out: TextIO) -> int:
    """Run a command line and show its answer; returns its exit code."""
    return await anyio.to_thread.run_sync(partial(_run, ctx, argv, out, out))


async def answer_of(ctx: Invocation, argv: list[str], out: TextIO) -> tuple[int, str]:
    """Run a command line whose answer is wanted; talk and errors are shown."""
    answer = io.StringIO()
    code = await anyio.to_thread.run_sync(partial(_run, ctx, argv, answer, out))
    return code, answer.getvalue()


def _run(ctx: Invocation, argv: list[str], stdout: TextIO, stderr: TextIO) -> int:
    return main(
        argv,
        clock=ctx.clock,
        new_id=ctx.new_id,
        new_session_id=ctx.new_session_id,
        environ=ctx.environ,
        stdin=io.StringIO(),
        stdout=stdout,
        stderr=stderr,
        cwd=ctx.place,
    )
