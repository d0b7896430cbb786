"""Brings what came of one branch onto another: as a summary, or as picked messages, in one marked entry.

Pure: decides what is new on the other branch and writes the entry's fields; making the summary and storing are done
elsewhere. The entry names its origin, and a second merge of the same branch begins where the first one ended.
"""

from __future__ import annotations

from pi_sessions.branch_summary import PREAMBLE
from pi_sessions.context import path_to_root
from pi_sessions.conversation import serialize_conversation
from pi_sessions.errors import CannotError
from pi_sessions.records import Record
from pi_sessions.tree import common_ancestor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pi_sessions.branch_summary import BranchSummary
    from pi_sessions.stored import JsonObject, StoredEntry

MERGE_TYPE = "merge"


class MergePlan(Record):
    """What a merge brings over.

    Attributes:
        branch: Where it comes from.
        leaf: Last entry of that branch.
        base: Entry after which it is new: where the branches part, or where the last merge ended.
        entries: What is new, oldest first.
    """

    branch: str
    leaf: str
    base: str | None
    entries: tuple[StoredEntry, ...]


def plan_merge(entries: Mapping[str, StoredEntry], here: str | None, branch: str, leaf: str | None) -> MergePlan:
    """Decide what another branch has that this one has not.

    Args:
        entries: All entries of the session by id.
        here: Leaf of the branch that is merged onto.
        branch: Name of the other branch.
        leaf: Its leaf.

    Raises:
        CannotError: there is nothing new on it.
    """
    theirs = path_to_root(entries, leaf)
    ours = path_to_root(entries, here)
    base = common_ancestor(entries, here, leaf)
    ids = [entry.id for entry in theirs]
    begin = ids.index(base) + 1 if base is not None else 0
    for entry in ours:
        merged = merged_leaf(entry)
        if merged in ids and ids.index(merged) + 1 > begin:
            base, begin = merged, ids.index(merged) + 1
    new = theirs[begin:]
    if leaf is None or not new:
        raise CannotError(
            f"Branch {branch} has nothing that is not here already", hint="see where they part with: pi-session tree"
        )
    return MergePlan(branch, leaf, base, tuple(new))


def merged_leaf(entry: StoredEntry) -> str | None:
    """Return the entry up to which a merge entry has summed the other branch up; None for all others, picks too."""
    details = entry.fields.get("details")
    merged = details.get("merged") if isinstance(details, dict) else None
    leaf = merged.get("leaf") if isinstance(merged, dict) and "entries" not in merged else None
    return leaf if isinstance(leaf, str) else None


def merge_summary_entry(plan: MergePlan, summary: BranchSummary) -> JsonObject:
    """Return the `branch_summary` entry that carries a summary of the other branch."""
    text = f"Outcome of the branch {plan.branch} (its entries up to {plan.leaf}):\n\n"
    fields = summary.replace(summary=text + summary.summary.removeprefix(PREAMBLE)).fields(plan.leaf)
    return {"type": "branch_summary", **fields, "details": {**summary.details, "merged": _origin(plan)}}


def merge_messages_entry(plan: MergePlan, picked: Sequence[str]) -> JsonObject:
    """Return the `custom_message` entry that carries picked messages of the other branch, word for word.

    Raises:
        CannotError: an entry is not among those that are new on the other branch, or has no words.
    """
    by_id = {entry.id: entry for entry in plan.entries}
    missing = [id for id in picked if id not in by_id]
    if missing:
        raise CannotError(
            f"Entry {missing[0]} is not new on branch {plan.branch}",
            hint=f"pick from: {' '.join(list(by_id)[-8:])}",
        )
    chosen = [entry for entry in plan.entries if entry.id in picked]
    text = serialize_conversation(entry.message for entry in chosen if entry.message is not None)
    if not text:
        raise CannotError("The picked entries have no words to bring over", hint="pick messages")
    origin = {**_origin(plan), "entries": [entry.id for entry in chosen]}
    return {
        "type": "custom_message",
        "customType": MERGE_TYPE,
        "content": f"Brought over from the branch {plan.branch}:\n\n<merged-messages>\n{text}\n</merged-messages>",
        "display": True,
        "details": {"merged": origin},
    }


def _origin(plan: MergePlan) -> JsonObject:
    return {"branch": plan.branch, "leaf": plan.leaf, "base": plan.base}
