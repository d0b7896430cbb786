"""One question to the person at a time, in the middle of a run; what they were typing waits and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from pi_session_cli.render.log import call_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.buffer import Buffer

    from pi_loop.tools.approval import Decision
    from pi_sessions.messages import JsonObject

ANSWERS: dict[str, Decision] = {
    "y": "once",
    "yes": "once",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
}


class Questions:
    """Asks about tool calls through the prompt.

    Args:
        buffer: Where the person types; None before there is a prompt.
        changed: Called when there is, or is no longer, a question.

    Attributes:
        text: The question in force, empty for none.
    """

    def __init__(self, buffer: Callable[[], Buffer | None], changed: Callable[[], None]) -> None:
        self._buffer = buffer
        self._changed = changed
        self._answered = anyio.Event()
        self._answer: Decision = "no"
        self.text = ""

    async def ask(self, name: str, args: JsonObject) -> Decision:
        """Ask about one call."""
        buffer = self._buffer()
        typed = buffer.text if buffer is not None else ""
        if buffer is not None:
            # What was typed until now was not meant as an answer.
            buffer.reset()
        self._answered = anyio.Event()
        asked = call_line({"name": name, "arguments": args}, False)
        self.text = f"Allow {asked}?  y yes, a always for {name}, n no"
        self._changed()
        try:
            await self._answered.wait()
            return self._answer
        finally:
            self.text = ""
            if buffer is not None and typed and not buffer.text:
                buffer.insert_text(typed)
            self._changed()

    def answer(self, text: str) -> bool:
        """Take an answer; False when it is none."""
        decision = ANSWERS.get(text.strip().lower())
        if decision is None:
            return False
        self._answer = decision
        self._answered.set()
        return True
