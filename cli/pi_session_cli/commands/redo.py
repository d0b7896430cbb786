"""`redo`: restore what an undo took back."""

from __future__ import annotations

from pi_session_cli.commands.undo import take_back
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.answers import Answer
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="redo",
    group="branch",
    help="Restore what undo took back",
    details=(
        "It restores exactly what the undo replaced, as long as nothing else was done since; --op names an undone "
        "operation."
    ),
    examples=("pi-session redo", "pi-session redo --steps 3", "pi-session redo --op 12"),
    json="As undo: sessionId, leaf, undone, ops, keptBranches, skipped.",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("op", ("--op",), "Restore this undone operation (see ops)", "int", "ID", least=1),
        Option("steps", ("--steps",), "Restore this many, one after the other", "int", "N", 1, least=1),
    ),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, op: int | None, steps: int) -> Answer:
    """Redo."""
    return take_back(ctx, session, op, steps, "redo")
