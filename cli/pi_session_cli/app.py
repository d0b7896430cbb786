"""The Typer app, made from the declarations: completion, odd spellings and the words of usage errors.

Its commands do not run anything; they say what was typed, and `main` goes on as it does after the quick parser.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from pi_session_cli.catalog import NAMES, find
from pi_session_cli.declare import DB, JSON, Argument, Command, Option
from pi_session_cli.parse import HELP_FLAGS, Parsed
from pi_session_cli.shell_completion import completer
from pi_sessions.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEFORE = (DB, JSON)
KINDS: dict[str, type] = {"flag": bool, "text": str, "int": int}


class AskedForHelp(Exception):
    """Help was asked for; our own renderer shows it.

    Args:
        name: Command's name, None for the program itself.
    """

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self.name = name


class OurGroup(TyperGroup):
    """The program: its help is drawn by `render/help.py`."""

    def get_help(self, ctx: Any) -> str:
        raise AskedForHelp(None)


class OurCommand(TyperCommand):
    """A command: its help is drawn by `render/help.py`."""

    def get_help(self, ctx: Any) -> str:
        raise AskedForHelp(self.name)


@functools.cache
def build_app() -> typer.Typer:
    """Return the Typer app of all commands."""
    app = typer.Typer(
        name="pi-session",
        cls=OurGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP_FLAGS)},
    )

    def remember(ctx: typer.Context, **values: Any) -> None:
        ctx.obj = {name: value for name, value in values.items() if value not in (None, False)}

    app.callback()(typed(remember, [parameter(option) for option in BEFORE], wants_context=True))
    for name in NAMES:
        command = find(name)
        if command is not None:
            app.command(name, cls=OurCommand, help=command.help)(reading(command))
    return app


def reading(command: Command) -> Callable[..., Parsed]:
    """Return a function whose signature is the command's declaration and which returns what was typed."""

    def read(ctx: typer.Context, **values: Any) -> Parsed:
        absent = {option.name: option.absent for option in command.every_option}
        given = {name: value for name, value in values.items() if name not in absent or value != absent[name]}
        for argument in command.arguments:
            if argument.repeatable:
                given[argument.name] = tuple(given.get(argument.name) or ())
        return Parsed(command, absent | (ctx.obj or {}) | given)

    declared: tuple[Argument | Option, ...] = (*command.arguments, *command.every_option)
    parameters = [parameter(each, completer(command, each)) for each in declared]
    made: Callable[..., Parsed] = typed(read, parameters, wants_context=True)
    return made


def parameter(declared: Argument | Option, completes: Callable[..., Any] | None = None) -> inspect.Parameter:
    """Return one declared value as a parameter Typer understands.

    Args:
        completes: Offers values to the shell.
    """
    default: object
    if isinstance(declared, Argument):
        kind: Any = list[str] if declared.repeatable else str
        info: Any = typer.Argument(metavar=declared.metavar, help=declared.help, autocompletion=completes)
        default = inspect.Parameter.empty if declared.required else None
    else:
        kind = Literal[declared.choices] if declared.kind == "choice" else KINDS[declared.kind]
        least, most = (declared.least, declared.most) if declared.kind == "int" else (None, None)
        info = typer.Option(
            *declared.flags,
            metavar=declared.metavar or None,
            help=declared.help,
            min=least,
            max=most,
            autocompletion=completes,
        )
        default = declared.absent
    if default is None:
        kind = kind | None
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def typed(function: Any, parameters: list[inspect.Parameter], *, wants_context: bool) -> Any:
    """Give a function the signature that Typer is to see."""
    if wants_context:
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context, *parameters]
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def parse_with_typer(argv: Sequence[str]) -> Parsed | int:
    """Read any command line.

    Returns:
        What was typed, or an exit code when Typer has already answered (completion).

    Raises:
        UsageError: the line makes no sense; the hint names the help that tells.
    """
    try:
        answer = typer.main.get_command(build_app()).main(list(argv), prog_name="pi-session", standalone_mode=False)
    except AskedForHelp as asked:
        return Parsed(find(asked.name) if asked.name else None, {}, True)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        name = context.info_name if context is not None and context.parent is not None else None
        # An option without its value is met before there is a context to name.
        name = name or next((word for word in argv if word in NAMES), None)
        message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
        raise UsageError(message, hint=f"pi-session {name + ' ' if name else ''}--help") from error
    return answer if isinstance(answer, Parsed) else int(answer or 0)
