"""Failures are told apart, say what to do, and hold no key."""

import pytest

from pi_loop.providers.errors import Failure, classify, error_parts, failure_of, is_overflow, redact
from pi_sessions.messages import AssistantMessage, Usage

OVERFLOWS = [
    (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    (413, '{"type":"request_too_large","message":"Request exceeds the maximum size"}'),
    (413, "anything at all"),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."),
    (400, "Requested token count exceeds the model's maximum context length of 131072 tokens"),
    (400, "the request (40031 tokens) exceeds the available context size (8192 tokens), try increasing it"),
    (400, "prompt too long; exceeded max context length by 200 tokens"),
    (400, "The number of tokens to keep from the initial prompt is greater than the context length"),
    (400, "maximum context length 8192 was reached"),
    (400, "Input length (265330) exceeds model's maximum context length (262144)."),
    (400, "litellm.ContextWindowExceededError: Context Window exceeded for given call."),
    (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Please reduce the length of the messages or completion."),
    (400, "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens"),
    (400, "Input length 300000 exceeds the maximum allowed input length of 262144 tokens."),
    (422, "The input (200000 tokens) is longer than the model's context length (131072 tokens)."),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    (400, "Input is too long for requested model."),
    (400, "prompt token count of 130000 exceeds the limit of 128000"),
    (400, "invalid params, context window exceeds limit (2013)"),
    (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
    (400, '{"code":"1261","message":"Prompt exceeds max length"}'),
    (400, "Range of input length should be [1, 98304]"),
    (None, "context_length_exceeded: too long"),
]


@pytest.mark.parametrize(("status", "text"), OVERFLOWS)
def test_overflow_is_recognised(status: int | None, text: str) -> None:
    failure = classify(text, status=status)
    assert failure.kind == "overflow"
    assert not failure.retryable
    assert "compact" in failure.text
    stored = AssistantMessage(stop_reason="error", error_message=f"{status or ''} {text}".strip())
    assert is_overflow(stored)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, "This request would exceed the limit of 80000 input tokens per minute; too many tokens."),
        (429, "Rate limit reached: maximum context length is 8 tokens"),
        (429, ""),
        (413, "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000"),
        (400, "ThrottlingException: Too many tokens, please wait before trying again."),
        (None, "rate_limit_error: too many tokens"),
        (503, "Throttling error: too many requests, prompt is too long"),
    ],
)
def test_rate_limit_is_never_an_overflow(status: int | None, text: str) -> None:
    assert classify(text, status=status, code="rate_limit_error" if status is None else None).kind == "rate_limit"


@pytest.mark.parametrize("status", [400, 413])
def test_cerebras_overflows_without_a_word(status: int) -> None:
    assert classify(f"{status} status code (no body)", status=status, provider="cerebras", body_is_empty=True).kind == (
        "overflow"
    )
    assert classify("", status=400, provider="other", body_is_empty=True).kind == "bad_request"


@pytest.mark.parametrize(
    ("status", "text", "kind", "retryable"),
    [
        (401, "Incorrect API key provided", "auth", False),
        (403, "permission_error: no", "auth", False),
        (402, "Payment Required", "quota", False),
        (
            429,
            "insufficient_quota: You exceeded your current quota, please check your plan and billing",
            "quota",
            False,
        ),
        (429, "Monthly usage limit reached", "quota", False),
        (400, "Your credit balance is too low to access the API", "quota", False),
        (429, "Too Many Requests", "rate_limit", True),
        (529, "Overloaded", "overloaded", True),
        (503, "Service Unavailable", "overloaded", True),
        (500, "Internal server error", "server", True),
        (502, "Bad Gateway", "server", True),
        (504, "timeout", "server", True),
        (520, "?", "server", True),
        (408, "Request Timeout", "server", True),
        (409, "Conflict", "server", True),
        (404, "model: claude-nope", "not_found", False),
        (400, "invalid_request_error: messages.1: tool_use ids without tool_result", "bad_request", False),
        (405, "Method Not Allowed", "bad_request", False),
        (422, "Unprocessable", "bad_request", False),
        (400, "The response was filtered: content_filter", "refused", False),
        (None, "Overloaded", "overloaded", True),
        (None, "server_error: The model failed", "server", True),
        (None, "provider returned error", "server", True),
        (None, "blue moon", "server", False),
        (None, "authentication_error: invalid x-api-key", "auth", False),
    ],
)
def test_failures_are_told_apart(status: int | None, text: str, kind: str, retryable: bool) -> None:
    failure = classify(text, status=status)
    assert (failure.kind, failure.retryable) == (kind, retryable)
    sentence = failure.text.splitlines()[-1]
    assert sentence.endswith(".")
    assert len(sentence) > 20


