"""Decides what a branch summary is about and makes it from a model's answer.

Pure: the entries left behind depend on two places in the tree, the request on a token budget; no model is called here.

Source: Pi 1.6.0, branch summaries.
"""

from __future__ import annotations

from pi_sessions.context import ContextMessage, apply_edit, entry_messages, latest_edits, path_to_root
from pi_sessions.conversation import serialize_conversation
from pi_sessions.errors import EntryNotFoundError
from pi_sessions.file_operations import FileOperations, file_operations, file_section
from pi_sessions.records import Record
from pi_sessions.summaries import SummaryRequest, answer_text, drive
from pi_sessions.tokens import estimate_tokens
from pi_sessions.tree import common_ancestor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry
    from pi_sessions.summaries import Summarize
    from pi_sessions.tokens import BranchSummarySettings

DEFAULT_WINDOW = 128_000
SUMMARY_SHARE = 0.9
PREAMBLE = "The user explored a different conversation branch before returning here.\nSummary of that exploration:\n\n"

BRANCH_INSTRUCTIONS = """\
Sum up the conversation branch above for the time when the user comes back from it. Use exactly these headings:

## Goal
What the user tried to achieve in this branch.

## Constraints & Preferences
- What the user required, ruled out or prefers, or "(none)".

## Progress
### Done
- [x] What was finished.
### In Progress
- [ ] What was begun and not finished.
### Blocked
- What stood in the way, if anything.

## Key Decisions
- **Decision**: why.

## Next Steps
1. What would come next.

Be brief in every section. Give file paths, names of functions and error messages exactly as they are."""


class BranchLeft(Record):
    """What a move of the leaf leaves behind.

    Attributes:
        ancestor: The deepest entry on both paths; None when they share nothing.
        entries: From below the ancestor to the old leaf, oldest first.
    """

    ancestor: str | None
    entries: tuple[StoredEntry, ...]


class BranchPlan(Record):
    """What a branch summary would be made from.

    Attributes:
        messages: Newest messages that fit the budget, oldest of them first; tool results left out.
        total_tokens: Their estimate.
        file_ops: Files touched by all entries left behind, whether their messages fit or not.
    """

    messages: tuple[ContextMessage, ...]
    total_tokens: int
    file_ops: FileOperations

    def text(self) -> str:
        """Return the conversation text for the request."""
        return serialize_conversation(one.message for one in self.messages)


class BranchSummary(Record):
    """A finished branch summary, not yet stored.

    Attributes:
        details: `readFiles` and `modifiedFiles`.
        usage: What the request cost, None when the answer does not say.
    """

    summary: str
    details: JsonObject
    usage: JsonObject | None

    def fields(self, from_id: str | None) -> JsonObject:
        """Return the own fields of the `branch_summary` entry, in Pi's order.

        Args:
            from_id: The old leaf; None stands for the place before the first entry.
        """
        fields: JsonObject = {"fromId": from_id or "root", "summary": self.summary, "details": self.details}
        return {**fields, **({} if self.usage is None else {"usage": self.usage}), "fromHook": False}


def collect_for_branch_summary(
    entries: Mapping[str, StoredEntry], old_leaf: str | None, target: str | None
) -> BranchLeft:
    """Return what is left behind when the leaf moves.

    Args:
        entries: All entries of the session by id.
        old_leaf: Where the leaf is; None leaves nothing behind.
        target: Where it goes; None is the place before the first entry.

    Raises:
        EntryNotFoundError: one of the two is no entry of the session (Pi takes it for nothing).

    Source: Pi 1.6.0, branch summaries: the walk goes on through compactions.
    """
    for id in (old_leaf, target):
        if id is not None and id not in entries:
            raise EntryNotFoundError(f"No entry {id} in this session")
    ancestor = common_ancestor(entries, old_leaf, target)
    path = path_to_root(entries, old_leaf)
    below = next((place + 1 for place, entry in enumerate(path) if entry.id == ancestor), 0)
    return BranchLeft(ancestor, tuple(path[below:]))


