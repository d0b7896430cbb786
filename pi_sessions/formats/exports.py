"""What an export is made of, whatever its form: a session, its chosen entries, its branches and labels.

The writers (`pi_export`, `json_export`, `markdown`, `html`, and the message lists of `pi_loop`) take an `Export` and
give lines; none of them reads a store. Secrets are replaced here, in the values, before any writer sees or cuts them: a
form of file cannot forget to do it. Pure.
"""

from __future__ import annotations

from pi_sessions.context import path_to_root
from pi_sessions.records import Record
from pi_sessions.results import Branch, Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session
    from pi_sessions.secrets import Redactor
    from pi_sessions.stored import StoredEntry

TOOLS_FULL, TOOLS_FOLDED, TOOLS_NONE = TOOLS = ("full", "folded", "none")


class Export(Record):
    """A session on its way out.

    Attributes:
        entries: The chosen entries in the order of appending: the whole tree, or the path.
        leaf: Where the path ends; None before the first entry.
        whole_tree: Whether `entries` is the whole tree.
        branches, labels, tips: Of the session; they may name entries that were not chosen.
        beside: How many entries of the session were not chosen.
        last: Only the last so many messages of the path, for forms meant for reading; None for all.
        tools: How such forms give tool calls and results: one of `TOOLS`.
        thinking: Whether such forms give thinking.
        made_by: The program, with its version.
    """

    session: Session
    entries: tuple[StoredEntry, ...]
    leaf: str | None
    whole_tree: bool = False
    branches: tuple[Branch, ...] = ()
    labels: tuple[Label, ...] = ()
    tips: tuple[str, ...] = ()
    beside: int = 0
    last: int | None = None
    tools: str = TOOLS_FOLDED
    thinking: bool = True
    made_by: str = "pi-session"

    def path(self) -> list[StoredEntry]:
        """Return the path from the root to the leaf."""
        return path_to_root({entry.id: entry for entry in self.entries}, self.leaf)

    def label_texts(self) -> dict[str, str]:
        """Return label texts by entry id."""
        return {label.entry_id: label.text for label in self.labels}


def read_export(store: Reading, session: Session, leaf: str | None, *, whole_tree: bool) -> Export:
    """Return what the store holds of a session, for the writers.

    Args:
        session: Whose.
        leaf: Where the path ends.
        whole_tree: Take every entry, not only the path.

    Raises:
        EntryNotFoundError: the leaf is no entry of the session.
    """
    entries = store.entries(session.id) if whole_tree else store.path(session.id, leaf)
    return Export(
        session,
        tuple(entries),
        leaf,
        whole_tree,
        tuple(store.branches(session.id)),
        tuple(store.labels(session.id).values()),
        tuple(store.tips(session.id)),
        0 if whole_tree else store.count_entries(session.id) - len(entries),
    )


def redacted(export: Export, redactor: Redactor) -> Export:
    """Return an export without secrets: names, folders, labels and everything entries say.

    Args:
        export: What is to go out.
        redactor: Takes in every text first, so that a secret recognised in one place is replaced in all; its report
            then says what was replaced where.
    """
    session = export.session
    facts = (session.name, session.cwd, session.first_message, session.origin)
    for text in (*facts, *(label.text for label in export.labels), *(branch.name for branch in export.branches)):
        redactor.learn(text or "")
    redactor.learn_value(session.header)
    for entry in export.entries:
        redactor.learn_entry(entry)

    def safe(text: str | None, where: str) -> str | None:
        return None if text is None else redactor.text(text, where)

    safe_export: Export = export.replace(
        session=session.replace(
            name=safe(session.name, "session name"),
            cwd=redactor.text(session.cwd, "folder"),
            first_message=safe(session.first_message, "first message"),
            origin=safe(session.origin, "origin"),
            model=safe(session.model, "model"),
            branch=redactor.text(session.branch, "branch"),
            header=redactor.value(session.header, "header"),
        ),
        entries=tuple(map(redactor.entry, export.entries)),
        labels=tuple(Label(each.entry_id, redactor.text(each.text, "label"), each.time_ms) for each in export.labels),
        branches=tuple(Branch(redactor.text(each.name, "branch"), each.leaf, each.current) for each in export.branches),
    )
    return safe_export


def chosen_path(export: Export) -> tuple[list[StoredEntry], int]:
    """Return the entries of the path that a form for reading gives, and how many messages before them it leaves out."""
    path = export.path()
    if export.last is None:
        return path, 0
    places = [place for place, entry in enumerate(path) if entry.type == "message" and entry.role != "toolResult"]
    if len(places) <= export.last:
        return path, 0
    start = places[-export.last]
    return path[start:], sum(entry.type == "message" for entry in path[:start])


def title_of(session: Session) -> str:
    """Return what a page or document about a session is called."""
    return session.name or session.first_message or session.id
