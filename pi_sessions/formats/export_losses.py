"""What an export does not hold: the words all forms count it in, and the losses that every form may have.

A form's writer says which facts about the session its files hold; what it leaves out of entries it counts itself, in
these words. A count is of what was written and not of what the form could hold. Not counted, for no form holds them:
the journal of operations (what `undo` goes by), and the file and line an imported entry came from. Pure.
"""

from __future__ import annotations

from collections import Counter

from pi_sessions.formats.derived import FACT_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pi_sessions.cut_off import UnfinishedRun
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject

# Facts about a session that a form's files may hold.
NAME, FOLDER, LABELS, BRANCH, BRANCHES, ORIGIN, MARKS, CALLER = FACTS = (
    "name", "folder", "labels", "branch", "branches", "origin", "marks", "caller",
)  # fmt: skip

OFF_PATH = "entries off the path"
COMPACTED = "entries before the compaction"
CUT = "entries before the last messages"
UNREAD_CALLS = "messages of tool calls and results"
OMITTED = "omitted entries"
ORIGINALS = "originals of edited entries"
UNFINISHED = "answers that were cut off"
UNANSWERED = "tool calls of answers that were cut off"
PENDING_RESULTS = "results of a run that was cut off"
PENDING_MESSAGES = "messages that a run had accepted when it was cut off"
BLANK = "messages with nothing to send"
STRAY = "tool results without their call"
DUPLICATE = "further results of answered tool calls"
KEPT_OUT = "shell commands kept out of the context"
CUSTOM = "custom entries"
USAGE_ENTRIES = "usage entries"
LABEL_TEXTS = "labels"
NAMES = "names of the session"
MODELS_CHANGED = "changes of model"
LEVELS_CHANGED = "changes of thinking level"
EDITS = "context edits"
UNKNOWN = "entries of unknown kinds"
SYSTEM = "system messages"
BRANCH_NAMES = "branch names"
FOLDERS = "folders of the session"
ORIGINS = "origins of the session"
MARKED = "archive and pin marks"
CALLERS = "links to the tool call that began the session"
THINKING = "blocks of thinking"
FOREIGN_THINKING = "blocks of thinking that only their maker can read"
SIGNATURES = "signatures of thinking"
PICTURES = "pictures"
PICTURE_BYTES = "contents of pictures"
OTHER_BLOCKS = "blocks of other kinds"
CALLS = "tool calls"
TOOLS = "tool declarations"
STAMPS = "ids and times of messages"
USAGES = "usages of answers"
MODELS = "models of answers"
DETAILS = "details of messages"
FAILURES = "error marks of tool results"
REASONS = "error messages of answers"
MORE_FIELDS = "further fields of messages"
MORE_BLOCK_FIELDS = "further fields of blocks"

_MISSING = {
    OFF_PATH: "entry off the path",
    COMPACTED: "entry before the compaction",
    CUT: "entry before the last messages",
    UNREAD_CALLS: "message of tool calls or results",
    OMITTED: "omitted entry",
    ORIGINALS: "original of an edited entry",
    UNFINISHED: "answer that was cut off",
    UNANSWERED: "tool call of an answer that was cut off",
    PENDING_RESULTS: "result of a run that was cut off",
    PENDING_MESSAGES: "message that a run had accepted when it was cut off",
    BLANK: "message with nothing to send",
    STRAY: "tool result without its call",
    DUPLICATE: "further result of an answered tool call",
    KEPT_OUT: "shell command kept out of the context",
    CUSTOM: "custom entry",
    USAGE_ENTRIES: "usage entry",
    LABEL_TEXTS: "label",
    NAMES: "name of the session",
    MODELS_CHANGED: "change of model",
    LEVELS_CHANGED: "change of thinking level",
    EDITS: "context edit",
    UNKNOWN: "entry of an unknown kind",
    SYSTEM: "system message",
    BRANCH_NAMES: "branch name",
    FOLDERS: "the session's folder",
    ORIGINS: "the session's origin",
    MARKED: "archive or pin mark",
    CALLERS: "the link to the tool call that began the session",
    THINKING: "block of thinking",
    FOREIGN_THINKING: "block of thinking that only its maker can read",
    SIGNATURES: "signature of thinking",
    PICTURES: "picture",
    PICTURE_BYTES: "content of a picture",
    OTHER_BLOCKS: "block of another kind",
    CALLS: "tool call",
    TOOLS: "tool declaration",
    STAMPS: "the id and time of a message",
    USAGES: "the usage of an answer",
    MODELS: "the model of an answer",
    DETAILS: "the details of a message",
    FAILURES: "error mark of a tool result",
    REASONS: "error message of an answer",
    MORE_FIELDS: "further fields of a message",
    MORE_BLOCK_FIELDS: "further fields of a block",
}

