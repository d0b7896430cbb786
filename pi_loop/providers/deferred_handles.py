"""Answers that come later, as data: the handle a provider gives for one. Pure.

Source: OpenAI Responses API, background mode; Pi 1.6.0, deferred handles.
"""

from pi_loop.providers.assembly import object_of, text_of
from pi_loop.target import RESPONSES
from pi_loop.types import Model
from pi_sessions.messages import DeferredHandle, JsonObject

# The protocols over which an answer can come later.
LATER = (RESPONSES,)
PENDING = frozenset({"queued", "in_progress"})
POLL_AFTER_MS = 2000
_TOOL_NAMES = "toolNames"


def is_pending(payload: JsonObject) -> bool:
    """Whether a response object says that the provider is still at it."""
    return payload.get("status") in PENDING


def handle_of(payload: JsonObject, model: Model, tool_names: dict[str, str]) -> DeferredHandle | None:
    """Give the handle of a response that will be there later; None for one that is there already.

    Args:
        payload: The response object.
        model: The model asked.
        tool_names: Declared names by those sent to the model, where they differ; kept in the handle, since the answer
            will name tools as they were sent.
    """
    if not is_pending(payload) or not text_of(payload.get("id")):
        return None
    handle = DeferredHandle(
        provider=model.provider,
        model_id=model.id,
        api=model.api,
        id=text_of(payload.get("id")),
        poll_after_ms=POLL_AFTER_MS,
    )
    return handle.model_copy(update={"data": {_TOOL_NAMES: dict(tool_names)}}) if tool_names else handle


def declared_name_by(handle: DeferredHandle, sent: str) -> str:
    """Give the declared name of a tool that a deferred answer calls by the name it was sent."""
    names = object_of(object_of(handle.data).get(_TOOL_NAMES))
    return text_of(names.get(sent)) or sent
