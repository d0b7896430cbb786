"""Puts the entries of one parsed source under a session: shares what agrees, writes the rest.

Entries are shared where id, content and parent agree. What copies leave out between two entries does not part them:
labels and, in copies made by other programs, the records they keep beside the conversation (custom entries). Where the
source is a copy of another session's beginning under other ids or times (a fork made by another program), entries are
shared where they say the same under the same parent. An answer of which only a part was there grows in its place, as
long as nothing else depends on it.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque

from pi_sessions.appending import EntryWriter
from pi_sessions.forest import LAST_POSITION, first_key, segment_of
from pi_sessions.origins import OriginRuns
from pi_sessions.stored import StoredEntry, dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from pi_sessions.base import StoreBase
    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_REFERENCES = {
    "compaction": "firstKeptEntryId",
    "context_edit": "targetId",
    "label": "targetId",
    "branch_summary": "fromId",
}
_KEPT = "firstKeptEntryId"
# What a copy made by another program may say differently.
_VOLATILE = ("timestamp", "usage", "claudeCode", "codex", "firstKeptEntryId", "targetId", "fromId")


# What an answer read in part may say otherwise than the whole one; a result's tool may be known only later.
_FINAL_AT_THE_END = (
    "content", "usage", "stopReason", "rawStopReason", "errorMessage", "toolName", "claudeCode", "codex",
)  # fmt: skip


class Merge:
    """One merge.

    Args:
        store: The store, in a write transaction.
        sid: Session that takes the entries in.
        parsed: The source.
        fresh: The session holds nothing yet.
        kin: Sessions of which the source may be a copy, or a copy's source.
        untouched: The session is as imports left it and nothing else depends on it, so that answers may grow.

    Attributes:
        added, shared, grown: Counts of entries.
        first_seen: Shared entries that the session did not see before.
        come: Where the added entries come from.
        renamed: Id in the source -> id in the store, where they differ.
    """

    def __init__(
        self,
        store: StoreBase,
        sid: int,
        parsed: ParsedSession,
        fresh: bool,
        *,
        kin: Iterable[int] = (),
        untouched: bool = False,
    ) -> None:
        self.store = store
        self.sid = sid
        self.parsed = parsed
        self.writer = EntryWriter(store, sid)
        self.keys: dict[str, int] = {}
        self.renamed: dict[str, str] = {}
        self.come = OriginRuns()
        self.added = 0
        self.shared = 0
        self.grown = 0
        self.first_seen = 0
        # In copies: the stored entries that entries of the source were found to be; each is one of them only.
        self._taken: set[int] = set()
        # Entries above shared ones that the source does not hold; counted when they came in sight.
        self._brought: set[int] = set()
        self._untouched = untouched
        self._kin = tuple(kin)
        # By segment: the last shared entry, and the first added one, behind which all were added.
        self._last_shared: dict[int, int] = {}
        self._first_added: dict[int, int] = {}
        tip = "select 1 from tips where sid = ? limit 1"
        self._sees_others = not fresh and store.connection.execute(tip, (sid,)).fetchone() is not None
        self._held = {} if fresh else store.forest.visible(sid)
        self._ids = {entry.id for entry in parsed.entries} if parsed.own_ids else set()
        # Kinds of entries that a copy of the source, or the source as a copy, may leave out.
        self._left_out = ("label", "custom") if parsed.copied else ("label",)
        # Such entries of the source, as far as what is below them may be shared: key -> the nearest other one above.
        self._above: dict[int, int | None] = {}
        if self.writer.first_user_key is None:
            # A title from an earlier import gives way to what somebody said.
            self.writer.first_user = None

    def key_of(self, entry_id: str | None) -> int | None:
        """Return where an entry of the source lies in the store."""
        return None if entry_id is None else self.keys.get(entry_id)

    def run(self) -> None:
        """Share or write every entry, parents before children, and bring the session's row up to date."""
        start = self.writer.written
        parsed = self.parsed
        foreign = parsed.foreign_ids
        named = len(foreign)
        for number, (place, entry) in enumerate(in_tree_order(parsed.entries, self.keys), 1):
            parent = self.key_of(entry.parent_id)
            key = self._find_shared(entry, parent)
            if key is None:
                key = self._grow(entry, parent)
            if key is not None:
                self.shared += 1
                segment = segment_of(key)
                self._last_shared[segment] = max(key, self._last_shared.get(segment, key))
                if self._kin:
                    self._taken.add(key)
                if not self._is_held(key) and key not in self._brought:
                    self.first_seen += 1
                    if entry.id in parsed.torn_off:
                        self._bring(key)
                    self.writer.note(_at(entry, key))
            else:
                self.added += 1
                key = self._add(entry, parent, start + number)
                self._first_added.setdefault(segment_of(key), key)
                self.come.add(key, parsed.lines[place], foreign[place] if place < named else None)
            self.keys[entry.id] = key
            if entry.type in self._left_out:
                self._pass_by(key, parent)
        self.writer.finish()
        self._see_shared()

    # --- sharing --------------------------------------------------------------------------------------------------

    def _own(self, entry_id: str) -> int | None:
        """Return where the session held an entry of an id before."""
        if not self._held:
            return None
        return next((key for key in self.store.forest.keys_of_id(entry_id) if self._is_held(key)), None)

    def _is_held(self, key: int) -> bool:
        return key <= self._held.get(segment_of(key), -1)

    def _is_shared(self, key: int) -> bool:
        """Whether an entry that the source has was there before."""
        return key < self._first_added.get(segment_of(key), key + 1)

    def _find_shared(self, entry: StoredEntry, parent: int | None) -> int | None:
        """Return the stored entry that agrees in id, content and parent; below a new entry there can be none."""
        above = parent if parent is None else self._above.get(parent, parent)
        if above is not None and not self._is_shared(above):
            return None
        candidates = self.store.forest.keys_of_id(entry.id)
        is_torn_off = entry.id in self.parsed.torn_off
        if is_torn_off:
            candidates.sort(key=self.store.forest.depth, reverse=True)
        own = next((key for key in candidates if self._is_held(key)), None)
        if own is not None:
            candidates.sort(key=lambda key: key != own)
        for key in candidates:
            at = self.store.forest.parent(key)
            agrees = is_torn_off or at in (parent, above) or self._real(at) == above
            if agrees and self._says_the_same(key, entry):
                return key
        if entry.id in self.parsed.own_ids:
            for key in candidates:
                known = self._is_in_sight(key) and self._hangs_under(key, above)
                stored = self.store.forest.entry(key) if known else None
                if stored is not None and is_form_of(entry, stored):
                    if stored.type in self._left_out:
                        self._pass_by(key, parent)
                    return key
        is_note = entry.type == "custom" and candidates and self._shares_a_tree()
        renamed = self._find_renamed(entry, parent) if own is not None or is_note else None
        if renamed is not None:
            return renamed
        return self._find_copied(entry, above) if self._kin else None

    def _is_in_sight(self, key: int) -> bool:
        """Whether this session sees an entry, or kin does of which the source may be a copy."""
        if self._is_held(key):
            return True
        segment = segment_of(key)
        return any(segment in self.store.forest.visible(sid) for sid in self._kin)

    def _hangs_under(self, key: int, above: int | None) -> bool:
        """Whether an entry is a child of another, those between them left out that the source does not have."""
        forest = self.store.forest
        at = self._real(forest.parent(key))
        while at is not None and at != above and forest.entry(at).id not in self._ids:
            at = self._real(forest.parent(at))
        return at == above

    def _says_the_same(self, key: int, entry: StoredEntry) -> bool:
        stored = self.store.forest.entry(key)
        return same_content(stored, entry) or self._keeps_the_same(stored, entry) or self._copies(stored, entry)

    def _copies(self, stored: StoredEntry, entry: StoredEntry) -> bool:
        """Whether an entry is the very one that another session wrote; a copy may lack its usage, say."""
        if not self.parsed.copied or stored.type != entry.type or stored.own_time_ms != entry.own_time_ms:
            return False
        written_here = self.store.forest.segment(segment_of(stored.key))[0] == self.sid
        return not written_here and stored.id == entry.id and said(stored) == said(entry)

    def _keeps_the_same(self, stored: StoredEntry, entry: StoredEntry) -> bool:
        """Whether two compactions differ only in naming a label entry, or the entry after it, as the first kept."""
        if stored.type != "compaction" or entry.type != "compaction" or stored.time_ms != entry.time_ms:
            return False
        own = [{name: value for name, value in each.fields.items() if name != _KEPT} for each in (stored, entry)]
        row = self.store.connection.execute("select keep from compactions where key = ?", (stored.key,)).fetchone()
        keep = row[0] if row else None
        key = self.keys.get(str(entry.fields.get(_KEPT)))
        while key is not None and keep is not None and key != keep and self._is_left_out(self.store.forest.parent(key)):
            key = self.store.forest.parent(key)
        return own[0] == own[1] and key is not None and key == keep

    def _is_left_out(self, key: int | None) -> bool:
        """Whether a stored entry is of a kind that copies leave out."""
        row = self.store.connection.execute("select kind from entries where key = ?", (key,)).fetchone()
        return row is not None and row[0] in self._left_out

    def _find_renamed(self, entry: StoredEntry, parent: int | None) -> int | None:
        """Return the entry an earlier import stored under another id, because its own was taken by other content."""
        said_here = self._with_renamed_reference(entry) if entry.type in _REFERENCES else entry
        for key in self._own_below(parent):
            stored = self.store.forest.entry(key)
            if stored.id != entry.id and same_content(stored, said_here):
                self.renamed[entry.id] = stored.id
                return key
        return None

    def _own_below(self, parent: int | None) -> list[int]:
        """Return what the session held below an entry, or its roots, in the order of appending."""
        found: list[tuple[int, int]] = []
        execute = self.store.connection.execute
        if parent is not None and parent & LAST_POSITION != LAST_POSITION and self._is_held(parent + 1):
            found += execute("select seq, key from entries where key = ?", (parent + 1,)).fetchall()
        if parent is None:
            begun = [segment for segment in self._held if self.store.forest.segment(segment)[1] is None]
        else:
            rows = execute("select segment from segments where parent = ?", (parent,)).fetchall()
            begun = [segment for (segment,) in rows if segment in self._held]
        for segment in begun:
            found += execute("select seq, key from entries where key = ?", (first_key(segment),)).fetchall()
        return [key for _seq, key in sorted(found)]

    def _bring(self, key: int) -> None:
        """Take in sight what stands above a shared entry whose source did not hold it, and count it."""
        forest = self.store.forest
        owner = forest.segment(segment_of(key))[0]
        if owner != self.sid and owner not in self._kin:
            self._kin += (owner,)
        for entry in forest.read(forest.ranges(forest.parent(key))):
            if not self._is_held(entry.key) and entry.key not in self._brought:
                self._brought.add(entry.key)
                self.writer.note(entry)

    def _pass_by(self, key: int, parent: int | None) -> None:
        """Note that what hangs below an entry hangs below its parent, too; of use only where that was there before."""
        above = parent if parent is None else self._above.get(parent, parent)
        if above is None or self._is_shared(above):
            self._above[key] = above

    def _real(self, key: int | None) -> int | None:
        """Return the entry itself, or its nearest ancestor that is of no kind that copies leave out."""
        while key is not None:
            if key in self._above:
                return self._above[key]
            if not self._is_left_out(key):
                break
            key = self.store.forest.parent(key)
        return key

    def _find_copied(self, entry: StoredEntry, above: int | None) -> int | None:
        """Return the kin's entry that says the same under the same parent, whatever its id; best one of its time."""
        told = said(entry)
        found: StoredEntry | None = None
        below = deque(self._below(above))
        while below:
            key = below.popleft()
            stored = self.store.forest.entry(key)
            if key not in self._taken and stored.type == entry.type and said(stored) == told:
                at_the_same_time = stored.own_time_ms == entry.own_time_ms
                if found is None or at_the_same_time:
                    found = stored
                if at_the_same_time:
                    break
            if stored.type in self._left_out:
                below.extend(self._below(key))
        if found is None:
            return None
        if found.id != entry.id:
            self.renamed[entry.id] = found.id
        return found.key

    def _below(self, parent: int | None) -> Iterator[int]:
        """Yield the entries below a shared one, or the roots of kin."""
        execute = self.store.connection.execute
        if parent is None:
            for sid in self._kin:
                rows = execute("select segment from segments where sid = ? and parent is null", (sid,)).fetchall()
                yield from (first_key(segment) for (segment,) in rows)
                for segment in self.store.forest.visible(sid):
                    owner, above, _depth = self.store.forest.segment(segment)
                    if above is None and owner != sid:
                        yield first_key(segment)
            return
        is_last = parent & LAST_POSITION == LAST_POSITION
        if not is_last and execute("select 1 from entries where key = ?", (parent + 1,)).fetchone():
            yield parent + 1
        rows = execute("select segment from segments where parent = ?", (parent,)).fetchall()
        yield from (first_key(segment) for (segment,) in rows)

    # --- growing --------------------------------------------------------------------------------------------------

    def _grow(self, entry: StoredEntry, parent: int | None) -> int | None:
        """Make a stored answer whole whose later form this is; None when it is none or others depend on it."""
        if entry.type != "message" or (parent is not None and not self._is_shared(parent)):
            return None
        key = self._own(entry.id)
        if key is None:
            return None
        stored = self.store.forest.entry(key)
        old, new = stored.message, entry.message
        if old is None or new is None or stored.time_ms != entry.time_ms or stored.extra != entry.extra:
            return None
        if self.store.forest.parent(key) != parent or not completes(old, new):
            return None
        more = old.get("content") != new.get("content")
        if not self._untouched:
            # What came later beside the same content (usage, say) stays out; the entry is the same one.
            return None if more else key
        if more:
            from pi_sessions.search_index import forget_from

            forget_from(self.store.connection, self.sid, key)
        self.writer.complete(key, entry)
        self.grown += 1
        return key

    # --- writing --------------------------------------------------------------------------------------------------

    def _add(self, entry: StoredEntry, parent: int | None, seq: int) -> int:
        draft = entry
        free = self._free_id(entry)
        if free is not None:
            # First of all, since an entry may name itself.
            self.renamed[entry.id] = free
        if self.renamed and entry.type in _REFERENCES:
            draft = self._with_renamed_reference(entry)
        if free is not None:
            draft = StoredEntry(free, draft.parent_id, draft.type, draft.time_ms, draft.payload, draft.extra)
        return self.writer.add(draft, parent, seq=seq, checked=True).key

    def _free_id(self, entry: StoredEntry) -> str | None:
        """Return another id for an entry whose own is taken in this session, None when it is free.

        The program that made a copy names the same note alike wherever it stands. Another session of the same tree may
        have such a one elsewhere, on a path that is shared later on; so the copy's gets an id that tells its place.
        """
        if self._own(entry.id) is not None:
            return self.store._free_entry_id()
        if entry.type != "custom" or not self._shares_a_tree() or not self.store.forest.keys_of_id(entry.id):
            return None
        told = f"{entry.id}\n{self.renamed.get(entry.parent_id or '', entry.parent_id)}"
        own_id = hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:12]
        return self.store._free_entry_id() if self.store.forest.keys_of_id(own_id) else own_id

    def _shares_a_tree(self) -> bool:
        """Whether the session is a copy, or was copied, as far as is known."""
        return self.parsed.copied and bool(self._kin or self.first_seen or self._sees_others)

    def _with_renamed_reference(self, entry: StoredEntry) -> StoredEntry:
        name = _REFERENCES[entry.type]
        target = entry.fields.get(name)
        if not isinstance(target, str) or target not in self.renamed:
            return entry
        payload = dump({**json.loads(entry.payload), name: self.renamed[target]})
        return StoredEntry(entry.id, entry.parent_id, entry.type, entry.time_ms, payload, entry.extra)

    def _see_shared(self) -> None:
        """Keep shared entries of other sessions in sight: their last ones become tips of this session."""
        forest, connection = self.store.forest, self.store.connection
        ends = self._last_shared
        foreign = [(self.sid, key) for segment, key in ends.items() if forest.segment(segment)[0] != self.sid]
        connection.executemany("insert or ignore into tips(sid, key) values(?, ?)", foreign)
        deepest = max(ends.values(), key=forest.depth, default=None) if foreign else None
        if foreign and self._kin and self.parsed.parent_ref is None:
            owner = forest.segment(segment_of(foreign[0][1]))[0]
            connection.execute(
                "update sessions set origin = coalesce(origin, (select id from sessions where sid = ?)) where sid = ?",
                (owner, self.sid),
            )
        connection.execute(
            "update sessions set origin_key = coalesce(origin_key, ?) where sid = ? and origin is not null",
            (deepest, self.sid),
        )


