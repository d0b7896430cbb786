"""Reads llm's database: one session for each thread, and for each conversation of older versions that is no thread.

Threads point into one tree of messages named by hash: an entry's id is that hash, so what threads have in common is
shared. A message's time, model and usage are those of the first turn that made it. Conversations of older versions are
straight lists of responses. Only the session at hand is held, and an index of times.

Source: llm 0.36, `logs.db`.
"""

from __future__ import annotations

from pi_sessions.errors import SourceError
from pi_sessions.formats import llm_logs_messages as values
from pi_sessions.formats.building import SessionBuilder
from pi_sessions.formats.foreign_database import ForeignDatabase, RowCount
from pi_sessions.formats.foreign_values import json_of, line_of, object_of, objects_of, result_message, text_of, time_of
from pi_sessions.formats.llm_logs import CURRENT, IMPORTER, OLDER, has
from pi_sessions.formats.llm_logs_responses import Responses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

NAME = "llm"


def read_database(path: str) -> Iterator[ParsedSession]:
    """Read all threads and conversations.

    Raises:
        SourceError: it cannot be read, or was changed under the reader.
    """
    with ForeignDatabase(path) as database:
        current, older = has(database.columns, CURRENT), has(database.columns, OLDER)
        if not current and not older:
            raise SourceError(f"{path} holds no table of llm, or they are damaged")
        responses = Responses(database) if older else None
        threads: set[str] = set()
        told = 0
        for session in _all_sessions(database, responses, threads, current=current):
            if not told:
                # What the lists of messages and responses lack is no session's own.
                session = session.replace(losses=(*database.damage_since(0), *session.losses))
            told += 1
            database.check_unchanged()
            yield session
        if database.damage and not told:
            raise SourceError(f"{path} is damaged: {'; '.join(database.damage[:3])}")


def _all_sessions(
    database: ForeignDatabase, responses: Responses | None, threads: set[str], *, current: bool
) -> Iterator[ParsedSession]:
    if current:
        for session in _Threads(database, responses).read():
            threads.add(session.id)
            yield session
    if responses is not None:
        yield from responses.read(but=threads)


