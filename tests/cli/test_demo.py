"""The demo: everything in it works, and the conversation in it does what it says."""

import json
from pathlib import Path

from tests.cli.launcher import Terminal


def test_the_demo_goes_on_with_a_conversation(shell: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "played"
    told = json.loads(shell.ok("demo", "--dir", str(folder), "--json").out)
    assert all(command["code"] == 0 for command in told["commands"])
    assert told["sameContext"]
    talk = told["commands"][-1]
    assert talk["argv"][:2] == ["resume", "0195c0de"]
    assert (folder / "work" / "notes.md").read_text().startswith("The lease outlived")
    lines = [json.loads(line) for line in (folder / "work" / "talk.jsonl").read_text().splitlines()]
    said = [
        line["message"]["content"][0]["text"]
        for line in lines
        if line["type"] == "message"
        and line["message"]["role"] == "user"
        and isinstance(line["message"]["content"], list)
    ]
    assert said[-2:] == ["What did we learn? Write it down in notes.md, please.", "One line is enough."]
    assert lines[-1]["type"] != "compaction"
    ops = json.loads(shell.ok("ops", "-s", "0195c0de", "--json", "--db", told["store"]).out)["operations"]
    commands = [operation["command"] for operation in ops]
    assert commands[:3] == ["undo", "compact", "resume"]
    assert not (tmp_path / "sessions.db").exists()


def test_the_demo_shows_the_conversation_as_a_person_would_see_it(shell: Terminal, tmp_path: Path) -> None:
    out = shell.ok("demo", "--dir", str(tmp_path / "played"), columns=100).out
    for seen in (
        "$ pi-session run 'Which files are here?'",
        "> One line is enough.",
        "Allow write(",
        "> /compact --dry-run",
        "Undid operation",
    ):
        assert seen in out
