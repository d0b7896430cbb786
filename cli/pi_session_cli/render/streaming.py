"""A run as it happens: its text on stdout, its doings on stderr; or each event as a line of JSON.

Text that was written cannot be taken back: when an answer fails after its beginning, stderr says so. Lines of JSON
carry what was added, never the message so far, so a long answer stays linear.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pi_loop.events import (
    MessageEnd,
    MessageUpdate,
    TextDelta,
    TextEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    event_to_wire,
)
from pi_loop.runner_types import BranchDiverged, CompactionEnd, CompactionStart, RetryStart
from pi_session_cli.render import write_json
from pi_session_cli.render.log import call_line
from pi_session_cli.render.safe import escapes, hide_strange, one_line, sentences
from pi_sessions.messages import AssistantMessage, TextContent

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from pi_loop.events import AssistantMessageEvent, LoopEvent, ToolResult
    from pi_loop.runner_types import RunnerEvent

SHOWN_CHARS = 160
CUT_OFF = "The answer was cut off at the token limit: ask for less, or let the model go on"
FAILED = "The text before this is the beginning of an answer that failed"


class RunPrinter:
    """Writes a run. That it cannot be shown never changes what is stored of it.

    Args:
        stdout: Gets the text, or the lines of JSON.
        stderr: Gets the talk; None for none.
        as_json: Lines of JSON instead of text.
        terminal: Whether stdout is one, which must not get what content would have it do.
        gone: Called when whoever reads stdout has gone.

    Attributes:
        failure: Why stdout is not written to any more.
        told: Sentences about compactions that were shown.
    """

    def __init__(
        self, stdout: TextIO, stderr: TextIO | None, *, as_json: bool, terminal: bool, gone: Callable[[], None]
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._as_json = as_json
        self._terminal = terminal
        self._gone = gone
        self._at_line_start = True
        self._held = ""
        self._has_begun = False
        self.failure: OSError | None = None
        self.told: set[str] = set()

    def hear(self, event: LoopEvent | RunnerEvent) -> None:
        """Write one event."""
        if not self._as_json:
            self._show(event)
        elif self.failure is None:
            try:
                write_json(event_to_wire(event, partials=False), self._stdout)  # type: ignore[arg-type]
                self._stdout.flush()
            except OSError as error:
                self._fail(error)

    def _show(self, event: LoopEvent | RunnerEvent) -> None:
        if isinstance(event, MessageUpdate):
            self._stream(event.assistant_message_event)
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._end_answer(event.message)
        elif isinstance(event, ToolExecutionStart):
            self._talk(f"> {call_line({'name': event.tool_name, 'arguments': event.args}, False)}")
        elif isinstance(event, ToolExecutionEnd) and event.is_error:
            self._talk(f"  failed: {first_line(event.result)}")
        elif isinstance(event, BranchDiverged):
            self._talk(event.message)
        elif isinstance(event, RetryStart):
            self._talk(retry_line(event))
        elif isinstance(event, CompactionStart):
            self._talk("Compacting: the context has become too long")
        elif isinstance(event, CompactionEnd):
            line = compaction_line(event)
            self.told.add(line)
            self._talk(line)

    def _stream(self, event: AssistantMessageEvent) -> None:
        if isinstance(event, TextDelta):
            self._has_begun = True
            self._write(event.delta)
        elif isinstance(event, TextEnd):
            self._end_line()

    def _end_answer(self, message: AssistantMessage) -> None:
        self._end_line()
        if message.stop_reason == "length":
            self._talk(CUT_OFF)
        elif message.stop_reason == "error" and self._has_begun:
            self._talk(FAILED)
        self._has_begun = False

    def _write(self, text: str) -> None:
        if self._terminal:
            text, self._held = self._held + text, ""
            if text.endswith("\r"):
                # It may be the first half of a line end.
                text, self._held = text[:-1], "\r"
            text = safe_text(text)
        if text and self.failure is None:
            try:
                self._stdout.write(text)
                self._stdout.flush()
            except OSError as error:
                self._fail(error)
            self._at_line_start = text.endswith("\n")

    def _fail(self, error: OSError) -> None:
        self.failure = error
        if isinstance(error, BrokenPipeError):
            self._gone()

    def _end_line(self) -> None:
        self._held = ""
        if not self._at_line_start:
            self._write("\n")

    def _talk(self, text: str) -> None:
        self._end_line()
        if self._stderr is not None:
            with suppress(OSError):
                self._stderr.write(one_line(text, 2000) + "\n")
                self._stderr.flush()


def safe_text(text: str) -> str:
    """Return text whose only control characters are line feeds."""
    table = {**escapes(in_a_block=True), 0x0A: "\n"}
    return hide_strange(text.replace("\r\n", "\n").translate(table))


def first_line(result: ToolResult) -> str:
    """Return the first words of a tool's result."""
    text = "\n".join(block.text for block in result.content or () if isinstance(block, TextContent))
    return one_line(text.strip().partition("\n")[0], SHOWN_CHARS)


def retry_line(event: RetryStart) -> str:
    """Return why an answer is asked for again, and when."""
    reason = sentences(event.error_message).rstrip(".")
    return f"{reason}; asking again in {event.delay_ms / 1000:.0f} s ({event.attempt}/{event.max_attempts})"


def compaction_line(event: CompactionEnd) -> str:
    """Return how a compaction ended."""
    if event.entry_id is None:
        return f"Not compacted: {sentences(event.error_message or 'aborted')}"
    return f"Compacted {event.tokens_before:,} tokens to {event.tokens_after:,} (estimated) in {event.entry_id}"
