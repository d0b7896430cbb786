"""What a message list does not hold of the session it was made of, counted from the list as it was built.

Each entry of the session is either in the list (maybe as text) or counted once as missing; beyond that, what is missing
or changed inside of the messages that are in it is counted by kind. Pure.
"""

from __future__ import annotations

from collections import Counter

from pi_loop.target import CHAT
from pi_sessions.context import blocks_of, entry_messages, is_editable, latest_edits, to_llm
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.derived import FACT_TYPES
from pi_sessions.pairing import is_call, pair_results

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.message_lists import MessageList
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

# Repairs that keep a message out of the request; an unfinished answer with an answered call is in it, though.
_LEFT_OUT = {
    "unfinished_answer": words.UNFINISHED,
    "empty_message": words.BLANK,
    "unknown_role": words.UNKNOWN,
    "stray_result": words.STRAY,
    "duplicate_result": words.DUPLICATE,
}
_CHANGED = {
    "nameless_tool": words.TOOLS,
    "call_id": words.CALL_IDS,
    "tool_name": words.TOOL_NAMES,
    "bad_arguments": words.ARGUMENTS,
    "bad_parameters": words.TOOL_PARAMETERS,
    "lone_surrogate": words.HALF_CHARACTERS,
    "image_type": words.PICTURE_TYPES,
    "moved_result": words.MOVED_RESULTS,
    "empty_result": words.EMPTY_RESULTS,
    "missing_result": words.MADE_RESULTS,
    "answer_first": words.MADE_MESSAGES,
    "nothing_to_send": words.MADE_MESSAGES,
}
_FIELDS = frozenset(
    ("role", "content", "timestamp", "provider", "model", "api", "usage", "stopReason", "errorMessage", "details",
     "toolCallId", "toolName", "isError")
)  # fmt: skip
_ENTRY_FIELDS = frozenset(
    ("message", "summary", "content", "customType", "display", "details", "usage", "fromId", "firstKeptEntryId",
     "tokensBefore", "systemMessage")
)  # fmt: skip
_OTHER_FIELDS = {
    "system": {"sections", "toolsAdded", "toolsRemoved"},
    "custom": {"customType", "display"},
    "bashExecution": {
        "command", "output", "exitCode", "cancelled", "truncated", "fullOutputPath", "excludeFromContext",
    },
    "branchSummary": {"summary", "fromId"},
    "compactionSummary": {"summary", "tokensBefore"},
}  # fmt: skip
_BLOCK_FIELDS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "thinkingSignature", "redacted"},
    "toolCall": {"type", "id", "name", "arguments"},
    "image": {"type", "data", "mimeType"},
}
_TALK = ("user", "assistant")


def list_losses(export: Export, made: MessageList) -> dict[str, int]:
    """Return what a list does not hold or says differently: `{what: how many}`.

    Args:
        export: What the list was made of.
        made: The list.
    """
    lost = words.fact_losses(export, ())
    active = {entry.id for entry in made.active}
    lost[words.COMPACTED] = sum(
        entry.id not in active and entry.type not in FACT_TYPES and not _states_model(entry, made)
        for entry in made.path
    )
    held = _entry_losses(made, lost)
    messages = [each.message for each in made.messages if each.entry_id in held]
    _field_losses(made, held, messages, lost)
    _block_losses(made, messages, lost)
    _joined(made, messages, lost)
    for repair in made.request.repairs:
        if repair.code in _CHANGED:
            lost[_CHANGED[repair.code]] += 1
    if made.body.get("tool_choice") == {"type": "none"}:
        lost[words.MADE_TOOLS] += len(made.body["tools"])
    return words.counts_of(lost)


def _entry_losses(made: MessageList, lost: Counter[str]) -> dict[str, StoredEntry]:
    """Count the active entries that are not in the list, each once, and return the others."""
    held: dict[str, StoredEntry] = {}
    taken = {each.entry_id for each in made.messages}
    cut = {each.entry_id for each in made.cut}
    by_id = {entry.id: entry for entry in made.active}
    edits = {
        target: edit
        for target, edit in latest_edits(made.active).items()
        if target in by_id and _is_applied(edit, by_id[target])
    }
    applied = {edit.id for edit in edits.values()}
    left_out = _left_out(made)
    for place, entry in enumerate(made.active):
        own = entry_messages(entry)
        edit = edits.get(entry.id)
        word: str | None
        if entry.id in applied or _states_model(entry, made):
            continue
        if entry.type == "compaction" and place > 0:
            word = words.COMPACTED
        elif not own:
            word = words.kind_word(entry.type)
        elif edit is not None and edit.fields["replacement"] is None:
            word = words.OMITTED
        elif entry.id in cut:
            word = words.CUT
        elif entry.role == "bashExecution" and not to_llm(own[0]):
            word = words.KEPT_OUT
        else:
            word = left_out.get(entry.id)
        if word is not None:
            lost[word] += 1
        elif entry.id in taken:
            held[entry.id] = entry
            lost[words.ORIGINALS] += edit is not None
    return held


def _is_applied(edit: StoredEntry, target: StoredEntry) -> bool:
    return bool(entry_messages(target)) and (edit.fields["replacement"] is None or is_editable(target))


