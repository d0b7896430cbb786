"""What a compaction would do, for people to judge before it happens. Pure.

Besides sizes it says what would be named nowhere any more but in the summary: files and decisions that only the
messages to be summed up mention.
"""

from __future__ import annotations

from pi_sessions.offline_summary import decisions, named_files
from pi_sessions.records import Record
from pi_sessions.tokens import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pi_sessions.compaction import CompactionPlan
    from pi_sessions.context import ContextMessage


class CompactionPreview(Record):
    """A compaction that has not happened.

    Attributes:
        goes: Messages that the summary would stand for, oldest first.
        stays: Messages that stay as they are.
        verbatim: Ids among `goes` whose words stay inside the summary.
        tokens_before: Size of the context.
        tokens_going, tokens_staying: Estimates; the system prompt counts as staying.
        tokens_after: Estimate of the context afterwards; None as long as nobody has made the summary.
        files: Files that only `goes` names.
        decisions: Sentences of `goes` that tell a decision and have no like in `stays`.
    """

    first_kept_id: str
    goes: tuple[ContextMessage, ...]
    stays: tuple[ContextMessage, ...]
    verbatim: tuple[str, ...]
    tokens_before: int
    tokens_going: int
    tokens_staying: int
    tokens_after: int | None
    files: tuple[str, ...]
    decisions: tuple[str, ...]


def preview_compaction(
    plan: CompactionPlan, *, keep: Collection[str] = (), tokens_after: int | None = None
) -> CompactionPreview:
    """Return what a plan would do.

    Args:
        keep: Ids of entries that are to stay word for word.
        tokens_after: What is known of the result.
    """
    goes, stays = plan.summarized(), plan.kept
    going = sum(estimate_tokens(one.message) for one in goes)
    staying = sum(estimate_tokens(one.message) for one in stays)
    staying += 0 if plan.system is None else estimate_tokens(plan.system)
    wanted = {*keep, *(() if plan.last_user is None else (plan.last_user.entry_id,))}
    verbatim = tuple(one.entry_id for one in goes if one.entry_id in wanted)
    return CompactionPreview(
        plan.first_kept_id,
        goes,
        stays,
        verbatim,
        plan.before(staying if tokens_after is None else tokens_after),
        going,
        staying,
        tokens_after,
        *lost_mentions(goes, stays),
    )


def lost_mentions(
    goes: Sequence[ContextMessage], stays: Sequence[ContextMessage]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return files and decisions that some messages name and others do not."""
    before, after = [one.message for one in goes], [one.message for one in stays]
    known = set(named_files(after))
    files = tuple(path for path in named_files(before) if path not in known)
    repeated = set(decisions(after))
    told = tuple(dict.fromkeys(point for point in decisions(before) if point not in repeated))
    return files, told
