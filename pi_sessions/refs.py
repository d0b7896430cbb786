"""From what a person types to one session or one entry, or an error that lists the candidates.

Pure rules over the store's answers; never picks one of several silently.
"""

from __future__ import annotations

from pi_sessions.errors import AmbiguousReferenceError, EntryNotFoundError, InvalidReferenceError, SessionNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

SHORTEST_PREFIX = 4


def resolve_session(
    store: Reading, ref: str | None, *, env_id: str | None = None, place: str | None = None, removed: bool = False
) -> Session:
    """Return the session a command is about.

    Args:
        store: An open store.
        ref: What was typed: exact id, exact name, or a prefix of an id (4 characters or more); None when nothing was.
        env_id: PI_SESSION_ID, used when nothing was typed; an unknown one is an error, never passed over.
        place: Directory the command runs in: its current session counts next, then the newest session of it.
        removed: Also accept a removed session (undo, redo and ops must reach it).

    Raises:
        SessionNotFoundError: nothing fits.
        AmbiguousReferenceError: a name or prefix fits several; the error lists them.
        InvalidReferenceError: empty or blank text, or a prefix that is too short.
    """
    if ref is not None:
        return _named_session(store, ref, removed)
    if env_id:
        try:
            return _named_session(store, env_id, removed)
        except (SessionNotFoundError, AmbiguousReferenceError, InvalidReferenceError) as error:
            error.message += " (named by PI_SESSION_ID)"
            error.hint = f"{error.hint}; or unset PI_SESSION_ID, or name a session"
            raise
    if place is not None:
        current = store.current_session(place)
        if current is not None and (removed or not current.deleted):
            return current
        for session in store.sessions(cwd=place, archived=True, limit=1):
            return session
    raise SessionNotFoundError(
        "There is no session here",
        hint="name one (pi-session ls), begin one (pi-session new), or see what was done: pi-session ops --all",
    )


def _named_session(store: Reading, ref: str, removed: bool) -> Session:
    if not ref.strip():
        raise InvalidReferenceError("The name of the session is empty", hint="list sessions with: pi-session ls")
    try:
        session = store.session(ref)
    except SessionNotFoundError:
        pass
    else:
        if session.deleted and not removed:
            raise SessionNotFoundError(
                f"The session {ref} was removed", hint=f"bring it back with: {store.way_back(session.id)}"
            )
        return session
    named = store.named_sessions(ref)
    if len(named) == 1:
        return named[0]
    found = named or (store.find_sessions(ref) if len(ref) >= SHORTEST_PREFIX else [])
    if len(found) == 1:
        return found[0]
    if found:
        what = "name" if named else "prefix"
        raise AmbiguousReferenceError(
            f"{len(found)} sessions fit the {what} {ref}",
            candidates=tuple(session.id for session in found),
            hint="use more of the id: " + " ".join(session.id for session in found[:8]),
        )
    if len(ref) < SHORTEST_PREFIX:
        raise InvalidReferenceError(
            f"{ref!r} is too short to name a session", hint=f"use at least {SHORTEST_PREFIX} characters of its id"
        )
    raise SessionNotFoundError(f"There is no session {ref}", hint="list them with: pi-session ls --all")


def splits(text: str) -> list[tuple[str, str]]:
    """Return session and entry for each colon a text can be split at as `SESSION:ENTRY`; both may hold colons."""
    parts = text.split(":")
    return [(":".join(parts[:place]), ":".join(parts[place:])) for place in range(1, len(parts))]


def resolve_entry(store: Reading, session_id: str, ref: str) -> str | None:
    """Return the id of the entry a person means; None for `@` before the first entry.

    Args:
        store: An open store.
        session_id: Full id of the session.
        ref: `@` (the leaf), `@-N` (the N-th user message back from the leaf), exact id, branch, label, or a prefix of
            an id (4 characters or more), in this order.

    Raises:
        EntryNotFoundError: nothing fits.
        AmbiguousReferenceError: a label or prefix fits several entries; the error lists them.
        InvalidReferenceError: empty text, or `@` followed by something else.
    """
    if not ref.strip():
        raise InvalidReferenceError("The name of the entry is empty", hint="see the entries with: pi-session tree")
    if ref.startswith("@"):
        return _relative(store, session_id, ref)
    if store.has_entry(session_id, ref):
        return ref
    for branch in store.branches(session_id):
        if branch.name == ref:
            return branch.leaf
    labelled = [label.entry_id for label in store.labels(session_id).values() if label.text == ref]
    found = labelled or (store.entries_with_prefix(session_id, ref) if len(ref) >= SHORTEST_PREFIX else [])
    if len(found) == 1:
        return found[0]
    if found:
        what = "label" if labelled else "prefix"
        raise AmbiguousReferenceError(
            f"{len(found)} entries fit the {what} {ref}",
            candidates=tuple(found),
            hint="use the whole id: " + " ".join(found[:8]),
        )
    raise EntryNotFoundError(
        f"There is no entry, branch or label {ref} in session {session_id}", hint="see them with: pi-session tree --all"
    )


def _relative(store: Reading, session_id: str, ref: str) -> str | None:
    leaf = store.leaf(session_id)
    if ref == "@":
        return leaf
    steps = ref.removeprefix("@-")
    if steps == ref or not steps.isascii() or not steps.isdigit() or int(steps) < 1:
        raise InvalidReferenceError(
            f"{ref!r} names no entry",
            hint="@ is the leaf, @-1 the last user message before it, @-2 the one before that",
        )
    back = int(steps)
    users = 0
    for entry in reversed(store.path(session_id)):
        if entry.role == "user":
            users += 1
            if users == back:
                return entry.id
    raise EntryNotFoundError(
        f"{ref} goes back too far: there are {users} user messages up to the leaf", hint="see them: pi-session log"
    )
