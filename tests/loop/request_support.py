"""Targets, contexts and checks for the tests of requests."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pi_loop.bodies import BodyOptions, body_for
from pi_loop.repair.report import Repair
from pi_loop.request import BuiltRequest, build_request
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES, Target
from pi_sessions.context import ContextMessage, active_entries, build_context, path_settings, path_to_root
from pi_sessions.stored import StoredEntry
from tests.loop.checkers.anthropic import check_anthropic
from tests.loop.checkers.chat import check_chat
from tests.loop.checkers.responses import check_responses

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
CLAUDE = Target("anthropic", "claude-sonnet-4-5", ANTHROPIC, reasoning=True, context_window=200_000, max_tokens=64_000)
GPT = Target("openai", "gpt-5", RESPONSES, reasoning=True, context_window=400_000, max_tokens=128_000)
GLM = Target("zai", "glm-4.7", CHAT, vision=False, reasoning=True)
KIMI = Target("moonshot", "kimi-k2", CHAT, reasoning=False)
TARGETS = (CLAUDE, GPT, GLM, KIMI)
CHECKS = {ANTHROPIC: check_anthropic, RESPONSES: check_responses, CHAT: check_chat}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
Json = dict[str, Any]


def case_entries(case: str, file: str = "*") -> list[StoredEntry]:
    """Return the entries of a recorded Pi session, given the start of its folder's name."""
    (path,) = CASES.glob(f"{case}-*/{file}.jsonl")
    lines = path.read_text("utf-8").splitlines()
    return [StoredEntry.from_dict(json.loads(line)) for line in lines[1:]]


def context_at(entries: Sequence[StoredEntry], leaf: str | None) -> tuple[ContextMessage, ...]:
    """Return the context messages at a leaf."""
    path = path_to_root({entry.id: entry for entry in entries}, leaf)
    return build_context(active_entries(path), *path_settings(path)).messages


def given(*messages: Json) -> list[ContextMessage]:
    """Return messages as a context gives them, each from an entry named by its place."""
    return [ContextMessage(f"e{place}", message) for place, message in enumerate(messages)]


def user(content: object = "Go on.") -> Json:
    return {"role": "user", "content": content, "timestamp": 1}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def image(data: str = PNG, mime: str = "image/png") -> Json:
    return {"type": "image", "data": data, "mimeType": mime}


def call(call_id: str, name: str = "read", arguments: object = None) -> Json:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {} if arguments is None else arguments}


def answer(*blocks: Json, by: Target = CLAUDE, stop: str = "stop") -> Json:
    made_by = {"api": by.api, "provider": by.provider, "model": by.model}
    return {"role": "assistant", "content": list(blocks), **made_by, "stopReason": stop, "timestamp": 1}


def result(call_id: str, content: object = "done", *, error: bool = False) -> Json:
    message = {"role": "toolResult", "toolCallId": call_id, "toolName": "read", "content": content}
    return {**message, "isError": error, "timestamp": 1}


def system(content: str = "", **fields: object) -> Json:
    return {"role": "system", "content": content, **fields, "timestamp": 1}


def signed_by(target: Target) -> Callable[[str], bool]:
    """Return the check of a signature: those of the tests name their makers as `by PROVIDER/MODEL.`."""
    own = f"{target.provider}/{target.model}"
    return lambda signature: all(maker == own for maker in re.findall(r"by (\S+?/\S+?);", signature))


def broken_rules(body: Json, target: Target) -> list[str]:
    """Return the rules of its protocol that a body breaks."""
    return CHECKS[target.api](body, signed_by(target))


def accepted(messages: Iterable[ContextMessage], target: Target, *, level: str = "high") -> tuple[BuiltRequest, Json]:
    """Build request and body, and see to it that the protocol's checker takes the body."""
    request = build_request(messages, target)
    body = body_for(request, BodyOptions(reasoning=level))
    assert broken_rules(body, target) == []
    return request, body


def codes(repairs: Iterable[Repair]) -> list[tuple[str, str | None]]:
    """Return code and entry of each repair."""
    return [(repair.code, repair.entry_id) for repair in repairs]
