"""The arguments of a tool call: collected in pieces, shown as far as they have come, parsed when complete.

Invariant: arguments that are not one whole JSON object are never given out as arguments of a finished call; they give
an error text with what was received, which the loop answers to the model. Nothing here executes anything.

Source: Pi 1.6.0, tool call arguments.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from pi_loop.repair.well_formed import well_formed_text, well_formed_value
from pi_sessions.messages import JsonObject, Number

# How far the error text quotes the arguments; a model needs to see its mistake, not a whole file again.
_QUOTED = 2000
# Digits and sign of the longest integers that a double holds; Python itself refuses to read thousands of digits.
_LONGEST_INTEGER = 310


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """Arguments of a complete call; `error` is set when their text was not a JSON object."""

    arguments: JsonObject
    error: str | None = None


def parse_arguments(text: str) -> ParsedArguments:
    """Parse the whole argument text of a call; blank text means no arguments.

    Raw control characters inside strings are accepted, as models write them; NaN and Infinity are not JSON.
    """
    text = well_formed_text(text)
    if not text.strip():
        return ParsedArguments({})
    try:
        value = json.loads(text, strict=False, parse_int=_integer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return ParsedArguments({}, _complaint(str(error), text))
    if not isinstance(value, dict):
        return ParsedArguments({}, _complaint("Tool arguments must be a JSON object", text))
    return ParsedArguments(well_formed_value(value))


def is_complete(text: str) -> bool:
    """Whether a text is a whole JSON object."""
    stripped = text.strip()
    return stripped.startswith("{") and stripped.endswith("}") and parse_arguments(stripped).error is None


class ArgumentsView:
    """The arguments of a call while they arrive, for display.

    `feed` costs what the delta costs; `value` parses what has come, so ask for it when something is drawn, not for
    every delta.
    """

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, delta: str) -> None:
        """Take the next piece of the text."""
        self._pieces.append(delta)

    def text(self) -> str:
        """Give the text so far."""
        return "".join(self._pieces)

    def value(self) -> JsonObject:
        """Give the arguments as far as they have come: cut strings end where they are cut, half tokens are left out."""
        return partial_object(self.text())


def partial_object(text: str) -> JsonObject:
    """Read as much of a cut JSON object as there is; {} where there is none."""
    text = well_formed_text(text)
    for repaired in _closed(text):
        try:
            value = json.loads(repaired, strict=False, parse_int=_integer, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            continue
        return dict(well_formed_value(value)) if isinstance(value, dict) else {}
    return {}


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")


def _closed(text: str) -> list[str]:
    """Give the cut text closed, best reading first: with its last, cut token, and without it."""
    closers: list[str] = []
    # Where the text can be cut so that closing it gives JSON, and the closers needed there.
    safe: list[tuple[int, str]] = []
    end = 0
    expects_value = False
    for token in _TOKEN.finditer(text):
        word = token.group()
        if text[end : token.start()].strip():
            break
        end = token.end()
        if word in "{[":
            closers.append("}" if word == "{" else "]")
            safe.append((end, _tail(closers)))
            expects_value = word == "["
        elif word in "}]":
            if not closers:
                break
            closers.pop()
            safe.append((end, _tail(closers)))
            expects_value = False
        elif word == ":":
            expects_value = True
        elif word == ",":
            expects_value = bool(closers) and closers[-1] == "]"
        elif expects_value or (closers and closers[-1] == "]"):
            safe.append((end, _tail(closers)))
            expects_value = False
    readings: list[str] = []
    rest = text[end:].lstrip()
    if rest.startswith('"') and expects_value:
        whole = text[: len(text) - len(rest)] + _CUT_ESCAPE.sub("", rest)
        readings.append(whole + '"' + _tail(closers))
    # The last places are enough: a cut token, a key without a value and a half literal span at most three.
    readings.extend(text[:place] + tail for place, tail in reversed(safe[-3:]))
    return readings


def _tail(closers: list[str]) -> str:
    return "".join(reversed(closers))


def _integer(digits: str) -> Number:
    """Read an integer; what no double holds is infinite, however many digits it has."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _complaint(reason: str, text: str) -> str:
    quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}... ({len(text)} characters)"
    return f"{reason}\n\nReceived arguments:\n{quoted}"
