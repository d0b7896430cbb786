"""Where opencode's sessions lie: the tables of its database, the folders of its older versions, an exported file.

Gives `OpencodeSession` (or `NextSession`, for the newest tables) one message after the other; nothing is held but the
session at hand. Damaged rows and files are counted as lost.
"""

from __future__ import annotations

import os

from pi_sessions.errors import SourceError
from pi_sessions.formats.foreign_database import ForeignDatabase, RowCount
from pi_sessions.formats.foreign_values import json_of, object_of, text_of, time_of
from pi_sessions.formats.json_items import JsonItems, Parts
from pi_sessions.formats.opencode import IMPORTER
from pi_sessions.formats.opencode_next import NextSession
from pi_sessions.formats.opencode_session import OpencodeSession, Part, parts_from
from pi_sessions.formats.parsed import Repair
from pi_sessions.pauses import CollectionsPaused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.formats.spool import OrderedRecords
    from pi_sessions.stored import JsonObject

_SPELLINGS = {"parent_id": "parentID", "project_id": "projectID", "workspace_id": "workspaceID"}
_JSON_COLUMNS = ("revert", "permission", "metadata", "summary_diffs", "model")
_TIMES = {"time_created": "created", "time_updated": "updated"}


# --- the database -----------------------------------------------------------------------------------------------------


def read_database(path: str, *, live: bool) -> Iterator[ParsedSession]:
    """Read all sessions of a database, the oldest first.

    Args:
        live: An answer at the end that is not finished is left for the next time.

    Raises:
        SourceError: it cannot be read, or was changed under the reader.
    """
    with ForeignDatabase(path) as database:
        if "session" not in database.columns:
            raise SourceError(f"{path} holds no session of opencode: the table session is missing or damaged")
        found = [(rowid, database.row("session", rowid)) for rowid in database.rowids("session")]
        infos = [info_of(row) for _rowid, row in found if row is not None]
        missing = len(found) - len(infos) + len(database.damage)
        calls: dict[str, str] = {}
        for info in sorted(infos, key=_age):
            with CollectionsPaused():
                session = _read_rows(database, info, calls, live=live)
            if missing:
                told = f"{missing} rows of the table session lie on damaged pages"
                session = session.replace(losses=(Repair(None, "damaged_pages", told), *session.losses))
                missing = 0
            database.check_unchanged()
            yield session
        if not infos and missing:
            raise SourceError(f"{path} is damaged: {'; '.join(database.damage[:3]) or 'its sessions cannot be read'}")


def _age(info: JsonObject) -> tuple[int, str]:
    return time_of(object_of(info.get("time")).get("created")) or 0, text_of(info.get("id"))


def info_of(row: JsonObject) -> JsonObject:
    """Return a row of the table session in the spelling of the JSON files."""
    info: JsonObject = {"time": {}}
    for name, value in row.items():
        if value is None or isinstance(value, bytes):
            continue
        if name.startswith("time_"):
            info["time"][_TIMES.get(name, name.removeprefix("time_"))] = value
        elif name in _JSON_COLUMNS and isinstance(value, str):
            info[name] = json_of(value) if json_of(value) is not None else value
        else:
            info[_SPELLINGS.get(name, name)] = value
    return info


def _read_rows(database: ForeignDatabase, info: JsonObject, calls: dict[str, str], *, live: bool) -> ParsedSession:
    rows = RowCount()
    rows.take(info, header=True)
    session_id = text_of(info.get("id"))
    damage = len(database.damage)
    messages: OrderedRecords | tuple[()] = ()
    if "message" in database.columns:
        messages = database.ordered("message", "session_id = ?", session_id, key=_place)
    if not messages and "session_message" in database.columns:
        return _read_next(database, info, rows, damage)
    session = OpencodeSession(database.path, IMPORTER, info, rows, calls)
    for place, message in enumerate(messages):
        number = rows.take(message)
        data = json_of(message.get("data"))
        if not isinstance(data, dict):
            told = f"the data of message {message.get('id')} is no JSON object"
            rows.lose(session.builder, number, "damaged_row", told)
            continue
        times = object_of(data.get("time"))
        given = {**data, "id": text_of(message.get("id")), "time": {"created": message.get("time_created"), **times}}
        unfinished = data.get("role") == "assistant" and not times.get("completed") and not data.get("error")
        if live and unfinished and place == len(messages) - 1:
            break
        session.take(given, list(_parts(database, session, given["id"])), number)
    _note_damage(session, database, damage)
    return session.finish(database.mtime_ms)


def _place(row: JsonObject) -> tuple[int, str]:
    """Return what opencode orders its rows by: time and id."""
    return time_of(row.get("time_created")) or 0, text_of(row.get("id"))


def _parts(database: ForeignDatabase, session: OpencodeSession, message_id: str) -> Iterator[Part]:
    for row in sorted(database.found("part", "message_id = ?", message_id), key=lambda row: text_of(row.get("id"))):
        number = session.rows.take(row)
        data = json_of(row.get("data"))
        if isinstance(data, dict):
            yield Part({**data, "id": text_of(row.get("id"))}, number)
        else:
            told = f"the data of part {row.get('id')} is no JSON object"
            session.rows.lose(session.builder, number, "damaged_row", told)


def _note_damage(session: OpencodeSession | NextSession, database: ForeignDatabase, before: int) -> None:
    session.builder.losses += database.damage_since(before)


