"""Sums up a conversation without a model: what can be taken from it word for word, under the usual headings.

Pure and deterministic: same messages, same text. It finds the requests, what the user required, sentences that tell a
decision, commands, errors and the last state. It understands nothing, so it invents nothing. Files are not listed
here: every summary ends with the file lists of `file_operations`.
"""

from __future__ import annotations

import re

from pi_sessions.context import blocks_of, content_text, to_llm
from pi_sessions.pairing import results_by_call
from pi_sessions.tokens import UNITS_PER_TOKEN, cut_utf16, utf16_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pi_sessions.stored import JsonObject

DEFAULT_MAX_TOKENS = 2000
NOTE = "Made without a model from the words of the conversation."
HEADINGS = (
    "Goal",
    "Constraints & Preferences",
    "Key Decisions",
    "Commands",
    "Errors",
    "Focus",
    "Last State",
    "Critical Context",
)
_MOST = {
    "Goal": 10,
    "Constraints & Preferences": 10,
    "Key Decisions": 14,
    "Commands": 14,
    "Errors": 8,
    "Focus": 10,
    "Last State": 4,
}
# The first to go when the text is too long: what a reader misses least.
_EXPENDABLE = ("Commands", "Focus", "Errors", "Key Decisions", "Constraints & Preferences", "Goal")
_POINT_UNITS = 300
_STATE_UNITS = 900
_DECISION = re.compile(
    r"\b(decid\w*|chose|chosen|choose|agreed|settled|conclu\w+|instead of|rather than|let'?s (?:use|go|keep|take)"
    r"|we(?:'ll| will| should| are going to) (?:use|go|keep|take|do)|i(?:'ll| will) (?:use|go with|keep|take)|opted?"
    r"|go(?:ing)? with|switch(?:ed|ing)? to|the (?:fix|cause|reason|solution) (?:is|was)|root cause"
    r"|turn(?:s|ed) out)\b",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(
    r"\b(must(?:n'?t)?|never|always|do not|don'?t|only|prefer\w*|avoid|without|no longer|make sure|exactly|require\w*"
    r"|should(?:n'?t)?|keep the|not allowed)\b",
    re.IGNORECASE,
)
_FAILURE = re.compile(r"\b(\w*(?:Error|Exception)|error|fatal|failed|FAILED|panic|Traceback|not found|denied)\b")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_MARKER = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|#+|>)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\d(]*[^\s(])")
_BLOCKS = re.compile(r"\n*<(read-files|modified-files)>\n.*?\n</\1>", re.DOTALL)
_KEPT = re.compile(r"\n*<kept-messages>\n(.*?)\n</kept-messages>", re.DOTALL)
_PATH = re.compile(
    r"(?<![\w./:@-])(?:~?/|\.{1,2}/)?(?:[\w@+.-]+/)*[\w@+-][\w@+.-]*\.(?:[a-z]{1,5}\d?|[A-Z]{1,4}|lock|toml)\b"
)
_NOT_A_PATH = re.compile(r"^(?:\d[\d.]*\w{0,3}|e\.g|i\.e|etc\.\w+|v\d[\d.]*|[^/@]+@[^/]+)$")


def offline_summary(
    messages: Sequence[JsonObject],
    *,
    previous: str | None = None,
    focus: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
) -> str:
    """Return a summary of messages of a context.

    Args:
        messages: Oldest first; any roles.
        previous: The summary before these messages; its points are carried on.
        focus: Words whose sentences are kept, too.
        max_tokens: Most tokens of the text, estimated; the oldest and least needed points go first.

    Returns:
        Text under the headings of `HEADINGS`, those without a point left out.
    """
    sections: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    if previous:
        _take_previous(sections, previous)
    seen = [message for one in messages for message in to_llm(one)]
    sections["Goal"] += requests(messages)
    sections["Constraints & Preferences"] += constraints(messages)
    sections["Key Decisions"] += decisions(seen)
    sections["Commands"] += commands(messages)
    sections["Errors"] += errors(messages)
    if focus:
        sections["Focus"] += _about(seen, focus)
    state = _last_state(messages)
    if state:
        sections["Last State"] = state
    for heading, most in _MOST.items():
        sections[heading] = _newest(_without_repeats(sections[heading]), most, first=heading == "Goal")
    return _fitted(sections, max_tokens)


def requests(messages: Iterable[JsonObject]) -> list[str]:
    """Return what the user asked for: the first paragraph of each user message."""
    found = []
    for message in messages:
        if message.get("role") == "user":
            text = content_text(message.get("content")).strip()
            if text and not text.startswith("<"):
                found.append(_point(text.partition("\n\n")[0]))
    return found


def constraints(messages: Iterable[JsonObject]) -> list[str]:
    """Return the user's sentences that require, forbid or prefer something."""
    return [
        _point(sentence)
        for message in messages
        if message.get("role") == "user"
        for sentence in sentences(content_text(message.get("content")))
        if _CONSTRAINT.search(sentence)
    ]


def decisions(messages: Iterable[JsonObject]) -> list[str]:
    """Return the sentences of user and assistant that tell a decision or a finding."""
    return [
        _point(sentence)
        for message in messages
        if message.get("role") in ("user", "assistant")
        for sentence in sentences(content_text(message.get("content")))
        if _DECISION.search(sentence)
    ]


def commands(messages: Sequence[JsonObject]) -> list[str]:
    """Return the shell commands that were run, by the model or by the user, with how they ended if badly."""
    results = results_by_call(messages)
    found = []
    for place, message in enumerate(messages):
        if message.get("role") == "bashExecution":
            code = message.get("exitCode")
            ending = f" (exit {code})" if code else ""
            found.append(f"`{_line(str(message.get('command', '')))}`{ending}")
        elif message.get("role") == "assistant":
            for number, block in enumerate(blocks_of(message.get("content"))):
                arguments = block.get("arguments")
                command = arguments.get("command") if isinstance(arguments, dict) else None
                if block.get("type") == "toolCall" and isinstance(command, str) and command.strip():
                    result = results.get((place, number))
                    failed = result is not None and messages[result].get("isError") is True
                    found.append(f"`{_line(command)}`{' (failed)' if failed else ''}")
    return found


def errors(messages: Iterable[JsonObject]) -> list[str]:
    """Return the lines that tell what went wrong: of failed calls, failed answers and failing output."""
    found = []
    for message in messages:
        if message.get("role") == "assistant" and isinstance(message.get("errorMessage"), str):
            found.append(_line(message["errorMessage"]))
        if message.get("role") != "toolResult":
            continue
        lines = [line.strip() for line in content_text(message.get("content")).splitlines() if line.strip()]
        telling = [line for line in lines if _FAILURE.search(line)]
        if message.get("isError") is True and lines:
            found.append(f"{message.get('toolName')}: {_line(telling[-1] if telling else lines[0])}")
        elif telling:
            found.append(_line(telling[-1]))
    return found


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, code between fences left out."""
    in_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield from (part.strip() for part in _SENTENCE_END.split(_MARKER.sub("", line)) if part.strip())


def named_files(messages: Iterable[JsonObject]) -> list[str]:
    """Return the files that messages name, in words or as a `path` of a tool call, in order of first mention."""
    found: dict[str, None] = {}
    for message in messages:
        for seen in to_llm(message):
            for block in blocks_of(seen.get("content")):
                arguments = block.get("arguments")
                path = arguments.get("path") if isinstance(arguments, dict) else None
                if block.get("type") == "toolCall" and isinstance(path, str) and path:
                    found.setdefault(path)
                if block.get("type") == "text" and seen.get("role") in ("user", "assistant"):
                    for match in _PATH.findall(str(block.get("text", ""))):
                        if not _NOT_A_PATH.match(match):
                            found.setdefault(match)
    return list(found)


def _about(messages: Iterable[JsonObject], focus: str) -> list[str]:
    words = [word for word in re.findall(r"\w+", focus.lower()) if len(word) > 2]
    return [
        _point(sentence)
        for message in messages
        if message.get("role") in ("user", "assistant")
        for sentence in sentences(content_text(message.get("content")))
        if any(word in sentence.lower() for word in words)
    ]


def _last_state(messages: Sequence[JsonObject]) -> list[str]:
    points = []
    asked = next((message for message in reversed(messages) if message.get("role") == "user"), None)
    if asked is not None:
        text = content_text(asked.get("content")).strip()
        if text:
            points.append(f"Last request: {_line(text)}")
    for message in reversed(messages):
        text = content_text(message.get("content")).strip() if message.get("role") == "assistant" else ""
        if text:
            points.append(f"Last answer: {_line(text, _STATE_UNITS)}")
            break
    return points


def _take_previous(sections: dict[str, list[str]], previous: str) -> None:
    """Carry on the points of an earlier summary: those under our headings there, everything else as context."""
    kept = _KEPT.findall(previous)
    text = _BLOCKS.sub("", _KEPT.sub("", previous))
    heading = "Critical Context"
    for line in text.splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip()
            known = next((one for one in HEADINGS if title.lower().startswith(one.lower())), None)
            heading = known if known not in (None, "Last State", "Focus") else "Critical Context"
            continue
        point = _MARKER.sub("", line).strip()
        if point and point not in (NOTE, "---", "(none)", "(none)."):
            sections[heading].append(_point(point))
    sections["Critical Context"] += [part.strip() for part in kept if part.strip()]


def _without_repeats(points: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(points))


def _newest(points: list[str], most: int, *, first: bool) -> list[str]:
    """Keep the newest points; of goals the first one, too, which says what it is all about."""
    if len(points) <= most:
        return points
    return [points[0], *points[-(most - 1) :]] if first else points[-most:]


def _fitted(sections: dict[str, list[str]], max_tokens: int) -> str:
    most = max_tokens * UNITS_PER_TOKEN
    text = _text(sections)
    while utf16_length(text) > most:
        heading = next((one for one in _EXPENDABLE if len(sections[one]) > 1), None)
        if heading is None:
            return cut_utf16(text, most).rstrip()
        del sections[heading][1 if heading == "Goal" else 0]
        text = _text(sections)
    return text


def _text(sections: dict[str, list[str]]) -> str:
    parts = [NOTE]
    parts += [
        f"## {heading}\n" + "\n".join(f"- {point}" for point in points)
        for heading, points in sections.items()
        if points
    ]
    return "\n\n".join(parts)


def _point(text: str) -> str:
    return _line(text, _POINT_UNITS)


def _line(text: str, units: int = 200) -> str:
    line = " ".join(text.split())
    return line if utf16_length(line) <= units else cut_utf16(line, units - 1).rstrip() + "…"
