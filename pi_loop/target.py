"""The model a request is for, as far as its shape depends on it. Pure and cheap to import: no pydantic.

A `Target` is a few plain values, so that a command that only shows a request needs no model registry and no transport.
`compat` and `thinking_levels` have the names Pi's `models.json` gives them.
"""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pi_loop.types import Model
    from pi_sessions.stored import JsonObject

ANTHROPIC = "anthropic-messages"
RESPONSES = "openai-responses"
CHAT = "openai-completions"
PROTOCOLS = (ANTHROPIC, RESPONSES, CHAT)
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
# Levels that only exist where a model's own map names them.
_NAMED_LEVELS = ("xhigh", "max")


class Target(Record):
    """A model and what it takes.

    Attributes:
        provider: Together with `model` it says whose signatures can be replayed.
        model: The model's id, as sent.
        api: The protocol; one of `PROTOCOLS`.
        vision: Whether it takes images.
        reasoning: Whether it can think.
        context_window: In tokens; 0 when unknown.
        max_tokens: Most tokens of an answer; 0 when unknown.
        base_url: Only told apart where servers of one protocol differ.
        compat: Exceptions to the protocol, as in `models.json`; None for none.
        thinking_levels: The provider's word for a level, None for a level it lacks.
    """

    provider: str
    model: str
    api: str
    vision: bool = True
    reasoning: bool = False
    context_window: int = 0
    max_tokens: int = 0
    base_url: str = ""
    compat: JsonObject | None = None
    thinking_levels: Mapping[str, str | None] | None = None

    def trait(self, name: str, default: object) -> object:
        """Return a setting of `compat`, the default where it is absent or null."""
        value = (self.compat or {}).get(name)
        return default if value is None else value

    def level(self, wanted: str | None) -> str:
        """Return the level nearest to a wanted one that the model has: the next higher one, else the next lower.

        Args:
            wanted: One of `LEVELS`; None and unknown words mean `off`.

        Source: Pi 1.6.0, thinking levels. Differs in that `off` stays `off` for a model that cannot stop thinking:
            the protocol modules then leave the level out.
        """
        if wanted is None or wanted not in LEVELS or wanted == "off" or not self.reasoning:
            return "off"
        place = LEVELS.index(wanted)
        levels = [*LEVELS[place:], *reversed(LEVELS[1:place])]
        return next((level for level in levels if self._has(level)), "off")

    def level_word(self, level: str) -> str:
        """Return the provider's word for a level."""
        return (self.thinking_levels or {}).get(level) or level

    def can_stop_thinking(self) -> bool:
        """Whether the level `off` exists for this model."""
        return (self.thinking_levels or {}).get("off", "off") is not None

    def _has(self, level: str) -> bool:
        words = self.thinking_levels or {}
        return words.get(level) is not None if level in words else level not in _NAMED_LEVELS


def target_of(model: Model) -> Target:
    """Return what a request needs to know of a model; its `thinkingLevelMap` is read where it has one."""
    levels = (model.model_extra or {}).get("thinkingLevelMap")
    return Target(
        provider=model.provider,
        model=model.id,
        api=model.api,
        vision="image" in model.input,
        reasoning=model.reasoning,
        context_window=model.context_window,
        max_tokens=model.max_tokens,
        base_url=model.base_url,
        compat=model.compat,
        thinking_levels=levels if isinstance(levels, dict) else None,
    )
