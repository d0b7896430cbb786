"""What conversations have used: tokens and cost by session, branch, model, tool, day and directory.

Every stored entry counts once, for the session that wrote it, however many forks and branches share it: so a session or
branch is charged with what it cost beyond its fork point. A price that was not recorded is said, never guessed. Reads
only.
"""

from __future__ import annotations

from pi_sessions.entry_text import entry_text
from pi_sessions.errors import UsageError
from pi_sessions.forest import first_key, segment_of
from pi_sessions.records import Record
from pi_sessions.stored import StoredEntry
from pi_sessions.tokens import USAGE_PARTS, estimate_tokens, number
from pi_sessions.totals import entry_usages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from pi_sessions.reading import Reading
    from pi_sessions.stored import JsonObject

GROUPS = ("session", "branch", "model", "tool", "day", "directory")
NO_TOOL = "(no tool)"
LEFT_BEHIND = "(left behind)"
SHARED = "(before the fork)"
NO_DIRECTORY = "(none)"
UNKNOWN_DAY = "(unknown)"
_USED = (
    "select key, id, kind, ts, payload, extra from entries where kind in"
    " ('message', 'usage', 'compaction', 'branch_summary') and instr(payload, '\"usage\"')"
)
_RESULTS = "select key, payload from entries where kind = 'message' and instr(payload, '\"toolResult\"')"


class Use(Record):
    """What one entry used.

    Attributes:
        session_id: Session that wrote it.
        model: Key as in `totals.cost_breakdown`.
        tools: Tools the answer calls.
        parts: Tokens by `USAGE_PARTS`.
        cost: US dollars, 0 when unknown.
        priced: Whether a price was recorded.
        saved: What the cache saved against the full input price, None when that price is unknown.
    """

    key: int
    session_id: str
    cwd: str
    time_ms: int | None
    model: str
    tools: tuple[str, ...]
    parts: tuple[float, ...]
    cost: float
    priced: bool
    saved: float | None


class StatRow(Record):
    """Sums over some uses.

    Attributes:
        key: What they have in common: a session's id, a branch, a model, a tool, a day, a directory.
        answers: How many usages were counted; for a tool its calls.
        tokens: All four parts together.
        cost: US dollars, of those with a known price.
        unpriced: Usages of tokens without a price.
        saved: What the cache saved, US dollars, where it is known.
        saving_unknown: Usages with cached tokens whose full price is unknown.
        whole_cost: For a branch the cost of its whole path, None otherwise.
        whole_unpriced: For a branch the usages of its whole path without a price.
        failed: For a tool its failed results, None otherwise.
        output_tokens: For a tool the estimated tokens of its results, None otherwise.
    """

    key: str
    answers: float = 0
    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    cost: float = 0
    unpriced: int = 0
    saved: float = 0
    saving_unknown: int = 0
    whole_cost: float | None = None
    whole_unpriced: int = 0
    failed: int | None = None
    output_tokens: int | None = None

    @property
    def tokens(self) -> float:
        """Input, output and both cache figures."""
        return self.input + self.output + self.cache_read + self.cache_write


class Statistics(Record):
    """Rows and their sum.

    Attributes:
        by: What the rows are grouped by.
        rows: Dearest first; days in their order.
        total: The sum over all uses, each counted once.
        unpriced_models: Models whose uses have no price.
    """

    by: str
    rows: tuple[StatRow, ...]
    total: StatRow
    unpriced_models: tuple[str, ...]


def statistics(
    store: Reading,
    by: str,
    *,
    session_id: str | None = None,
    cwd: str | None = None,
    since_ms: int | None = None,
    day: Callable[[int], str],
) -> Statistics:
    """Return what was used, grouped.

    Args:
        store: An open store.
        by: One of `GROUPS`; `branch` needs a session.
        session_id: Only what this session sees.
        cwd: Only what sessions of this directory wrote.
        since_ms: Only entries of this time or later, Unix milliseconds.
        day: Gives the name of the day of a time; days sort by their names.

    Raises:
        UsageError: `branch` without a session.
    """
    if by not in GROUPS:
        raise ValueError(f"unknown group {by!r}")
    if by == "branch" and session_id is None:
        raise UsageError("Statistics by branch are those of one session", hint="say which: pi-session stats SESSION")
    scope = _Scope(store, session_id, cwd, since_ms)
    uses = scope.uses()
    if by == "tool":
        rows = _by_tool(uses, scope)
    elif by == "branch":
        rows = _by_branch(store, str(session_id), uses)
    else:
        keys: dict[str, Callable[[Use], str]] = {
            "session": lambda use: use.session_id,
            "model": lambda use: use.model,
            "day": lambda use: UNKNOWN_DAY if use.time_ms is None else day(use.time_ms),
            "directory": lambda use: use.cwd or NO_DIRECTORY,
        }
        rows = _grouped(uses, keys[by])
    if by == "day":
        rows.sort(key=lambda row: row.key)
    elif by != "branch":
        rows.sort(key=lambda row: (-row.cost, -row.tokens, row.key))
    unpriced = {use.model for use in uses if not use.priced}
    return Statistics(by, tuple(rows), _sum("total", uses), tuple(sorted(unpriced)))


