"""AgentState: what an agent knows of its conversation, and how events change it.

Only `begin`, `reduce` and `settle` change what a run owns; model, level, tools and messages are the caller's to
assign between runs. The message being streamed is kept as a lazy view.

Source: Pi 1.6.0, "Agent".
"""

from collections.abc import Iterable, Sequence

from pi_loop.declarations import current_system_prompt, initial_system_message
from pi_loop.events import (
    AgentEnd,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from pi_loop.types import Model, Tool
from pi_sessions.messages import AssistantMessage, Message, ThinkingLevel


class AgentState:
    """The state of one agent.

    Attributes:
        model: The model of the next run.
        thinking_level: The level of the next run.
        is_streaming: Whether a run is in progress, the listeners of its end included.
        error_message: What the last run failed with; None if it did not.
    """

    def __init__(
        self,
        *,
        model: Model,
        thinking_level: ThinkingLevel,
        system_prompt: str,
        tools: Sequence[Tool],
        messages: Sequence[Message],
    ) -> None:
        self.model = model
        self.thinking_level: ThinkingLevel = thinking_level
        self.is_streaming = False
        self.error_message: str | None = None
        self._tools = list(tools)
        self._messages = list(messages)
        self._streaming: Message | MessageUpdate | None = None
        # Ids in the order of their start; a dict, so that a thousand parallel calls stay linear.
        self._pending: dict[str, None] = {}
        if not self._messages or self._messages[0].role != "system":
            initial = initial_system_message(system_prompt, self._tools)
            if initial is not None:
                self._messages.insert(0, initial)

    @property
    def system_prompt(self) -> str:
        """The prompt in force, replayed from the system messages."""
        return current_system_prompt(self._messages)

    @property
    def tools(self) -> list[Tool]:
        """The live list of executable tools; assigning copies."""
        return self._tools

    @tools.setter
    def tools(self, tools: Iterable[Tool]) -> None:
        self._tools = list(tools)

    @property
    def messages(self) -> list[Message]:
        """The live transcript; assigning copies."""
        return self._messages

    @messages.setter
    def messages(self, messages: Iterable[Message]) -> None:
        self._messages = list(messages)

    @property
    def streaming_message(self) -> Message | None:
        """The message between its start and its end, built on asking."""
        streaming = self._streaming
        return streaming.message if isinstance(streaming, MessageUpdate) else streaming

    @property
    def pending_tool_calls(self) -> tuple[str, ...]:
        """Ids of the calls between their start and their end, oldest first."""
        return tuple(self._pending)

    def begin(self) -> None:
        """A run starts."""
        self.is_streaming = True
        self._streaming = None
        self.error_message = None

    def settle(self) -> None:
        """A run is over; nothing of it is left open."""
        self.is_streaming = False
        self._streaming = None
        self._pending = {}

    def reduce(self, event: LoopEvent) -> None:
        """Take in one event of a run."""
        if isinstance(event, MessageUpdate):
            self._streaming = event
        elif isinstance(event, MessageStart):
            self._streaming = event.message
        elif isinstance(event, MessageEnd):
            self._streaming = None
            self._messages.append(event.message)
        elif isinstance(event, ToolExecutionStart):
            self._pending[event.tool_call_id] = None
        elif isinstance(event, ToolExecutionEnd):
            self._pending.pop(event.tool_call_id, None)
        elif isinstance(event, TurnEnd):
            if isinstance(event.message, AssistantMessage) and event.message.error_message:
                self.error_message = event.message.error_message
        elif isinstance(event, AgentEnd):
            self._streaming = None
