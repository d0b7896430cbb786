"""Where message lists lie: JSON files, files of lines, and the database of openai-agents.

A list that is one array is read message by message; of objects one is held at a time. The session's id is made of the
file's name and of how the list begins, since lists have no ids.
"""

from __future__ import annotations

import os
from collections import Counter

from pi_sessions.errors import SourceError
from pi_sessions.formats.building import computed_id
from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import ForeignDatabase, RowCount
from pi_sessions.formats.foreign_values import (
    count_of,
    json_of,
    line_of,
    object_of,
    text_of,
    time_of,
    usage_of,
)
from pi_sessions.formats.json_items import JsonItems, Parts
from pi_sessions.formats.json_lines import JsonLines
from pi_sessions.formats.message_lists import IMPORTER, is_conversation, is_message
from pi_sessions.formats.message_lists_items import MessageList, opening_of
from pi_sessions.formats.parsed import Tally
from pi_sessions.formats.pi_reader import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_sessions.formats.building import SessionBuilder
    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_IDS = ("conversation_id", "session_id", "thread_id", "custom_id", "id")
_KNOWN = ("messages", "input", "system", "instructions", "tools", "model", *_IDS)


class _Ids:
    """Gives each list of a file its id."""

    def __init__(self, path: str) -> None:
        self._stem = os.path.basename(inner_name(path)).rsplit(".", 1)[0] or "messages"
        self._given: Counter[str] = Counter()

    def of(self, told: JsonObject, items: Iterable[JsonObject]) -> str:
        """Return the id a list names, else one made of the file's name and the list's opening."""
        named = next((told[name] for name in _IDS if isinstance(told.get(name), str) and told[name]), None)
        made = named or f"{self._stem}-{opening_of(items)[:8]}"
        self._given[made] += 1
        return made if self._given[made] == 1 else f"{made}-{self._given[made]}"


def _conversation(path: str, ids: _Ids, value: JsonObject, rows: RowCount, mtime_ms: int) -> ParsedSession:
    """Return the session of an object that holds a list."""
    body = object_of(value.get("body")) or value
    given = body.get("messages", body.get("input"))
    listed = given if isinstance(given, list | Parts) else ()
    made = MessageList(path, IMPORTER, model=text_of(body.get("model")))
    rest = {name: each for name, each in (value | body).items() if name not in (*_KNOWN, "body")}
    header_row = rows.take(rest, header=True)
    made.tools(body.get("tools"))
    made.system(body.get("system") or body.get("instructions"), rows.take(body.get("system")))
    for item in listed:
        number = rows.take(item)
        if isinstance(item, dict):
            made.take(item, number)
        else:
            rows.lose(made.builder, number, "not_an_object", "an item of the list is no JSON object")
    made.flush()
    times = (time_of(value.get(name)) for name in ("created_at", "create_time", "created", "timestamp"))
    return made.builder.finish(
        id=ids.of(value, (item for item in listed if isinstance(item, dict))),
        header={"messageList": rest} if rest and header_row else {},
        leaf=made.leaf,
        created_ms=next((time for time in times if time is not None), None),
        title=line_of(value.get("title")),
        **rows.told(made.builder, mtime_ms),
    )


def read_json(path: str) -> Iterator[ParsedSession]:
    """Read a JSON file: an array of messages, an object with messages, or an array of such objects or arrays.

    Raises:
        SourceError: it cannot be read or holds no message.
    """
    ids = _Ids(path)
    holds = ("messages", "input")
    items = JsonItems(path, lambda value: is_conversation(value) or is_message(value), is_message, many=holds)
    single: MessageList | None = None
    rows = RowCount()
    opening: list[JsonObject] = []
    count = known = 0
    if _is_nested(path):
        yield from _read_nested(path, ids)
        return
    for item in items:
        if is_conversation(item.value) or any(isinstance(item.value.get(name), Parts) for name in holds):
            count += 1
            session = _conversation(path, ids, item.value, RowCount(), items.mtime_ms)
            repairs, losses = items.take_notes()
            yield session.replace(repairs=(*session.repairs, *repairs), losses=(*session.losses, *losses))
            continue
        single = single or MessageList(path, IMPORTER, model=text_of(item.value.get("model")))
        for value in [item.value] if item.parts is None else item.parts:
            number = rows.take(value)
            known += is_message(value)
            single.take(value, number)
            if len(opening) < 8:
                opening.append(value)
    if single is not None and rows.rows and (known or count):
        single.flush()
        single.builder.repairs += items.repairs
        single.builder.losses += items.losses
        told = rows.told(single.builder, items.mtime_ms)
        count += 1
        yield single.builder.finish(id=ids.of({}, opening), leaf=single.leaf, **told)
    if not count:
        raise SourceError(f"{path} holds no message")


