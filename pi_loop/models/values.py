"""Values of configuration files that stand for something else: a variable, a command, or themselves.

`$NAME` and `${NAME}` are environment variables, a leading `!` runs the rest as a shell command and takes what it
prints, `$$` and `$!` are the plain signs. Invariant: a value that cannot be had is None with a reason that names the
variable or says that the command failed, and never shows what either held.

Source: Pi 1.6.0, "Value Resolution" of models.json.
"""

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_PART = re.compile(r"\$\$|\$!|\$\{(\w+)\}|\$(\w+)")
COMMAND_LIMIT_S = 30.0
RunCommand = Callable[[str], str]


class CommandFailedError(RuntimeError):
    """A command of the configuration gave nothing to use; the text does not show its output."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value, or the reason why there is none; `source` says where it comes from, for people."""

    value: str | None
    source: str
    reason: str | None = None


def run_command(command: str) -> str:
    """Run a shell command and give its output without the space around it.

    Raises:
        CommandFailedError: it fails, takes too long or prints nothing.
    """
    try:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise CommandFailedError(f"took longer than {COMMAND_LIMIT_S:g} s") from None
    if done.returncode != 0:
        raise CommandFailedError(f"failed with exit code {done.returncode}")
    output = done.stdout.strip()
    if not output:
        raise CommandFailedError("printed nothing")
    return output


def source_of(text: str) -> str:
    """Say where a value comes from without resolving it."""
    if text.startswith("!"):
        return "a command"
    names = _variables(text)
    return f"${', $'.join(names)}" if names else "the configuration file"


def missing_variables(text: str, environ: Mapping[str, str]) -> list[str]:
    """Name the environment variables that a value needs and that are not set."""
    return [] if text.startswith("!") else [name for name in _variables(text) if not environ.get(name)]


def resolve(text: str, environ: Mapping[str, str], *, run: RunCommand = run_command) -> Resolved:
    """Resolve a value.

    Args:
        text: As the configuration has it.
        environ: Environment variables.
        run: Runs a command; blocking.
    """
    source = source_of(text)
    if text.startswith("!"):
        try:
            return Resolved(run(text[1:]), source)
        except CommandFailedError as error:
            return Resolved(None, source, f"the command for it {error}")
    missing = missing_variables(text, environ)
    if missing:
        return Resolved(None, source, f"{' and '.join(missing)} is not set")
    return Resolved(_PART.sub(lambda part: _replacement(part, environ), text), source)


def _variables(text: str) -> list[str]:
    return [part.group(1) or part.group(2) for part in _PART.finditer(text) if part.group(1) or part.group(2)]


def _replacement(part: re.Match[str], environ: Mapping[str, str]) -> str:
    name = part.group(1) or part.group(2)
    return environ[name] if name else part.group()[1]
