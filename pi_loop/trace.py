"""`python -m pi_loop.trace FILE`: prints a run's events as an indented picture.

FILE is a loop scenario (its expected trace is drawn), a JSON list of events, or JSON Lines of events as
`pi-session run --json` prints them. Runs, turns, messages and tool calls are nested; what a scenario records besides
events (polls, hooks, requests) stands where it happened. Draws only; runs nothing.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pi_loop.ecmascript import json_text
from pi_sessions.messages import JsonObject

_OPENS = ("agent_start", "turn_start", "message_start", "tool_execution_start")
_CLOSES = ("agent_end", "turn_end", "message_end", "tool_execution_end")
_SHORT = 72


def picture(entries: Iterable[JsonObject]) -> Iterator[str]:
    """Give one line for each event or other entry of a trace, indented by what it lies in."""
    open_names: list[str] = []
    for entry in entries:
        kind = str(entry.get("type"))
        name = kind.rpartition("_")[0]
        if kind in _CLOSES:
            # Parallel calls end in any order; everything that was opened inside what ends here is over with it.
            if name in open_names:
                last = len(open_names) - 1 - open_names[::-1].index(name)
                del open_names[last if name in ("message", "tool_execution") else open_names.index(name) :]
            yield "  " * len(open_names) + _line(kind, entry)
        else:
            yield "  " * len(open_names) + _line(kind, entry)
            if kind in _OPENS:
                open_names.append(name)


def _line(kind: str, entry: JsonObject) -> str:
    parts = [kind]
    message = entry.get("message")
    if isinstance(message, dict) and kind != "message_update":
        parts.append(_message(message))
    update = entry.get("assistantMessageEvent")
    delta = update if isinstance(update, dict) else entry
    if kind == "message_update":
        parts.append(str(delta.get("event", delta.get("type"))))
        if "delta" in delta:
            parts.append(json_text(delta["delta"]))
    elif kind.startswith("tool_execution"):
        parts += [str(entry.get("toolCallId", entry.get("id"))), str(entry.get("toolName", entry.get("name")))]
        shown = "args" if kind.endswith("start") else "result" if kind.endswith("end") else "partialResult"
        parts.append(_short(entry.get(shown)))
        if entry.get("isError"):
            parts.append("ERROR")
    elif kind not in (*_OPENS, *_CLOSES):
        rest = {key: value for key, value in entry.items() if key != "type"}
        parts.append(_short(rest) if rest else "")
    return " ".join(part for part in parts if part)


def _message(message: JsonObject) -> str:
    role, reason = str(message.get("role")), message.get("stopReason")
    return f"{role}/{reason} {_short(message.get('content'))}" if reason else f"{role} {_short(message.get('content'))}"


def _short(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def read_entries(text: str) -> list[JsonObject]:
    """Read the entries of a scenario, a list of events, or JSON Lines of events.

    Raises:
        ValueError: the text is none of these.
    """
    try:
        data = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(data, list):
        return data
    if isinstance(data, dict) and "expected" in data:
        entries: list[JsonObject] = data["expected"]["trace"]
        return entries
    return [data]


def main(arguments: list[str]) -> None:
    """Draw the files named on the command line."""
    for name in arguments:
        for line in picture(read_entries(Path(name).read_text(encoding="utf-8"))):
            print(line)  # noqa: T201 - the picture is what this program is for


if __name__ == "__main__":
    main(sys.argv[1:])
