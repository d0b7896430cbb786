"""View of small tables: branches, labels, settings. Plain columns, free text last."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.width import pad, width
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_session_cli.render.screen import Screen


class Rows(Record):
    """A small table.

    Attributes:
        json: The object `--json` prints.
        rows: Cells per row; the last may be cut to fit.
        marked: Index of the row with a mark, None for none.
    """

    json: Mapping[str, object]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None


def lines(data: Rows, screen: Screen) -> Iterator[str]:
    """Yield one line per row."""
    cells = [[one_line(cell) for cell in row] for row in data.rows]
    columns = len(cells[0]) - 1 if cells else 0
    widths = [max(width(row[column]) for row in cells) for column in range(columns)]
    for place, row in enumerate(cells):
        mark = screen.signs.leaf if place == data.marked else " "
        start = "".join(f"{pad(cell, cells_wide)}  " for cell, cells_wide in zip(row[:-1], widths, strict=True))
        yield f"{mark} {start}{screen.line(row[-1], 2 + sum(widths) + 2 * columns)}".rstrip()


def to_json(data: Rows) -> Mapping[str, object]:
    """Return the object for programs."""
    return data.json
