"""Turns a path into a context: what a model would be told if the conversation went on here.

Pure: same path, same context. No recursion, one pass over the path; entries nobody can make sense of give no message
and never an error. Does not read the database and does not repair anything: that is the request's task.

Source: Pi 1.6.0, context building.
"""

from __future__ import annotations

from pi_sessions.errors import EntryNotFoundError, InvalidEditError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry

COMPACTION_PREFIX = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"
)
COMPACTION_SUFFIX = "\n</summary>"
BRANCH_SUMMARY_PREFIX = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n"
BRANCH_SUMMARY_SUFFIX = "</summary>"
DEFAULT_THINKING_LEVEL = "off"
EDITABLE_ROLES = ("user", "assistant", "toolResult")

_CONTENT_ROLES = frozenset(("system", *EDITABLE_ROLES, "custom"))
_set = object.__setattr__


class Model(Record):
    """A model as entries name it; empty text where an entry lacks the name."""

    provider: str
    model_id: str


class ContextMessage(Record):
    """One message of a context and the entry it comes from (a compaction may give two)."""

    entry_id: str
    message: JsonObject

    if not TYPE_CHECKING:
        # A long context makes a hundred thousand of these; the general constructor would cost more than the rest.
        def __init__(self, entry_id, message):
            _set(self, "entry_id", entry_id)
            _set(self, "message", message)


class Context(Record):
    """What a model would be told at a leaf.

    Attributes:
        messages: In order, context edits applied.
        model: The last model the path names, None when it names none.
        thinking_level: The last level the path sets, else `off`.
        entries: The entries the messages come from, those that give none included.
    """

    messages: tuple[ContextMessage, ...]
    model: Model | None
    thinking_level: str
    entries: tuple[StoredEntry, ...]


def path_to_root(entries: Mapping[str, StoredEntry], leaf: str | None) -> list[StoredEntry]:
    """Return the path from the root to a leaf, root first.

    Args:
        entries: All entries of the session by id.
        leaf: Where the path ends; None gives an empty path.

    Returns:
        The path. It starts after a missing parent, and a cycle is cut where it would repeat an entry.

    Raises:
        EntryNotFoundError: `leaf` is no entry of the session.

    Source: Pi 1.6.0, context building, except that an unknown leaf is refused (Pi takes the newest entry) and that
        cycles end (Pi hangs).
    """
    if leaf is None:
        return []
    current = entries.get(leaf)
    if current is None:
        raise EntryNotFoundError(f"No entry {leaf} in this session")
    path = []
    seen = set()
    while current is not None and current.id not in seen:
        seen.add(current.id)
        path.append(current)
        parent = current.parent_id
        current = entries.get(parent) if isinstance(parent, str) else None
    path.reverse()
    return path


def active_entries(path: Sequence[StoredEntry]) -> list[StoredEntry]:
    """Return the entries of a path that count: the newest compaction, what it kept, and everything after it.

    Args:
        path: Root first.

    Returns:
        The compaction first, then the kept entries without system messages, then the later entries. The whole path
        when there is no compaction. A kept id that is not on the path before the compaction keeps nothing.

    Source: Pi 1.6.0, context building.
    """
    place = next((i for i in range(len(path) - 1, -1, -1) if path[i].type == "compaction"), None)
    if place is None:
        return list(path)
    kept_from = path[place].fields.get("firstKeptEntryId")
    first = next((i for i in range(place - 1, -1, -1) if path[i].id == kept_from), place)
    kept = [entry for entry in path[first:place] if entry.role != "system"]
    return [path[place], *kept, *path[place + 1 :]]


def path_settings(path: Sequence[StoredEntry]) -> tuple[Model | None, str]:
    """Return the model and the thinking level in force at the end of a path, the compacted part included.

    Source: Pi 1.6.0, context building: the last `model_change` or answer names the model (not `responseModel`), the
        last `thinking_level_change` the level, else `off`.
    """
    model: Model | None = None
    level: str | None = None
    for entry in reversed(path):
        if level is None and entry.type == "thinking_level_change":
            stored = entry.fields.get("thinkingLevel")
            level = stored if isinstance(stored, str) else None
        elif model is None and entry.type == "model_change":
            model = Model(_text(entry.fields.get("provider")), _text(entry.fields.get("modelId")))
        elif model is None and entry.role == "assistant":
            message = entry.message or {}
            model = Model(_text(message.get("provider")), _text(message.get("model")))
        if model is not None and level is not None:
            break
    return model, DEFAULT_THINKING_LEVEL if level is None else level


