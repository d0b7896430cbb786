"""The page: sections (maximal unbranched chains, each after the one it hangs under), their entries, the picture's rows.

Because every section stands after its parent and before the parent's next child, any path from a root to a leaf is a
subsequence of the page: the script switches branches by hiding sections, and moves nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pi_sessions.context import path_to_root
from pi_sessions.formats.exports import TOOLS_FULL, title_of
from pi_sessions.formats.html.content import Calls, blocks_for, note_text
from pi_sessions.formats.html.markup import visible
from pi_sessions.stored import dump
from pi_sessions.texts import content_text, one_line
from pi_sessions.times import format_time
from pi_sessions.totals import session_totals
from pi_sessions.tree import build_tree, tree_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import StoredEntry
    from pi_sessions.tree import Tree, TreeView

    Values = dict[str, Any]

GIST_LENGTH = 110
CHUNKS_AT_ONCE = 200
VIEWS = (
    ("default", "Conversation"),
    ("user-only", "User messages"),
    ("labeled-only", "Labelled"),
    ("all", "Everything"),
)
ROLES = {
    "user": ("user", "User"),
    "assistant": ("assistant", "Assistant"),
    "toolResult": ("tool", "Result"),
    "bashExecution": ("shell", "Shell"),
    "system": ("system", "System"),
    "custom": ("custom", "Note"),
    "compactionSummary": ("summary", "Compaction"),
    "branchSummary": ("summary", "Branch summary"),
}
TYPES = {
    "compaction": ("summary", "Compaction"),
    "branch_summary": ("summary", "Branch summary"),
    "custom_message": ("custom", "Note"),
    "model_change": ("note", "Model"),
    "thinking_level_change": ("note", "Thinking level"),
    "context_edit": ("note", "Context edit"),
    "label": ("quiet", "Label"),
    "session_info": ("quiet", "Name"),
    "usage": ("quiet", "Usage"),
    "custom": ("quiet", "Data"),
}
# Runs before anything is drawn, so that hidden branches are never laid out.
EARLY = 'document.documentElement.className="live"'
_BETWEEN = re.compile(r">\n+(?=[<{])")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Section:
    """A maximal unbranched chain of the tree.

    Attributes:
        ids: Its entries' ids, top first.
        parent: Index of the section it hangs under, -1 for none.
        children: Indexes of the sections that hang under it, in display order.
    """

    def __init__(self, parent: int) -> None:
        self.ids: list[str] = []
        self.parent = parent
        self.children: list[int] = []


def export_lines(export: Export) -> Iterator[str]:
    """Yield the page in pieces."""
    template = _environment().get_template("page.html.j2")
    stream = template.stream(page_of(export))
    stream.enable_buffering(CHUNKS_AT_ONCE)
    yield from stream


def page_of(export: Export) -> Values:
    """Return what the template lays out."""
    tree = build_tree(export.entries)
    # Before the first entry there is no path; the newest entry's is shown then.
    end = export.leaf if export.leaf in tree.entries else next(reversed(tree.entries), None)
    active = {entry.id for entry in path_to_root(tree.entries, end)}
    sections = sections_of(tree, active)
    script, style = _file("page.js"), _file("page.css")
    session = export.session
    branches = [branch for branch in export.branches if branch.leaf in tree.entries]
    names: dict[str, list[str]] = {}
    for branch in branches:
        names.setdefault(str(branch.leaf), []).append(branch.name)
    title = one_line(title_of(session), 200)
    totals = session_totals(tree.entries.values())
    facts = [
        ("session", session.id),
        ("folder", session.cwd),
        ("created", _day(session.created_ms)),
        ("last", _day(session.updated_ms)),
        ("model", session.model),
        (
            "holds",
            f"{len(tree.entries):,} entries, {totals.total_messages:,} messages, {totals.tool_calls:,} tool calls",
        ),
        ("tokens", f"{totals.tokens:,.0f}" if totals.tokens else None),
        ("cost", f"${totals.cost:,.4f}" if totals.cost else None),
        ("fork of", session.origin),
    ]
    return {
        "title": title,
        "made_by": export.made_by,
        "facts": [(name, value) for name, value in facts if value],
        "branches": [(branch.name, _dom_id(str(branch.leaf)), branch.current) for branch in branches],
        "sections": _laid_out(export, tree, sections, active, names),
        "roots": _choices(tree, sections, [place for place, each in enumerate(sections) if each.parent < 0]),
        "views": [(name, title) for name, title in VIEWS if name != "labeled-only" or export.labels],
        "data": Markup(_data(export, tree, sections, names)),
        "early": Markup(EARLY),
        "script": Markup(script),
        "style": Markup(style),
        "policy": policy(script, style),
        "open": export.tools == TOOLS_FULL,
    }


def policy(script: str, style: str) -> str:
    """Return the page's content security policy: this script, this style, pictures inside the page, nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'sha256-{_digest(EARLY)}' 'sha256-{_digest(script)}'",
            f"style-src 'sha256-{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def sections_of(tree: Tree, active: set[str]) -> list[Section]:
    """Return the sections in display order: the active branch first among its siblings, each after its parent.

    Args:
        tree: The whole tree.
        active: Ids of the path to the leaf.
    """
    sections: list[Section] = []
    stack = [(root, -1) for root in reversed(_active_first(tree.roots, active))]
    while stack:
        entry_id, parent = stack.pop()
        place = len(sections)
        section = Section(parent)
        sections.append(section)
        if parent >= 0:
            sections[parent].children.append(place)
        while True:
            section.ids.append(entry_id)
            below = tree.children.get(entry_id, [])
            if len(below) != 1:
                break
            entry_id = below[0]
        stack.extend((child, place) for child in reversed(_active_first(below, active)))
    return sections