COMPACTIONS_AS_TEXT = "compactions as text"
SUMMARIES_AS_TEXT = "branch summaries as text"
SHELL_AS_TEXT = "shell commands as text"
NOTES_AS_TEXT = "notes as text"
SYSTEM_AS_TEXT = "system messages as text"
OTHERS_AS_TEXT = "messages of other roles as text"
_AS_TEXT = {
    COMPACTIONS_AS_TEXT: "compaction",
    SUMMARIES_AS_TEXT: "branch summary",
    SHELL_AS_TEXT: "shell command",
    NOTES_AS_TEXT: "note",
    SYSTEM_AS_TEXT: "system message",
    OTHERS_AS_TEXT: "message of another role",
}

JOINED = "messages joined to the one before"
JOINED_TEXTS = "texts joined to the one before"
JOINED_PROMPTS = "system messages joined to the first"
MADE_RESULTS = "results made up for tool calls without one"
MADE_MESSAGES = "messages made up"
MADE_TOOLS = "tool declarations made up"
MOVED_PICTURES = "pictures moved behind their tool results"
MOVED_RESULTS = "tool results moved to their calls"
CALL_IDS = "changed ids of tool calls"
TOOL_NAMES = "changed names of tools"
ARGUMENTS = "arguments of tool calls that are no object"
TOOL_PARAMETERS = "changed parameters of tools"
HALF_CHARACTERS = "messages with half a character"
PICTURE_TYPES = "corrected types of pictures"
EMPTY_RESULTS = "empty tool results said in words"
MADE_TIMES = "times made up for entries without one"
HIDDEN = "blocks that the other program is not shown"
_CHANGED = {
    JOINED: "message joined to the one before",
    JOINED_TEXTS: "text joined to the one before",
    JOINED_PROMPTS: "system message joined to the first",
    MADE_RESULTS: "result made up for a tool call without one",
    MADE_MESSAGES: "message made up",
    MADE_TOOLS: "tool declaration made up",
    MOVED_PICTURES: "picture moved behind its tool result",
    MOVED_RESULTS: "tool result moved to its call",
    CALL_IDS: "changed id of a tool call",
    TOOL_NAMES: "changed name of a tool",
    ARGUMENTS: "the arguments of a tool call that are no object",
    TOOL_PARAMETERS: "changed parameters of a tool",
    HALF_CHARACTERS: "message with half a character",
    PICTURE_TYPES: "corrected type of a picture",
    EMPTY_RESULTS: "empty tool result said in words",
    MADE_TIMES: "time made up for an entry without one",
    HIDDEN: "block that the other program is not shown",
}

# How more than one is said where the number does not come first.
_SAID = {
    STAMPS: "ids and times of {:,} messages",
    USAGES: "the usage of {:,} answers",
    MODELS: "the models of {:,} answers",
    DETAILS: "the details of {:,} messages",
    MORE_FIELDS: "further fields of {:,} messages",
    MORE_BLOCK_FIELDS: "further fields of {:,} blocks",
    ARGUMENTS: "the arguments of {:,} tool calls that are no object",
}

KINDS = {
    "model_change": MODELS_CHANGED,
    "thinking_level_change": LEVELS_CHANGED,
    "usage": USAGE_ENTRIES,
    "custom": CUSTOM,
    "context_edit": EDITS,
    # Roles of messages that a model is not shown, or not as messages.
    "system": SYSTEM,
    "bashExecution": KEPT_OUT,
}
# By role of the message an entry gives (`context.entry_messages`); user, assistant and toolResult stay what they are.
ROLES_AS_TEXT = {
    "compactionSummary": COMPACTIONS_AS_TEXT,
    "branchSummary": SUMMARIES_AS_TEXT,
    "bashExecution": SHELL_AS_TEXT,
    "custom": NOTES_AS_TEXT,
}
_TYPES_AS_TEXT = {
    "compaction": COMPACTIONS_AS_TEXT,
    "branch_summary": SUMMARIES_AS_TEXT,
    "custom_message": NOTES_AS_TEXT,
    "system": SYSTEM_AS_TEXT,
}