@pytest.mark.parametrize(
    ("payload", "parts"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ("m", "c")),
        ({"error": {"message": "m", "type": "t", "code": None}}, ("m", "t")),
        ({"error": {"message": "m", "type": "t", "code": 400}}, ("m", "t")),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, ("m", "overloaded_error")),
        ({"type": "error", "code": "server_error", "message": "m"}, ("m", "server_error")),
        ({"object": "error", "message": "m", "type": "BadRequestError"}, ("m", "BadRequestError")),
        ({"error": "plain"}, ("plain", None)),
        ({"error": "code", "message": "words"}, ("words", "code")),
        ({"detail": "not here"}, ("not here", None)),
        ([{"error": {"message": "m"}}], ("m", None)),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "details"}}}, None),
        ({"choices": []}, None),
        ("text", None),
    ],
)
def test_errors_are_found_in_every_shape(payload: object, parts: tuple[str, str | None] | None) -> None:
    found = error_parts(payload)
    if isinstance(payload, dict) and "metadata" in str(payload):
        assert found == ("Provider returned error\ndetails", None)
    else:
        assert found == parts


def test_failure_survives_in_the_stored_message() -> None:
    failure = Failure("rate_limit", "slow down", 429, "rate_limit_error", True, 1500, "req_1")
    message = AssistantMessage(
        stop_reason="error", error_message=failure.text, diagnostics=[{"type": "other"}, failure.diagnostic(1)]
    )
    assert failure_of(message) == failure
    assert failure_of(AssistantMessage(stop_reason="stop")) is None
    aborted = failure_of(AssistantMessage(stop_reason="aborted", error_message="Request was aborted"))
    assert aborted is not None
    assert (aborted.kind, aborted.retryable) == ("aborted", False)


def test_failure_of_a_message_from_elsewhere_is_read_from_its_text() -> None:
    message = AssistantMessage(
        stop_reason="error", error_message='429 {"type":"error","error":{"type":"rate_limit_error","message":"x"}}'
    )
    failure = failure_of(message)
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.status) == ("rate_limit", True, 429)


@pytest.mark.parametrize(
    ("usage", "stop", "overflow"),
    [
        (Usage(input=1200), "stop", True),
        (Usage(input=500, cache_read=600), "stop", True),
        (Usage(input=900), "stop", False),
        (Usage(input=995, output=0), "length", True),
        (Usage(input=995, output=5), "length", False),
        (Usage(input=300, output=0), "length", False),
    ],
)
def test_silent_overflow_shows_in_usage(usage: Usage, stop: str, overflow: bool) -> None:
    message = AssistantMessage(stop_reason=stop, usage=usage)  # type: ignore[arg-type]
    assert is_overflow(message, 1000) is overflow
    assert not is_overflow(message)


def test_keys_are_taken_out() -> None:
    text = "Incorrect key: my-own-key-1 (also my-own-key), sk-abcdef1234567890, sk-pro***xyz, Bearer abcdefghijklmn"
    shown = redact(text, ["my-own-key", "my-own-key-1", "", "abc"])
    assert shown == "Incorrect key: [key] (also [key]), [key], [key], [key]"


def test_ordinary_words_stay() -> None:
    text = "A task-force on risk-assessment, sk-learn-something and gsk, Bearer of news"
    assert redact(text, []) == text


@pytest.mark.parametrize("status", ["cancelled", "failed", "expired"])
def test_advice_to_send_again_is_given_only_where_sending_again_may_help(status: str) -> None:
    failure = classify(f"The response ended as {status}, without giving a reason")
    assert not failure.retryable
    assert "send it again" not in failure.text
    assert "send it again" in classify("", status=500, code=None, provider="openai").text
