"""No id, name or path of a source, however hostile, reaches a terminal raw."""

import json

import pytest

from tests.cli.launcher import Terminal
from tests.cli.test_terminal_text import is_harmless

JsonObject = dict[str, object]

EVIL = "\x1b]0;owned\x07\x9b31m\u202eevil"


@pytest.fixture
def evil(shell: Terminal) -> Terminal:
    """Return a shell whose one session came from a file in which every name is hostile."""
    ids = [f"{EVIL}-{number}" for number in range(4)]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    answer: JsonObject = {
        "role": "assistant",
        "content": [{"type": "toolCall", "id": EVIL, "name": EVIL, "arguments": {EVIL: EVIL}}],
    }
    answer |= {"provider": EVIL, "model": EVIL, "api": EVIL, "stopReason": EVIL, "errorMessage": EVIL, "usage": usage}
    result = {"role": "toolResult", "toolCallId": EVIL, "toolName": EVIL, "content": [{"type": "text", "text": EVIL}]}
    entries: list[JsonObject] = [
        {"type": "message", "message": {"role": "user", "content": f"lease {EVIL}"}},
        {"type": "message", "message": answer},
        {"type": "message", "message": result},
        {"type": "model_change", "provider": EVIL, "modelId": EVIL},
        {"type": "label", "targetId": ids[0], "label": f"label {EVIL}"},
        {"type": "session_info", "name": f"name {EVIL}"},
        {"type": EVIL, EVIL: EVIL},
    ]
    header: JsonObject = {"type": "session", "version": 3, "id": f"id{EVIL}", "timestamp": EVIL, "cwd": f"/{EVIL}"}
    lines = [header]
    above: str | None = None
    for number, entry in enumerate(entries):
        own = ids[number] if number < len(ids) else f"{EVIL}+{number}"
        lines.append({"id": own, "parentId": above, "timestamp": "2026-03-02T09:00:00.000Z", **entry})
        above = own
    path = shell.folder / "a\x1b[31m\u202ename.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n{torn", encoding="utf-8")
    ran = shell.run("import", str(path), columns=80, env={"NO_COLOR": "1"})
    assert ran.code in (0, 1)
    assert all(map(is_harmless, (ran.out + ran.err).split("\n")))
    assert json.loads(shell.ok("ls", "--json").out)["sessions"][0]["id"] == f"id{EVIL}"
    return shell


@pytest.mark.parametrize("columns", [None, 60, 120])
def test_hostile_ids_names_and_paths_are_shown_not_sent(columns: int | None, evil: Terminal) -> None:
    sid, entry = f"id{EVIL}", f"{EVIL}-1"
    evil.run("branch", "other", "-s", sid, "--at", entry)
    evil.run("fork", sid, "--at", entry)
    for line in [
        ["ls"],
        ["ls", "--all", "--subagents"],
        ["tree", sid],
        ["tree", sid, "--all"],
        ["log", sid],
        ["log", sid, "--full"],
        ["show", sid],
        ["show", entry, "-s", sid],
        ["context", sid],
        ["context", sid, "--explain"],
        ["ops", "--all"],
        ["search", "lease"],
        ["stats"],
        ["diff", "main", "other", "-s", sid],
        ["branch", "-s", sid],
        ["label", "-s", sid],
        ["export", sid, "--format", "docx"],
        ["rewind", entry, "-s", sid],
        ["omit", entry, "-s", sid],
        ["undo", sid],
        ["rewind", f"{EVIL}-none", "-s", sid],
        ["switch", EVIL, "-s", sid],
        ["export", sid, "--branch", EVIL],
        ["append", "more", "-s", sid],
        ["pin", sid],
        ["rm", sid],
        ["show", sid],
        ["import", str(evil.folder / f"missing{EVIL}.jsonl")],
    ]:
        ran = evil.run(*line, columns=columns, env={"NO_COLOR": "1"})
        assert all(map(is_harmless, (ran.out + ran.err).split("\n"))), (line, ran)
