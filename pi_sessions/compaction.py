"""Decides what a compaction sums up and what it keeps, and makes the checkpoint from a model's answers.

Pure: the plan depends on the path and the settings alone, and no model is called here: requests are yielded as text,
answers are sent back. Invariants of every plan: no kept tool result is parted from its call; every message of the
context is summed up or kept; the last user message survives word for word.

Source: Pi 1.6.0, compaction.
"""

from __future__ import annotations

from bisect import bisect_left

from pi_sessions.context import (
    ContextMessage,
    active_entries,
    blocks_of,
    content_text,
    entry_messages,
    latest_edits,
    project_entries,
)
from pi_sessions.conversation import serialize_conversation
from pi_sessions.errors import CannotError
from pi_sessions.file_operations import FileOperations, file_operations, file_section
from pi_sessions.records import Record
from pi_sessions.summaries import SummaryRequest, answer_text, drive
from pi_sessions.tokens import estimate_projected, estimate_tokens, is_believable, merged_system
from pi_sessions.totals import combine_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry
    from pi_sessions.summaries import Summarize
    from pi_sessions.tokens import CompactionSettings

    Projected = Sequence[tuple[StoredEntry, list[JsonObject]]]

CUT_ROLES = frozenset(("user", "assistant", "bashExecution", "custom", "branchSummary", "compactionSummary"))
TURN_START_ROLES = CUT_ROLES - {"assistant"}
# Facts about a session, kept as entries only where an import brought them: they give nothing new to sum up.
FACT_TYPES = ("label", "session_info")
NO_HISTORY = "No prior history."
TURN_HEADING = "**Turn Context (split turn):**"

CHECKPOINT_FORMAT = """\
Use exactly these headings:

## Goal
What the user wants to achieve; several points when there are several tasks.

## Constraints & Preferences
- What the user required, ruled out or prefers, or "(none)".

## Progress
### Done
- [x] What is finished.
### In Progress
- [ ] What is being worked on.
### Blocked
- What stands in the way, if anything.

## Key Decisions
- **Decision**: why.

## Next Steps
1. What to do next, in order.

## Critical Context
- Facts, data and references that the work needs, or "(none)".

Be brief in every section. Give file paths, names of functions and error messages exactly as they are."""

HISTORY_INSTRUCTIONS = f"""\
Write a checkpoint of the conversation above, from which another model will carry on the work without seeing it.
{CHECKPOINT_FORMAT}"""

UPDATE_INSTRUCTIONS = f"""\
The conversation above followed the checkpoint in <previous-summary>. Write the checkpoint anew so that it covers both.
Keep everything in the previous one that still holds; add new progress, decisions and facts; move what has been finished
from "In Progress" to "Done"; bring "Next Steps" up to date; drop only what no longer matters.
{CHECKPOINT_FORMAT}"""

TURN_INSTRUCTIONS = """\
The conversation above is the beginning of a turn; its later messages are kept and will follow your text. Say what they
need to be understood, under exactly these headings:

## Original Request
What the user asked for.

## Progress So Far
- Decisions taken and work done in these messages.

## Context Needed to Continue
- What the later messages rely on.

Use only what stands above; do not guess at the later messages."""


class CompactionPlan(Record):
    """What a compaction would do.

    Attributes:
        first_kept_id: The kept part begins at this entry.
        is_split_turn: The cut lies inside a turn, whose head is then summed up on its own.
        tokens_before: Size of the context, as far as possible measured.
        estimated_before: The same, everything estimated; what a result must stay below.
        previous_summary: The text of the compaction before, which the new summary carries on; None without one.
        to_summarize: Messages whose summary goes into the history.
        turn_head: Messages of the split turn before the cut.
        kept: Messages that stay as they are, system messages left out.
        system: The system prompt in force, replayed by the compaction; None without one.
        file_ops: Files that the summed-up messages read, wrote and edited, with those of the compaction before.
        last_user: The last user message of the path when it is not kept; it has to survive in the summary.
        settings: The settings the plan was made with.
    """

    first_kept_id: str
    is_split_turn: bool
    tokens_before: int
    estimated_before: int
    previous_summary: str | None
    to_summarize: tuple[ContextMessage, ...]
    turn_head: tuple[ContextMessage, ...]
    kept: tuple[ContextMessage, ...]
    system: JsonObject | None
    file_ops: FileOperations
    last_user: ContextMessage | None
    settings: CompactionSettings

    def summarized(self) -> tuple[ContextMessage, ...]:
        """Return all messages that the compaction replaces by text, oldest first."""
        return (*self.to_summarize, *self.turn_head)

    def before(self, after: int) -> int:
        """Return the size of the context to tell beside an estimated size afterwards, both in tokens.

        It is the measured one unless that cannot be right, or would make a context that shrinks seem to grow.
        """
        measured, estimated = self.tokens_before, self.estimated_before
        return measured if is_believable(measured, estimated) and measured > after else estimated


