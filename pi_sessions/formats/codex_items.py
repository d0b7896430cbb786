"""What the items of a Codex rollout mean: contents, tool calls and outputs, usage, machine-made texts. Pure.

Source: Codex 0.9x rollouts; OpenAI Responses items.
"""

from __future__ import annotations

import json
import re

from pi_sessions.formats.codex import ITEM_KINDS
from pi_sessions.formats.json_values import quick_object, value_text
from pi_sessions.formats.parsed import ChildOf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pi_sessions.stored import JsonObject

_WRAPPED = re.compile(r"\s*<([A-Za-z][A-Za-z_ -]*)(?:\s[^>]*)?>.*</\1>\s*", re.DOTALL)
_OPENED = ("<user_instructions>", "<environment_context>", "<INSTRUCTIONS>")
# Tags in which Codex itself wraps what it puts before the model; any other tag may be a person's.
_INJECTED = frozenset(
    """
    environment-context user-instructions instructions permissions-instructions turn-aborted collaboration-mode
    personality-spec skill skills-instructions apps-instructions plugins-instructions subagent-notification
    subagent-context user-shell-command model-switch realtime-conversation app-context hook-prompt user-action
    recommended-plugins goal-context multi-agent-mode memory-context
    """.split()  # noqa: SIM905
)
_decode_first = json.JSONDecoder().raw_decode
_DATA_URL = re.compile(r"data:([A-Za-z0-9.+/-]{1,80});base64,(.*)", re.DOTALL)
STOCK_SUMMARY = "(Codex compacted the conversation here; its summary is encrypted and only Codex can read it.)"
# The usage of an answer nothing is told about.
NO_USAGE: JsonObject = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}
CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "local_shell_call_output"))
# Items of an answer that the provider carried out itself; they have no result of their own.
SERVED = frozenset(("web_search_call", "image_generation_call"))
KNOWN_EVENTS = frozenset(
    """
    task_started task_complete turn_started turn_complete turn_aborted mcp_tool_call_begin mcp_tool_call_end
    patch_apply_begin patch_apply_end web_search_begin web_search_end exec_command_begin exec_command_end
    exec_approval_request apply_patch_approval_request background_event stream_error error warning turn_diff
    plan_update entered_review_mode exited_review_mode view_image_tool_call dynamic_tool_call_request
    dynamic_tool_call_response item_completed item_started undo_completed session_configured shutdown_complete
    agent_reasoning_section_break collab_agent_spawn_end collab_agent_interaction_end collab_waiting_end
    collab_close_end collab_resume_end model_reroute deprecation_notice elicitation_request thread_settings_applied
    """.split()  # noqa: SIM905
)
KNOWN_ITEMS = ITEM_KINDS | {
    "tool_search_call",
    "tool_search_output",
    "image_generation_call",
    "agent_message",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "configuration_update",
}
KNOWN_LINES = frozenset(("world_state", "inter_agent_communication", "token_usage", "token_usage_record", "state"))


def injected_kind(text: str) -> str | None:
    """Return what kind of machine-made text a user item holds, None when a person wrote it."""
    start = text.lstrip()
    if start.startswith("# AGENTS.md instructions"):
        return "instructions"
    if start.startswith(_OPENED):
        return start[1:].partition(">")[0].lower()
    wrapped = _WRAPPED.fullmatch(text)
    kind = wrapped[1].strip().replace(" ", "-").replace("_", "-").lower() if wrapped else ""
    return kind if kind in _INJECTED else None


def blocks_of(content: object) -> list[JsonObject]:
    """Return an item's content in our blocks; kinds without a place stay as they are."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    found: list[JsonObject] = []
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        kind, text = block.get("type"), block.get("text")
        url = block.get("image_url")
        if kind in ("input_text", "output_text", "text") and isinstance(text, str):
            found.append({"type": "text", "text": text})
        elif kind == "input_image" and isinstance(url, str):
            picture = _DATA_URL.fullmatch(url)
            if picture is None:
                found.append({**block, "type": "image_reference"})
            else:
                found.append({"type": "image", "data": picture[2], "mimeType": picture[1]})
        elif isinstance(kind, str):
            found.append(dict(block))
    return found


def text_of(blocks: list[JsonObject]) -> str:
    """Return the text of some blocks."""
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def thinking_block(item: JsonObject) -> JsonObject:
    """Return a reasoning item as a thinking block; what is encrypted is kept whole, for its maker only."""
    parts = [
        block["text"]
        for name in ("summary", "content")
        for block in (item.get(name) if isinstance(item.get(name), list) else None) or ()
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    block: JsonObject = {"type": "thinking", "thinking": "\n\n".join(parts)}
    if item.get("encrypted_content"):
        block["thinkingSignature"] = value_text(item)[0]
        block["encrypted"] = True
        if not parts:
            block["redacted"] = True
    return block


def thoughts_in(message: JsonObject) -> list[str]:
    """Return an answer's thinking; contents that our exporter marked may be anything."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    found = [block.get("thinking") for block in blocks if block.get("type") == "thinking"]
    return [thought for thought in found if isinstance(thought, str)]


