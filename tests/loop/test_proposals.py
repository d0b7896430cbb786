"""What a call would do, as the person who approves it is told."""

from pathlib import Path

import pytest

from pi_loop.tools.proposals import proposal_of
from pi_loop.tools.workspace import Workspace
from pi_sessions.messages import JsonObject


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Return a workspace with a file and a link to it."""
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "link").symlink_to("a.txt")
    return Workspace(root=str(tmp_path))


def test_a_command_is_told_whole_with_its_folder_and_limit(workspace: Workspace) -> None:
    proposal = proposal_of(workspace, "bash", {"command": "a\nb" * 1000, "timeout": 5})
    assert (proposal.title, proposal.text) == (
        f'A shell command in "{workspace.root}", for at most 5 s',
        "a\nb" * 1000,
    )


def test_a_file_is_new_or_replaced_and_a_link_is_told_where_it_leads(workspace: Workspace) -> None:
    told = [
        proposal_of(workspace, "write", {"path": path, "content": content}).title
        for path, content in (("b.txt", "1\n2"), ("a.txt", "1\n"), ("link", ""))
    ]
    assert told == [
        'A new file "b.txt" with 2 lines',
        '"a.txt", now 10 bytes, would be replaced by 1 line',
        f'"link" (that is "{workspace.root}/a.txt"), now 10 bytes, would be replaced by no content',
    ]


def test_an_edit_is_told_as_its_diff_and_changes_nothing(workspace: Workspace) -> None:
    edits: list[JsonObject] = [{"oldText": "two", "newText": "2"}]
    proposal = proposal_of(workspace, "edit", {"path": "a.txt", "edits": edits})
    assert (proposal.title, proposal.kind, proposal.fault) == ('A change of "a.txt"', "diff", None)
    assert proposal.text == " 1 one\n-2 two\n+2 2\n 3 "
    assert Path(workspace.root, "a.txt").read_bytes() == b"one\r\ntwo\r\n"


@pytest.mark.parametrize("path", ["../out", "nul\0", "half\ud800"])
@pytest.mark.parametrize("name", ["write", "edit"])
def test_what_would_fail_is_told_with_the_reason(workspace: Workspace, name: str, path: str) -> None:
    edits: list[JsonObject] = [{"oldText": "old", "newText": "new"}]
    proposal = proposal_of(workspace, name, {"path": path, "content": "new", "edits": edits})
    assert proposal.fault
    assert "new" in proposal.text


@pytest.mark.parametrize(
    ("name", "args"),
    [("bash", {"command": 1}), ("write", {"path": "a"}), ("edit", {"path": "a", "edits": [{}]}), ("other", {"x": "y"})],
)
def test_what_is_not_understood_is_told_as_it_came(workspace: Workspace, name: str, args: JsonObject) -> None:
    proposal = proposal_of(workspace, name, args)
    assert (proposal.title, proposal.kind) == (name, "arguments")
    assert all(f'"{key}"' in proposal.text for key in args)
