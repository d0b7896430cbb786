"""What the store answers: frozen values with ids, never keys of the database."""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.stored import JsonObject


class Session(Record):
    """One tree of entries with one current leaf.

    Attributes:
        id: Unique in the store, compared without regard to case.
        cwd: Directory the conversation is about; an attribute, never a key.
        name: Given name, None when it has none.
        created_ms: Unix milliseconds.
        updated_ms: Time of the newest user or assistant message, never later than the moment it was stored.
        message_count: `message` entries in the whole tree.
        first_message: First user text on one line, at most 200 characters; None when there is none.
        leaf: Entry id of the current branch's leaf; None before the first entry.
        branch: Name of the current branch.
        origin: Session this one was forked from: its id, or what an imported file called it; None for none.
        origin_entry: Last entry shared with the origin when it was forked here; None when unknown or none.
        model: `provider/model` in force at the leaf, None when none was used.
        header: The imported file's header as it came, empty for sessions begun here.
        parent_session: For a subagent's conversation, the session whose tool call began it; None for all others.
        parent_call: That tool call's id, None when it is not known.
    """

    id: str
    cwd: str
    name: str | None
    created_ms: int
    updated_ms: int
    message_count: int
    first_message: str | None
    leaf: str | None
    branch: str
    origin: str | None
    origin_entry: str | None
    archived: bool
    pinned: bool
    deleted: bool
    model: str | None
    header: JsonObject
    parent_session: str | None = None
    parent_call: str | None = None


class Branch(Record):
    """A named, movable pointer to a leaf; `leaf` is None before the first entry."""

    name: str
    leaf: str | None
    current: bool


class Label(Record):
    """A label on an entry; `time_ms` is when it was set, None when unknown."""

    entry_id: str
    text: str
    time_ms: int | None


class LeafMove(Record):
    """A recorded move of a session's leaf; `op` is the operation that takes it back with undo."""

    session_id: str
    branch: str
    old_leaf: str | None
    new_leaf: str | None
    op: int
    time_ms: int


class Change(Record):
    """One pointer or fact that an operation changed.

    Attributes:
        kind: `branch`, `rename` (of a branch), `fact`, `label` or `place`.
        session_id: Whose pointer it is; None for a place.
        name: Branch name, fact name, labelled entry's id, or the directory.
        before, after: Entry id, text, flag or session id; None where there was or is nothing.
    """

    kind: str
    session_id: str | None
    name: str
    before: Any
    after: Any


class Operation(Record):
    """One recorded command.

    Attributes:
        id: Rising number, what `--op` takes.
        undoes: Operation this one took back (or, for a redo, the undo it took back).
        undone_by: Operation that took this one back, None while it stands.
    """

    id: int
    session_id: str
    time_ms: int
    command: str
    summary: str
    changes: tuple[Change, ...]
    undoes: int | None
    undone_by: int | None


class KeptBranch(Record):
    """A branch made by undo so that what was appended since stays in sight."""

    name: str
    leaf: str
    entries: int


class UndoResult(Record):
    """What undo or redo did.

    Attributes:
        op: The new operation, which can itself be taken back.
        undone: The operation that was taken back.
        session: The session afterwards.
        kept: Branches made for entries appended since.
        skipped: Sentences about what was left as it is: facts that a later operation changed, entries written since.
        closed: Whether what was taken back is a run that was cut off, which was closed first.
    """

    op: int
    undone: Operation
    session: Session
    kept: tuple[KeptBranch, ...]
    skipped: tuple[str, ...]
    closed: bool = False


class ImportResult(Record):
    """What importing one session did.

    Attributes:
        created: A new session was made.
        added: Entries that are new in the store.
        shared: Entries that were there already.
        moved_main: An untouched branch was moved forward to the source's new leaf.
        new_branch: Branch made because the session had moved on in the store too.
        unchanged: The source held nothing new.
        removed_before: The person removed this session; it was left removed.
        grown: Answers that were there in part and are now whole.
        renamed_entries: (id in the source, id in the store) where an id was taken by other content, or where the entry
            is shared with a session that has it under another id.
        op: The recorded operation, None when nothing changed.
    """

    session: Session
    created: bool = False
    added: int = 0
    shared: int = 0
    moved_main: bool = False
    new_branch: str | None = None
    unchanged: bool = False
    removed_before: bool = False
    renamed_entries: tuple[tuple[str, str], ...] = ()
    op: int | None = None
    grown: int = 0


class Origin(Record):
    """Where an imported entry comes from.

    Attributes:
        format: Name of the format.
        source: The file or database.
        line: Line or row in it.
        foreign_id: What the source calls the entry.
        importer: Version of the reader.
        time_ms: When it was imported.
    """

    format: str
    source: str
    line: int
    foreign_id: str
    importer: str
    time_ms: int


class Problem(Record):
    """A broken invariant of the store, found by `verify`."""

    code: str
    message: str
    session_id: str | None
    entry_id: str | None
