"""The entry point: parse, run one command, deliver its answer, give the exit code.

Plain command lines go through the quick parser; everything else through Typer. From there on both go the same way.
"""

from __future__ import annotations

import gc
import os
import sys

from pi_session_cli.catalog import MODULES, find, module_of
from pi_session_cli.declare import DB, JSON
from pi_session_cli.parse import Parsed, parse
from pi_sessions.errors import PiSessionError
from pi_sessions.ids import new_entry_id, new_session_id, system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn, TextIO

    from pi_session_cli.answers import Answer
    from pi_session_cli.invocation import Invocation
    from pi_sessions.ids import Clock, NewId

BEFORE = (DB, JSON)
COMPLETE_VARIABLE = "_PI_SESSION_COMPLETE"
INTERRUPTED = 130


def run() -> NoReturn:
    """Run the program as the console script does, and end the process with the exit code; see `main`.

    A command lives for milliseconds: collecting cycles and taking the interpreter apart would cost more than most
    commands do, so neither is done. Every file is closed and every stream flushed before.
    """
    gc.disable()
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # Content may hold what the terminal's encoding lacks; showing an escape is better than failing.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        silence_if_broken(stream)
    os._exit(code)


def main(
    argv: Sequence[str],
    *,
    clock: Clock = system_clock,
    new_id: NewId = new_entry_id,
    new_session_id: NewId = new_session_id,
    environ: Mapping[str, str] | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    cwd: str | None = None,
) -> int:
    """Run one command line.

    Args:
        argv: Words after the program's name.
        clock: Gives Unix milliseconds.
        new_id: Gives entry ids.
        new_session_id: Gives session ids.
        environ: Environment; the process's own by default.
        stdin, stdout, stderr: Streams; the process's own by default.
        cwd: Directory of the caller; the process's own by default.

    Returns:
        0 done, 1 cannot do that, 2 wrong usage, 3 store unusable, 130 interrupted.
    """
    environ = os.environ if environ is None else environ
    stdin = stdin or sys.stdin
    stdout = stdout or sys.stdout
    stderr = stderr or sys.stderr
    try:
        parsed = understand(argv, environ, stdout)
        if isinstance(parsed, int):
            return parsed
        if parsed.help or parsed.command is None or parsed.command.name == "help":
            return show_help(parsed, stdout, environ)
        ctx = prepare(parsed, environ, (stdin, stdout, stderr), cwd, clock, new_id, new_session_id)
        common = {"json", "db", "durable"}
        values = {name: value for name, value in parsed.values.items() if name not in common}
        answer: Answer = module_of(parsed.command.name).run(ctx, **values)
        return hand_over(answer, ctx, writes=parsed.command.writes)
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        stderr.write("Interrupted. What was stored before stays; nothing is half done.\n")
        return INTERRUPTED
    except PiSessionError as error:
        return fail(error, argv, stdout, stderr)


def understand(argv: Sequence[str], environ: Mapping[str, str], stdout: TextIO) -> Parsed | int:
    """Return what was typed, or the exit code when it is answered already."""
    if COMPLETE_VARIABLE not in environ:
        if not argv:
            return Parsed(None, {}, True)
        if list(argv) == ["--version"]:
            from pi_session_cli import VERSION

            stdout.write(f"pi-session {VERSION}\n")
            return 0
        parsed = parse(argv, find, BEFORE)
        if parsed is not None:
            return parsed
    from pi_session_cli.app import parse_with_typer

    return parse_with_typer(argv)


def show_help(parsed: Parsed, stdout: TextIO, environ: Mapping[str, str]) -> int:
    """Write help for the program or for one command."""
    from pi_session_cli.render import columns_of
    from pi_session_cli.render.help import COLUMNS, command_help, program_help

    command = parsed.command
    if command is not None and command.name == "help" and not parsed.help:
        name = parsed.values["command"]
        command = find(str(name)) if name is not None else None
        if name is not None and command is None:
            from pi_sessions.errors import UsageError

            raise UsageError(f"There is no command {name}", hint="pi-session --help lists them")
    bold = stdout.isatty() and not environ.get("NO_COLOR")
    columns = columns_of(stdout, environ) if stdout.isatty() else COLUMNS
    lines = program_help(bold, columns) if command is None else command_help(command, bold, columns)
    stdout.write("\n".join(lines) + "\n")
    stdout.flush()
    return 0


def prepare(
    parsed: Parsed,
    environ: Mapping[str, str],
    streams: tuple[TextIO, TextIO, TextIO],
    cwd: str | None,
    clock: Clock,
    new_id: NewId,
    new_session_id: NewId,
) -> Invocation:
    """Return what the command may use."""
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render import screen_for
    from pi_session_cli.settings import Settings

    settings = Settings(environ, {name: parsed.values.get(name) for name in ("db", "durable")})
    stdin, stdout, stderr = streams
    return Invocation(
        environ=environ,
        place=cwd if cwd is not None else current_directory(environ),
        settings=settings,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        as_json=bool(parsed.values.get("json")),
        screen=screen_for(stdout, environ, str(settings.get("color").value), clock()),
        clock=clock,
        new_id=new_id,
        new_session_id=new_session_id,
    )


def current_directory(environ: Mapping[str, str]) -> str:
    """Return the caller's directory, by its last known name when it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return environ.get("PWD", "")


def hand_over(answer: Answer, ctx: Invocation, *, writes: bool) -> int:
    """Write the answer out to the last byte.

    Raises:
        OutputError: stdout refused it (a full disk, say).
    """
    from pi_session_cli.render import deliver

    try:
        deliver(answer, ctx)
        ctx.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from pi_session_cli.errors import OutputError

        hint = "the change itself is stored" if writes else "free some space, or write the answer elsewhere"
        raise OutputError(f"Cannot write the answer: {error.strerror}", hint=hint) from error
    return answer.code


def fail(error: PiSessionError, argv: Sequence[str], stdout: TextIO, stderr: TextIO) -> int:
    """Report a failure; with `--json` stdout gets its one object, too."""
    from pi_session_cli import errors

    if JSON.flags[0] in argv and not isinstance(error, errors.OutputError):
        from pi_session_cli.render import write_json

        try:
            write_json(errors.to_json(error), stdout)
            stdout.flush()
        except OSError:
            pass
    try:
        return errors.report(error, stderr, next((word for word in argv if word in MODULES), ""))
    except OSError:
        return error.exit_code


def open_missing_streams() -> None:
    """Let streams the caller closed lead nowhere, so that no file that is opened later takes their numbers."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def silence_if_broken(stream: TextIO | None) -> None:
    """Flush a stream; if its reader has gone, make sure the interpreter does not complain at exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
