"""Reads a Claude Code transcript: one session, and a child session for each subagent whose records stand in it.

Tells the conversations apart; their records become entries one by one (`claude_code_chain`), and links are made when
all are read, since they may point forwards (`claude_code_links`).

Source: Claude Code 2.1 session files.
"""

from __future__ import annotations

import os
import re

from pi_sessions.errors import SourceError
from pi_sessions.formats.building import computed_id
from pi_sessions.formats.claude_code import is_record
from pi_sessions.formats.claude_code_chain import Chain
from pi_sessions.formats.compressed import inner_name
from pi_sessions.formats.foreign_ids import MARK, mark_of, marked_text
from pi_sessions.formats.json_lines import JsonLines
from pi_sessions.formats.parsed import ChildOf, Repair, Tally
from pi_sessions.pauses import CollectionsPaused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject

_UUID = re.compile(r'"uuid"\s*:\s*"([^"\\]+)"')
_SESSION_FILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9._-]+)\.jsonl")


def read_transcript(path: str) -> Iterator[ParsedSession]:
    """Read one file.

    Raises:
        SourceError: it cannot be read, or holds no record of Claude Code.
    """
    lines = JsonLines(path, is_record, name_of=_torn_name)
    transcript = _Transcript(path, lines)
    lines.seen = transcript
    with CollectionsPaused():
        for line, record in lines:
            transcript.take(line, record)
    if not transcript.understood:
        raise SourceError(f"{path} holds no record of Claude Code")
    yield from transcript.finish()


def _torn_name(text: str) -> str | None:
    found = _UUID.search(text)
    return found[1] if found else None


class _Transcript:
    """All chains of one file; what is `in` it are the uuids of its records."""

    def __init__(self, path: str, lines: JsonLines) -> None:
        self.path = path
        self.lines = lines
        self.understood = False
        named = _AGENT_FILE.fullmatch(os.path.basename(inner_name(path)))
        self.agent = named[1] if named else None
        self.home = Chain("", path)
        self.sides: dict[str, Chain] = {}
        self._side_of: dict[str, str] = {}
        self._ids: dict[str, None] = {}
        self._marked: str | None = None
        # Stands for the session where no record names it; the same however much the file grows.
        self._first = ""

    def __contains__(self, uuid: object) -> bool:
        return any(uuid in chain.named for chain in (self.home, *self.sides.values()))

    def take(self, line: int, record: JsonObject) -> None:
        """Take in one record."""
        self._first = self._first or computed_id(record)
        kind = record.get("type")
        session = record.get("sessionId")
        if isinstance(session, str) and session:
            self._ids.setdefault(session)
        if not isinstance(kind, str) or not kind:
            self.lines.lose(line, "no_type", "an object without a type is no record")
            return
        self.understood = self.understood or is_record(record)
        if MARK in record:
            self._marked = self._marked or marked_text(mark_of(record), "session")
        uuid = record.get("uuid")
        self.lines.use(line, "entries")
        if isinstance(uuid, str) and uuid:
            self._chain_of(record, uuid).take(line, record)
        else:
            self.home.take_meta(line, kind, record, next(iter(self._ids), ""))

    def _chain_of(self, record: JsonObject, uuid: str) -> Chain:
        agent = record.get("agentId")
        if self.agent is not None:
            return self.home
        if record.get("isSidechain") is not True:
            return self.home
        parent = record.get("parentUuid")
        if isinstance(agent, str) and agent:
            key = f"agent-{agent}"
        else:
            key = self._side_of.get(str(parent), f"side-{uuid[:8]}")
        self._side_of[uuid] = key
        if key not in self.sides:
            self.sides[key] = Chain(key, self.path)
        return self.sides[key]

    def finish(self) -> Iterator[ParsedSession]:
        """Yield the session itself, then its subagents' conversations."""
        for chain in (self.home, *self.sides.values()):
            chain.write_answer()
        stem = os.path.basename(inner_name(self.path)).removesuffix(".jsonl")
        named = stem in self._ids or (not self._ids and _SESSION_FILE.fullmatch(stem))
        session_id = stem if named else next(iter(self._ids), f"claude-code-{self._first}")
        session_id = self._marked or session_id
        prompts = self._prompts()
        told: dict[str, Any] = {}
        if self.home.nodes or not self.sides:
            if self.agent is not None:
                told["child_of"] = ChildOf(session_id, self.agent)
                session_id = f"{session_id}.agent-{self.agent}"
            yield self._session(self.home, session_id, lines=self.lines, **told)
            rest: JsonLines | None = None
        else:
            rest = self.lines
        for key, chain in self.sides.items():
            agent = key.removeprefix("agent-") if key.startswith("agent-") else None
            call = prompts.get(chain.prompt or "")
            child = ChildOf(session_id, agent, call)
            yield self._session(chain, f"{session_id}.{key}", lines=rest, child_of=child)
            rest = None

    def _prompts(self) -> dict[str, str]:
        """Return which tool call gave which prompt to a subagent."""
        found: dict[str, str] = {}
        if self.sides:
            for entry in self.home.builder.entries:
                message = entry.message
                for block in message["content"] if message and message.get("role") == "assistant" else ():
                    prompt = block.get("arguments", {}).get("prompt") if block.get("type") == "toolCall" else None
                    if isinstance(prompt, str):
                        found.setdefault(prompt, block["id"])
        return found

    def _session(self, chain: Chain, session_id: str, *, lines: JsonLines | None, **told: Any) -> ParsedSession:
        leaf = chain.finish_links()
        builder = chain.builder
        for line in chain.held_back:
            self.lines.hold_back(line)
        if chain.held_back:
            found = "a compaction without its summary is left for a later import, when that is written"
            if len(chain.held_back) > 1:
                found += f"; lines left out: {', '.join(map(str, sorted(chain.held_back)))}"
            builder.repairs.append(Repair(chain.held_back[-1], "unfinished", found))
        constant = {name: value for name, value in chain.constant.items() if name != "cwd"}
        told |= {
            "id": session_id,
            "header": {"claudeCode": constant} if constant else {},
            "cwd": chain.cwd,
            "leaf": leaf,
            "name": chain.given_name,
            "title": chain.title or chain.command,
            "parent_ref": chain.fork[0] if chain.fork else None,
            "copied": "child_of" not in told,
        }
        if lines is not None:
            return builder.finish_lines(lines, **told)
        own = builder.lines_used()
        tally = Tally(lines=own, header=0, entries=own, facts=0, blank=0, skipped=0, lost=0)
        file = self.lines
        return builder.finish(tally=tally, digest=file.digest, size=file.size, mtime_ms=file.mtime_ms, **told)