class CompactionResult(Record):
    """A finished compaction, not yet stored.

    Attributes:
        summary: The whole text: summary, messages kept word for word, file lists.
        tokens_before: Size of the context, to be told beside the one afterwards (`CompactionPlan.before`).
        tokens_after: Estimate of the context afterwards.
        details: `readFiles` and `modifiedFiles`; `keptEntries` when entries were asked to stay word for word.
        usage: What the requests cost together, None when the answers do not say.
        system: From the plan.
    """

    summary: str
    first_kept_id: str
    tokens_before: int
    tokens_after: int
    details: JsonObject
    usage: JsonObject | None
    system: JsonObject | None

    def fields(self) -> JsonObject:
        """Return the own fields of the `compaction` entry, in Pi's order."""
        fields: JsonObject = {
            "summary": self.summary,
            "firstKeptEntryId": self.first_kept_id,
            "tokensBefore": self.tokens_before,
            "details": self.details,
        }
        if self.usage is not None:
            fields["usage"] = self.usage
        fields["fromHook"] = False
        if self.system is not None:
            fields["systemMessage"] = self.system
        return fields


class NoGainError(CannotError):
    """A compaction would not make the context smaller."""

    code = "no_gain"


class CutError(CannotError):
    """The kept part cannot begin where it was asked to."""

    code = "cut"


def prepare_compaction(
    path: Sequence[StoredEntry], settings: CompactionSettings, *, first_kept: str | None = None
) -> CompactionPlan | None:
    """Decide where to cut a path.

    Args:
        path: Root first.
        settings: `keep_recent_tokens` says how much to keep; `enabled` does not matter here.
        first_kept: Entry that the kept part has to begin with, whatever the settings say.

    Returns:
        The plan, or None when there is nothing to compact: nothing since the last compaction but labels and names, or
        no message before the cut.

    Raises:
        CutError: `first_kept` is not in the context, or a tool result would be parted from its call there.

    Source: Pi 1.6.0, compaction. Three differences: labels and names after a compaction do not lift "already
        compacted"; the cut stays at a turn's start rather than going back over omitted answers before it; a cut that
        would part a tool result from its call is not taken.
    """
    newest = next((entry for entry in reversed(path) if entry.type not in FACT_TYPES), None)
    if newest is None or newest.type == "compaction":
        return None
    projected = project_entries(active_entries(path))
    previous = projected[0] if projected[0][0].type == "compaction" and projected[0][1] else None
    start = 0 if previous is None else 1
    if first_kept is None:
        cut, turn_start = _find_cut(projected, start, settings.keep_recent_tokens)
    else:
        cut, turn_start = _chosen_cut(projected, start, first_kept)
    if cut >= len(projected):
        return None
    history = _messages_of(projected[start : cut if turn_start is None else turn_start])
    head = () if turn_start is None else _messages_of(projected[turn_start:cut])
    if not history and not head:
        return None
    kept = _messages_of(projected[cut:])
    everything = [message for _, given in projected for message in given]
    system = merged_system(everything)
    estimated = _estimate(everything) + (0 if system is None else estimate_tokens(system))
    summary = previous[0].fields.get("summary") if previous else None
    return CompactionPlan(
        first_kept_id=projected[cut][0].id,
        is_split_turn=turn_start is not None,
        tokens_before=estimate_projected(projected, path).tokens,
        estimated_before=estimated,
        previous_summary=summary if isinstance(summary, str) else None,
        to_summarize=history,
        turn_head=head,
        kept=kept,
        system=system,
        file_ops=file_operations(
            [one.message for one in (*history, *head)], carried=() if previous is None else (previous[0],)
        ),
        last_user=_last_user(path, kept),
        settings=settings,
    )


