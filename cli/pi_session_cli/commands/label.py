"""`label`: bookmark entries."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="label",
    group="branch",
    help="Bookmark an entry with a label",
    details="A label names its entry wherever an ENTRY is asked for. Without arguments the labels are listed.",
    examples=("pi-session label @ checkpoint-1", "pi-session label", "pi-session label checkpoint-1 --clear"),
    json="Listing: sessionId, labels (entryId, text, timestamp). A change: sessionId, entryId, text, op.",
    arguments=(
        Argument("target", "ENTRY", ENTRY_HELP, required=False),
        Argument("text", "TEXT", "The label", required=False),
    ),
    options=(SESSION_OPTION, Option("clear", ("--clear",), "Take the label off")),
    writes=True,
)


def run(ctx: Invocation, target: str | None, text: str | None, *, session: str | None, clear: bool) -> Answer:
    """List labels, or set or clear one."""
    if target is None:
        if clear:
            raise UsageError("Name the entry whose label goes", hint="pi-session label ENTRY --clear")
        return listing(ctx, session)
    if (text is None) != clear or (text is not None and not text.strip()):
        raise UsageError("Give either TEXT or --clear", hint="pi-session label @ checkpoint-1")
    with ctx.move_store() as store:
        here, entry = ctx.entry(store, target, session)
        if entry is None:
            raise UsageError("There is no entry to label yet", hint="append a message first: pi-session append TEXT")
        op = store.set_label(here.id, entry, text)
    line = f"Took the label off {entry}" if text is None else f"Labelled {entry} as {text}"
    again = argument(here, session)
    after = (f"pi-session tree{again} --labeled", f"pi-session undo{again}")
    return Answer("done", Done({"sessionId": here.id, "entryId": entry, "text": text, "op": op}, (line,)), (), after)


def listing(ctx: Invocation, session: str | None) -> Answer:
    """List the session's labels."""
    from pi_session_cli.render.rows import Rows
    from pi_session_cli.render.wire import label_json

    with ctx.read_store() as store:
        here = ctx.session(store, session)
        labels = tuple(store.labels(here.id).values())
    rows = tuple((label.entry_id, ctx.screen.when(label.time_ms), label.text) for label in labels)
    told = {"sessionId": here.id, "labels": [label_json(label) for label in labels]}
    said = () if labels else ("No labels yet",)
    return Answer("rows", Rows(told, rows), said, () if labels else ("pi-session label @ NAME",))