def build_context(active: Sequence[StoredEntry], model: Model | None, thinking: str) -> Context:
    """Return the context of the active entries.

    Args:
        active: From `active_entries`.
        model: From `path_settings` of the whole path.
        thinking: Likewise.

    Source: Pi 1.6.0, context building.
    """
    messages = tuple(ContextMessage(entry.id, message) for entry, given in project_entries(active) for message in given)
    return Context(messages, model, thinking, tuple(active))


def project_entries(active: Sequence[StoredEntry]) -> list[tuple[StoredEntry, list[JsonObject]]]:
    """Return each active entry with the messages it gives once context edits are applied, often none.

    The newest edit among the given entries counts for its target. Malformed edits count for nothing. An older
    compaction inside the kept range gives nothing.
    """
    edits = latest_edits(active)
    projected: list[tuple[StoredEntry, list[JsonObject]]] = []
    time_ms: int | None = None
    for place, entry in enumerate(active):
        if entry.type == "compaction" and place > 0:
            projected.append((entry, []))
            continue
        if entry.time_ms is not None:
            time_ms = entry.time_ms
        messages = entry_messages(entry, time_ms=time_ms)
        edit = edits.get(entry.id)
        projected.append((entry, messages if edit is None else apply_edit(messages, edit.fields["replacement"])))
    return projected


def latest_edits(entries: Iterable[StoredEntry]) -> dict[str, StoredEntry]:
    """Return the newest well-formed context edit for each target among these entries."""
    edits = {}
    for entry in entries:
        if entry.type == "context_edit":
            fields = entry.fields
            target = fields.get("targetId")
            if isinstance(target, str) and "replacement" in fields and is_replacement(fields["replacement"]):
                edits[target] = entry
    return edits


def apply_edit(messages: list[JsonObject], replacement: JsonObject | None) -> list[JsonObject]:
    """Return an entry's messages with a replacement applied; None omits them."""
    if replacement is None:
        return []
    return [
        {**message, "content": _content_for(message.get("role"), replacement["content"])}
        if message.get("role") in (*EDITABLE_ROLES, "custom")
        else message
        for message in messages
    ]


def entry_messages(entry: StoredEntry, *, time_ms: int | None = None) -> list[JsonObject]:
    """Return the messages one entry gives without any context edit.

    Args:
        entry: Any entry; unknown types give nothing.
        time_ms: Time of a message made from an entry that has no readable time of its own.
    """
    if entry.type == "message":
        message = entry.message
        return [] if message is None else [_with_content(message)]
    if entry.type not in ("custom_message", "branch_summary", "compaction"):
        return []
    fields = entry.fields
    timestamp = time_ms if entry.time_ms is None else entry.time_ms
    made: JsonObject
    if entry.type == "custom_message":
        made = {name: fields[name] for name in ("customType", "content", "display", "details") if name in fields}
        return [_with_content({"role": "custom", "content": [], **made, "timestamp": timestamp})]
    summary = _text(fields.get("summary"))
    if entry.type == "branch_summary":
        made = {"role": "branchSummary", "summary": summary, "fromId": fields.get("fromId"), "timestamp": timestamp}
        return [made] if summary else []
    made = {"role": "compactionSummary", "summary": summary, "timestamp": timestamp}
    if "tokensBefore" in fields:
        made["tokensBefore"] = fields["tokensBefore"]
    system = fields.get("systemMessage")
    return [_with_content(system), made] if isinstance(system, dict) and system else [made]