class _Scope:
    """Which entries count, and for whom."""

    def __init__(self, store: Reading, session_id: str | None, cwd: str | None, since_ms: int | None) -> None:
        self.store = store
        self.execute = store.connection.execute
        self.cwd = cwd
        self.since_ms = since_ms
        self.owners: dict[int, tuple[str, str, bool]] = {
            segment: (owner, folder, bool(deleted))
            for segment, owner, folder, deleted in self.execute(
                "select g.segment, s.id, s.cwd, s.deleted is not null from segments g join sessions s using(sid)"
            )
        }
        self.seen = None if session_id is None else store.forest.visible(store._sid(session_id))
        self._shared = self._seen_of_removed() if session_id is None else {}

    def _seen_of_removed(self) -> dict[int, int]:
        """Return what living sessions see of segments that removed ones wrote: segment -> last key seen."""
        removed = {segment for segment, (_id, _cwd, deleted) in self.owners.items() if deleted}
        if not removed:
            return {}
        seen: dict[int, int] = {}
        for (sid,) in self.execute("select sid from sessions where deleted is null and origin is not null").fetchall():
            for segment, last in self.store.forest.visible(sid).items():
                if segment in removed:
                    seen[segment] = max(last, seen.get(segment, last))
        return seen

    def takes(self, key: int) -> bool:
        """Whether an entry counts."""
        segment = segment_of(key)
        if self.seen is not None:
            return key <= self.seen.get(segment, -1)
        _owner, folder, deleted = self.owners[segment]
        if self.cwd is not None and folder != self.cwd:
            return False
        return not deleted or key <= self._shared.get(segment, -1)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of entries in scope; `query` selects their columns, the key first, and has a condition."""
        where, values = ("", ()) if self.since_ms is None else (" and ts >= ?", (self.since_ms,))
        if self.seen is None:
            found = self.execute(f"{query}{where}", values).fetchall()
        else:
            found = []
            for segment, last in self.seen.items():
                found += self.execute(f"{query}{where} and key between ? and ?", (*values, first_key(segment), last))
        return [row for row in found if self.takes(row[0])]

    def uses(self) -> list[Use]:
        """Return everything that was used, oldest key first; usages of nothing left out."""
        found: list[tuple[StoredEntry, str, JsonObject]] = []
        counted: set[tuple[object, ...]] = set()
        for key, entry_id, kind, time_ms, payload, extra in sorted(self.rows(_USED), key=lambda row: row[0]):
            entry = StoredEntry(entry_id, None, kind, time_ms, payload, extra, key)
            used = list(entry_usages(entry))
            # A fork that begins with a copy of its origin's end, and not of its beginning, shares no entry with it.
            spent = (time_ms, (entry.message or {}).get("responseId") or entry_id, repr(used))
            if spent not in counted:
                counted.add(spent)
                found += [(entry, model, usage) for model, usage in used]
        prices = _input_prices((model, usage) for _entry, model, usage in found)
        uses = [self._use(entry, model, usage, prices.get(model)) for entry, model, usage in found]
        return [use for use in uses if any(use.parts) or use.cost]

    def _use(self, entry: StoredEntry, model: str, usage: JsonObject, price: float | None) -> Use:
        owner, folder, _deleted = self.owners[segment_of(entry.key)]
        parts = tuple(number(usage.get(part)) for part in USAGE_PARTS)
        costs = usage.get("cost")
        cost = number(costs.get("total")) if isinstance(costs, dict) else 0
        tools = entry_text(entry.type, entry.payload).tools if entry.role == "assistant" else ()
        priced = cost > 0 or not sum(parts)
        return Use(
            entry.key, owner, folder, entry.time_ms, model, tools, parts, cost, priced, _saving(parts, costs, price)
        )


def _input_prices(used: Iterable[tuple[str, JsonObject]]) -> dict[str, float]:
    """Return dollars per input token by model, as recorded with the latest usage that has both."""
    prices: dict[str, float] = {}
    for model, usage in used:
        costs = usage.get("cost")
        tokens = number(usage.get("input"))
        paid = number(costs.get("input")) if isinstance(costs, dict) else 0
        if tokens > 0 and paid > 0:
            prices[model] = paid / tokens
    return prices


def _saving(parts: Sequence[float], costs: object, price: float | None) -> float | None:
    """Return what cached tokens would have cost as input, less what they did cost; 0 without cached tokens."""
    cached = parts[2] + parts[3]
    if not cached:
        return 0.0
    if price is None or not isinstance(costs, dict):
        return None
    return cached * price - number(costs.get("cacheRead")) - number(costs.get("cacheWrite"))


def _grouped(uses: Sequence[Use], key: Callable[[Use], str]) -> list[StatRow]:
    groups: dict[str, list[Use]] = {}
    for use in uses:
        groups.setdefault(key(use), []).append(use)
    return [_sum(name, group) for name, group in groups.items()]


def _sum(key: str, uses: Sequence[Use], share: Callable[[Use], float] = lambda _use: 1.0) -> StatRow:
    """Return the sum of uses.

    Args:
        share: How much of each use counts here, 0 to 1.
    """
    shares = [(use, share(use)) for use in uses]
    sums = [sum(use.parts[place] * part for use, part in shares) for place in range(len(USAGE_PARTS))]
    return StatRow(
        key,
        answers=len(uses),
        input=sums[0],
        output=sums[1],
        cache_read=sums[2],
        cache_write=sums[3],
        cost=sum(use.cost * part for use, part in shares),
        unpriced=sum(not use.priced for use in uses),
        saved=sum((use.saved or 0) * part for use, part in shares),
        saving_unknown=sum(use.saved is None for use in uses),
    )


def _by_tool(uses: Sequence[Use], scope: _Scope) -> list[StatRow]:
    """Return a row per tool: an answer's use is shared out evenly among its calls."""
    failed: dict[str, int] = {}
    results: dict[str, int] = {}
    for _key, payload in scope.rows(_RESULTS):
        message = StoredEntry("", None, "message", None, payload).message or {}
        name = message.get("toolName")
        if message.get("role") == "toolResult" and isinstance(name, str):
            failed[name] = failed.get(name, 0) + bool(message.get("isError"))
            results[name] = results.get(name, 0) + estimate_tokens(message)
    names = dict.fromkeys(tool for use in uses for tool in use.tools)
    rows = [_tool_row(name, uses, failed, results) for name in (*names, *(results.keys() - names.keys()))]
    without = [use for use in uses if not use.tools]
    return rows + ([_sum(NO_TOOL, without)] if without else [])


