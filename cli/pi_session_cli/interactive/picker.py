"""Choosing a session: a list that narrows as you type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VSplit, Window

from pi_session_cli.render.safe import one_line
from pi_sessions.errors import UsageError
from pi_sessions.session_search import SessionText, search_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyPressEvent

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Session

ROWS = 15


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
        self.found = list(sessions)
        self._search = Buffer(multiline=False, on_text_changed=lambda _: self.narrow(self._search.text))

    def narrow(self, query: str) -> None:
        """Keep the sessions that a query finds; a pattern that is not finished yet finds what the last one did."""
        try:
            hits = search_sessions(self._texts, query, sort="relevance" if query.strip() else "recent")
        except UsageError:
            return
        self.found = [self._all[hit.id] for hit in hits]
        self._place = 0

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
            title = one_line(session.name or session.first_message or "(no message)")
            start = f"{self._screen.when(session.updated_ms):>14}  {session.message_count:>5}  "
            line = start + self._screen.line(title, len(start) + 2)
            marked = place == self._place
            shown.append(("reverse" if marked else "", f"{'>' if marked else ' '} {line}\n"))
        if not self.found:
            shown.append(("", "  nothing fits\n"))
        return shown

    async def pick(self) -> Session | None:
        """Let the person choose; None when they leave without."""
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
                Window(FormattedTextControl("Enter opens, Esc leaves"), height=1, style="class:dim"),
            ]
        )
        app: Application[Any] = Application(
            layout=Layout(body, focused_element=self._search), key_bindings=keys, erase_when_done=True
        )
        chosen: Session | None = await app.run_async()
        return chosen
