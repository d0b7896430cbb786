"""`import` of sources that are still being written: one session from the first line to the last."""

import json
from pathlib import Path

import pytest

from tests.cli.launcher import Terminal
from tests.sessions.foreign import FORMATS

(TRANSCRIPT,) = (FORMATS / "claude-code" / "projects" / "-proj-bakery").glob("*.jsonl")


def listed(shell: Terminal) -> list[str]:
    return [each["id"] for each in json.loads(shell.run("ls", "--all", "--json").out)["sessions"]]


@pytest.mark.parametrize("count", [1, 3, 4, 6, 9])
def test_a_session_imported_early_stays_one_session(shell: Terminal, count: int) -> None:
    lines = TRANSCRIPT.read_bytes().splitlines(keepends=True)
    path = shell.folder / TRANSCRIPT.name
    path.write_bytes(b"".join(lines[:count]))
    ran = shell.run("import", str(path))
    assert ran.code == 0
    if count <= 3:
        assert "nothing said yet" in ran.out
        assert listed(shell) == []
    path.write_bytes(b"".join(lines))
    assert shell.run("import", str(path)).code == 0
    assert [each for each in listed(shell) if "agent" not in each and "side" not in each] == [TRANSCRIPT.stem]
    assert shell.run("import", str(path), "--json").out.count('"unchanged"') >= 1


def test_a_chat_without_a_message_waits(shell: Terminal) -> None:
    node = {"id": "root", "message": None, "parent": None, "children": []}
    chat = {"id": "c", "conversation_id": "c", "title": "New", "create_time": 1.7e9, "current_node": "root"}
    path = shell.folder / "conversations.json"
    path.write_text(json.dumps([{**chat, "mapping": {"root": node}}]))
    ran = shell.run("import", str(path), "--json")
    (told,) = json.loads(ran.out)["files"]
    assert (ran.code, told["status"], told["reason"]) == (0, "waiting", "nothing said yet")
    said = {
        "id": "m",
        "author": {"role": "user"},
        "create_time": 1.7e9,
        "content": {"content_type": "text", "parts": ["Hello"]},
    }
    mapping = {"root": {**node, "children": ["m"]}, "m": {"id": "m", "message": said, "parent": "root", "children": []}}
    path.write_text(json.dumps([{**chat, "current_node": "m", "mapping": mapping}]))
    assert shell.run("import", str(path)).code == 0
    assert listed(shell) == ["c"]


def test_a_file_that_names_its_session_late_is_known_by_its_own_name(shell: Terminal, tmp_path: Path) -> None:
    text = TRANSCRIPT.read_text()
    records = [json.loads(line) for line in text.splitlines()]
    begun = [{name: value for name, value in each.items() if name != "sessionId"} for each in records[:5]]
    said = {"type": "user", "uuid": "5f1e0000-0000-4000-8000-0000000000ff", "parentUuid": None,
            "timestamp": "2026-04-01T09:00:00.000Z", "message": {"role": "user", "content": "First"}}  # fmt: skip
    path = shell.folder / TRANSCRIPT.name
    path.write_text("".join(json.dumps(each) + "\n" for each in [*begun[:1], said]))
    assert shell.run("import", str(path)).code == 0
    path.write_text(path.read_text() + "".join(json.dumps(each) + "\n" for each in records[1:]))
    shell.run("import", str(path))
    assert [each for each in listed(shell) if "agent" not in each and "side" not in each] == [TRANSCRIPT.stem]
