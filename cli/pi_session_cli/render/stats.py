"""View of `stats`: a row per group with a bar, the sum, and what is not known about it."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import UNICODE, count
from pi_session_cli.render.width import fit, pad, width
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Session
    from pi_sessions.statistics import Statistics, StatRow

DEFAULT_COLUMNS = 100
KEY_CELLS = 44
LEAST_BAR = 4
MOST_BAR = 30
MODELS_SHOWN = 4
FIELDS = ("answers", "input", "output", "cache_read", "cache_write", "tokens", "cost", "unpriced", "saved")


class Table(Record):
    """Statistics to show.

    Attributes:
        session: The session they are of, None for the whole store.
        names: What a key means to people.
        limit: Rows shown.
    """

    found: Statistics
    session: Session | None
    names: Mapping[str, str]
    limit: int


def lines(data: Table, screen: Screen) -> Iterator[str]:
    """Yield headings, a line per row, the sum, then notes."""
    found = data.found
    if not found.rows:
        return
    shown = list(found.rows[-data.limit :] if found.by == "day" else found.rows[: data.limit])
    labels = [label(row, data) for row in shown]
    columns = [headings(found.by)] + [cells(row, found.by) for row in shown] + [cells(found.total, found.by)]
    widths = [max(width(row[place]) for row in columns) for place in range(len(columns[0]))]
    room = (screen.columns or DEFAULT_COLUMNS) - sum(widths) - 2 * len(widths) - 2
    key_cells = max(min(max(width(each) for each in (*labels, found.by, "total")), KEY_CELLS, room - LEAST_BAR), 8)
    bar_cells = min(max(room - key_cells, 0), MOST_BAR)
    values = [row.cost for row in shown] if any(row.cost for row in shown) else [row.tokens for row in shown]
    most = max(values, default=0)
    yield screen.paint(line_of(found.by, columns[0], key_cells, widths, screen), "dim")
    for name, row, value in zip(labels, columns[1:-1], values, strict=True):
        bar = bar_of(value, most, bar_cells, screen)
        yield f"{line_of(name, row, key_cells, widths, screen)}  {screen.paint(bar, 'green')}".rstrip()
    hidden = len(found.rows) - len(shown)
    if hidden:
        yield screen.paint(f"({count(hidden, 'more row')}; -n {len(found.rows)} shows them)", "dim")
    yield line_of("total", columns[-1], key_cells, widths, screen)
    yield from notes(found)


def label(row: StatRow, data: Table) -> str:
    """Return how a row is called."""
    name = one_line(data.names.get(row.key, ""))
    return f"{row.key[:13] if name else row.key} {name}".strip() if data.found.by == "session" else one_line(row.key)


def headings(by: str) -> list[str]:
    """Return what stands above the figures."""
    first = ["calls", "failed", "output~"] if by == "tool" else ["answers"]
    return [*first, "tokens", "cached", "cost", *(["whole path"] if by == "branch" else [])]


def cells(row: StatRow, by: str) -> list[str]:
    """Return a row's figures."""
    first = [f"{row.answers:,.0f}"]
    if by == "tool":
        first += ["-" if row.failed is None else f"{row.failed:,}"]
        first += ["-" if row.output_tokens is None else f"{row.output_tokens:,}"]
    asked = row.input + row.cache_read + row.cache_write
    cached = f"{row.cache_read / asked:.0%}" if asked else "-"
    whole = ["-" if row.whole_cost is None else known(row.whole_cost, row.whole_unpriced)] if by == "branch" else []
    return [*first, f"{row.tokens:,.0f}", cached, known(row.cost, row.unpriced), *whole]


def known(cost: float, unpriced: int) -> str:
    """Return a cost; `+ ?` where a part of it is unknown."""
    if not unpriced:
        return money(cost)
    return f"{money(cost)} + ?" if cost else "?"


def money(dollars: float) -> str:
    """Return dollars with as many places as they need."""
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def line_of(key: str, row: Sequence[str], key_cells: int, widths: Sequence[int], screen: Screen) -> str:
    """Return a line of the table without its bar."""
    figures = "  ".join(f"{cell:>{cells_wide}}" for cell, cells_wide in zip(row, widths, strict=True))
    return f"{pad(fit(key, key_cells, screen.signs.ellipsis), key_cells)}  {figures}"


def bar_of(value: float, most: float, cells_wide: int, screen: Screen) -> str:
    """Return a bar as long as the value's share of the largest one; something is never nothing."""
    if cells_wide < LEAST_BAR or value <= 0 or most <= 0:
        return ""
    sign = "█" if screen.signs == UNICODE else "#"
    return sign * max(round(value / most * cells_wide), 1)


def notes(found: Statistics) -> Iterator[str]:
    """Yield what the cache saved, and what is not known."""
    total = found.total
    if total.saved or total.saving_unknown:
        verb = "saved" if total.saved >= 0 else "cost"
        told = f"The cache {verb} {money(abs(total.saved))}"
        unknown = count(total.saving_unknown, "answer")
        yield told + (
            f"; of {unknown} that is unknown, their input price was not recorded" if total.saving_unknown else ""
        )
    if total.unpriced:
        named = ", ".join(one_line(model) for model in found.unpriced_models[:MODELS_SHOWN])
        more = len(found.unpriced_models) - MODELS_SHOWN
        named += f" and {more} more" if more > 0 else ""
        yield f"No price was recorded for {count(total.unpriced, 'answer')} ({named})"


def to_json(data: Table) -> dict[str, object]:
    """Return the rows and their sum."""
    found = data.found
    return {
        "by": found.by,
        "sessionId": data.session.id if data.session is not None else None,
        "rows": [row_json(row, data.names.get(row.key)) for row in found.rows],
        "total": row_json(found.total, None),
        "unpricedModels": list(found.unpriced_models),
    }


def row_json(row: StatRow, name: str | None) -> dict[str, object]:
    """Return one row."""
    told: dict[str, object] = {
        "key": row.key,
        "answers": row.answers,
        "input": row.input,
        "output": row.output,
        "cacheRead": row.cache_read,
        "cacheWrite": row.cache_write,
        "tokens": row.tokens,
        "cost": row.cost,
        "unpriced": row.unpriced,
        "saved": row.saved,
        "savingUnknown": row.saving_unknown,
    }
    more = {"name": name, "wholeCost": row.whole_cost, "failed": row.failed, "outputTokens": row.output_tokens}
    return told | {key: value for key, value in more.items() if value is not None}


def csv_lines(found: Statistics, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows as CSV, headings first."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([found.by, "name", *FIELDS])
    for row in found.rows:
        values = [getattr(row, field) for field in FIELDS]
        writer.writerow([harmless(row.key), harmless(names.get(row.key, "")), *values])
    yield out.getvalue()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    line = one_line(text)
    return f"'{line}" if line[:1] in ("=", "+", "-", "@") else line
