"""The tree of a session: roots, children, common ancestors, and the rows of its display.

Pure and without recursion; every entry given is in the tree exactly once, whatever its parent links say. What a row
looks like in a terminal is the command line's task.

Source: Pi 1.6.0, tree display.
"""

from __future__ import annotations

import functools

from pi_sessions.context import content_text, path_to_root
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pi_sessions.stored import StoredEntry

    Guide = tuple[int, "Guide | None"]

FILTERS = ("default", "no-tools", "user-only", "labeled-only", "all")
SETTINGS_TYPES = frozenset(("label", "context_edit", "custom", "model_change", "thinking_level_change", "session_info"))
NORMAL_STOPS = ("stop", "toolUse")

_set = object.__setattr__


class Tree(Record):
    """Who hangs under whom.

    Attributes:
        entries: All entries by id.
        roots: Ids in file order: no parent, a missing parent, its own parent, or the first of a cycle.
        children: Ids under each parent that has any, ordered by time (equal and unreadable times stay in file order).
    """

    entries: dict[str, StoredEntry]
    roots: tuple[str, ...]
    children: dict[str, list[str]]


class Row(Record):
    """One line of the tree's display.

    Attributes:
        entry: The entry shown.
        indent: Pi's depth of the row: 0 for the only root, 1 for each of several.
        level: Column of the row in connectors: `indent`, less one when there are several roots.
        parent: Index of the row it hangs under, the nearest shown ancestor; None for a root of the display.
        connector: Whether a connector is drawn: one of several siblings that is not a root.
        last: Whether it is the last of its siblings.
        guide: Levels of the vertical lines left of it, nearest first, as a chain; `guides` gives them as a list.
        active: Whether it lies on the path to the leaf.
        leaf: Whether it is the leaf.
        label: Its label, or None.
        children: How many children the entry has in the whole tree, hidden ones included.
        folded: The entries of the run of tool calls this row stands for, its own first; empty for an ordinary row.
    """

    entry: StoredEntry
    indent: int
    level: int
    parent: int | None
    connector: bool
    last: bool
    guide: Guide | None
    active: bool
    leaf: bool
    label: str | None
    children: int
    folded: tuple[StoredEntry, ...] = ()

    if not TYPE_CHECKING:
        # A large tree has one row per entry; the general constructor would cost more than laying them out.
        def __init__(
            self, entry, indent, level, parent, connector, last, guide, active, leaf, label, children, folded=()
        ):
            values = (entry, indent, level, parent, connector, last, guide, active, leaf, label, children, folded)
            for name, value in zip(self._fields, values, strict=True):
                _set(self, name, value)

    @property
    def id(self) -> str:
        """The entry's id."""
        return self.entry.id

    def guides(self) -> list[int]:
        """Return the levels of the vertical lines left of this row, leftmost first."""
        levels = []
        guide = self.guide
        while guide is not None:
            level, guide = guide
            levels.append(level)
        levels.reverse()
        return levels


class TreeView(Record):
    """The rows of a display.

    Attributes:
        rows: In order.
        selected: Index of the row of the leaf or of its nearest shown ancestor, else of the last row; None when there
            are no rows.
    """

    rows: tuple[Row, ...]
    selected: int | None

    def active_path(self) -> list[str]:
        """Return the ids of the shown rows on the path to the leaf, from the leaf up."""
        return [row.id for row in reversed(self.rows) if row.active]