def compaction_requests(plan: CompactionPlan, *, focus: str | None = None) -> list[str]:
    """Return the prompts a plan needs: one, or two for a split turn with a history before it.

    Args:
        plan: From `prepare_compaction`.
        focus: What the person wants the summary to pay attention to.

    Source: Pi 1.6.0, compaction requests; the instructions are ours.
    """
    prompts = []
    if plan.to_summarize or not plan.turn_head:
        text = serialize_conversation(one.message for one in plan.to_summarize)
        prompt = f"<conversation>\n{text}\n</conversation>\n\n"
        if plan.previous_summary:
            prompt += f"<previous-summary>\n{plan.previous_summary}\n</previous-summary>\n\n"
        instructions = UPDATE_INSTRUCTIONS if plan.previous_summary else HISTORY_INSTRUCTIONS
        prompts.append(_with_focus(prompt + instructions, focus))
    if plan.turn_head:
        text = serialize_conversation(one.message for one in plan.turn_head)
        prompts.append(_with_focus(f"# Conversation\n{text}\n\n# Instructions\n{TURN_INSTRUCTIONS}", focus))
    return prompts


def compaction_steps(
    plan: CompactionPlan,
    *,
    focus: str | None = None,
    reasoning: str | None = None,
    keep: Collection[str] | None = None,
) -> Generator[SummaryRequest, JsonObject, CompactionResult]:
    """Run a compaction without knowing how a model is called: yields requests, is sent answers, returns the result.

    Args:
        plan: From `prepare_compaction`.
        focus: What the person wants the summary to pay attention to.
        reasoning: Thinking level for the requests; None for none.
        keep: Ids of entries to keep word for word besides the last user message; an empty collection keeps neither
            (Pi's behaviour), None keeps the last user message alone.

    Raises:
        SummaryError: an answer failed, was cut off, was aborted, called a tool or is empty. Nothing may be stored.
        NoGainError: the context would not become smaller.

    Source: Pi 1.6.0, compaction, except that aborted and empty answers and results that do not shrink are refused.
    """
    texts: list[str] = []
    usage: JsonObject | None = None
    prompts = compaction_requests(plan, focus=focus)
    for place, prompt in enumerate(prompts):
        is_head = bool(plan.turn_head) and place == len(prompts) - 1
        what = "Turn prefix summarization" if is_head else "Summarization"
        answer = yield SummaryRequest(prompt, reasoning)
        texts.append(answer_text(answer, what, allow_empty=False))
        own = answer.get("usage")
        if isinstance(own, dict):
            usage = own if usage is None else combine_usage(usage, own)
    return finish_compaction(plan, _joined(plan, texts), usage, keep=keep)


def run_compaction(
    plan: CompactionPlan,
    summarize: Summarize,
    *,
    focus: str | None = None,
    reasoning: str | None = None,
    keep: Collection[str] | None = None,
) -> CompactionResult:
    """Run a compaction with a function that answers prompts; see `compaction_steps`.

    Args:
        summarize: Called with the prompt and the thinking level; returns an assistant message.
    """
    return drive(compaction_steps(plan, focus=focus, reasoning=reasoning, keep=keep), summarize)


def finish_compaction(
    plan: CompactionPlan, summary: str, usage: JsonObject | None = None, *, keep: Collection[str] | None = None
) -> CompactionResult:
    """Complete a summary, wherever it comes from, into a compaction.

    Args:
        summary: The text that stands for the summed-up messages.
        usage: What it cost.
        keep: As for `compaction_steps`.

    Raises:
        NoGainError: the context would not become smaller.
    """
    verbatim = _verbatim(plan, keep)
    text = summary + _verbatim_section(verbatim) + file_section(plan.file_ops)
    after = _estimate([one.message for one in plan.kept])
    after += estimate_tokens({"role": "compactionSummary", "summary": text})
    after += 0 if plan.system is None else estimate_tokens(plan.system)
    if after >= plan.estimated_before:
        raise NoGainError(
            f"Compacting would not make the context smaller: {plan.estimated_before} tokens before, {after} after",
            hint="keep fewer tokens, or go on without compacting",
        )
    details: JsonObject = {"readFiles": list(plan.file_ops.read_only), "modifiedFiles": list(plan.file_ops.modified)}
    if keep:
        details["keptEntries"] = [one.entry_id for one in verbatim]
    return CompactionResult(text, plan.first_kept_id, plan.before(after), after, details, usage, plan.system)


