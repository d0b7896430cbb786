"""View of `diff`: the figures of both sides, then their entries one below the other or side by side."""

from __future__ import annotations

from pi_session_cli.render.safe import block, one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.width import fit, pad, width
from pi_session_cli.render.wire import iso
from pi_session_cli.render.words import gist, speaker, styles
from pi_sessions.entry_text import entry_text
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.diffing import Comparison, Pair, Side
    from pi_sessions.results import Session
    from pi_sessions.stored import JsonObject, StoredEntry

LINES_SHOWN = 4
DEFAULT_COLUMNS = 100
NAMES_SHOWN = 4
FIGURE_CELLS = 14
FIGURES = (
    "turns",
    "messages",
    "tool calls",
    "tools",
    "files read",
    "files changed",
    "models",
    "tokens",
    "cost",
    "time",
)


class End(Record):
    """One of the two paths.

    Attributes:
        leaf: Its last entry, None before the first.
        branch: Branch it is the leaf of, None for none.
        typed: What the person typed.
    """

    session: Session
    leaf: str | None
    branch: str | None
    typed: str


class Difference(Record):
    """Two paths, compared.

    Attributes:
        stat: Only the figures are wanted.
        side_by_side: Left and right beside each other.
        full: Every line of every entry.
    """

    left: End
    right: End
    compared: Comparison
    stat: bool
    side_by_side: bool
    full: bool


def lines(data: Difference, screen: Screen) -> Iterator[str]:
    """Yield the heading, the figures, then the entries."""
    compared = data.compared
    yield screen.line(f"- {name_of(data.left, data.right)}")
    yield screen.line(f"+ {name_of(data.right, data.left)}")
    if compared.ancestor is not None:
        told = f"{one_line(compared.ancestor.id)} ({count(compared.shared, 'entry', 'entries')} shared)"
        yield "  " + screen.line(f"parted after {told}: {speaker(compared.ancestor)}: {gist(compared.ancestor)}", 2)
    yield ""
    yield from figures(data, screen)
    if data.stat or not compared.pairs:
        return
    yield ""
    yield from beside(data, screen) if data.side_by_side else below(data, screen)


def name_of(end: End, other: End) -> str:
    """Return how a path is called: the session only where it tells the two apart."""
    parts = [end.typed] if end.typed not in ("@", end.leaf) else []
    if end.session.id != other.session.id:
        parts.append(f"session {end.session.id}" + (f" ({one_line(end.session.name)})" if end.session.name else ""))
    if end.branch is not None and end.branch != end.typed:
        parts.append(f"branch {end.branch}")
    parts.append(f"to {end.leaf or 'before the first entry'}")
    return ", ".join(parts)


def figures(data: Difference, screen: Screen) -> Iterator[str]:
    """Yield a line per figure: its name, left, right."""
    left, right = figures_of(data.compared.left), figures_of(data.compared.right)
    room = ((screen.columns or DEFAULT_COLUMNS) - FIGURE_CELLS - 4) // 2
    for name in FIGURES:
        if left[name] or right[name]:
            cells = [fit(one_line(side[name]) or "-", room, screen.signs.ellipsis) for side in (left, right)]
            yield f"  {name:<{FIGURE_CELLS}}{pad(cells[0], room)}  {cells[1]}".rstrip()


def figures_of(side: Side) -> dict[str, str]:
    """Return one side's figures as texts; empty where there is nothing."""
    totals = side.totals
    spent = f"${totals.cost:.4f}" if totals.cost else ""
    if side.unpriced:
        spent = " ".join(filter(None, (spent, f"+ {count(side.unpriced, 'answer')} of unknown price")))
    seconds = 0 if side.began_ms is None or side.ended_ms is None else (side.ended_ms - side.began_ms) // 1000
    return {
        "turns": str(totals.assistant_messages or ""),
        "messages": str(totals.total_messages or ""),
        "tool calls": str(totals.tool_calls or ""),
        "tools": some([name if number == 1 else f"{name} x{number}" for name, number in side.tools]),
        "files read": some(list(side.files.read_only)),
        "files changed": some(list(side.files.modified)),
        "models": some([row.key for row in side.models]),
        "tokens": f"{totals.tokens:,}" if totals.tokens else "",
        "cost": spent,
        "time": duration(seconds),
    }


def duration(seconds: int) -> str:
    """Return a span of time as `1:02:03`, or in days; empty for none."""
    if seconds >= 48 * 3600:
        return f"{seconds // 86400} days"
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}" if seconds else ""


