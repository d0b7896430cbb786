"""What goes wrong with a provider: told apart, said in a sentence, and never with a key in it.

Invariants: a rate limit is never taken for an overflow of the context, whatever words stand in it, and the other way
round; a failure is retryable only if the same request may well succeed later; an error text never holds a key. Pure:
no network, no clock. The failure is kept in the final message's diagnostics, so that whoever decides about retrying or
compacting later need not read error texts.

Source: Pi 1.6.0, error classification; the providers' error references.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pydantic import JsonValue

from pi_sessions.messages import AssistantMessage, JsonObject, Number

FailureKind = Literal[
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "server",
    "overflow",
    "bad_request",
    "not_found",
    "refused",
    "network",
    "stalled",
    "broken_stream",
    "aborted",
    "internal",
]
KINDS: tuple[str, ...] = get_args(FailureKind)

# The same request may succeed later; `internal`, `aborted` and the rest never are.
_RETRYABLE = frozenset({"rate_limit", "overloaded", "server", "network", "stalled", "broken_stream"})

_ADVICE: dict[str, str] = {
    "auth": "Check the API key and what it may use; `pi-session models` says where each key comes from.",
    "quota": "Check the plan and the billing of the account, or use another model; waiting does not help.",
    "rate_limit": "Wait a little and send it again, or use another model.",
    "overloaded": "The provider is overloaded; send it again in a moment, or use another model.",
    "server": "The provider failed on its side; send it again in a moment.",
    "overflow": "The conversation is longer than the model can take: shorten the last message, sum up what came before "
    "with `pi-session compact`, or use a model with a larger window.",
    "bad_request": "The provider refused the request as it is; `pi-session context --explain` shows what was sent.",
    "not_found": "Check the name of the model and the base URL; `pi-session models` lists what there is.",
    "refused": "The model or its filter declined; rephrase, or rewind to before the message.",
    "network": "Check the connection and the base URL, then send it again.",
    "stalled": "The server stopped sending; send it again, or allow a longer silence.",
    "broken_stream": "The answer is incomplete; send it again.",
    "aborted": "",
    "internal": "This is a mistake in the program; please report it.",
}
# For a failure on the provider's side of which nothing says that it passes.
_LASTING_SERVER = "The provider failed on its side, and nothing says that it passes; rephrase, or use another model."
DIAGNOSTIC = "provider_failure"
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Failure:
    """One classified failure.

    Args:
        kind: What sort of failure it is.
        message: The provider's own words, or ours where there are none.
        status: HTTP status; None where it did not come to one.
        code: The provider's own code or type.
        retryable: Whether the same request may succeed later.
        retry_after_ms: How long the server asks to wait, milliseconds.
        request_id: The provider's id of the request, for its support.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    code: str | None = None
    retryable: bool = False
    retry_after_ms: Number | None = None
    request_id: str | None = None

    @property
    def text(self) -> str:
        """The error text for people: what happened, then what to do."""
        status = "" if self.status is None or str(self.status) in self.message else f" (HTTP {self.status})"
        lasting = self.kind == "server" and not self.retryable
        return f"{self.message.rstrip()}{status}\n{_LASTING_SERVER if lasting else _ADVICE[self.kind]}".rstrip()

    def diagnostic(self, timestamp: Number) -> JsonValue:
        """Give the failure as an entry for the message's diagnostics.

        Args:
            timestamp: When it happened, Unix milliseconds.
        """
        details: JsonObject = {"kind": self.kind, "retryable": self.retryable}
        given = {
            "status": self.status,
            "code": self.code,
            "retryAfterMs": self.retry_after_ms,
            "requestId": self.request_id,
        }
        details.update({name: value for name, value in given.items() if value is not None})
        return {"type": DIAGNOSTIC, "timestamp": timestamp, "error": {"message": self.message}, "details": details}

    def without(self, secrets: Iterable[str]) -> "Failure":
        """Take secrets out of every text."""
        known = list(secrets)
        return replace(
            self,
            message=redact(self.message, known),
            code=None if self.code is None else redact(self.code, known),
            request_id=None if self.request_id is None else redact(self.request_id, known),
        )


