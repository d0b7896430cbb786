"""Failures on the way out: one `Error:` line, a `Hint:` line and an exit code, and with `--json` one object."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line, sentences
from pi_sessions.errors import CannotError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from pi_sessions.errors import PiSessionError

CANDIDATES_SHOWN = 10


class OutputError(CannotError):
    """The answer could not be written."""

    code = "output"


def report(error: PiSessionError, stderr: TextIO, command: str = "") -> int:
    """Say on stderr what went wrong and what gets further.

    Args:
        command: Name of the command; its help is the hint where the error has none.

    Returns:
        The exit code.
    """
    candidates: tuple[str, ...] = getattr(error, "candidates", ())
    named = frozenset(error.message.replace(",", " ").split())
    candidates = tuple(each for each in candidates if each not in named)
    lines = [f"Error: {sentences(error.message)}"]
    lines += [f"  {one_line(each)}" for each in candidates[:CANDIDATES_SHOWN]]
    if len(candidates) > CANDIDATES_SHOWN:
        lines.append(f"  and {len(candidates) - CANDIDATES_SHOWN} more")
    hint = error.hint or f"pi-session {command} --help".replace("  ", " ")
    lines.append(f"Hint: {sentences(hint)}")
    stderr.write("\n".join(lines) + "\n")
    return error.exit_code


def to_json(error: PiSessionError) -> dict[str, object]:
    """Return the object that `--json` prints for a failure."""
    told: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
    candidates: tuple[str, ...] = getattr(error, "candidates", ())
    if candidates:
        told["candidates"] = list(candidates)
    return {"error": told}