def some(names: list[str]) -> str:
    """Return the first few names and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def below(data: Difference, screen: Screen) -> Iterator[str]:
    """Yield the entries one below the other: runs of the left ones before runs of the right ones."""
    waiting: list[StoredEntry] = []
    for pair in (*data.compared.pairs, None):
        if pair is None or pair.same:
            for entry in waiting:
                yield from told(entry, "+", "green", data.full, screen)
            waiting = []
        if pair is None:
            return
        if pair.same and pair.left is not None:
            yield from told(pair.left, " ", "dim", data.full, screen)
            continue
        if pair.left is not None:
            yield from told(pair.left, "-", "red", data.full, screen)
        if pair.right is not None:
            waiting.append(pair.right)


def told(entry: StoredEntry, sign: str, style: str, full: bool, screen: Screen) -> Iterator[str]:
    """Yield an entry with a sign before each line."""
    who = f"{one_line(speaker(entry))}  {one_line(entry.id)}"
    yield f"{screen.paint(sign, style)} {screen.paint(who, *(styles(entry) if style != 'dim' else ('dim',)))}"
    for line in texts(entry, full, screen):
        yield f"{screen.paint(sign, style)}   {screen.line(line, 4) if not full else line}".rstrip()


def texts(entry: StoredEntry, full: bool, screen: Screen) -> list[str]:
    """Return the safe lines of an entry, the first few unless all are wanted."""
    text = entry_text(entry.type, entry.payload).text.strip("\n") or gist(entry)
    found = [line for line in block(text) if line.strip()]
    if full or len(found) <= LINES_SHOWN + 1:
        return found
    return [*found[:LINES_SHOWN], f"({count(len(found) - LINES_SHOWN, 'more line')}; --full shows them)"]


def beside(data: Difference, screen: Screen) -> Iterator[str]:
    """Yield the entries side by side."""
    room = ((screen.columns or DEFAULT_COLUMNS) - 3) // 2
    bar = "│" if screen.signs.down.startswith("│") else "|"
    for pair in data.compared.pairs:
        left = cell(pair, pair.left, room, data.full, screen)
        right = cell(pair, pair.right, room, data.full, screen)
        for place in range(max(len(left), len(right))):
            one = left[place] if place < len(left) else ("", ())
            other = right[place] if place < len(right) else ("", ())
            painted = screen.paint(one[0], *one[1]) + " " * (room - width(one[0]))
            yield f"{painted} {bar} {screen.paint(other[0], *other[1])}".rstrip()


def cell(
    pair: Pair, entry: StoredEntry | None, room: int, full: bool, screen: Screen
) -> list[tuple[str, tuple[str, ...]]]:
    """Return the lines of one entry in a column, with how each is painted."""
    if entry is None:
        return []
    style = ("dim",) if pair.same else styles(entry)
    found = [(fit(f"{one_line(speaker(entry))}  {one_line(entry.id)}", room, screen.signs.ellipsis), style)]
    for line in texts(entry, full, screen):
        found += [(piece, ("dim",) if pair.same else ()) for piece in wrapped(line, room - 2)]
    return found


def wrapped(line: str, room: int) -> Iterator[str]:
    """Yield a safe line in indented pieces that fit."""
    rest = line
    while rest:
        piece = fit(rest, room, "")
        if len(piece) < len(rest) and " " in piece.strip():
            piece = piece[: piece.rstrip().rfind(" ") + 1] or piece
        piece = piece or rest[:1]
        yield "  " + piece.rstrip()
        rest = rest[len(piece) :].lstrip(" ")


def to_json(data: Difference) -> dict[str, object]:
    """Return the comparison."""
    compared = data.compared
    return {
        "ancestor": compared.ancestor.id if compared.ancestor else None,
        "shared": compared.shared,
        "left": side_json(data.left, compared.left),
        "right": side_json(data.right, compared.right),
        "pairs": [
            {
                "left": pair.left.to_dict() if pair.left else None,
                "right": pair.right.to_dict() if pair.right else None,
                "same": pair.same,
            }
            for pair in (() if data.stat else compared.pairs)
        ],
    }


def side_json(end: End, side: Side) -> JsonObject:
    """Return one side's figures."""
    totals = side.totals
    return {
        "sessionId": end.session.id,
        "branch": end.branch,
        "leaf": end.leaf,
        "entries": len(side.entries),
        "turns": totals.assistant_messages,
        "messages": totals.total_messages,
        "userMessages": totals.user_messages,
        "toolCalls": totals.tool_calls,
        "tools": dict(side.tools),
        "files": {
            "read": list(side.files.read),
            "written": list(side.files.written),
            "edited": list(side.files.edited),
        },
        "models": [{"model": row.key, "tokens": row.tokens, "cost": row.cost} for row in side.models],
        "tokens": {
            "input": totals.input,
            "output": totals.output,
            "cacheRead": totals.cache_read,
            "cacheWrite": totals.cache_write,
            "total": totals.tokens,
        },
        "cost": totals.cost,
        "unpriced": side.unpriced,
        "began": iso(side.began_ms),
        "ended": iso(side.ended_ms),
    }
