"""The response so far, kept as a log of changes: a delta costs the same however long the message is.

Invariant: a `PartialView` names a position in its log, and the log only grows, so a view always stands for the
message as it was when the view was made, however late somebody asks. The message itself is built on asking, never
before. Text arrives in runs of deltas to one block, and a run is one entry of the log with one growing buffer, so
memory follows the size of the message, not the number of deltas.

Differs from Pi 1.6.0, where `partial` is the provider's one live object.
"""

import io
from collections.abc import Mapping
from typing import TypeAlias

from pi_sessions.messages import (
    AssistantMessage,
    ContentBlock,
    TextContent,
    ThinkingContent,
)


class _TextRun:
    """Deltas appended to one text or thinking block."""

    __slots__ = ("buffer", "index", "length")

    def __init__(self, index: int) -> None:
        self.index = index
        self.length = 0
        # newline="" keeps every line break as it came.
        self.buffer = io.StringIO(newline="")


class _BlockSet:
    """A block put at an index."""

    __slots__ = ("block", "index")

    def __init__(self, index: int, block: ContentBlock) -> None:
        self.index = index
        self.block = block


class _FieldsSet:
    """Fields of the message itself, set while it is streamed (response id, usage)."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.fields = fields


_Change: TypeAlias = _TextRun | _BlockSet | _FieldsSet


class PartialLog:
    """The growing record of one streamed assistant message; `AssistantDraft` writes it."""

    __slots__ = ("_base_blocks", "_base_message", "_base_size", "_changes", "_last", "_run", "_start")

    def __init__(self, start: AssistantMessage) -> None:
        self._start = start
        self._changes: list[_Change] = []
        self._run: _TextRun | None = None
        # The state after the first `_base_size` changes, so that asking often does not replay from the beginning.
        self._base_size = 0
        self._base_message = start
        self._base_blocks: list[ContentBlock] = list(start.content)
        self._last: tuple[int, int, AssistantMessage] | None = None

    def append_text(self, index: int, delta: str) -> "PartialView":
        """Append a delta to the text or thinking block at an index."""
        run = self._run
        if run is None or run.index != index:
            run = self._run = _TextRun(index)
            self._changes.append(run)
        run.buffer.write(delta)
        run.length += len(delta)
        return PartialView(self, len(self._changes), run.length)

    def put_block(self, index: int, block: ContentBlock) -> "PartialView":
        """Put a block at an index: a new one at the end, or in place of another."""
        return self._add(_BlockSet(index, block))

    def set_fields(self, fields: Mapping[str, object]) -> "PartialView":
        """Set fields of the message, by their Python names."""
        return self._add(_FieldsSet(dict(fields)))

    def view(self) -> "PartialView":
        """Give the message as it is now."""
        return PartialView(self, len(self._changes), self._run.length if self._run else 0)

    def _add(self, change: _Change) -> "PartialView":
        self._run = None
        self._changes.append(change)
        return PartialView(self, len(self._changes), 0)

    def build(self, size: int, tail: int) -> AssistantMessage:
        """Build the message after `size` changes, the last of which, if a run of text, counts up to `tail`."""
        if self._last is not None and self._last[0] == size and self._last[1] == tail:
            return self._last[2]
        if size == 0:
            return self._start
        sealed = size - 1
        if sealed >= self._base_size:
            for change in self._changes[self._base_size : sealed]:
                self._base_message = _apply(change, self._base_message, self._base_blocks, None)
            self._base_size = sealed
            message, blocks = self._base_message, list(self._base_blocks)
        else:
            message, blocks = self._start, list(self._start.content)
            for change in self._changes[:sealed]:
                message = _apply(change, message, blocks, None)
        message = _apply(self._changes[sealed], message, blocks, tail)
        message = message.model_copy(update={"content": blocks})
        self._last = (size, tail, message)
        return message


def _apply(
    change: _Change, message: AssistantMessage, blocks: list[ContentBlock], length: int | None
) -> AssistantMessage:
    if isinstance(change, _TextRun):
        text = change.buffer.getvalue() if length is None else change.buffer.getvalue()[:length]
        block = blocks[change.index]
        if isinstance(block, TextContent):
            blocks[change.index] = block.model_copy(update={"text": block.text + text})
        elif isinstance(block, ThinkingContent):
            blocks[change.index] = block.model_copy(update={"thinking": block.thinking + text})
    elif isinstance(change, _BlockSet):
        if change.index < len(blocks):
            blocks[change.index] = change.block
        else:
            blocks.append(change.block)
    else:
        return message.model_copy(update=change.fields)
    return message


class PartialView:
    """A message being streamed, as it was at one moment; `message()` builds it."""

    __slots__ = ("_log", "_size", "_tail")

    def __init__(self, log: PartialLog, size: int, tail: int) -> None:
        self._log = log
        self._size = size
        self._tail = tail

    @classmethod
    def of(cls, message: AssistantMessage) -> "PartialView":
        """Give a view of a message that is there already."""
        return cls(PartialLog(message), 0, 0)

    def message(self) -> AssistantMessage:
        """Build the message; its stop reason is `pending`. Asking twice in a row builds it once."""
        return self._log.build(self._size, self._tail)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartialView) and self.message() == other.message()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PartialView(change={self._size}, length={self._tail})"
