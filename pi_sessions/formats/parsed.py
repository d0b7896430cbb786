"""What reading a foreign session file gives: entries in order, what was repaired and what was lost.

Values only. Every line of the source is accounted for: `Tally` adds up to the number of lines, and each repair or loss
names its line and keeps the original bytes where the stored text differs from them.
"""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_sessions.stored import JsonObject, StoredEntry

_SAID = frozenset(("message", "compaction"))


class Repair(Record):
    """One thing that was mended, left out or lost while reading.

    Attributes:
        line: 1-based line of the source; None when it concerns the whole file.
        code: Stable name of the kind of repair, part of `--json` output.
        message: What was found and what was done, for people, without the line number.
        entry_id: The entry it concerns, if one exists.
        original: The bytes as they came, when the stored text differs or nothing is stored.
    """

    line: int | None
    code: str
    message: str
    entry_id: str | None = None
    original: bytes | None = None


class Tally(Record):
    """How the lines of a source were used; each line counts in exactly one place.

    Attributes:
        lines: Lines read; a last line without a line feed counts.
        header: Lines that gave the header.
        entries: Lines that gave at least one entry.
        facts: Lines with labels or names written by our own exporter, taken as facts.
        blank: Empty lines and lines of white space.
        skipped: Lines that hold no entry and lose nothing: repetitions, padding, other JSON values, second headers.
        lost: Lines of which nothing could be kept.
    """

    lines: int
    header: int
    entries: int
    facts: int
    blank: int
    skipped: int
    lost: int

    def adds_up(self) -> bool:
        """Whether every line is counted exactly once."""
        return self.lines == self.header + self.entries + self.facts + self.blank + self.skipped + self.lost


class ChildOf(Record):
    """What a subagent's conversation belongs to.

    Attributes:
        session_id: Id of the session whose tool call began it, as the source names it.
        agent_id: What the source calls the subagent; the tool call's result names it, too.
        call_id: Tool call that began it, None when only the session is known.
    """

    session_id: str
    agent_id: str | None = None
    call_id: str | None = None


class SessionState(Record):
    """What an export of our own says of a session beside its entries.

    Attributes:
        branches: (name, leaf) of each branch; None before the first entry.
        current: Name of the current branch, one of `branches`.
        origin_entry: Last entry shared with the session it was forked from.
        archived, pinned: As in `Session`.
    """

    branches: tuple[tuple[str, str | None], ...]
    current: str
    origin_entry: str | None = None
    archived: bool = False
    pinned: bool = False


class ParsedSession(Record):
    """A session read from a foreign file, links resolved, nothing stored yet.

    Attributes:
        format: Name of the source's format: `pi`, `claude-code`, ... (`registry`).
        source: Path as given.
        id: Session id of the header, or a deterministic one when the header has none.
        header: The header as it came, unknown fields included.
        version: Version of the source: 1, 2, 3 or higher (odd values are mapped and reported).
        cwd: Working directory, empty when unknown.
        created_ms: Time of the header (Unix milliseconds), else of the first entry, else None.
        parent_ref: What the header names as its origin (`parentSession`, or `branchedFrom` of version 1).
        entries: In file order; ids unique, every parent exists, no cycles.
        lines: The 1-based line (or row) of each entry; 0 for one made from the header.
        leaf: Entry on the last line of the file (Pi's rule), None without entries.
        labels: `{target id: (text, Unix milliseconds)}` in the order in which targets were first labelled.
        name: The session's name.
        name_time_ms: When it got that name.
        repairs: What was mended or left out without loss, in line order.
        losses: What could not be kept, in line order.
        lines_read: Number of lines.
        tally: What became of them.
        digest: SHA-256 of the source's bytes, in hexadecimal.
        size: Bytes read.
        mtime_ms: File time of the source.
        importer: Version of the reader; a new one reads sources again that did not change.
        foreign_ids: What the source calls each entry, None where that is its id; as far as the last that has another.
        kept: `(kind, how many)` records that have no place in our model and are kept as custom entries.
        unknown: Records of kinds the reader does not know, with their lines; kept as custom entries, too.
        title: A line that tells what the session is about, for sources without a user's message that could; not a name.
        child_of: For a subagent's conversation, what it belongs to; such sessions are not listed by default.
        copied: The source holds a copy of another session's beginning (`parent_ref`) whose ids or times differ: entries
            that say the same under the same parent are shared with that session.
        torn_off: Ids of root entries that followed something that the source does not hold, as in a copy that begins in
            the middle; they are shared where the entry stands in a session that holds it.
        own_ids: Ids of entries that our exporter wrote; what stands there may be a poorer form of the stored entry.
        form_of: Id of the session whose poorer form this is, as an export of our own that cannot hold everything; where
            that session is, the entries belong to it.
        state: Branches and facts, where the source is an export that holds all of a session.
    """

    format: str
    source: str
    id: str
    header: JsonObject
    version: int
    cwd: str
    created_ms: int | None
    parent_ref: str | None
    entries: tuple[StoredEntry, ...]
    lines: Sequence[int]
    leaf: str | None
    labels: dict[str, tuple[str, int | None]]
    name: str | None
    name_time_ms: int | None
    repairs: tuple[Repair, ...]
    losses: tuple[Repair, ...]
    lines_read: int
    tally: Tally
    digest: str
    size: int
    mtime_ms: int
    importer: str = "1"
    foreign_ids: Sequence[str | None] = ()
    kept: tuple[tuple[str, int], ...] = ()
    unknown: tuple[Repair, ...] = ()
    title: str | None = None
    child_of: ChildOf | None = None
    copied: bool = False
    torn_off: frozenset[str] = frozenset()
    own_ids: frozenset[str] = frozenset()
    form_of: str | None = None
    state: SessionState | None = None

    def has_begun(self) -> bool:
        """Whether anything was said; a tool may write its settings into a file before the first prompt."""
        return self.format == "pi" or self.state is not None or any(entry.type in _SAID for entry in self.entries)
