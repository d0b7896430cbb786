"""When a failed request is sent again, and after how long. Pure decisions; whoever sleeps is elsewhere.

Invariant: only what may succeed later is retried, never more often than the policy says, never sooner than the server
asks; a server that asks for more patience than allowed ends the request instead.

Source: Pi 1.6.0, retries. Of the retry libraries, none knows retry-after or waits that end with an abort signal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from math import isfinite

from pi_loop.providers.errors import Failure
from pi_sessions.messages import Number

DEFAULT_LONGEST_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient to be.

    Args:
        attempts: Requests sent at most, the first included.
        base_ms: Wait after the first failure; each further one doubles it. Milliseconds.
        longest_ms: Longest wait that is ever chosen here, milliseconds.
        jitter: Share of a wait that chance takes away, 0 to 1, so that clients do not come back all at once.
    """

    attempts: int = 4
    base_ms: Number = 1000
    longest_ms: Number = 60_000
    jitter: float = 0.25


NO_RETRY = RetryPolicy(attempts=1)


def wait_ms(
    failure: Failure,
    attempt: int,
    policy: RetryPolicy,
    *,
    random: Callable[[], float],
    longest_asked_ms: Number | None = None,
) -> Number | None:
    """Decide whether and after how long to send a request again.

    Args:
        failure: What went wrong.
        attempt: How many requests were sent, at least 1.
        random: Gives a number from 0 to 1.
        longest_asked_ms: Longest wait a server may ask for; None is the default of a minute, 0 lifts the limit.

    Returns:
        Milliseconds, or None: give up.

    Source: Pi 1.6.0, retries: retry-after-ms, then retry-after, then exponential backoff.
    """
    if not failure.retryable or attempt >= policy.attempts:
        return None
    if failure.retry_after_ms is not None:
        return None if asks_too_much(failure, longest_asked_ms) else failure.retry_after_ms
    backoff: Number = min(policy.base_ms * 2.0 ** (attempt - 1), policy.longest_ms)
    return backoff * (1 - policy.jitter * random())


def asks_too_much(failure: Failure, longest_asked_ms: Number | None) -> bool:
    """Whether the server asks for a longer wait than is allowed."""
    limit = DEFAULT_LONGEST_WAIT_MS if longest_asked_ms is None else longest_asked_ms
    return failure.retry_after_ms is not None and 0 < limit < failure.retry_after_ms


def given_up(failure: Failure, longest_asked_ms: Number | None) -> Failure:
    """Give the failure as the final message shows it: with the wait the server asked for, if that was too long."""
    if not failure.retryable or not asks_too_much(failure, longest_asked_ms):
        return failure
    seconds = round((failure.retry_after_ms or 0) / 1000)
    return replace(
        failure, message=f"{failure.message} (the server asks to wait {seconds} s, longer than allowed here)"
    )


def with_headers(failure: Failure, headers: Mapping[str, str], now_ms: Number) -> Failure:
    """Add what the response's headers say about retrying.

    Args:
        headers: With lower-case names.
        now_ms: For a date in `retry-after`, Unix milliseconds.
    """
    request_id = headers.get("request-id") or headers.get("x-request-id")
    failure = replace(failure, request_id=request_id, retry_after_ms=_asked_ms(headers, now_ms))
    wish = headers.get("x-should-retry", "").lower()
    if wish == "false":
        return replace(failure, retryable=False)
    if wish == "true" and failure.kind not in ("overflow", "quota"):
        return replace(failure, retryable=True)
    return failure


def _asked_ms(headers: Mapping[str, str], now_ms: Number) -> Number | None:
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return max(0, exact)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(0, seconds * 1000)
    if value is None:
        return None
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0, when.timestamp() * 1000 - now_ms)


def _number(value: str | None) -> Number | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return (int(number) if number.is_integer() else number) if isfinite(number) else None