def _joined(plan: CompactionPlan, texts: Sequence[str]) -> str:
    if not plan.turn_head:
        return texts[0]
    before = plan.previous_summary if plan.previous_summary is not None else NO_HISTORY
    history = texts[0] if plan.to_summarize else before
    return f"{history}\n\n---\n\n{TURN_HEADING}\n\n{texts[-1]}"


def _with_focus(prompt: str, focus: str | None) -> str:
    return f"{prompt}\n\nAdditional focus: {focus}" if focus else prompt


def _verbatim(plan: CompactionPlan, keep: Collection[str] | None) -> list[ContextMessage]:
    """Return the messages that stay word for word inside the summary, oldest first."""
    if keep is not None and not keep:
        return []
    wanted = frozenset(keep or ())
    chosen = [one for one in plan.summarized() if one.entry_id in wanted]
    last = plan.last_user
    if last is not None and all(one.entry_id != last.entry_id for one in chosen):
        place = next((i for i, one in enumerate(chosen) if _is_later(plan, one, last)), len(chosen))
        chosen.insert(place, last)
    return chosen


def _is_later(plan: CompactionPlan, one: ContextMessage, other: ContextMessage) -> bool:
    for message in plan.summarized():
        if message.entry_id == other.entry_id:
            return True
        if message.entry_id == one.entry_id:
            return False
    return True


def _verbatim_section(messages: Sequence[ContextMessage]) -> str:
    if not messages:
        return ""
    parts = []
    for one in messages:
        message = one.message
        if message.get("role") == "toolResult":
            parts.append(f"[Tool result]: {content_text(message.get('content'))}")
        elif message.get("role") == "user":
            parts.append(f"[User]: {content_text(message.get('content'))}")
        else:
            parts.append(serialize_conversation([message]))
    text = "\n\n".join(part for part in parts if part)
    return f"\n\n<kept-messages>\n{text}\n</kept-messages>"


def _last_user(path: Sequence[StoredEntry], kept: Sequence[ContextMessage]) -> ContextMessage | None:
    """Return the last user message of the whole path unless it is kept; one with no words in it does not count."""
    if any(one.message.get("role") == "user" for one in kept):
        return None
    edits = latest_edits(path)
    for entry in reversed(path):
        if entry.role == "user":
            edit = edits.get(entry.id)
            replacement = edit.fields["replacement"] if edit else {}
            for message in entry_messages(entry) if replacement is not None else ():
                edited = {**message, **replacement}
                if content_text(edited.get("content")).strip():
                    return ContextMessage(entry.id, edited)
    return None


def _messages_of(projected: Projected) -> tuple[ContextMessage, ...]:
    """Return the messages of these entries: no system messages, nothing of a compaction."""
    return tuple(
        ContextMessage(entry.id, message)
        for entry, given in projected
        if entry.type != "compaction"
        for message in given
        if message.get("role") != "system"
    )


def _estimate(messages: Sequence[JsonObject]) -> int:
    return sum(estimate_tokens(message) for message in messages if message.get("role") != "system")


def _find_cut(projected: Projected, start: int, keep_tokens: int) -> tuple[int, int | None]:
    """Return where the kept part begins and, when that lies inside a turn, where the turn begins."""
    candidates = _cut_points(projected, start)
    if not candidates:
        return start, None
    cut = candidates[0]
    reached = False
    total = 0
    for place in range(len(projected) - 1, start - 1, -1):
        tokens = sum(estimate_tokens(message) for message in projected[place][1])
        total += tokens
        if tokens and total >= keep_tokens:
            reached = True
            cut = candidates[min(bisect_left(candidates, place), len(candidates) - 1)]
            break
    if reached and _only_failures_follow(projected, cut):
        cut += 1
    starts = _starts_turn(projected[cut])
    while cut > start:
        entry, given = projected[cut - 1]
        if entry.type == "compaction" or given or (starts and _is_omitted(projected[cut - 1])):
            break
        cut -= 1
    if _starts_turn(projected[cut]):
        return cut, None
    return cut, next((place for place in range(cut, start - 1, -1) if _starts_turn(projected[place])), None)


