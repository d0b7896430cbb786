"""Which sessions said something: the full-text search behind a list that narrows as you type.

One search at a time, in a thread; a newer query waits for the one that runs and takes the place of others that wait.
What the person has left is given up at the next possible place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread
from prompt_toolkit.utils import get_cwidth

from pi_sessions.errors import PiSessionError
from pi_sessions.search import search
from pi_sessions.session_search import PATTERN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from pi_sessions.reading import Reading

# In cells: two Chinese characters are a word, two Latin letters are not.
SHORTEST = 3
PLACES = 300


class Said(NamedTuple):
    """What was found for a query.

    Attributes:
        query: As it was typed.
        where: The words around the newest place by session id, with where the match lies in them; newest first.
        more: There are further places, which were not looked at.
    """

    query: str
    where: dict[str, tuple[str, int]]
    more: bool = False


class _GivenUp(Exception):
    """Nobody waits for the answer any more."""


class Overhearing:
    """Looks up what was said.

    Args:
        store: Used by nobody else until `run` has ended. One that can be written has its index brought up to date.
        heard: Called with each answer, between keys.
    """

    def __init__(self, store: Reading, heard: Callable[[Said], None]) -> None:
        self._store = store
        self._heard = heard
        self._wanted = ""
        self._asked = anyio.Event()
        self._leaving = False

    def ask(self, query: str) -> None:
        """Want to know where a query was said; the answer is heard later, and never for one that is too short."""
        self._wanted = query if is_looked_up(query) else ""
        if self._wanted:
            self._asked.set()

    async def run(self) -> None:
        """Answer until `leave`."""
        while not self._leaving:
            await self._asked.wait()
            self._asked = anyio.Event()
            query = self._wanted
            said = await anyio.to_thread.run_sync(self.look_up, query) if query else None
            if said is not None and query == self._wanted:
                self._heard(said)

    def leave(self) -> None:
        """Give up what is going on."""
        self._leaving = True
        self._asked.set()
        self._wanted = ""
        self._store.connection.interrupt()

    def look_up(self, query: str) -> Said | None:
        """Return where a query was said; None when it cannot be told."""
        try:
            result = search(self._store, query, limit=PLACES, progress=self._go_on)
        except (PiSessionError, _GivenUp):
            return None
        where: dict[str, tuple[str, int]] = {}
        for hit in result.hits:
            if hit.kind == "name":
                continue
            told = hit.snippet, hit.marks[0][0] if hit.marks else 0
            for session_id in (hit.session.id, *hit.shared):
                where.setdefault(session_id, told)
        return Said(query, where, result.more)

    def _go_on(self, indexed: int) -> None:
        if self._leaving:
            raise _GivenUp


def is_looked_up(query: str) -> bool:
    """Whether a query is looked up in what was said: it is long enough, and no pattern."""
    text = query.strip()
    return get_cwidth(text) >= SHORTEST and not text.startswith(PATTERN_PREFIX)
