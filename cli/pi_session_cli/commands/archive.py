"""`archive`: put a session away."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="archive",
    group="care",
    help="Put a session away",
    details="It stays as it is, but plain lists leave it out; ls --all and ls --archived show it.",
    examples=("pi-session archive 7f3a", "pi-session archive 7f3a --off"),
    json="One object: sessionId, archived, op.",
    arguments=(SESSION_ARGUMENT,),
    options=(Option("off", ("--off",), "Bring it back"),),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, off: bool) -> Answer:
    """Set or clear the mark."""
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        op = store.set_archived(here.id, not off)
    told = {"sessionId": here.id, "archived": not off, "op": op}
    line = f"{'Took out of the archive:' if off else 'Archived'} {here.id}"
    return Answer(
        "done", Done(told, (line,)), (), ("pi-session ls --archived", f"pi-session undo{argument(here, session)}")
    )
