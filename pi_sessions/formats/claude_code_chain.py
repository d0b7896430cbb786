"""The records of one conversation of Claude Code, made into entries one by one: `Chain`.

One answer that was written as several records is one entry; tool results follow their answer one after the other; what
is no conversation is kept as custom entries beside the record it came after. Links wait until all records are known.

Source: Claude Code 2.1 session files.
"""

from __future__ import annotations

from pi_sessions.formats import claude_code_records as records
from pi_sessions.formats.building import SessionBuilder, computed_id
from pi_sessions.formats.claude_code import IMPORTER, META_KINDS
from pi_sessions.formats.claude_code_links import APPENDAGE, BOUNDARY, META, Node, link
from pi_sessions.formats.foreign_ids import MARK, mark_of, marked_text, overrides
from pi_sessions.formats.json_lines import readable_time
from pi_sessions.formats.parsed import Repair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pi_sessions.stored import JsonObject, StoredEntry

NAME = "claude-code"
_CORE = frozenset(
    "type uuid parentUuid logicalParentUuid sessionId timestamp message isSidechain forkedFrom agentId isMeta "
    f"toolUseResult costUSD isApiErrorMessage sourceToolAssistantUUID {MARK}".split()
)
# What nearly every record repeats; kept once per session, and with an entry only where it differs.
_CONSTANT = ("cwd", "version", "gitBranch", "userType", "entrypoint", "slug", "teamName")
_MOST_GROUPS = 16


class _Group:
    """One answer of the model, perhaps written as several records."""

    __slots__ = ("blocks", "entry", "message", "node", "usage")

    def __init__(
        self, node: Node, entry: StoredEntry, message: JsonObject, blocks: list[JsonObject], usage: object
    ) -> None:
        self.node = node
        self.entry = entry
        self.message = message
        self.blocks = blocks
        # Of the latest record and its cost, as they came; most records of an answer repeat them.
        self.usage = usage


