"""`browse`: the tree on a full screen."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

FILTERS = ("default", "no-tools", "user-only", "labeled-only", "all")

COMMAND = Command(
    name="browse",
    group="inspect",
    help="Walk the session's tree on the full screen",
    details=(
        "Arrows move, what you type searches, the marked entry is shown beside the tree. Enter rewinds to it, Ctrl-F "
        "forks there, Ctrl-B makes a branch, L labels, Ctrl-Left and Ctrl-Right fold and unfold, Ctrl-Z and Ctrl-Y "
        "undo and redo, Ctrl-X copies the text. Ctrl-D, T, U, L, A choose what is shown (conversation, no tools, user, "
        "labelled, all), Ctrl-O the next of these. Each of them is a command, too: tree, show, rewind, fork, label."
    ),
    examples=("pi-session browse", "pi-session browse 7f3a --filter user-only"),
    json="Nothing: it is for people. Programs use tree --json.",
    arguments=(SESSION_ARGUMENT,),
    options=(Option("filter", ("--filter",), "What to show first", "choice", "WHAT", "default", FILTERS),),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, filter: str) -> Answer:
    """Browse until the person leaves."""
    if ctx.as_json or not (ctx.stdin.isatty() and ctx.stdout.isatty()):
        raise UsageError("browse needs a terminal", hint="in scripts: pi-session tree --json")
    import gc

    from pi_session_cli.interactive.browser import browse
    from pi_session_cli.interactive.browsing import Browsing
    from pi_session_cli.interactive.hanging_up import HUNG_UP, has_gone

    # The program runs without collecting cycles, which suits commands that live for milliseconds only.
    gc.enable()
    with ctx.read_store() as store:
        here = ctx.session(store, session)
    browsing = Browsing(ctx, here.id, filter=filter)
    try:
        browse(browsing)
    except (OSError, EOFError) as error:
        if not has_gone(error):
            raise
        return Answer("written", None, tuple(browsing.said), (), HUNG_UP)
    told = {"sessionId": browsing.session_id, "leaf": browsing.session.leaf, "editorText": browsing.text}
    again = argument(here, browsing.session_id)
    after = (f"pi-session resume{again}", f"pi-session tree{again}") if browsing.said else ()
    return Answer("done", Done(told, (), browsing.text), tuple(browsing.said), after)