def _states_model(entry: StoredEntry, made: MessageList) -> bool:
    """Whether an entry is the last change of model, and to the one the list names."""
    if entry.type != "model_change" or entry.fields.get("modelId") != made.body["model"]:
        return False
    return entry is next(each for each in reversed(made.path) if each.type == "model_change")


def _left_out(made: MessageList) -> dict[str, str]:
    """Return the entries that were kept out of the request, with the word for each."""
    items = [(each.entry_id, message) for each in made.messages for message in to_llm(each.message)]
    items = [(entry_id, message) for entry_id, message in items if message["role"] != "system"]
    pairing = pair_results(
        [message["role"] for _entry_id, message in items],
        [blocks_of(message.get("content")) for _entry_id, message in items],
        [str(message.get("toolCallId") or "") for _entry_id, message in items],
    )
    answered = {items[place][0] for place, _block in pairing.results}
    return {
        repair.entry_id: _LEFT_OUT[repair.code]
        for repair in made.request.repairs
        if repair.entry_id is not None
        and repair.code in _LEFT_OUT
        # Of an unfinished answer, the calls that have results are sent.
        and not (repair.code == "unfinished_answer" and repair.entry_id in answered)
    }


def _field_losses(
    made: MessageList, held: dict[str, StoredEntry], messages: list[JsonObject], lost: Counter[str]
) -> None:
    """Count what messages in the list no longer say."""
    lost[words.STAMPS] = len(held)
    for message in messages:
        role = str(message.get("role"))
        if role in words.ROLES_AS_TEXT:
            lost[words.ROLES_AS_TEXT[role]] += 1
        lost[words.USAGES] += words.has_usage(message.get("usage"))
        lost[words.MODELS] += role == "assistant" and message.get("model") != made.body["model"]
        lost[words.REASONS] += bool(message.get("errorMessage"))
        lost[words.FAILURES] += message.get("isError") is True and made.request.target.api == CHAT
        lost[words.DETAILS] += message.get("details") is not None
        lost[words.MORE_FIELDS] += words.more_fields(message, _FIELDS | _OTHER_FIELDS.get(role, frozenset()))
    for entry in held.values():
        beside = {name: value for name, value in entry.fields.items() if name not in _ENTRY_FIELDS}
        if entry.type in ("compaction", "branch_summary"):
            lost[words.USAGES] += words.has_usage(entry.fields.get("usage"))
            lost[words.DETAILS] += entry.fields.get("details") is not None
        lost[words.MORE_FIELDS] += words.more_fields(beside, ())


def _block_losses(made: MessageList, messages: list[JsonObject], lost: Counter[str]) -> None:
    """Count the blocks of messages in the list that are not in it, or stand elsewhere."""
    chat = made.request.target.api == CHAT
    written = made.request.messages
    sent = Counter(block["type"] for message in written for block in message["content"])
    stored: Counter[str] = Counter()
    for shown in (shown for message in messages for shown in to_llm(message)):
        role, blocks = shown["role"], blocks_of(shown.get("content"))
        if role == "system":
            continue
        for block in blocks:
            kind = block.get("type")
            known = kind in ("text", "thinking") or is_call(block) if role == "assistant" else kind in ("text", "image")
            stored[str(kind) if known else ""] += kind != "thinking" or bool(
                block.get("thinking") or block.get("thinkingSignature")
            )
            lost[words.MORE_BLOCK_FIELDS] += known and words.more_fields(block, _BLOCK_FIELDS[str(kind)])
        if chat or role == "toolResult":
            texts = [block for block in blocks if block.get("type") == "text" and str(block.get("text") or "").strip()]
            lost[words.JOINED_TEXTS] += max(len(texts) - 1, 0)
    lost[words.OTHER_BLOCKS] = stored[""]
    lost[words.UNANSWERED] = stored["toolCall"] - sent["toolCall"]
    lost[words.PICTURES] = stored["image"] - sent["image"]
    lost[words.THINKING] = stored["thinking"] - sent["thinking"] + (_dropped_by_chat(made) if chat else 0)
    for message in written:
        if message["role"] == "toolResult" and (chat or message["isError"]):
            lost[words.MOVED_PICTURES] += sum(block["type"] == "image" for block in message["content"])


def _dropped_by_chat(made: MessageList) -> int:
    """Return how many thinking blocks a Chat Completions answer leaves out since it has details in their place."""
    dropped = 0
    for message in made.request.messages:
        wires = [block["wire"] for block in message["content"] if block["type"] == "thinking"]
        detailed = sum("reasoning_details" in wire for wire in wires)
        if detailed or any("detail" in block for block in message["content"]):
            dropped += len(wires) - detailed
    return dropped


def _joined(made: MessageList, messages: list[JsonObject], lost: Counter[str]) -> None:
    """Count messages that became one with the message before."""
    codes = Counter(repair.code for repair in made.request.repairs)
    put_in = codes["answer_first"] + codes["answer_last"] + codes["nothing_to_send"]
    talk = sum(shown["role"] in _TALK for message in messages for shown in to_llm(message))
    lost[words.JOINED] = talk - (sum(message["role"] in _TALK for message in made.request.messages) - put_in)
    prompts = [message for message in messages if message.get("role") == "system"]
    told = sum(bool(message.get("content") or message.get("sections")) for message in prompts)
    lost[words.JOINED_PROMPTS] = max(told - 1, 0)
