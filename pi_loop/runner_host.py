"""What the parts of the session runner share: the store's thread, the listeners, the settings in force.

Invariants: calls of the store run one at a time, in a thread; one that has begun is finished even when the run is
cancelled. Listeners hear of an event after it is on disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from pi_loop.abort import AbortController
from pi_loop.events import LoopEvent
from pi_loop.hooks import settle
from pi_loop.runner_summaries import ModelSummarizer, Sleep, drive
from pi_loop.runner_types import (
    DeferredAnswers,
    Phase,
    PhaseBusyError,
    PhaseChange,
    RunnerEvent,
    RunnerListener,
    RunnerSettings,
)
from pi_loop.types import Clock, GetApiKey, Model, StreamFn, StreamOptions, Tool
from pi_sessions.branch_summary import BranchPlan, BranchSummary, branch_summary_steps
from pi_sessions.compaction import CompactionPlan, CompactionResult, compaction_steps
from pi_sessions.compaction_offline import offline_branch_summary, offline_compaction
from pi_sessions.compaction_range import RangePlan, RangeResult, offline_range, range_steps
from pi_sessions.messages import ThinkingLevel

if TYPE_CHECKING:
    from pi_sessions.store import SessionStore

P = ParamSpec("P")
T = TypeVar("T")
_BUSY = {
    "turn": "A run is in progress",
    "compaction": "A compaction is in progress",
    "branch_summary": "A branch summary is being made",
}


@dataclass(slots=True, kw_only=True)
class RunnerHost:
    """One session being worked on; see `pi_loop.runner.SessionRunner` for the settings.

    Args:
        branch: Branch that the next run writes to; None for the session's current one.
        diverged: Whether that is so because a run lost the race for another one.
        stop: Stops what the runner is in the middle of; None while idle.
    """

    store: "SessionStore"
    session_id: str
    branch: str | None
    command: str
    stream_fn: StreamFn
    model: Model
    thinking_level: ThinkingLevel | None
    tools: list[Tool]
    system: str | None
    settings: RunnerSettings
    stream_options: StreamOptions
    get_api_key: GetApiKey | None
    deferred: DeferredAnswers | None
    summary_model: Model | None
    sleep: Sleep
    random: Callable[[], float]
    clock: Clock
    diverged: bool = False
    phase: Phase = "idle"
    stop: AbortController | None = None
    listeners: list[RunnerListener] = field(default_factory=list)
    _one_at_a_time: anyio.CapacityLimiter | None = None

    async def in_store(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a call of the store in a thread; once asked for, it is carried out whatever is cancelled."""
        if self._one_at_a_time is None:
            self._one_at_a_time = anyio.CapacityLimiter(1)
        answers: list[T] = []
        with anyio.CancelScope(shield=True):
            call = partial(function, *args, **named)
            answers.append(await anyio.to_thread.run_sync(call, limiter=self._one_at_a_time))
        return answers[0]

    async def tell(self, event: LoopEvent | RunnerEvent) -> None:
        """Tell the listeners, one after the other."""
        for listener in list(self.listeners):
            if listener in self.listeners:
                await settle(listener(event))

    @contextmanager
    def busy(self, phase: Phase) -> Iterator[AbortController]:
        """Take the runner for one thing at a time.

        Raises:
            PhaseBusyError: it is in the middle of something.
        """
        self.check_idle()
        self.phase, self.stop = phase, AbortController()
        try:
            yield self.stop
        finally:
            self.phase, self.stop = "idle", None

    def check_idle(self) -> None:
        """Raise PhaseBusyError while the runner is in the middle of something."""
        if self.phase != "idle":
            raise PhaseBusyError(_BUSY[self.phase], hint="wait for it to end, or abort it first")

    async def enter(self, phase: Phase) -> None:
        """Go on to another phase of the same piece of work."""
        if self.phase != phase:
            self.phase = phase
            await self.tell(PhaseChange(phase=phase))

    @property
    def is_stopped(self) -> bool:
        """Whether the piece of work in progress was aborted."""
        return self.stop is not None and self.stop.signal.aborted

    async def compact(
        self,
        plan: CompactionPlan,
        level: ThinkingLevel,
        *,
        focus: str | None = None,
        keep: tuple[str, ...] | None = None,
        model: Model | None = None,
        offline: bool = False,
    ) -> CompactionResult:
        """Make a compaction of a plan; nothing is stored.

        Raises:
            SummaryError, NoGainError: it must not be stored.
        """
        if offline:
            return offline_compaction(plan, focus=focus, keep=keep)
        summarizer = self._summarizer(model)
        steps = compaction_steps(plan, focus=focus, reasoning=summarizer.reasoning(level), keep=keep)
        return await drive(steps, summarizer)

    async def sum_up_branch(
        self, plan: BranchPlan, *, focus: str | None, offline: bool, model: Model | None = None
    ) -> BranchSummary | None:
        """Make a branch summary of a plan, None when there is nothing to sum up.

        Raises:
            SummaryError: it must not be stored.
        """
        if offline:
            return offline_branch_summary(plan, focus=focus)
        return await drive(branch_summary_steps(plan, focus=focus), self._summarizer(model))

    async def sum_up_range(self, plan: RangePlan, *, focus: str | None, offline: bool) -> RangeResult:
        """Make a summary of a range of the context; nothing is stored.

        Raises:
            SummaryError, NoGainError: it must not be stored.
        """
        if offline:
            return offline_range(plan, focus=focus)
        return await drive(range_steps(plan, focus=focus), self._summarizer(None))

    def _summarizer(self, model: Model | None) -> ModelSummarizer:
        stop = self.stop or AbortController()
        return ModelSummarizer(
            stream_fn=self.stream_fn,
            model=model or self.summary_model or self.model,
            options=replace(self.stream_options, deferred=False),
            retry=self.settings.retry(),
            sleep=self.sleep,
            random=self.random,
            signal=stop.signal,
            get_api_key=self.get_api_key,
        )
