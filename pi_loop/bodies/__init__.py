"""One pure body builder per protocol: a built request and options in, the JSON object that is sent out.

No transport, no pydantic: a command that shows a body imports neither httpx nor a model library. Headers, addresses
and keys are the provider modules' task.
"""

from __future__ import annotations

from pi_loop.bodies.options import BodyOptions, BodySettings
from pi_loop.target import ANTHROPIC, CHAT, PROTOCOLS, RESPONSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.request import BuiltRequest
    from pi_sessions.stored import JsonObject

__all__ = ["BodyOptions", "BodySettings", "UnknownProtocolError", "body_for"]


class UnknownProtocolError(ValueError):
    """No body builder speaks the protocol that a model names."""


def body_for(request: BuiltRequest, options: BodySettings) -> JsonObject:
    """Return the body of a request in the protocol of its target.

    Raises:
        UnknownProtocolError: the target's `api` is none of `pi_loop.target.PROTOCOLS`.
    """
    # Imported by need: a process speaks one protocol.
    api = request.target.api
    if api == ANTHROPIC:
        from pi_loop.bodies.anthropic import anthropic_body

        return anthropic_body(request, options)
    if api == RESPONSES:
        from pi_loop.bodies.openai_responses import responses_body

        return responses_body(request, options)
    if api == CHAT:
        from pi_loop.bodies.openai_chat import chat_body

        return chat_body(request, options)
    raise UnknownProtocolError(f"The protocol {api!r} is none of {', '.join(PROTOCOLS)}")