def branch_budget(window: int | None, settings: BranchSummarySettings) -> int:
    """Return the tokens a branch summary may read: the window (128000 when unknown) less the reserve."""
    return (window or DEFAULT_WINDOW) - settings.reserve_tokens


def prepare_branch_entries(entries: Sequence[StoredEntry], token_budget: int = 0) -> BranchPlan:
    """Choose the messages a branch summary is made from.

    Args:
        entries: What is left behind, oldest first; context edits among them are applied.
        token_budget: Most tokens to take, counted from the newest; 0 or less for no limit.

    Returns:
        The plan. The first message that does not fit ends it, but a summary is still taken while less than nine
        tenths of the budget are spent.

    Source: Pi 1.6.0, branch summaries, except that the file lists cover all entries (Pi's cover what fits).
    """
    edits = latest_edits(entries)
    given: list[tuple[StoredEntry, JsonObject]] = []
    for entry in entries:
        messages = entry_messages(entry)
        edit = edits.get(entry.id)
        if edit is not None and entry.type in ("message", "custom_message"):
            messages = apply_edit(messages, edit.fields["replacement"])
        if messages:
            given.append((entry, messages[-1]))
    chosen: list[ContextMessage] = []
    total = 0
    for entry, message in reversed(given):
        if message.get("role") == "toolResult":
            continue
        tokens = estimate_tokens(message)
        fits = token_budget <= 0 or total + tokens <= token_budget
        is_summary = entry.type in ("compaction", "branch_summary")
        if fits or (is_summary and total < token_budget * SUMMARY_SHARE):
            chosen.append(ContextMessage(entry.id, message))
            total += tokens
        if not fits:
            break
    nested = [entry for entry in entries if entry.type == "branch_summary"]
    operations = file_operations([message for _, message in given], carried=nested)
    return BranchPlan(tuple(reversed(chosen)), total, operations)


def branch_summary_request(plan: BranchPlan, *, focus: str | None = None, replace: bool = False) -> str:
    """Return the prompt of a branch summary.

    Args:
        plan: From `prepare_branch_entries`.
        focus: What the person wants the summary to pay attention to.
        replace: Take `focus` in place of the usual instructions.
    """
    instructions = BRANCH_INSTRUCTIONS
    if focus:
        instructions = focus if replace else f"{instructions}\n\nAdditional focus: {focus}"
    return f"<conversation>\n{plan.text()}\n</conversation>\n\n{instructions}"


def branch_summary_steps(
    plan: BranchPlan, *, focus: str | None = None, replace: bool = False, reasoning: str | None = None
) -> Generator[SummaryRequest, JsonObject, BranchSummary | None]:
    """Make a branch summary without knowing how a model is called: yields a request, is sent the answer.

    Args:
        plan: From `prepare_branch_entries`.
        focus: As for `branch_summary_request`.
        replace: Likewise.
        reasoning: Thinking level for the request; Pi passes none.

    Returns:
        The summary, or None when there is nothing to sum up (Pi stores "No content to summarize").

    Raises:
        SummaryAbortedError: the person stopped the request; the leaf stays.
        SummaryError: the answer failed, was cut off or called a tool; the leaf stays.

    Source: Pi 1.6.0, branch summaries.
    """
    if not plan.messages:
        return None
    answer = yield SummaryRequest(branch_summary_request(plan, focus=focus, replace=replace), reasoning)
    text = PREAMBLE + answer_text(answer, "Branch summarization", allow_empty=True) + file_section(plan.file_ops)
    usage = answer.get("usage")
    details = {"readFiles": list(plan.file_ops.read_only), "modifiedFiles": list(plan.file_ops.modified)}
    return BranchSummary(text, details, usage if isinstance(usage, dict) else None)


def run_branch_summary(
    plan: BranchPlan,
    summarize: Summarize,
    *,
    focus: str | None = None,
    replace: bool = False,
    reasoning: str | None = None,
) -> BranchSummary | None:
    """Make a branch summary with a function that answers prompts; see `branch_summary_steps`."""
    return drive(branch_summary_steps(plan, focus=focus, replace=replace, reasoning=reasoning), summarize)
