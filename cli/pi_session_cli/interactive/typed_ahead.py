"""What was typed before the prompt was there: its Enters send, as they were meant to.

Until the prompt takes the terminal over, the terminal itself turns an Enter into a line feed, which in the prompt
breaks a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.input import Input


def taken(keyboard: Input) -> list[KeyPress]:
    """Take the keys that were pressed until now."""
    keys: list[KeyPress] = []
    while pressed := keyboard.read_keys():
        keys += pressed
    return [KeyPress(Keys.ControlM, "\r") if key.key == Keys.ControlJ else key for key in keys]


def give(keyboard: Input, keys: list[KeyPress]) -> None:
    """Give keys to the prompt that comes next."""
    store_typeahead(keyboard, keys)
