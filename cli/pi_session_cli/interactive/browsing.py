"""What a person browsing a tree sees and does, without a terminal: rows, filter, search, folds, commands behind.

Everything that changes the session is a command of this program, run as if it had been typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pi_session_cli.catalog import find, module_of
from pi_session_cli.parse import parse
from pi_session_cli.render.entry import OneEntry
from pi_session_cli.render.entry import lines as entry_lines
from pi_session_cli.render.tree import IdColumn, Picture, branches_by_row, id_column, row_line
from pi_sessions.context import entry_messages
from pi_sessions.errors import PiSessionError
from pi_sessions.navigate import gives_text_back
from pi_sessions.tokens import estimate_tokens
from pi_sessions.tree import FILTERS, build_tree, tree_rows

if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render.screen import Screen
    from pi_sessions.stored import StoredEntry

COPY_LIMIT = 100_000


class Browsing:
    """A tree being browsed.

    Args:
        ctx: For the store and the commands.
        session_id: Whose tree.
        filter: One of `tree.FILTERS`.

    Attributes:
        filter, search: What is shown.
        status: What happened last, for the person.
        said: What the commands said, in order.
        text: The text the last rewind or fork gave back.
        times: Whether labels show when they were set.
    """

    def __init__(self, ctx: Invocation, session_id: str, *, filter: str = "default") -> None:
        self.ctx = ctx
        self.session_id = session_id
        self.filter = filter
        self.search = ""
        self.status = ""
        self.said: list[str] = []
        self.text: str | None = None
        self.times = False
        self._closed: set[str] = set()
        self._marked: str | None = None
        self.load()

    # --- what is there --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the session again; the mark stays where it was."""
        with self.ctx.read_store() as store:
            self.session = store.session(self.session_id)
            self.tree = build_tree(store.entries(self.session_id))
            self.labels = store.labels(self.session_id)
            self.branches = tuple(store.branches(self.session_id))
            self.tips = tuple(store.tips(self.session_id))
        self._lay_out()

    def _lay_out(self) -> None:
        labels = {entry_id: label.text for entry_id, label in self.labels.items()}
        if self.times:
            told = {each.entry_id: self.ctx.screen.when(each.time_ms) for each in self.labels.values()}
            labels = {entry_id: f"{text} {told[entry_id]}" for entry_id, text in labels.items()}
        view = tree_rows(
            self.tree,
            self.session.leaf,
            labels,
            filter=self.filter,
            search=self.search,
            closed=self._closed,
            fold_tools=self.filter == "default" and not self.search,
        )
        hidden = len(self.tree.entries) - sum(max(len(row.folded), 1) for row in view.rows)
        self.picture = Picture(self.session, self.tree, view, self.branches, self.labels, self.tips, hidden)
        self._names = branches_by_row(self.picture)
        # By the width of the screen.
        self._ids: dict[int | None, IdColumn] = {}
        places = {row.id: place for place, row in enumerate(view.rows)}
        for place, row in enumerate(view.rows):
            for entry in row.folded:
                places.setdefault(entry.id, place)
        self.place = places.get(self._marked or "", view.selected or 0)

    def marked(self) -> StoredEntry | None:
        """Return the entry under the mark, None when nothing is shown."""
        rows = self.picture.view.rows
        return rows[self.place].entry if rows else None

    def window(self, height: int, screen: Screen) -> list[tuple[bool, str]]:
        """Return the rows around the mark: whether a row is marked, and its line.

        Args:
            height: How many rows there is room for.
            screen: As wide as the rows may be.
        """
        rows = self.picture.view.rows
        first = max(0, min(self.place - height // 2, len(rows) - height))
        if screen.columns not in self._ids:
            self._ids[screen.columns] = id_column(self.picture, screen)
        ids = self._ids[screen.columns]
        return [
            (place == self.place, row_line(self.picture, place, self._names.get(place, []), ids, screen))
            for place in range(first, min(first + height, len(rows)))
        ]

    def preview(self, screen: Screen) -> list[str]:
        """Return everything about the marked entry, line by line."""
        entry = self.marked()
        if entry is None:
            return ["Nothing fits"]
        messages = entry_messages(entry)
        label = self.labels.get(entry.id)
        shown = OneEntry(
            self.session,
            entry,
            tuple(self.tree.children.get(entry.id, ())),
            self.picture.view.rows[self.place].active,
            label.text if label else None,
            tuple(branch.name for branch in self.branches if branch.leaf == entry.id),
            sum(map(estimate_tokens, messages)) if messages else None,
        )
        return list(entry_lines(shown, screen))

    # --- looking around -------------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Move the mark by rows."""
        self.place = max(0, min(self.place + by, len(self.picture.view.rows) - 1))
        entry = self.marked()
        self._marked = entry.id if entry else None

    def show(self, filter: str) -> None:
        """Choose what is shown."""
        self.filter = filter
        self._lay_out()

    def next_filter(self) -> None:
        """Choose the next filter."""
        self.show(FILTERS[(FILTERS.index(self.filter) + 1) % len(FILTERS)])

    def look_for(self, words: str) -> None:
        """Show only rows that contain all words."""
        self.search = words
        self._lay_out()

    def fold(self, *, open: bool) -> None:
        """Fold what hangs under the marked entry, or unfold it."""
        entry = self.marked()
        if entry is not None:
            (self._closed.discard if open else self._closed.add)(entry.id)
            self._marked = entry.id
            self._lay_out()

    def toggle_times(self) -> None:
        """Show or hide when labels were set."""
        self.times = not self.times
        self._lay_out()

    # --- commands -------------------------------------------------------------------------------------------------

    def rewind(self) -> None:
        """Move the leaf to the marked entry, as `rewind ENTRY` does."""
        entry = self.marked()
        if entry is None:
            return
        if entry.id == self.session.leaf:
            self.status = "The leaf is there already"
            return
        self._do("rewind", [entry.id, "--session", self.session_id])

    def fork(self) -> None:
        """Fork at the marked entry, or before it if it is a user message, and browse the fork."""
        entry = self.marked()
        if entry is None:
            return
        place = "--before" if gives_text_back(entry) else "--at"
        answer = self._do("fork", [self.session_id, place, entry.id])
        if answer is not None:
            self.session_id = str(answer["id"])
            self.load()

    def label(self, text: str) -> None:
        """Label the marked entry; an empty text takes its label off."""
        entry = self.marked()
        if entry is not None and (text.strip() or entry.id in self.labels):
            words = [entry.id, text.strip()] if text.strip() else [entry.id, "--clear"]
            self._do("label", [*words, "--session", self.session_id])

    def branch(self, name: str) -> None:
        """Make a branch at the marked entry."""
        entry = self.marked()
        if entry is not None and name.strip():
            self._do("branch", [name.strip(), "--at", entry.id, "--session", self.session_id])

    def undo(self) -> None:
        """Take back the latest operation of the session."""
        self._do("undo", [self.session_id])

    def redo(self) -> None:
        """Take back the latest undo."""
        self._do("redo", [self.session_id])

    def copied(self) -> str:
        """Return the text of the marked entry for the clipboard."""
        entry = self.marked()
        if entry is None:
            return ""
        from pi_session_cli.render.words import gist
        from pi_sessions.texts import content_text

        content = entry.fields if entry.type != "message" else entry.message or {}
        self.status = f"Copied {entry.id}"
        return (content_text(content.get("content")) or gist(entry))[:COPY_LIMIT]

    def _do(self, name: str, words: list[str]) -> dict[str, object] | None:
        """Run a command as if it had been typed; what it says, or why it cannot, becomes the status.

        Returns:
            What the command would print as JSON, None when it failed.
        """
        parsed = parse([name, *words], find, ())
        if parsed is None:
            self.status = f"{name} cannot take that"
            return None
        common = ("json", "db", "durable")
        values = {key: value for key, value in parsed.values.items() if key not in common}
        try:
            answer = module_of(name).run(self.ctx, **values)
        except PiSessionError as error:
            self.status = f"Error: {error.message}" + (f" ({error.hint})" if error.hint else "")
            return None
        lines = list(answer.said) or [line for line in answer.data.lines if line]
        self.said += lines
        self.status = lines[0] if lines else f"{name}: done"
        self.text = answer.data.text if answer.data.text is not None else self.text
        self.load()
        told: dict[str, object] = answer.data.json
        return told
