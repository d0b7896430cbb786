"""What a model is shown of an earlier answer: its text, its calls, and its own thinking, nobody else's.

Thinking and signatures go back only to the provider and model that made them, over the protocol they came in, and
only where they can be replayed to the letter. To others they are not sent at all: as plain text they would be taken
for a part of the visible answer. What can be replayed is given in the protocol's own form under `wire`.

Source: Pi 1.6.0, request building; it differs in that a signature that cannot be read is left out instead of failing.
"""

from __future__ import annotations

import json

from pi_loop.chat_traits import REASONING_FIELDS, chat_traits
from pi_loop.repair.inputs import reported_text
from pi_loop.repair.well_formed import well_formed_text, well_formed_value
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_sessions.pairing import call_id_of, is_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pi_loop.repair.report import Report
    from pi_loop.target import Target
    from pi_sessions.stored import JsonObject

UNFINISHED = ("error", "aborted", "pending")
_LONGEST_ITEM_ID = 64


def is_own(message: JsonObject, target: Target) -> bool:
    """Whether an answer was made by the receiving provider and model over the same protocol."""
    made_by = (message.get("provider"), message.get("model"))
    return made_by == (target.provider, target.model) and message.get("api") in (target.api, None, "")


def is_unfinished(message: JsonObject) -> bool:
    """Whether an answer was cut off, so that what there is of it must not be replayed."""
    return message.get("stopReason") in UNFINISHED


def answer_blocks(
    message: JsonObject,
    blocks: Sequence[JsonObject],
    answered: Collection[int],
    target: Target,
    report: Report,
    entry_id: str,
) -> list[tuple[int, JsonObject]]:
    """Return what can be sent of an answer: text, thinking and calls, each with its place in the message.

    Args:
        message: The stored answer.
        blocks: Its content.
        answered: Places of the calls that have a result; of an unfinished answer only these are kept.
        target: Who receives it.
        report: Told about everything left out or changed.
        entry_id: The entry the answer comes from.

    Returns:
        Thinking has the protocol's own form under `wire`. Calls have the stored id, to be replaced by the caller.
        Empty when there is neither text nor call.
    """
    own = is_own(message, target)
    unfinished = is_unfinished(message)
    kept: list[tuple[int, JsonObject]] = []
    whole = own
    for place, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "text":
            text = block.get("text")
            if isinstance(text, str) and text.strip():
                kept.append((place, _text(block, reported_text(text, report, entry_id), target, own=own)))
            else:
                report.fault("empty_block", "An empty text block is not sent", entry_id)
        elif kind == "thinking":
            wire = None if unfinished else _replayed(block, message, target, report, entry_id, own=own)
            whole = whole and wire is not None
            if wire is not None:
                kept.append((place, {"type": "thinking", "wire": wire}))
        elif is_call(block):
            if place in answered or not unfinished:
                kept.append((place, _call(block, target, report, entry_id, own=own)))
        elif kind == "toolCall":
            report.fault("nameless_call", "A tool call that names no tool is not sent", entry_id)
        else:
            report.fault("unknown_block", f"A block of type {kind!r} cannot be sent in an answer", entry_id)
    while kept and kept[-1][1]["type"] == "thinking":
        # Thinking without anything after it is refused by Anthropic and by Responses.
        kept.pop()
        whole = False
    return kept if whole else [(place, _without_item_id(block)) for place, block in kept]


def _text(block: JsonObject, text: str, target: Target, *, own: bool) -> JsonObject:
    made: JsonObject = {"type": "text", "text": text}
    signature = block.get("textSignature")
    if target.api == RESPONSES and own and isinstance(signature, str) and signature:
        parsed = _parsed(signature) if signature.startswith("{") else {"id": signature}
        if isinstance(parsed, dict):
            if _is_item_id(parsed.get("id"), "msg_"):
                made["itemId"] = parsed["id"]
            if parsed.get("phase") in ("commentary", "final_answer"):
                made["phase"] = parsed["phase"]
    return made