def _read_next(database: ForeignDatabase, info: JsonObject, rows: RowCount, damage: int) -> ParsedSession:
    session = NextSession(database.path, IMPORTER, info, rows)
    for row in database.ordered("session_message", "session_id = ?", text_of(info.get("id")), key=_seq):
        number = rows.take(row)
        data = json_of(row.get("data"))
        if isinstance(data, dict):
            session.take(text_of(row.get("id")), text_of(row.get("type")), data, row.get("time_created"), number)
        else:
            rows.lose(session.builder, number, "damaged_row", f"the data of message {row.get('id')} is no JSON object")
    _note_damage(session, database, damage)
    return session.finish(database.mtime_ms)


def _seq(row: JsonObject) -> tuple[int]:
    return (row["seq"] if isinstance(row.get("seq"), int) else 0,)


# --- folders ----------------------------------------------------------------------------------------------------------


def read_storage(path: str) -> Iterator[ParsedSession]:
    """Read all sessions of the JSON folders of opencode before 1.2, the oldest first."""
    infos: list[tuple[tuple[int, str], str]] = []
    damaged: list[Repair] = []
    for file in _json_files(os.path.join(path, "session"), depth=2):
        nested = os.path.relpath(file, path).split(os.sep)[1]
        if nested in ("message", "part", "share"):
            continue
        info = _load(file)
        if isinstance(info, dict) and isinstance(info.get("id"), str):
            infos.append((_age(info), file))
        else:
            damaged.append(Repair(None, "damaged_file", f"{file} holds no session's JSON object"))
    calls: dict[str, str] = {}
    for _age_of, file in sorted(infos):
        session = _read_files(path, file, calls)
        if damaged:
            session = session.replace(losses=(*damaged, *session.losses))
            damaged = []
        yield session
    if damaged:
        raise SourceError(f"{path} holds no readable session of opencode: {damaged[0].message}")
    if not infos:
        raise SourceError(f"{path} holds no session of opencode")


def _read_files(path: str, file: str, calls: dict[str, str]) -> ParsedSession:
    info = object_of(_load(file))
    rows = RowCount()
    rows.take(info, header=True)
    session = OpencodeSession(path, IMPORTER, info, rows, calls)
    session_id = text_of(info.get("id"))
    newest = os.stat(file).st_mtime_ns
    messages: list[tuple[tuple[int, str], JsonObject, int]] = []
    for folder in _folders(path, "message", session_id):
        for each in _json_files(folder):
            newest = max(newest, os.stat(each).st_mtime_ns)
            data = _taken(each, session)
            if data is not None:
                data[0].setdefault("id", os.path.basename(each).removesuffix(".json"))
                messages.append((_age(data[0]), *data))
    for _age_of, message, number in sorted(messages, key=lambda each: each[0]):
        message_id = text_of(message.get("id"))
        parts: list[Part] = []
        nested = os.path.join(path, "session", "part", session_id, message_id)
        for folder in (*_folders(path, "part", message_id), nested):
            for each in _json_files(folder):
                data = _taken(each, session)
                if data is not None:
                    parts.append(Part(*data))
        session.take(message, sorted(parts, key=lambda part: part.id), number)
    return session.finish(newest // 1_000_000)


def _taken(file: str, session: OpencodeSession) -> tuple[JsonObject, int] | None:
    data = _load(file)
    number = session.rows.take(data)
    if isinstance(data, dict):
        return data, number
    session.rows.lose(session.builder, number, "damaged_file", f"{file} holds no JSON object")
    return None


def _folders(path: str, kind: str, name: str) -> tuple[str, ...]:
    return (os.path.join(path, kind, name), os.path.join(path, "session", kind, name))


def _json_files(folder: str, depth: int = 1) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        inner = os.path.join(folder, name)
        if name.endswith(".json") and os.path.isfile(inner):
            yield inner
        elif depth > 1 and os.path.isdir(inner):
            yield from _json_files(inner, depth - 1)


def _load(file: str) -> object:
    try:
        with open(file, "rb") as opened:
            return json_of(opened.read().decode(errors="replace").lstrip("\ufeff"))
    except OSError:
        return None


# --- an exported file -------------------------------------------------------------------------------------------------


def is_exported(value: JsonObject) -> bool:
    """Whether an object is an exported session."""
    return isinstance(value.get("info"), dict) and isinstance(value.get("messages"), list)


def _is_message(value: JsonObject) -> bool:
    return isinstance(value.get("parts"), list) and isinstance(value.get("info"), dict)


def read_exported(path: str) -> Iterator[ParsedSession]:
    """Read what `opencode export` writes; of a damaged file the whole messages.

    Raises:
        SourceError: it cannot be read or holds no session.
    """
    items = JsonItems(path, is_exported, _is_message, many=("messages",))
    calls: dict[str, str] = {}
    count = 0
    for item in items:
        listed = item.value.get("messages")
        messages = item.parts if item.parts is not None else listed if isinstance(listed, list | Parts) else ()
        first = next((message for message in messages if isinstance(message, dict)), None)
        info = object_of(item.value.get("info"))
        if item.parts is not None and first is not None:
            info = {"id": text_of(object_of(first.get("info")).get("sessionID"))}
        if not info or (first is None and not is_exported(item.value)):
            continue
        rows = RowCount()
        rows.take(info, header=True)
        session = OpencodeSession(path, IMPORTER, info, rows, calls)
        for message in messages:
            if not isinstance(message, dict):
                continue
            told = object_of(message.get("info"))
            number = rows.take(told)
            session.take(told, parts_from(message.get("parts"), rows), number)
        repairs, losses = items.take_notes()
        session.builder.repairs += repairs
        session.builder.losses += losses
        count += 1
        yield session.finish(items.mtime_ms)
    if not count:
        raise SourceError(f"{path} holds no session of opencode")
