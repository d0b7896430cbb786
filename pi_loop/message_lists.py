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
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.request import BuiltRequest
    from pi_sessions.context import ContextMessage
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

KEPT = ("model", "system", "tools", "tool_choice", "messages")
FALLBACK_MODELS = {ANTHROPIC: ("anthropic", "claude-sonnet-4-5"), CHAT: ("openai", "gpt-5")}


class MessageList(Record):
    """A list as it is written, and what it was made of.

    Attributes:
        body: The object.
        request: What the body was built from.
        messages: What was taken into the request.
        cut: What was left out because only the last so many messages are wanted.
        path: The entries up to the leaf.
        active: Those that count there (`context.active_entries`).
    """

    body: JsonObject
    request: BuiltRequest
    messages: tuple[ContextMessage, ...]
    cut: tuple[ContextMessage, ...]
    path: tuple[StoredEntry, ...]
    active: tuple[StoredEntry, ...]


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


def openai_losses(export: Export) -> dict[str, int]:
    """Return what the object of `openai_lines` does not hold or says differently: `{what: how many}`."""
    return _losses(export, CHAT)


def anthropic_losses(export: Export) -> dict[str, int]:
    """Return what the object of `anthropic_lines` does not hold or says differently: `{what: how many}`."""
    return _losses(export, ANTHROPIC)


def message_list(export: Export, api: str) -> MessageList:
    """Return the list for a protocol.

    Args:
        export: Its path is flattened at its leaf; with `last`, only the last so many messages and their results.
        api: `openai-completions` or `anthropic-messages`.

    Raises:
        NothingToExportError: the context is empty.
    """
    path = export.path()
    model, level = path_settings(path)
    active = active_entries(path)
    messages = list(build_context(active, model, level).messages)
    cut: list[ContextMessage] = []
    if export.last is not None:
        places = [place for place, each in enumerate(messages) if _role(each) not in ("toolResult", "system")]
        start = places[-export.last] if len(places) > export.last else 0
        cut = [each for each in messages[:start] if _role(each) != "system"]
        messages = [each for each in messages[:start] if _role(each) == "system"] + messages[start:]
    if all(_role(each) == "system" for each in messages):
        raise NothingToExportError("The context is empty, so there is no message to export")
    named = (model.provider, model.model_id) if model and model.model_id else FALLBACK_MODELS[api]
    request = build_request(messages, Target(*named, api))
    body = body_for(request, BodyOptions(cache_retention="none"))
    made = {name: body[name] for name in KEPT if name in body}
    if _ends_on_our_words(request):
        made["messages"] = made["messages"][:-1]
    return MessageList(made, request, tuple(messages), tuple(cut), tuple(path), tuple(active))


def _role(message: ContextMessage) -> object:
    return message.message.get("role")


def _ends_on_our_words(request: BuiltRequest) -> bool:
    """Whether the request was given a last user message that nobody wrote."""
    return any(repair.code == "answer_last" for repair in request.repairs)


def _lines(export: Export, api: str) -> Iterator[str]:
    yield json.dumps(message_list(export, api).body, ensure_ascii=False, indent=2) + "\n"


def _losses(export: Export, api: str) -> dict[str, int]:
    from pi_loop.message_list_losses import list_losses

    return list_losses(export, message_list(export, api))