def tool_call(item: JsonObject) -> JsonObject:
    """Return a call item as a toolCall block."""
    kind = item["type"]
    call: JsonObject = {"type": "toolCall", "id": str(item.get("call_id") or item.get("id") or "")}
    call["name"] = str(item.get("name") or ("local_shell" if kind == "local_shell_call" else ""))
    if kind == "custom_tool_call":
        call |= {"arguments": {"input": _as_text(item.get("input"))}, "codexKind": kind}
    elif kind == "local_shell_call":
        action = item.get("action")
        call |= {"arguments": action if isinstance(action, dict) else {}, "codexKind": kind}
    else:
        arguments, error = _arguments(item.get("arguments"))
        call["arguments"] = arguments
        if error is not None:
            call |= {"argumentsError": error, "argumentsText": _as_text(item.get("arguments"))}
    if isinstance(item.get("namespace"), str):
        call["namespace"] = item["namespace"]
    return call


def _arguments(given: object) -> tuple[JsonObject, str | None]:
    if isinstance(given, dict):
        return given, None
    text = given if isinstance(given, str) else ""
    if not text.strip():
        return {}, None
    value = quick_object(text)
    if value is not None:
        return value, None
    try:
        value = json.loads(text, parse_constant=lambda name: None)
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are no JSON: {error}"[:200]
    return (value, None) if isinstance(value, dict) else ({}, "the arguments are no JSON object")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def result_message(item: JsonObject, tool_name: str) -> JsonObject:
    """Return an output item as a toolResult message."""
    output = item.get("output")
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content_items") or output.get("content")
    content = blocks_of(output)
    if isinstance(output, str) and output.startswith('{"output"'):
        failed = _exit_code(output) != 0
    message: JsonObject = {
        "role": "toolResult",
        "toolCallId": str(item.get("call_id") or item.get("id") or ""),
        "toolName": tool_name,
        "content": content,
        "isError": failed,
    }
    if item["type"] != "function_call_output":
        message["codexKind"] = item["type"]
    return message


def _exit_code(output: str) -> int:
    """Return the exit code in `{"output": ..., "metadata": {"exit_code": 0, ...}}`, 0 when there is none.

    Only what follows the output is decoded: decoding all of it took an eighth of the time of reading a rollout. Inside
    the output a quotation mark is escaped, so that its text is never taken for the field.
    """
    metadata = output.rpartition('"metadata":')[2].lstrip()
    try:
        code = _decode_first(metadata)[0]["exit_code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return code if isinstance(code, int) else 0


def usage_of(given: JsonObject) -> JsonObject:
    """Return one response's usage in our names; cached tokens are a part of Codex's input and none of ours."""
    total_input, cached = _count(given.get("input_tokens")), _count(given.get("cached_input_tokens"))
    output, reasoning = _count(given.get("output_tokens")), _count(given.get("reasoning_output_tokens"))
    told: JsonObject = {
        "input": max(total_input - cached, 0),
        "output": output,
        "cacheRead": cached,
        "cacheWrite": 0,
        "totalTokens": total_input + output,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }
    if reasoning:
        told["reasoning"] = reasoning
    return told


def no_usage() -> JsonObject:
    """Return a usage for an answer nothing is told about yet."""
    return {**NO_USAGE, "cost": {**NO_USAGE["cost"]}}


def add_usage(one: JsonObject, other: JsonObject) -> JsonObject:
    """Return the sum of two responses' usages, for items of both that became one message."""
    names = ("input", "output", "cacheRead", "cacheWrite", "totalTokens", "reasoning")
    return {**one, **{name: one.get(name, 0) + other.get(name, 0) for name in names if name in one or name in other}}


def _count(value: object) -> int:
    if type(value) is int:
        return value if 0 <= value < 1 << 53 else 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


def kept_of(history: list[Any], summary: str) -> tuple[list[list[JsonObject]], list[JsonObject]]:
    """Return what people said that Codex goes on showing to the model, and the items that have no place with us."""
    kept: list[list[JsonObject]] = []
    other: list[JsonObject] = []
    for item in history:
        if not isinstance(item, dict):
            continue
        blocks = blocks_of(item.get("content")) if item.get("type") == "message" else []
        text = text_of(blocks)
        if item.get("role") != "user" or not blocks:
            other.append(item)
        elif summary and summary.strip() in text:
            continue
        else:
            kept.append(blocks)
    return kept, other


def child_of(meta: JsonObject, session_id: str) -> ChildOf | None:
    """Return which thread began this one as its subagent, None when a person did."""
    parent = meta.get("parent_thread_id")
    source = meta.get("source")
    if isinstance(source, dict):
        inside = source.get("subagent", source.get("sub_agent"))
        spawned = inside.get("thread_spawn") if isinstance(inside, dict) else None
        if isinstance(spawned, dict):
            parent = parent or spawned.get("parent_thread_id")
        if inside is not None and not isinstance(parent, str):
            return ChildOf("", session_id)
    return ChildOf(parent, session_id) if isinstance(parent, str) and parent else None
