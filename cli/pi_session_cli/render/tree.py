"""View of `tree`: ids and times in columns, then the branches as a picture with the words of each entry."""

from __future__ import annotations

from itertools import pairwise

from pi_session_cli.render.safe import LONGEST_ID, one_line, short_id
from pi_session_cli.render.screen import PREVIEW, WHEN_CELLS, count
from pi_session_cli.render.width import fit, pad, width
from pi_session_cli.render.wire import branch_json, iso, label_json, session_json
from pi_session_cli.render.words import gist, run_gist, speaker, styles
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Branch, Label, Session
    from pi_sessions.tree import Row, Tree, TreeView

LEVEL_CELLS = 3
LEAST_WORDS = 8
# A whole UUID; what stands beside the ids in a narrow terminal; and from where the ids leave less for the picture.
WIDEST_ID = 36
ID_LEAVES = 24
LONG_START = 36
SPEAKERS = {"thinking level change": "thinking", "model change": "model", "session info": "name"}


class Picture(Record):
    """A session's tree as it is to be drawn.

    Attributes:
        tree: All entries.
        view: The rows shown.
        branches: The session's branches; `tips` are ends no branch points to.
        hidden: How many entries the filter leaves out.
    """

    session: Session
    tree: Tree
    view: TreeView
    branches: tuple[Branch, ...]
    labels: dict[str, Label]
    tips: tuple[str, ...]
    hidden: int


def lines(data: Picture, screen: Screen) -> Iterator[str]:
    """Yield the heading, then one line per row."""
    yield from heading(data, screen)
    names = branches_by_row(data)
    ids = id_column(data, screen)
    for place in range(len(data.view.rows)):
        yield row_line(data, place, names.get(place, []), ids, screen)


