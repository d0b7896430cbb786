"""Asking a model for summaries: answers the requests of compactions and branch summaries over a StreamFn.

A request carries no tools and writes no prompt cache. What may succeed later is asked again, with the patience of the
person's retry settings. Which answers may become a summary is decided in `pi_sessions.summaries`.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeVar

from pi_loop.abort import AbortSignal
from pi_loop.direct import complete
from pi_loop.hooks import error_text, settle
from pi_loop.providers.errors import failure_of
from pi_loop.providers.retry import RetryPolicy, wait_ms
from pi_loop.runner_types import RetrySettings
from pi_loop.types import GetApiKey, Model, StreamFn, StreamOptions
from pi_sessions.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    SystemMessage,
    ThinkingLevel,
    UserMessage,
    to_wire,
)
from pi_sessions.summaries import SYSTEM_PROMPT, SummaryRequest, reasoning_for

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummarizer:
    """Answers summary requests with a model.

    Args:
        sleep: Waits seconds between tries.
        random: Gives a number from 0 to 1.
        signal: Ends a request and a wait.
    """

    stream_fn: StreamFn
    model: Model
    options: StreamOptions
    retry: RetrySettings
    sleep: Sleep
    random: Callable[[], float]
    signal: AbortSignal
    get_api_key: GetApiKey | None = None

    def reasoning(self, level: ThinkingLevel) -> str | None:
        """Give the thinking level to ask with."""
        return reasoning_for(level, reasoning_model=self.model.reasoning)

    async def __call__(self, request: SummaryRequest) -> JsonObject:
        """Answer one request; a failure is a failed message."""
        messages: list[Message] = [SystemMessage(content=SYSTEM_PROMPT), UserMessage(content=request.prompt)]
        options = await self._options(request)
        attempts = self.retry.max_retries + 1 if self.retry.enabled else 1
        policy = RetryPolicy(attempts=attempts, base_ms=self.retry.base_ms)
        attempt = 0
        while True:
            attempt += 1
            answer = await self._ask(messages, options)
            failure = failure_of(answer)
            if failure is None or self.signal.aborted:
                return to_wire(answer)
            wait = wait_ms(failure, attempt, policy, random=self.random, longest_asked_ms=self.retry.longest_asked_ms)
            if wait is None:
                return to_wire(answer)
            with self.signal.cancels():
                await self.sleep(wait / 1000)

    async def _ask(self, messages: list[Message], options: StreamOptions) -> AssistantMessage:
        try:
            return await complete(self.stream_fn, self.model, messages, options)
        except RuntimeError as error:
            return AssistantMessage(
                api=self.model.api,
                provider=self.model.provider,
                model=self.model.id,
                stop_reason="error",
                error_message=error_text(error),
            )

    async def _options(self, request: SummaryRequest) -> StreamOptions:
        key = await settle(self.get_api_key(self.model.provider)) if self.get_api_key is not None else None
        return replace(
            self.options,
            api_key=key or self.options.api_key,
            reasoning=request.reasoning,  # type: ignore[arg-type]
            signal=self.signal,
            cache_retention="none",
        )


async def drive(
    steps: Generator[SummaryRequest, JsonObject, Result], summarize: Callable[[SummaryRequest], Awaitable[JsonObject]]
) -> Result:
    """Run a generator of requests to its end, answering each."""
    try:
        request = next(steps)
        while True:
            answer = await summarize(request)
            request = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
