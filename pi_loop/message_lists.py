"""Writes an export as the message list of a provider's API: what a model would be sent at the leaf, as one JSON object.

The object's fields go into a request as they are (`client.chat.completions.create(**json.load(file))`, or
`client.messages.create(max_tokens=..., **json.load(file))`): compactions and context edits are applied, every call has
its one result, ids fit the protocol. Built by the request and body builders of runs, so that an export is refused by no
provider that would take the run. What belongs to a single call (limits, cache marks, streaming) is left out.

Source: OpenAI Chat Completions API; Anthropic Messages API 2023-06-01.
"""

from __future__ import annotations

import json

from pi_loop.bodies import BodyOptions, body_for
from pi_loop.request import build_request
from pi_loop.target import ANTHROPIC, CHAT, Target
from pi_sessions.context import active_entries, build_context, path_settings
from pi_sessions.errors import NothingToExportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.request import BuiltRequest
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject

KEPT = ("model", "system", "tools", "tool_choice", "messages")
FALLBACK_MODELS = {ANTHROPIC: ("anthropic", "claude-sonnet-4-5"), CHAT: ("openai", "gpt-5")}


def openai_lines(export: Export) -> Iterator[str]:
    """Yield a Chat Completions object: `model`, `messages`, `tools` where there are any.

    Raises:
        NothingToExportError: the context is empty.
    """
    yield from _lines(export, CHAT)


def anthropic_lines(export: Export) -> Iterator[str]:
    """Yield a Messages object: `model`, `system`, `messages`, `tools` where there are any.

    Raises:
        NothingToExportError: the context is empty.
    """
    yield from _lines(export, ANTHROPIC)


def message_list(export: Export, api: str) -> JsonObject:
    """Return the object for a protocol.

    Args:
        export: Its path is flattened at its leaf; with `last`, only the last so many messages and their results.
        api: `openai-completions` or `anthropic-messages`.

    Raises:
        NothingToExportError: the context is empty.
    """
    path = export.path()
    model, level = path_settings(path)
    context = build_context(active_entries(path), model, level)
    messages = list(context.messages)
    if export.last is not None:
        roles = [each.message.get("role") for each in messages]
        places = [place for place, role in enumerate(roles) if role not in ("toolResult", "system")]
        start = places[-export.last] if len(places) > export.last else 0
        messages = [each for each, role in zip(messages[:start], roles, strict=False) if role == "system"] + messages[
            start:
        ]
    if not any(each.message.get("role") != "system" for each in messages):
        raise NothingToExportError("The context is empty, so there is no message to export")
    named = (model.provider, model.model_id) if model else FALLBACK_MODELS[api]
    request = build_request(messages, Target(*named, api))
    body = body_for(request, BodyOptions(cache_retention="none"))
    made = {name: body[name] for name in KEPT if name in body}
    if _ends_on_our_words(request):
        made["messages"] = made["messages"][:-1]
    return made


def _ends_on_our_words(request: BuiltRequest) -> bool:
    """Whether the request was given a last user message that nobody wrote."""
    return any(repair.code == "answer_last" for repair in request.repairs)


def _lines(export: Export, api: str) -> Iterator[str]:
    yield json.dumps(message_list(export, api), ensure_ascii=False, indent=2) + "\n"
