"""Writes an export as a Claude Code transcript that `claude --resume` opens.

The parent chain is the tree; what has no record of its own is bridged over and counted by `export_losses`. One answer
becomes a record for each of its blocks, as Claude Code writes it. The way back gives the same messages: ids and types
the format cannot say travel in marks (`foreign_ids`).

Source: Claude Code 2.1 session files.
"""

from __future__ import annotations

from collections import Counter

from pi_sessions.context import COMPACTION_PREFIX, COMPACTION_SUFFIX, EDITABLE_ROLES, latest_edits
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.claude_code import CHAIN
from pi_sessions.formats.claude_code_chain import NAME
from pi_sessions.formats.claude_code_records import SHOWN, first_text, machine_kind, stop_reason, usage_of, user_content
from pi_sessions.formats.edited import as_edited, edits_of
from pi_sessions.formats.foreign_ids import MARK, as_uuid
from pi_sessions.formats.foreign_writer import ForeignWriter, marked, said, shaped, shaped_content, unlike
from pi_sessions.stored import dump
from pi_sessions.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

VERSION = "2.1.0"
_STOP = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}
_META = "meta"
_REST = "claudeCode"
_CALL = frozenset(("type", "id", "name", "arguments"))
_PRIVATE = frozenset(("textSignature", "codex"))
_PROMPT = 200
_KEPT = ("message", "custom_message", "branch_summary")
# What a question or a result may hold; the API refuses any other block, and the session with it.
_SAID = frozenset(("text", "thinking", "redacted_thinking", "tool_use"))
_ASKED = frozenset(("text", "image", "document", "search_result"))


def export_lines(export: Export) -> Iterator[str]:
    """Return the lines of the file.

    Raises:
        NothingToExportError: the session has no entries, or none that has a record.
    """
    return iter(_Writer(export).lines())


def export_losses(export: Export) -> dict[str, int]:
    """Return what the file does not hold or says differently: `{what: how many}`."""
    writer = _Writer(export)
    writer.lines()
    # Records of the parent chain say where it was, titles do not.
    held = (words.NAME, words.FOLDER) if writer._uuids else (words.NAME,)
    return words.counts_of(words.fact_losses(export, held) + writer.losses)


