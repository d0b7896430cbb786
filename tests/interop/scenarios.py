"""What the real Claude Code and the real Codex are asked for, so that they write what an importer has to read.

One session of each: a tool loop with thinking, two calls at once and a failing one; resumed; gone on with from an older
place (Claude Code); compacted; a helper (Claude Code); a request that fails; and a fork of it.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.interop.agents import ClaudeCode, Codex
from tests.interop.mock_server import Answer, MockServer

Json = Any

CLAUDE_MODEL = "claude-opus-5-5"
SUMMARY = "A note was read."


def claude_code_works(folder: Path) -> tuple[ClaudeCode, str, str]:
    """Let Claude Code write its session; gives it, the session's id and the fork's."""
    claude = ClaudeCode(folder)
    note = claude.work / "notes.txt"
    note.write_text("a note\n", encoding="utf-8")
    says = partial(Answer, model=CLAUDE_MODEL)
    look = says(
        text="I look.",
        thinking="Which file?",
        calls=(("Read", {"file_path": str(note)}), ("Bash", {"command": "cat missing.txt"})),
    )
    begun = _ask(claude, "a", [look, says(text="One is there.", thinking="Good.")], "Read the notes", "Read,Bash")
    session = begun["session_id"]
    resume = partial(_ask, claude, resumed=session)
    older = _uuid_of(claude.transcript(session), "One is there.")
    resume("b", [says(text="It says: a note.")], "What does it say?")
    resume("c", [says(text="It is short.")], "How long is it?", "", "--resume-session-at", older)
    resume("d", [says(text=f"<summary>{SUMMARY}</summary>")], "/compact")
    resume("e", [says(text="Gladly.")], "Go on")
    helper = {"description": "count", "prompt": "Count the notes.", "subagent_type": "general-purpose"}
    counted = says(text="There is one.")
    resume("f", [says(calls=(("Agent", {**helper, "run_in_background": False}),)), counted, counted], "Ask", "Agent")
    fork = resume("g", [says(text="On a fork.")], "Fork", "", "--fork-session")
    resume("h", [Answer(status=401)], "Fail", fails=True)
    return claude, session, fork["session_id"]


def _ask(
    claude: ClaudeCode, name: str, answers: list[Answer], prompt: str, tools: str = "", *more: str, **how: Any
) -> Json:
    options = [*more, *(("--allowedTools", tools) if tools else ())]
    if "resumed" in how:
        options += ["--resume", how["resumed"]]
    with MockServer(answers, name=name, summaries={}) as server:
        answer = claude.ask(server, prompt, *options, fails=how.get("fails", False))
        assert server.asked == len(answers)
    return answer


def _uuid_of(file: Path, text: str) -> str:
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    [found] = [each["uuid"] for each in records if each["type"] == "assistant" and text in json.dumps(each["message"])]
    return str(found)


def codex_works(folder: Path) -> tuple[Codex, str, str]:
    """Let Codex write its session; gives it, the session's id and the fork's."""
    codex = Codex(folder)
    (codex.work / "notes.txt").write_text("a note\n", encoding="utf-8")
    says = partial(Answer, model=codex.model)
    calls = (("exec_command", {"cmd": "cat notes.txt"}), ("exec_command", {"cmd": "cat missing.txt"}))
    look = says(text="I look.", thinking="Which file?", calls=calls)
    with MockServer([look, says(text="One is there.", thinking="Good.")], name="a", summaries={}) as server:
        session = codex.ask(server, "Read the notes")[0]["thread_id"]
    with MockServer([says(text="It says: a note.")], name="b", summaries={}) as server:
        codex.ask(server, "resume", session, "What does it say?")
    with MockServer([says(text="On a fork.")], name="c", summaries={}) as server:
        fork = codex.ask(server, "fork", session, "Fork")[0]["thread_id"]
    with MockServer([says(text=SUMMARY)], name="d", summaries={}) as server:
        codex.compact(server, session)
        assert server.asked == 1
    with MockServer([says(text="Gladly.")], name="e", summaries={}) as server:
        codex.ask(server, "resume", session, "Go on")
    with MockServer([Answer(status=401)], name="f", summaries={}) as server:
        codex.ask(server, "resume", session, "Fail", fails=True)
    return codex, session, fork