def pending_losses(export: Export, cut_off: Sequence[UnfinishedRun]) -> dict[str, int]:
    """Count what runs that were cut off hold and have not written under the chosen entries yet."""
    chosen = {entry.id for entry in export.entries} if cut_off else set()
    ending = [run for run in cut_off if run.leaf is None or run.leaf in chosen]
    counted = {
        PENDING_RESULTS: sum(run.results for run in ending),
        PENDING_MESSAGES: sum(len(run.accepted) for run in ending),
    }
    return {word: number for word, number in counted.items() if number}


def fact_losses(export: Export, holds: Collection[str]) -> Counter[str]:
    """Count what a file leaves out whatever its entries: entries beside the chosen ones and facts about the session.

    Args:
        export: What goes out. Of a label or name, the entry that says it and the fact it made are one.
        holds: The `FACTS` that files of this form hold; `branch` is the name of the exported branch alone.
    """
    session = export.session
    lost = Counter({OFF_PATH: export.beside})
    chosen = {entry.id for entry in export.entries}
    if NAME not in holds:
        told = [entry.fields.get("name") for entry in export.entries if entry.type == "session_info"]
        lost[NAMES] = len(told) + bool(session.name and session.name not in told[-1:])
    if LABELS not in holds:
        entries = [entry for entry in export.entries if entry.type == "label"]
        said = [(entry.fields.get("targetId"), entry.fields.get("label")) for entry in entries]
        facts = [label for label in export.labels if label.entry_id in chosen]
        lost[LABEL_TEXTS] = len(entries) + sum((each.entry_id, each.text) not in said for each in facts)
    if BRANCHES not in holds:
        # What comes back from a file is one branch, `main`, at the leaf of the file.
        lost[BRANCH_NAMES] = sum(
            not (each.leaf == export.leaf and (each.name == "main" or BRANCH in holds)) for each in export.branches
        )
    lost[FOLDERS] = bool(session.cwd) and FOLDER not in holds
    lost[ORIGINS] = bool(session.origin) and ORIGIN not in holds
    lost[MARKED] = 0 if MARKS in holds else session.archived + session.pinned
    lost[CALLERS] = bool(session.parent_session) and CALLER not in holds
    return lost


def kind_word(kind: str) -> str | None:
    """Return what an entry that has no place counts as, by its type or by its message's role.

    None for labels and names, which `fact_losses` counts.
    """
    return None if kind in FACT_TYPES else KINDS.get(kind, UNKNOWN)


def more_fields(fields: JsonObject, known: Collection[str]) -> bool:
    """Whether an object says anything beyond the fields a form has a place for."""
    return any(name not in known and value is not None for name, value in fields.items())


def has_usage(value: object) -> bool:
    """Whether a usage counts anything."""
    told = value.values() if isinstance(value, dict) else ()
    return any(has_usage(each) if isinstance(each, dict) else bool(each) for each in told)


def text_word(kind: str) -> str:
    """Return what an entry counts as where a text stands for it, by its type or by its message's role."""
    return ROLES_AS_TEXT.get(kind, _TYPES_AS_TEXT.get(kind, OTHERS_AS_TEXT))


def counts_of(lost: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not zero, in the order of the words; a writer's own words come after the missing."""
    tables = (
        _MISSING,
        dict.fromkeys(sorted(lost.keys() - _MISSING.keys() - _AS_TEXT.keys() - _CHANGED.keys())),
        _AS_TEXT,
        _CHANGED,
    )
    return {word: int(lost[word]) for words in tables for word in words if lost.get(word)}


def sentence_of(lost: Mapping[str, int], form: str) -> str:
    """Return counts as one line for people; empty when nothing was lost."""
    counts = counts_of(lost)
    missing = [word for word in counts if word not in _AS_TEXT and word not in _CHANGED]
    parts = [
        f"{opening}: {', '.join(_counted(counts[word], word) for word in words)}"
        for opening, words in (
            (f"Not in the {form} file", missing),
            ("only as text", [word for word in counts if word in _AS_TEXT]),
            ("otherwise", [word for word in counts if word in _CHANGED]),
        )
        if words
    ]
    line = "; ".join(parts)
    return line[:1].upper() + line[1:]


def _counted(number: int, many: str) -> str:
    one = {**_MISSING, **_AS_TEXT, **_CHANGED}.get(many)
    if number == 1 and one is not None:
        return one if one.startswith(("the ", "further ")) else f"1 {one}"
    return _SAID[many].format(number) if many in _SAID else f"{number:,} {many.removesuffix(' as text')}"