class ProviderError(Exception):
    """Carries a failure to where the final message is made; never leaves a StreamFn."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def fail(kind: FailureKind, message: str, **more: str | int | None) -> ProviderError:
    """Make the error of a failure whose kind is known.

    Args:
        more: `status` and `code`, as in `Failure`.
    """
    status, code = more.get("status"), more.get("code")
    return ProviderError(
        Failure(
            kind,
            message,
            status=status if isinstance(status, int) else None,
            code=code if isinstance(code, str) else None,
            retryable=kind in _RETRYABLE,
        )
    )


# --- telling failures apart -------------------------------------------------------------------------------------

# Number, with thousands separators as some providers write it.
_N = r"[\d,._]+"
_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt (?:is )?too long",
            r"prompt exceeds max(?:imum)? length",
            r"request_too_large",
            r"context[_ ](?:length|window)[_ ]exceeded",
            r"exceed_context_size",
            r"exceeds? the (?:model'?s )?context (?:window|length|size)",
            r"exceeds the available context size",
            rf"maximum context length (?:is |of )?\(?{_N}",
            r"exceeds (?:the )?(?:model'?s )?maximum context length",
            rf"(?:max|maximum) context length by {_N}",
            r"exceeded max context length",
            rf"too large for model with {_N} maximum context length",
            r"greater than the context length",
            r"longer than the model'?s context length",
            r"context window exceed(?:ed|s)(?: limit| for given call)?",
            r"exceeded model token limit",
            r"input token count.{0,40}exceeds the maximum",
            rf"maximum prompt length is {_N}",
            rf"maximum allowed input length of {_N} tokens",
            r"reduce the length of the messages",
            r"input is too long for (?:the )?requested model",
            rf"prompt token count of {_N} exceeds the limit",
            r"range of input length should be",
            rf"prompt has {_N} tokens?, but the configured context size",
            r"input (?:is )?too long",
            r"too many tokens",
            r"token limit exceeded",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "request_too_large",
        "model_context_window_exceeded",
        "1261",
    }
)
_RATE = re.compile(
    r"rate[ _-]?limit|too many requests|throttl|(?:tokens|requests) per (?:minute|hour|day|second)|\bTPM\b|\bRPM\b",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ]quota|quota (?:was |has been )?exceeded|exceeded your current quota|\bbilling\b|billing_error"
    r"|out of (?:budget|credits?)|usage limit (?:was |has been )?(?:reached|exceeded)|usage_limit_(?:reached|exceeded)"
    r"|credit balance is too low|insufficient (?:credits?|balance|funds)|payment required|spend(?:ing)? limit",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(
    r"overloaded|server_busy|at capacity|currently experiencing high demand|servers? (?:is|are) (?:currently )?busy",
    re.IGNORECASE,
)
_SERVER = re.compile(
    r"server[ _]?error|internal[ _]error|api_error|service (?:is )?(?:temporarily )?unavailable|bad gateway"
    r"|provider returned (?:an )?error|upstream|timeout_error|timed? ?out|network[ _]error|connection (?:error|closed)"
    r"|try (?:your request )?again|retry your request",
    re.IGNORECASE,
)
_AUTH = re.compile(
    r"authentication_error|permission_error|invalid[ _]api[ _]key|incorrect api key|unauthori[sz]ed", re.IGNORECASE
)
_REFUSED = re.compile(r"content[_ ]?(?:filter|policy)|content_management_policy|safety|refus(?:al|ed)|sensitive", re.I)
_MODEL_MISSING = re.compile(r"model.{0,80}(?:not[ _]found|does not exist)|not_found_error|model_not_found", re.I | re.S)
_INVALID = re.compile(r"invalid[ _]|unsupported|not supported|bad request|malformed", re.I)
_RETRY_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})


def classify(
    message: str,
    *,
    status: int | None = None,
    code: str | None = None,
    provider: str = "",
    body_is_empty: bool = False,
) -> Failure:
    """Tell what a provider's error means.

    Args:
        message: Its text.
        status: HTTP status; None for an error inside a stream.
        code: The provider's own code or type.
        provider: Needed where a provider says nothing but a status.
        body_is_empty: Whether the response had no body.

    Returns:
        The failure, without the wait that headers may ask for.

    Source: the providers' error references; order matters, see the module's invariant.
    """
    words = f"{code or ''} {message}"
    kind = _kind(words, status, code, provider, body_is_empty)
    retryable = kind in _RETRYABLE and (status in _RETRY_STATUS or (status or 0) >= 500)
    if status is None:
        # Inside a stream an unknown error is the server's, but nothing says that it passes.
        retryable = kind in _RETRYABLE and (kind != "server" or _SERVER.search(words) is not None)
    return Failure(kind, _shortened(message), status=status, code=code, retryable=retryable)


def _kind(words: str, status: int | None, code: str | None, provider: str, body_is_empty: bool) -> FailureKind:
    if status in (401, 407):
        return "auth"
    if status == 402 or _QUOTA.search(words):
        return "quota"
    if status == 403:
        return "auth"
    if status == 429 or _RATE.search(words):
        return "rate_limit"
    if status == 413 or code in _OVERFLOW_CODES or _OVERFLOW.search(words):
        return "overflow"
    if status == 400 and body_is_empty and provider == "cerebras":
        return "overflow"
    if status == 404:
        return "not_found"
    if status in (503, 529) or _OVERLOADED.search(words):
        return "overloaded"
    if status == 408 or status == 409 or (status is not None and status >= 500):
        return "server"
    return _kind_of_refusal(words, status)


def _kind_of_refusal(words: str, status: int | None) -> FailureKind:
    """Tell apart what is left: a 4xx, or an error inside a stream."""
    if _AUTH.search(words):
        return "auth"
    if _REFUSED.search(words):
        return "refused"
    if _MODEL_MISSING.search(words):
        return "not_found"
    return "server" if status is None and not _INVALID.search(words) else "bad_request"


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


# --- reading errors ---------------------------------------------------------------------------------------------


def error_parts(payload: object) -> tuple[str, str | None] | None:
    """Find the error in a JSON value, in any of the shapes providers use.

    Returns:
        Its text and its code or type; None where the value holds no error.
    """
    if isinstance(payload, list) and payload:
        return error_parts(payload[0])
    if not isinstance(payload, dict):
        return None
    error = payload.get("error")
    if isinstance(error, dict):
        return _named(error)
    if isinstance(error, str) and error:
        message = payload.get("message")
        return (message, error) if isinstance(message, str) and message else (error, None)
    if payload.get("type") == "error" or payload.get("object") == "error":
        return _named(payload)
    for name in ("detail", "message"):
        value = payload.get(name)
        if isinstance(value, str) and value and "choices" not in payload:
            return value, None
    return None


def _named(error: JsonObject) -> tuple[str, str | None]:
    message = error.get("message")
    text = message if isinstance(message, str) and message else ""
    kind = error.get("type")
    # The code says more than the type ("insufficient_quota" of a "requests" error); a bare HTTP status says nothing.
    code = next((str(value) for value in (error.get("code"), kind) if value and value != "error"), None)
    if code is not None and code.isdigit() and isinstance(kind, str) and kind != "error":
        code = kind
    details = error.get("metadata")
    raw = details.get("raw") if isinstance(details, dict) else None
    if isinstance(raw, str) and raw and raw not in text:
        text = f"{text}\n{raw}".strip()
    return text or code or "The provider reported an error without a text", code


# --- secrets ----------------------------------------------------------------------------------------------------

# Shapes of keys that a provider may quote although we never sent them in the body.
_KEY_SHAPES = re.compile(
    r"\b(?:sk-|csk-|xai-|gsk_|hf_|AIza)(?=[\w*-]*[\d*])[\w*-]{8,}|\bBearer\s+[A-Za-z0-9._~+/=-]{8,}"
)
_SHORTEST_SECRET = 4
REDACTED = "[key]"


def redact(text: str, secrets: Iterable[str]) -> str:
    """Take keys out of a text: the given ones, and whatever looks like one."""
    for secret in sorted({secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return _KEY_SHAPES.sub(REDACTED, text)


# --- reading failures back --------------------------------------------------------------------------------------


def failure_of(message: AssistantMessage) -> Failure | None:
    """Give the failure of a stored message: from its diagnostics, or from its error text where it has none.

    Returns:
        None for a message that did not fail.
    """
    if message.stop_reason not in ("error", "aborted"):
        return None
    for entry in message.diagnostics or []:
        if isinstance(entry, dict) and entry.get("type") == DIAGNOSTIC:
            return _from_diagnostic(entry)
    text = message.error_message or ""
    if message.stop_reason == "aborted":
        return Failure("aborted", text)
    status = re.match(r"(\d{3})\b|.{0,40}\((?:HTTP )?(\d{3})\)", text)
    number = int(status.group(1) or status.group(2)) if status else None
    empty = "(no body)" in text
    return classify(text, status=number, provider=message.provider, body_is_empty=empty)


def _from_diagnostic(entry: JsonObject) -> Failure:
    details = entry.get("details")
    given = details if isinstance(details, dict) else {}
    error = entry.get("error")
    text = error.get("message") if isinstance(error, dict) else ""
    kind = given.get("kind")
    status, code, wait, request_id = (given.get(name) for name in ("status", "code", "retryAfterMs", "requestId"))
    return Failure(
        kind if kind in KINDS else "internal",  # type: ignore[arg-type]
        text if isinstance(text, str) else "",
        status=status if isinstance(status, int) else None,
        code=code if isinstance(code, str) else None,
        retryable=given.get("retryable") is True,
        retry_after_ms=wait if isinstance(wait, (int, float)) else None,
        request_id=request_id if isinstance(request_id, str) else None,
    )


def is_overflow(message: AssistantMessage, context_window: int = 0) -> bool:
    """Whether a response says that the context was longer than the model can take.

    Args:
        context_window: Of the model, tokens; 0 when unknown. With it, overflows that a server does not report are
            seen too: more input than fits, or an empty answer cut for length while the input fills the window.

    Source: Pi 1.6.0, context overflow.
    """
    failure = failure_of(message)
    if failure is not None:
        return failure.kind == "overflow"
    if context_window <= 0:
        return False
    asked = message.usage.input + message.usage.cache_read
    if message.stop_reason == "length":
        # Servers that cut the input leave almost no room; one percent allows for their own rounding.
        return message.usage.output == 0 and asked >= context_window * 0.99
    return message.stop_reason == "stop" and asked > context_window
