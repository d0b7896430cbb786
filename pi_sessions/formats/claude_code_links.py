"""Makes the tree of a Claude Code transcript once every record is known.

The parent chain of the file names records; here it becomes links between entries: parts of one answer are one entry,
results and notes stand one after the other behind the entry they belong to, a compaction hangs under the record it
followed, and what it kept goes on behind it. Pure but for the builder it works on.

Source: Claude Code 2.1 session files (parentUuid, logicalParentUuid, compactMetadata).
"""

from __future__ import annotations

from pi_sessions.context import EDITABLE_ROLES
from pi_sessions.formats.building import computed_id
from pi_sessions.formats.parsed import Repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.building import SessionBuilder
    from pi_sessions.stored import JsonObject, StoredEntry


APPENDAGE, META, BOUNDARY, PLACED = 1, 2, 4, 8


class Compacting:
    """What only a compaction and the records it kept say.

    Attributes:
        kept: Uuids a compaction keeps: all of them, or head and tail when `is_segment`.
        kept_by: (line, compaction) after which this record goes on behind that compaction.
        fields: A compaction's fields.
    """

    __slots__ = ("fields", "is_segment", "kept", "kept_by")

    def __init__(self) -> None:
        self.kept: tuple[str | None, ...] = ()
        self.is_segment = False
        self.kept_by: tuple[tuple[int, Node], ...] = ()
        self.fields: JsonObject | None = None


class Node:
    """A record that became an entry; small, since there is one for each.

    Attributes:
        uuid: The record's, empty for records without one and for further parts of a record.
        parent: Uuid of the record before it.
        line: Where it stands.
        marks: `APPENDAGE`: a result or note, it stands behind another entry and others go on behind it. `META`: it has
            no place of its own, it stands behind the record before it in the file. `BOUNDARY`: it is a compaction.
        more: Of a compaction, and of what it kept.
        behind: While links are made its parent, then the node behind which an appendage stands.
        end: The last appendage behind it.
    """

    __slots__ = ("behind", "end", "entry", "line", "marks", "more", "parent", "uuid")

    entry: StoredEntry

    def __init__(self, uuid: str, parent: str | None, line: int) -> None:
        self.uuid = uuid
        self.parent = parent
        self.line = line
        self.marks = APPENDAGE
        self.more: Compacting | None = None
        self.behind: Node | None = None
        self.end: Node | None = None

    @property
    def is_meta(self) -> int:
        """Whether it has no place of its own."""
        return self.marks & META

    @property
    def compacting(self) -> Compacting:
        """What it says as a compaction, or as a record that one kept."""
        if self.more is None:
            self.more = Compacting()
        return self.more


def link(
    builder: SessionBuilder,
    nodes: list[Node],
    named: dict[str, Node],
    last_prompt: tuple[int, str] | None,
    *,
    is_side: bool,
) -> str | None:
    """Set the parent of every entry.

    Args:
        nodes: In file order.
        named: By uuid; parts of one answer all name its node.
        last_prompt: Line and leaf uuid of the last record that says where the conversation stood.
        is_side: A subagent's chain inside another file: its first record has no parent here, whatever it names.

    Returns:
        Entry id of the active leaf.
    """
    for node in nodes:
        if node.more is not None and node.marks & BOUNDARY:
            for uuid in node.more.kept:
                kept = named.get(uuid or "")
                if kept is not None:
                    kept.compacting.kept_by += ((node.line, node),)
    ordered = _metas_behind_the_first(nodes)
    _find_parents(builder, ordered, named, is_side)
    for node in _parents_first(ordered):
        above = node.behind
        owner = above
        if above is not None and above.marks & PLACED:
            owner = above.behind or above
        end = owner.end or owner if owner is not None else None
        node.entry.parent_id = end.entry.id if end is not None else None
        node.behind = None
        if node.marks & APPENDAGE and owner is not None:
            node.behind = owner
            owner.end = node
    for node in nodes:
        if node.more is not None and node.marks & BOUNDARY and node.more.kept:
            _keep(builder, node, node.more, named)
    return _leaf(ordered, named, last_prompt)


def _metas_behind_the_first(nodes: list[Node]) -> list[Node]:
    """Return the nodes with those before the first real record moved right behind it."""
    first = next((place for place, node in enumerate(nodes) if not node.is_meta), 0)
    return [*nodes[first : first + 1], *nodes[:first], *nodes[first + 1 :]] if first else nodes


def _find_parents(builder: SessionBuilder, nodes: list[Node], named: dict[str, Node], is_side: bool) -> None:
    """Give each node its parent as the file means it: a missing one is the record before."""
    before: Node | None = None
    keepers = _keepers(nodes, named)
    for node in nodes:
        found: Node | None = None
        mine = keepers.get(id(node), ())
        if node.is_meta:
            found = before
        elif node.parent is not None:
            found = named.get(node.parent)
            if found is not None and found.more is not None:
                for line, boundary in found.more.kept_by:
                    if line < node.line and boundary is not node and boundary not in mine:
                        found = boundary
            if found in mine:
                # It stands only behind the compaction that keeps it; what it followed is not in this file.
                found = None
                builder.torn_off.add(node.entry.id)
            elif (found is None or found is node) and (before is not None or not is_side):
                found = before
                where = f"linked to the record before, {before.entry.id}" if before is not None else "a root now"
                if before is None and found is not node:
                    builder.torn_off.add(node.entry.id)
                text = f"the parent {node.parent} is missing; {where}"
                builder.repairs.append(Repair(node.line, "missing_parent", text, node.entry.id))
        elif node.marks & BOUNDARY:
            found = before
        node.behind = found
        before = node


