"""`log`: read a session as a transcript."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="log",
    group="inspect",
    help="Read the path to the leaf as a transcript",
    details="Long outputs and thinking are shortened; --full shows everything.",
    examples=("pi-session log --last 10", "pi-session log 7f3a --at checkpoint-1", "pi-session log --full"),
    json="One object: session, before (entries of the path not given), entries (as Pi writes them).",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("last", ("--last", "-n"), "Only the last N entries", "int", "N", least=1),
        Option("at", ("--at",), f"End here instead: {ENTRY_HELP}", "text", "ENTRY"),
        Option("full", ("--full",), "Show thinking and long outputs in full"),
    ),
)


def run(ctx: Invocation, session: str | None, *, last: int | None, at: str | None, full: bool) -> Answer:
    """Read a path."""
    from pi_session_cli.render.log import Transcript, readable

    with ctx.read_store() as store:
        here, leaf = (ctx.session(store, session), None) if at is None else ctx.entry(store, at, session)
        path = store.path(here.id, here.leaf if at is None else leaf)
        labels = store.labels(here.id)
    entries = path if ctx.as_json else readable(path)
    shown = entries if last is None else entries[-last:]
    said = () if shown else ("Nothing was said yet",)
    return Answer("log", Transcript(here, tuple(shown), labels, len(entries) - len(shown), full), said)
