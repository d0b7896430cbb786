"""`new`: begin a session."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import Argument, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="new",
    group="run",
    help="Begin an empty session",
    details=(
        "It becomes the current session of this directory. Its id is printed; the store is made when there is none."
    ),
    examples=("pi-session new", 'pi-session new "flaky test" --cwd ~/src/app'),
    json="One object: the session (id, name, cwd, created, updated, messageCount, branch, leaf, ...).",
    arguments=(Argument("name", "NAME", "Name of the session", required=False),),
    options=(
        Option("cwd", ("--cwd",), "Directory the conversation is about (default: this one)", "text", "DIR"),
        Option("id", ("--id",), "Id to use instead of a new one", "text", "ID"),
    ),
    writes=True,
)


def run(ctx: Invocation, name: str | None, *, cwd: str | None, id: str | None) -> Answer:
    """Begin a session here."""
    import os

    from pi_session_cli.render.wire import session_json

    folder = ctx.place if cwd is None else os.path.join(ctx.place, os.path.expanduser(cwd))
    with ctx.move_store(create=True) as store:
        session = store.create_session(
            cwd=os.path.normpath(folder) if folder else "", id=id, name=name, place=ctx.place
        )
    return Answer(
        "done",
        Done(session_json(session), (session.id,)),
        (f"Began a session{f' named {session.name}' if session.name else ''}; it is the current one here",),
        ('pi-session append "first message"', "pi-session undo  (takes it back)"),
    )