def _call(block: JsonObject, target: Target, report: Report, entry_id: str, *, own: bool) -> JsonObject:
    stored = call_id_of(block)
    made: JsonObject = {
        "type": "toolCall",
        "id": stored,
        "name": block["name"],
        "arguments": _arguments(block, report, entry_id),
    }
    if own and target.api == RESPONSES:
        item_id = stored.partition("|")[2]
        if _is_item_id(item_id, "fc_"):
            made["itemId"] = item_id
        if isinstance(block.get("namespace"), str):
            made["namespace"] = block["namespace"]
    if own and target.api == CHAT:
        detail = _parsed(block.get("thoughtSignature"))
        if isinstance(detail, dict) and detail.get("type") == "reasoning.encrypted":
            made["detail"] = well_formed_value(detail)
    return made


def _arguments(block: JsonObject, report: Report, entry_id: str) -> JsonObject:
    arguments = block.get("arguments")
    if isinstance(arguments, str):
        parsed = _parsed(arguments) if arguments.strip() else {}
        arguments = parsed if isinstance(parsed, dict) else arguments
    if not isinstance(arguments, dict):
        if arguments is not None:
            sentence = f"Arguments of {block['name']} that are no JSON object are sent as an empty one"
            report.fault("bad_arguments", sentence, entry_id)
        return {}
    clean = well_formed_value(arguments)
    if clean is not arguments:
        report.fault("lone_surrogate", "Arguments that are no valid JSON text are sent corrected", entry_id)
    return dict(clean)


def _replayed(
    block: JsonObject, message: JsonObject, target: Target, report: Report, entry_id: str, *, own: bool
) -> JsonObject | None:
    if not own:
        maker = f"{message.get('provider') or 'unknown'}/{message.get('model') or 'unknown'}"
        sentence = f"Thinking of {maker} is not sent to {target.provider}/{target.model}"
        report.adapt("foreign_thinking", sentence, entry_id)
        return None
    thinking, signature = block.get("thinking"), block.get("thinkingSignature")
    text = thinking if isinstance(thinking, str) else ""
    mark = signature if isinstance(signature, str) else ""
    if target.api == ANTHROPIC:
        wire = _anthropic_thinking(text, mark, target, redacted=block.get("redacted") is True)
    elif target.api == RESPONSES:
        wire = _responses_thinking(mark)
    else:
        wire = _chat_thinking(text, mark, target)
    if wire is None:
        report.adapt("unsigned_thinking", "Thinking that cannot be replayed is not sent", entry_id)
    return wire


def _anthropic_thinking(text: str, signature: str, target: Target, *, redacted: bool) -> JsonObject | None:
    if signature.strip() and well_formed_text(signature) is signature:
        if redacted:
            return {"type": "redacted_thinking", "data": signature}
        # A signature holds for the exact text only.
        if well_formed_text(text) is text:
            return {"type": "thinking", "thinking": text, "signature": signature}
    if text.strip() and not redacted and target.trait("allowEmptySignature", False):
        return {"type": "thinking", "thinking": well_formed_text(text), "signature": ""}
    return None


def _responses_thinking(signature: str) -> JsonObject | None:
    item = _parsed(signature)
    if not isinstance(item, dict) or item.get("type") != "reasoning" or not _is_item_id(item.get("id"), ""):
        return None
    # Requests say `store: false`, so an item that holds nothing itself would be looked up in vain.
    if not (item.get("encrypted_content") or item.get("content")):
        return None
    summary = item.get("summary")
    given = {key: value for key, value in item.items() if value is not None}
    return {**dict(well_formed_value(given)), "summary": summary if isinstance(summary, list) else []}


def _chat_thinking(text: str, signature: str, target: Target) -> JsonObject | None:
    if signature.startswith("["):
        details = _parsed(signature)
        if isinstance(details, list) and details and all(isinstance(detail, dict) for detail in details):
            return {"reasoning_details": well_formed_value(details)}
    traits = chat_traits(target)
    field = signature if signature in REASONING_FIELDS else None
    if field is None and (traits.reasoning_on_answers or traits.thinking_as_text):
        field = REASONING_FIELDS[0]
    return {field: well_formed_text(text)} if field and text.strip() else None


def _without_item_id(block: JsonObject) -> JsonObject:
    """Return a block without its id: an item whose reasoning is missing is refused when it comes under its own id."""
    return {key: value for key, value in block.items() if key != "itemId"} if "itemId" in block else block


def _is_item_id(value: object, prefix: str) -> bool:
    if not isinstance(value, str) or not value.startswith(prefix) or not 0 < len(value) <= _LONGEST_ITEM_ID:
        return False
    return value.isascii() and value.replace("_", "a").replace("-", "a").isalnum()


def _parsed(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
