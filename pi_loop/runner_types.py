"""What a session runner is told and what it tells: settings, phases, its own events, the outcome of a run.

Data alone; `pi_loop.runner` does the work. Events have Pi's wire names where Pi has them and go through
`pi_loop.events.event_to_wire` like those of the loop.

Source: Pi 1.6.0, the coding agent's session events, settings `compaction`, `branchSummary` and `retry`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from pi_loop.events import Event, LoopEvent
from pi_loop.types import Model
from pi_sessions.compaction import CompactionResult
from pi_sessions.compaction_range import RangePlan, RangeResult
from pi_sessions.errors import CannotError
from pi_sessions.messages import AssistantMessage, DeferredHandle, JsonObject, Number, UserMessage
from pi_sessions.tokens import BranchSummarySettings, CompactionSettings, branch_summary_settings, compaction_settings

Phase: TypeAlias = Literal["idle", "turn", "compaction", "branch_summary"]
CompactionReason: TypeAlias = Literal["manual", "threshold", "overflow"]
RunStatus: TypeAlias = Literal["done", "error", "aborted"]
RecoverAction: TypeAlias = Literal["continue", "close"]
QueueKind: TypeAlias = Literal["prompt", "steering", "follow_up"]


class PhaseBusyError(CannotError):
    """The runner is in the middle of something; what was asked for has to wait."""

    code = "busy"


class NotRunningError(CannotError):
    """There is no run that a message could go into."""

    code = "not_running"


class UnfinishedRunError(CannotError):
    """An earlier run of this branch was cut off and has to be continued or closed first."""

    code = "unfinished_run"


class NothingToCompactError(CannotError):
    """Nothing lies before the part that is kept, or nothing came since the last compaction."""

    code = "nothing_to_compact"


class DeferredAnswers(Protocol):
    """Gets or cancels answers that a provider finishes later."""

    async def fetch(self, handle: DeferredHandle, /) -> AssistantMessage | None:
        """Give the finished answer, None while the provider is still at it; a failure of its is a failed message.

        Raises:
            CannotError: the provider cannot be asked, or does not know the answer any more.
        """
        ...

    async def cancel(self, handle: DeferredHandle, /) -> None:
        """Tell the provider that nobody waits any more.

        Raises:
            CannotError: it could not be told.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """When a failed answer is asked for again.

    Args:
        max_retries: Times in a row; 0 never.
        base_ms: First wait, milliseconds; each further one doubles it. What the server asks for counts before it.
        longest_asked_ms: Longest wait a server may ask for, milliseconds; 0 lifts the limit.
    """

    enabled: bool = True
    max_retries: int = 3
    base_ms: Number = 2000
    longest_asked_ms: Number = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """A person's settings, in Pi's JSON: `compaction`, `branchSummary`, `retry`; per-model budgets included."""

    given: Mapping[str, object] = field(default_factory=dict)

    def compaction(self, model: Model) -> CompactionSettings:
        """Give the budgets for a model, fitted to its window.

        Pi's defaults (reserve 16384, keep 20000) are made for large windows: in a small one nothing could ever be
        compacted. So at most a quarter of the window is reserved and at most half of the rest is kept.

        Raises:
            CannotError: a value that counts is no whole number of tokens.
        """
        from pi_sessions.context import Model as NamedModel

        settings = compaction_settings(dict(self.given), NamedModel(model.provider, model.id))
        window = model.context_window
        if window <= 0:
            return settings
        reserve = min(settings.reserve_tokens, window // 4)
        keep = min(settings.keep_recent_tokens, (window - reserve) // 2)
        return CompactionSettings(settings.enabled, reserve, keep)

    def branch_summary(self) -> BranchSummarySettings:
        """Give the budget of branch summaries."""
        return branch_summary_settings(dict(self.given))

    def retry(self) -> RetrySettings:
        """Give the retry settings: `enabled`, `maxRetries`, `baseDelayMs`, `maxDelayMs`."""
        own = self.given.get("retry")
        own = own if isinstance(own, Mapping) else {}
        default = RetrySettings()
        return RetrySettings(
            enabled=own.get("enabled") is not False,
            max_retries=int(_number(own.get("maxRetries"), default.max_retries)),
            base_ms=_number(own.get("baseDelayMs"), default.base_ms),
            longest_asked_ms=_number(own.get("maxDelayMs"), default.longest_asked_ms),
        )


def _number(value: object, default: Number) -> Number:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else default


# --- events -----------------------------------------------------------------------------------------------------


class RunStart(Event):
    """A run is on disk: prompt accepted, operation recorded."""

    type: Literal["run_start"] = "run_start"
    session_id: str
    branch: str
    op: int


class RunEnd(Event):
    """A run is over; the same as its `RunOutcome`."""

    type: Literal["run_end"] = "run_end"
    session_id: str
    status: RunStatus
    branch: str
    leaf: str | None
    op: int
    own_branch: bool
    error_message: str | None = None


class EntryStored(Event):
    """An entry is on disk; for a message it comes right before the loop's `message_end`."""

    type: Literal["entry_stored"] = "entry_stored"
    entry_id: str
    parent_id: str | None
    entry_type: str
    branch: str


class BranchDiverged(Event):
    """The run goes on on a branch of its own: somebody else moved, or is writing to, the one it began on."""

    type: Literal["branch_diverged"] = "branch_diverged"
    session_id: str
    branch: str
    from_branch: str
    message: str


class QueueUpdate(Event):
    """What is queued now; texts, oldest first."""

    type: Literal["queue_update"] = "queue_update"
    steering: list[str]
    follow_up: list[str]


class PhaseChange(Event):
    """The runner entered a phase."""

    type: Literal["phase"] = "phase"
    phase: Phase


class RetryStart(Event):
    """A failed answer will be asked for again after a wait."""

    type: Literal["auto_retry_start"] = "auto_retry_start"
    attempt: int
    max_attempts: int
    delay_ms: Number
    error_message: str


class RetryEnd(Event):
    """Retrying is over, well or not."""

    type: Literal["auto_retry_end"] = "auto_retry_end"
    success: bool
    attempt: int
    final_error: str | None = None


class CompactionStart(Event):
    """A compaction begins."""

    type: Literal["compaction_start"] = "compaction_start"
    reason: CompactionReason


class CompactionEnd(Event):
    """A compaction is stored, or was not possible; then nothing has changed and `error_message` says why."""

    type: Literal["compaction_end"] = "compaction_end"
    reason: CompactionReason
    entry_id: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str | None = None


RunnerEvent: TypeAlias = (
    RunStart
    | RunEnd
    | EntryStored
    | BranchDiverged
    | QueueUpdate
    | PhaseChange
    | RetryStart
    | RetryEnd
    | CompactionStart
    | CompactionEnd
)
RunnerListener: TypeAlias = Callable[[LoopEvent | RunnerEvent], Awaitable[None] | None]


# --- outcomes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended.

    Args:
        status: `done`; `error` (the last answer failed; command lines exit 4); `aborted` (130).
        message: The last answer; None when the run ended before one.
        error: Why it failed, the provider's words first.
        branch: Branch the run wrote to.
        own_branch: Whether that is a branch of its own because the run lost the race for `from_branch`.
        from_branch: Branch the run began on.
        leaf: Last entry the run stored.
        op: The recorded operation; undo takes the whole run back.
        retries: Answers asked for again.
        compactions: Compactions stored on the way.
        notes: Sentences worth telling a person.
        given_back: Queued messages that did not go in; no longer stored, the caller's again.
    """

    session_id: str
    status: RunStatus
    message: AssistantMessage | None
    error: str | None
    branch: str
    own_branch: bool
    from_branch: str
    leaf: str | None
    op: int
    retries: int = 0
    compactions: int = 0
    notes: tuple[str, ...] = ()
    given_back: tuple[UserMessage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDone:
    """A stored compaction: its entry, its operation (0 inside a run, which is one operation itself) and its figures."""

    entry_id: str
    op: int
    result: CompactionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDone:
    """A range of the context that was summed up."""

    op: int
    plan: RangePlan
    result: RangeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A move of the leaf, with the branch summary written at the new place.

    Args:
        entry_id: The summary; None when there was nothing to sum up.
        text: Text of a user message that was chosen, to be edited and sent again.
    """

    branch: str
    old_leaf: str | None
    new_leaf: str | None
    op: int
    entry_id: str | None
    text: str | None = None
    usage: JsonObject | None = None
