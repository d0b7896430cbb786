"""`run`: one prompt to its end."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.conversation_options import BRANCH, conversation_options
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_loop.runner_types import RecoverAction
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="run",
    group="run",
    help="Ask a model and let it work to the end",
    details=(
        "Begins a session unless told otherwise. The answer's text goes to stdout as it comes, what the model does "
        "meanwhile to stderr. A word @FILE adds a text file or a picture, - standard input. Everything is stored as it "
        "happens. Calls that nobody can approve get an error result; paths outside the folder are refused. "
        "Ctrl-C ends the run; what was said so far stays. With --deferred the provider works on while nothing runs "
        "here (models over openai-responses); --recover continue waits for the answer, --recover close gives it up. "
        "--script FILE plays a model: a JSON list of steps, one for each request, each a text or an object such as "
        '{"text": "I look.", "calls": [{"name": "ls", "arguments": {}}]}. '
        "Exit 4: the run ended in error."
    ),
    examples=(
        'pi-session run "Why is the lease lost?" --model anthropic/claude-sonnet-5',
        'git diff | pi-session run - "Review this." --last',
        'pi-session run "Fix the test." --tools all --approve write,edit',
    ),
    json=(
        "JSON Lines: one event per line as in Pi (run_start, message_start, message_update with deltas, message_end, "
        "tool_execution_*, ...), run_end last (status, branch, leaf, op, ownBranch, errorMessage)."
    ),
    arguments=(Argument("words", "PROMPT", "What to ask; @FILE adds a file, - standard input", False, True),),
    options=(
        SESSION_OPTION,
        Option("last", ("--last",), "Go on in the current session here"),
        Option("fork_from", ("--fork-from",), "Go on in a fork that ends at this entry", "text", "ENTRY"),
        BRANCH,
        Option("no_session", ("--no-session",), "Store nothing"),
        *conversation_options(tools="read", unasked="others get an error"),
        Option("deferred", ("--deferred",), "Let the answer come later; run --recover continue fetches it"),
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    words: tuple[str, ...],
    *,
    session: str | None,
    last: bool,
    fork_from: str | None,
    no_session: bool,
    recover: RecoverAction | None,
    deferred: bool,
    **given: Any,
) -> Answer:
    """Run a prompt."""
    if sum((session is not None, last, no_session)) > 1 or (no_session and (fork_from or recover)):
        raise UsageError("Give only one of --session, --last and --no-session", hint="pi-session run --help")
    if no_session and deferred:
        raise UsageError("An answer that comes later needs a session to come to", hint="leave --no-session out")
    from pi_session_cli.conversing import Wishes
    from pi_session_cli.running import Place, run_once

    where = Place(session=session, last=last, fork_from=fork_from, no_session=no_session)
    if recover is not None and where.is_new(ctx):
        raise UsageError(
            "--recover is for a session that is there already, and a new one would be begun",
            hint="--last, or --session SESSION, says which one",
        )
    return run_once(ctx, words, where, Wishes(deferred=deferred, **given), recover)
