"""The forest of entries as key ranges: the one place that knows how segments are laid out.

An entry's key is `segment << 24 | position`. Its parent is the key before it, or the segment's parent for the first
position, so a path from root to leaf is one range per segment, read in a few contiguous scans. Reads only;
`appending.py` writes.
"""

from __future__ import annotations

from pi_sessions.errors import StoreDamagedError
from pi_sessions.pauses import CollectionsPaused
from pi_sessions.stored import StoredEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    Range = tuple[int, int]

POSITION_BITS = 24
LAST_POSITION = (1 << POSITION_BITS) - 1
_FEW_SEGMENTS = 4
_CLIMB = (
    "with recursive up(key) as (select ?1 union all select s.parent from up join segments s on s.segment = up.key >> 24"
    " where s.parent >> 24 < s.segment) select key from up"
)
COLUMNS = "key, id, kind, ts, payload, extra, blobs"


def segment_of(key: int) -> int:
    """Return the segment an entry lies in."""
    return key >> POSITION_BITS


def first_key(segment: int) -> int:
    """Return the key of a segment's first entry."""
    return segment << POSITION_BITS


class Forest:
    """Reads paths, ranges and entries of a store.

    Args:
        connection: An open store.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def segment(self, segment: int) -> tuple[int, int | None, int]:
        """Return the session that wrote a segment, the key it hangs on (None: a root), and its first entry's depth.

        Raises:
            StoreDamagedError: there is no such segment, or it does not hang on an older one.
        """
        row = self.connection.execute(
            "select sid, parent, depth from segments where segment = ?", (segment,)
        ).fetchone()
        if row is None or (row[1] is not None and segment_of(row[1]) >= segment):
            raise StoreDamagedError(f"The store has no sound segment {segment}", hint="keep a copy of the store file")
        sid, parent, depth = row
        return sid, parent, depth

    def ranges(self, leaf: int | None, down_to: int | None = None) -> list[Range]:
        """Return the path from the root to a leaf as key ranges, root first.

        Args:
            leaf: Key of the last entry; None gives an empty path.
            down_to: Stop at this key, which must lie on the path; None goes to the root.
        """
        found: list[Range] = []
        stop = None if down_to is None else segment_of(down_to)
        for key in self._upwards(leaf):
            segment = segment_of(key)
            if segment == stop and down_to is not None:
                found.append((down_to, key))
                break
            found.append((first_key(segment), key))
        found.reverse()
        return found

    def _upwards(self, key: int | None) -> Iterator[int]:
        """Yield the last key of a path in each of its segments, leaf first.

        The first few are looked up one by one; a path of many segments is then climbed in one statement, which takes a
        third of the time.
        """
        for _ in range(_FEW_SEGMENTS):
            if key is None:
                return
            yield key
            key = self.segment(segment_of(key))[1]
        if key is not None:
            keys = self.connection.execute(_CLIMB, (key,)).fetchall()
            # Says so when the climb ended at a segment that is not sound.
            self.segment(segment_of(keys[-1][0]))
            for (above,) in keys:
                yield above

    def parent(self, key: int) -> int | None:
        """Return the key of an entry's parent, None for a root."""
        return key - 1 if key & LAST_POSITION else self.segment(segment_of(key))[1]

    def depth(self, key: int | None) -> int:
        """Return the number of entries from the root to this one, itself included; 0 before the first."""
        return 0 if key is None else self.segment(segment_of(key))[2] + (key & LAST_POSITION) + 1

    def is_on_path(self, key: int, leaf: int | None) -> bool:
        """Whether an entry is the leaf or one of its ancestors."""
        segment = segment_of(key)
        for last in self._upwards(leaf):
            if segment_of(last) <= segment:
                return segment_of(last) == segment and key <= last
        return False

    def common_ancestor(self, one: int | None, other: int | None) -> int | None:
        """Return the deepest entry on both paths, None when they share none."""
        ones, others = self._upwards(one), self._upwards(other)
        one, other = next(ones, None), next(others, None)
        while one is not None and other is not None:
            if segment_of(one) == segment_of(other):
                return min(one, other)
            if segment_of(one) > segment_of(other):
                one = next(ones, None)
            else:
                other = next(others, None)
        return None

    def visible(self, sid: int) -> dict[int, int]:
        """Return what a session sees: segment -> key of the last entry seen in it.

        These are the paths of its branches and tips, and everything it wrote itself.
        """
        execute = self.connection.execute
        seen: dict[int, int] = {}
        heads = [
            row[0]
            for row in execute(
                "select leaf from branches where sid = ?1 and leaf is not null"
                " union select key from tips where sid = ?1",
                (sid,),
            )
        ]
        own = execute("select segment, parent from segments where sid = ?", (sid,)).fetchall()
        for segment, parent in own:
            last = execute(
                "select max(key) from entries where key between ? and ?",
                (first_key(segment), first_key(segment) + LAST_POSITION),
            ).fetchone()[0]
            if last is not None:
                seen[segment] = last
            if parent is not None:
                heads.append(parent)
        for head in heads:
            key: int | None = head
            while key is not None and seen.get(segment_of(key), -1) < key:
                known = segment_of(key) in seen
                seen[segment_of(key)] = key
                key = None if known else self.segment(segment_of(key))[1]
        return seen

    def sees(self, sid: int, key: int) -> bool:
        """Whether an entry belongs to a session."""
        if self.segment(segment_of(key))[0] == sid:
            return True
        return key <= self.visible(sid).get(segment_of(key), -1)

    def keys_of_id(self, entry_id: str) -> list[int]:
        """Return the keys of every entry in the store that has an id; ids are unique only within a session."""
        return [row[0] for row in self.connection.execute("select key from entries where id = ?", (entry_id,))]

    def find(self, sid: int, entry_id: str) -> int | None:
        """Return the key of a session's entry, None when it has none of that id."""
        keys = self.keys_of_id(entry_id)
        if not keys:
            return None
        own = [key for key in keys if self.segment(segment_of(key))[0] == sid]
        if own:
            return own[0]
        seen = self.visible(sid)
        return next((key for key in keys if key <= seen.get(segment_of(key), -1)), None)

    def find_prefix(self, sid: int, prefix: str, limit: int = 20) -> list[tuple[int, str]]:
        """Return key and id of a session's entries whose id begins with a prefix, in id order."""
        rows = self.connection.execute(
            "select key, id from entries where id >= ? and id < ? order by id", (prefix, f"{prefix}\U0010ffff")
        ).fetchall()
        if not rows:
            return []
        seen = self.visible(sid)
        return [(key, name) for key, name in rows if key <= seen.get(segment_of(key), -1)][:limit]

    def id_of(self, key: int | None) -> str | None:
        """Return the id of a stored entry; None for None.

        Raises:
            StoreDamagedError: there is no entry with this key.
        """
        if key is None:
            return None
        row = self.connection.execute("select id from entries where key = ?", (key,)).fetchone()
        if row is None:
            raise StoreDamagedError(f"The store has no entry {key:#x}", hint="keep a copy of the store file")
        found: str = row[0]
        return found

    def read(self, ranges: Iterable[Range]) -> list[StoredEntry]:
        """Return the entries of ranges in their order, with parents and whole payloads."""
        entries: list[StoredEntry] = []
        with CollectionsPaused():
            for first, last in ranges:
                self._read_range(first, last, entries)
        return entries

    def _read_range(self, first: int, last: int, entries: list[StoredEntry]) -> None:
        parent = self.parent(first)
        follows = bool(entries) and entries[-1].key == parent
        parent_id = entries[-1].id if follows else self.id_of(parent)
        append = entries.append
        for key, entry_id, kind, time_ms, payload, extra, blobs in self.connection.execute(
            f"select {COLUMNS} from entries where key between ? and ? order by key", (first, last)
        ):
            if blobs:
                payload, extra = self._put_back(key, payload, extra)
            append(StoredEntry(entry_id, parent_id, kind, time_ms, payload, extra, key))
            parent_id = entry_id

    def entry(self, key: int) -> StoredEntry:
        """Return one stored entry.

        Raises:
            StoreDamagedError: there is no entry with this key.
        """
        entries: list[StoredEntry] = []
        self._read_range(key, key, entries)
        if entries:
            return entries[0]
        raise StoreDamagedError(f"The store has no entry {key:#x}", hint="keep a copy of the store file")

    def _put_back(self, key: int, payload: str, extra: str | None) -> tuple[str, str | None]:
        from pi_sessions.blobs import put_back

        return put_back(self.connection, key, payload, extra)

    def in_append_order(self, sid: int) -> list[StoredEntry]:
        """Return every entry a session sees: what it shares first, then its own, each in the order of appending."""
        seen = self.visible(sid)
        owners: dict[int, int] = {}
        rank: dict[int, int] = {}
        for segment in seen:
            owner, _parent, depth = self.segment(segment)
            owners[segment] = owner
            rank[owner] = min(depth, rank.get(owner, depth))
        order = {}
        for segment, last in seen.items():
            for key, seq in self.connection.execute(
                "select key, seq from entries where key between ? and ?", (first_key(segment), last)
            ):
                order[key] = (owners[segment] == sid, rank[owners[segment]], owners[segment], seq)
        entries = self.read(sorted((first_key(segment), last) for segment, last in seen.items()))
        entries.sort(key=lambda entry: order[entry.key])
        return entries
