"""The tree on a full screen: the picture, the marked entry beside it, and Pi's keys."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, VSplit, Window

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.width import fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.output import Output

    from pi_session_cli.interactive.browsing import Browsing
    from pi_session_cli.render.screen import Screen

WIDE = 100
PAGE = 10
FILTER_KEYS = {"c-d": "default", "c-t": "no-tools", "c-u": "user-only", "c-l": "labeled-only", "c-a": "all"}
FILTER_WORDS = {
    "default": "conversation",
    "no-tools": "no tools",
    "user-only": "user",
    "labeled-only": "labelled",
    "all": "all",
}
HELP = (
    "Enter rewind  Esc leave  type to search  ^F fork  ^B branch  L label  ^Z undo  ^Y redo  ^O filter  ^Left fold  "
    "^X copy"
)


class Browser:
    """Draws a `Browsing` and carries keys to it.

    Args:
        browsing: The tree.
        input, output: Of the terminal; the process's own by default.
    """

    def __init__(self, browsing: Browsing, *, input: Input | None = None, output: Output | None = None) -> None:
        self.browsing = browsing
        self._asked: tuple[str, Callable[[str], None]] | None = None
        self._typed = ""
        self._scrolled = 0
        self.app: Application[None] = Application(
            layout=Layout(self._body()),
            key_bindings=self._keys(),
            full_screen=True,
            input=input,
            output=output,
        )

    def run(self) -> None:
        """Browse until the person leaves."""
        self.app.run()

    # --- the screen -----------------------------------------------------------------------------------------------

    def _body(self) -> HSplit:
        wide = Condition(lambda: self._columns() >= WIDE)
        rows = Window(FormattedTextControl(self._rows, focusable=True, show_cursor=False), always_hide_cursor=True)
        beside = Window(FormattedTextControl(self._preview), wrap_lines=True, width=lambda: self._beside())
        below = Window(FormattedTextControl(self._preview), wrap_lines=True, height=lambda: self._below())
        return HSplit(
            [
                Window(FormattedTextControl(self._head), height=1, style="reverse"),
                VSplit([rows, ConditionalContainer(VSplit([Window(width=1, char="│"), beside]), wide)]),
                ConditionalContainer(HSplit([Window(height=1, char="─"), below]), ~wide),
                Window(FormattedTextControl(self._foot), height=1),
                Window(FormattedTextControl(lambda: fit(HELP, self._columns())), height=1, style="fg:ansibrightblack"),
            ]
        )

    def _columns(self) -> int:
        return int(self.app.output.get_size().columns)

    def _beside(self) -> int:
        return self._columns() * 2 // 5

    def _below(self) -> int:
        return max(int(self.app.output.get_size().rows) // 3, 3)

    def _row_count(self) -> int:
        rows = int(self.app.output.get_size().rows) - 3
        return max(rows if self._columns() >= WIDE else rows - self._below() - 1, 1)

    def _screen(self, columns: int) -> Screen:
        screen: Screen = self.browsing.ctx.screen.replace(columns=columns)
        return screen

    def _head(self) -> StyleAndTextTuples:
        session = self.browsing.session
        title = one_line(session.name or session.first_message or session.id)
        told = f" {title}  {session.branch}  [{FILTER_WORDS[self.browsing.filter]}]"
        search = f"  search: {one_line(self.browsing.search)}" if self.browsing.search else ""
        hidden = f"  {self.browsing.picture.hidden:,} hidden" if self.browsing.picture.hidden else ""
        return [("", fit(told + search + hidden, self._columns()))]

    def _rows(self) -> StyleAndTextTuples:
        columns = self._columns()
        columns = columns - self._beside() - 1 if columns >= WIDE else columns
        shown: StyleAndTextTuples = []
        for marked, line in self.browsing.window(self._row_count(), self._screen(columns)):
            painted = to_formatted_text(ANSI(line), style="reverse" if marked else "")
            shown += [*painted, ("", "\n")]
        return shown or [("", "Nothing fits")]

    def _preview(self) -> StyleAndTextTuples:
        columns = self._columns()
        screen = self._screen(self._beside() if columns >= WIDE else columns)
        lines = self.browsing.preview(screen)
        self._scrolled = max(0, min(self._scrolled, len(lines) - 1))
        return to_formatted_text(ANSI("\n".join(lines[self._scrolled :])))

    def _foot(self) -> StyleAndTextTuples:
        if self._asked is not None:
            return [("bold", f"{self._asked[0]} "), ("", one_line(self._typed)), ("reverse", " ")]
        return [("", fit(one_line(self.browsing.status), self._columns()))]

    # --- keys -----------------------------------------------------------------------------------------------------

    def _ask(self, question: str, then: Callable[[str], None]) -> None:
        if self.browsing.marked() is not None:
            self._asked, self._typed = (question, then), ""

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        asking = Condition(lambda: self._asked is not None)
        self._question_keys(keys, asking)
        browsing = self.browsing

        def on(*names: str) -> Callable[[Callable[[], None]], None]:
            """Bind keys to something done while nothing is asked."""

            def bind(act: Callable[[], None]) -> None:
                for name in names:

                    @keys.add(name, filter=~asking)
                    def _(event: KeyPressEvent) -> None:
                        act()

            return bind

        def step(by: int) -> Callable[[], None]:
            def act() -> None:
                self._scrolled = 0
                browsing.move(by)

            return act

        everything = len(browsing.tree.entries)
        for name, by in (("up", -1), ("down", 1), ("pageup", -PAGE), ("pagedown", PAGE)):
            on(name)(step(by))
        on("home")(step(-everything))
        on("end")(step(everything))
        for name, filter in FILTER_KEYS.items():
            on(name)(lambda filter=filter: browsing.show(filter))  # type: ignore[misc]
        on("c-o")(browsing.next_filter)
        on("enter")(browsing.rewind)
        on("c-f")(browsing.fork)
        on("c-z")(browsing.undo)
        on("c-y")(browsing.redo)
        on("c-left")(lambda: browsing.fold(open=False))
        on("c-right")(lambda: browsing.fold(open=True))
        on("L")(lambda: self._ask("Label (empty takes it off):", browsing.label))
        on("c-b")(lambda: self._ask("Name of the branch:", browsing.branch))
        on("T")(browsing.toggle_times)
        on("c-x")(self._copy)
        on("s-down")(lambda: self._scroll(3))
        on("s-up")(lambda: self._scroll(-3))
        on("backspace")(lambda: browsing.look_for(browsing.search[:-1]))
        self._other_keys(keys, asking)
        return keys

    def _other_keys(self, keys: KeyBindings, asking: Condition) -> None:
        """Bind what types a search and what leaves."""
        browsing = self.browsing

        @keys.add("escape", eager=True, filter=~asking)
        def clear_or_leave(event: KeyPressEvent) -> None:
            if browsing.search:
                browsing.look_for("")
            else:
                event.app.exit()

        @keys.add("c-c", eager=True)
        def leave(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add(Keys.Any, filter=~asking)
        def type_search(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                browsing.look_for(browsing.search + event.data)

    def _question_keys(self, keys: KeyBindings, asking: Condition) -> None:
        """Bind what answers a question."""

        @keys.add("enter", filter=asking)
        def answer(event: KeyPressEvent) -> None:
            assert self._asked is not None
            then, self._asked = self._asked[1], None
            then(self._typed)

        @keys.add("escape", eager=True, filter=asking)
        def give_up(event: KeyPressEvent) -> None:
            self._asked = None

        @keys.add("backspace", filter=asking)
        def shorten(event: KeyPressEvent) -> None:
            self._typed = self._typed[:-1]

        @keys.add(Keys.Any, filter=asking)
        def type_answer(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                self._typed += event.data

    def _scroll(self, by: int) -> None:
        self._scrolled += by

    def _copy(self) -> None:
        """Hand the entry's text to the terminal's clipboard (OSC 52)."""
        text = self.browsing.copied()
        if text:
            coded = base64.b64encode(text.encode("utf-8", "replace")).decode()
            self.app.output.write_raw(f"\x1b]52;c;{coded}\x07")
            self.app.output.flush()


def browse(browsing: Browsing, **terminal: Any) -> None:
    """Let a person browse until they leave."""
    Browser(browsing, **terminal).run()
