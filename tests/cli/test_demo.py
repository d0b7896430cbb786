"""The demo: everything in it works, and the conversation in it does what it says."""

import json
from pathlib import Path

from tests.cli.launcher import Terminal


def test_the_demo_goes_on_with_a_conversation(shell: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "played"
    out = shell.ok("demo", "--dir", str(folder), columns=100).out
    for seen in (
        "$ pi-session run 'Which files are here?'",
        "> One line is enough.",
        "Allow write(",
        "> /compact --dry-run",
        "Undid operation",
    ):
        assert seen in out
    assert (folder / "work" / "notes.md").read_text().startswith("The lease outlived")
    lines = [json.loads(line) for line in (folder / "work" / "talk.jsonl").read_text().splitlines()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    said = [message["content"][0]["text"] for message in messages if is_said(message)]
    assert said[-2:] == ["What did we learn? Write it down in notes.md, please.", "One line is enough."]
    assert lines[-1]["type"] != "compaction"
    store = str(folder / "sessions.db")
    ops = json.loads(shell.ok("ops", "-s", "0195c0de", "--json", "--db", store).out)["operations"]
    assert [operation["command"] for operation in ops][:3] == ["undo", "compact", "resume"]
    assert not (tmp_path / "sessions.db").exists()


def is_said(message: dict) -> bool:
    """Whether a message is a person's, in blocks."""
    return message["role"] == "user" and isinstance(message["content"], list)
