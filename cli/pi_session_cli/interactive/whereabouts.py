"""Where the conversation stands in the store, and what somebody else has done to that place since.

The store is shared: another terminal may append to the branch, move it, switch to another one, or remove the session.
A prompt that would go somewhere else than the person saw last is held back once, and that is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.words import gist, speaker
from pi_sessions.errors import PiSessionError

if TYPE_CHECKING:
    from pi_session_cli.conversing import Conversation
    from pi_sessions.store import SessionStore
    from pi_sessions.stored import StoredEntry

SHOWN = 2
SHOWN_CHARS = 100


class Place(NamedTuple):
    """A place in a store: where the next prompt would go."""

    session_id: str
    removed: bool
    branch: str
    leaf: str | None


class Change(NamedTuple):
    """What somebody else has done, what to do about it, and what was said meanwhile."""

    told: str
    hint: str
    said: tuple[str, ...] = ()


class Whereabouts:
    """Remembers the place the person knows of.

    Args:
        store: Read only while nobody else uses it.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: Place | None = None

    def settle(self, talk: Conversation) -> None:
        """Take the place of now for known: what led to it was the person's own doing, or has been told."""
        try:
            self._known = self._place(talk)
        except PiSessionError:
            # The next prompt says what is wrong.
            self._known = None

    def change(self, talk: Conversation) -> Change | None:
        """Return what has changed since the place was known, None for nothing; it counts as told then.

        Raises:
            BranchError: the branch is no longer there.
        """
        before, now = self._known, self._place(talk)
        self._known = now
        if now.removed:
            hint = f"{self._store.way_back(now.session_id)} brings it back, /quit leaves"
            return Change("The session has been removed meanwhile", hint)
        if before is None or before == now or before.removed or before.session_id != now.session_id:
            return None
        if before.branch != now.branch:
            told = f"The session has been switched from {before.branch} to {now.branch} meanwhile"
            return Change(told, f"Enter sends it there, /switch {before.branch} goes back")
        return self._moved(before, now)

    def _moved(self, before: Place, now: Place) -> Change:
        path = self._store.path(now.session_id, now.leaf)
        ids = [entry.id for entry in path]
        if before.leaf is not None and before.leaf not in ids:
            told = f"{now.branch} has been moved meanwhile: it ends at {now.leaf or 'its start'} now"
            return Change(told, f"Enter sends it there, /rewind {before.leaf} --exact goes back to where you were")
        new = path[ids.index(before.leaf) + 1 :] if before.leaf is not None else path
        told = f"{now.branch} has moved on meanwhile: {count(len(new), 'entry', 'entries')} of somebody else's"
        aside = f", /fork --at {before.leaf} goes on from where you were" if before.leaf is not None else ""
        return Change(told, f"Enter sends it behind them{aside}", tuple(map(_line, _spoken(new)[-SHOWN:])))

    def _place(self, talk: Conversation) -> Place:
        session = self._store.session(talk.session.id)
        branch = talk.runner.branch or session.branch
        return Place(session.id, session.deleted, branch, self._store.leaf(session.id, branch))


def _spoken(entries: list[StoredEntry]) -> list[StoredEntry]:
    return [entry for entry in entries if entry.type == "message" and entry.role != "system"]


def _line(entry: StoredEntry) -> str:
    return f"  {one_line(speaker(entry))}: {one_line(gist(entry), SHOWN_CHARS)}"
