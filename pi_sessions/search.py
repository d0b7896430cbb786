"""Full-text search: which entries say something, in which session, on which branch.

Words are looked up in the index; what it cannot answer (parts of words, signs) is found by a scan of the stored texts,
and so is everything when the store cannot be written and the index is behind. Each hit is shown once, in the session
that wrote it, or else in one that shares it. Reads only, the index's upkeep apart (`search_index`).
"""

from __future__ import annotations

import sqlite3
from itertools import islice

from pi_sessions.connection import translate
from pi_sessions.entry_text import KINDS, SUMMARIES, EntryText, entry_text
from pi_sessions.errors import CannotError, StoreBusyError, StoreFullError, StoreReadOnlyError, UsageError
from pi_sessions.forest import LAST_POSITION, segment_of
from pi_sessions.records import Record
from pi_sessions.search_index import catch_up, is_behind
from pi_sessions.search_query import (
    ESCAPE,
    Term,
    TimedPattern,
    compile_pattern,
    contains,
    fts_terms,
    indexed_form,
    marker,
    parse_terms,
    snippet,
)
from pi_sessions.stored import well_formed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

MODES = ("words", "substring", "regex", "fts")
SORTS = ("newest", "best")
MOST_WORDS = 500
MANY_ROWS = 2000
# What nearly every stored message has in its JSON, in small letters: a scan for these would look at all of them.
FIELD_NAMES = (
    "role user assistant toolresult content type text toolcall arguments id name timestamp api provider model usage"
    " input output cacheread cachewrite totaltokens cost total stopreason tooluse stop toolcallid toolname iserror"
)
ROLES = {
    "user": ("user",),
    "assistant": ("assistant",),
    "tool": ("toolResult",),
    "shell": ("bashExecution",),
    "summary": (*SUMMARIES, "compactionSummary", "branchSummary"),
    "custom": ("custom", "custom_message"),
}
_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
# Every session that sees an entry: who wrote on below it, and whose branches and tips lie there.
_SEEING = f"""
with recursive below(first, last) as (
  select ?1, ?1 | {LAST_POSITION}
  union select s.segment << 24, (s.segment << 24) | {LAST_POSITION}
  from below join segments s on s.parent between below.first and below.last
)
select s.id from sessions s where s.deleted is null and s.sid in (
  select g.sid from below join segments g on g.segment = below.first >> 24
  union select b.sid from branches b join below on b.leaf between below.first and below.last
  union select t.sid from tips t join below on t.key between below.first and below.last
) order by s.last desc
"""


class Filters(Record):
    """What narrows a search; all that are given must hold.

    Attributes:
        session_id: Only entries this session sees.
        cwd: Only sessions of this directory.
        role: One of `ROLES`.
        tool: Only calls and results of this tool.
        model: Only where the model in force has this in its name, any case.
        since_ms: Only entries of this time or later, Unix milliseconds.
        branch: Only the path of the branch of this name.
        active: Only the path to the session's leaf.
    """

    session_id: str | None = None
    cwd: str | None = None
    role: str | None = None
    tool: str | None = None
    model: str | None = None
    since_ms: int | None = None
    branch: str | None = None
    active: bool = False


class Hit(Record):
    """Something found.

    Attributes:
        kind: `entry`, `name` (of a session) or `label`.
        session: Where it is shown: who wrote it, or a session that shares it.
        entry_id: None for the name of a session without entries.
        role: The message's role or the entry's type; empty for a name.
        tools: Tools it calls or answers for.
        time_ms: Of the entry.
        branches: Branches of the session whose paths go through it, the current one first; none: it was left behind.
        active: It lies on the path to the session's leaf.
        snippet: The words around the first match, on one line.
        marks: Places of the matches in the snippet, as (start, end).
        shared: Ids of other sessions that see the entry.
    """

    kind: str
    session: Session
    entry_id: str | None
    role: str
    tools: tuple[str, ...]
    time_ms: int | None
    branches: tuple[str, ...]
    active: bool
    snippet: str
    marks: tuple[tuple[int, int], ...]
    shared: tuple[str, ...]