class Chain:
    """The records of one conversation: the session's own, or one subagent's.

    Attributes:
        key: Empty for the session's own; else the agent's id, or what stands for it.
        nodes: For linking, in file order.
        said: Whether somebody said something.
    """

    def __init__(self, key: str, path: str) -> None:
        self.key = key
        self.nodes: list[Node] = []
        self.named: dict[str, Node] = {}
        self.builder = SessionBuilder(NAME, path, IMPORTER, named=self.named)
        self.constant: JsonObject = {}
        self._not_met: Sequence[str] = _CONSTANT
        self.said = False
        self.command: str | None = None
        self.prompt: str | None = None
        self.calls: dict[str, str] = {}
        self.cwd = ""
        self.title: str | None = None
        self.given_name: str | None = None
        self.last_prompt: tuple[int, str] | None = None
        self.fork: tuple[str, str] | None = None
        # The node of each answer, and the latest answers themselves: further parts of others are hardly ever met.
        # By a hash of their ids, which takes less space; whether they are meant is seen then.
        self._answers: dict[int, Node] = {}
        self._groups: dict[int, _Group] = {}
        # The answer whose text is still to be made: the next record may well be a further part of it.
        self._unwritten: _Group | None = None
        self._answers_wanted: list[StoredEntry] = []
        self._open_boundary: Node | None = None
        self.held_back: list[int] = []
        self._model = ""

    # --- records with a uuid --------------------------------------------------------------------------------------

    def take(self, line: int, record: JsonObject) -> None:
        """Take in a record of the parent chain."""
        uuid: str = record["uuid"]
        known = self.named.get(uuid)
        if known is not None:
            if self._is_there(known, record):
                self._repeated(line, uuid, record)
                return
            free = self._free_uuid(uuid)
            found = f"the uuid {uuid} is there with other content; this record got the id {free}"
            self.builder.repairs.append(Repair(line, "duplicate_id", found))
            uuid = free
        for name in self._not_met:
            if name in record:
                self._learn(record)
                break
        if not self.cwd and isinstance(record.get("cwd"), str):
            self.cwd = record["cwd"]
        fork = record.get("forkedFrom")
        if fork is not None and self.fork is None and isinstance(fork, dict) and isinstance(fork.get("sessionId"), str):
            self.fork = (fork["sessionId"], str(fork.get("messageUuid") or ""))
        time_ms = readable_time(record.get("timestamp"))
        if time_ms is None:
            time_ms = self._time_before(line)
        node = Node(uuid, self._parent(record), line)
        kind = record["type"]
        message = record.get("message")
        if kind == "user" and isinstance(message, dict):
            self._user(node, record, message, time_ms)
        elif kind == "assistant" and isinstance(message, dict):
            self._assistant(node, record, message, time_ms)
        elif kind == "system" and record.get("subtype") == "compact_boundary":
            self._boundary(node, record, time_ms)
        elif MARK not in record or not self._written_by_us(node, record, time_ms):
            subtype = record.get("subtype")
            name = f"{kind}.{subtype}" if isinstance(subtype, str) else str(kind)
            data: JsonObject = {key: record[key] for key in ("type", "message", "toolUseResult") if key in record}
            data |= self._rest(record)
            self._note(node, self.builder.custom(name, data, **self._at(node, record, time_ms)))

    def _written_by_us(self, node: Node, record: JsonObject, time_ms: int | None) -> bool:
        """Take in what our exporter wrote for Claude Code alone, or as a note because no record says it."""
        mark = mark_of(record)
        above = self.named.get(node.parent or "")
        if mark.get("made") is True and above is not None:
            # What goes on behind it goes on behind the entry it stands for.
            self.named[node.uuid] = above
            return True
        fields = mark.get("compaction")
        if not isinstance(fields, dict):
            return False
        entry = self.builder.add("compaction", fields, **self._at(node, record, time_ms))
        self._note(node, entry, appendage=False)
        return True

    def _learn(self, record: JsonObject) -> None:
        """Take in what nearly every record repeats."""
        for name in self._not_met:
            if isinstance(record.get(name), str):
                self.constant[name] = record[name]
        self._not_met = [name for name in _CONSTANT if name not in self.constant]

    def _parent(self, record: JsonObject) -> str | None:
        """Return the uuid of the record before; the very text that names that one, where it was met."""
        uuid = record.get("parentUuid")
        if not isinstance(uuid, str) or not uuid:
            return None
        known = self.named.get(uuid)
        return known.uuid if known is not None and known.uuid == uuid else uuid

    def _at(self, node: Node, record: JsonObject, time_ms: int | None) -> dict[str, Any]:
        if MARK not in record:
            return {"id": node.uuid, "parent": None, "time_ms": time_ms, "line": node.line}
        ours = marked_text(mark_of(record), "id")
        own_id = ours if ours is not None and ours not in self.builder else node.uuid
        if own_id == ours:
            self.builder.own_ids.add(own_id)
        return {
            "id": own_id,
            "parent": None,
            "time_ms": time_ms,
            "line": node.line,
            "foreign_id": None if own_id == node.uuid else node.uuid,
        }

    def _time_before(self, line: int) -> int | None:
        self.builder.repairs.append(Repair(line, "no_time", "no readable time; that of the record before was taken"))
        return self.builder.entries[-1].time_ms if self.builder.entries else None

    def _note(self, node: Node, entry: StoredEntry, *, appendage: bool = True) -> None:
        node.entry = entry
        if not appendage:
            node.marks &= ~APPENDAGE
        self.nodes.append(node)
        if node.uuid:
            self.named[node.uuid] = node
            if node.uuid == entry.id:
                self.builder.noted(entry)

    def _rest(self, record: JsonObject) -> JsonObject:
        """Return the fields beside the message that differ from what the session's records usually say."""
        usual, core = self.constant.get, _CORE
        return {
            name: value
            for name, value in record.items()
            if name not in core and value is not None and usual(name) != value
        }

    def _free_uuid(self, uuid: str) -> str:
        number = 2
        while f"{uuid}-{number}" in self.named or f"{uuid}-{number}" in self.builder:
            number += 1
        return f"{uuid}-{number}"

    def _is_there(self, known: Node, record: JsonObject) -> bool:
        """Whether a record whose uuid was met before says nothing that its entry does not say."""
        self.write_answer()
        entry, kind, given = known.entry, record["type"], record.get("message")
        if kind == "system" or not isinstance(given, dict):
            if entry.type == "compaction":
                return True
            data = entry.fields.get("data")
            return isinstance(data, dict) and all(data.get(name) == record.get(name) for name in ("type", "content"))
        content, said = given.get("content"), entry.message
        if kind == "assistant":
            if said is None or said.get("role") != "assistant":
                return entry.type == "custom" and entry.fields["data"].get("message") == given
            held = [_core(block) for block in said["content"]]
            return "errorMessage" in said or all(_core(each) in held for each in records.assistant_blocks(content))
        if entry.type in ("compaction", "custom"):
            told = entry.fields.get("summary") if entry.type == "compaction" else None
            return told == records.first_text(content) or entry.fields.get("data", {}).get("message") == given
        if said is None:
            return bool(entry.fields.get("content") == records.user_content(content))
        if said.get("role") == "user":
            return bool(said["content"] == records.user_content(content))
        results = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        return said.get("role") == "toolResult" and any(
            block.get("type") == "tool_result"
            and str(block.get("tool_use_id") or "") == said["toolCallId"]
            and records.result_message(block, "", None)["content"] == said["content"]
            for block in results
        )

    def _repeated(self, line: int, uuid: str, record: JsonObject) -> None:
        known = self.named[uuid]
        if self._open_boundary is not None and known.line < self._open_boundary.line:
            known.compacting.kept_by += ((self._open_boundary.line, self._open_boundary),)
            self.builder.repairs.append(Repair(line, "kept_again", "a record kept by a compaction is there again"))
            return
        parent = _text(record.get("parentUuid"))
        if parent is not None and parent != uuid and known.parent is None and not known.marks & BOUNDARY:
            known.parent = parent
        self.builder.repairs.append(Repair(line, "repeated", "a record that is there already was left out"))

    def _user(self, node: Node, record: JsonObject, message: JsonObject, time_ms: int | None) -> None:
        content = message.get("content")
        if record.get("isCompactSummary"):
            self._summary(node, record, records.first_text(content), time_ms)
            return
        where = self._at(node, record, time_ms)
        rest = self._rest(record)
        extra: JsonObject = {"claudeCode": rest} if rest else {}
        results = [
            block for block in content if isinstance(block, dict) and block.get("type") == "tool_result"
        ] if isinstance(content, list) else []  # fmt: skip
        if results:
            self._results(node, record, results, where, extra)
            return
        kind = records.machine_kind(record, content)
        shown = records.user_content(content)
        mark = mark_of(record)
        if isinstance(mark.get("customType"), str):
            shown = mark.get("content", shown)
            fields = {"customType": mark["customType"], "content": shown, "display": bool(mark.get("display"))}
            if mark.get("details") is not None:
                fields["details"] = mark["details"]
            self._note(node, self.builder.add("custom_message", fields, **where), appendage=False)
        elif kind is not None and mark.get("said") is not True:
            if kind == "command" and self.command is None:
                self.command = records.command_title(content)
            entry = self.builder.text_for_model(
                kind, shown, display=kind in records.SHOWN, details=rest or None, **where
            )
            self._note(node, entry, appendage=False)
        elif record.get("isVisibleInTranscriptOnly"):
            self._note(
                node, self.builder.custom("transcript-only", {"type": "user", "message": message, **rest}, **where)
            )
        else:
            self.said = True
            if self.prompt is None:
                self.prompt = records.first_text(content)
            said: JsonObject = {"role": "user", "content": shown, **extra}
            overrides(mark, said)
            self._note(node, self.builder.message(said, **where), appendage=False)

    def _results(
        self, node: Node, record: JsonObject, results: list[JsonObject], where: dict[str, Any], extra: JsonObject
    ) -> None:
        details = record.get("toolUseResult")
        other = [block for block in record["message"]["content"] if block not in results]
        for number, block in enumerate(results):
            call = str(block.get("tool_use_id") or "")
            message = records.result_message(block, self.calls.get(call, ""), details if len(results) == 1 else None)
            message |= extra if not number else {}
            overrides(mark_of(record), message)
            if len(results) > 1 and not number and details is not None:
                message["details"] = details
            at = where if not number else {**where, "id": f"{where['id']}.{number}", "foreign_id": node.uuid}
            entry = self.builder.message(message, **at)
            if message.get("toolName") == "":
                self._answers_wanted.append(entry)
            part = node if not number else Node("", node.uuid, node.line)
            self._note(part, entry)
        if other:
            at = {**where, "id": f"{where['id']}.{len(results)}", "foreign_id": node.uuid}
            content = records.user_content(other)
            if records.machine_kind(record, other) is not None:
                entry = self.builder.text_for_model("meta", content, **at)
            else:
                entry = self.builder.message({"role": "user", "content": content}, **at)
            self._note(Node("", node.uuid, node.line), entry)

    def _assistant(self, node: Node, record: JsonObject, message: JsonObject, time_ms: int | None) -> None:
        self.said = True
        model = message.get("model")
        if model == records.SYNTHETIC_MODEL and not record.get("isApiErrorMessage"):
            data = {"type": "assistant", "message": message, **self._rest(record)}
            self._note(node, self.builder.custom("synthetic", data, **self._at(node, record, time_ms)))
            return
        blocks = records.assistant_blocks(message.get("content"))
        for block in blocks:
            if block["type"] == "toolCall":
                self.calls[block["id"]] = block["name"]
        key = (str(message.get("id") or ""), str(record.get("requestId") or ""))
        named = hash(key)
        group = self._group(named, key[0]) if key[0] else None
        if group is not None:
            self._more_of(group, node, record, message, blocks)
            return
        answer: JsonObject = {
            "role": "assistant",
            "content": blocks,
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": model if isinstance(model, str) and model != records.SYNTHETIC_MODEL else self._model,
            "usage": records.usage_of(message.get("usage"), record.get("costUSD")),
            "stopReason": records.stop_reason(message.get("stop_reason"), blocks),
        }
        self._model = answer["model"]
        if record.get("isApiErrorMessage"):
            answer["stopReason"] = "error"
            answer["errorMessage"] = records.first_text(message.get("content"))
            answer["content"] = []
        mark = mark_of(record)
        if key[0] and mark.get("responseId") is not False:
            answer["responseId"] = key[0]
        if isinstance(message.get("stop_reason"), str):
            answer["rawStopReason"] = message["stop_reason"]
        rest = self._rest(record)
        usage = records.usage_rest(message.get("usage"))
        rest |= {"usage": usage} if usage else {}
        if key[1]:
            rest["requestId"] = key[1]
        if rest:
            answer["claudeCode"] = rest
        overrides(mark, answer)
        entry = self.builder.message(answer, text="", **self._at(node, record, time_ms))
        self._note(node, entry, appendage=False)
        group = _Group(node, entry, answer, blocks, (message.get("usage"), record.get("costUSD")))
        self._changed(group)
        if key[0]:
            self._answers[named] = node
            self._hold(named, group)

    def _hold(self, named: int, group: _Group) -> None:
        self._groups[named] = group
        if len(self._groups) > _MOST_GROUPS:
            del self._groups[next(iter(self._groups))]

    def _group(self, named: int, id: str) -> _Group | None:
        """Return an answer of which a part was met before."""
        group = self._groups.get(named)
        node = self._answers.get(named)
        if group is not None or node is None:
            return group
        message = dict(node.entry.message or {})
        if message.get("responseId", id) != id:
            return None
        content = message.get("content")
        group = _Group(node, node.entry, message, list(content) if isinstance(content, list) else [], None)
        self._hold(named, group)
        return group

    def _changed(self, group: _Group) -> None:
        if self._unwritten is not group:
            self.write_answer()
            self._unwritten = group

    def write_answer(self) -> None:
        """Make the text of the answer that came last, once no other part of it is waited for."""
        if self._unwritten is not None:
            self.builder.replace(self._unwritten.entry, self._unwritten.message)
            self._unwritten = None

    def _more_of(
        self, group: _Group, node: Node, record: JsonObject, message: JsonObject, blocks: list[JsonObject]
    ) -> None:
        """Join a further record of an answer to it; its usage is the last one's."""
        answer = group.message
        again = ("toolCall", "thinking")
        group.blocks += [block for block in blocks if block["type"] not in again or block not in group.blocks]
        answer["content"] = group.blocks
        spent = (message.get("usage"), record.get("costUSD"))
        if spent != group.usage:
            group.usage = spent
            answer["usage"] = records.usage_of(*spent)
            rest = records.usage_rest(spent[0])
            if rest:
                answer.setdefault("claudeCode", {})["usage"] = rest
        answer["stopReason"] = records.stop_reason(message.get("stop_reason"), group.blocks)
        if isinstance(message.get("stop_reason"), str):
            answer["rawStopReason"] = message["stop_reason"]
        overrides(mark_of(record), answer)
        self._changed(group)
        self.named[node.uuid] = group.node

    # --- compaction -----------------------------------------------------------------------------------------------

    def _boundary(self, node: Node, record: JsonObject, time_ms: int | None) -> None:
        given = record.get("compactMetadata")
        told = given if isinstance(given, dict) else {}
        node.marks |= BOUNDARY
        node.parent = _text(record.get("logicalParentUuid")) or node.parent
        segment, kept = told.get("preservedSegment"), told.get("preservedMessages")
        if isinstance(segment, dict):
            node.compacting.kept = (_text(segment.get("headUuid")), _text(segment.get("tailUuid")))
            node.compacting.is_segment = True
        elif isinstance(kept, dict) and isinstance(kept.get("uuids"), list):
            node.compacting.kept = tuple(uuid for uuid in kept["uuids"] if isinstance(uuid, str))
        tokens = told.get("preTokens")
        where = self._at(node, record, time_ms)
        fields: JsonObject = {
            "summary": "",
            "firstKeptEntryId": where["id"],
            "tokensBefore": tokens if isinstance(tokens, int) else 0,
            "claudeCode": self._rest(record),
        }
        more = mark_of(record).get("fields")
        if isinstance(more, dict):
            # Written by our exporter: the entry's own fields, and none of the boundary's.
            fields.pop("claudeCode")
            fields |= more
        self._note(node, self.builder.add("compaction", fields, **where), appendage=False)
        node.compacting.fields = fields
        self._open_boundary = node

    def _summary(self, node: Node, record: JsonObject, text: str, time_ms: int | None) -> None:
        boundary = self._open_boundary
        told = boundary.compacting.fields if boundary is not None else None
        if boundary is not None and told is not None and not told["summary"]:
            told["summary"] = marked_text(mark_of(record), "summary") or text
            self.builder.replace(boundary.entry, told)
            self.named[node.uuid] = boundary
            return
        where = self._at(node, record, time_ms)
        fields = {"summary": text, "firstKeptEntryId": where["id"], "tokensBefore": 0}
        node.marks |= BOUNDARY
        self._note(node, self.builder.add("compaction", fields, **where), appendage=False)
        node.compacting.fields = fields
        self._open_boundary = node

    # --- records without a uuid -----------------------------------------------------------------------------------

    def take_meta(self, line: int, kind: str, record: JsonObject, own_session: str) -> None:
        """Take in a record about the session; it stands behind the record before it."""
        time_ms = readable_time(record.get("timestamp")) or (self.builder.entries[-1].time_ms if self.nodes else None)
        data = {
            name: value
            for name, value in record.items()
            if name != MARK and (name != "sessionId" or value != own_session)
        }
        mark = mark_of(record)
        if mark.get("made") is True and isinstance(record.get("customTitle"), str):
            # A name that is no entry of the session, written by our exporter.
            self.given_name = record["customTitle"].strip() or None
            return
        if mark.get("made") is True and kind == "last-prompt":
            # Where the conversation stood, written by our exporter.
            self.last_prompt = (line, str(record.get("leafUuid")))
            return
        if "time" in mark:
            time_ms = mark["time"] if isinstance(mark["time"], int) else None
        where: dict[str, Any] = {"parent": None, "time_ms": time_ms, "line": line, "foreign_id": None}
        made = computed_id(data, self.nodes[-1].uuid if self.nodes else "")
        where["id"] = self._free(marked_text(mark, "id") or made)
        if where["id"] == marked_text(mark, "id"):
            self.builder.own_ids.add(where["id"])
        if kind == "custom-title" and isinstance(record.get("customTitle"), str):
            entry = self.builder.add("session_info", {"name": record["customTitle"]}, **where)
            self.given_name = record["customTitle"].strip() or None
        elif kind in META_KINDS:
            entry = self.builder.custom(kind, data, **where)
        else:
            entry = self.builder.not_understood(kind, data, **where)
        if kind == "ai-title" and isinstance(record.get("aiTitle"), str):
            self.title = record["aiTitle"].strip() or self.title
        elif (
            kind == "summary" and _text(record.get("leafUuid")) in self.named and isinstance(record.get("summary"), str)
        ):
            self.title = record["summary"].strip() or self.title
        elif kind == "last-prompt" and isinstance(record.get("leafUuid"), str):
            self.last_prompt = (line, record["leafUuid"])
        node = Node("", None, line)
        node.marks |= META
        self._note(node, entry)

    def _free(self, entry_id: str) -> str:
        number, free = 1, entry_id
        while free in self.builder:
            number += 1
            free = f"{entry_id}{number}"
        return free

    # --- the end --------------------------------------------------------------------------------------------------

    def finish_links(self) -> str | None:
        """Link everything and return the leaf."""
        for entry in self._answers_wanted:
            message = entry.message
            name = self.calls.get(str(message.get("toolCallId"))) if message is not None else None
            if name:
                self.builder.replace(entry, {**(message or {}), "toolName": name})
        self._hold_back_boundary()
        for node in self.nodes:
            told = node.more.fields if node.more is not None and node.marks & BOUNDARY else None
            if told is not None and not told["summary"]:
                node.entry.type = "custom"
                data = {"type": "system", **told.get("claudeCode", {})}
                self.builder.replace(node.entry, {"customType": f"{NAME}.compact_boundary", "data": data})
                node.marks &= ~BOUNDARY
        leaf = link(self.builder, self.nodes, self.named, self.last_prompt, is_side=bool(self.key))
        # Done with; what comes next needs the memory.
        self.nodes, self.named, self.calls, self._answers, self._groups = [], {}, {}, {}, {}
        return leaf

    def _hold_back_boundary(self) -> None:
        """Leave out a compaction at the very end whose summary is still to be written; a later import finds both."""
        last = self._open_boundary
        told = last.compacting.fields if last is not None else None
        if last is None or told is None or told["summary"]:
            return
        if any(node.line > last.line and not node.is_meta for node in self.nodes):
            return
        behind = [node for node in self.nodes if node.line >= last.line]
        self.nodes = self.nodes[: len(self.nodes) - len(behind)]
        for node in reversed(behind):
            self.named.pop(node.uuid, None)
            self.builder.take_back(node.entry)
            self.held_back.append(node.line)


def _core(block: JsonObject) -> JsonObject:
    """Return what a block of an answer says, without what other records of the answer may say otherwise."""
    return {name: block.get(name) for name in ("type", "text", "thinking", "id", "name", "arguments")}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