def build_tree(entries: Iterable[StoredEntry]) -> Tree:
    """Return the tree of a session.

    Args:
        entries: In file order, ids unique.

    Returns:
        A tree that reaches every entry once: a cycle is cut above its first member in file order.

    Source: Pi 1.6.0, tree; a cycle is shown instead of vanishing.
    """
    by_id = {entry.id: entry for entry in entries}
    roots = []
    children: dict[str, list[str]] = {}
    for entry in by_id.values():
        parent = _parent_in(by_id, entry)
        if parent is None:
            roots.append(entry.id)
        else:
            children.setdefault(parent, []).append(entry.id)
    reached = _reach(roots, children, set())
    if len(reached) < len(by_id):
        order = {id: place for place, id in enumerate(by_id)}
        for entry in by_id.values():
            if entry.id not in reached:
                top = min(_cycle_above(by_id, entry), key=order.__getitem__)
                children[by_id[top].parent_id or ""].remove(top)
                roots.append(top)
                _reach([top], children, reached)
        roots.sort(key=order.__getitem__)
    for parent in [parent for parent, below in children.items() if not below]:
        del children[parent]
    for below in children.values():
        if len(below) > 1:
            _sort_by_time(below, by_id)
    return Tree(by_id, tuple(roots), children)


def common_ancestor(entries: Mapping[str, StoredEntry], first: str | None, second: str | None) -> str | None:
    """Return the deepest entry on both paths, an end itself included; None when the paths share nothing.

    Raises:
        EntryNotFoundError: one of the two is no entry of the session.
    """
    on_first = {entry.id for entry in path_to_root(entries, first)}
    for entry in reversed(path_to_root(entries, second)):
        if entry.id in on_first:
            return entry.id
    return None


def tree_rows(
    entries: Sequence[StoredEntry] | Tree,
    leaf: str | None,
    labels: Mapping[str, str],
    *,
    filter: str = "default",
    search: str = "",
    closed: Collection[str] = (),
    fold_tools: bool = False,
) -> TreeView:
    """Return the rows of the tree's display.

    Args:
        entries: The session's entries in file order, or their tree.
        leaf: The leaf; the branch that holds it comes first among its siblings.
        labels: Label texts by entry id.
        filter: One of FILTERS. `all` shows every entry; the others hide usage entries and answers that only call
            tools, unless they failed or are the leaf.
        search: Words that a row must all contain, in its label, role, text, name, model or custom type.
        closed: Ids of entries whose descendants are not shown.
        fold_tools: Show a run of tool calls and results (no branch, no label, not the leaf inside it) as one row.

    Raises:
        ValueError: an unknown filter.

    Source: Pi 1.6.0, tree display; `all` shows usage entries and bare tool calls too, a search looks at whole texts,
        and folding runs of tools is ours.
    """
    if filter not in FILTERS:
        raise ValueError(f"unknown filter {filter!r}")
    tree = entries if isinstance(entries, Tree) else build_tree(entries)
    active = _active_ids(tree, leaf)
    words = search.lower().split()
    order = _display_order(tree, active, frozenset(closed))
    shown = [
        id
        for id in order
        if _passes(tree.entries[id], leaf, labels, filter, with_calls=fold_tools)
        and (not words or _contains(_searchable(tree.entries[id], labels.get(id)), words))
    ]
    runs: dict[str, tuple[StoredEntry, ...]] = {}
    if fold_tools:
        shown, runs = _fold_runs(tree, shown, leaf, labels)
    rows = _lay_out(tree, shown, runs, leaf, labels, active)
    return TreeView(tuple(rows), _selected(tree, rows, runs, leaf))


def is_bare_tool_call(entry: StoredEntry) -> bool:
    """Whether an answer has no text and ended normally: it only calls tools, or says nothing.

    Source: Pi 1.6.0, tree display.
    """
    message = entry.message
    if message is None or message.get("role") != "assistant":
        return False
    stop = message.get("stopReason")
    return not content_text(message.get("content"), "").strip() and (not stop or stop in NORMAL_STOPS)


def _parent_in(by_id: Mapping[str, StoredEntry], entry: StoredEntry) -> str | None:
    parent = entry.parent_id
    return parent if isinstance(parent, str) and parent in by_id and parent != entry.id else None


