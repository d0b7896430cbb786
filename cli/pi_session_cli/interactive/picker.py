"""Choosing a session: a list that narrows as you type, first by what it shows, then by what was said.

Order of what is found: names, first messages, ids and folders that have the words; sessions in which they were said;
those that only have the letters in this order somewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window

from pi_session_cli.interactive.overhearing import Overhearing, Said, is_looked_up
from pi_session_cli.render.safe import one_line
from pi_session_cli.render.width import fit, width
from pi_sessions.errors import UsageError
from pi_sessions.session_search import Query, SessionText, Token, match_session, parse_query, search_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent

    from pi_session_cli.render.screen import Screen
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

ROWS = 15
NOBODY = Said("", {})


class Picker:
    """A list of sessions with a search line.

    Args:
        sessions: Newest first.
        screen: For times and widths.
    """

    def __init__(self, sessions: Sequence[Session], screen: Screen) -> None:
        self._screen = screen
        self._all = {session.id: session for session in sessions}
        self._texts = [
            SessionText(
                session.id,
                session.name,
                session.cwd,
                f"{session.first_message or ''} {session.model or ''}",
                session.updated_ms,
            )
            for session in sessions
        ]
        self._place = 0
        self._said = NOBODY
        self._overhearing: Overhearing | None = None
        self._query = ""
        self._literal: set[str] = set()
        self.found = list(sessions)
        self._search = Buffer(multiline=False, on_text_changed=lambda _: self.narrow(self._search.text))

    def narrow(self, query: str) -> None:
        """Keep the sessions that a query finds; a pattern that is not finished yet finds what the last one did."""
        if not is_looked_up(query) or not query.startswith(self._said.query):
            self._said = NOBODY
        self._query = query
        self._place = 0
        self._find()
        if self._overhearing is not None:
            self._overhearing.ask(query)

    def hear(self, said: Said) -> None:
        """Take in where the query was said; the mark stays on its session once it was moved."""
        marked = self.chosen() if self._place else None
        self._said = said
        self._find()
        if marked in self.found:
            self._place = self.found.index(marked)

    def _find(self) -> None:
        query = self._query
        try:
            hits = search_sessions(self._texts, query, sort="relevance" if query.strip() else "recent")
            literal = Query(tuple(Token("phrase", token.value) for token in parse_query(query).tokens))
        except UsageError:
            return
        shown = [hit.id for hit in hits if match_session(hit, literal) is not None]
        # What is found twice stays where it is found first.
        order = dict.fromkeys([*shown, *self._said.where, *(hit.id for hit in hits)])
        self.found = [self._all[each] for each in order if each in self._all]
        self._literal = set(shown)

    def move(self, by: int) -> None:
        """Move the mark."""
        self._place = max(0, min(self._place + by, len(self.found) - 1))

    def chosen(self) -> Session | None:
        """Return the marked session, None when nothing is found."""
        return self.found[self._place] if self.found else None

    def rows(self) -> StyleAndTextTuples:
        """Return the visible part of the list as styled text."""
        first = max(0, min(self._place - ROWS // 2, len(self.found) - ROWS))
        shown: StyleAndTextTuples = []
        for place, session in enumerate(self.found[first : first + ROWS], first):
            start = f"{self._screen.when(session.updated_ms):>14}  {session.message_count:>5}  "
            line = start + self._told(session, len(start) + 2)
            marked = place == self._place
            shown.append(("reverse" if marked else "", f"{'>' if marked else ' '} {line}\n"))
        if not self.found:
            shown.append(("", "  nothing fits\n"))
        return shown

    def _told(self, session: Session, used: int) -> str:
        """Return what a row says: the session's name or beginning, and what was said in it that is looked for."""
        title = one_line(session.name or session.first_message or "(no message)")
        if session.id not in self._said.where or session.id in self._literal:
            return self._screen.line(title, used)
        room = max((self._screen.columns or 80) - used, 24)
        ellipsis = self._screen.signs.ellipsis
        short = fit(title, room // 3, ellipsis)
        text, start = self._said.where[session.id]
        room -= width(short) + 2
        if start > room // 3:
            text = ellipsis + text[start - room // 3 :]
        return f"{short}  {fit(one_line(text), room, ellipsis)}"

    def _hint(self) -> str:
        more = "; more was said than is shown, go on typing" if self._said.more else ""
        return f"Enter opens, Esc leaves{more}"

    async def pick(self, store: Reading | None = None) -> Session | None:
        """Let the person choose; None when they leave without.

        Args:
            store: Where what was said is looked up, used by nobody else meanwhile.
        """
        app = self._application()

        def hear(said: Said) -> None:
            self.hear(said)
            app.invalidate()

        chosen: Session | None = None
        gone: OSError | EOFError | None = None
        async with anyio.create_task_group() as tasks:
            if store is not None:
                self._overhearing = Overhearing(store, hear)
                tasks.start_soon(self._overhearing.run)
            try:
                chosen = await app.run_async()
            except (OSError, EOFError) as error:
                # Raised in here it would come out as a group.
                gone = error
            finally:
                if self._overhearing is not None:
                    self._overhearing.leave()
        if gone is not None:
            raise gone
        return chosen

    def _application(self) -> Application[Any]:
        keys = KeyBindings()

        @keys.add("up")
        def up(event: KeyPressEvent) -> None:
            self.move(-1)

        @keys.add("down")
        def down(event: KeyPressEvent) -> None:
            self.move(1)

        @keys.add("pageup")
        def page_up(event: KeyPressEvent) -> None:
            self.move(-ROWS)

        @keys.add("pagedown")
        def page_down(event: KeyPressEvent) -> None:
            self.move(ROWS)

        @keys.add("enter")
        def choose(event: KeyPressEvent) -> None:
            # With nothing found there is nothing to open; the words can be changed.
            if self.found:
                event.app.exit(result=self.chosen())

        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("escape", eager=True)
        def leave(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        search = VSplit(
            [Window(FormattedTextControl("Search: "), width=8), Window(BufferControl(self._search))], height=1
        )
        body = HSplit(
            [
                search,
                Window(FormattedTextControl(self.rows), height=ROWS, always_hide_cursor=True),
                Window(FormattedTextControl(self._hint), height=1, style="class:dim"),
            ]
        )
        return Application(layout=Layout(body, focused_element=self._search), key_bindings=keys, erase_when_done=True)
