"""Answers that come as one piece: a JSON object, or a refusal with its reason. Raises and classifies, retries nothing.

Source: the providers' error references; Pi 1.6.0, error classification.
"""

import json

import httpx

from pi_loop.providers.errors import Failure, ProviderError, classify, error_parts, fail
from pi_loop.providers.retry import with_headers
from pi_loop.providers.transport import Exchange
from pi_sessions.messages import JsonObject, Number

LONGEST_WHOLE_BODY = 64 * 1024 * 1024


def media_type(response: httpx.Response) -> str:
    """Give what a response says it is, without parameters, in lower case."""
    given: str = response.headers.get("content-type", "")
    return given.partition(";")[0].strip().lower()


async def json_object(exchange: Exchange, *, deadline: float) -> JsonObject:
    """Read a body that is one JSON object.

    Args:
        deadline: When to give up, on anyio's clock, seconds.

    Raises:
        ProviderError: it is none, or it does not come.
    """
    raw = await exchange.read_all(deadline=deadline, limit=LONGEST_WHOLE_BODY)
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        raise fail("broken_stream", "The server's answer is not JSON") from None
    if not isinstance(payload, dict):
        raise fail("broken_stream", "The server's answer is not a JSON object")
    return payload


async def refusal_of(
    exchange: Exchange, response: httpx.Response, *, provider: str, deadline: float, now_ms: Number
) -> Failure:
    """Read the error of a response that is no success.

    Args:
        provider: Its name, for errors that only it means in a certain way.
        deadline: When to give up, on anyio's clock, seconds.
        now_ms: For a date in `retry-after`, Unix milliseconds.

    Raises:
        ProviderError: the request was aborted.
    """
    try:
        raw = await exchange.read_all(deadline=deadline)
    except ProviderError as error:
        if error.failure.kind == "aborted":
            raise
        raw = b""
    text = raw.decode("utf-8", "replace").strip()
    try:
        parts = error_parts(json.loads(text))
    except (ValueError, RecursionError):
        parts = None
    message, code = parts or ("" if text.startswith("<") else text, None)
    if response.is_redirect:
        message = "The server redirects elsewhere; redirects are not followed"
    failure = classify(
        message or f"The server answered {response.status_code} {response.reason_phrase}".rstrip(),
        status=response.status_code,
        code=code,
        provider=provider,
        body_is_empty=not text,
    )
    return with_headers(failure, response.headers, now_ms)
