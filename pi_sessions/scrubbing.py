"""Takes secrets out of a store for good: out of every entry, name, label, operation and picture, the index, free pages.

The one place where stored entries change. Ids, parents, order and everything beside the secret stay as they are; a mark
such as `[redacted:api-key-1]` takes the secret's place, the same one everywhere. There is no undo: nothing is kept that
could bring a secret back. Whether it worked is checked by reading the file's bytes.
"""

from __future__ import annotations

import os
import re
from binascii import b2a_base64

from pi_sessions.blobs import EXTRA_OFFSET
from pi_sessions.errors import CannotError, StoreBusyError, StoreError
from pi_sessions.forest import segment_of
from pi_sessions.records import Record
from pi_sessions.search_index import clear
from pi_sessions.secret_places import applied, decoded, edits_in_json, kept_in_json, same_shape
from pi_sessions.secret_spans import SecretSpans, core
from pi_sessions.secrets import MARK, Redactor, base64_forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from pi_sessions.store import SessionStore

SHORTEST_SECRET = 6
PIECE = 1 << 22
_OWN_HANDLING = ("entries", "blobs", "entry_blobs", "states")
# What programs wrote for programs: commands, names of formats, digests. Nothing a person said stands there.
_FIXED = ("command", "kind", "format", "importer", "code", "outcome", "digest", "stamp", "opening", "host")
_IDS = (("sessions", "id"), ("entries", "id"))
_MARKS = re.compile(re.escape(MARK) + r"[a-z0-9.\-]+\]")


class ScrubbedSecret(Record):
    """What became of one secret; never the secret itself.

    Attributes:
        kind: Kind of secret.
        mark: What stands in its place.
        count: Places it stood in.
        entries: (session id, entry id) of entries that held it.
        elsewhere: Other tables that held it, with the number of their rows.
        sources: Files it was imported from; they still hold it.
    """

    kind: str
    mark: str
    count: int
    entries: tuple[tuple[str, str], ...]
    elsewhere: tuple[tuple[str, int], ...]
    sources: tuple[str, ...]


class ScrubResult(Record):
    """What a scrub did, or with `dry_run` would do.

    Attributes:
        secrets: Those that were found.
        missing: How many of the given ones are nowhere in the store.
        size_before, size_after: Bytes of the store's file.
    """

    secrets: tuple[ScrubbedSecret, ...]
    missing: int
    dry_run: bool
    size_before: int
    size_after: int


def find_stored(
    store: SessionStore, *, session_id: str | None = None, progress: Callable[[int], object] | None = None
) -> dict[str, str]:
    """Return the secrets the rules recognise in what is stored: value -> kind. Never show it.

    Args:
        store: An open store.
        session_id: Look only at what this session sees; None looks at everything.
        progress: Told how many entries were looked at.
    """
    redactor = Redactor(keep=[row[0] for row in store.connection.execute("select id from sessions")])
    ids = [session_id] if session_id else [row[0] for row in store.connection.execute("select id from sessions")]
    seen: set[int] = set()
    for one in ids:
        session = store.session(one)
        for text in (session.name, session.first_message, session.cwd):
            redactor.learn(text or "")
        for label in store.labels(one).values():
            redactor.learn(label.text)
        for entry in store.entries(one):
            if entry.key not in seen:
                seen.add(entry.key)
                redactor.learn_entry(entry)
                if progress is not None and len(seen) % 1000 == 0:
                    progress(len(seen))
    return redactor.distinct_secrets()


def scrub(store: SessionStore, secrets: Mapping[str, str], *, dry_run: bool = False) -> ScrubResult:
    """Remove secrets from a store.

    Args:
        store: Open for writing, in no transaction.
        secrets: Value -> kind.
        dry_run: Change nothing and say what would be done.

    Returns:
        What was replaced. When it returns, no byte of the file, its log or its shared memory holds a secret.

    Raises:
        CannotError: a secret is too short, part of an id, a role or a model, or nothing would be left of an entry
            without it; nothing was changed.
        StoreBusyError: another process reads or writes; what was replaced stays replaced, run it again.
        StoreError: a secret is still in the file.
    """
    for value in secrets:
        _check(store, value)
    before = os.path.getsize(store.file)
    scrubber = _Scrubber(store, secrets)
    if dry_run:
        scrubber.run(write=False)
        return ScrubResult(*scrubber.told(), True, before, before)
    store.connection.execute("pragma secure_delete = on")
    with store.transaction():
        scrubber.run(write=True)
    _rewrite_file(store)
    _check_bytes(store, [spans.value for _value, spans in scrubber.spans if not scrubber.is_kept(spans.value)])
    left = _Scrubber(store, secrets)
    left.run(write=False)
    if any(left.counts.values()):
        raise StoreError(f"A secret is still in {store.file}", hint="run the same scrub again")
    return ScrubResult(*scrubber.told(), False, before, os.path.getsize(store.file))


