"""MessageQueue: messages waiting to go into a run, for steering and for follow-up.

A drain takes what `peek` shows: the oldest message, or all of them, by the mode at that moment.

Source: Pi 1.6.0, "Agent".
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

from pi_sessions.messages import Message

QueueMode: TypeAlias = Literal["one-at-a-time", "all"]


class MessageQueue:
    """Messages in the order in which they came; `mode` may change at any time."""

    __slots__ = ("_messages", "mode")

    def __init__(self, mode: QueueMode = "one-at-a-time", messages: Iterable[Message] = ()) -> None:
        self.mode: QueueMode = mode
        self._messages: deque[Message] = deque(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: Message) -> None:
        """Put a message at the end."""
        self._messages.append(message)

    def peek(self) -> list[Message]:
        """Give what the next drain would take, without taking it."""
        if self.mode == "all":
            return list(self._messages)
        return [self._messages[0]] if self._messages else []

    def waiting(self) -> list[Message]:
        """Give all messages, whatever the mode."""
        return list(self._messages)

    def drain(self) -> list[Message]:
        """Take the oldest message, or all of them."""
        taken = self.peek()
        for _ in taken:
            self._messages.popleft()
        return taken

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()