def _is_nested(path: str) -> bool:
    with open_source(path) as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n\0")
    return start.startswith(b"[") and start[1:].lstrip().startswith(b"[")


def _read_nested(path: str, ids: _Ids) -> Iterator[ParsedSession]:
    with open_source(path) as file:
        mtime_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
        lists = json_of(file.read().decode(errors="replace").lstrip("\ufeff"))
    if not isinstance(lists, list):
        raise SourceError(f"{path} is damaged: its lists of messages cannot be told apart")
    for listed in lists:
        if isinstance(listed, list):
            yield _conversation(path, ids, {"messages": listed}, RowCount(), mtime_ms)


def read_lines(path: str) -> Iterator[ParsedSession]:
    """Read a file of lines: a conversation or a message on each.

    Raises:
        SourceError: it cannot be read or holds no message.
    """
    lines = JsonLines(path, lambda value: is_conversation(value) or is_message(value))
    ids = _Ids(path)
    single = MessageList(path, IMPORTER)
    opening: list[JsonObject] = []
    last: ParsedSession | None = None
    known = lists = last_line = 0
    for line, record in lines:
        if is_conversation(record):
            lines.use(line, "entries")
            if last is not None:
                yield last
            last = _conversation(path, ids, record, _LineOf(line, counts=line != last_line), lines.mtime_ms)
            lists += line != last_line
            last_line = line
            continue
        known += is_message(record)
        lines.use(line, "skipped")
        single.take(record, line)
        if len(opening) < 8:
            opening.append(record)
    if not known and last is None:
        raise SourceError(f"{path} holds no message")
    single.flush()
    for line in single.builder.lines:
        lines.use(line, "entries")
    # Each list has told of its own line.
    told = lines.tally()
    rest = told.replace(lines=told.lines - lists, entries=told.entries - lists)
    if not opening:
        assert last is not None
        yield _with_rest(last, lines, rest)
        return
    if last is not None:
        yield last
    single.builder.repairs += lines.repairs
    single.builder.losses += lines.losses
    yield single.builder.finish(
        id=ids.of({}, opening),
        leaf=single.leaf,
        tally=rest,
        digest=lines.digest,
        size=lines.size,
        mtime_ms=lines.mtime_ms,
    )


class _LineOf(RowCount):
    """The items of a list that lies on one line of a file: all of them are of that line.

    Args:
        line: The line.
        counts: No other list has told of the line.
    """

    def __init__(self, line: int, *, counts: bool) -> None:
        super().__init__()
        self._line = line
        self._counts = counts

    def take(self, row: object, *, header: bool = False) -> int:
        super().take(row)
        return self._line

    def told(self, builder: SessionBuilder, mtime_ms: int) -> JsonObject:
        entries = int(self._counts and bool(builder.entries))
        lost = int(self._counts and not entries and bool(builder.losses))
        lines = int(self._counts)
        skipped = lines - entries - lost
        tally = Tally(lines=lines, header=0, entries=entries, facts=0, blank=0, skipped=skipped, lost=lost)
        return {"tally": tally, "digest": self._hash.hexdigest(), "size": self.size, "mtime_ms": mtime_ms}


def _with_rest(last: ParsedSession, lines: JsonLines, rest: Tally) -> ParsedSession:
    """Return the last session of a file, with what is to be told of all lines that hold no session."""
    own = last.tally
    tally = Tally(
        lines=own.lines + rest.lines,
        header=own.header + rest.header,
        entries=own.entries + rest.entries,
        facts=own.facts + rest.facts,
        blank=own.blank + rest.blank,
        skipped=own.skipped + rest.skipped,
        lost=own.lost + rest.lost,
    )
    losses, repairs = (*last.losses, *lines.losses), (*last.repairs, *lines.repairs)
    told: ParsedSession = last.replace(losses=losses, repairs=repairs, lines_read=tally.lines, tally=tally)
    return told


