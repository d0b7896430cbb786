"""Where goose's sessions lie: the tables of its database, and the files of lines before 1.10.

One session is held at a time. Damaged rows and lines are counted as lost.
"""

from __future__ import annotations

import os

from pi_sessions.errors import SourceError
from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import ForeignDatabase, RowCount
from pi_sessions.formats.foreign_values import json_of, line_of, object_of, objects_of, text_of, time_of
from pi_sessions.formats.goose import IMPORTER, is_about, is_record
from pi_sessions.formats.goose_session import GooseMessage, GooseSession, Spent
from pi_sessions.formats.json_lines import JsonLines
from pi_sessions.formats.parsed import ChildOf, Repair
from pi_sessions.formats.spool import LaterRecords
from pi_sessions.pauses import CollectionsPaused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_MADE_NAMES = ("New session", "CLI Session", "New Chat", "Chat")


def read_database(path: str) -> Iterator[ParsedSession]:
    """Read all sessions of a database, the oldest first.

    Raises:
        SourceError: it cannot be read, or was changed under the reader.
    """
    with ForeignDatabase(path) as database:
        if "sessions" not in database.columns:
            raise SourceError(f"{path} holds no session of goose: the table sessions is missing or damaged")
        ids = database.rowids("sessions")
        infos = [row for row in (database.row("sessions", rowid) for rowid in ids) if row is not None]
        missing = len(ids) - len(infos) + len(database.damage)
        for info in sorted(infos, key=lambda row: (time_of(row.get("created_at")) or 0, text_of(row.get("id")))):
            with CollectionsPaused():
                session = _read_session(database, info)
            if missing:
                told = f"{missing} rows of the table sessions lie on damaged pages"
                session = session.replace(losses=(Repair(None, "damaged_pages", told), *session.losses))
                missing = 0
            database.check_unchanged()
            yield session
        if missing:
            raise SourceError(f"{path} is damaged: {'; '.join(database.damage[:3])}")


def _read_session(database: ForeignDatabase, info: JsonObject) -> ParsedSession:
    rows = RowCount()
    rows.take(info, header=True)
    damage = len(database.damage)
    session_id = text_of(info.get("id"))
    provider = text_of(info.get("provider_name"))
    model = object_of(json_of(info.get("model_config_json")))
    session = GooseSession(database.path, IMPORTER, provider, text_of(model.get("model_name") or model.get("model")))
    messages: list[GooseMessage] = []
    records = LaterRecords()
    for row in database.ordered("messages", "session_id = ?", session_id, key=_age):
        number = rows.take(row)
        content = json_of(row.get("content_json"))
        if not isinstance(content, list):
            rows.lose(session.builder, number, "damaged_row", f"the content of message {row.get('id')} is no JSON list")
            continue
        metadata = object_of(json_of(row.get("metadata_json")))
        created = row.get("created_timestamp")
        role, name = text_of(row.get("role")), text_of(row.get("message_id"))
        messages.append(GooseMessage(records, name, role, objects_of(content), created, metadata, number))
    ledger: list[Spent] = []
    if "usage_ledger" in database.columns:
        for spent in database.found("usage_ledger", "session_id = ?", session_id):
            ledger.append(Spent(spent, rows.take(spent)))
    session.grow(messages, ledger)
    session.builder.losses += database.damage_since(damage)
    return _finish(session, info, rows.told(session.builder, database.mtime_ms), _child_of(database, info))


def _age(row: JsonObject) -> tuple[int, int]:
    number = row.get("id")
    return time_of(row.get("created_timestamp")) or 0, number if isinstance(number, int) else 0


def _child_of(database: ForeignDatabase, info: JsonObject) -> ChildOf | None:
    parent = text_of(info.get("parent_session_id"))
    kind = text_of(info.get("session_type")).replace("-", "_")
    if not parent and not kind.startswith("sub_agent"):
        return None
    delegation = object_of(json_of(info.get("parent_delegation")))
    call = delegation.get("tool_call_id") or delegation.get("parent_tool_call_id")
    asked = delegation.get("parent_delegate_message_id")
    if not isinstance(call, str) and isinstance(asked, str):
        sql = "select content_json from messages where session_id = ? and message_id = ?"
        for row in database.rows(sql, parent, asked):
            parts = objects_of(json_of(row["content_json"]))
            calls = [text_of(part.get("id")) for part in parts if part.get("type") == "toolRequest"]
            call = calls[0] if len(calls) == 1 else None
    return ChildOf(parent, text_of(info.get("id")), call if isinstance(call, str) else None)


def _finish(session: GooseSession, info: JsonObject, told: JsonObject, child_of: ChildOf | None) -> ParsedSession:
    name = line_of(info.get("name")) or line_of(info.get("description"))
    made = name is None or name.startswith(_MADE_NAMES)
    known = ("id", "name", "description", "working_dir", "created_at", "updated_at", "parent_session_id")
    rest = {key: value for key, value in info.items() if key not in known and value not in (None, "", "{}", 0)}
    return session.builder.finish(
        id=text_of(info.get("id")),
        header={"goose": rest} if rest else {},
        cwd=text_of(info.get("working_dir")),
        created_ms=time_of(info.get("created_at")),
        leaf=session.leaf,
        name=None if made else name,
        child_of=child_of,
        **told,
    )


def read_lines(path: str) -> Iterator[ParsedSession]:
    """Read a file of lines.

    Raises:
        SourceError: it cannot be read, or holds no record of goose.
    """
    lines = JsonLines(path, is_record)
    info: JsonObject = {}
    messages: list[GooseMessage] = []
    records = LaterRecords()
    odd: list[tuple[JsonObject, int]] = []
    for line, record in lines:
        if is_about(record):
            lines.use(line, "header")
            info = {**info, **record}
        elif isinstance(record.get("content"), list) and isinstance(record.get("role"), str):
            lines.use(line, "entries")
            metadata, created = object_of(record.get("metadata")), record.get("created")
            given = objects_of(record["content"])
            name = text_of(record.get("id"))
            messages.append(GooseMessage(records, name, record["role"], given, created, metadata, line))
        else:
            lines.use(line, "entries")
            odd.append((record, line))
    if not info and not messages:
        raise SourceError(f"{path} holds no record of goose")
    session = GooseSession(path, IMPORTER, text_of(info.get("provider_name")), "")
    session.grow(messages, [])
    for record, line in odd:
        last = session.builder.entries[-1] if session.builder.entries else None
        entry = session.builder.not_understood(
            "record",
            record,
            id=f"line-{line}",
            parent=last.id if last else None,
            time_ms=last.time_ms if last else None,
            line=line,
        )
        session.leaf = entry.id
    stem = os.path.basename(inner_name(path)).removesuffix(".jsonl")
    session.builder.repairs += lines.repairs
    session.builder.losses += lines.losses
    told = {"tally": lines.tally(), "digest": lines.digest, "size": lines.size, "mtime_ms": lines.mtime_ms}
    yield _finish(session, {"id": stem, **{key: value for key, value in info.items() if key != "id"}}, told, None)
