"""Results of the case format's operations that need no store: each function returns exactly the recorded JSON form.

The replay hands over what a session holds (`View`: entries in file order, leaf, labels, name) and gets what the case
records. Functions that plan a change (compact, navigate, branch_with_summary) return what to append beside the result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pi_sessions.branch_summary import (
    BRANCH_INSTRUCTIONS,
    branch_budget,
    branch_summary_steps,
    collect_for_branch_summary,
    prepare_branch_entries,
)
from pi_sessions.compaction import (
    HISTORY_INSTRUCTIONS,
    TURN_INSTRUCTIONS,
    UPDATE_INSTRUCTIONS,
    compaction_steps,
    prepare_compaction,
)
from pi_sessions.context import (
    Context,
    Model,
    active_entries,
    blocks_of,
    build_context,
    content_text,
    path_settings,
    path_to_root,
    to_llm,
)
from pi_sessions.conversation import last_assistant_text, serialize_conversation
from pi_sessions.errors import EntryNotFoundError, PiSessionError
from pi_sessions.file_operations import FileOperations, file_operations, file_section
from pi_sessions.navigate import entry_text, plan_rewind
from pi_sessions.session_search import SessionText, parse_query, search_sessions
from pi_sessions.stored import StoredEntry
from pi_sessions.summaries import SummaryAbortedError, drive, reasoning_for
from pi_sessions.times import parse_time
from pi_sessions.tokens import (
    BranchSummarySettings,
    CompactionSettings,
    branch_summary_settings,
    compaction_settings,
    context_tokens,
    cut_utf16,
    estimate_context,
    estimate_tokens,
    should_compact,
    utf16_length,
)
from pi_sessions.totals import combine_usage, context_usage, cost_breakdown, session_totals
from pi_sessions.tree import build_tree, tree_rows

Json = Any

TEXT_LIMIT = 400
IDS_LIMIT = 60
INSTRUCTIONS = (HISTORY_INSTRUCTIONS, UPDATE_INSTRUCTIONS, TURN_INSTRUCTIONS, BRANCH_INSTRUCTIONS)
MESSAGE_FIELDS = (
    "provider",
    "model",
    "stopReason",
    "toolCallId",
    "toolName",
    "isError",
    "customType",
    "display",
    "tokensBefore",
    "fromId",
    "timestamp",
)


@dataclass
class View:
    """What a session holds at one moment.

    Attributes:
        entries: In file order, ids unique.
        leaf: Current leaf.
        labels: Text and ISO time of each label, by the id of what it labels.
    """

    entries: Sequence[StoredEntry]
    leaf: str | None
    labels: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    name: str | None = None
    header: Json = None

    def by_id(self) -> dict[str, StoredEntry]:
        return {entry.id: entry for entry in self.entries}

    def path(self, leaf: str | None) -> list[StoredEntry]:
        return path_to_root(self.by_id(), leaf)


# Shortened values


def short_text(text: str | None) -> Json:
    """Return a text, or its length, digest and beginning when it has more than 400 UTF-16 units."""
    if text is None or utf16_length(text) <= TEXT_LIMIT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"chars": utf16_length(text), "sha256": digest, "head": cut_utf16(text, 120)}


def short_ids(ids: Sequence[str]) -> Json:
    """Return a list, or its count, digest and ends when it has more than 60 members."""
    if len(ids) <= IDS_LIMIT:
        return list(ids)
    digest = hashlib.sha256(json.dumps(list(ids), separators=(",", ":")).encode()).hexdigest()
    return {"count": len(ids), "sha256": digest, "first": list(ids[:3]), "last": list(ids[-3:])}


def comparable(value: Json) -> Json:
    """Return a result with the length of fixed instructions left out, which is not to be reproduced."""
    if isinstance(value, str):
        return re.sub(r"\[\[instructions: \d+ chars\]\]", "[[instructions]]", value)
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    return value


def same(ours: Json, recorded: Json) -> bool:
    """Whether two results agree; numbers within 1e-9 of each other do."""
    if isinstance(ours, bool) or isinstance(recorded, bool) or ours is None or recorded is None:
        return ours is recorded
    if isinstance(ours, int | float) and isinstance(recorded, int | float):
        return abs(ours - recorded) <= 1e-9 * max(1, abs(recorded))
    if isinstance(ours, dict) and isinstance(recorded, dict):
        return ours.keys() == recorded.keys() and all(same(ours[name], recorded[name]) for name in ours)
    if isinstance(ours, list | tuple) and isinstance(recorded, list | tuple):
        return len(ours) == len(recorded) and all(same(a, b) for a, b in zip(ours, recorded, strict=True))
    return bool(ours == recorded)


# Contexts and snapshots


def message_form(message: Json, entry_id: str | None = None) -> Json:
    """Return a context message in the recorded form; without `entry` when no id is given."""
    role = message.get("role")
    if role == "bashExecution":
        text = message.get("command") or ""
    elif role in ("compactionSummary", "branchSummary"):
        text = message["summary"]
    else:
        text = content_text(message.get("content"))
    form: Json = {} if entry_id is None else {"entry": entry_id}
    form |= {"role": role, "text": short_text(text)}
    blocks = blocks_of(message.get("content"))
    calls = [{"id": one.get("id"), "name": one.get("name")} for one in blocks if one.get("type") == "toolCall"]
    kinds = Counter(one.get("type") for one in blocks)
    counted = (("tool_calls", calls), ("images", kinds["image"]), ("thinking", kinds["thinking"]))
    form |= {name: value for name, value in counted if value}
    form |= {name: message[name] for name in MESSAGE_FIELDS if name in message}
    seen = to_llm(message)
    llm = {"role": seen[0]["role"], "text": short_text(content_text(seen[0].get("content")))} if seen else None
    return {**form, "llm": llm}


def model_form(model: Model | None) -> Json:
    if model is None:
        return None
    named = {"provider": model.provider, "modelId": model.model_id}
    return {name: value for name, value in named.items() if value}


def context_of(view: View, leaf: str | None) -> Context:
    path = view.path(leaf)
    return build_context(active_entries(path), *path_settings(path))


def context_form(context: Context, *, digest: bool = False) -> Json:
    messages = context.messages
    form = {"model": model_form(context.model), "thinkingLevel": context.thinking_level}
    if not digest:
        return {**form, "messages": [message_form(one.message, one.entry_id) for one in messages]}
    forms = [message_form(one.message, one.entry_id) for one in (*messages[:3], *messages[-3:])]
    lines = "".join(f"{one.entry_id} {one.message.get('role')}\n" for one in messages)
    return {
        **form,
        "count": len(messages),
        "roles": dict(Counter(one.message.get("role") for one in messages)),
        "first": forms[: min(3, len(messages))],
        "last": forms[-min(3, len(messages)) :] if messages else [],
        "sha256_of_roles_and_entries": hashlib.sha256(lines.encode()).hexdigest(),
    }


def tree_form(view: View, *, digest: bool = False) -> Json:
    tree = build_tree(view.entries)
    if digest:
        return {"roots": list(tree.roots), "branch_points": sum(len(one) > 1 for one in tree.children.values())}
    return {"roots": list(tree.roots), "children": tree.children}


def snapshot(view: View, *, digest: bool = False) -> Json:
    """Return a snapshot; the replay masks the header for `snapshot_without_id`."""
    path = view.path(view.leaf)
    ids = short_ids if digest else list
    return {
        "header": view.header,
        "entry_count": len(view.entries),
        "distinct_ids": len(view.by_id()),
        "leaf": view.leaf,
        "session_name": view.name,
        "labels": {id: {"label": text, "timestamp": time} for id, (text, time) in view.labels.items()},
        "branch_leaf_to_root": ids([entry.id for entry in reversed(path)]),
        "tree": tree_form(view, digest=digest),
        "context_entries": ids([entry.id for entry in active_entries(path)]),
        "context": context_form(context_of(view, view.leaf), digest=digest),
    }


def context_at(view: View, args: Json) -> Json:
    return context_form(context_of(view, args["leaf"]))


def get_branch(view: View, args: Json) -> Json:
    return [entry.id for entry in view.path(args["id"])]


def get_children(view: View, args: Json) -> Json:
    return [entry.id for entry in view.entries if entry.parent_id == args["id"]]


def leaf_form(view: View) -> Json:
    entry = view.by_id().get(view.leaf or "")
    return {"leaf": view.leaf, "type": entry.type if entry else None}


def type_counts(view: View) -> Json:
    return dict(Counter(f"message:{one.role}" if one.type == "message" else one.type for one in view.entries))


def tree_view(view: View, args: Json) -> Json:
    labels = {id: text for id, (text, _) in view.labels.items()}
    shown = tree_rows(
        view.entries, view.leaf, labels, filter=args.get("filter") or "default", search=args.get("search") or ""
    )
    return {
        "rows": [{"id": row.id, "indent": row.indent} for row in shown.rows],
        "selected": None if shown.selected is None else shown.rows[shown.selected].id,
        "active_path": shown.active_path(),
    }


# Tokens, texts, totals


def settings_from(form: Json) -> CompactionSettings:
    return compaction_settings({"compaction": form or {}})


def settings_form(settings: CompactionSettings) -> Json:
    return {
        "enabled": settings.enabled,
        "reserveTokens": settings.reserve_tokens,
        "keepRecentTokens": settings.keep_recent_tokens,
    }


def model_from(form: Json) -> Model | None:
    return Model(form["provider"], form["id"]) if form else None


def estimate_form(messages: Sequence[Json]) -> Json:
    estimate = estimate_context(messages)
    return {
        "tokens": estimate.tokens,
        "usageTokens": estimate.usage_tokens,
        "trailingTokens": estimate.trailing_tokens,
        "lastUsageIndex": estimate.last_usage_index,
    }


def serialize(args: Json) -> Json:
    return serialize_conversation(args["messages"])


def file_ops_form(operations: FileOperations) -> Json:
    return {
        "file_ops": {
            "read": list(operations.read),
            "written": list(operations.written),
            "edited": list(operations.edited),
        },
        "readFiles": list(operations.read_only),
        "modifiedFiles": list(operations.modified),
        "file_section": short_text(file_section(operations)),
    }


def stateless(op: str, args: Json) -> Json:
    """Return the result of an operation that needs no session.

    Raises:
        KeyError: the operation is none of these.
    """
    given = args or {}
    operations: dict[str, Callable[[], Json]] = {
        "estimate_tokens": lambda: estimate_tokens(given["message"]),
        "estimate_context_tokens": lambda: estimate_form(given["messages"]),
        "context_tokens": lambda: context_tokens(given["usage"]),
        "should_compact": lambda: should_compact(
            given["contextTokens"], given["contextWindow"], settings_from(given["settings"])
        ),
        "default_settings": lambda: settings_form(CompactionSettings()),
        "compaction_settings": lambda: settings_form(
            compaction_settings(given["settings"], model_from(given.get("model")))
        ),
        "branch_summary_settings": lambda: _branch_settings_form(branch_summary_settings(given["settings"])),
        "serialize": lambda: serialize(given),
        "to_llm": lambda: to_llm(given["message"]),
        "file_lists": lambda: file_ops_form(file_operations(given["messages"])),
        "combine_usage": lambda: combine_usage(given["first"], given["second"]),
    }
    return operations[op]()


def _branch_settings_form(settings: BranchSummarySettings) -> Json:
    return {"reserveTokens": settings.reserve_tokens, "skipPrompt": settings.skip_prompt}


def stats(view: View, args: Json) -> Json:
    totals = session_totals(view.entries)
    usage = context_usage(view.path(view.leaf), args.get("contextWindow"))
    filled = None
    if usage is not None:
        filled = {"tokens": usage.tokens, "contextWindow": usage.window, "percent": usage.percent}
        if usage.after_compaction:
            filled["estimated"] = usage.estimated
    return {
        "userMessages": totals.user_messages,
        "assistantMessages": totals.assistant_messages,
        "toolCalls": totals.tool_calls,
        "toolResults": totals.tool_results,
        "totalMessages": totals.total_messages,
        "tokens": {
            "input": totals.input,
            "output": totals.output,
            "cacheRead": totals.cache_read,
            "cacheWrite": totals.cache_write,
            "total": totals.tokens,
        },
        "cost": totals.cost,
        "contextUsage": filled,
        "cost_breakdown": [
            {"key": row.key, "cost": row.cost, "tokens": row.tokens} for row in cost_breakdown(view.entries)
        ],
    }


def forkable_messages(view: View) -> Json:
    found = [(entry.id, entry_text(entry)) for entry in view.entries if entry.role == "user"]
    return [{"entryId": id, "text": short_text(text)} for id, text in found if text]


def last_text(view: View) -> Json:
    return short_text(last_assistant_text([one.message for one in context_of(view, view.leaf).messages]))


# Compaction and branch summaries


class Replies:
    """The model of a case: answers the n-th request with the n-th reply, the last one again after that."""

    def __init__(self, replies: Sequence[Json] | None) -> None:
        self.replies = list(replies or [{}])
        self.requests: list[Json] = []

    def __call__(self, prompt: str, reasoning: str | None) -> Json:
        for text in INSTRUCTIONS:
            prompt = prompt.replace(text, f"[[instructions: {utf16_length(text)} chars]]")
        self.requests.append({"prompt": prompt, "reasoning": reasoning, "cacheRetention": "none"})
        count = len(self.requests)
        usage = {
            "input": 100 * count,
            "output": 10 * count,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 110 * count,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5 * count},
        }
        usual = {"role": "assistant", "content": [{"type": "text", "text": "SUMMARY"}], "usage": usage}
        return {**usual, "stopReason": "stop", **self.replies[min(count, len(self.replies)) - 1]}


def prepare_form(view: View, args: Json) -> Json:
    plan = prepare_compaction(view.path(view.leaf), settings_from(args["settings"]))
    if plan is None:
        return None

    def ids(messages: Iterable[Json]) -> Json:
        return short_ids([one.entry_id for one in messages])

    return {
        "firstKeptEntryId": plan.first_kept_id,
        "isSplitTurn": plan.is_split_turn,
        "tokensBefore": plan.tokens_before,
        "previousSummary": short_text(plan.previous_summary),
        "summarize_entries": ids(plan.to_summarize),
        "turn_prefix_entries": ids(plan.turn_head),
        **file_ops_form(plan.file_ops),
        "serialized_history": short_text(serialize_conversation(one.message for one in plan.to_summarize)),
        "serialized_turn_prefix": short_text(serialize_conversation(one.message for one in plan.turn_head)),
    }


@dataclass
class Change:
    """What an operation wants done: the entry to append (its own fields, or None), and the recorded result.

    Attributes:
        kind: Entry type of `fields`.
        parent: Where the entry goes; the leaf goes there too when there is no entry.
        label: Id and text of a label to set; the id None means the new entry.
    """

    result: Json
    kind: str | None = None
    fields: Json = None
    parent: str | None = None
    label: tuple[str | None, str] | None = None
    moves: bool = False


def compact(view: View, args: Json) -> Change:
    """Plan and run a compaction as recorded; the replay appends the entry and sets the result's `id`.

    Raises:
        SummaryError: an answer was refused; nothing is to be appended.
    """
    plan = prepare_compaction(view.path(view.leaf), settings_from(args["settings"]))
    if plan is None:
        return Change({"compacted": False})
    model = Replies(args.get("replies"))
    reasoning = reasoning_for(
        args.get("thinkingLevel"), reasoning_model=bool((args.get("model") or {}).get("reasoning"))
    )
    steps = compaction_steps(plan, focus=args.get("customInstructions"), reasoning=reasoning, keep=())
    done = drive(steps, model)
    result = {
        "compacted": True,
        "requests": model.requests,
        "summary": done.summary,
        "firstKeptEntryId": done.first_kept_id,
        "tokensBefore": done.tokens_before,
        "details": done.details,
        "usage": done.usage,
    }
    return Change(result, "compaction", done.fields(), view.leaf)


def collect_form(view: View, args: Json) -> Json:
    left = collect_for_branch_summary(view.by_id(), args["oldLeaf"], args["target"])
    return {"commonAncestorId": left.ancestor, "entries": [entry.id for entry in left.entries]}


def branch_entries_form(view: View, args: Json) -> Json:
    by_id = view.by_id()
    plan = prepare_branch_entries([by_id[id] for id in args["entries"]], args["tokenBudget"])
    return {
        "totalTokens": plan.total_tokens,
        "messages": [message_form(one.message) for one in plan.messages],
        "readFiles": list(plan.file_ops.read_only),
        "modifiedFiles": list(plan.file_ops.modified),
        "serialized": plan.text(),
    }


def branch_entries_digest(view: View, args: Json) -> Json:
    path = view.path(args["to"])
    first = next(place for place, entry in enumerate(path) if entry.id == args["from"])
    plan = prepare_branch_entries(path[first:], args["tokenBudget"])
    return {
        "messages": len(plan.messages),
        "totalTokens": plan.total_tokens,
        "serialized": short_text(plan.text()),
        "read": len(plan.file_ops.read),
        "edited": len(plan.file_ops.edited),
        "written": len(plan.file_ops.written),
    }


def branch_with_summary(view: View, args: Json) -> Change:
    """Plan a `branch_summary` entry as given by a step.

    Raises:
        EntryNotFoundError: the place is no entry.
    """
    if args["id"] is not None and args["id"] not in view.by_id():
        raise EntryNotFoundError(f"No entry {args['id']} in this session")
    given = {name: args[name] for name in ("summary", "details", "usage", "fromHook") if args.get(name) is not None}
    return Change(None, "branch_summary", {"fromId": view.leaf or "root", **given}, args["id"])


def navigate(view: View, args: Json) -> Change:
    """Plan what choosing an entry in the tree does; the replay sets `summaryEntry` and `leaf` of the result.

    Raises:
        EntryNotFoundError: the target is no entry.
        SummaryError: the summary was refused; the leaf stays.
    """
    options = args.get("options") or {}
    result: Json = {"cancelled": False, "editorText": None, "summaryEntry": None, "requests": []}
    target = args["target"]
    if target == view.leaf:
        return Change(result)
    entry = view.by_id().get(target)
    if entry is None:
        raise EntryNotFoundError(f"No entry {target} in this session")
    rewind = plan_rewind(entry, current=view.leaf)
    label = options.get("label")
    model = Replies(args.get("replies"))
    made = None
    if options.get("summarize"):
        left = collect_for_branch_summary(view.by_id(), view.leaf, target)
        plan = prepare_branch_entries(left.entries, branch_budget(None, BranchSummarySettings()))
        steps = branch_summary_steps(
            plan, focus=options.get("customInstructions"), replace=bool(options.get("replaceInstructions"))
        )
        try:
            made = drive(steps, model)
        except SummaryAbortedError:
            return Change({**result, "cancelled": True, "requests": model.requests})
    result |= {"editorText": rewind.editor_text, "requests": model.requests}
    if made is None:
        return Change(result, parent=rewind.leaf, label=(target, label) if label else None, moves=True)
    fields = made.fields(view.leaf)
    return Change(result, "branch_summary", fields, rewind.leaf, (None, label) if label else None)


# Search in the picker


def session_text(form: Json) -> SessionText:
    """Return a session of a `search_library` step."""
    return SessionText(
        form["id"], form["name"], form["cwd"], form["allMessagesText"], parse_time(form["modified"]) or 0
    )


def search(library: Sequence[Json], args: Json) -> Json:
    """Return how a query was parsed and what it finds; a bad pattern finds nothing here and is an error to a person."""
    sessions = [session_text(form) for form in library]
    is_pattern = args["query"].strip().startswith("re:")
    try:
        parsed = parse_query(args["query"])
        found = search_sessions(sessions, args["query"], sort=args["sort"], named_only=args["names"] == "named")
    except PiSessionError:
        return {"parsed": {"mode": "regex", "tokens": [], "error": True}, "ids": []}
    tokens = [{"kind": token.kind, "value": token.value} for token in parsed.tokens]
    mode = "regex" if is_pattern else "tokens"
    return {"parsed": {"mode": mode, "tokens": tokens, "error": False}, "ids": [one.id for one in found]}