def kind_of(entry: StoredEntry) -> tuple[str, str]:
    """Return an entry's kind (how it is laid out) and who speaks."""
    if entry.type == "message":
        role = entry.role or ""
        return ROLES.get(role, ("custom", role or "Message"))
    return TYPES.get(entry.type, ("quiet", entry.type.replace("_", " ").capitalize() or "Entry"))


def gist(entry: StoredEntry) -> str:
    """Return the first words of an entry."""
    message = entry.message
    if message is None:
        fields = entry.fields
        text = fields.get("summary") if entry.type in ("compaction", "branch_summary") else None
        if entry.type == "custom_message":
            text = content_text(fields.get("content"))
        return one_line(_bare(text) if isinstance(text, str) else note_text(entry.type, fields), GIST_LENGTH)
    content = message.get("content")
    if message.get("role") == "bashExecution":
        content = f"$ {message.get('command')}"
    text = _bare(content_text(content))
    if message.get("role") == "assistant" and not text:
        called = _called([entry])
        text = f"calls {', '.join(called)}" if called else str(message.get("errorMessage") or "")
    if message.get("role") == "toolResult":
        text = f"{message.get('toolName')}: {text}"
    return one_line(text, GIST_LENGTH)


def _bare(text: str) -> str:
    """Return text without the Markdown signs it begins with."""
    return text.lstrip("#>* \n").rstrip()


def _laid_out(
    export: Export, tree: Tree, sections: list[Section], active: set[str], names: dict[str, list[str]]
) -> Iterator[Values]:
    labels = export.label_texts()
    calls: list[Calls] = []
    for place, section in enumerate(sections):
        calls.append(Calls(calls[section.parent] if section.parent >= 0 else None))
        laid_out = functools.partial(_entry, export=export, calls=calls[place], labels=labels, names=names)
        entries = [tree.entries[entry_id] for entry_id in section.ids]
        yield {
            "place": place,
            "parent": section.parent,
            "active": section.ids[0] in active,
            "begins": gist(entries[0]) if section.parent >= 0 else "",
            "entries": map(laid_out, entries),
            "choices": _choices(tree, sections, section.children),
        }


def _entry(
    entry: StoredEntry, export: Export, calls: Calls, labels: dict[str, str], names: dict[str, list[str]]
) -> Values:
    kind, who = kind_of(entry)
    message = entry.message or {}
    model = message.get("model") if kind == "assistant" else None
    return {
        "id": entry.id,
        "anchor": _dom_id(entry.id),
        "kind": kind,
        "who": who,
        "time": _iso(entry.time_ms),
        "when": _minute(entry.time_ms),
        "model": model if isinstance(model, str) else None,
        "label": labels.get(entry.id),
        "branches": names.get(entry.id, ()),
        "leaf": entry.id == export.leaf,
        "blocks": blocks_for(entry, calls, tools=export.tools, thinking=export.thinking),
    }


