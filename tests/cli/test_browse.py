"""`browse`: what its keys do, what it draws, and that every change is a command that can be undone."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from pi_session_cli.interactive.browser import Browser
from pi_session_cli.interactive.browsing import Browsing
from pi_session_cli.invocation import Invocation
from pi_session_cli.main import prepare
from pi_session_cli.parse import Parsed
from pi_session_cli.render.width import width
from tests.cli.launcher import Stream, Terminal
from tests.cli.test_pictures import PICTURES, SAMPLE, WIDTHS

UP, DOWN, HOME, END, LEFT, RIGHT = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[1;5D", "\x1b[1;5C"
ESCAPE, LEAVE = "\x1b", "\x03"


def invocation(shell: Terminal, columns: int = 120, *, colour: bool = False) -> Invocation:
    """Return what a command typed in a shell may use."""
    env = {**shell.env, "COLUMNS": str(columns), **({} if colour else {"NO_COLOR": "1"})}
    streams = (Stream(True), Stream(True), Stream())
    return prepare(Parsed(None, {}), env, streams, shell.cwd, shell.clock, shell.new_id, shell.new_session_id)


class Screen:
    """A full screen of a size, and the keys pressed on it."""

    def __init__(self, shell: Terminal, pipe: PipeInput, session: str, columns: int = 120, rows: int = 30) -> None:
        self.browsing = Browsing(invocation(shell, columns), session)
        self.written = io.StringIO()
        output = Vt100_Output(self.written, lambda: Size(rows=rows, columns=columns), term="xterm")
        self.browser = Browser(self.browsing, input=pipe, output=output)
        self._pipe = pipe

    def press(self, *keys: str) -> str:
        """Press keys, leave, and return what was drawn."""
        self._pipe.send_text("".join(keys) + LEAVE)
        self.browser.run()
        return self.written.getvalue()


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    """Return a shell with the demo's session."""
    shell = Terminal(tmp_path, cwd="/home/dev/tideline")
    shell.ok("import", str(SAMPLE))
    return shell


@pytest.fixture
def session(shell: Terminal) -> str:
    """Return the session's id."""
    return shell.ok("show", "--json").out.split('"id":"', 1)[1].split('"', 1)[0]


@pytest.fixture
def screen(shell: Terminal, session: str) -> Iterator[Screen]:
    """Return a screen on which the session is browsed."""
    with create_pipe_input() as pipe:
        yield Screen(shell, pipe, session)


def test_the_mark_begins_at_the_leaf_and_moves(screen: Screen) -> None:
    screen.press(UP, UP, DOWN)
    entry = screen.browsing.marked()
    assert entry is not None
    assert entry.id == "e482cab0"


def test_the_screen_shows_tree_entry_and_keys(screen: Screen) -> None:
    drawn = screen.press(UP)
    for text in (
        "Nightly import loses its lease",
        "[conversation]",
        "renewal-works",
        "Enter rewind",
        "on the path to the leaf",
    ):
        assert text in drawn


def test_typing_searches_and_escape_ends_it(screen: Screen) -> None:
    screen.press("six hours", "\x7f")
    assert screen.browsing.search == "six hour"
    assert 1 <= len(screen.browsing.picture.view.rows) < 6
    screen.browsing.look_for("")
    assert len(screen.browsing.picture.view.rows) > 20


def test_filters_are_pis_keys(screen: Screen) -> None:
    screen.press("\x15")
    assert screen.browsing.filter == "user-only"
    assert {row.entry.role for row in screen.browsing.picture.view.rows} == {"user"}
    screen.browsing.next_filter()
    assert screen.browsing.filter == "labeled-only"
    screen.browsing.show("all")
    assert screen.browsing.picture.hidden == 0


def test_folding_hides_what_hangs_under_an_entry(screen: Screen) -> None:
    screen.press(HOME, LEFT)
    assert len(screen.browsing.picture.view.rows) == 1
    screen.browsing.fold(open=True)
    assert len(screen.browsing.picture.view.rows) > 20


