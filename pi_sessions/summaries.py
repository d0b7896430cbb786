"""What compactions and branch summaries share: a request for a summary, and which answers count.

Pure: who answers a request, and how often it is retried, is the caller's business.

Source: Pi 1.6.0, summarisation.
"""

from __future__ import annotations

from pi_sessions.context import blocks_of, content_text
from pi_sessions.errors import CannotError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import TypeVar

    from pi_sessions.stored import JsonObject

    Summarize = Callable[[str, str | None], JsonObject]
    Result = TypeVar("Result")

SYSTEM_PROMPT = (
    "You write summaries of conversations between a user and a coding assistant. Follow the format you are given. "
    "Do not carry the conversation on and do not answer questions in it; write nothing but the summary."
)


class SummaryRequest(Record):
    """One request to a model, sent with `SYSTEM_PROMPT`, without tools and without writing to a prompt cache.

    Attributes:
        prompt: The only message, from the user.
        reasoning: Thinking level, None for none.
    """

    prompt: str
    reasoning: str | None


class SummaryError(CannotError):
    """An answer that must not become a summary."""

    code = "summary_failed"


class SummaryAbortedError(SummaryError):
    """The person stopped the request."""

    code = "summary_aborted"


def answer_text(answer: JsonObject, what: str, *, allow_empty: bool) -> str:
    """Return the text of an answer that may become a summary.

    Args:
        answer: An assistant message.
        what: Names the request in errors.
        allow_empty: Accept an answer without words.

    Raises:
        SummaryAbortedError: the answer was aborted.
        SummaryError: it failed, was cut off at the token limit, calls a tool, or is empty.
    """
    stop = answer.get("stopReason")
    if stop == "aborted":
        raise SummaryAbortedError(f"{what} was stopped", hint="nothing was changed")
    if stop == "error":
        raise SummaryError(f"{what} failed: {answer.get('errorMessage') or 'Unknown error'}", hint="try again")
    if stop == "length":
        raise SummaryError(
            f"{what} failed: the answer was cut off at the token limit", hint="try a model with a larger output"
        )
    blocks = blocks_of(answer.get("content"))
    if any(block.get("type") == "toolCall" for block in blocks):
        raise SummaryError(f"{what} failed: the model called a tool instead of answering", hint="try again")
    text = content_text(blocks)
    if not allow_empty and not text.strip():
        raise SummaryError(f"{what} failed: the answer is empty", hint="try again")
    return text


def reasoning_for(thinking_level: str | None, *, reasoning_model: bool) -> str | None:
    """Return the thinking level to pass on: only to a reasoning model, and only when it is not `off`."""
    return thinking_level if reasoning_model and thinking_level and thinking_level != "off" else None


def drive(steps: Generator[SummaryRequest, JsonObject, Result], summarize: Summarize) -> Result:
    """Run a generator of requests to its end, answering each with `summarize(prompt, reasoning)`."""
    try:
        request = next(steps)
        while True:
            request = steps.send(summarize(request.prompt, request.reasoning))
    except StopIteration as end:
        result: Result = end.value
        return result