def to_llm(message: JsonObject) -> list[JsonObject]:
    """Return what a model is sent for one message of a context: one message or none.

    Args:
        message: Any role; unknown roles give nothing.

    Source: Pi 1.6.0, messages: summaries, shell commands and custom messages become user messages.
    """
    role = message.get("role")
    if role in ("system", *EDITABLE_ROLES):
        return [message]
    if role == "custom":
        content = _with_content(message)["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    elif role == "bashExecution":
        if not is_sent(message):
            return []
        blocks = [{"type": "text", "text": shell_text(message)}]
    elif role == "branchSummary":
        text = BRANCH_SUMMARY_PREFIX + _text(message.get("summary")) + BRANCH_SUMMARY_SUFFIX
        blocks = [{"type": "text", "text": text}]
    elif role == "compactionSummary":
        text = COMPACTION_PREFIX + _text(message.get("summary")) + COMPACTION_SUFFIX
        blocks = [{"type": "text", "text": text}]
    else:
        return []
    made = {"role": "user", "content": blocks}
    return [{**made, "timestamp": message["timestamp"]} if "timestamp" in message else made]


def is_sent(message: JsonObject) -> bool:
    """Whether a model gets a message of a context: all but shell commands the user kept out of it."""
    return not (message.get("role") == "bashExecution" and message.get("excludeFromContext"))


def shell_text(message: JsonObject) -> str:
    """Return the text a model sees for a shell command the person ran.

    Source: Pi 1.6.0, messages.
    """
    output = _text(message.get("output"))
    text = f"Ran `{_text(message.get('command'))}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code = message.get("exitCode")
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and message.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return text


def content_text(content: object, joiner: str = "\n") -> str:
    """Return the text of a message's content: itself, or its text blocks joined.

    Args:
        content: Text, a list of blocks, or anything else (which has no text).
        joiner: Put between two text blocks.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return joiner.join(_text(block.get("text")) for block in blocks_of(content) if block.get("type") == "text")


def blocks_of(content: object) -> list[JsonObject]:
    """Return the well-formed blocks of a content; text counts as one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def is_replacement(value: object) -> bool:
    """Whether a value can be a context edit's replacement: None, or an object with text or a list as content."""
    return value is None or (isinstance(value, dict) and isinstance(value.get("content"), str | list))


def is_editable(entry: StoredEntry) -> bool:
    """Whether a context edit may change this entry.

    Source: Pi 1.6.0, context edits: custom messages, and messages of the user, the assistant and tools.
    """
    return entry.type == "custom_message" or entry.role in EDITABLE_ROLES


def check_edit(path: Sequence[StoredEntry], target_id: str, replacement: object) -> JsonObject:
    """Check a context edit and return its fields as they are stored.

    Args:
        path: The path the edit will be appended to, root first.
        target_id: Entry to omit or change.
        replacement: None omits the target; an object with `content` (text or blocks) replaces its content.

    Returns:
        `targetId` and `replacement`; text for an answer or a tool result is turned into one text block.

    Raises:
        InvalidEditError: the replacement is malformed, or the target gives a model nothing that can be edited.
        EntryNotFoundError: the target is not on the path.

    Source: Pi 1.6.0, context edits.
    """
    if not is_replacement(replacement):
        raise InvalidEditError(
            f"Cannot edit {target_id}: a replacement is null or an object with text or a list as content"
        )
    target = next((entry for entry in path if entry.id == target_id), None)
    if target is None:
        raise EntryNotFoundError(
            f"Cannot edit {target_id}: it is not on the path to the leaf", hint="rewind or switch to its branch first"
        )
    if not is_editable(target):
        raise InvalidEditError(
            f"Cannot edit {target_id}: a model sees nothing of it that can be changed",
            hint="edit a user message, an answer, a tool result or a custom message",
        )
    if isinstance(replacement, dict):
        replacement = {**replacement, "content": _content_for(target.role, replacement["content"])}
    return {"targetId": target_id, "replacement": replacement}


def _content_for(role: object, content: object) -> object:
    if role in ("assistant", "toolResult") and isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content


def _with_content(message: JsonObject) -> JsonObject:
    """Return the message with content that is text or a list, where its role has content at all."""
    role = message.get("role")
    content = message.get("content")
    if isinstance(content, (list, str)) or not isinstance(role, str) or role not in _CONTENT_ROLES:
        return message
    return {**message, "content": "" if role == "system" else []}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