class _Writer(ForeignWriter):
    """One file."""

    def __init__(self, export: Export) -> None:
        super().__init__(export)
        session = export.session
        constant = session.header.get("claudeCode")
        self.session_id = as_uuid(session.id)
        self.base: JsonObject = {
            "isSidechain": False,
            "userType": "external",
            "cwd": session.cwd,
            "sessionId": self.session_id,
            "version": VERSION,
            "gitBranch": "",
            **(constant if isinstance(constant, dict) else {}),
        }
        self.by_id = {entry.id: entry for entry in export.entries}
        in_force = latest_edits(export.path())
        self.omitted = {target: edit.id for target, edit in in_force.items() if edit.fields["replacement"] is None}
        # What a compaction keeps is said by what it names: an omitted entry among it goes out as it is.
        self._on_path = {entry.id for entry in export.path()}
        compactions = [entry for entry in export.path() if entry.type == "compaction"]
        named = {each.id for entry in compactions for each in self._kept_path(entry)}
        self.edits = {
            target: replacement
            for target, replacement in edits_of(export).items()
            if replacement is not None or target not in named
        }
        # Entry -> uuid of the record its children go on behind.
        self._end: dict[str, str | None] = {}
        # Entry -> uuids of its records in the parent chain.
        self._uuids: dict[str, list[str]] = {}
        # Call id -> entry with the call -> uuid of its record.
        self._calls: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}
        # Omissions that come back with the compaction that kept the others.
        self._consumed: set[str] = set()
        self._named: object = None

    def lines(self) -> list[str]:
        """Write everything once and return the lines."""
        entries = self._ordered()
        if not entries:
            raise NothingToExportError("There is nothing to export", hint="the session has no entries yet")
        for entry in entries:
            self._end[entry.id] = self._parent(entry)
            before = len(self._out)
            self._entry(entry)
            if len(self._out) > before:
                self._count_beside(entry)
        self._count_times(filled=False)
        if self.export.session.name and self.export.session.name != self._named:
            title = {"type": "custom-title", "customTitle": self.export.session.name, "sessionId": self.session_id}
            self._put({**title, MARK: {"made": True}})
        if self.export.whole_tree:
            self._point_at_leaf()
        if not self._out:
            raise NothingToExportError(
                "There is nothing to export", hint="the session has no entry that Claude Code has a record for"
            )
        return self._out

    def _point_at_leaf(self) -> None:
        """Say where the conversation stands: else Claude Code goes on at the newest end, also below the leaf."""
        path = self.export.path()
        at = self._end.get(path[-1].id) if path else None
        if at is None or len(path) == len(self.export.entries):
            return
        if any(entry.parent_id == path[-1].id for entry in self.export.entries):
            tip: JsonObject = {"parentUuid": at, **self.base, "type": "system", "subtype": "informational"}
            tip |= {"content": "The conversation goes on here", "level": "info", "uuid": as_uuid(path[-1].id, "tip")}
            if path[-1].time_ms is not None:
                tip["timestamp"] = format_time(path[-1].time_ms)
            self._put({**tip, MARK: {"made": True}})
        asked = [entry.message for entry in path if entry.message is not None and entry.message.get("role") == "user"]
        prompt = first_text(asked[-1].get("content")) if asked else ""
        told = {"type": "last-prompt", "lastPrompt": prompt[:_PROMPT], "leafUuid": at, "sessionId": self.session_id}
        self._put({**told, MARK: {"made": True}})

    def _ordered(self) -> list[StoredEntry]:
        """Return the entries, none before its parent; the path ends last: the newest record is where one goes on."""
        if not self.export.whole_tree:
            return self.export.path()
        below: dict[str | None, list[StoredEntry]] = {}
        for entry in self.export.entries:
            below.setdefault(entry.parent_id if entry.parent_id in self.by_id else None, []).append(entry)
        ordered: list[StoredEntry] = []
        ready: list[StoredEntry] = []
        children = below.get(None, [])
        while children or ready:
            ready += [each for each in children if each.id in self._on_path]
            ready += [each for each in reversed(children) if each.id not in self._on_path]
            ordered.append(ready.pop())
            children = below.get(ordered[-1].id, [])
        return ordered

    def _parent(self, entry: StoredEntry) -> str | None:
        """Return the uuid of the record behind which an entry's record stands."""
        return self._end.get(entry.parent_id) if entry.parent_id is not None else None

    def _uuid(self, entry: StoredEntry) -> str:
        return as_uuid(entry.id)

    def _put(self, record: JsonObject) -> None:
        self._out.append(dump(record) + "\n")

    def _chain(
        self, entry: StoredEntry, kind: str, own: JsonObject, *, part: int = 0, mark: JsonObject | None = None
    ) -> str:
        """Write a record of the parent chain and return its uuid."""
        uuid = self._uuid(entry) if not part else as_uuid(entry.id, str(part))
        marked: JsonObject = {} if uuid == entry.id else {"id": entry.id}
        if self.session_id != self.export.session.id:
            marked["session"] = self.export.session.id
        marked |= mark or {}
        record: JsonObject = {"parentUuid": self._end[entry.id], **self.base, "type": kind, **own, "uuid": uuid}
        if entry.time_ms is not None:
            record["timestamp"] = format_time(entry.time_ms)
        if marked:
            record[MARK] = marked
        self._put(record)
        self._uuids.setdefault(entry.id, []).append(uuid)
        self._end[entry.id] = uuid
        return uuid

    # --- entries --------------------------------------------------------------------------------------------------

    def _entry(self, entry: StoredEntry) -> None:
        if entry.message is not None:
            message, original = shaped(*as_edited(entry.id, entry.message, self.edits))
            role = message.get("role")
            if role == "user":
                self._user(entry, message, original)
            elif role == "assistant":
                self._assistant(entry, message, original)
            elif role == "toolResult":
                self._result(entry, message, original)
            else:
                self._as_text(entry, str(role))
        elif entry.type == "compaction":
            self._compaction(entry) if entry.id in self._on_path else self._compaction_aside(entry)
        elif entry.type == "custom_message":
            self._custom_message(entry)
        elif entry.type == "custom":
            self._custom(entry)
        elif entry.type == "branch_summary":
            self._as_text(entry, "branch_summary")
        elif entry.type == "session_info":
            title = {
                "type": "custom-title",
                "customTitle": entry.fields.get("name") or "",
                "sessionId": self.session_id,
            }
            self._named = entry.fields.get("name")
            self._put({**title, MARK: {"id": entry.id, "time": entry.time_ms}})
        elif entry.id not in self._consumed and (word := words.kind_word(entry.type)):
            self.losses[word] += 1

    def _user(self, entry: StoredEntry, message: JsonObject, original: JsonObject) -> None:
        content, more = self._asked(message)
        more |= original
        own = {"message": {"role": "user", "content": content}, **_rest(message)}
        mark = marked(unlike(message, {"timestamp": entry.time_ms}, _REST), more)
        if machine_kind({}, content) is not None:
            mark["said"] = True
        self._chain(entry, "user", own, mark=mark)

    def _asked(self, message: JsonObject) -> tuple[str | list[JsonObject], JsonObject]:
        """Return a message's content as the API takes it, and the content itself for the mark when that is less."""
        content = message.get("content")
        blocks = _blocks(content)
        if isinstance(blocks, str) or all(map(_is_asked, blocks)):
            return blocks, {}
        self.losses[words.HIDDEN] += sum(not _is_asked(block) for block in blocks)
        return [block for block in blocks if _is_asked(block)], {"content": content}

    def _assistant(self, entry: StoredEntry, message: JsonObject, original: JsonObject) -> None:
        rest = _rest(message)
        request = rest.pop("requestId", None)
        usage: JsonObject = {
            "input_tokens": _usage(message, "input"),
            "cache_creation_input_tokens": _usage(message, "cacheWrite"),
            "cache_read_input_tokens": _usage(message, "cacheRead"),
            "output_tokens": _usage(message, "output"),
        }
        if _usage(message, "cacheWrite1h"):
            usage["cache_creation"] = {"ephemeral_1h_input_tokens": _usage(message, "cacheWrite1h")}
        more = rest.pop("usage", None)
        own: JsonObject = {
            "id": message.get("responseId") or f"msg_{as_uuid(entry.id, 'message').replace('-', '')[:24]}",
            "type": "message",
            "role": "assistant",
            "model": message.get("model") or "unknown",
            "content": [],
            "stop_reason": message.get("rawStopReason") or _STOP.get(str(message.get("stopReason"))),
            "stop_sequence": None,
            "usage": {**usage, **(more if isinstance(more, dict) else {})},
        }
        mark: JsonObject = {"responseId": False} if not message.get("responseId") else {}
        read = {
            "provider": "anthropic",
            "api": "anthropic-messages",
            "model": own["model"],
            "timestamp": entry.time_ms,
            "responseId": message.get("responseId"),
            "rawStopReason": own["stop_reason"],
            "stopReason": stop_reason(own["stop_reason"], message.get("content") or []),
            "usage": usage_of(own["usage"], None),
        }
        # Claude Code keeps the beginning of an answer that was cut off as an answer, and an error alone as its text.
        failed = message.get("stopReason") in ("error", "aborted") and not message.get("content")
        error = message.get("errorMessage") if failed else None
        if error:
            read |= {"stopReason": "error", "errorMessage": error}
        mark |= unlike(message, read, _REST)
        if isinstance(request, str):
            rest["requestId"] = request
        if error:
            rest["isApiErrorMessage"] = True
            blocks = [{"type": "text", "text": str(error)}]
        else:
            blocks, lost = self._answer_blocks(message)
            unsaid = (
                sum(block["type"] not in _SAID for block in blocks) if message.get("provider") != "anthropic" else 0
            )
            if unsaid:
                original = original or {"content": message["content"]}
                blocks = [block for block in blocks if block["type"] in _SAID]
            if original:
                # The mark holds all of them.
                lost = Counter({words.HIDDEN: unsaid})
            self.losses += lost
        mark = marked(mark, original)
        for part, block in enumerate(blocks or [None]):
            content = [] if block is None else [block]
            at = self._chain(entry, "assistant", {"message": {**own, "content": content}, **rest}, part=part, mark=mark)
            if block is not None and block["type"] == "tool_use":
                self._calls.setdefault(block["id"], {})[entry.id] = at
                self._names[block["id"]] = block["name"]

    def _answer_blocks(self, message: JsonObject) -> tuple[list[JsonObject], Counter[str]]:
        """Return an answer's blocks as the API has them, and what they do not hold."""
        found: list[JsonObject] = []
        lost: Counter[str] = Counter()
        for block in message["content"]:
            kind = block["type"]
            if kind == "thinking":
                signature = block.get("thinkingSignature")
                if message.get("provider") != "anthropic" or not signature:
                    lost[words.FOREIGN_THINKING] += 1
                elif block.get("redacted"):
                    found.append({"type": "redacted_thinking", "data": signature})
                else:
                    found.append({"type": "thinking", "thinking": block["thinking"], "signature": signature})
            elif kind == "toolCall":
                lost[words.MORE_BLOCK_FIELDS] += not block.keys() <= _CALL
                found.append(
                    {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"]}
                )
            else:
                lost[words.MORE_BLOCK_FIELDS] += not block.keys().isdisjoint(_PRIVATE)
                found.append(_block(block))
        return found, lost

    def _result(self, entry: StoredEntry, message: JsonObject, original: JsonObject) -> None:
        call = said(message.get("toolCallId"))
        content, more = self._asked(message)
        more |= original
        block: JsonObject = {"type": "tool_result", "tool_use_id": call, "content": content}
        if message.get("isError"):
            block["is_error"] = True
        own: JsonObject = {"message": {"role": "user", "content": [block]}}
        if message.get("details") is not None:
            own["toolUseResult"] = message["details"]
        caller = self._caller(entry, call)
        if caller is not None:
            own["sourceToolAssistantUUID"] = caller
        read = {
            "timestamp": entry.time_ms,
            "toolName": self._names.get(call, ""),
            "toolCallId": call,
            "isError": bool(message.get("isError")),
        }
        self._chain(entry, "user", {**own, **_rest(message)}, mark=marked(unlike(message, read, _REST), more))

    def _caller(self, result: StoredEntry, call: str) -> str | None:
        """Return the record of the nearest call above a result; call ids may come again."""
        known = self._calls.get(call, {})
        if len(known) < 2:
            return next(iter(known.values()), None)
        above = self.by_id.get(result.parent_id or "")
        while above is not None and above.id not in known:
            above = self.by_id.get(above.parent_id or "")
        return None if above is None else known[above.id]

    def _custom_message(self, entry: StoredEntry) -> None:
        fields = entry.fields
        kind, details, given = said(fields.get("customType")), fields.get("details"), fields.get("content")
        content = _blocks(given)
        own: JsonObject = {"message": {"role": "user", "content": content}}
        mark: JsonObject = {}
        name = kind.removeprefix(f"{NAME}.")
        meta: JsonObject = {"isMeta": True} if name in (kind, _META) else {}
        display = bool(fields.get("display"))
        told = display == (name in SHOWN) and (details is None or isinstance(details, dict))
        same = user_content(content) == given
        if name == kind or not told or not same or machine_kind(meta, content) != name:
            mark = {"customType": kind, "display": display}
            meta = {"isMeta": True}
            if details is not None:
                mark["details"] = details
        elif details:
            own = {**details, **own}
        if not same:
            mark["content"] = given
        self._chain(entry, "user", {**own, **meta}, mark=mark)

    def _custom(self, entry: StoredEntry) -> None:
        kind, data = str(entry.fields.get("customType") or ""), entry.fields.get("data")
        if not kind.startswith(f"{NAME}.") or not isinstance(data, dict) or not isinstance(data.get("type"), str):
            self.losses[words.CUSTOM] += 1
            return
        # A record of an unknown kind had a uuid, and others may hang under it, or it had none.
        if data["type"] not in CHAIN and as_uuid(entry.id) != entry.id:
            self._put({"sessionId": self.session_id, **data, MARK: {"id": entry.id, "time": entry.time_ms}})
            return
        own = {key: value for key, value in data.items() if key != "type"}
        self._chain(entry, data["type"], own)

    def _as_text(self, entry: StoredEntry, kind: str) -> None:
        """Write what a model sees of an entry as text the program put in."""
        for part, content in enumerate(self._texts_of(entry, kind)):
            own = {"message": {"role": "user", "content": _blocks(content)}, "isMeta": True}
            self._chain(entry, "user", own, part=part)

    # --- compaction -----------------------------------------------------------------------------------------------

    def _compaction(self, entry: StoredEntry) -> None:
        fields = entry.fields
        above = self._end[entry.id]
        kept = self._kept(entry)
        metadata: JsonObject = {"trigger": "auto", "preTokens": fields.get("tokensBefore") or 0}
        rest = fields.get("claudeCode")
        own = dict(rest) if isinstance(rest, dict) else {}
        given = own.get("compactMetadata")
        metadata |= {
            name: value
            for name, value in (given.items() if isinstance(given, dict) else ())
            if name not in ("preservedSegment", "preservedMessages")
        }
        summary_uuid = as_uuid(entry.id, "summary")
        if kept:
            segment = {"headUuid": kept[0], "anchorUuid": summary_uuid, "tailUuid": kept[-1]}
            metadata["preservedSegment"] = segment
            metadata["preservedMessages"] = {"anchorUuid": summary_uuid, "uuids": kept}
        self._end[entry.id] = None
        own = {**own, "compactMetadata": metadata}
        if not isinstance(rest, dict):
            own |= {"content": "Conversation compacted", "level": "info"}
        named = ("summary", "firstKeptEntryId", "tokensBefore")
        more = {name: value for name, value in fields.items() if name not in named}
        mark: JsonObject = {"fields": more}
        told = {**own, "subtype": "compact_boundary", "logicalParentUuid": above}
        self._chain(entry, "system", told, mark=mark)
        summary = fields.get("summary") or ""
        # Claude Code shows it to the model as it stands; its own summaries say themselves what they are.
        shown = summary if isinstance(rest, dict) else f"{COMPACTION_PREFIX}{summary}{COMPACTION_SUFFIX}"
        content = {"message": {"role": "user", "content": shown}, "isCompactSummary": True}
        boundary = self._end[entry.id]
        record: JsonObject = {"parentUuid": boundary, **self.base, "type": "user", **content, "uuid": summary_uuid}
        if entry.time_ms is not None:
            record["timestamp"] = format_time(entry.time_ms)
        if shown != summary:
            record[MARK] = {"summary": summary}
        self._put(record)
        self._end[entry.id] = kept[-1] if kept else summary_uuid

    def _compaction_aside(self, entry: StoredEntry) -> None:
        """Write a compaction of another branch as a note: Claude Code forgets what stands before any boundary."""
        own = {"subtype": "informational", "content": "Conversation compacted on another branch", "level": "info"}
        self._chain(entry, "system", own, mark={"compaction": entry.fields})

    def _kept_path(self, entry: StoredEntry) -> list[StoredEntry]:
        """Return the entries from the first one a compaction keeps to the one before it."""
        first = entry.fields.get("firstKeptEntryId")
        path: list[StoredEntry] = []
        above = self.by_id.get(entry.parent_id or "")
        while above is not None and len(path) < len(self.by_id):
            path.append(above)
            if above.id == first:
                return path[::-1]
            above = self.by_id.get(above.parent_id or "")
        return []

    def _kept(self, entry: StoredEntry) -> list[str]:
        """Return the uuids of the records a compaction keeps."""
        path = self._kept_path(entry)
        kept: list[str] = []
        # Claude Code keeps all from the first to the last; only what is left out behind that comes back as left out.
        behind: list[StoredEntry] = []
        calls: set[str] = set()
        for each in path:
            if each.type in _KEPT and each.id not in self.omitted and each.id in self._uuids:
                kept += self._uuids[each.id]
                calls = calls.union(*map(_calls_in, (*behind, each)))
                behind = []
            elif kept:
                behind.append(each)
        for each in behind:
            answers = each.role == "toolResult" and each.message is not None and each.message.get("toolCallId") in calls
            if each.id in self.omitted and each.role in EDITABLE_ROLES and not answers:
                self._consumed.add(self.omitted[each.id])
        return kept


def _is_asked(block: JsonObject) -> bool:
    return block.get("type") in _ASKED and (block["type"] != "image" or isinstance(block.get("source"), dict))


def _calls_in(entry: StoredEntry) -> set[str]:
    message = entry.message
    content = message.get("content") if message is not None and message.get("role") == "assistant" else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return {said(block.get("id")) for block in blocks if block.get("type") == "toolCall"}


def _rest(message: JsonObject) -> JsonObject:
    rest = message.get(_REST)
    return dict(rest) if isinstance(rest, dict) else {}


def _usage(message: JsonObject, name: str) -> int:
    usage = message.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else 0
    return value if isinstance(value, int) else 0


def _blocks(content: object) -> str | list[JsonObject]:
    told = shaped_content(content)
    return told if isinstance(told, str) else [_block(block) for block in told]


def _block(block: JsonObject) -> JsonObject:
    kind = block.get("type")
    if kind == "image":
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
        return {"type": "image", "source": source}
    if kind == "image_reference":
        return {**block, "type": "image"} if "source" in block else block
    if kind == "text":
        return {name: value for name, value in block.items() if name not in _PRIVATE}
    return block
