"""A writer of its own: appends to one branch, and goes on on a new branch when somebody else got there first."""

from __future__ import annotations

from pi_sessions.errors import LeafMovedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.branching import Branching
    from pi_sessions.stored import JsonObject, StoredEntry


class Writer:
    """Appends under the leaf it knows; a lost race makes a branch instead of an interleaved conversation.

    Args:
        store: An open store.
        session_id: Full id.
        branch: Branch to write to; the current one by default.

    Attributes:
        branch: Branch this writer appends to; changes once when it loses the race.
        leaf: Entry id of the last entry it knows of; None before the first.
        diverged: Whether it went on on a branch of its own. The session's current branch stays where it was.
    """

    def __init__(self, store: Branching, session_id: str, branch: str | None = None) -> None:
        self._store = store
        self.session_id = session_id
        self.branch = branch if branch is not None else store.session(session_id).branch
        self.leaf = store.leaf(session_id, self.branch)
        self.diverged = False

    def append(self, entry: JsonObject | StoredEntry) -> StoredEntry:
        """Append one entry under the leaf this writer knows; as `SessionStore.append`, but never LeafMovedError."""
        try:
            stored = self._store.append(self.session_id, entry, branch=self.branch, expect=self.leaf)
        except LeafMovedError:
            stored = self._diverge(entry)
        self.leaf = stored.id
        return stored

    def append_message(self, message: JsonObject) -> StoredEntry:
        """Append a `message` entry; as `append`."""
        return self.append({"type": "message", "message": message})

    def _diverge(self, entry: JsonObject | StoredEntry) -> StoredEntry:
        with self._store.transaction():
            branch = self._store.create_own_branch(self.session_id, self.branch, self.leaf)
            stored = self._store.append(self.session_id, entry, branch=branch)
        self.branch, self.diverged = branch, True
        return stored
