"""`show`: a session in one screen, or one entry in full."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_OPTION, Argument, Command
from pi_session_cli.invocation import argument
from pi_sessions.errors import InvalidReferenceError, SessionNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session
    from pi_sessions.stored import StoredEntry

COMMAND = Command(
    name="show",
    group="inspect",
    help="Show a session or one entry",
    details=(
        "A name that fits a session shows the session; with -s, or when it fits none, it is taken as an entry. "
        "Without a name the current session is shown."
    ),
    examples=("pi-session show", "pi-session show 7f3a", "pi-session show @", "pi-session show 77aa01f3 -s 7f3a"),
    json=(
        "A session: its facts, branches, tips, labels, totals. An entry: sessionId, entry, children, active, "
        "label, branches, tokens, place, partners (toolCallId, entryId). Both: unfinishedRuns."
    ),
    arguments=(Argument("what", "WHAT", f"SESSION, or ENTRY: {ENTRY_HELP}", required=False),),
    options=(SESSION_OPTION,),
)


def run(ctx: Invocation, what: str | None, *, session: str | None) -> Answer:
    """Show what was named."""
    with ctx.read_store() as store:
        if what is None:
            return summary(ctx, store, ctx.session(store, session))
        if session is None and not what.startswith("@"):
            try:
                named = ctx.session(store, what)
            except (SessionNotFoundError, InvalidReferenceError) as error:
                if not what.strip():
                    raise
                try:
                    here, entry_id = ctx.entry(store, what, None)
                except SessionNotFoundError:
                    if ":" in what:
                        raise
                    raise SessionNotFoundError(
                        f"There is no session {what}, and none here to look for an entry {what} in",
                        hint=f"say which session: pi-session show {what} -s SESSION",
                    ) from error
            else:
                return summary(ctx, store, named)
        else:
            here, entry_id = ctx.entry(store, what, session)
        if entry_id is None:
            return summary(ctx, store, here)
        return one_entry(store, here, entry_id)


def summary(ctx: Invocation, store: Reading, here: Session) -> Answer:
    """Return a session in one screen."""
    import os

    from pi_session_cli.render.summary import Summary
    from pi_sessions.totals import session_totals, unpriced_answers

    entries = store.entries(here.id)
    gone = bool(here.cwd) and os.path.isabs(here.cwd) and not os.path.isdir(here.cwd)
    shown = Summary(
        here,
        tuple(store.branches(here.id)),
        tuple(store.tips(here.id)),
        tuple(store.labels(here.id).values()),
        session_totals(entries),
        len(entries),
        gone,
        unpriced_answers(entries),
    )
    return Answer(
        "summary",
        shown,
        (),
        (f"pi-session tree{argument(here, here.id)}", f"pi-session log{argument(here, here.id)} --last 5"),
        cut_off=store.cut_off_runs(here.id),
    )


def one_entry(store: Reading, here: Session, entry_id: str) -> Answer:
    """Return one entry in full."""
    from pi_session_cli.render.entry import OneEntry
    from pi_sessions.context import entry_messages
    from pi_sessions.tokens import estimate_tokens

    entry = store.entry(here.id, entry_id)
    label = store.labels(here.id).get(entry_id)
    messages = entry_messages(entry)
    own, path = store.path(here.id, entry_id), store.path(here.id)
    shown = OneEntry(
        here,
        entry,
        tuple(store.children(here.id, entry_id)),
        any(each.id == entry_id for each in path),
        label.text if label else None,
        tuple(branch.name for branch in store.branches(here.id) if branch.leaf == entry_id),
        sum(map(estimate_tokens, messages)) if messages else None,
        place_of(entry, own, path),
        partners(entry, own, store.entries(here.id)),
    )
    return Answer("entry", shown, cut_off=store.cut_off_runs(here.id))


def place_of(entry: StoredEntry, own: Sequence[StoredEntry], path: Sequence[StoredEntry]) -> str:
    """Return where an entry stands on its path, and whether a model would see it at the leaf.

    Args:
        own: The path to the entry.
        path: The path to the leaf.
    """
    from pi_sessions.context import active_entries, latest_edits

    told = f"entry {len(own):,} of its path; "
    if entry.id not in {each.id for each in path}:
        return told + "not seen from the leaf: it is on another branch"
    active = active_entries(path)
    if entry.id not in {each.id for each in active}:
        return told + f"not seen any more: summed up in {active[0].id}"
    edit = latest_edits(active).get(entry.id)
    if edit is None:
        return told + "a model sees it"
    return told + ("left out" if edit.fields.get("replacement") is None else "replaced") + f" by {edit.id}"


def partners(
    entry: StoredEntry, own: Sequence[StoredEntry], entries: Sequence[StoredEntry]
) -> tuple[tuple[str, str | None], ...]:
    """Return the other halves of an entry's tool calls: results of its calls, or the call it answers.

    Args:
        own: The path to the entry.
        entries: All entries of the session.
    """
    from pi_session_cli.render.words import calls, text_of
    from pi_sessions.pairing import results_by_call

    message = entry.message or {}
    if entry.role == "toolResult":
        asked = {result: call for (call, _), result in results_by_call([each.message for each in own]).items()}
        call = asked.get(len(own) - 1)
        return ((text_of(message.get("toolCallId")), None if call is None else own[call].id),)
    ids = [text_of(call.get("id")) for call in calls(message)]
    found = results_below(entry, ids, entries)
    met: dict[str, int] = {}
    told = []
    for call_id in ids:
        told.append((call_id, found.get((call_id, met.get(call_id, 0)))))
        met[call_id] = met.get(call_id, 0) + 1
    return tuple(told)


def results_below(
    entry: StoredEntry, call_ids: Sequence[str], entries: Sequence[StoredEntry]
) -> dict[tuple[str, int], str]:
    """Return the results of an answer's calls, on whichever branch they are: by call id and how often it came before.

    Args:
        call_ids: Of the calls, in their order.
        entries: All entries of the session, in file order.
    """
    from pi_session_cli.render.words import calls, text_of

    places = {each.id: place for place, each in enumerate(entries)}
    children: dict[str | None, list[StoredEntry]] = {}
    for each in entries:
        children.setdefault(each.parent_id, []).append(each)
    found: dict[tuple[str, int], str] = {}
    waiting = [(entry.id, dict.fromkeys(call_ids, 0))]
    while waiting:
        above, answered = waiting.pop()
        for each in children.get(above, ()):
            now = dict(answered)
            # A later call with the same id takes the results from there on.
            for call in calls(each.message or {}):
                now.pop(text_of(call.get("id")), None)
            call_id = text_of((each.message or {}).get("toolCallId"))
            if each.role == "toolResult" and call_id in now:
                other = found.get((call_id, now[call_id]))
                if other is None or places[each.id] < places[other]:
                    found[call_id, now[call_id]] = each.id
                now[call_id] += 1
            if any(number < call_ids.count(call_id) for call_id, number in now.items()):
                waiting.append((each.id, now))
    return found
