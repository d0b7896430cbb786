"""Changes of pointers and facts, written and remembered together.

Everything a person can move or rename goes through a `Journal`: it reads what was there, writes the new value and keeps
both, so that the operation log can take exactly this back. Entries are never changed here.
"""

from __future__ import annotations

import json

from pi_sessions.forest import segment_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    RawChange = tuple[str, int | str, str | int, Any, Any]

BEFORE_FIRST = 0
FACTS = ("name", "archived", "pinned", "deleted", "branch", "cwd")


def leaf_value(key: int | None) -> int:
    """Return how a change records a branch's leaf: its key, or `BEFORE_FIRST`; None stands for "no such branch"."""
    return BEFORE_FIRST if key is None else key


class Journal:
    """Collects the changes of one operation.

    Args:
        connection: In a write transaction.

    Attributes:
        changes: (kind, session or place, name, before, after) in the order they were made.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.changes: list[RawChange] = []

    def set_branch(self, sid: int, name: str, leaf: int | None) -> None:
        """Point a branch at a leaf (None: before the first entry), making the branch when there is none."""
        self.change("branch", sid, name, leaf_value(leaf))

    def move_branch(self, sid: int, name: str, before: int | None, leaf: int | None) -> None:
        """Point an existing branch, whose leaf the caller has just read, at another."""
        if before != leaf:
            self._apply("branch", sid, name, leaf_value(before), leaf_value(leaf))
            self.changes.append(("branch", sid, name, leaf_value(before), leaf_value(leaf)))

    def begin_session(self, sid: int, time_ms: int) -> None:
        """Remember that a session, whose row is there already, was begun: undone, it counts as removed then."""
        self.changes.append(("fact", sid, "deleted", time_ms, None))

    def drop_branch(self, sid: int, name: str) -> None:
        """Remove a branch; its entries stay, its leaf becomes a tip."""
        self.change("branch", sid, name, None)

    def rename_branch(self, sid: int, old: str, new: str) -> None:
        """Rename a branch and keep it current if it is; undone, the leaf it has by then keeps the old name."""
        self.connection.execute("update branches set name = ? where sid = ? and name = ?", (new, sid, old))
        self.connection.execute("update sessions set branch = ? where sid = ? and branch = ?", (new, sid, old))
        self.changes.append(("rename", sid, "", old, new))

    def set_fact(self, sid: int, name: str, value: str | int | None) -> None:
        """Set one of the session's facts: name, archived, pinned, deleted, branch, cwd."""
        self.change("fact", sid, name, value)

    def set_label(self, sid: int, target: int, label: tuple[str, int | None] | None) -> None:
        """Set (text, time in ms) or clear the label of an entry."""
        self.change("label", sid, target, list(label) if label else None)

    def set_place(self, place: str, sid: int | None) -> None:
        """Make a session the current one of a directory."""
        self.change("place", place, "", sid)

    def change(self, kind: str, where: int | str, name: str | int, after: Any) -> None:
        """Write one value and remember what was there; an equal value changes nothing."""
        before = self.current(kind, where, name)
        if before == after:
            return
        self._apply(kind, where, name, before, after)
        self.changes.append((kind, where, name, before, after))

    def current(self, kind: str, where: int | str, name: str | int) -> Any:
        """Return the value that stands now, in the form changes record."""
        execute = self.connection.execute
        if kind == "branch":
            row = execute("select leaf from branches where sid = ? and name = ?", (where, name)).fetchone()
            return leaf_value(row[0]) if row else None
        if kind == "label":
            row = execute("select text, ts from labels where sid = ? and target = ?", (where, name)).fetchone()
            return list(row) if row else None
        if kind == "place":
            row = execute("select sid from places where place = ?", (where,)).fetchone()
            return row[0] if row else None
        return execute(f"select {_fact(name)} from sessions where sid = ?", (where,)).fetchone()[0]

    def _apply(self, kind: str, where: int | str, name: str | int, before: Any, after: Any) -> None:
        execute = self.connection.execute
        if kind == "branch":
            if before:
                self._remember_tip(where, before)
            if after is None:
                execute("delete from branches where sid = ? and name = ?", (where, name))
            else:
                execute(
                    "insert into branches(sid, name, leaf) values(?, ?, ?)"
                    " on conflict(sid, name) do update set leaf = excluded.leaf",
                    (where, name, after or None),
                )
        elif kind == "label":
            if after is None:
                execute("delete from labels where sid = ? and target = ?", (where, name))
            else:
                execute(
                    "insert or replace into labels(sid, target, text, ts) values(?, ?, ?, ?)", (where, name, *after)
                )
        elif kind == "place":
            if after is None:
                execute("delete from places where place = ?", (where,))
            else:
                execute("insert or replace into places(place, sid) values(?, ?)", (where, after))
        else:
            execute(f"update sessions set {_fact(name)} = ? where sid = ?", (after, where))

    def _remember_tip(self, sid: int | str, leaf: int) -> None:
        """Keep a leaf that lies in another session's segment in sight; own segments are always seen."""
        self.connection.execute(
            "insert or ignore into tips(sid, key) select ?1, ?2 where not exists"
            " (select 1 from segments where segment = ?3 and sid = ?1)",
            (sid, leaf, segment_of(leaf)),
        )

    def record(self, sid: int, time_ms: int, command: str, summary: str, *, undoes: int | None = None) -> int:
        """Write the operation with the changes made so far and return its number."""
        cursor = self.connection.execute(
            "insert into operations(sid, at, command, summary, changes, undoes) values(?, ?, ?, ?, ?, ?)",
            (sid, time_ms, command, summary, json.dumps(self.changes, separators=(",", ":")), undoes),
        )
        op: int = cursor.lastrowid  # type: ignore[assignment]
        return op


def _fact(name: str | int) -> str:
    if name not in FACTS:
        raise ValueError(f"not a fact of a session: {name!r}")
    return str(name)
