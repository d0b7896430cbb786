"""`pin`: mark a session to keep at hand."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="pin",
    group="care",
    help="Mark a session to keep at hand",
    details="Lists show the mark. --off takes it away.",
    examples=("pi-session pin 7f3a", "pi-session pin 7f3a --off"),
    json="One object: sessionId, pinned, op.",
    arguments=(SESSION_ARGUMENT,),
    options=(Option("off", ("--off",), "Take the mark away"),),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, off: bool) -> Answer:
    """Set or clear the mark."""
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        op = store.set_pinned(here.id, not off)
    told = {"sessionId": here.id, "pinned": not off, "op": op}
    line = f"{'Unpinned' if off else 'Pinned'} {here.id}"
    return Answer("done", Done(told, (line,)), (), ("pi-session ls", f"pi-session undo{argument(here, session)}"))