def completes(old: JsonObject, new: JsonObject) -> bool:
    """Whether a message is a later form of another: an answer whose content goes on, or facts that came after it.

    Everything the older one says stays, but for what is only final at the end of an answer (`_FINAL_AT_THE_END`).
    """
    for name, value in old.items():
        if name not in _FINAL_AT_THE_END and new.get(name) != value:
            return False
    if old.get("toolName", "") not in ("", new.get("toolName")):
        return False
    before, after = old.get("content"), new.get("content")
    return before == after or (old.get("role") == "assistant" and continues(before, after))


def continues(before: object, after: object) -> bool:
    """Whether an answer's blocks are a beginning of others; a block's text counts, not what was added to it."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) < len(before):
        return False
    for old, new in zip(before, after, strict=False):
        if old != new and any(
            old.get(name) != new.get(name) for name in ("type", "text", "thinking", "id", "arguments")
        ):
            return False
    return True


def opening_of(parsed: ParsedSession) -> str | None:
    """Return what tells the beginning of a conversation from all others: a hash of its first message and its time."""
    first = next((entry for entry in parsed.entries if entry.type == "message"), None)
    if first is None:
        return None
    told = f"{parsed.cwd}\n{first.time_ms}\n{said(first)}"
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def said(entry: StoredEntry) -> str:
    """Return what an entry says, as text that is the same for a copy made by another program."""
    fields = (entry.message if entry.type == "message" else entry.fields) or {}
    # What a program notes beside a text of its own tells of the request that the text went with.
    left_out = (*_VOLATILE, "details") if entry.type == "custom_message" else _VOLATILE
    return json.dumps({name: value for name, value in fields.items() if name not in left_out}, sort_keys=True)


def same_content(stored: StoredEntry, entry: StoredEntry) -> bool:
    """Whether two entries say the same: type, their own time (not a borrowed one), and their own fields as values."""
    if stored.own_time_ms != entry.own_time_ms:
        return False
    if stored.type != entry.type:
        return _is_other_reading(stored, entry)
    if stored.payload == entry.payload and stored.extra == entry.extra:
        return True
    return stored.fields == entry.fields and stored.timestamp == entry.timestamp


def _is_other_reading(stored: StoredEntry, entry: StoredEntry) -> bool:
    """Whether two entries hold the same text, but one importer took it for a person's and another for a program's."""
    if {stored.type, entry.type} != {"message", "custom_message"}:
        return False
    one, other = ((each.message if each.type == "message" else each.fields) or {} for each in (stored, entry))
    roles = {one.get("role"), other.get("role")}
    return roles == {"user", None} and one.get("content") == other.get("content")


def is_form_of(entry: StoredEntry, stored: StoredEntry) -> bool:
    """Whether an entry may be what another program's format could hold of a stored one: its text is the same.

    What was edited after the export says something else and is no such form.
    """
    one, other = entry.message, stored.message
    if one is None or other is None or one.get("role") != other.get("role"):
        return one is None or other is None or other.get("role") not in ("user", "assistant", "toolResult")
    if other.get("errorMessage"):
        return True
    return texts_of(one.get("content")) == texts_of(other.get("content"))


def texts_of(content: object) -> str:
    """Return the text of a message's content, without white space at its ends and between its blocks."""
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [
        block["text"].strip() for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return "".join(texts)


def in_tree_order(
    entries: Iterable[StoredEntry], placed: Container[str] | None = None
) -> Iterator[tuple[int, StoredEntry]]:
    """Yield entries with their places, in file order, but never a child before its parent.

    Args:
        entries: Ids are unique.
        placed: The ids yielded so far, if the caller keeps them anyhow.
    """
    waiting: dict[str, list[tuple[int, StoredEntry]]] = {}
    own: set[str] = set()
    for here in enumerate(entries):
        parent_id = here[1].parent_id
        if parent_id is not None and parent_id not in (own if placed is None else placed):
            waiting.setdefault(parent_id, []).append(here)
            continue
        ready = [here]
        while ready:
            current = ready.pop()
            yield current
            if placed is None:
                own.add(current[1].id)
            if waiting:
                ready += reversed(waiting.pop(current[1].id, []))


def _at(entry: StoredEntry, key: int) -> StoredEntry:
    told = (entry.type, entry.time_ms, entry.payload, entry.extra)
    return StoredEntry(entry.id, entry.parent_id, *told, key, entry.head)
