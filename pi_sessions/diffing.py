"""Compares two paths: where they part, what each did from there on, and which of their entries say the same.

Pure. A path is root first; entries are the same where they are one stored entry.
"""

from __future__ import annotations

from pi_sessions.entry_text import KINDS, entry_text
from pi_sessions.file_operations import FileOperations, file_operations
from pi_sessions.records import Record
from pi_sessions.totals import CostRow, Totals, cost_breakdown, session_totals, unpriced_answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pi_sessions.stored import StoredEntry


class Side(Record):
    """What one path did after the common ancestor.

    Attributes:
        entries: Its own entries, in order.
        totals: Messages by role, tool calls, tokens and cost of these.
        models: Cost and tokens by model, dearest first.
        tools: Calls by tool, most called first.
        files: What its calls read and changed.
        unpriced: Answers that used tokens and have no price.
        began_ms, ended_ms: Time of the first and the last of its entries.
    """

    entries: tuple[StoredEntry, ...]
    totals: Totals
    models: tuple[CostRow, ...]
    tools: tuple[tuple[str, int], ...]
    files: FileOperations
    unpriced: int
    began_ms: int | None
    ended_ms: int | None


class Pair(Record):
    """Entries that stand side by side; `same` when both say the same, else one of them may be missing."""

    left: StoredEntry | None
    right: StoredEntry | None
    same: bool


class Comparison(Record):
    """Two paths beside each other.

    Attributes:
        ancestor: The last entry on both paths, None when they share none.
        shared: How many entries both paths begin with.
        pairs: The entries after the ancestor, aligned.
    """

    ancestor: StoredEntry | None
    shared: int
    left: Side
    right: Side
    pairs: tuple[Pair, ...]


def compare_paths(left: Sequence[StoredEntry], right: Sequence[StoredEntry]) -> Comparison:
    """Compare two paths of one store, root first.

    Returns:
        Where they part, each side's own part in figures, and both own parts aligned: entries that say the same (a
        question asked again) stand side by side.
    """
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one.key != other.key:
            break
        shared += 1
    ones, others = left[shared:], right[shared:]
    return Comparison(left[shared - 1] if shared else None, shared, _side(ones), _side(others), _aligned(ones, others))


def _side(entries: Sequence[StoredEntry]) -> Side:
    messages = [entry.message for entry in entries if entry.message]
    calls: dict[str, int] = {}
    for entry in entries:
        if entry.role == "assistant":
            for name in entry_text(entry.type, entry.payload).tools:
                calls[name or "?"] = calls.get(name or "?", 0) + 1
    times = [entry.time_ms for entry in entries if entry.time_ms is not None]
    return Side(
        tuple(entries),
        session_totals(entries),
        tuple(cost_breakdown(entries)),
        tuple(sorted(calls.items(), key=lambda call: -call[1])),
        file_operations(messages),
        unpriced_answers(entries),
        min(times, default=None),
        max(times, default=None),
    )


def _aligned(left: Sequence[StoredEntry], right: Sequence[StoredEntry]) -> tuple[Pair, ...]:
    from difflib import SequenceMatcher

    # Told apart by what they say; bookkeeping says nothing and stands for itself.
    ones, others = _shown(left), _shown(right)
    matcher = SequenceMatcher(
        None, [_said(entry) for entry in ones], [_said(entry) for entry in others], autojunk=False
    )
    pairs: list[Pair] = []
    for what, start, end, other_start, other_end in matcher.get_opcodes():
        if what == "equal":
            equal = zip(ones[start:end], others[other_start:other_end], strict=True)
            pairs += [Pair(one, other, True) for one, other in equal]
            continue
        for place in range(max(end - start, other_end - other_start)):
            one = ones[start + place] if start + place < end else None
            other = others[other_start + place] if other_start + place < other_end else None
            pairs.append(Pair(one, other, False))
    return tuple(pairs)


def _shown(entries: Sequence[StoredEntry]) -> list[StoredEntry]:
    kinds = (*KINDS, "model_change", "thinking_level_change")
    return [entry for entry in entries if entry.type in kinds]


def _said(entry: StoredEntry) -> Hashable:
    told = entry_text(entry.type, entry.payload)
    return (told.role, told.text or entry.payload)
