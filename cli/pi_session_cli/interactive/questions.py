"""One question to the person at a time, in the middle of a run; what they were typing waits and comes back.

Invariant: no call is approved before what it would do was written above the prompt and while its question cannot be
seen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from pi_loop.tools.proposals import proposal_of
from pi_session_cli.render import asking
from pi_session_cli.render.log import call_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.data_structures import Size

    from pi_loop.tools.approval import Decision
    from pi_loop.tools.proposals import Proposal
    from pi_loop.tools.workspace import Workspace
    from pi_session_cli.render.screen import Screen
    from pi_sessions.messages import JsonObject

ANSWERS: dict[str, Decision] = {
    "y": "once",
    "yes": "once",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
}
SHOW = ("s", "show")


class Questions:
    """Asks about tool calls through the prompt.

    Args:
        screen: How can be drawn.
        buffer: Where the person types.
        size: Gives the terminal's size.
        workspace: Gives where tools work.
        write: Writes a safe line above the prompt.
        changed: Called when there is, or is no longer, a question.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        buffer: Callable[[], Buffer],
        size: Callable[[], Size],
        workspace: Callable[[], Workspace],
        write: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._buffer = buffer
        self._size = size
        self._workspace = workspace
        self._write = write
        self._changed = changed
        self._answered = anyio.Event()
        self._answer: Decision = "no"
        self._name = ""
        self._call = ""
        self._hidden = 0
        self._proposal: Proposal | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a question."""
        return self._proposal is not None

    def rows(self) -> list[str]:
        """Return the question as it is shown, choices first; in a terminal too small for it, that it is."""
        columns = self._size().columns
        if not self.is_visible():
            return list(asking.wrapped(asking.TOO_SMALL, columns))
        return self._rows(columns)

    def is_visible(self) -> bool:
        """Whether the terminal has room for the question and a row to answer in."""
        size = self._size()
        return size.columns >= asking.NARROWEST and len(self._rows(size.columns)) < size.rows

    def _rows(self, columns: int) -> list[str]:
        return asking.question(self._name, self._call, columns, hidden=self._hidden)

    async def ask(self, name: str, args: JsonObject) -> Decision:
        """Show what a call would do, and ask about it."""
        work = partial(proposal_of, self._workspace(), name, args)
        proposal = await anyio.to_thread.run_sync(work)
        self._name, self._call = name, call_line({"name": name, "arguments": args}, False)
        self._proposal, self._answered = proposal, anyio.Event()
        self.show(whole=False)
        buffer = self._buffer()
        typed = buffer.text
        # What was typed until now was not meant as an answer.
        buffer.reset()
        self._changed()
        try:
            await self._answered.wait()
            return self._answer
        finally:
            self._proposal = None
            if typed and not buffer.text:
                buffer.insert_text(typed)
            self._changed()

    def show(self, *, whole: bool) -> None:
        """Write what the call in question would do above the prompt."""
        if self._proposal is None:
            return
        size = self._size()
        drawn = asking.draw(self._proposal, self._screen, size.columns, size.rows, whole=whole)
        self._hidden = drawn.hidden
        self._write("\n".join(drawn.lines))

    def answer(self, text: str) -> bool:
        """Take an answer; False when it is none."""
        decision = ANSWERS.get(text.strip().lower())
        if decision is None:
            return False
        self._write(self._screen.paint(asking.answered(self._call, text.strip(), self._size().columns), "dim"))
        self._answer = decision
        self._answered.set()
        return True
