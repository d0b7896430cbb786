"""Made-up session files of Pi, Claude Code and Codex, with records of the sizes and kinds theirs have, same each time.

A turn is a question, an answer that reads or edits a file, the result (several thousand characters of code), and a
closing answer. Claude Code says results twice (for the model and structured) and repeats its surroundings in every
record; Codex says what people see a second time as events, and counts tokens after each answer.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from pi_sessions.times import format_time
from tests.benchmarks.data import START_MS

Record = dict[str, Any]
Conversation = Callable[["Chance", str, int], Iterator[Record]]

# Sizes of session files in MB, taken in turns: most are small, some are long.
_FILE_MB = (0.3, 0.6, 1.2, 0.2, 4, 0.8, 2, 0.5, 12, 1)
_LINES = (
    "def lease(self, worker: str) -> Lease | None:",
    '    """Take the next job; None when the queue is empty."""',
    "    with self.lock:",
    '        if not self.jobs or self.owner(worker) == "nobody":',
    '\traise QueueError(f"no job for {worker!r}")',
    "for name, value in sorted(settings.items()):",
    "    assert value is not None, name",
    "# The clock may go back: compare sequence numbers – never times.",
    "const queue = new Queue({ retries: 3, backoff: 'exponential' });",
    '  "scripts": { "test": "vitest run", "lint": "eslint ." },',
    "| `lease_s` | 30 | how long a worker keeps a job → then it is free |",
    "FAILED tests/test_queue.py::test_two_workers - assert 2 == 1",
    "",
)
_SENTENCE = (
    "the queue hands a job to two workers when its lease ends while one still writes so we compare the token before "
    "each commit and keep the older result then the test passes again although it is slower than it was"
)
_TOKEN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_POOL_CHARS = 400_000


class Chance:
    """Random texts, cut from pools that are made once.

    Args:
        seed: The same seed gives the same texts.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._code = "\n".join(self.random.choices(_LINES, k=_POOL_CHARS // 40))
        self._prose = " ".join(self.random.choices(_SENTENCE.split(), k=_POOL_CHARS // 5))
        self._token = "".join(self.random.choices(_TOKEN_CHARS, k=_POOL_CHARS))

    def code(self, least: int, most: int) -> str:
        """Return lines of a program."""
        return self._piece(self._code, least, most)

    def prose(self, least: int, most: int) -> str:
        """Return words."""
        return self._piece(self._prose, least, most).strip()

    def token(self, least: int, most: int) -> str:
        """Return a signature or something encrypted."""
        return self._piece(self._token, least, most)

    def id(self) -> str:
        """Return a UUID."""
        text = f"{self.random.getrandbits(128):032x}"
        return "-".join((text[:8], text[8:12], "4" + text[13:16], "a" + text[17:20], text[20:]))

    def _piece(self, pool: str, least: int, most: int) -> str:
        start = self.random.randrange(len(pool) - most)
        return pool[start : start + self.random.randint(least, most)]


def write_mixed_sources(folder: str, size: int) -> int:
    """Write session files of the three tools, a third of the bytes each, in their tools' layouts.

    Args:
        folder: Gets `pi`, `claude` and `codex` inside.
        size: Bytes in all, about.

    Returns:
        The bytes written.
    """
    chance = Chance(7)
    written = 0
    for number in count():
        if written >= size:
            return written
        most = int(_FILE_MB[number // 3 % len(_FILE_MB)] * 1e6)
        name, conversation = _TOOLS[number % 3]
        session = chance.id()
        path = os.path.join(folder, name.format(session=session, number=number))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        written += _write(path, conversation(chance, session, START_MS + number * 3_600_000), min(most, size - written))
    return written


def write_conversation(path: str, tool: str, size: int) -> int:
    """Write one long session of `pi`, `claude` or `codex` into a file; return the bytes written."""
    conversation = next(each for name, each in _TOOLS if name.startswith(tool))
    chance = Chance(11)
    return _write(path, conversation(chance, chance.id(), START_MS), size)


def _write(path: str, records: Iterator[Record], size: int) -> int:
    written = 0
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with open(path, "wb") as file:
        for record in records:
            written += file.write(encode(record).encode() + b"\n")
            if written >= size:
                return written
    return written


def _pi(chance: Chance, session: str, at: int) -> Iterator[Record]:
    time = format_time(at)
    yield {"type": "session", "version": 3, "id": session, "timestamp": time, "cwd": "/home/me/queue"}
    parent: str | None = None
    for message in _pi_messages(chance, at):
        own = f"{chance.random.getrandbits(32):08x}"
        time = format_time(message["timestamp"])
        yield {"type": "message", "id": own, "parentId": parent, "timestamp": time, "message": message}
        parent = own


def _pi_messages(chance: Chance, at: int) -> Iterator[Record]:
    for turn in count():
        at += 60_000
        yield {"role": "user", "content": [{"type": "text", "text": chance.prose(60, 900)}], "timestamp": at}
        for step in range(chance.random.randint(1, 6)):
            call = f"toolu_{turn:06x}{step:02x}"
            arguments = {"path": f"/home/me/queue/src/part{step}.py", "oldText": chance.code(0, 600)}
            thinking = {"type": "thinking", "thinking": chance.prose(100, 900)}
            thinking["thinkingSignature"] = chance.token(300, 900)
            block = {"type": "toolCall", "id": call, "name": "read", "arguments": arguments}
            yield _pi_answer([thinking, block], "toolUse", at + step * 2000)
            yield {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": "read",
                "content": [{"type": "text", "text": chance.code(200, 9000)}],
                "isError": False,
                "timestamp": at + step * 2000 + 900,
            }
        yield _pi_answer([{"type": "text", "text": chance.prose(100, 1600)}], "stop", at + 20_000)


def _pi_answer(content: list[Record], stop_reason: str, at: int) -> Record:
    cost = {"input": 0.003, "output": 0.0021, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0051}
    usage = {"input": 1000, "output": 140, "cacheRead": 20_000, "cacheWrite": 0, "totalTokens": 21_140, "cost": cost}
    told = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5", "usage": usage}
    return {"role": "assistant", "content": content, **told, "stopReason": stop_reason, "timestamp": at}


def _claude(chance: Chance, session: str, at: int) -> Iterator[Record]:
    parent: str | None = None
    own = ""

    def record(kind: str, message: Record, at: int, **more: Any) -> Record:
        nonlocal parent, own
        parent, own = own or None, chance.id()
        around = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/home/me/queue"}
        around |= {"sessionId": session, "version": "2.1.4", "gitBranch": "main", "type": kind, "message": message}
        return {**around, **more, "uuid": own, "timestamp": format_time(at)}

    def answer(block: Record, id: str, request: str, stop_reason: str | None, at: int) -> Record:
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 800, "cache_read_input_tokens": 21_000}
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": 800, "ephemeral_1h_input_tokens": 0}
        usage |= {"output_tokens": 140, "service_tier": "standard"}
        message = {"model": "claude-sonnet-4-5", "id": id, "type": "message", "role": "assistant", "content": [block]}
        message |= {"stop_reason": stop_reason, "stop_sequence": None, "usage": usage}
        return record("assistant", message, at, requestId=request)

    for turn in count():
        at += 60_000
        yield {"type": "file-history-snapshot", "messageId": chance.id(), "snapshot": {"trackedFileBackups": {}}}
        yield record("user", {"role": "user", "content": chance.prose(60, 900)}, at)
        for step in range(chance.random.randint(1, 6)):
            now = at + step * 2000
            id, request = f"msg_{chance.token(22, 22)}", f"req_{chance.token(22, 22)}"
            call, path = f"toolu_{turn:06x}{step:02x}", f"/home/me/queue/src/part{step}.py"
            thinking = {"type": "thinking", "thinking": chance.prose(100, 900), "signature": chance.token(300, 900)}
            yield answer(thinking, id, request, None, now)
            block = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path, "limit": 200}}
            yield answer(block, id, request, "tool_use", now + 100)
            text = chance.code(200, 6000)
            result = {"tool_use_id": call, "type": "tool_result", "content": text}
            details = {"type": "text", "file": {"filePath": path, "content": text, "numLines": 90, "startLine": 1}}
            yield record("user", {"role": "user", "content": [result]}, now + 900, toolUseResult=details)
        closing = {"type": "text", "text": chance.prose(100, 1600)}
        yield answer(closing, f"msg_{chance.token(22, 22)}", f"req_{chance.token(22, 22)}", "end_turn", at + 20_000)


def _codex(chance: Chance, session: str, at: int) -> Iterator[Record]:
    def line(kind: str, at: int, **payload: Any) -> Record:
        return {"timestamp": format_time(at), "type": kind, "payload": payload}

    def item(at: int, type: str, **told: Any) -> Record:
        return line("response_item", at, type=type, **told)

    def event(at: int, type: str, **told: Any) -> Record:
        return line("event_msg", at, type=type, **told)

    def tokens(at: int) -> Record:
        nonlocal total
        total += 21_140
        last = {"input_tokens": 21_000, "cached_input_tokens": 20_000, "output_tokens": 140}
        last |= {"reasoning_output_tokens": 64, "total_tokens": 21_140}
        info = {"total_token_usage": {**last, "total_tokens": total}, "last_token_usage": last}
        limits = {"primary": {"used_percent": 12.0, "window_minutes": 300}, "secondary": None}
        return event(at, "token_count", info={**info, "model_context_window": 272_000}, rate_limits=limits)

    total = 0
    meta = {"id": session, "timestamp": format_time(at), "cwd": "/home/me/queue", "originator": "codex_cli_rs"}
    yield line("session_meta", at, **meta, cli_version="0.93.0", instructions=chance.prose(2000, 2000), source="cli")
    for turn in count():
        at += 60_000
        context = {"cwd": "/home/me/queue", "approval_policy": "on-request", "sandbox_policy": {"mode": "read-only"}}
        yield line("turn_context", at, **context, model="gpt-5-codex", effort="medium", summary="auto")
        text = chance.prose(60, 900)
        yield item(at, "message", role="user", content=[{"type": "input_text", "text": text}])
        yield event(at, "user_message", message=text, images=[])
        for step in range(chance.random.randint(1, 6)):
            now = at + step * 2000
            thought = f"**Reading**\n\n{chance.prose(60, 400)}"
            yield event(now, "agent_reasoning", text=thought)
            summary = [{"type": "summary_text", "text": thought}]
            yield item(now, "reasoning", summary=summary, content=None, encrypted_content=chance.token(800, 2400))
            call = f"call_{turn:06x}{step:02x}{chance.token(12, 12)}"
            arguments = json.dumps({"command": ["bash", "-lc", chance.code(20, 300)], "workdir": "/home/me/queue"})
            yield item(now + 100, "function_call", name="shell", arguments=arguments, call_id=call)
            yield tokens(now + 200)
            output = json.dumps({"output": chance.code(200, 9000), "metadata": {"exit_code": 0, "duration_seconds": 1}})
            yield item(now + 900, "function_call_output", call_id=call, output=output)
        text = chance.prose(100, 1600)
        yield event(at + 20_000, "agent_message", message=text)
        yield item(at + 20_000, "message", role="assistant", content=[{"type": "output_text", "text": text}])
        yield tokens(at + 20_100)


_TOOLS: tuple[tuple[str, Conversation], ...] = (
    ("pi/sessions/--home-me-queue--/2026-03-02T09-00-{number}_{session}.jsonl", _pi),
    ("claude/projects/-home-me-queue/{session}.jsonl", _claude),
    ("codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-{session}.jsonl", _codex),
)
