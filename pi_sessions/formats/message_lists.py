"""Message lists as a format of the registry: what people save of the APIs of OpenAI and Anthropic.

An array of messages, an object with `messages` (or `input`), one of these per line, or the tables of openai-agents.

Source: OpenAI Chat Completions and Responses APIs; Anthropic Messages API 2023-06-01; openai-agents 0.6 sessions.
"""

from __future__ import annotations

import re

from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_database import MAGIC, tables_of
from pi_sessions.formats.json_lines import head_records
from pi_sessions.formats.json_text import NotJsonError, scan
from pi_sessions.formats.pi_reader import open_source
from pi_sessions.formats.registry import HEAD_BYTES, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "2"

ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
ITEM_KINDS = frozenset(
    (
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "web_search_call",
        "file_search_call",
        "computer_call",
        "computer_call_output",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "compaction",
    )
)
_TABLES = {"agent_messages": "session_id message_data", "agent_sessions": "session_id"}
_LIST_START = re.compile(rb'"(messages|input)"\s*:\s*\[\s*[\[{]')
# A field of an object: its name, up to its value.
_NAME = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*)"\s*:\s*')
_BETWEEN = re.compile(r"[\s,]*")
_END = re.compile(r"\s*\}[\s,]*")
_LISTS = ("messages", "input")
_OBJECTS_TRIED = _ITEMS_TRIED = 8
_OPENING = 4096
_MARGIN = 64
_ROLE = re.compile(rb'"role"\s*:\s*"(system|developer|user|assistant|tool|function)"')


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return none: such files lie anywhere."""
    return ()


def roots(path: str) -> tuple[str, ...]:
    """Return none: no tool keeps a folder of such files."""
    return ()


def is_message(value: object) -> bool:
    """Whether a decoded object is a message or an item of a list."""
    if not isinstance(value, dict):
        return False
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str) and role in ROLES and kind in (None, "message"):
        return any(name in value for name in ("content", "tool_calls", "function_call"))
    return isinstance(kind, str) and kind in ITEM_KINDS and ("call_id" in value or "id" in value or "summary" in value)


def is_conversation(value: object) -> bool:
    """Whether a decoded object holds a list of messages."""
    if not isinstance(value, dict):
        return False
    body = value["body"] if isinstance(value.get("body"), dict) else value
    listed = body.get("messages", body.get("input"))
    return isinstance(listed, list) and any(is_message(item) for item in listed[:_ITEMS_TRIED])


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file holds message lists."""
    if head.startswith(MAGIC):
        columns = tables_of(path, head)
        known = all(set(names.split()) <= columns.get(table, frozenset()) for table, names in _TABLES.items())
        return SESSION if columns and known else None
    if inner_name(path).endswith(".jsonl"):
        records = head_records(head, 8)
        telling = sum(is_conversation(record) or is_message(record) for record in records)
        if not records:
            # The first line is longer than what is looked at.
            return SESSION if _begins_a_list(head) else None
        return SESSION if telling and telling * 2 > len(records) else None
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if start.startswith(b"[") and _ROLE.search(start[: 1 << 16]):
        records = head_records(start.lstrip(b"[ \t\r\n").replace(b"\n", b" "), 1)
        return SESSION if records and (is_message(records[0]) or is_conversation(records[0])) else None
    return SESSION if start.startswith(b"{") and _begins_a_list(start) else None


def _begins_a_list(head: bytes) -> bool:
    """Whether one of the objects that a file begins with holds a list of messages.

    Messages further inside do not count: they belong to something else, such as a recorded request or a test case.
    """
    if not _LIST_START.search(head):
        return False
    speaks = _ROLE.search(head) is not None or b'"function_call' in head
    text = head.decode(errors="replace").lstrip("\ufeff \t\r\n\0")
    at = 0
    try:
        for _ in range(_OBJECTS_TRIED):
            found, at = _holds_list(text, at)
            if found or not text.startswith("{", at):
                return found and speaks
    except NotJsonError as error:
        # What is longer than the head ends in the middle; anything else is damage, and only the words are left.
        is_last = "Unterminated" in str(error) or error.position >= len(text) - _MARGIN
        is_cut = is_last and len(head) >= HEAD_BYTES - _MARGIN
        return speaks and not is_cut
    return False


def _holds_list(text: str, at: int) -> tuple[bool, int]:
    """Tell whether an object holds a list of messages.

    Returns:
        That, and the place behind the object and the white space there, of no use once a list was found.

    Raises:
        NotJsonError: the object ends or is damaged before that can be told.
    """
    at += 1
    while name := _NAME.match(text, at):
        at = name.end()
        if name[1] in _LISTS and text.startswith("[", at):
            if _has_message(text, at + 1):
                return True, at
        elif name[1] == "body" and text.startswith("{", at) and (inside := _holds_list(text, at))[0]:
            return inside
        _value, at = scan(text, at)
    end = _END.match(text, at)
    if end is None:
        raise NotJsonError("no object", at)
    return False, end.end()


def _has_message(text: str, at: int) -> bool:
    """Whether one of the first items of a list is a message, or begins like one that goes on behind the head."""
    for _ in range(_ITEMS_TRIED):
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text.startswith("]", at):
            return False
        try:
            item, at = scan(text, at)
        except NotJsonError:
            return _ROLE.search(text[at : at + _OPENING].encode("utf-8", "replace")) is not None
        if is_message(item):
            return True
    return False


def read(path: str) -> Iterator[ParsedSession]:
    """Read the conversations of a file.

    Raises:
        SourceError: it cannot be read, or holds no message.
    """
    from pi_sessions.formats.message_lists_sources import read_database, read_json, read_lines

    with open_source(path) as file:
        is_database = file.read(16).startswith(MAGIC)
    if is_database:
        return read_database(path)
    return read_lines(path) if inner_name(path).endswith(".jsonl") else read_json(path)
