"""`rm`: remove a session, in a way that can be taken back."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import Argument, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="rm",
    group="care",
    help="Remove a session",
    details=(
        "It is only marked as removed; undo --op, with the number in the answer, brings it back. Forks of it are not "
        "touched."
    ),
    examples=("pi-session rm 7f3a", "pi-session ls --removed"),
    json="One object: sessionId, deleted, op.",
    arguments=(Argument("session", "SESSION", "Id, name or unique beginning of an id"),),
    writes=True,
)


def run(ctx: Invocation, session: str) -> Answer:
    """Mark the session as removed."""
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        op = store.delete_session(here.id)
    line = f"Removed {here.id} (nothing is erased)"
    return Answer(
        "done", Done({"sessionId": here.id, "deleted": True, "op": op}, (line,)), (), (f"pi-session undo --op {op}",)
    )
