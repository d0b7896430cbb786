"""`ops`: what was done to a session."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="ops",
    group="branch",
    help="List operations, or show one",
    details="Newest first. Each can be taken back by its number, in any order: undo --op ID.",
    examples=("pi-session ops", "pi-session ops 12", "pi-session ops --all --limit 50"),
    json=(
        "Listing: operations (op, sessionId, timestamp, command, summary, undoes, undoneBy, changes). With ID: the one."
    ),
    arguments=(Argument("op", "ID", "Operation to show with all its changes", required=False),),
    options=(
        SESSION_OPTION,
        Option("all", ("--all",), "Operations of every session"),
        Option("limit", ("--limit",), "At most this many (default: the setting)", "int", "N", least=1),
    ),
)


def run(ctx: Invocation, op: str | None, *, session: str | None, all: bool, limit: int | None) -> Answer:
    """List or show."""
    from pi_session_cli.render.ops import Operations
    from pi_sessions.operation_log import OperationLog

    if op is not None and not (op.isascii() and op.isdigit() and len(op) < 19):
        raise UsageError(f"An operation is named by its number, not {op!r}", hint="pi-session ops lists them")
    with ctx.read_part(OperationLog) as store:
        if op is not None:
            return Answer("ops", Operations((store.operation(int(op)),), one=True), (), (f"pi-session undo --op {op}",))
        here = None if all else ctx.session(store, session, removed=True)
        page = limit or int(ctx.settings.get("limit").value or 1)
        found = store.operations(None if here is None else here.id, limit=page)
    after = f"pi-session undo{argument(here, session)}" if here is not None else "pi-session undo --op ID"
    return Answer(
        "ops",
        Operations(tuple(found), sessions=all),
        () if found else ("Nothing was done yet",),
        (after,) if found else (),
    )