class SearchResult(Record):
    """What a search found.

    Attributes:
        hits: In order; names and labels first.
        more: There are more than were asked for.
        by: `index` or `scan`: how the entries were found.
        indexed: Entries taken into the index beforehand.
        why_scan: Why the index was not asked although it could have answered; None otherwise.
    """

    hits: tuple[Hit, ...]
    more: bool
    by: str
    indexed: int = 0
    why_scan: str | None = None


def search(
    store: Reading,
    query: str,
    *,
    mode: str = "words",
    filters: Filters | None = None,
    sort: str = "newest",
    limit: int = 20,
    progress: Callable[[int], object] | None = None,
) -> SearchResult:
    """Find entries, names and labels.

    Args:
        store: An open store; one that cannot be written is searched by a scan.
        query: Words and "phrases" that must all be there; with mode `regex` or `fts` an expression.
        mode: `words`, `substring` (also inside words), `regex`, or `fts` (the language of SQLite's FTS5).
        filters: What narrows it.
        sort: `newest` first or `best` first (that only for what the index finds).
        limit: At most so many hits.
        progress: Told how many entries are indexed when there is much to catch up.

    Raises:
        UsageError: the query is empty or no expression.
        CannotError: a branch was named that no session in question has.
    """
    if mode not in MODES or sort not in SORTS:
        raise ValueError(f"unknown mode {mode!r} or sort {sort!r}")
    return _Search(store, well_formed(query), mode, filters or Filters(), sort, limit).run(progress)