def alike_for(first: str, second: str) -> int:
    """Return how many first characters two texts share."""
    ends = (place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    return next(ends, min(len(first), len(second)))


class IdColumn(Record):
    """The column of ids: how many characters of one are shown, and how wide the column is."""

    characters: int
    cells: int


def id_column(data: Picture, screen: Screen) -> IdColumn:
    """Return the column of ids."""
    characters = id_characters(data.tree.entries, screen)
    return IdColumn(characters, max((width(short_id(row.id, characters)) for row in data.view.rows), default=8))


def id_characters(ids: Iterable[str], screen: Screen, leaves: int = ID_LEAVES) -> int:
    """Return how much of ids is shown: long ones as far as it takes to tell them apart, if there is room.

    Args:
        leaves: Cells of a line that ids may not take.
    """
    room = WIDEST_ID if screen.columns is None else min(WIDEST_ID, screen.columns - leaves)
    return max(min(telling_length(ids), room), LONGEST_ID)


def telling_length(ids: Iterable[str]) -> int:
    """Return how many first characters tell ids apart, all of them beginning alike as foreign ones may."""
    ordered = sorted(ids)
    alike = [alike_for(*pair) for pair in pairwise(ordered) if pair[0][:LONGEST_ID] == pair[1][:LONGEST_ID]]
    return max(alike, default=0) + 1


def row_line(data: Picture, place: int, names: list[Branch], ids: IdColumn, screen: Screen) -> str:
    """Return one row of the picture.

    Args:
        place: Index of the row.
        names: Branches that end there, from `branches_by_row`.
        ids: From `id_column`.
    """
    row = data.view.rows[place]
    is_leaf = place == data.view.selected and data.session.leaf is not None
    mark = screen.signs.leaf if is_leaf else screen.signs.active if row.active else " "
    when = clock_of(row, screen, screen.columns is not None and screen.columns < 72)
    shown = pad(short_id(row.id, ids.characters), ids.cells)
    start = f"{mark} {shown}  {when}  "
    connectors = connect(row, screen, len(start))
    text = words(row, marks(data, row, names, screen), screen, len(start) + len(connectors))
    painted = paint_start(mark, shown, when, row, is_leaf, screen) if screen.colour else start
    return f"{painted}{screen.paint(connectors, 'dim')}{text}".rstrip()


def heading(data: Picture, screen: Screen) -> Iterator[str]:
    """Yield whose tree it is and which branches it has."""
    session = data.session
    shown = one_line(session.id)
    name = f"  {screen.line(session.name, width(shown) + 2)}" if session.name else ""
    yield screen.paint(shown, "bold") + name
    told = [count(len(data.tree.entries), "entry", "entries")]
    names = [one_line(branch.name) + (" (current)" if branch.current else "") for branch in data.branches]
    told.append(f"{count(len(data.branches), 'branch', 'branches')}: {', '.join(names)}")
    if data.tips:
        told.append(f"{count(len(data.tips), 'tip')} left behind")
    if session.leaf is None:
        told.append("leaf before the first entry")
    yield screen.line("; ".join(told))


def branches_by_row(data: Picture) -> dict[int, list[Branch]]:
    """Return the branches that end at each row; one whose leaf is not shown ends at its nearest shown ancestor."""
    places = {row.id: place for place, row in enumerate(data.view.rows)}
    for place, row in enumerate(data.view.rows):
        for entry in row.folded:
            places.setdefault(entry.id, place)
    ends: dict[int, list[Branch]] = {}
    for branch in data.branches:
        at = branch.leaf
        left = len(data.tree.entries)
        while at is not None and at not in places and left:
            above = data.tree.entries.get(at)
            at = above.parent_id if above is not None else None
            left -= 1
        if at is not None and at in places:
            ends.setdefault(places[at], []).append(branch)
    return ends


def connect(row: Row, screen: Screen, used: int) -> str:
    """Return the lines of the picture left of a row's words, cut on the left where branches nest too deep."""
    cells = [" "] * (LEVEL_CELLS * row.level)
    for level in row.guides():
        cells[LEVEL_CELLS * level : LEVEL_CELLS * level + LEVEL_CELLS] = screen.signs.down
    if row.connector and row.level:
        place = LEVEL_CELLS * (row.level - 1)
        cells[place : place + LEVEL_CELLS] = screen.signs.last if row.last else screen.signs.fork
    text = "".join(cells)
    room = 60 if screen.columns is None else max(screen.columns // 4, 9)
    if screen.columns is not None and used > LONG_START:
        room = min(room, max(screen.columns - used - LEAST_WORDS, LEVEL_CELLS))
    return text if len(text) <= room else screen.signs.ellipsis + text[len(text) - room + len(screen.signs.ellipsis) :]


def marks(data: Picture, row: Row, branches: list[Branch], screen: Screen) -> list[tuple[str, tuple[str, ...]]]:
    """Return what stands before a row's words, with its paint: label, branches that end there, tip."""
    found: list[tuple[str, tuple[str, ...]]] = []
    if row.label:
        found.append((f"[{one_line(row.label)}]", ("yellow", "bold")))
    inside = {row.id, *(entry.id for entry in row.folded)}
    for branch in branches:
        # A branch whose leaf the filter hides ends somewhere below this row.
        below = "" if branch.leaf in inside else screen.signs.ellipsis
        found.append((f"({one_line(branch.name)}{below})", ("green", "bold" if branch.current else "dim")))
    if row.id in data.tips:
        found.append(("(tip)", ("dim",)))
    return found


def words(row: Row, before: list[tuple[str, tuple[str, ...]]], screen: Screen, used: int) -> str:
    """Return marks, speaker and first words of a row, all of it free text that is cut to fit."""
    who, said, style = told(row)
    pieces = [*before, (f"{who}:", style), (one_line(said), ())]
    if screen.columns is None:
        return " ".join(screen.paint(text[:PREVIEW], *paints) for text, paints in pieces)
    room = max(screen.columns - used, 8)
    drawn = []
    for place, (text, paints) in enumerate(pieces):
        if room <= 0:
            break
        cut = fit(text, room, screen.signs.ellipsis)
        drawn.append(screen.paint(cut, *paints) if paints else cut)
        room -= width(cut) + (place < len(pieces) - 1)
    return " ".join(drawn)


def told(row: Row) -> tuple[str, str, tuple[str, ...]]:
    """Return speaker, words and paint of a row."""
    entry = row.entry
    if row.folded:
        return "tools", run_gist(row.folded), ("dim",)
    who = SPEAKERS.get(speaker(entry), speaker(entry))
    said = gist(entry)
    if entry.type == "compaction":
        before = entry.fields.get("tokensBefore")
        if isinstance(before, int) and not isinstance(before, bool):
            said = f"{before:,} tokens before; {said}"
    return one_line(who), said, styles(entry)


def clock_of(row: Row, screen: Screen, narrow: bool) -> str:
    """Return the time of a row: the hour alone where there is little room."""
    text = screen.when(row.entry.time_ms)
    if narrow:
        return f"{text[-5:] if text[-3:-2] == ':' else text[5:10] if text[4:5] == '-' else '?':<5}"
    return f"{text:<{WHEN_CELLS}}"


def paint_start(mark: str, shown: str, when: str, row: Row, is_leaf: bool, screen: Screen) -> str:
    """Return the columns left of the picture in colour: what is off the active path is dim."""
    kept = screen.paint(shown, "yellow") if row.active else screen.paint(shown, "dim")
    return f"{screen.paint(mark, 'green', 'bold') if is_leaf else mark} {kept}  {screen.paint(when, 'dim')}  "


def to_json(data: Picture) -> dict[str, object]:
    """Return the rows, and what is drawn around them."""
    names = branches_by_row(data)
    rows = []
    for place, row in enumerate(data.view.rows):
        above = data.view.rows[row.parent].id if row.parent is not None else None
        rows.append(
            {
                "id": row.id,
                "parentId": row.entry.parent_id,
                "shownUnder": above,
                "depth": row.indent,
                "type": row.entry.type,
                "role": row.entry.role,
                "timestamp": iso(row.entry.time_ms),
                "text": one_line(told(row)[1]),
                "label": row.label,
                "branches": [branch.name for branch in names.get(place, ())],
                "active": row.active,
                "leaf": row.leaf,
                "folded": [entry.id for entry in row.folded],
            }
        )
    return {
        "session": session_json(data.session),
        "branches": [branch_json(branch) for branch in data.branches],
        "tips": list(data.tips),
        "labels": [label_json(label) for label in data.labels.values()],
        "rows": rows,
        "hidden": data.hidden,
    }
