"""What a command gives back: values to draw, never text that is already drawn."""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.cut_off import UnfinishedRun


class Answer(Record):
    """The answer of a command.

    Attributes:
        view: Module of `render/` that draws `data` for people (`lines`) and for programs (`to_json`).
        data: Plain values.
        said: Sentences for stderr: what changed and what to know about it.
        next: Command lines worth typing next, for stderr.
        code: Exit code.
        paged: Whether it goes through a pager on a terminal that it does not fit.
        cut_off: Runs of the session that were cut off, for a note and for `unfinishedRuns`; None where that does not
            matter.
    """

    view: str
    data: Any
    said: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    code: int = 0
    paged: bool = False
    cut_off: tuple[UnfinishedRun, ...] | None = None


class Done(Record):
    """A change that was made (view `done`).

    Attributes:
        json: The object `--json` prints.
        lines: One line each on stdout.
        text: Text given back on stdout after the lines; written as it is unless stdout is a terminal.
    """

    json: dict[str, Any]
    lines: tuple[str, ...] = ()
    text: str | None = None
