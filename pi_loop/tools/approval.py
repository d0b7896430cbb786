"""Which tool calls need a person's word, and what becomes of those that do not get it.

Invariant: a call that changes something is executed only if the policy or a person approved it; every decision is in
the transcript: a refusal as the call's error result, an approval in the details of its result.

Source: ours; the hooks are Pi 1.6.0's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import anyio

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.coding import CHANGING
from pi_loop.types import AfterToolCall, BeforeToolCall, BlockDecision
from pi_sessions.messages import JsonObject, ToolCall

Decision = Literal["once", "always", "no"]
Ask = Callable[[str, JsonObject], Awaitable[Decision]]
UNATTENDED = (
    "The call was not executed: {tool} changes things and nobody is here to approve it. Go on without it, or say what "
    "the person should do."
)
REFUSED = "The call was not executed: the person refused it. Ask them before you try it again."


@dataclass(slots=True)
class Approval:
    """Decides on calls; `before` and `after` are the hooks of a run.

    What a person always allows is a tool, not a call, and ends with this object, unless another one takes its place.

    Args:
        free: Tools whose calls need nobody's word beyond those that change nothing; `all` for all.
        ask: Asks the person; None when nobody can be asked.
    """

    free: frozenset[str] = frozenset()
    ask: Ask | None = None
    # By identity, as a model may give two calls one id; the call itself is kept alive.
    _by: dict[int, tuple[ToolCall, str]] = field(default_factory=dict)
    _granted: set[str] = field(default_factory=set)
    _one_question: anyio.Lock = field(default_factory=anyio.Lock)

    async def before(self, call: BeforeToolCall, signal: AbortSignal | None) -> BlockDecision | None:
        """Let a call through, or block it with the reason."""
        name = call.tool_call.name
        if name not in CHANGING:
            return None
        if self._is_free(name):
            self._approve(call.tool_call, "person, always" if name in self._granted else "settings")
            return None
        if self.ask is None:
            return BlockDecision(block=True, reason=UNATTENDED.format(tool=name))
        decision: Decision = "no"
        async with self._one_question:
            if self._is_free(name):
                # An answer to an earlier question of the same batch settled this one.
                self._approve(call.tool_call, "person, always")
                return None
            if signal is None:
                decision = await self.ask(name, call.args)
            else:
                with signal.cancels():
                    decision = await self.ask(name, call.args)
        if decision == "no":
            return BlockDecision(block=True, reason=REFUSED)
        if decision == "always":
            self._granted.add(name)
        self._approve(call.tool_call, "person" if decision == "once" else "person, always")
        return None

    def after(self, call: AfterToolCall, signal: AbortSignal | None) -> ToolResult | None:
        """Put who approved a call into the details of its result."""
        _, by = self._by.pop(id(call.tool_call), (None, None))
        if by is None:
            return None
        details = call.result.details if isinstance(call.result.details, dict) else {}
        return ToolResult(details={**details, "approvedBy": by})

    @property
    def granted(self) -> tuple[str, ...]:
        """Tools the person always allows, sorted by name."""
        return tuple(sorted(self._granted))

    def take_over(self, earlier: "Approval") -> None:
        """Let go through what the person always allowed before; the caller sees to it that the same is meant.

        Args:
            earlier: The approval this one takes the place of.
        """
        self._granted |= earlier._granted

    def _approve(self, tool_call: ToolCall, by: str) -> None:
        self._by[id(tool_call)] = (tool_call, by)

    def _is_free(self, name: str) -> bool:
        return name in self._granted or "all" in self.free or name in self.free
