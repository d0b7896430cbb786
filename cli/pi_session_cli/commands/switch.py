"""`switch`: make another branch the current one."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command
from pi_session_cli.invocation import argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="switch",
    group="branch",
    help="Make another branch the current one",
    details="The session's leaf becomes that branch's leaf; the branch you leave keeps its own.",
    examples=("pi-session switch attempt-1", "pi-session switch main -s 7f3a"),
    json="One object: sessionId, branch, oldLeaf, newLeaf, op, timestamp.",
    arguments=(Argument("branch", "BRANCH", "Name of the branch"),),
    options=(SESSION_OPTION,),
    writes=True,
)


def run(ctx: Invocation, branch: str, *, session: str | None) -> Answer:
    """Switch."""
    from pi_session_cli.render.wire import iso

    with ctx.change_store() as store:
        here = ctx.session(store, session)
        move = store.switch(here.id, branch)
    told = {
        "sessionId": here.id,
        "branch": move.branch,
        "oldLeaf": move.old_leaf,
        "newLeaf": move.new_leaf,
        "op": move.op,
        "timestamp": iso(move.time_ms),
    }
    line = f"On {branch}, which ends at {move.new_leaf or 'its start, before the first entry'}"
    again = argument(here, session)
    return Answer("done", Done(told, (line,)), (), (f"pi-session log{again} --last 5", f"pi-session undo{again}"))