def _tool_row(name: str, uses: Sequence[Use], failed: dict[str, int], results: dict[str, int]) -> StatRow:
    calling = [use for use in uses if name in use.tools]
    row = _sum(name, calling, lambda use: use.tools.count(name) / len(use.tools))
    calls = sum(use.tools.count(name) for use in calling)
    replaced: StatRow = row.replace(answers=calls, failed=failed.get(name, 0), output_tokens=results.get(name, 0))
    return replaced


def _by_branch(store: Reading, session_id: str, uses: Sequence[Use]) -> list[StatRow]:
    """Return a row per branch for what it cost beyond its fork point, `main` first; each use is in one row only."""
    connection = store.connection
    branches = connection.execute(
        "select b.name, b.leaf from branches b join sessions s using(sid) where s.id = ?"
        " order by b.name <> 'main', b.name",
        (session_id,),
    ).fetchall()
    paths = {name: {segment_of(last): last for _first, last in store.forest.ranges(leaf)} for name, leaf in branches}
    groups: dict[str, list[Use]] = {name: [] for name in paths}
    wholes: dict[str, float] = dict.fromkeys(paths, 0.0)
    unpriced = dict.fromkeys(paths, 0)
    shared: list[Use] = []
    behind: list[Use] = []
    for use in uses:
        on = [name for name, path in paths.items() if use.key <= path.get(segment_of(use.key), -1)]
        for name in on:
            wholes[name] += use.cost
            unpriced[name] += not use.priced
        if use.session_id != session_id:
            shared.append(use)
        elif on:
            groups[on[0]].append(use)
        else:
            behind.append(use)
    rows = [_sum(SHARED, shared)] if shared else []
    for name, group in groups.items():
        row: StatRow = _sum(name, group).replace(whole_cost=wholes[name], whole_unpriced=unpriced[name])
        rows.append(row)
    return rows + ([_sum(LEFT_BEHIND, behind)] if behind else [])
