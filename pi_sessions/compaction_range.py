"""Sums up a range in the middle of the context, and leaves what lies before and after it as it is.

A compaction replaces a beginning; a range is replaced by context edits, which Pi reads, too: one message of the range
gets the summary as its words, the others are left out. Pure; nothing is stored here. Invariants: no call is parted from
its result, the last user message is not touched, the context becomes smaller.
"""

from __future__ import annotations

from pi_sessions.compaction import HISTORY_INSTRUCTIONS, CutError, NoGainError
from pi_sessions.compaction_offline import LEAST_TOKENS, SHARE
from pi_sessions.context import ContextMessage, active_entries, check_edit, is_editable, project_entries
from pi_sessions.conversation import serialize_conversation
from pi_sessions.file_operations import FileOperations, file_operations, file_section
from pi_sessions.offline_summary import DEFAULT_MAX_TOKENS, offline_summary
from pi_sessions.pairing import results_by_call
from pi_sessions.records import Record
from pi_sessions.summaries import SummaryRequest, answer_text
from pi_sessions.tokens import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry

_HEADING = "This part of the conversation was summed up:\n\n<summary>\n"
_END = "\n</summary>"


class RangePlan(Record):
    """What summing up a range would do.

    Attributes:
        holder: Entry that gets the summary as its words.
        goes: Messages that the summary stands for, oldest first.
        stays: All other messages of the context.
        left: Ids inside the range that stay, because no edit can change them or the last request is among them.
        tokens_before: Estimate of the context.
    """

    holder: str
    goes: tuple[ContextMessage, ...]
    stays: tuple[ContextMessage, ...]
    left: tuple[str, ...]
    tokens_before: int
    file_ops: FileOperations
    path: tuple[StoredEntry, ...]


class RangeResult(Record):
    """A summed-up range, not yet stored.

    Attributes:
        entries: What is to be appended.
        tokens_after: Estimate of the context afterwards.
    """

    summary: str
    entries: tuple[JsonObject, ...]
    tokens_before: int
    tokens_after: int


def plan_range(path: Sequence[StoredEntry], first: str, last: str | None, *, keep: Sequence[str] = ()) -> RangePlan:
    """Decide what of a range is summed up.

    Args:
        path: Root first.
        first: First entry of the range.
        last: Last entry of the range; None: the newest one before the last user message.
        keep: Entries of the range that stay.

    Raises:
        CutError: the range is not in the context, holds nothing to sum up, or would part calls from results.
    """
    projected = project_entries(active_entries(path))
    places = {entry.id: place for place, (entry, _) in enumerate(projected)}
    users = [place for place, (entry, given) in enumerate(projected) if entry.role == "user" and given]
    newest = users[-1] if users else len(projected)
    for id in (first, *(() if last is None else (last,))):
        if id not in places:
            raise CutError(f"Entry {id} is not in the context now", hint="see what is with: pi-session context")
    begin, end = places[first], newest - 1 if last is None else places[last]
    goes: list[ContextMessage] = []
    stays: list[ContextMessage] = []
    left: list[str] = []
    for place, (entry, given) in enumerate(projected):
        inside = begin <= place <= end and bool(given)
        taken = inside and is_editable(entry) and place != newest and entry.id not in keep
        (goes if taken else stays).extend(ContextMessage(entry.id, message) for message in given)
        if inside and not taken:
            left.append(entry.id)
    holder = _holder(goes)
    if holder is None:
        raise CutError("The range holds no message that can be summed up", hint="pi-session context shows the entries")
    every = [ContextMessage(entry.id, message) for entry, given in projected for message in given]
    _check_pairs(every, {one.entry_id for one in goes})
    return RangePlan(
        holder,
        tuple(goes),
        tuple(stays),
        tuple(left),
        sum(estimate_tokens(one.message) for one in (*goes, *stays)),
        file_operations([one.message for one in goes]),
        tuple(path),
    )


def range_steps(
    plan: RangePlan, *, focus: str | None = None, reasoning: str | None = None
) -> Generator[SummaryRequest, JsonObject, RangeResult]:
    """Sum up a range without knowing how a model is called: yields a request, is sent the answer.

    Raises:
        SummaryError: the answer must not become a summary; nothing may be stored.
        NoGainError: the context would not become smaller.
    """
    text = serialize_conversation(one.message for one in plan.goes)
    prompt = f"<conversation>\n{text}\n</conversation>\n\n{HISTORY_INSTRUCTIONS}"
    if focus:
        prompt += f"\n\nAdditional focus: {focus}"
    answer = yield SummaryRequest(prompt, reasoning)
    summary = answer_text(answer, "Summarization", allow_empty=False)
    usage = answer.get("usage")
    return finish_range(plan, summary, usage if isinstance(usage, dict) else None)


def offline_range(plan: RangePlan, *, focus: str | None = None) -> RangeResult:
    """Sum up a range with text taken from its messages.

    Raises:
        NoGainError: the context would not become smaller.
    """
    going = sum(estimate_tokens(one.message) for one in plan.goes)
    most = min(DEFAULT_MAX_TOKENS, max(LEAST_TOKENS, going // SHARE))
    return finish_range(plan, offline_summary([one.message for one in plan.goes], focus=focus, max_tokens=most))


def finish_range(plan: RangePlan, summary: str, usage: JsonObject | None = None) -> RangeResult:
    """Return what puts a summary in the range's place.

    Args:
        usage: What the summary cost; kept as a `usage` entry, because a context edit has no place for it.

    Raises:
        NoGainError: the context would not become smaller.
    """
    text = _HEADING + summary + file_section(plan.file_ops) + _END
    edits: list[JsonObject] = []
    for id in dict.fromkeys(one.entry_id for one in plan.goes):
        replacement = {"content": text} if id == plan.holder else None
        edits.append({"type": "context_edit", **check_edit(plan.path, id, replacement)})
    after = sum(estimate_tokens(one.message) for one in plan.stays)
    after += estimate_tokens({"role": "user", "content": text})
    if after >= plan.tokens_before:
        raise NoGainError(
            f"Summing up the range would not make the context smaller: {plan.tokens_before} tokens before, {after} "
            "after",
            hint="take a longer range",
        )
    if usage is not None:
        edits.append({"type": "usage", "kind": "summary", "usage": usage})
    return RangeResult(text, tuple(edits), plan.tokens_before, after)


def _holder(goes: Sequence[ContextMessage]) -> str | None:
    """Return the entry that takes the summary: the first the user said, else the first answer, None without one."""
    said = next((one for one in goes if one.message.get("role") in ("user", "custom")), None)
    found = said or next((one for one in goes if one.message.get("role") == "assistant"), None)
    return None if found is None else found.entry_id


def _check_pairs(messages: Sequence[ContextMessage], goes: Collection[str]) -> None:
    """Raise CutError when the entries that go part a result from its call."""
    for (call, _), result in results_by_call([one.message for one in messages]).items():
        asked, answer = messages[call].entry_id, messages[result].entry_id
        if (asked in goes) != (answer in goes):
            raise CutError(
                f"The range would part the result {answer} from its call in {asked}",
                hint="begin or end the range so that both are in it, or neither",
            )