def read_database(path: str) -> Iterator[ParsedSession]:
    """Read the sessions of openai-agents, branches as branches of one tree.

    Raises:
        SourceError: it cannot be read, or was changed under the reader.
    """
    with ForeignDatabase(path) as database:
        sessions = list(database.rows("select * from agent_sessions order by created_at, session_id"))
        for session in sessions:
            parsed = _agent_session(database, session)
            database.check_unchanged()
            yield parsed
        if database.damage and not sessions:
            raise SourceError(f"{path} is damaged: {'; '.join(database.damage[:3])}")


def _agent_session(database: ForeignDatabase, session: JsonObject) -> ParsedSession:
    session_id = text_of(session.get("session_id"))
    rows = RowCount()
    rows.take(session, header=True)
    made = MessageList(database.path, IMPORTER)
    damage = len(database.damage)
    taken: dict[int, int] = {}
    lost: set[int] = set()
    tips: dict[str, str] = {}
    branches = _branches(database, session_id)
    usage = _turn_usage(database, session_id, branches)
    for branch, rowids in branches.items():
        made.restart()
        for rowid in rowids:
            row = database.row("agent_messages", rowid)
            if row is None:
                continue
            if rowid not in taken:
                taken[rowid] = rows.take(row)
            item = json_of(row.get("message_data"))
            if isinstance(item, dict):
                made.take({"created_at": row.get("created_at"), **item}, taken[rowid])
            elif rowid not in lost:
                lost.add(rowid)
                told = f"message {row.get('id')} is no JSON object"
                rows.lose(made.builder, taken[rowid], "damaged_row", told)
            if rowid in usage:
                _spend(made, rows, usage[rowid])
        made.flush()
        if made.leaf is not None:
            tips[branch] = made.leaf
    made.builder.losses += database.damage_since(damage)
    named: dict[str, tuple[str, int | None]] = {
        leaf: (branch, None) for branch, leaf in tips.items() if branch != "main" and len(tips) > 1
    }
    return made.builder.finish(
        id=session_id or f"messages-{computed_id(session)}",
        created_ms=time_of(session.get("created_at")),
        leaf=tips.get("main") or made.leaf,
        labels=named,
        **rows.told(made.builder, database.mtime_ms),
    )


def _branches(database: ForeignDatabase, session_id: str) -> dict[str, list[int]]:
    """Return the messages of each branch in order; one branch where the database knows none."""
    found: dict[str, list[int]] = {}
    if "message_structure" in database.columns:
        sql = (
            "select m.rowid as at, s.branch_id from message_structure s join agent_messages m on m.id = s.message_id"
            " where s.session_id = ? order by s.sequence_number, s.id"
        )
        for row in database.rows(sql, session_id):
            found.setdefault(text_of(row["branch_id"]) or "main", []).append(row["at"])
    return found or {"main": database.rowids("agent_messages", "session_id = ?", session_id)}


def _turn_usage(database: ForeignDatabase, session_id: str, branches: dict[str, list[int]]) -> dict[int, JsonObject]:
    """Return what each turn used by the turn's last message, which branches that share the turn have in common."""
    if "turn_usage" not in database.columns or "message_structure" not in database.columns:
        return {}
    sql = (
        "select u.*, (select m.rowid from message_structure s join agent_messages m on m.id = s.message_id"
        " where s.session_id = u.session_id and s.branch_id = u.branch_id and s.user_turn_number = u.user_turn_number"
        " order by s.sequence_number desc, s.id desc limit 1) as last_message from turn_usage u where u.session_id = ?"
    )
    known = {rowid for rowids in branches.values() for rowid in rowids}
    return {row["last_message"]: row for row in database.rows(sql, session_id) if row["last_message"] in known}


def _spend(made: MessageList, rows: RowCount, row: JsonObject) -> None:
    """Add the usage of a turn behind it."""
    made.flush()
    details = object_of(json_of(row.get("input_tokens_details")))
    answer = object_of(json_of(row.get("output_tokens_details")))
    total = count_of(row.get("input_tokens"))
    cached = min(count_of(details.get("cached_tokens")), total)
    reasoning = answer.get("reasoning_tokens")
    usage = usage_of(total - cached, row.get("output_tokens"), cache_read=cached, reasoning=reasoning)
    fields = {"kind": "turn", "provider": "openai", "model": "", "usage": usage}
    made.add_usage(fields, row.get("id"), rows)
