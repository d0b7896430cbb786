"""The moves of a session runner: rewind, switch and merge, with a summary of what is left behind or brought over.

Source: Pi 1.6.0, tree navigation with a summary; merging is ours.
"""

from collections.abc import Sequence

from pi_loop.runner_host import RunnerHost
from pi_loop.runner_types import Moved, RangeDone
from pi_sessions.branch_summary import (
    PREAMBLE,
    BranchSummary,
    branch_budget,
    collect_for_branch_summary,
    prepare_branch_entries,
)
from pi_sessions.compaction import CutError
from pi_sessions.compaction_range import plan_range
from pi_sessions.errors import CannotError
from pi_sessions.merging import merge_messages_entry, merge_summary_entry, plan_merge
from pi_sessions.messages import JsonObject
from pi_sessions.navigate import plan_rewind


class SessionMoves:
    """The part of the runner that moves the leaf."""

    _host: RunnerHost

    async def rewind(
        self,
        target: str | None,
        *,
        exact: bool = False,
        summarize: bool = False,
        focus: str | None = None,
        offline: bool = False,
    ) -> Moved:
        """Move the leaf to another entry, if asked with a summary of what is left behind written there.

        Args:
            target: Entry to go to; None for before the first. A user message is gone before, and its text given back.
            exact: Stay on the entry even if it is a user message.
            focus: What the summary should pay attention to.
            offline: Take the summary from the messages, without a model.

        Raises:
            EntryNotFoundError: `target` is no entry of the session.
            SummaryError: the summary failed or was aborted; the leaf has not moved.
            PhaseBusyError: something is in progress.

        Source: Pi 1.6.0, tree navigation with a summary.
        """
        host, store = self._host, self._host.store
        with host.busy("branch_summary"):
            old = await host.in_store(store.leaf, host.session_id, host.branch)
            entry = None if target is None else await host.in_store(store.entry, host.session_id, target)
            plan = plan_rewind(entry, exact=exact, start=target is None, current=old)
            made = await self._summary_of_left(old, plan.leaf, focus, offline) if summarize else None
            if made is None:
                moved = await host.in_store(store.move_branch, host.session_id, plan.leaf, branch=host.branch)
            else:
                moved = await host.in_store(
                    store.rewind_with_summary, host.session_id, plan.leaf, made, branch=host.branch
                )
            summary_id = moved.entries[-1].id if moved.entries else None
            return Moved(
                branch=moved.branch,
                old_leaf=old,
                new_leaf=moved.new_leaf,
                op=moved.op,
                entry_id=summary_id,
                text=plan.editor_text,
            )

    async def switch(
        self, branch: str, *, summarize: bool = False, focus: str | None = None, offline: bool = False
    ) -> Moved:
        """Make another branch the current one and work on it, if asked with a summary of the one that is left.

        Raises:
            BranchError: there is no such branch.
            SummaryError, PhaseBusyError: as `rewind`.
        """
        host, store = self._host, self._host.store
        with host.busy("branch_summary"):
            old = await host.in_store(store.leaf, host.session_id, host.branch)
            new = await host.in_store(store.leaf, host.session_id, branch)
            made = await self._summary_of_left(old, new, focus, offline) if summarize else None
            host.branch, host.diverged = branch, False
            if made is None:
                move = await host.in_store(store.switch, host.session_id, branch)
                return Moved(branch=branch, old_leaf=old, new_leaf=move.new_leaf, op=move.op, entry_id=None)
            moved = await host.in_store(store.switch_with_summary, host.session_id, branch, made)
            entry_id = moved.entries[-1].id
            return Moved(branch=branch, old_leaf=old, new_leaf=moved.new_leaf, op=moved.op, entry_id=entry_id)

    async def merge(
        self, branch: str, *, focus: str | None = None, offline: bool = False, picked: Sequence[str] = ()
    ) -> Moved:
        """Bring what came of another branch onto this one, as one marked entry that names its origin.

        Args:
            picked: Entries of the other branch to bring over word for word; without any, a summary is made.

        Raises:
            BranchError: there is no such branch.
            CannotError: nothing on it is new, or a picked entry is not.
            SummaryError, PhaseBusyError: as `rewind`.
        """
        host, store = self._host, self._host.store
        with host.busy("branch_summary"):
            entries = {one.id: one for one in await host.in_store(store.entries, host.session_id)}
            here = await host.in_store(store.leaf, host.session_id, host.branch)
            plan = plan_merge(entries, here, branch, await host.in_store(store.leaf, host.session_id, branch))
            if picked:
                entry = merge_messages_entry(plan, picked)
            else:
                budget = branch_budget(host.model.context_window, host.settings.branch_summary())
                summary = await host.sum_up_branch(
                    prepare_branch_entries(plan.entries, budget), focus=focus, offline=offline
                )
                if summary is None:
                    raise CannotError(f"Branch {branch} has no messages to sum up", hint="pick entries of it instead")
                entry = merge_summary_entry(plan, summary)
            written = await host.in_store(store.write_merge, host.session_id, branch, entry, onto=host.branch)
            return Moved(
                branch=written.branch,
                old_leaf=here,
                new_leaf=written.new_leaf,
                op=written.op,
                entry_id=written.entries[-1].id,
            )

    async def compact_range(
        self,
        first: str,
        last: str | None = None,
        *,
        focus: str | None = None,
        keep: Sequence[str] = (),
        offline: bool = False,
    ) -> RangeDone:
        """Sum up a range in the middle of the context; what lies before and after it stays as it is.

        Args:
            first, last: Entries; without `last` up to the last user message.
            keep: Entries of the range that stay.

        Raises:
            CutError: the range cannot be summed up.
            NoGainError, SummaryError: it must not be stored; nothing has changed.
            LeafMovedError, PhaseBusyError: as `compact`.
        """
        host, store = self._host, self._host.store
        with host.busy("compaction"):
            leaf = await host.in_store(store.leaf, host.session_id, host.branch)
            path = await host.in_store(store.path, host.session_id, leaf)
            plan = plan_range(path, first, last, keep=keep)
            result = await host.sum_up_range(plan, focus=focus, offline=offline)
            written = await host.in_store(
                store.write_checkpoint,
                host.session_id,
                result.entries,
                planned_at=leaf,
                command="compact",
                summary=f"sum up {len(plan.goes)} messages from {first} on",
                branch=host.branch,
            )
            return RangeDone(op=written.op, plan=plan, result=result)

    async def summarize(
        self, first: str | None, last: str, *, focus: str | None = None, offline: bool = False
    ) -> BranchSummary | None:
        """Sum up the entries from one to another on its path, without changing anything; None: no message there.

        Args:
            first: None for the first entry of the path.

        Raises:
            CutError: `first` is not on the path to `last`.
            SummaryError, PhaseBusyError: as `rewind`.
        """
        host = self._host
        with host.busy("branch_summary"):
            path = await host.in_store(host.store.path, host.session_id, last)
            ids = [entry.id for entry in path]
            if first is not None and first not in ids:
                raise CutError(f"Entry {first} is not on the path to {last}", hint="name the older entry first")
            entries = path if first is None else path[ids.index(first) :]
            budget = branch_budget(host.model.context_window, host.settings.branch_summary())
            made = await host.sum_up_branch(prepare_branch_entries(entries, budget), focus=focus, offline=offline)
            return None if made is None else made.replace(summary=made.summary.removeprefix(PREAMBLE))

    async def _summary_of_left(
        self, old: str | None, new: str | None, focus: str | None, offline: bool
    ) -> JsonObject | None:
        """Give the `branch_summary` entry of what a move leaves behind, None when that is nothing."""
        host = self._host
        entries = {one.id: one for one in await host.in_store(host.store.entries, host.session_id)}
        left = collect_for_branch_summary(entries, old, new)
        budget = branch_budget(host.model.context_window, host.settings.branch_summary())
        plan = prepare_branch_entries(left.entries, budget)
        summary = await host.sum_up_branch(plan, focus=focus, offline=offline)
        return None if summary is None else {"type": "branch_summary", **summary.fields(old)}
