"""Compactions and branch summaries without a model: plans completed with extractive text. Pure.

The text is made small enough to be worth storing; what must survive word for word survives as with a model.
"""

from __future__ import annotations

from pi_sessions.branch_summary import PREAMBLE, BranchSummary
from pi_sessions.compaction import finish_compaction
from pi_sessions.file_operations import file_section
from pi_sessions.offline_summary import DEFAULT_MAX_TOKENS, offline_summary
from pi_sessions.tokens import UNITS_PER_TOKEN, estimate_tokens, utf16_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from pi_sessions.branch_summary import BranchPlan
    from pi_sessions.compaction import CompactionPlan, CompactionResult

SHARE = 3
LEAST_TOKENS = 60


def offline_compaction(
    plan: CompactionPlan, *, focus: str | None = None, keep: Collection[str] | None = None
) -> CompactionResult:
    """Complete a plan with a summary taken from its messages.

    Args:
        focus: Words whose sentences are kept, too.
        keep: As for `compaction.compaction_steps`.

    Raises:
        NoGainError: the context would not become smaller.
    """
    messages = [one.message for one in plan.summarized()]
    replaced = sum(estimate_tokens(message) for message in messages)
    replaced += utf16_length(plan.previous_summary or "") // UNITS_PER_TOKEN
    most = min(DEFAULT_MAX_TOKENS, max(LEAST_TOKENS, replaced // SHARE))
    text = offline_summary(messages, previous=plan.previous_summary, focus=focus, max_tokens=most)
    return finish_compaction(plan, text, keep=keep)


def offline_branch_summary(plan: BranchPlan, *, focus: str | None = None) -> BranchSummary | None:
    """Complete the plan of a branch summary; None when there is nothing to sum up."""
    if not plan.messages:
        return None
    text = PREAMBLE + offline_summary([one.message for one in plan.messages], focus=focus) + file_section(plan.file_ops)
    details = {"readFiles": list(plan.file_ops.read_only), "modifiedFiles": list(plan.file_ops.modified)}
    return BranchSummary(text, details, None)