def _choices(tree: Tree, sections: list[Section], places: list[int]) -> list[Values]:
    """Return the ways on from a fork, for its switch; none where there is only one."""
    if len(places) < 2:
        return []
    return [
        {
            "place": place,
            "anchor": _dom_id(sections[place].ids[0]),
            "who": kind_of(tree.entries[sections[place].ids[0]])[1],
            "text": next((found for found in map(gist, _first_entries(tree, sections[place])) if found), ""),
        }
        for place in places
    ]


def _first_entries(tree: Tree, section: Section) -> Iterator[StoredEntry]:
    """Yield the entries that can name a branch: what people and models said first, then anything."""
    entries = [tree.entries[entry_id] for entry_id in section.ids[:8]]
    yield from (entry for entry in entries if kind_of(entry)[0] in ("user", "assistant", "summary"))
    yield from entries


def _data(export: Export, tree: Tree, sections: list[Section], names: dict[str, list[str]]) -> str:
    """Return what the script needs for the picture, as JSON that cannot end its element.

    `entries`: per entry in the page's order: kind, who, first words, label, branches, leaf or tip mark.
    `views`: per view, rows of: entry's index, level, parent's row, 1 connector + 2 last, entries folded into it.
    """
    labels = export.label_texts()
    order = [entry_id for section in sections for entry_id in section.ids]
    place_of = {entry_id: place for place, entry_id in enumerate(order)}
    tips = set(export.tips)
    entries = []
    for entry_id in order:
        entry = tree.entries[entry_id]
        kind, who = kind_of(entry)
        row: list[object] = [kind, visible(who), visible(gist(entry)), visible(labels.get(entry_id, ""))]
        row += [[visible(name) for name in names.get(entry_id, ())], _mark(entry_id, export.leaf, tips)]
        entries.append(row)
    views = {
        name: _rows(tree_rows(tree, export.leaf, labels, filter=name, fold_tools=name == "default"), place_of)
        for name, _ in VIEWS
        if name != "labeled-only" or labels
    }
    return dump({"entries": entries, "views": views}).replace("<", "\\u003c").replace("\u2028", " ")


def _rows(view: TreeView, place_of: dict[str, int]) -> list[list[object]]:
    rows: list[list[object]] = []
    for row in view.rows:
        parent = -1 if row.parent is None else row.parent
        folded = [visible(", ".join(_called(row.folded))), len(row.folded)] if row.folded else []
        rows.append([place_of[row.id], row.level, parent, int(row.connector) + 2 * int(row.last), *folded])
    return rows


def _called(entries: Iterable[StoredEntry]) -> list[str]:
    """Return the names of the tools called or answering, each once."""
    names: dict[str, None] = {}
    for entry in entries:
        message = entry.message or {}
        content = message.get("content")
        if message.get("role") == "toolResult":
            names[str(message.get("toolName") or "tool")] = None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "toolCall":
                names[str(block.get("name") or "tool")] = None
    return list(names)


def _mark(entry_id: str, leaf: str | None, tips: set[str]) -> str:
    return "leaf" if entry_id == leaf else "tip" if entry_id in tips else ""


def _active_first(ids: Iterable[str], active: set[str]) -> list[str]:
    given = list(ids)
    return [each for each in given if each in active] + [each for each in given if each not in active]


def _dom_id(entry_id: str) -> str:
    """Return an entry's anchor: its id, with anything that is no letter, digit, `_` or `-` as `.HEX.`."""
    return "e-" + _UNSAFE.sub(lambda found: f".{ord(found[0]):x}.", entry_id)


def _iso(time_ms: int | None) -> str:
    try:
        return "" if time_ms is None else format_time(time_ms)
    except OverflowError:
        return ""


def _minute(time_ms: int | None) -> str:
    return _iso(time_ms)[:16].replace("T", " ")


def _day(time_ms: int | None) -> str:
    text = _minute(time_ms)
    return f"{text} UTC" if text else ""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


@functools.cache
def _environment() -> Environment:
    return Environment(
        # White space between the template's elements would make a text node each.
        loader=FunctionLoader(lambda name: _BETWEEN.sub(">", _file(name))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
