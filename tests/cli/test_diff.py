"""`diff` as people and programs meet it."""

import json

import pytest

from pi_session_cli.render.width import width
from tests.cli.launcher import Terminal
from tests.cli.test_cases import control_characters


@pytest.fixture
def parted(talk: Terminal) -> Terminal:
    """Return a shell whose session has a second branch, `idea`, from the first answer on."""
    talk.ok("branch", "idea", "--at", "e0000002")
    talk.ok("switch", "idea")
    talk.ok("append", "How do we fix it?", "--role", "user")
    talk.ok("append", "--role", "assistant", "Use 租约 with a heartbeat \N{ROCKET}.")
    return talk


def test_branches_one_below_the_other(parted: Terminal) -> None:
    assert parted.ok("diff", "main", "idea").lines == [
        "- main, to e0000004",
        "+ idea, to e0000006",
        "  parted after e0000002 (2 entries shared): assistant: The heartbeat stalls.",
        "",
        f"  {'turns':<14}{'1':<41}  1",
        f"  {'messages':<14}{'2':<41}  2",
        f"  {'time':<14}{'0:00:04':<41}  0:00:04",
        "",
        "  user  e0000003",
        "    How do we fix it?",
        "- assistant  e0000004",
        "-   Let the database lock decide.",
        "+ assistant  e0000006",
        "+   Use 租约 with a heartbeat \N{ROCKET}.",
    ]
    assert parted.ok("diff", "main").out == parted.ok("diff", "main", "@").out


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_side_by_side_lines_up_by_cells(parted: Terminal, columns: int) -> None:
    ran = parted.ok("diff", "idea", "main", "--side-by-side", columns=columns, env={"NO_COLOR": "1"})
    body = ran.lines[8:]
    assert len({width(line[: line.index("│")]) for line in body}) == 1
    assert all(width(line) <= columns for line in ran.lines)
    assert "租约" in ran.out


def test_stat_is_the_figures_alone(parted: Terminal) -> None:
    out = parted.ok("diff", "main", "idea", "--stat").out
    assert "turns" in out
    assert "heartbeat \N{ROCKET}" not in out


def test_json(parted: Terminal) -> None:
    told = json.loads(parted.ok("diff", "main", "idea", "--json").out)
    assert (told["ancestor"], told["shared"]) == ("e0000002", 2)
    assert (told["left"]["branch"], told["right"]["leaf"], told["right"]["turns"]) == ("main", "e0000006", 1)
    assert [pair["same"] for pair in told["pairs"]] == [True, False]


def test_sessions_and_entries(parted: Terminal) -> None:
    sid = "00000001-0000-7000-8000-000000000000"
    parted.ok("fork", sid, "--at", "e0000003")
    told = json.loads(parted.ok("diff", sid, "@", "--json").out)
    assert told["left"]["sessionId"] != told["right"]["sessionId"]
    assert told["ancestor"] == "e0000002"
    told = json.loads(parted.ok("diff", f"{sid}:e0000001", f"{sid}:e0000004", "--json").out)
    assert (told["ancestor"], told["left"]["entries"], told["right"]["entries"]) == ("e0000001", 0, 3)
    assert "same path" in parted.ok("diff", "@").err
    parted.ok("new", "empty")
    assert "share no entry" in parted.ok("diff", sid, "@").err


@pytest.mark.parametrize(
    ("line", "code"), [(["nowhere"], 1), ([], 2), (["main", "idea", "--stat", "-y"], 2), ([""], 1)]
)
def test_what_makes_no_sense_is_refused(line: list[str], code: int, parted: Terminal) -> None:
    ran = parted.run("diff", *line)
    assert ran.code == code
    assert ran.err.startswith("Error:")


def test_contents_are_safe_for_the_terminal(parted: Terminal) -> None:
    parted.ok("append", "x \x1b[31m \u202e \x07 y")
    for line in (["main", "idea"], ["main", "idea", "-y"], ["main", "idea", "--full"]):
        for columns in (None, 60):
            assert not control_characters(parted.ok("diff", *line, columns=columns, env={"NO_COLOR": "1"}).out)
