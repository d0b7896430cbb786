"""`name`: give a session a name."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="name",
    group="care",
    help="Name a session",
    details="A name can stand for the session's id wherever a SESSION is asked for. Without TEXT the name is printed.",
    examples=('pi-session name "flaky test"', 'pi-session name "lease bug" -s 7f3a', "pi-session name --clear"),
    json="One object: sessionId, name, and op when it was changed.",
    arguments=(Argument("text", "TEXT", "The name", required=False),),
    options=(SESSION_OPTION, Option("clear", ("--clear",), "Take the name away")),
    writes=True,
)


def run(ctx: Invocation, text: str | None, *, session: str | None, clear: bool) -> Answer:
    """Show, set or clear the name."""
    if text is None and not clear:
        with ctx.read_store() as store:
            here = ctx.session(store, session)
        lines = (here.name,) if here.name else ()
        return Answer(
            "done", Done({"sessionId": here.id, "name": here.name}, lines), () if lines else ("It has no name",)
        )
    if (clear and text is not None) or (text is not None and not text.strip()):
        raise UsageError("Give either TEXT or --clear", hint='pi-session name "flaky test"')
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        op = store.set_name(here.id, text)
        named = store.session(here.id).name
    line = f"Took the name of {here.id} away" if named is None else f"Named {here.id} {named}"
    told = {"sessionId": here.id, "name": named, "op": op}
    return Answer("done", Done(told, (line,)), (), (f"pi-session undo{argument(here, session)}",))