class _Threads:
    """The tree of messages and the threads that point into it."""

    def __init__(self, database: ForeignDatabase, responses: Responses | None) -> None:
        self.database = database
        self.responses = responses
        # When a message was first made, and the turn whose answer it is (row id).
        self._times: dict[str, int | None] = {}
        self._made: dict[str, int] = {}
        self._again: dict[str, list[int]] = {}
        self._parents: dict[str, str | None] = {}

    def read(self) -> Iterator[ParsedSession]:
        """Yield a session for each thread, those forked from before the forks."""
        rows = self.database.rows("select rowid as at, hash, parent_hash from messages")
        self._parents = {text_of(row["hash"]): row["parent_hash"] for row in rows}
        turns: dict[str, list[JsonObject]] = {}
        sql = "select rowid as at, id, thread_id, tip_message_hash, datetime_utc from turns order by id"
        sql = "select rowid as at, id, thread_id, tip_message_hash, datetime_utc from turns order by id"
        for turn in self.database.rows(sql):
            self._note(turn)
            turns.setdefault(text_of(turn["thread_id"]), []).append(turn)
        threads = [row for row in map(self._thread, self.database.rowids("threads")) if row is not None]
        for thread in sorted(threads, key=lambda row: (time_of(row.get("datetime_utc")) or 0, text_of(row.get("id")))):
            yield self._session(thread, turns.get(text_of(thread.get("id")), []))

    def _thread(self, rowid: int) -> JsonObject | None:
        return self.database.row("threads", rowid)

    def _note(self, turn: JsonObject) -> None:
        """Note time and answer of a turn; the first turn that made a message counts."""
        time_ms = time_of(turn["datetime_utc"])
        tip = turn["tip_message_hash"]
        if isinstance(tip, str):
            if tip in self._made:
                self._again.setdefault(tip, []).append(turn["at"])
            self._made.setdefault(tip, turn["at"])
        at, seen = tip, set()
        while isinstance(at, str) and at in self._parents and at not in self._times and at not in seen:
            seen.add(at)
            self._times[at] = time_ms
            at = self._parents[at]

    def _session(self, thread: JsonObject, turns: list[JsonObject]) -> ParsedSession:
        rows = RowCount()
        rows.take(thread, header=True)
        builder = SessionBuilder(NAME, self.database.path, IMPORTER, untimed=True)
        damage = len(self.database.damage)
        last_of: dict[str, str] = {}
        tips = [turn["tip_message_hash"] for turn in turns] + [thread.get("tip_message_hash")]
        answers: list[tuple[str, JsonObject]] = []
        for tip in tips:
            for message_hash in self._path(tip, last_of):
                self._message(builder, rows, message_hash, last_of, answers)
        if self.responses is not None:
            self.responses.complete(text_of(thread.get("id")), builder, answers)
        builder.losses += self.database.damage_since(damage)
        name = line_of(thread.get("name"))
        return builder.finish(
            id=text_of(thread.get("id")) or f"llm-{rows.rows}",
            created_ms=time_of(thread.get("datetime_utc")),
            leaf=last_of.get(text_of(thread.get("tip_message_hash"))),
            parent_ref=text_of(thread.get("forked_from")) or None,
            title=name,
            **rows.told(builder, self.database.mtime_ms),
        )

    def _path(self, tip: object, known: dict[str, str]) -> list[str]:
        """Return the messages up to a tip that are not known yet, oldest first."""
        path: list[str] = []
        at, seen = tip, set()
        while isinstance(at, str) and at in self._parents and at not in known and at not in seen:
            seen.add(at)
            path.append(at)
            at = self._parents[at]
        return path[::-1]

    def _message(
        self,
        builder: SessionBuilder,
        rows: RowCount,
        message_hash: str,
        last_of: dict[str, str],
        answers: list[tuple[str, JsonObject]],
    ) -> None:
        database = self.database
        row = next(database.rows("select * from messages where hash = ?", message_hash), {})
        parts = list(database.rows("select * from parts where message_hash = ? order by position", message_hash))
        number = rows.take((row, parts))
        above = self._parents.get(message_hash)
        if not row:
            rows.lose(builder, number, "damaged_row", f"the message {message_hash} lies on a damaged page")
            last_of[message_hash] = last_of.get(above, "") if isinstance(above, str) else ""
            return
        role = text_of(row.get("role"))
        where: dict[str, Any] = {"time_ms": self._times.get(message_hash), "line": number, "foreign_id": message_hash}
        parent = (last_of.get(above) or None) if isinstance(above, str) else None
        blocks: list[JsonObject] = []
        added: list[JsonObject] = []
        for part in parts:
            kind, block = values.part_block(part, self._fragment, self._attachment)
            if kind == "tool_result":
                added.append(self._result(block))
            else:
                blocks.append(block)
        if blocks or not added:
            message: JsonObject = {"role": role if role in ("system", "user") else "user", "content": blocks}
            if role == "assistant":
                turn = database.row("turns", self._made[message_hash]) if message_hash in self._made else None
                message = values.answer_of(turn or {}, blocks)
            elif role not in ("system", "user", "tool"):
                message["role"] = role
            added.append(message)
        metadata = json_of(row.get("provider_metadata"))
        if metadata:
            added[-1]["llm"] = object_of(added[-1].get("llm")) | {"providerMetadata": metadata}
        for place, message in enumerate(added):
            base = message_hash.partition(":")[2] or message_hash
            entry = builder.message(message, id=base if not place else f"{base}.{place}", parent=parent, **where)
            parent = entry.id
            if message["role"] == "assistant" and message_hash not in self._made:
                answers.append((entry.id, message))
        last_of[message_hash] = parent or ""
        for again in self._again.get(message_hash, ()):
            self._spent_again(builder, rows, again, parent)

    def _spent_again(self, builder: SessionBuilder, rows: RowCount, rowid: int, parent: str | None) -> None:
        """Add the usage of a further turn that gave the same answer."""
        turn = self.database.row("turns", rowid)
        if turn is not None:
            model = text_of(turn.get("model"))
            provider = values.provider_of(model)[0]
            fields = {"kind": "turn", "provider": provider, "model": model, "usage": values.tokens_of(turn)}
            time_ms = time_of(turn.get("datetime_utc"))
            turn_id = text_of(turn.get("id"))
            builder.add("usage", fields, id=f"turn-{turn_id}", parent=parent, time_ms=time_ms, line=rows.take(turn))

    def _result(self, payload: JsonObject) -> JsonObject:
        output = payload.get("output")
        text = output if isinstance(output, str) else "" if output is None else str(output)
        exception = payload.get("exception")
        call, name = payload.get("tool_call_id"), payload.get("name")
        details = {"exception": exception} if exception else None
        message = result_message(call, name, text, failed=bool(exception), details=details)
        attached = [self._attachment(text_of(each.get("id"))) for each in objects_of(payload.get("attachments"))]
        message["content"] += attached
        return message

    def _fragment(self, fragment_id: object) -> str:
        row = next(self.database.rows("select content from fragments where id = ?", fragment_id), None)
        if row is None:
            self.database.missing(f"fragment {fragment_id}")
        return text_of((row or {}).get("content"))

    def _attachment(self, given: str) -> JsonObject:
        row = next(self.database.rows("select * from attachments where id = ?", given), None)
        if row is None:
            self.database.missing(f"attachment {given}")
        return values.attachment_block(row, given)
