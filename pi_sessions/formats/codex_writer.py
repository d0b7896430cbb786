"""Writes an export as a Codex rollout that `codex resume` opens.

A rollout is one line of items, so only a path fits; what has no item is counted by `export_losses`. People's questions
and the model's texts stand twice, as items and as events, as Codex writes them. The way back gives the same messages:
ids and what items cannot say travel in marks (`foreign_ids`).

Source: Codex 0.9x rollouts.
"""

from __future__ import annotations

import json
from collections import Counter

from pi_sessions.context import COMPACTION_PREFIX, COMPACTION_SUFFIX
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import codex_items as items
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.codex import ITEM_KINDS, LINE_KINDS
from pi_sessions.formats.codex_reader import NAME
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

VERSION = "0.99.0"
# Of a block: its item says something else, so that the mark must say what it is.
_OTHERWISE = "otherwise"
_API = "openai-responses"
# Blocks of ours that a question or an output of Codex's has a part for.
_ASKED = ("text", "image", "image_reference")
# What a header says about its own file: a fork's beginning in another file, numbered lines, windows after compactions.
_LAYOUT = ("history_mode", "history_base", "forked_from_ordinal_exclusive", "context_window", "session_id")


def export_lines(export: Export) -> Iterator[str]:
    """Return the lines of the file.

    Raises:
        NothingToExportError: the session has no entries.
    """
    return iter(_Writer(export).lines())


def export_losses(export: Export) -> dict[str, int]:
    """Return what the file does not hold or says differently: `{what: how many}`."""
    writer = _Writer(export)
    writer.lines()
    session, told = export.session, dump(writer.meta)
    held = [words.NAME, words.FOLDER]
    # A session that Codex began still says so in its first line.
    held += [words.ORIGIN] if writer.meta.get("forked_from_id") == session.origin else []
    held += [words.CALLER] if session.parent_session and dump(session.parent_session) in told else []
    return words.counts_of(words.fact_losses(export, held) + writer.losses)


