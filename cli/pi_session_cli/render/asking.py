"""A tool call that waits for a person's word: what it would do, and the question with its choices.

Every line is wrapped here and has a margin, so that nothing a model wrote can look like a line of the program's, and
nothing of it is cut off at the edge of the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pi_session_cli.render.safe import block
from pi_session_cli.render.screen import count
from pi_session_cli.render.width import fit, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.tools.proposals import Proposal
    from pi_session_cli.render.screen import Screen

# Rows of a diff or of arguments shown at once. A command is always shown whole, of a file what fits the terminal.
ROWS = {"diff": 120, "arguments": 120}
BESIDE_CONTENT = 10
FEWEST = 10
MARGIN = "  | "
GOES_ON = "  : "
NARROWEST = 8
STYLES = {"+": "green", "-": "red"}
TOO_SMALL = "The terminal is too small to show the question: make it larger, then answer"


class Drawn(NamedTuple):
    """What a person is shown of a call.

    Attributes:
        lines: Safe lines.
        hidden: How many lines of the text are not, or not wholly, among them.
    """

    lines: list[str]
    hidden: int


def draw(proposal: Proposal, screen: Screen, columns: int, rows: int, *, whole: bool) -> Drawn:
    """Draw what a call would do.

    Args:
        columns, rows: The terminal's size.
        whole: Draw all of it, whatever its length.
    """
    shown = [screen.paint(row, "bold") for row in wrapped(next(block(one_row(proposal.title))), columns)]
    if proposal.fault is not None:
        fault = f"As things are it would fail: {one_row(proposal.fault)}"
        shown += [screen.paint(row, "red") for row in wrapped(next(block(fault)), columns)]
    limits = {**ROWS, "content": max(rows - BESIDE_CONTENT, FEWEST)}
    most = None if whole else limits.get(proposal.kind)
    texts = safe_lines(proposal)
    used = 0
    for place, text in enumerate(texts):
        style = STYLES.get(text[:1], "dim") if proposal.kind == "diff" else ""
        for number, part in enumerate(wrapped(text, columns - len(MARGIN))):
            if used == most:
                hidden = len(texts) - place
                shown.append(f"  ({hidden:,} of {count(len(texts), 'line')} not shown, or only in part; s shows all)")
                return Drawn(shown, hidden)
            margin = GOES_ON if number else MARGIN
            shown.append(screen.paint(margin, "dim") + (screen.paint(part, style) if style else part))
            used += 1
    return Drawn(shown, 0)


def safe_lines(proposal: Proposal) -> list[str]:
    """Return the safe lines of what a call would do; in a command carriage returns are shown, too."""
    text = proposal.text
    if proposal.kind != "command":
        return list(block(text.removesuffix("\n")))
    return [line for raw in text.removesuffix("\n").split("\n") for line in block(raw)]


def question(name: str, call: str, columns: int, *, hidden: int) -> list[str]:
    """Return the rows of a question: the choices first, then what is asked about.

    Args:
        name: The tool.
        call: The call, as a safe line.
        hidden: How many lines of it were not shown.
    """
    see = "s shows all" if hidden else "s shows it again"
    choices = f"y yes, n no, a always for {next(block(one_row(name)))}, {see}"
    return [*(row.rstrip() for row in wrapped(choices, columns)), fit(allow(call), max(columns, NARROWEST))]


def allow(call: str) -> str:
    """Return the question about a call, given as a safe line."""
    return f"Allow {call}?"


def answered(call: str, answer: str, columns: int) -> str:
    """Return the line that stays of a question."""
    return f"{fit(allow(call), max(columns - len(answer) - 2, NARROWEST))}  {answer}"


def one_row(text: str) -> str:
    """Return text without line feeds, which show as what they are."""
    return text.replace("\n", "\\n")


def wrapped(line: str, columns: int) -> Iterator[str]:
    """Yield the rows of a safe line: broken after a space where there is one, nothing left out."""
    columns = max(columns, NARROWEST)
    start = 0
    while len(line) - start > columns or width(line[start:]) > columns:
        end = start + cells(line[start : start + columns], columns)
        space = line.rfind(" ", start + columns // 3, end) + 1
        if space:
            end = space
        yield line[start:end]
        start = end
    yield line[start:]


def cells(part: str, columns: int) -> int:
    """Return how many characters of a part fit, at least one."""
    cut = len(part)
    while cut > 1 and width(part[:cut]) > columns:
        cut -= 1
    return cut