def _cycle_above(by_id: Mapping[str, StoredEntry], entry: StoredEntry) -> list[str]:
    """Return the ids of the cycle that the parents of an entry without a root lead into."""
    seen: dict[str, int] = {}
    current = entry
    while current.id not in seen:
        seen[current.id] = len(seen)
        current = by_id[current.parent_id or ""]
    return list(seen)[seen[current.id] :]


def _reach(start: list[str], children: Mapping[str, list[str]], reached: set[str]) -> set[str]:
    stack = list(start)
    while stack:
        id = stack.pop()
        if id not in reached:
            reached.add(id)
            stack.extend(children.get(id, ()))
    return reached


def _sort_by_time(ids: list[str], by_id: Mapping[str, StoredEntry]) -> None:
    """Sort by time as JavaScript does, where comparing with an unreadable time counts as equal."""
    times = {id: by_id[id].own_time_ms for id in ids}
    if None not in times.values():
        ids.sort(key=lambda id: times[id] or 0)
        return

    def compare(first: str, second: str) -> int:
        before, after = times[first], times[second]
        return 0 if before is None or after is None else before - after

    ids.sort(key=functools.cmp_to_key(compare))


def _active_ids(tree: Tree, leaf: str | None) -> set[str]:
    return {entry.id for entry in path_to_root(tree.entries, leaf)} if leaf in tree.entries else set()


def _display_order(tree: Tree, active: set[str], closed: frozenset[str]) -> list[str]:
    """Return all ids in display order: the active branch first among its siblings, nothing below a closed entry."""

    def active_first(ids: Sequence[str]) -> list[str]:
        return [id for id in ids if id in active] + [id for id in ids if id not in active]

    order = []
    stack = active_first(tree.roots)[::-1]
    while stack:
        id = stack.pop()
        order.append(id)
        below = tree.children.get(id)
        if below and id not in closed:
            stack.extend(below if len(below) == 1 else active_first(below)[::-1])
    return order


def _passes(entry: StoredEntry, leaf: str | None, labels: Mapping[str, str], filter: str, *, with_calls: bool) -> bool:
    if filter == "all":
        return True
    kind = entry.type
    if kind == "usage":
        return False
    if kind == "message" and filter == "default" and (with_calls or entry.role != "assistant"):
        return True
    if not with_calls and entry.id != leaf and is_bare_tool_call(entry):
        return False
    if filter == "user-only":
        return entry.role == "user"
    if filter == "labeled-only":
        return entry.id in labels
    return kind not in SETTINGS_TYPES and not (
        filter == "no-tools" and (entry.role == "toolResult" or (entry.id != leaf and is_bare_tool_call(entry)))
    )


def _contains(text: str, words: Sequence[str]) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in words)


def _searchable(entry: StoredEntry, label: str | None) -> str:
    fields = entry.fields
    kind = entry.type
    parts: list[object] = [label]
    if kind == "message":
        message = entry.message or {}
        parts += [message.get("role"), content_text(message.get("content"), "")]
        if message.get("role") == "bashExecution":
            parts.append(message.get("command"))
    elif kind == "custom_message":
        parts += [fields.get("customType"), content_text(fields.get("content"), "")]
    elif kind == "compaction":
        parts.append("compaction")
    elif kind == "branch_summary":
        parts += ["branch summary", fields.get("summary")]
    elif kind == "context_edit":
        omits = fields.get("replacement") is None
        parts += ["context edit", "omit" if omits else "replace", fields.get("targetId")]
    else:
        for name, word, value in _SEARCH_FIELDS:
            if kind == name:
                parts += [word, fields.get(value)]
    return " ".join(part for part in parts if isinstance(part, str) and part)


_SEARCH_FIELDS = (
    ("session_info", "title", "name"),
    ("model_change", "model", "modelId"),
    ("thinking_level_change", "thinking", "thinkingLevel"),
    ("custom", "custom", "customType"),
    ("label", "label", "label"),
)


