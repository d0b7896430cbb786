"""Pictures of the terminal at three widths, compared byte for byte; `--update-golden` draws them, you read the diff."""

import re
from pathlib import Path

import pytest

import pi_session_cli
from tests.cli.launcher import NOW_MS, Terminal, ticking

PICTURES = Path(__file__).parent / "pictures"
SAMPLE = Path(pi_session_cli.__file__).parent / "demo" / "sample.jsonl"
WIDTHS = (60, 80, 120)
SHOWN = {
    "tree": ["tree"],
    "tree-all": ["tree", "--all"],
    "tree-user": ["tree", "--user"],
    "tree-labeled": ["tree", "--labeled"],
    "ls": ["ls"],
    "log": ["log", "--last", "12"],
    "log-full": ["log", "--last", "4", "--full", "--role", "assistant"],
    "context": ["context"],
    "show": ["show"],
    "show-entry": ["show", "@"],
    "show-call": ["show", "8316c93e"],
    "ops": ["ops", "--limit", "2"],
    "branch": ["branch"],
    "search": ["search", "lease renew", "-n", "4"],
    "search-cjk": ["search", "日本", "-n", "3"],
    "diff": ["diff", "0195c0de:first-way", "0195c0de:@-3"],
    "diff-side-by-side": ["diff", "0195c0de:first-way", "0195c0de:@-3", "--side-by-side"],
    "stats": ["stats"],
    "stats-branch": ["stats", "0195c0de", "--by", "branch"],
    "stats-tool": ["stats", "--by", "tool"],
    "stats-session": ["stats", "--by", "session"],
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a shell with the demo's sample conversation, a fork of it, a branch and a strange name."""
    shell = Terminal(tmp_path_factory.mktemp("pictures"), cwd="/home/dev/tideline")
    shell.clock = ticking(NOW_MS)
    shell.ok("import", str(SAMPLE))
    shell.ok("fork", "0195c0de", "--at", "@-3", "--name", "wide 日本語 name\x1b[31m", cwd="/elsewhere")
    shell.ok("branch", "first-way", "--at", "072860a1")
    shell.ok("label", "@-2", "before the review")
    return shell


@pytest.mark.parametrize("colour", ["", "-colour"])
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", SHOWN)
def test_picture(name: str, columns: int, colour: str, sample: Terminal, request: pytest.FixtureRequest) -> None:
    ran = sample.ok(*SHOWN[name], columns=columns, env={} if colour else {"NO_COLOR": "1"})
    file = PICTURES / f"{name}-{columns}{colour}.txt"
    if request.config.getoption("--update-golden", default=False):
        file.write_bytes(ran.raw)
    assert ran.out == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    "name",
    [
        *("tree", "tree-all", "ls", "ops", "branch", "search", "search-cjk", "diff", "diff-side-by-side"),
        *("stats-branch", "stats-tool", "stats-session"),
    ],
)
def test_no_line_is_wider_than_the_terminal(name: str, columns: int, sample: Terminal) -> None:
    from pi_session_cli.render.width import width

    lines = sample.ok(*SHOWN[name], columns=columns, env={"NO_COLOR": "1"}).lines
    assert max(map(width, lines)) <= columns


@pytest.mark.parametrize("name", SHOWN)
def test_colour_only_adds_colour(name: str, sample: Terminal) -> None:
    painted = sample.ok(*SHOWN[name], columns=80).out
    plain = sample.ok(*SHOWN[name], columns=80, env={"NO_COLOR": "1"}).out
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_colour_follows_terminal_and_setting(sample: Terminal) -> None:
    assert b"\x1b[" in sample.ok("tree", columns=80).raw
    assert b"\x1b[" not in sample.ok("tree").raw
    assert b"\x1b[" not in sample.ok("tree", columns=80, env={"TERM": "dumb"}).raw
    assert b"\x1b[" not in sample.ok("tree", columns=80, env={"PI_SESSION_COLOR": "never"}).raw
    assert b"\x1b[" in sample.ok("tree", env={"PI_SESSION_COLOR": "always"}).raw


def test_an_output_without_box_characters_gets_ascii(sample: Terminal) -> None:
    picture = sample.ok("tree", "--user", encoding="ascii").raw.decode("ascii")
    assert "> " in picture
    assert "|- " in picture
    assert "├" not in picture


def test_a_pipe_gets_whole_ids_and_no_headings(sample: Terminal) -> None:
    lines = sample.ok("ls").lines
    assert len(lines) == 2
    assert "0195c0de-5a3e-7d1f-9b1a-7e1de11ead01" in lines[0] + lines[1]
