"""`omit`: take one message out of the context, keep it in the session."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import CannotError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading
    from pi_sessions.stored import JsonObject

COMMAND = Command(
    name="omit",
    group="branch",
    help="Leave an entry out of the context",
    details=(
        "The entry stays in the tree; the model no longer gets it. --replace gives the model other words instead; "
        "--restore brings the original back. Each is a context edit under the leaf, as Pi writes it."
    ),
    examples=(
        "pi-session omit 77aa01f3",
        'pi-session omit @-1 --replace "shorter"',
        "pi-session omit 77aa01f3 --restore",
    ),
    json="One object: sessionId, targetId, replacement, editId.",
    arguments=(Argument("target", "ENTRY", ENTRY_HELP),),
    options=(
        SESSION_OPTION,
        Option("replace", ("--replace",), "Give the model this text instead", "text", "TEXT"),
        Option("restore", ("--restore",), "Take the omission or replacement back"),
    ),
    writes=True,
)


def run(ctx: Invocation, target: str, *, session: str | None, replace: str | None, restore: bool) -> Answer:
    """Append a context edit, unless it is in force already."""
    from pi_sessions.context import latest_edits

    if replace is not None and restore:
        raise UsageError("Give either --replace or --restore", hint="pi-session omit --help")
    with ctx.move_store() as store:
        here, entry = ctx.entry(store, target, session)
        if entry is None:
            raise UsageError("There is no entry to leave out yet", hint="pi-session context shows what the model gets")
        replacement: JsonObject | None = {"content": replace} if replace is not None else None
        if restore:
            replacement = original(store, here.id, entry)
        else:
            edit = latest_edits(store.path(here.id)).get(entry)
            if edit is not None and edit.fields.get("replacement") == replacement:
                line = f"Already {'left out of' if replace is None else 'replaced so in'} the context: {entry}"
                told = {"sessionId": here.id, "targetId": entry, "replacement": replacement, "editId": edit.id}
                return Answer("done", Done(told, (line,)), (), (f"pi-session omit {entry} --restore",))
        edit = store.edit_context(here.id, entry, replacement)
    line = (
        f"Brought {entry} back into the context"
        if restore
        else f"Left {entry} out of the context"
        if replace is None
        else f"Replaced {entry} in the context"
    )
    told = {"sessionId": here.id, "targetId": entry, "replacement": edit.fields["replacement"], "editId": edit.id}
    again = argument(here, session)
    return Answer("done", Done(told, (line,)), (), (f"pi-session context{again}", f"pi-session undo{again}"))


def original(store: Reading, session_id: str, entry_id: str) -> JsonObject:
    """Return the replacement that gives a model the entry's own content again.

    Raises:
        CannotError: nothing is left out or replaced there.
    """
    from pi_sessions.context import latest_edits

    if entry_id not in latest_edits(store.path(session_id)):
        raise CannotError(
            f"Nothing to restore: the context has {entry_id} as it is",
            hint="pi-session context shows what the model gets",
        )
    entry = store.entry(session_id, entry_id)
    content = (entry.fields if entry.type == "custom_message" else entry.message or {}).get("content")
    return {"content": [] if content is None else content}
