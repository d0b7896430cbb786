"""Says where in stored JSON a secret may be replaced: in what was said and given, never in what makes an entry one.

Pure. Works on the text, token by token and without recursion, so that every other byte stays as it came. Only strings
are replaced, and names of fields below objects of any shape (`arguments`, `details`, `data`, fields Pi does not know).
A number there that is the secret becomes a mark in quotes. Roles, types, models and ids stay.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.secret_spans import SecretSpans

Edit = tuple[int, int, str]

_STRUCTURAL_FIELDS = (
    "role type stopReason rawStopReason api provider model modelId responseModel responseId id parentId toolCallId"
    " targetId fromId firstKeptEntryId customType kind mimeType thinkingLevel providerThinkingLevel timestamp"
)
_OTHER_FIELDS = (
    "text textSignature thinking thinkingSignature redacted name thoughtSignature namespace argumentsError input output"
    " cacheRead cacheWrite cacheWrite1h total totalFromProvider reasoning totalTokens cost expiresAt pollAfterMs"
    " description parameters constrainedSampling argumentsBytes status durationMs error calls complete content"
    " sections toolsAdded toolsRemoved usage deferred errorMessage endTurn toolName nestedCalls isError command"
    " exitCode cancelled truncated fullOutputPath excludeFromContext display summary tokensBefore note fromHook"
    " systemMessage replacement label message"
)
# What the format, operations and headers are made of beside the names of fields.
_VALUES = (
    "system user assistant toolResult bashExecution custom compactionSummary branchSummary image toolCall stop length"
    " toolUse aborted model_change thinking_level_change compaction branch_summary custom_message context_edit"
    " session_info session version cwd parentSession title fact rename branch archived pinned deleted leaf current"
    " parent_session parent_agent parent_call images context"
)
FREE = frozenset({"arguments", "details", "data", "diagnostics"})
STRUCTURAL = frozenset(_STRUCTURAL_FIELDS.split())
FIELDS = STRUCTURAL | FREE | frozenset(_OTHER_FIELDS.split())
WORDS = FIELDS | frozenset(_VALUES.split())
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_NAME, _KEPT, _VALUE, _FREE_NUMBER, _OTHER = range(5)


class _Token(NamedTuple):
    start: int
    end: int
    kind: int


def edits_in_json(text: str, spans: SecretSpans, mark: str, *, free: bool = False) -> tuple[list[Edit], int]:
    """Return what to put where so that a JSON text loses a secret, and how often the secret stood there.

    Args:
        text: JSON that can be decoded.
        spans: Finds the secret.
        mark: What takes its place.
        free: It is no message or entry: any field may be changed, words of the format apart.
    """
    edits: list[Edit] = []
    count = 0
    for start, end, kind in _tokens(text, free):
        if kind == _FREE_NUMBER:
            if text[start:end] == spans.value:
                edits.append((start, end, f'"{mark}"'))
                count += 1
        elif kind == _VALUE:
            token = text[start:end]
            found = [] if free and token[1:-1] in WORDS else spans.in_text(token)
            if found:
                count += len(found)
                inner = _nested(token, found, spans, mark)
                if inner is None:
                    edits += [(start + first, start + last, mark) for first, last in found]
                else:
                    edits.append((start, end, inner))
    return edits, count


def applied(text: str, edits: list[Edit]) -> str:
    """Return a text with all edits made."""
    parts: list[str] = []
    at = 0
    for start, end, new in edits:
        parts += (text[at:start], new)
        at = end
    parts.append(text[at:])
    return "".join(parts)


def kept_in_json(text: str, spans: SecretSpans) -> str | None:
    """Return the token of a changed entry that still holds a secret which may not stay there; None when there is none.

    Numbers and words of the format may hold it by chance, and so may anything hold a few digits.
    """
    places = spans.in_text(text)
    if not places or spans.value.isdigit():
        return None
    tokens = iter(_tokens(text, False))
    token = next(tokens)
    for start, end in places:
        while token.end <= start:
            token = next(tokens)
        whole = text[token.start : token.end]
        if end > token.end or (whole.startswith('"') and whole[1:-1] not in WORDS):
            return whole if end <= token.end else text[start:end]
    return None


def same_shape(old: Any, new: Any) -> bool:
    """Whether a decoded value has the fields, items and kinds of values of another; numbers may have become texts."""
    waiting = [(old, new)]
    while waiting:
        one, other = waiting.pop()
        if isinstance(one, dict):
            if not isinstance(other, dict) or len(one) != len(other):
                return False
            waiting += zip(one.values(), other.values(), strict=True)
        elif isinstance(one, list):
            if not isinstance(other, list) or len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif type(one) is not type(other) and (type(one) not in (int, float) or not isinstance(other, str)):
            return False
    return True


def decoded(text: str) -> Any:
    """Return an object or list from its JSON text, None when the text is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _nested(token: str, found: list[tuple[int, int]], spans: SecretSpans, mark: str) -> str | None:
    """Return the token of a text that holds JSON itself, when marks in it alone would end that; None otherwise."""
    inner = json.loads(token, strict=False)
    if decoded(inner) is None or ";base64," in token:
        return None
    changed = json.loads(applied(token, [(start, end, mark) for start, end in found]), strict=False)
    if decoded(changed) is not None:
        return None
    edits, _count = edits_in_json(inner, spans, mark, free=True)
    return json.dumps(applied(inner, edits), ensure_ascii=False)


def _tokens(text: str, free: bool) -> list[_Token]:
    """Return the texts, names and numbers of JSON in their order, each with what may be done with it."""
    found: list[_Token] = []
    # Of each object and list that is open: is it an object, may its names change, its latest name, comes a name next.
    opened: list[list[Any]] = []
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        first = text[start]
        top = opened[-1] if opened else None
        if first in "{[":
            inside = free if top is None else bool(top[1]) or top[2] in FREE or (top[2] or "content") not in FIELDS
            opened.append([first == "{", inside, top[2] if top and first == "[" else None, first == "{"])
        elif first in "}]":
            if opened:
                opened.pop()
        elif first == ",":
            if top:
                top[3] = top[0]
        elif first == ":":
            if top:
                top[3] = False
        elif first == '"' and top is not None and top[3]:
            top[2] = text[start + 1 : end - 1]
            found.append(_Token(start, end, _VALUE if top[1] else _NAME))
        elif first == '"':
            kept = top is not None and not top[1] and top[2] in STRUCTURAL
            found.append(_Token(start, end, _KEPT if kept else _VALUE))
        else:
            below = top is not None and (top[1] or top[2] in FREE or (top[2] or "content") not in FIELDS)
            found.append(_Token(start, end, _FREE_NUMBER if below else _OTHER))
    return found