class _Writer(ForeignWriter):
    """One file."""

    def __init__(self, export: Export) -> None:
        super().__init__(export)
        session = export.session
        given = session.header.get("codex")
        self.thread_id = as_uuid(session.id)
        self.meta: JsonObject = {
            "timestamp": format_time(session.created_ms),
            "originator": "pi-session",
            "cli_version": VERSION,
            "source": "cli",
            # No `model_provider`: a thread that names one is resumed with that provider only.
            **(given if isinstance(given, dict) else {}),
            "id": self.thread_id,
            "cwd": session.cwd,
        }
        for name in _LAYOUT:
            self.meta.pop(name, None)
        self.edits = edits_of(export)
        self._time = self.meta["timestamp"]
        self._model = ""
        self._effort: str | None = None
        self._total: Counter[str] = Counter()
        self._path: list[StoredEntry] = []
        self._place = 0
        # Changes of model and level that a record of Codex's own says.
        self._implied: set[str] = set()
        self._names: dict[str, str] = {}

    def lines(self) -> list[str]:
        """Write everything once and return the lines."""
        self._path = self.export.path()
        if not self._path:
            raise NothingToExportError("There is nothing to export", hint="the session has no entries yet")
        mark = {"session": self.export.session.id} if self.thread_id != self.export.session.id else None
        self._put("session_meta", self.meta, mark)
        for place, entry in enumerate(self._path):
            self._place = place
            if entry.time_ms is not None:
                self._time = format_time(entry.time_ms)
            before = len(self._out)
            self._entry(entry)
            # A compaction has written what it kept, a record of Codex's own the changes it means.
            if len(self._out) > before or entry.type == "custom_message" or entry.id in self._implied:
                self._count_beside(entry)
        self._count_times(filled=True)
        self._end_turn()
        named = [entry.fields.get("name") for entry in self._path if entry.type == "session_info"]
        if self.export.session.name and self.export.session.name not in named[-1:]:
            told = {"type": "thread_name_updated", "thread_id": self.thread_id, "thread_name": self.export.session.name}
            self._put("event_msg", told, {"made": True})
        return self._out

    def _end_turn(self) -> None:
        """Say that the last turn ended: Codex tells the model of a fork that the person broke off any other."""
        for entry in reversed(self._path):
            if entry.fields.get("customType") == f"{NAME}.task_complete":
                return
            message = entry.message
            if message is not None:
                if message.get("role") == "assistant" and message.get("stopReason") in ("stop", "length"):
                    told = {"type": "task_complete", "turn_id": as_uuid(entry.id, "turn"), "last_agent_message": None}
                    self._put("event_msg", told, {"made": True})
                return

    def _put(self, kind: str, payload: object, mark: JsonObject | None = None) -> None:
        line: JsonObject = {"timestamp": self._time, "type": kind, "payload": payload}
        if mark:
            line[MARK] = mark
        self._out.append(dump(line) + "\n")

    def _entry(self, entry: StoredEntry) -> None:
        mark: JsonObject = {"id": entry.id}
        if entry.message is not None:
            message, original = shaped(*as_edited(entry.id, entry.message, self.edits))
            role = message.get("role")
            if role == "user":
                self._question(entry, message, mark, original)
            elif role == "assistant":
                self._assistant(entry, message, mark, original)
            elif role == "toolResult":
                self._result(entry, message, mark, original)
            else:
                self._as_text(entry, str(role))
        elif entry.type == "compaction":
            self._compaction(entry, mark)
        elif entry.type == "custom_message":
            self._custom_message(entry, mark)
        elif entry.type == "custom":
            self._custom(entry, mark)
        elif entry.id in self._implied:
            pass
        elif entry.type == "model_change":
            if entry.fields.get("modelId") == self._model or not entry.fields.get("modelId"):
                self.losses[words.MODELS_CHANGED] += 1
            else:
                told = {**mark, "fields": entry.fields}
                self._turn_context(str(entry.fields.get("modelId") or ""), self._effort, told)
        elif entry.type == "thinking_level_change":
            level = str(entry.fields.get("thinkingLevel") or "off")
            effort = "none" if level == "off" else level
            if effort == self._effort:
                self.losses[words.LEVELS_CHANGED] += 1
            else:
                self._turn_context(self._model, effort, mark)
        elif entry.type == "session_info":
            told = {"type": "thread_name_updated", "thread_id": self.thread_id}
            self._put("event_msg", {**told, "thread_name": entry.fields.get("name") or ""}, mark)
        elif entry.type == "branch_summary":
            self._as_text(entry, "branch_summary")
        elif word := words.kind_word(entry.type):
            self.losses[word] += 1

    def _turn_context(self, model: str, effort: str | None, mark: JsonObject) -> None:
        """Say which model answers from here on, in the mark: Codex would resume with it and not with the person's own.

        A turn context without a model and policies is none to Codex.
        """
        self._model, self._effort = model, effort
        told: JsonObject = {"cwd": self.export.session.cwd}
        if effort is not None:
            told["effort"] = effort
        self._put("turn_context", told, {**mark, "made": True, "model": model})

    # --- messages -------------------------------------------------------------------------------------------------

    def _question(self, entry: StoredEntry, message: JsonObject, mark: JsonObject, original: JsonObject) -> None:
        content, more = self._asked(message)
        more |= original
        mark = {**mark, **_plain(message), **marked(unlike(message, {"timestamp": entry.time_ms}), more)}
        text = "\n".join(part["text"] for part in content if part["type"] == "input_text")
        if items.injected_kind(text) is not None:
            mark = {**mark, "said": True}
        self._put("response_item", {"type": "message", "role": "user", "content": content}, mark)
        self._put("event_msg", {"type": "user_message", "message": text, "images": []})

    def _asked(self, message: JsonObject) -> tuple[list[JsonObject], JsonObject]:
        """Return a message's content as Codex takes it, and the content itself for the mark when that is less.

        Codex leaves out an item that holds one part it does not know.
        """
        found = items_of(message["content"])
        told = message["content"]
        ours = [True] if isinstance(told, str) else [block["type"] in _ASKED for block in told]
        content = [part for part, is_ours in zip(found, ours, strict=True) if is_ours and _is_asked(part)]
        if len(content) == len(found):
            return content, {}
        self.losses[words.HIDDEN] += len(found) - len(content)
        return content, {"content": told}

    def _assistant(self, entry: StoredEntry, message: JsonObject, mark: JsonObject, original: JsonObject) -> None:
        model = str(message.get("model") or "")
        if model and model != self._model:
            self._turn_context(model, self._effort, {})
        provider = self.meta.get("model_provider") or "openai"
        made = [(block, *self._item(block, message)) for block in message["content"]]
        unsaid = sum(word == words.HIDDEN for _block, _item, word in made)
        if not original and (unsaid or any(word == _OTHERWISE for _block, _item, word in made)):
            original = {"content": message["content"]}
        lost = Counter(word for _block, _item, word in made if word not in (None, _OTHERWISE))
        self.losses += Counter({words.HIDDEN: unsaid}) if original else lost
        # What the mark says of the content is not looked into.
        calls = any(block["type"] == "toolCall" for block in message["content"])
        read = {
            "provider": provider,
            "api": _API,
            "model": self._model,
            "timestamp": entry.time_ms,
            "stopReason": "toolUse" if calls and not original else "stop",
            "usage": items.usage_of(_last_usage(message)),
        }
        mark = {**mark, **marked(unlike(message, read), original)}
        for block, item, _word in made:
            if item is not None:
                self._put("response_item", item, mark)
                if item["type"] == "message":
                    self._put("event_msg", {"type": "agent_message", "message": block["text"]})
        if all(item is None for _block, item, _word in made):
            self._put("response_item", {"type": "message", "role": "assistant", "content": []}, mark)
        self._usage(message)

    def _item(self, block: JsonObject, message: JsonObject) -> tuple[JsonObject | None, str | None]:
        """Return a block as an item, and what is lost of it."""
        kind = block["type"]
        if kind == "text":
            rest = block.get("codex")
            rest = rest if isinstance(rest, dict) else {}
            content = [{"type": "output_text", "text": block["text"]}]
            item = {"type": "message", "role": "assistant", "content": content, **rest}
            return item, _lost_of(block, {"type": kind, "text": block["text"], **({"codex": rest} if rest else {})})
        if kind == "thinking":
            told = self._reasoning(block, message)
            return told, words.FOREIGN_THINKING if told is None else _lost_of(block, items.thinking_block(told))
        if kind == "toolCall":
            self._names[block["id"]] = block["name"]
            item = _call_item(block)
            return item, _lost_of(block, items.tool_call(item))
        return (dict(block), None) if kind in items.SERVED else (None, words.HIDDEN)

    def _reasoning(self, block: JsonObject, message: JsonObject) -> JsonObject | None:
        signature = block.get("thinkingSignature")
        if signature and str(message.get("api", "")).startswith("openai"):
            try:
                item = json.loads(signature)
            except (ValueError, RecursionError):
                item = None
            if isinstance(item, dict) and item.get("type") == "reasoning":
                return item
        if signature or message.get("provider") not in (None, "openai", self.meta.get("model_provider")):
            return None
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": block["thinking"]}]}

    def _usage(self, message: JsonObject) -> None:
        usage = message.get("usage")
        if not isinstance(usage, dict) or not any(
            usage.get(name) for name in ("input", "output", "cacheRead", "cacheWrite")
        ):
            return
        last = _last_usage(message)
        self._total.update(last)
        info = {"total_token_usage": dict(self._total), "last_token_usage": last, "model_context_window": None}
        self._put("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    def _result(self, entry: StoredEntry, message: JsonObject, mark: JsonObject, original: JsonObject) -> None:
        content, more = self._asked(message)
        more |= original
        kind = message.get("codexKind")
        item: JsonObject = {"type": kind if kind in items.OUTPUTS else "function_call_output"}
        item["call_id"] = call = said(message.get("toolCallId"))
        plain = len(content) == 1 and content[0]["type"] == "input_text"
        item["output"] = content[0]["text"] if plain else content
        read: JsonObject = {"timestamp": entry.time_ms, "toolName": self._names.get(call, ""), "toolCallId": call}
        read["isError"] = bool(message.get("isError"))
        if item["type"] != "function_call_output":
            read["codexKind"] = item["type"]
        mark = {**mark, **marked(unlike(message, read), more)}
        if message.get("isError"):
            mark = {**mark, "isError": True}
        if message.get("details") is not None:
            mark = {**mark, "details": message["details"]}
        self._put("response_item", item, mark)

    def _custom_message(self, entry: StoredEntry, mark: JsonObject) -> None:
        fields = entry.fields
        kind = said(fields.get("customType"))
        if kind == f"{NAME}.kept":
            return
        role = "developer" if kind == f"{NAME}.developer" else "system" if kind == f"{NAME}.system" else "user"
        given = fields.get("content")
        content = [part for part in items_of(given) if _is_asked(part)]
        text = "\n".join(part["text"] for part in content if part["type"] == "input_text")
        same = items.blocks_of(content) == given
        plain = fields.get("details") is None and not fields.get("display")
        if not same or not plain or (role == "user" and kind != f"{NAME}.{items.injected_kind(text)}"):
            mark = {**mark, "customType": kind, "display": bool(fields.get("display"))}
            if fields.get("details") is not None:
                mark["details"] = fields["details"]
            if not same:
                mark |= _plain(fields) or {"content": given}
        self._put("response_item", {"type": "message", "role": role, "content": content}, mark)

    def _custom(self, entry: StoredEntry, mark: JsonObject) -> None:
        kind, data = str(entry.fields.get("customType") or ""), entry.fields.get("data")
        name = kind.removeprefix(f"{NAME}.")
        if name == kind or not isinstance(data, dict) or name == "thread_rolled_back":
            self.losses[words.CUSTOM] += 1
        elif name == "turn_context":
            self._put("turn_context", data, {**mark, **self._implied_by(data)})
        elif name in ITEM_KINDS or data.get("type") in ("agent_message", "compaction", "context_compaction"):
            self._put("response_item", data, mark)
        elif data.get("type") == name and name not in LINE_KINDS:
            self._put("event_msg", data, mark)
        else:
            self._put(name, data, mark)

    def _implied_by(self, data: JsonObject) -> JsonObject:
        """Take over what a record of Codex's own sets; return the ids of the entries that say the same."""
        behind = self._path[self._place + 1 : self._place + 3]
        ids: JsonObject = {}
        effort, model = data.get("effort"), data.get("model")
        if isinstance(effort, str) and effort != self._effort:
            self._effort = effort
            level = "off" if effort == "none" else effort
            if behind and behind[0].type == "thinking_level_change" and behind[0].fields.get("thinkingLevel") == level:
                ids["effortId"] = behind.pop(0).id
        if isinstance(model, str) and model and model != self._model:
            self._model = model
            if behind and behind[0].type == "model_change" and behind[0].fields.get("modelId") == model:
                ids |= {"modelId": behind[0].id, "fields": behind[0].fields}
        self._implied |= {ids[name] for name in ("effortId", "modelId") if name in ids}
        return ids

    def _as_text(self, entry: StoredEntry, kind: str) -> None:
        """Write what a model sees of an entry as text the program put in."""
        for content in self._texts_of(entry, kind):
            mark = {"id": entry.id, "customType": f"{NAME}.{kind}", "display": False}
            item = {"type": "message", "role": "user", "content": items_of(content)}
            self._put("response_item", item, mark)

    # --- compaction -----------------------------------------------------------------------------------------------

    def _compaction(self, entry: StoredEntry, mark: JsonObject) -> None:
        fields = entry.fields
        details = fields.get("details")
        ours = not isinstance(details, dict) or "readFiles" in details
        summary = str(fields.get("summary") or "")
        history: list[JsonObject] = []
        rest: JsonObject = {}
        message: object = summary
        place = self._path.index(entry)
        if fields.get("firstKeptEntryId") not in (None, entry.id) or (ours and not fields.get("fromHook")):
            mark = {
                **mark,
                "firstKept": self._first_kept(entry),
                "tokensBefore": fields.get("tokensBefore") or 0,
            }
            named = ("summary", "firstKeptEntryId", "tokensBefore")
            mark["fields"] = {name: value for name, value in fields.items() if name not in named}
            told = f"{COMPACTION_PREFIX}{summary}{COMPACTION_SUFFIX}"
            history = [_said(told), *self._kept_items(entry)]
        else:
            if isinstance(details, dict):
                codex = details.get("codex")
                rest = dict(codex) if isinstance(codex, dict) else {}
                if "message" in rest or summary == items.STOCK_SUMMARY:
                    message = rest.pop("message", "")
            ids: list[str] = []
            for after in self._path[place + 1 :]:
                if after.type != "custom_message" or after.fields.get("customType") != f"{NAME}.kept":
                    break
                content = items_of(after.fields.get("content"))
                history.append({"type": "message", "role": "user", "content": content})
                ids.append(after.id)
            mark = {**mark, "kept": ids} if ids else mark
            history += details.get("items", []) if isinstance(details, dict) else []
            history += [_said(str(message))] if message else []
        self._put("compacted", {"message": message, "replacement_history": history, **rest}, mark)

    def _first_kept(self, entry: StoredEntry) -> str:
        """Return the first entry a compaction keeps among those that are in the file."""
        ids = [each.id for each in self._path]
        first, end = entry.fields.get("firstKeptEntryId"), ids.index(entry.id)
        start = ids.index(first) if first in ids[:end] else end
        return next((each for each in ids[start:end] if each in self._written), entry.id)

    def _kept_items(self, entry: StoredEntry) -> list[JsonObject]:
        """Return the items of the entries a compaction keeps."""
        ids = [each.id for each in self._path]
        first = entry.fields.get("firstKeptEntryId")
        start = ids.index(first) if first in ids else len(ids)
        inner = _Writer(self.export)
        for each in self._path[start : ids.index(entry.id)]:
            if each.message is not None and self.edits.get(each.id, each) is not None:
                inner._entry(each)
        found = [json.loads(line) for line in inner._out]
        return [line["payload"] for line in found if line["type"] == "response_item"]


def _lost_of(block: JsonObject, read: JsonObject) -> str | None:
    """Return what a block has lost when it is read from its item."""
    if read == block:
        return None
    return words.MORE_BLOCK_FIELDS if read.items() <= block.items() else _OTHERWISE


def _is_asked(part: JsonObject) -> bool:
    return part["type"] == "input_text" or (part["type"] == "input_image" and isinstance(part.get("image_url"), str))


def _plain(message: JsonObject) -> JsonObject:
    return {"plain": True} if isinstance(message.get("content"), str) else {}


def _last_usage(message: JsonObject) -> dict[str, int]:
    """Return an answer's usage as Codex counts: what was cached is a part of the input."""
    given = message.get("usage")
    usage = given if isinstance(given, dict) else {}
    read, cached, written, output, reasoning = (
        value if isinstance(value := usage.get(name), int) else 0
        for name in ("input", "cacheRead", "cacheWrite", "output", "reasoning")
    )
    total = read + cached + written
    return {
        "input_tokens": total,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": total + output,
    }


def _said(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def items_of(content: object) -> list[JsonObject]:
    """Return contents of ours as those of an input item."""
    told = shaped_content(content)
    if isinstance(told, str):
        return [{"type": "input_text", "text": told}]
    found: list[JsonObject] = []
    for block in told:
        kind = block["type"]
        if kind == "text":
            found.append({"type": "input_text", "text": block["text"]})
        elif kind == "image":
            found.append({"type": "input_image", "image_url": f"data:{block['mimeType']};base64,{block['data']}"})
        elif kind == "image_reference":
            found.append({**block, "type": "input_image"})
        else:
            found.append(block)
    return found


def _call_item(block: JsonObject) -> JsonObject:
    kind = block.get("codexKind")
    call_id, arguments = block.get("id"), block.get("arguments")
    if kind == "custom_tool_call" and isinstance(arguments, dict):
        return {"type": kind, "name": block.get("name"), "input": arguments.get("input"), "call_id": call_id}
    if kind == "local_shell_call":
        return {"type": kind, "status": "completed", "action": arguments, "call_id": call_id}
    text = block.get("argumentsText")
    item = {"type": "function_call", "name": block.get("name"), "call_id": call_id}
    item["arguments"] = text if isinstance(text, str) else dump(arguments)
    if block.get("namespace"):
        item["namespace"] = block["namespace"]
    return item