def _check(store: SessionStore, value: str) -> None:
    if len(core(value)) < SHORTEST_SECRET:
        raise CannotError(
            f"A secret of {len(core(value))} characters is too short to be told from ordinary text",
            hint=f"give at least {SHORTEST_SECRET} characters",
        )
    for table, column in _IDS:
        if store.connection.execute(f"select 1 from {table} where instr({column}, ?)", (core(value),)).fetchone():
            raise CannotError(
                f"The text is part of an id in {table}, and ids stay", hint="export what you need, then remove it"
            )


class _Scrubber:
    """Goes through every text of a store once, for all secrets; the longest first, as one may be part of another."""

    def __init__(self, store: SessionStore, secrets: Mapping[str, str]) -> None:
        self.store = store
        self.execute = store.connection.execute
        self.kinds = dict(sorted(secrets.items(), key=lambda item: -len(item[0])))
        # Each secret as it is, then as it stands in base64.
        self.spans = [(value, SecretSpans(form)) for value in self.kinds for form in (value, *base64_forms(value))]
        self.marks = self._choose_marks()
        self.counts = dict.fromkeys(self.kinds, 0)
        self.entries: dict[str, list[int]] = {value: [] for value in self.kinds}
        self.elsewhere: dict[str, dict[str, int]] = {value: {} for value in self.kinds}
        self._kept: set[str] = set()

    def _choose_marks(self) -> dict[str, str]:
        """Return a mark for each secret that stands for no other secret in this store."""
        taken: set[str] = set()
        for (payload,) in self.execute("select payload from entries where instr(payload, ?)", (MARK,)):
            taken.update(_MARKS.findall(payload))
        marks: dict[str, str] = {}
        for value, kind in self.kinds.items():
            begins = next(
                each for each in (f"{MARK}{kind}", f"{MARK}text", "[removed", "[***") if core(value) not in each
            )
            number = 1
            while f"{begins}-{number}]" in taken:
                number += 1
            marks[value] = f"{begins}-{number}]"
            taken.add(marks[value])
        return marks

    def run(self, *, write: bool) -> None:
        """Find all places, and replace what stands there when `write`."""
        self._entries(write)
        self._pictures(write)
        for table, columns, key in self._tables():
            self._rows(table, columns, key, write)
        if write:
            clear(self.store.connection)

    def told(self) -> tuple[tuple[ScrubbedSecret, ...], int]:
        """Return what was found, and how many secrets were nowhere."""
        found = [value for value, count in self.counts.items() if count]
        told = tuple(
            ScrubbedSecret(
                self.kinds[value],
                self.marks[value],
                self.counts[value],
                tuple(self._place(key) for key in dict.fromkeys(self.entries[value])),
                tuple(self.elsewhere[value].items()),
                self._sources(self.entries[value]),
            )
            for value in found
        )
        return told, len(self.kinds) - len(found)

    def _place(self, key: int) -> tuple[str, str]:
        session_id, entry_id = self.execute(
            "select s.id, e.id from entries e join segments g on g.segment = e.key >> 24 join sessions s using(sid)"
            " where e.key = ?",
            (key,),
        ).fetchone()
        return session_id, entry_id

    def _sources(self, keys: list[int]) -> tuple[str, ...]:
        """Return files that entries came from."""
        segments = {segment_of(key) for key in keys}
        found: dict[str, None] = {}
        for segment in sorted(segments):
            for (source,) in self.execute(
                "select i.source from segments g join imports i using(sid) where g.segment = ?", (segment,)
            ):
                found[source] = None
        return tuple(found)

    def _entries(self, write: bool) -> None:
        rows = self.execute("select key, payload, extra, blobs from entries")
        changes: list[tuple[str, str | None, int]] = []
        shifts: list[tuple[int, list[tuple[int, int]]]] = []
        for key, payload, extra, blobs in rows:
            moved: list[tuple[int, int]] = []
            before = dict(self.counts)
            new = self._clean_entry(payload, moved if blobs else None, 0)
            new_extra = self._clean_entry(extra, moved if blobs else None, EXTRA_OFFSET) if extra else extra
            if new == payload and new_extra == extra:
                continue
            for value, count in self.counts.items():
                if count > before[value]:
                    self.entries[value].append(key)
            changes.append((new, new_extra, key))
            if moved:
                shifts.append((key, moved))
        if write:
            for key, moved in shifts:
                self._shift_pictures(key, moved)
            self.store.connection.executemany("update entries set payload = ?, extra = ? where key = ?", changes)

    def _clean_entry(self, text: str, moved: list[tuple[int, int]] | None, base: int) -> str:
        if not any(spans.in_text(text) for _value, spans in self.spans):
            return text
        whole = decoded(text) is not None or text.lstrip().startswith('"')
        return self._clean_json(text, moved, base) if whole else self._clean(text)

    def is_kept(self, value: str) -> bool:
        """Whether a text stays somewhere by chance: in numbers, digests, words of the format or of the tables.

        Args:
            value: As it is looked for (`SecretSpans.value`).
        """
        if value in self._kept:
            return True
        if self.execute("select 1 from sqlite_master where instr(sql, ?1) or instr(name, ?1)", (value,)).fetchone():
            return True
        texts = [("entries", "kind"), ("states", "provider"), ("states", "model"), ("states", "thinking")]
        for table, columns, _key in self._tables(fixed=True):
            texts += [(table, column) for column in columns]
        return any(
            self.execute(f'select 1 from {table} where instr("{column}", ?)', (value,)).fetchone()
            for table, column in texts
        )

    def _clean_json(
        self, text: str, moved: list[tuple[int, int]] | None = None, base: int = 0, free: bool = False
    ) -> str:
        """Return a JSON text without the secrets; it stays JSON of the same shape.

        Args:
            moved: Takes (place, by how much what follows moves), for one secret after the other.
            base: Added to the places.
            free: It is no message or entry, see `edits_in_json`.

        Raises:
            CannotError: a secret is part of what makes the entry one.
        """
        old = text
        for value, spans in self.spans:
            if not spans.in_text(text):
                continue
            edits, count = edits_in_json(text, spans, self.marks[value], free=free)
            self.counts[value] += count
            shift = 0
            for start, end, new in edits:
                if moved is not None:
                    moved.append((base + start + shift, len(new) - (end - start)))
                shift += len(new) - (end - start)
            text = applied(text, edits)
            if not free:
                self._check_kept(text, spans)
            if spans.value in text:
                self._kept.add(spans.value)
        if text != old and not same_shape(decoded(old), decoded(text)):
            raise CannotError(
                "Without the text an entry would not be whole, so nothing was changed",
                hint="give the secret itself, not what stands around it",
            )
        return text

    def _check_kept(self, text: str, spans: SecretSpans) -> None:
        kept = kept_in_json(text, spans)
        if kept is not None:
            part = kept.replace(spans.value, "...")
            raise CannotError(
                f"The text is part of what an entry is made of ({part[:60]}), so nothing was changed",
                hint="ids, roles, models and names of fields stay; give the secret itself",
            )

    def _clean(self, text: str, free: bool = True) -> str:
        """Return any text without the secrets."""
        if any(spans.in_text(text) for _value, spans in self.spans) and decoded(text) is not None:
            return self._clean_json(text, free=free)
        for value, spans in self.spans:
            found = spans.in_text(text)
            if found:
                self.counts[value] += len(found)
                text = applied(text, [(start, end, self.marks[value]) for start, end in found])
        return text

    def _shift_pictures(self, key: int, moved: list[tuple[int, int]]) -> None:
        """Keep what was cut out of an entry's text at its place in the changed text."""
        rows = self.execute("select at, hash from entry_blobs where key = ? order by at", (key,)).fetchall()
        self.execute("delete from entry_blobs where key = ?", (key,))
        for at, digest in rows:
            for place, by in moved:
                same_text = (place >= EXTRA_OFFSET) == (at >= EXTRA_OFFSET)
                at += by if same_text and place < at else 0
            self.execute("insert into entry_blobs(key, at, hash) values(?, ?, ?)", (key, at, digest))

    def _pictures(self, write: bool) -> None:
        """Blank secrets inside binary content, length kept; base64 text that is itself a secret gets the mark."""
        from hashlib import sha256

        for (digest,) in self.execute("select hash from blobs").fetchall():
            encoded, content = self.execute("select encoded, bytes from blobs where hash = ?", (digest,)).fetchone()
            new_encoded, new = self._clean_bytes(bool(encoded), content)
            if new == content:
                continue
            if write:
                fresh = sha256(b"%d" % new_encoded + new).digest()
                self.execute(
                    "insert into blobs(hash, encoded, bytes) values(?, ?, ?) on conflict do nothing",
                    (fresh, int(new_encoded), new),
                )
                self.execute("update entry_blobs set hash = ? where hash = ?", (fresh, digest))
                self.execute("delete from blobs where hash = ?", (digest,))

    def _clean_bytes(self, encoded: bool, content: bytes) -> tuple[bool, bytes]:
        for value, spans in self.spans:
            raw = spans.value.encode("utf-8", "surrogatepass")
            if raw in content:
                self._count_elsewhere(value, "blobs", content.count(raw))
                content = content.replace(raw, b"*" * len(raw))
            if encoded:
                run = b2a_base64(content, newline=False)
                if raw in run:
                    self._count_elsewhere(value, "blobs", run.count(raw))
                    encoded, content = False, run.replace(raw, self.marks[value].encode())
        return encoded, content

    def _count_elsewhere(self, value: str, table: str, count: int) -> None:
        self.counts[value] += count
        self.elsewhere[value][table] = self.elsewhere[value].get(table, 0) + 1

    def _tables(self, *, fixed: bool = False) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield every other table with its columns of text or bytes and the columns that address a row.

        Args:
            fixed: Those columns instead which no secret is looked for in.
        """
        tables = self.execute(
            "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite!_%' escape '!'"
            " and name not like 'entry!_index%' escape '!' order by name"
        ).fetchall()
        for table, sql in tables:
            if table in _OWN_HANDLING:
                continue
            columns = self.execute(f"select name, type, pk from pragma_table_info('{table}')").fetchall()
            texts = [name for name, kind, _pk in columns if kind.upper() in ("TEXT", "BLOB", "ANY", "")]
            texts = [name for name in texts if (table, name) not in _IDS]
            texts = [name for name in texts if (name in _FIXED or table.startswith("_")) == fixed]
            keys = [name for name, _kind, pk in sorted(columns, key=lambda column: column[2]) if pk]
            rowless = "without rowid" in sql.lower()
            if texts:
                yield table, texts, keys if rowless else ["rowid"]

    def _rows(self, table: str, columns: list[str], key: list[str], write: bool) -> None:
        names = ", ".join(f'"{name}"' if name != "rowid" else name for name in (*key, *columns))
        rows = self.execute(f"select {names} from {table}").fetchall()
        for row in rows:
            old = row[len(key) :]
            before = dict(self.counts)
            new = [self._clean_any(value) for value in old]
            if all(one == other for one, other in zip(new, old, strict=True)):
                continue
            for value, count in self.counts.items():
                if count > before[value]:
                    self.elsewhere[value][table] = self.elsewhere[value].get(table, 0) + 1
            if write:
                sets = ", ".join(f'"{name}" = ?' for name in columns)
                where = " and ".join(f'"{name}" is ?' if name != "rowid" else "rowid = ?" for name in key)
                self.execute(f"update {table} set {sets} where {where}", (*new, *row[: len(key)]))

    def _clean_any(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            new = self._clean(text)
            return value if new == text else new.encode("utf-8", "surrogateescape")
        return value


def _rewrite_file(store: SessionStore) -> None:
    """Write the file anew, without free pages, and empty the write-ahead log.

    Raises:
        StoreBusyError: another process still reads the old pages.
    """
    store.connection.execute("vacuum")
    busy, _log, _done = store.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    if busy:
        raise StoreBusyError(
            "Another process still reads the store, so its log keeps the old pages",
            hint="end it, then run the same scrub again; the entries themselves are clean",
        )


def _check_bytes(store: SessionStore, secrets: Iterable[str]) -> None:
    needles = [core(value).encode("utf-8", "surrogatepass") for value in secrets]
    overlap = max(map(len, needles), default=1)
    for path in (store.file, f"{store.file}-wal", f"{store.file}-shm"):
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            tail = b""
            while piece := file.read(PIECE):
                looked_at = tail + piece
                if any(needle in looked_at for needle in needles):
                    raise StoreError(f"A secret is still in {path}", hint="run the same scrub again")
                tail = looked_at[-overlap:]
