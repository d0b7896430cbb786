"""What the keys do: Enter sends or steers, Alt+Enter follows up or breaks the line, Ctrl-C stops the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.key_binding import KeyBindings

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPressEvent


class Listener(Protocol):
    """Who hears of the keys."""

    is_working: bool
    follows_up: bool

    def interrupt(self) -> bool:
        """Stop what is going on; False when nothing is."""
        ...

    def hint(self, text: str) -> None:
        """Tell the person something."""
        ...


def bindings(listener: Listener) -> KeyBindings:
    """Return the key bindings of the prompt."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        listener.follows_up = False
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def follow_up(event: KeyPressEvent) -> None:
        if listener.is_working:
            listener.follows_up = True
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    @keys.add("c-j")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def stop(event: KeyPressEvent) -> None:
        if listener.interrupt():
            return
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            listener.hint("Ctrl-D or /quit leaves")

    return keys
