"""Reads the conversations of older versions of llm: straight lists of responses.

Each response gives what was new in its request (instructions, results of tools, the prompt with its fragments and
attachments) and the answer. `prompt_json` repeats the request and is left out.

Source: llm before 0.3x, tables conversations and responses.
"""

from __future__ import annotations

from pi_sessions.formats import llm_logs_messages as values
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.foreign_database import RowCount
from pi_sessions.formats.foreign_values import call_block, line_of, result_message, text_block, text_of, time_of
from pi_sessions.formats.llm_logs import IMPORTER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Set
    from typing import Any

    from pi_sessions.formats.foreign_database import ForeignDatabase
    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

NAME = "llm"


class Responses:
    """The responses of a database, by conversation.

    Attributes:
        count: How many there are.
    """

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database
        # Neither responses nor calls have an index on what they belong to: each table is read through once.
        self._of: dict[str, list[tuple[str, int]]] = {}
        self.count = 0
        for row in database.rows("select rowid as at, id, conversation_id from responses"):
            key = text_of(row["conversation_id"]) or text_of(row["id"])
            self._of.setdefault(key, []).append((text_of(row["id"]), row["at"]))
            self.count += 1
        self._calls = self._by_response("tool_calls")
        self._results = self._by_response("tool_results")

    def _by_response(self, table: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        if table in self._database.columns:
            for row in self._database.rows(f"select rowid as at, response_id from {table} order by rowid"):
                found.setdefault(text_of(row["response_id"]), []).append(row["at"])
        return found

    def read(self, *, but: Set[str]) -> Iterator[ParsedSession]:
        """Yield a session for each conversation, the oldest first.

        Args:
            but: Conversations that live on as threads.
        """
        for conversation_id in sorted(self._of, key=lambda key: min(self._of[key])):
            if conversation_id not in but:
                yield self._session(conversation_id)

    def complete(self, conversation_id: str, builder: SessionBuilder, answers: list[tuple[str, JsonObject]]) -> None:
        """Give answers of a thread that no turn made the time, model and usage of the responses they come from.

        Args:
            answers: Entry ids and messages, in order; the builder's entries are changed.
        """
        waiting = list(answers)
        for _id, rowid in sorted(self._of.get(conversation_id, ())):
            row = self._database.row("responses", rowid)
            if row is None or not waiting:
                continue
            entry_id, message = waiting[0]
            told = "".join(block["text"] for block in message["content"] if block["type"] == "text")
            if told != text_of(row.get("response")):
                continue
            waiting.pop(0)
            entry = builder.entry(entry_id)
            time_ms = time_of(row.get("datetime_utc"))
            if entry is not None:
                entry.time_ms, entry.extra = time_ms, None if time_ms is not None else entry.extra
                stamp = {} if time_ms is None else {"timestamp": time_ms}
                builder.replace(entry, values.answer_of(row, message["content"]) | stamp)

    def _session(self, conversation_id: str) -> ParsedSession:
        database = self._database
        damage = len(database.damage)
        sql = "select * from conversations where id = ?"
        conversation = next(database.rows(sql, conversation_id), {"id": conversation_id})
        rows = RowCount()
        rows.take(conversation, header=True)
        talk = _Talk(database, rows)
        for response_id, rowid in sorted(self._of[conversation_id]):
            row = database.row("responses", rowid)
            number = rows.take(row)
            if row is None:
                rows.lose(talk.builder, number, "damaged_row", f"the response {response_id} lies on a damaged page")
                continue
            calls = self._rows("tool_calls", self._calls.get(response_id, ()))
            results = self._rows("tool_results", self._results.get(response_id, ()))
            talk.take(row, calls, results, number)
        talk.builder.losses += database.damage_since(damage)
        name = line_of(conversation.get("name"))
        told_rows = rows.told(talk.builder, database.mtime_ms)
        return talk.builder.finish(id=conversation_id, leaf=talk.leaf, title=name, **told_rows)

    def _rows(self, table: str, rowids: Any) -> list[JsonObject]:
        found = (self._database.row(table, rowid) for rowid in rowids)
        return [row for row in found if row is not None]


class _Talk:
    """One conversation while it is being read."""

    def __init__(self, database: ForeignDatabase, rows: RowCount) -> None:
        self.builder = SessionBuilder(NAME, database.path, IMPORTER, untimed=True)
        self.leaf: str | None = None
        self._database = database
        self._rows = rows
        self._system = ""

    def _add(self, message: JsonObject, kind: str, row: JsonObject, number: int) -> None:
        response_id = text_of(row.get("id"))
        made = computed_id(response_id, kind)
        time_ms = time_of(row.get("datetime_utc"))
        where: dict[str, Any] = {"parent": self.leaf, "time_ms": time_ms, "line": number}
        self.leaf = self.builder.message(message, id=made, foreign_id=response_id or None, **where).id

    def take(self, row: JsonObject, calls: list[JsonObject], results: list[JsonObject], number: int) -> None:
        """Take in one response."""
        response_id = text_of(row.get("id"))
        system = self._fragments("system_fragments", response_id)
        system += [text_of(row.get("system"))] if row.get("system") else []
        instructions = "\n\n".join(system)
        if instructions and instructions != self._system:
            self._system = instructions
            self._add({"role": "system", "content": instructions}, "system", row, number)
        for place, result in enumerate(results):
            exception = result.get("exception")
            message = result_message(
                result.get("tool_call_id"),
                result.get("name"),
                text_of(result.get("output")),
                failed=bool(exception),
                details={"exception": exception} if exception else None,
            )
            self._add(message, f"result {place}", row, number)
        pieces = self._fragments("prompt_fragments", response_id)
        pieces += [text_of(row.get("prompt"))] if row.get("prompt") else []
        blocks = [text_block("\n\n".join(pieces))] if pieces else []
        blocks += self._attachments(response_id)
        if blocks or not results:
            self._add({"role": "user", "content": blocks}, "prompt", row, number)
        answer: list[JsonObject] = []
        if row.get("reasoning"):
            answer.append({"type": "thinking", "thinking": text_of(row["reasoning"])})
        if row.get("response"):
            answer.append(text_block(text_of(row["response"])))
        answer += [call_block(call.get("tool_call_id"), call.get("name"), call.get("arguments")) for call in calls]
        self._add(values.answer_of(row, answer), "response", row, number)

    def _fragments(self, table: str, response_id: str) -> list[str]:
        if table not in self._database.columns or "fragments" not in self._database.columns:
            return []
        sql = (
            f"select p.fragment_id, f.content from {table} p left join fragments f on f.id = p.fragment_id"
            ' where p.response_id = ? order by p."order"'
        )
        found: list[str] = []
        for row in self._database.rows(sql, response_id):
            if row["content"] is None:
                self._database.missing(f"fragment {row['fragment_id']}")
            found.append(text_of(row["content"]))
        return found

    def _attachments(self, response_id: str) -> list[JsonObject]:
        if "prompt_attachments" not in self._database.columns:
            return []
        sql = (
            "select p.attachment_id, a.* from prompt_attachments p left join attachments a on a.id = p.attachment_id"
            ' where p.response_id = ? order by p."order"'
        )
        found: list[JsonObject] = []
        for row in self._database.rows(sql, response_id):
            if row["id"] is None:
                self._database.missing(f"attachment {row['attachment_id']}")
            found.append(values.attachment_block(row if row["id"] else None, text_of(row["attachment_id"])))
        return found
