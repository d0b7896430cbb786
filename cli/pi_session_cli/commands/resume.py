"""`resume`: go on with a conversation in the terminal."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.conversation_options import BRANCH, conversation_options
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="resume",
    group="run",
    help="Go on with a conversation in the terminal",
    details=(
        "Says where you are, then waits for you. Enter sends; while the model works it steers, Alt+Enter waits for the "
        "end of the run. Ctrl-C stops the model, Ctrl-D leaves. Tool calls that change things ask first; always means "
        "the tool, in this folder, until you leave. Commands of this program work as /tree, /rewind, /undo and so on; "
        "/help lists them, Tab completes them. A run that was cut off is told, and continued or closed as you say."
    ),
    examples=(
        "pi-session resume",
        "pi-session resume 7f3a --model anthropic/claude-sonnet-5",
        "pi-session resume --pick",
    ),
    json="Nothing: it is for people. Programs use run --json.",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("pick", ("--pick",), "Choose the session from a list that narrows by names and by what was said"),
        BRANCH,
        *conversation_options(tools="all", unasked="others ask"),
    ),
    writes=True,
)


def run(ctx: Invocation, session: str | None, *, pick: bool, recover: str | None, **given: Any) -> Answer:
    """Open the conversation."""
    if ctx.as_json or not (ctx.stdin.isatty() and ctx.stdout.isatty()):
        raise UsageError("resume needs a terminal", hint="in scripts: pi-session run PROMPT --last")
    if pick and session is not None:
        raise UsageError("Give either SESSION or --pick", hint="pi-session resume --help")
    from pi_session_cli.conversing import Wishes
    from pi_session_cli.interactive.resuming import resume

    return resume(ctx, session, Wishes(**given), recover, pick=pick)