class _Search:
    """One search: the plan, the rows, the places of what is found."""

    def __init__(self, store: Reading, query: str, mode: str, filters: Filters, sort: str, limit: int) -> None:
        self.store = store
        self.execute = store.connection.execute
        self.filters = filters
        self.sort = sort
        self.limit = limit
        self.query = query
        self.mode = mode
        self.pattern: TimedPattern | None = compile_pattern(query) if mode == "regex" else None
        self.terms: tuple[Term, ...] = ()
        if mode == "fts":
            self.terms = fts_terms(query)
        elif mode != "regex":
            self.terms = parse_terms(query)
        self.mark = self.pattern or marker(self.terms)
        self.places = _Places(store, filters)

    def run(self, progress: Callable[[int], object] | None) -> SearchResult:
        expression = self._expression()
        indexed, why = self._bring_up(progress) if self.mode != "regex" else (0, None)
        if why is not None and self.mode == "fts":
            raise CannotError(f"--fts needs the index, but {why}", hint="search for words, or make the store writable")
        named = list(islice(self._named(), self.limit + 1)) if self._wants_names() else []
        room = max(self.limit + 1 - len(named), 0)
        found: list[Hit] = []
        by = "index"
        if expression is not None and why is None:
            found = self._take(self._from_index(expression), room, self._verified)
        if not found and self.mode != "fts":
            by, found = self._search_inside(room, ready=why is None)
        hits = named + found
        return SearchResult(tuple(hits[: self.limit]), len(hits) > self.limit, by, indexed, why)

    def _expression(self) -> str | None:
        """Return what the index is asked, None when it cannot answer."""
        if self.mode == "fts":
            if not self.query.strip():
                raise UsageError("The search is empty", hint="pi-session search --fts 'lease AND (lost OR stolen)'")
            return indexed_form(self.query)
        if self.mode != "words":
            return None
        return " AND ".join(filter(None, (term.index_query for term in self.terms))) or None

    def _search_inside(self, room: int, *, ready: bool) -> tuple[str, list[Hit]]:
        """Find parts of words: by a scan, or where that meets too many entries (names of JSON fields) by the words."""
        everywhere = ready and any(term.folded in FIELD_NAMES for term in self.terms)
        rows = [] if everywhere else self._scanned_rows(ready)
        inside = self._inside_words() if everywhere or (ready and len(rows) > MANY_ROWS) else None
        if everywhere and inside is None:
            rows = self._scanned_rows(ready)
        if inside is None:
            rows.sort(key=lambda row: (row[1] is not None, row[1] or 0, row[0]), reverse=True)
            return "scan", self._take((row[0] for row in rows), room, self._scanned)
        return "index", self._take(self._from_index(inside), room, self._scanned) if inside else []

    def _inside_words(self) -> str | None:
        """Return an expression for the indexed words that have the terms inside, empty when there are none.

        None when the index cannot tell: for terms with signs, or when too many words have them.
        """
        if not self.terms or not all(term.is_plain and " " not in term.text for term in self.terms):
            return None
        self.execute("create virtual table if not exists temp.indexed_words using fts5vocab(main, entry_index, row)")
        groups = []
        for term in self.terms:
            words = self._words_with(term.folded)
            if not words:
                return ""
            if len(words) > MOST_WORDS:
                return None
            groups.append("(" + " OR ".join(f'"{word}"' for (word,) in words) + ")")
        return " AND ".join(groups)

    def _words_with(self, part: str) -> list[tuple[str]]:
        """Return indexed words that have a part, a few more than `MOST_WORDS` at most."""
        query = "select term from indexed_words where instr(term, ?) limit ?"
        try:
            return self.execute(query, (part, MOST_WORDS + 1)).fetchall()
        except sqlite3.Error as error:
            raise translate(error, self.store.file) from error

    def _bring_up(self, progress: Callable[[int], object] | None) -> tuple[int, str | None]:
        """Bring the index up to date; returns the entries indexed, or why that cannot be done."""
        connection = self.store.connection
        try:
            return (catch_up(connection, progress=progress) if is_behind(connection) else 0), None
        except StoreReadOnlyError:
            return 0, "the store cannot be written to bring the index up to date"
        except StoreBusyError:
            return 0, "another process holds the store, so the index is behind"
        except StoreFullError:
            return 0, "the disk is full, so the index is behind"

    def _from_index(self, expression: str) -> Iterator[int]:
        where, values = self._conditions()
        order = "f.rank" if self.sort == "best" else "e.ts desc, e.key desc"
        try:
            yield from (
                row[0]
                for row in self.execute(
                    "select e.key from entry_index f cross join entries e on e.key = f.rowid"
                    f" where f.entry_index match ? {where} order by {order}",
                    (expression, *values),
                )
            )
        except sqlite3.Error as error:
            # A cursor fails while it is read, too; there the connection cannot say it in our words.
            if self.mode == "fts" and isinstance(error, sqlite3.OperationalError):
                raise UsageError(
                    f"The index does not understand {self.query}: {error}",
                    hint="leave out --fts to search for the words themselves",
                ) from error
            raise translate(error, self.store.file) from error

    def _scanned_rows(self, ready: bool) -> list[tuple[int, int | None]]:
        """Return key and time of entries whose stored text may have the terms."""
        where, values = self._conditions()
        like, patterns = self._terms_in("e.payload", accents=not ready or self.mode == "substring")
        where, values = where + like, values + patterns
        return self.execute(f"select e.key, e.ts from entries e where e.kind in ({_KINDS}) {where}", values).fetchall()

    def _conditions(self) -> tuple[str, list[Any]]:
        where = ""
        values: list[Any] = []
        if self.filters.since_ms is not None:
            where += " and e.ts >= ?"
            values.append(self.filters.since_ms)
        if self.filters.model is not None:
            where += (
                " and e.state in (select state from states"
                " where instr(lower(coalesce(provider, '') || '/' || coalesce(model, '')), lower(?)))"
            )
            values.append(self.filters.model)
        return where, values

    def _take(self, keys: Iterable[int], room: int, fits: Callable[[EntryText], bool]) -> list[Hit]:
        """Return hits for the first keys that fit, at most `room`."""
        hits: list[Hit] = []
        for key in keys:
            if len(hits) == room:
                break
            hit = self._hit(key, fits)
            if hit is not None:
                hits.append(hit)
        return hits

    def _hit(self, key: int, fits: Callable[[EntryText], bool]) -> Hit | None:
        session = self.places.session_of(key)
        if session is None:
            return None
        entry_id, kind, time_ms, payload = self.execute(
            "select id, kind, ts, payload from entries where key = ?", (key,)
        ).fetchone()
        told = entry_text(kind, payload, names=True)
        if not self._has_role_and_tool(told) or not fits(told):
            return None
        text, marks = snippet(told.text, self.mark, folds=self.pattern is None)
        return Hit(
            "entry", session, entry_id, told.role, told.tools, time_ms, *self.places.branches_of(session, key),
            text, marks, self.places.others(session, key),
        )  # fmt: skip

    def _has_role_and_tool(self, told: EntryText) -> bool:
        role, tool = self.filters.role, self.filters.tool
        return (role is None or told.role in ROLES.get(role, (role,))) and (tool is None or tool in told.tools)

    def _verified(self, told: EntryText) -> bool:
        """Whether what the index found has the terms as they were typed, signs included."""
        unsure = [term for term in self.terms if not term.is_plain] if self.mode == "words" else []
        return contains(told.text, unsure)

    def _scanned(self, told: EntryText) -> bool:
        if self.pattern is not None:
            return self.pattern.search(told.text) is not None
        return contains(told.text, self.terms)

    def _wants_names(self) -> bool:
        given = self.filters
        plain = given.role is None and given.tool is None and given.model is None and given.since_ms is None
        return plain and given.branch is None and not given.active and self.mode != "fts"

    def _named(self) -> Iterator[Hit]:
        """Yield sessions by their names, newest first, then labelled entries."""
        names = self._like(
            "select s.id, s.name, s.last from sessions s where s.name is not null and s.deleted is null", "s.name"
        )
        for session_id, name, _last in sorted(names, key=lambda row: row[2], reverse=True):
            if self._matches(name) and self.places.takes(session_id):
                session = self.places.session(session_id)
                told = snippet(name, self.mark, folds=self.pattern is None)
                yield Hit("name", session, session.leaf, "", (), session.updated_ms, (session.branch,), True, *told, ())
        labels = self._like(
            "select s.id, l.target, l.text, e.id, e.ts from labels l join sessions s using(sid)"
            " join entries e on e.key = l.target where s.deleted is null",
            "l.text",
        )
        for session_id, key, text, entry_id, time_ms in sorted(labels, key=lambda row: row[4] or 0, reverse=True):
            if self._matches(text) and self.places.takes(session_id):
                session = self.places.session(session_id)
                told = snippet(text, self.mark, folds=self.pattern is None)
                lies = self.places.branches_of(session, key)
                yield Hit("label", session, entry_id, "", (), time_ms, *lies, *told, ())

    def _like(self, query: str, column: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose column may hold the terms; which of them do is still to be looked at."""
        where, values = self._terms_in(column, accents=True)
        return self.execute(query + where, values).fetchall()

    def _terms_in(self, column: str, *, accents: bool) -> tuple[str, list[Any]]:
        """Return conditions, to be joined with `and`, that all texts with the terms meet.

        Args:
            accents: Also let all texts pass that may have the terms with accents. Not needed beside the index, which
                has words without them.
        """
        where = ""
        values: list[Any] = []
        like = f"{column} like ? escape '{ESCAPE}'"
        other = f" or {column} glob '*[^ -~]*' or instr({column}, '\\u')" if accents else ""
        for term in self.terms:
            patterns = term.like_patterns
            if set("".join(patterns)) != {"%"}:
                where += f" and ({' or '.join(like for _ in patterns)}{'' if term.has_one_form else other})"
                values += patterns
        return where, values

    def _matches(self, text: str) -> bool:
        return self.pattern.search(text) is not None if self.pattern is not None else contains(text, self.terms)


class _Places:
    """Says in which session an entry is shown, and on which of its branches it lies; remembers what it has read."""

    def __init__(self, store: Reading, filters: Filters) -> None:
        self.store = store
        self.filters = filters
        self._sessions: dict[str, Session] = {}
        self._owners: dict[int, str | None] = {}
        self._paths: dict[str, list[tuple[str, dict[int, int]]]] = {}
        self._seen: dict[int, int] | None = None
        if filters.session_id is not None:
            self._seen = store.forest.visible(store._sid(filters.session_id))
        if filters.branch is not None:
            self._check_branch(filters.branch)

    def _check_branch(self, name: str) -> None:
        given = self.filters
        known = self.store.connection.execute(
            "select 1 from branches b join sessions s using(sid) where b.name = ? and s.deleted is null"
            " and (?2 is null or s.id = ?2) and (?3 is null or s.cwd = ?3)",
            (name, given.session_id, given.cwd),
        ).fetchone()
        if known is None:
            raise CannotError(f"No session here has a branch {name}", hint="list branches with: pi-session branch")

    def session(self, session_id: str) -> Session:
        """Return a session, read once."""
        if session_id not in self._sessions:
            self._sessions[session_id] = self.store.session(session_id)
        return self._sessions[session_id]

    def takes(self, session_id: str) -> bool:
        """Whether the filters let a session in."""
        given = self.filters
        if given.session_id is not None:
            return session_id == given.session_id
        return given.cwd is None or self.session(session_id).cwd == given.cwd

    def session_of(self, key: int) -> Session | None:
        """Return the session an entry is shown in; None when the filters leave it out."""
        chosen = self._choose(key)
        if chosen is None:
            return None
        if self.filters.active and not self._is_on(chosen, key, chosen.branch):
            return None
        if self.filters.branch is not None and not self._is_on(chosen, key, self.filters.branch):
            return None
        return chosen

    def _choose(self, key: int) -> Session | None:
        if self._seen is not None:
            session_id = self.filters.session_id
            inside = key <= self._seen.get(segment_of(key), -1)
            return self.session(str(session_id)) if inside else None
        owner = self._owner(segment_of(key))
        if owner is not None and self.takes(owner):
            return self.session(owner)
        for session_id in self._seeing(key):
            if self.takes(session_id):
                return self.session(session_id)
        return None

    def _owner(self, segment: int) -> str | None:
        """Return the session that wrote a segment, None when it was removed."""
        if segment not in self._owners:
            row = self.store.connection.execute(
                "select s.id from segments g join sessions s using(sid) where g.segment = ? and s.deleted is null",
                (segment,),
            ).fetchone()
            self._owners[segment] = row[0] if row else None
        return self._owners[segment]

    def _seeing(self, key: int) -> list[str]:
        return [row[0] for row in self.store.connection.execute(_SEEING, (key,))]

    def others(self, session: Session, key: int) -> tuple[str, ...]:
        """Return ids of other sessions that see an entry."""
        return tuple(session_id for session_id in self._seeing(key) if session_id != session.id)

    def branches_of(self, session: Session, key: int) -> tuple[tuple[str, ...], bool]:
        """Return the branches whose paths go through an entry, the current one first, and whether that is one."""
        names = [name for name, path in self._paths_of(session) if key <= path.get(segment_of(key), -1)]
        active = session.branch in names
        return tuple(sorted(names, key=lambda name: name != session.branch)), active

    def _is_on(self, session: Session, key: int, branch: str) -> bool:
        return any(name == branch and key <= path.get(segment_of(key), -1) for name, path in self._paths_of(session))

    def _paths_of(self, session: Session) -> list[tuple[str, dict[int, int]]]:
        """Return each branch of a session with its path: segment -> last key on it."""
        if session.id not in self._paths:
            forest = self.store.forest
            rows = self.store.connection.execute(
                "select b.name, b.leaf from branches b join sessions s using(sid) where s.id = ? order by b.name",
                (session.id,),
            ).fetchall()
            self._paths[session.id] = [
                (name, {segment_of(last): last for _first, last in forest.ranges(leaf)}) for name, leaf in rows
            ]
        return self._paths[session.id]