def _fold_runs(
    tree: Tree, shown: list[str], leaf: str | None, labels: Mapping[str, str]
) -> tuple[list[str], dict[str, tuple[StoredEntry, ...]]]:
    """Return the ids left after folding, and for each first entry of a run of two or more the entries it stands for."""
    kept: list[str] = []
    run: list[StoredEntry] = []
    runs: dict[str, tuple[StoredEntry, ...]] = {}

    def close() -> None:
        if len(run) > 1:
            runs[run[0].id] = tuple(run)
        run.clear()

    for id in shown:
        entry = tree.entries[id]
        foldable = (
            id != leaf
            and id not in labels
            and len(tree.children.get(id, ())) <= 1
            and (entry.role == "toolResult" or is_bare_tool_call(entry))
        )
        if not (foldable and run and entry.parent_id == run[-1].id):
            close()
            kept.append(id)
        if foldable:
            run.append(entry)
    close()
    return kept, runs


def _lay_out(
    tree: Tree,
    shown: list[str],
    runs: Mapping[str, tuple[StoredEntry, ...]],
    leaf: str | None,
    labels: Mapping[str, str],
    active: set[str],
) -> list[Row]:
    """Return the rows with their depth and connectors, each under its nearest shown ancestor."""
    parents = _shown_parents(tree, shown, runs)
    below: dict[str | None, list[str]] = {}
    for id in shown:
        below.setdefault(parents[id], []).append(id)
    tops = below.get(None, [])
    several = len(tops) > 1
    rows: list[Row] = []
    # Each item: id, index of the parent's row, indent, whether its parent branched, last sibling, guide.
    stack: list[tuple[str, int | None, int, bool, bool, Guide | None]] = [
        (id, None, int(several), several, id == tops[-1], None) for id in reversed(tops)
    ]
    while stack:
        id, parent, indent, branched, last, guide = stack.pop()
        level = max(0, indent - 1) if several else indent
        connector = branched and parent is not None
        place = len(rows)
        rows.append(
            Row(
                entry=tree.entries[id],
                indent=indent,
                level=level,
                parent=parent,
                connector=connector,
                last=last,
                guide=guide,
                active=id in active,
                leaf=id == leaf,
                label=labels.get(id),
                children=len(tree.children.get(id, ())),
                folded=runs.get(id, ()),
            )
        )
        inner = below.get(id, [])
        branches = len(inner) > 1
        deeper = branches or (branched and indent > 0)
        under = (max(0, level - 1), guide) if connector and not last else guide
        for child in reversed(inner):
            stack.append((child, place, indent + 1 if deeper else indent, branches, child == inner[-1], under))
    return rows


def _shown_parents(
    tree: Tree, shown: Sequence[str], runs: Mapping[str, tuple[StoredEntry, ...]]
) -> dict[str, str | None]:
    """Return the nearest shown ancestor of each shown entry, in one walk down the tree."""
    visible = set(shown)
    stands_in = {entry.id: first for first, run in runs.items() for entry in run}
    parents: dict[str, str | None] = {}
    stack: list[tuple[str, str | None]] = [(root, None) for root in tree.roots]
    while stack:
        id, above = stack.pop()
        if id in visible:
            parents[id] = above
            above = id
        else:
            above = stands_in.get(id, above)
        stack.extend((child, above) for child in tree.children.get(id, ()))
    return parents


def _selected(
    tree: Tree, rows: Sequence[Row], runs: Mapping[str, tuple[StoredEntry, ...]], leaf: str | None
) -> int | None:
    if not rows:
        return None
    places = {row.id: place for place, row in enumerate(rows)}
    for first, run in runs.items():
        for entry in run:
            places.setdefault(entry.id, places[first])
    if leaf in tree.entries:
        for entry in reversed(path_to_root(tree.entries, leaf)):
            if entry.id in places:
                return places[entry.id]
    return len(rows) - 1
