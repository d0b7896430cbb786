"""Real Pi 1.6.0 and pi-session, asked the same by the same person on the same server, write the same session.

The same: type, role, order and links of the entries, and beyond that the content of messages, calls and results, stop
reasons, models, token counts and what a compaction keeps. Not compared: ids and times, the words of the system prompt,
costs. What differs on purpose is in `DIFFERENCES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mock_server import ANTHROPIC, CHAT, RESPONSES, Answer, MockServer
from tests.interop.talkers import MODELS, Step, prepare, shape, talk_by_command, talk_by_runner, talk_to_pi

Json = Any

LONG = "All of this was said at some length. " * 40
READ = ("read", {"path": "notes.txt"})
BASH = ("bash", {"command": "echo out; cat other.txt"})
EDIT = ("edit", {"path": "notes.txt", "edits": [{"oldText": "a note", "newText": "a better note"}]})
SLEEP = ("bash", {"command": "echo begun; touch started; sleep 20"})

SCENARIOS: dict[str, tuple[list[Step], list[Answer]]] = {
    "text": ([Step("Hi")], [Answer(text="Hello.")]),
    "tools": (
        [Step("Improve the note.")],
        [Answer(text="I read it.", calls=(READ,)), Answer(calls=(EDIT,)), Answer(calls=(BASH,)), Answer(text="Done.")],
    ),
    "parallel": ([Step("Look around.")], [Answer(calls=(BASH, READ)), Answer(text="Seen.")]),
    "tool-errors": (
        [Step("Try.")],
        [
            Answer(calls=(("read", {"path": "missing.txt"}), ("nothing", {"a": 1}), ("read", {}))),
            Answer(calls=(("bash", {"command": "echo no; exit 3"}),)),
            Answer(text="None of it worked."),
        ],
    ),
    "retry": ([Step("Hi")], [Answer(status=500), Answer(status=503), Answer(text="At last.")]),
    "retry-cut": ([Step("Hi")], [Answer(text="Half an", cut=True), Answer(text="Half an answer.")]),
    "retry-given-up": ([Step("Hi"), Step("Still there?")], [*[Answer(status=500)] * 4, Answer(text="Back.")]),
    "refused": ([Step("Hi"), Step("Again")], [Answer(status=401), Answer(text="Now yes.")]),
    "abort": (
        [Step("Tell me a story.", meanwhile=("abort",)), Step("Shorter.")],
        [Answer(text="Once upon", held=True), Answer(text="The end.")],
    ),
    "model": ([Step("Hi"), Step("You too", model=MODELS[1])], [Answer(text="Hello."), Answer(text="Hello from two.")]),
    "overflow": (
        [Step("One"), Step("Two"), Step("Three"), Step("Four")],
        [
            *[Answer(text=LONG)] * 2,
            Answer(status=400),
            Answer(text="After it."),
            Answer(text="And on."),
        ],
    ),
    "threshold": (
        [Step("One"), Step("Two"), Step("Three")],
        [
            Answer(text=LONG),
            Answer(text=LONG, tokens=127_500),
            Answer(text="After it."),
        ],
    ),
    "compact": (
        [Step("One"), Step("Two"), Step(None), Step("Three")],
        [Answer(text=LONG, calls=(READ,)), *[Answer(text=LONG)] * 2, Answer(text="After it.")],
    ),
}
# The command takes no message while it works.
STEERED: dict[str, tuple[list[Step], list[Answer]]] = {
    "abort-wait": (
        [Step("Hi", meanwhile=("abort",), when="waiting"), Step("Again")],
        [Answer(status=500), Answer(text="Hello again.")],
    ),
    "steering-tools": (
        [Step("Go", meanwhile=(("steer", "One"), ("steer", "Two"), ("follow_up", "Three"), ("follow_up", "Four")))],
        [
            Answer(text="I look.", calls=(READ, BASH), held=True),
            Answer(calls=(READ,)),
            *[Answer(text=word) for word in ("Two.", "Three.", "Four.")],
        ],
    ),
    "steering": (
        [Step("Go", meanwhile=(("steer", "Faster"), ("follow_up", "And then?")))],
        [Answer(text="I look.", calls=(READ,), held=True), Answer(text="Faster it is."), Answer(text="Then this.")],
    ),
}


def _without_kept(entry: Json) -> Json:
    return {**entry, "summary": _KEPT.sub("", entry["summary"])} if "summary" in entry else entry


def _without_words_of_system(entry: Json) -> Json:
    """Take the system's own words out of a failed result."""
    if not entry.get("isError"):
        return entry
    texts = [{**block, "text": _NO_FILE.sub("no such file", block["text"])} for block in entry["content"]]
    return {**entry, "content": texts}


_KEPT = re.compile(r"\n\n<kept-messages>\n.*?\n</kept-messages>", re.DOTALL)
_NO_FILE = re.compile(
    r"ENOENT: no such file or directory, access '.*/missing\.txt'|Cannot read missing\.txt: No such .*"
)
# What may differ, and why; each takes the difference out of an entry. Everything else is equal.
DIFFERENCES: dict[str, Callable[[Json], Json]] = {
    "a compaction in the middle of a turn keeps the last user message word for word, Pi only sums it up": _without_kept,
    "a file that is missing is reported in the words of the platform: Node's there, Python's here": (
        _without_words_of_system
    ),
}


def play(talk: Any, folder: Path, api: str, scenario: tuple[list[Step], list[Answer]]) -> list[Json]:
    """Let one of the three play a scenario; gives the shape of its session file."""
    steps, answers = scenario
    with MockServer(answers) as server:
        environ = prepare(folder, server, api)
        lines = talk(folder, environ, server, steps)
        assert server.asked == len(answers)
    entries = shape(lines)
    for take_out in DIFFERENCES.values():
        entries = [take_out(entry) for entry in entries]
    return entries


def differences(ours: list[Json], theirs: list[Json]) -> list[str]:
    """Say where two sessions differ, entry by entry."""
    return [
        f"entry {place}: ours {json.dumps(mine)}\n      Pi's {json.dumps(his)}"
        for place, (mine, his) in enumerate(zip_longest(ours, theirs))
        if mine != his
    ]


@pytest.mark.parametrize("api", [CHAT, RESPONSES, ANTHROPIC])
@pytest.mark.parametrize("name", [*SCENARIOS, *STEERED])
def test_the_same_person_on_the_same_server_gives_the_same_session(tmp_path: Path, name: str, api: str) -> None:
    scenario = {**SCENARIOS, **STEERED}[name]
    theirs = play(talk_to_pi, tmp_path / "pi", api, scenario)
    ours = {"runner": play(talk_by_runner, tmp_path / "runner", api, scenario)}
    if name in SCENARIOS:
        ours["command"] = play(talk_by_command, tmp_path / "command", api, scenario)
    found = {who: differences(session, theirs) for who, session in ours.items()}
    assert not any(found.values()), "\n".join(f"{who}: {line}" for who, lines in found.items() for line in lines)