def _chosen_cut(projected: Projected, start: int, first_kept: str) -> tuple[int, int | None]:
    """Return the cut a person chose and, when that lies inside a turn, where the turn begins."""
    place = next((i for i in range(start, len(projected)) if projected[i][0].id == first_kept), None)
    if place is None:
        raise CutError(f"Entry {first_kept} is not in the context now", hint="see what is with: pi-session context")
    points = _cut_points(projected, start)
    cut = next((point for point in points if point >= place), len(projected))
    if any(given for _, given in projected[place:cut]):
        near = " ".join(projected[point][0].id for point in points[max(0, bisect_left(points, place) - 2) :][:4])
        raise CutError(
            f"The kept part cannot begin at {first_kept}: a tool result would lose its call",
            hint=f"near it are: {near}",
        )
    if cut >= len(projected) or _starts_turn(projected[cut]):
        return place, None
    return place, next((back for back in range(place, start - 1, -1) if _starts_turn(projected[back])), None)


def possible_cuts(path: Sequence[StoredEntry]) -> list[str]:
    """Return the entries that the kept part of a path may begin with, first ones left out that leave nothing to sum up.

    Args:
        path: Root first.
    """
    projected = project_entries(active_entries(path))
    start = 1 if projected and projected[0][0].type == "compaction" and projected[0][1] else 0
    return [projected[point][0].id for point in _cut_points(projected, start) if _messages_of(projected[start:point])]


def _cut_points(projected: Projected, start: int) -> list[int]:
    """Return the places where the kept part may begin: no tool result, and none whose call would be left behind."""
    called: dict[object, int] = {}
    # parted[i] counts the calls before place i whose results come at i or later.
    change = [0] * (len(projected) + 1)
    for place in range(start, len(projected)):
        for message in projected[place][1]:
            role = message.get("role")
            if role == "assistant":
                for block in blocks_of(message.get("content")):
                    if block.get("type") == "toolCall" and isinstance(block.get("id"), str):
                        called[block["id"]] = place
            elif role == "toolResult":
                id = message.get("toolCallId")
                if isinstance(id, str) and id in called:
                    change[called[id] + 1] += 1
                    change[place + 1] -= 1
    points = []
    parted = 0
    for place in range(start, len(projected)):
        parted += change[place]
        entry, given = projected[place]
        if not parted and entry.type != "compaction" and any(message.get("role") in CUT_ROLES for message in given):
            points.append(place)
    return points


def _starts_turn(item: tuple[StoredEntry, list[JsonObject]]) -> bool:
    entry, given = item
    return entry.type != "compaction" and any(message.get("role") in TURN_START_ROLES for message in given)


def _is_omitted(item: tuple[StoredEntry, list[JsonObject]]) -> bool:
    entry, given = item
    return not given and _is_visible(entry)


def _is_visible(entry: StoredEntry) -> bool:
    """Whether an entry gives a message when no edit omits it."""
    return bool(entry_messages(entry))


def _only_failures_follow(projected: Projected, cut: int) -> bool:
    """Whether everything after the cut entry is omitted failed answers and what omits them.

    Then the cut may pass the last input: it was never answered, and the person is retrying.

    Source: Pi 1.6.0, compaction: recovery.
    """
    suffix = projected[cut + 1 :]
    omitted = {item[0].id for item in suffix if _is_omitted(item)}
    answers = any(item[0].role == "assistant" and item[0].id in omitted for item in suffix)
    if not answers:
        return False
    for entry, _ in suffix:
        if entry.type == "context_edit":
            replaces = entry.fields.get("replacement") is not None
            if replaces and entry.fields.get("targetId") not in omitted:
                return False
        elif entry.type == "compaction" or (entry.id not in omitted and _is_visible(entry)):
            return False
    return True
