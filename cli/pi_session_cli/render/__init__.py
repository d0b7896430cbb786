"""Every byte that reaches stdout: views for people, JSON for programs.

Each view is a module with `lines(data, screen)` for people and `to_json(data)` for programs; only the one that is
needed is loaded.
"""

from __future__ import annotations

import json
import sys

from pi_session_cli.render.safe import guarded, one_line
from pi_session_cli.render.screen import ASCII, UNICODE, Screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import TextIO

    from pi_session_cli.answers import Answer
    from pi_session_cli.invocation import Invocation

NARROWEST = 20
LINES_AT_ONCE = 512


def screen_for(stdout: TextIO, environ: Mapping[str, str], color: str, now_ms: int) -> Screen:
    """Return how stdout can be drawn on.

    Args:
        environ: COLUMNS, NO_COLOR and TERM count.
        color: The setting: `auto`, `always` or `never`.
        now_ms: Current time, Unix milliseconds.
    """
    terminal = stdout.isatty()
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb" or not terminal
    return Screen(
        columns=columns_of(stdout, environ) if terminal else None,
        colour=color == "always" or (color == "auto" and not plain),
        signs=UNICODE if can_show_signs(stdout) else ASCII,
        now_ms=now_ms,
    )


def columns_of(stdout: TextIO, environ: Mapping[str, str]) -> int:
    """Return the width of a terminal."""
    text = environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text) > 0:
        return max(int(text), NARROWEST)
    import os

    try:
        return max(os.get_terminal_size(stdout.fileno()).columns, NARROWEST)
    except (OSError, ValueError):
        return 80


def can_show_signs(stdout: TextIO) -> bool:
    """Whether the output's encoding has the drawing characters."""
    encoding = (getattr(stdout, "encoding", None) or "utf-8").lower()
    return encoding.replace("-", "").replace("_", "") == "utf8"


def deliver(answer: Answer, ctx: Invocation) -> None:
    """Write an answer to stdout, and what there is to say about it to stderr."""
    path = f"pi_session_cli.render.{answer.view}"
    __import__(path)
    view = sys.modules[path]
    if hasattr(view, "write"):
        view.write(answer.data, ctx.stdout)
    elif ctx.as_json:
        write_json(with_runs(view.to_json(answer.data), answer), ctx.stdout)
    elif answer.paged and paged(drawn(view, answer, ctx.screen), ctx):
        pass
    else:
        lines: list[str] = []
        for line in drawn(view, answer, ctx.screen):
            lines.append(line)
            if len(lines) == LINES_AT_ONCE:
                ctx.stdout.write("\n".join(lines) + "\n")
                lines = []
        if lines:
            ctx.stdout.write("\n".join(lines) + "\n")
    if not ctx.as_json and (answer.said or answer.next or answer.cut_off):
        ctx.stdout.flush()
        told = [one_line(sentence, 2000) for sentence in (*answer.said, *notes_of(answer))]
        told += [
            f"{'Next:' if not place else '     '} {one_line(text, 2000)}" for place, text in enumerate(answer.next)
        ]
        try:
            ctx.stderr.write("\n".join(told) + "\n")
            ctx.stderr.flush()
        except OSError:
            # The change is made and the answer given; nobody wants to hear more.
            pass


def notes_of(answer: Answer) -> list[str]:
    """Return a sentence per run that was cut off; what they are made with is loaded only where there is one."""
    if not answer.cut_off:
        return []
    from pi_session_cli.render.cut_off import note

    return [note(run) for run in answer.cut_off]


def with_runs(value: dict[str, object], answer: Answer) -> dict[str, object]:
    """Return an answer's object with the runs that were cut off, where the command tells of them."""
    if answer.cut_off is None:
        return value
    if not answer.cut_off:
        return value | {"unfinishedRuns": []}
    from pi_session_cli.render.cut_off import run_json

    return value | {"unfinishedRuns": [run_json(run) for run in answer.cut_off]}


def drawn(view: ModuleType, answer: Answer, screen: Screen) -> Iterator[str]:
    """Yield the lines of a view, harmless to a terminal; a view may hand text to a pipe as it is (`AS_IT_IS`)."""
    for line in view.lines(answer.data, screen):
        as_it_is = screen.columns is None and getattr(view, "AS_IT_IS", False)
        if as_it_is or line.isprintable():
            yield line
        else:
            yield from (guarded(part, colour=screen.colour) for part in line.split("\n"))


def paged(lines: Iterable[str], ctx: Invocation) -> bool:
    """Show lines through a pager if stdout is a terminal that they do not fit; False when nothing was shown."""
    if ctx.screen.columns is None:
        return False
    import os

    try:
        rows = os.get_terminal_size(ctx.stdout.fileno()).lines
    except (OSError, ValueError):
        return False
    shown = list(lines)
    if len(shown) < rows:
        return False
    from pi_session_cli.render.pager import page

    ctx.stdout.flush()
    return page(shown, ctx.environ)


def write_json(value: object, stdout: TextIO) -> None:
    """Write one JSON object on one line, in ASCII where the output is not UTF-8."""
    text = json.dumps(value, ensure_ascii=not can_show_signs(stdout), separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    stdout.write(text + "\n")
