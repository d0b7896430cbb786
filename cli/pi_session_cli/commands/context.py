"""`context`: what the model would get."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="context",
    group="inspect",
    help="Show what the model would get, entry by entry",
    details=(
        "Compactions and context edits applied, with the model and thinking level in force. Tokens are estimates of "
        "four characters each; the total builds on what the provider measured last."
    ),
    examples=("pi-session context", "pi-session context 7f3a --at checkpoint-1", "pi-session context --json"),
    json=(
        "One object: session, leaf, model, thinkingLevel, tokens (total, measured, estimated), omitted, messages "
        "(entryId, tokens, message)."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(Option("at", ("--at",), f"Flatten here instead of the leaf: {ENTRY_HELP}", "text", "ENTRY"),),
)


def run(ctx: Invocation, session: str | None, *, at: str | None) -> Answer:
    """Flatten a path."""
    from pi_session_cli.render.context import Contents
    from pi_sessions.context import latest_edits, project_entries
    from pi_sessions.tokens import estimate_projected

    with ctx.read_store() as store:
        here, leaf = (ctx.session(store, session), None) if at is None else ctx.entry(store, at, session)
        end = here.leaf if at is None else leaf
        context = store.context(here.id, end)
    size = estimate_projected(project_entries(context.entries), context.entries)
    edits = latest_edits(context.entries)
    omitted = tuple(target for target, edit in edits.items() if edit.fields.get("replacement") is None)
    return Answer("context", Contents(here, end, context, size, omitted), () if context.messages else ("Nothing yet",))