def _keepers(nodes: list[Node], named: dict[str, Node]) -> dict[int, list[Node]]:
    """Return the compactions that keep a node and stand before it in the file, by the node's identity.

    A fork of a compacted session begins so: with the compaction, then what it kept, under new parents.
    """
    found: dict[int, list[Node]] = {}
    for boundary in nodes:
        if boundary.more is None or not boundary.marks & BOUNDARY or not boundary.more.kept:
            continue
        kept = [named.get(uuid or "") for uuid in boundary.more.kept]
        if boundary.more.is_segment:
            kept = _segment(kept[0], kept[-1], named)
        for node in kept:
            if node is not None and node.line > boundary.line:
                found.setdefault(id(node), []).append(boundary)
    return found


def _segment(head: Node | None, tail: Node | None, named: dict[str, Node]) -> list[Node | None]:
    """Return the nodes from the tail up to the head of what a compaction keeps; both alone when they are not linked."""
    found: dict[int, Node] = {}
    at = tail
    while at is not None and at is not head and id(at) not in found:
        found[id(at)] = at
        at = named.get(at.parent) if at.parent is not None else None
    return [head, *found.values()] if at is head else [head, tail]


def _parents_first(nodes: list[Node]) -> Iterator[Node]:
    """Yield the nodes in file order, but none before its parent; those of a cycle come last."""
    waiting: dict[int, list[Node]] = {}
    for node in nodes:
        above = node.behind
        if above is not None and not above.marks & PLACED:
            waiting.setdefault(id(above), []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            current.marks |= PLACED
            yield current
            if waiting:
                ready += reversed(waiting.pop(id(current), []))
    for node in nodes if waiting else ():
        if not node.marks & PLACED:
            node.marks |= PLACED
            yield node


def _leaf(nodes: list[Node], named: dict[str, Node], last_prompt: tuple[int, str] | None) -> str | None:
    """Return the newest record's entry, or where the last prompt says that the conversation stood after it."""
    last: Node | None = None
    for node in nodes:
        if not node.is_meta and (last is None or node.line > last.line):
            last = node
    if last is None:
        if not nodes:
            return None
        last = max(nodes, key=lambda node: node.line)
    if last_prompt is not None and last_prompt[0] > last.line:
        last = named.get(last_prompt[1], last)
    owner = last.behind or last
    return (owner.end or last).entry.id


def _keep(builder: SessionBuilder, node: Node, told: Compacting, named: dict[str, Node]) -> None:
    """Say what a compaction kept: the first kept entry, and an omission for each later one that was not kept."""
    assert told.fields is not None
    path: list[StoredEntry] = []
    seen: set[str] = set()
    above = builder.entry(node.entry.parent_id)
    while above is not None and above.id not in seen:
        seen.add(above.id)
        path.append(above)
        if above.type == "compaction":
            break
        above = builder.entry(above.parent_id)
    path.reverse()
    places = {entry.id: place for place, entry in enumerate(path)}
    marked = [named[uuid].entry for uuid in told.kept if uuid is not None and uuid in named]
    found = sorted(places[entry.id] for entry in marked if entry.id in places)
    if not found:
        return
    kept = set(range(found[0], found[-1] + 1)) if told.is_segment else set(found)
    told.fields["firstKeptEntryId"] = path[found[0]].id
    builder.replace(node.entry, told.fields)
    last = node.entry.id
    edits: list[tuple[str, str]] = []
    for place in range(found[0], len(path)):
        entry = path[place]
        if place not in kept and entry.role in EDITABLE_ROLES and not _answers(entry, path, kept):
            edits.append((computed_id("omitted", node.entry.id, entry.id), entry.id))
    if not edits:
        return
    children = [entry for entry in builder.entries if entry.parent_id == last]
    for edit_id, target in edits:
        fields: JsonObject = {"targetId": target, "replacement": None}
        where = {"id": edit_id, "parent": last, "time_ms": node.entry.time_ms, "line": node.line}
        last = builder.add("context_edit", fields, **where).id  # type: ignore[arg-type]
    for child in children:
        child.parent_id = last


def _answers(entry: StoredEntry, path: list[StoredEntry], kept: set[int]) -> bool:
    """Whether an entry is the result of a call in a kept answer, whose own record was not named."""
    if entry.role != "toolResult" or entry.message is None:
        return False
    call = entry.message.get("toolCallId")
    for place in kept:
        message = path[place].message
        content = message.get("content") if message is not None and message.get("role") == "assistant" else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        if any(block.get("type") == "toolCall" and block.get("id") == call for block in blocks):
            return True
    return False