def test_enter_rewinds_and_gives_the_text_back(screen: Screen, shell: Terminal) -> None:
    screen.press(UP, "\r")
    assert screen.browsing.session.leaf == "2dfdedb1"
    assert screen.browsing.text == "Thanks. For tomorrow: what should we watch in the logs tonight?"
    assert screen.browsing.said[0] == "main now ends at 2dfdedb1"
    assert "rewind" in shell.ok("ops", "--limit", "1").out
    screen.browsing.undo()
    assert screen.browsing.session.leaf == "4b1295b7"
    screen.browsing.redo()
    assert screen.browsing.session.leaf == "2dfdedb1"


def test_choosing_the_leaf_changes_nothing(screen: Screen) -> None:
    screen.press("\r")
    assert screen.browsing.status == "The leaf is there already"
    assert screen.browsing.said == []


def test_a_fork_is_browsed_next(screen: Screen, shell: Terminal, session: str) -> None:
    screen.press(UP, UP, "\x06")
    assert screen.browsing.session_id != session
    assert screen.browsing.session.leaf == "2dfdedb1"
    assert screen.browsing.session.origin == session
    assert shell.ok("show", "--json").out.count(screen.browsing.session_id)


def test_labels_and_branches_are_asked_for(screen: Screen, shell: Terminal) -> None:
    screen.press(UP, "L", "to watch\x7fh", "\r", "\x02", "night", "\r")
    assert screen.browsing.labels["e482cab0"].text == "to watch"
    assert [branch.name for branch in screen.browsing.branches] == ["main", "night"]
    screen.browsing.label("")
    assert "e482cab0" not in screen.browsing.labels
    assert "night" in shell.ok("branch").out


def test_a_question_can_be_left(screen: Screen) -> None:
    screen.press("L", "never", ESCAPE)
    assert "never" not in {label.text for label in screen.browsing.labels.values()}


def test_what_cannot_be_done_is_said(screen: Screen) -> None:
    screen.browsing.branch("main")
    assert screen.browsing.status.startswith("Error: ")


def test_copying_hands_the_text_to_the_terminal(screen: Screen) -> None:
    drawn = screen.press(UP, "\x18")
    text = base64.b64encode(b"Thanks. For tomorrow: what should we watch in the logs tonight?").decode()
    assert f"\x1b]52;c;{text}\x07" in drawn


def test_label_times_are_shown_on_demand(screen: Screen) -> None:
    screen.press("T")
    lines = [line for _, line in screen.browsing.window(60, screen.browsing.ctx.screen)]
    assert any("[renewal-works Jan 05" in line for line in lines)


@pytest.mark.parametrize("columns", WIDTHS)
def test_picture(shell: Terminal, session: str, columns: int, request: pytest.FixtureRequest) -> None:
    shell.ok("label", "@-1", "日本語 e\u0301 👩\u200d💻 \u202e")
    browsing = Browsing(invocation(shell, columns), session)
    browsing.move(-1)
    rows = browsing.window(14, browsing.ctx.screen)
    shown = [f"{'>' if marked else ' '} {line}" for marked, line in rows] + ["", *browsing.preview(browsing.ctx.screen)]
    text = "\n".join(shown) + "\n"
    file = PICTURES / f"browse-{columns}.txt"
    if request.config.getoption("--update-golden", default=False):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    assert max(width(line) for _, line in rows) <= columns
    assert "\u202e" not in text


def test_hostile_text_cannot_move_the_cursor(tmp_path: Path) -> None:
    shell = Terminal(tmp_path)
    shell.ok("new", "x\x1b[2J\x07")
    shell.ok("append", "evil \x1b]0;owned\x07 \x9b31m")
    session = shell.ok("show", "--json").out.split('"id":"', 1)[1].split('"', 1)[0]
    with create_pipe_input() as pipe:
        drawn = Screen(shell, pipe, session).press(UP)
    assert "\x1b]0;owned" not in drawn
    assert "\x9b31m" not in drawn
    assert "\\x1b]0;owned\\x07" in drawn


def test_browsing_needs_a_terminal(shell: Terminal) -> None:
    ran = shell.run("browse")
    assert ran.code == 2
    assert "browse needs a terminal" in ran.err
    assert shell.run("browse", "--json").code == 2
