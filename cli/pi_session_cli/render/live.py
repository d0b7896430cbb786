"""A conversation as it happens in a terminal: who speaks, answers in Markdown, tools and what came of them.

Whole lines are written once and stay. The line being streamed is kept as `partial`, for whoever draws the prompt.
Nothing of the content reaches the terminal unescaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pi_loop.events import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from pi_loop.runner_types import BranchDiverged, CompactionEnd, CompactionStart, RetryStart, RunEnd
from pi_session_cli.render.log import call_line
from pi_session_cli.render.markdown import MarkdownLines
from pi_session_cli.render.safe import block, one_line, sentences
from pi_session_cli.render.screen import count
from pi_session_cli.render.streaming import CUT_OFF, compaction_line, retry_line
from pi_sessions.messages import AssistantMessage, TextContent, UserMessage, block_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from pi_loop.events import LoopEvent, ToolResult
    from pi_loop.runner_types import RunnerEvent
    from pi_session_cli.render.screen import Screen

RESULT_LINES = 6
DIFF_LINES = 40
DIFF_STYLES = {"+": "green", "-": "red"}


class LivePrinter:
    """Writes events for a person.

    Args:
        out: The terminal; lines written to it appear above the prompt.
        screen: How it can be drawn on.
        changed: Called when `partial` has changed.
        wording: Puts the commands in a sentence of the program's as they are typed here.

    Attributes:
        partial: The safe line that is being streamed, or what goes on; empty for nothing.
        told: Sentences about compactions that were shown.
        failure: Why the terminal cannot be written to any more.
    """

    def __init__(
        self,
        out: TextIO,
        screen: Screen,
        changed: Callable[[], None],
        wording: Callable[[str], str] = str,
    ) -> None:
        self._out = out
        self._screen = screen
        self._changed = changed
        self.wording = wording
        self._markdown = MarkdownLines(screen)
        self._text = ""
        self._goes_on = False
        self.partial = ""
        self.told: set[str] = set()
        self.failure: OSError | None = None

    def hear(self, event: LoopEvent | RunnerEvent) -> None:
        """Write one event."""
        if isinstance(event, MessageUpdate):
            self._update(event)
        elif isinstance(event, MessageStart) and isinstance(event.message, UserMessage):
            self.user(" ".join(block_texts(event.message.content)))
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._flush()
            self._set_partial("")
            if event.message.stop_reason == "length":
                self.note(CUT_OFF)
        elif isinstance(event, ToolExecutionStart):
            call = call_line({"name": event.tool_name, "arguments": event.args}, False)
            self.write(self._screen.paint(f"{self._screen.signs.active} {call}", "yellow"))
        elif isinstance(event, ToolExecutionUpdate):
            self._set_partial(one_line(text_of(event.partial_result).rstrip().rpartition("\n")[2], 200))
        elif isinstance(event, ToolExecutionEnd):
            self._set_partial("")
            self._result(event)
        else:
            self._runner_event(event)

    def _runner_event(self, event: LoopEvent | RunnerEvent) -> None:
        if isinstance(event, BranchDiverged):
            self.note(event.message)
        elif isinstance(event, RetryStart):
            self.note(retry_line(event))
        elif isinstance(event, CompactionStart):
            self._set_partial("Compacting ...")
        elif isinstance(event, CompactionEnd):
            self._set_partial("")
            # What a person asked for and did not get is told by the command's error.
            if event.reason != "manual" or event.entry_id is not None:
                line = compaction_line(event)
                self.told.add(line)
                self.note(line)
        elif isinstance(event, RunEnd):
            self._set_partial("")
            if event.status == "error":
                self.error(f"The run ended in error: {event.error_message or 'no reason given'}")
            elif event.status == "aborted":
                self.note("Aborted; what was said so far is stored")

    # --- lines --------------------------------------------------------------------------------------------------

    def user(self, text: str) -> None:
        """Write what the person said."""
        for place, line in enumerate(block(text.strip("\n"))):
            self.write(self._screen.paint(f"{'>' if place == 0 else ' '} {line}", "cyan", "bold"))

    def note(self, text: str) -> None:
        """Write a sentence of the program's."""
        for line in block(self.wording(text)):
            self.write(self._screen.paint(line, "dim"))

    def error(self, text: str, hint: str | None = None) -> None:
        """Write what went wrong and what gets further."""
        self.write(self._screen.paint(sentences(text), "red"))
        if hint:
            self.note(f"Hint: {sentences(hint)}")

    def write(self, line: str) -> None:
        """Write one line that is safe already."""
        if self.failure is not None:
            return
        try:
            self._out.write(line + "\n")
            self._out.flush()
        except OSError as error:
            # A terminal that has gone changes nothing about the run.
            self.failure = error

    # --- answers ------------------------------------------------------------------------------------------------

    def _update(self, event: MessageUpdate) -> None:
        inner = event.assistant_message_event
        if isinstance(inner, TextStart):
            self._flush()
            self._markdown.begin()
        elif isinstance(inner, TextDelta):
            self._stream(inner.delta)
        elif isinstance(inner, TextEnd):
            self._flush()
            self._set_partial("")
        elif isinstance(inner, ThinkingDelta):
            self._set_partial("(thinking ...)")
        elif isinstance(inner, ThinkingEnd):
            self._set_partial("")
            if inner.content.strip():
                self.note(f"(thought, {count(len(inner.content), 'character')})")

    def _stream(self, delta: str) -> None:
        whole, feed, rest = (self._text + delta).rpartition("\n")
        if feed:
            for line in whole.split("\n"):
                self._piece(line, ends=True)
        self._text = rest
        columns = self._screen.columns or 80
        while len(self._text) > columns and " " in self._text[1:columns]:
            cut = self._text.rindex(" ", 1, columns)
            self._piece(self._text[:cut], ends=False)
            self._text = self._text[cut + 1 :]
        self._set_partial(one_line(self._text, columns))

    def _flush(self) -> None:
        if self._text:
            text, self._text = self._text, ""
            self._piece(text, ends=True)
        self._goes_on = False

    def _piece(self, text: str, *, ends: bool) -> None:
        """Write a line of an answer, or what of it fits the terminal."""
        self.write(self._markdown.line(text, goes_on=self._goes_on))
        self._goes_on = not ends

    def _result(self, event: ToolExecutionEnd) -> None:
        details = event.result.details
        diff = details.get("diff") if isinstance(details, dict) else None
        if isinstance(diff, str) and not event.is_error:
            lines, most = list(block(diff)), DIFF_LINES
        else:
            lines, most = list(block(text_of(event.result).strip("\n"))), RESULT_LINES
        for line in lines[:most]:
            style = "red" if event.is_error else DIFF_STYLES.get(line[:1], "dim") if diff else "dim"
            self.write(self._screen.paint(f"  {line}", style))
        if len(lines) > most:
            self.write(self._screen.paint(f"  ({count(len(lines) - most, 'more line')})", "dim"))

    def _set_partial(self, text: str) -> None:
        if text != self.partial:
            self.partial = text
            self._changed()


def text_of(result: ToolResult) -> str:
    """Return the text of a tool's result."""
    return "\n".join(block.text for block in result.content or () if isinstance(block, TextContent))
