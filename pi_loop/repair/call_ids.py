"""Tool-call ids and tool names that the receiving protocol accepts.

An id that fits stays as it is; any other becomes `pi_` and a hash of it, so the same id is the same in every request.
No two calls of one request share an id: a repeated one is hashed with the count of its earlier uses. A call and its
result get theirs together, from the call.
"""

from __future__ import annotations

import re

from pi_loop.target import ANTHROPIC, RESPONSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.target import Target

_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RESPONSES_ID = re.compile(r"[a-zA-Z0-9_-]{0,63}[a-zA-Z0-9-]")
_CHAT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
# What a server made itself it takes back: Kimi's `functions.bash:0` must return unchanged.
_OWN_CHAT_ID = re.compile(r"[!-{}~]{1,40}")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MADE_HERE = re.compile(r"pi_[0-9a-f]{24}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_ROOM = 55


def _hash(text: str, length: int) -> str:
    # Imported where it is needed: nearly every history has ids that fit.
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


class CallIds:
    """Gives the calls of one request their ids, in the order of the calls."""

    def __init__(self, target: Target) -> None:
        self._api = target.api
        self._mistral = target.provider == "mistral" or "mistral.ai" in target.base_url
        self._used: set[str] = set()

    def sent(self, stored: str, *, own: bool) -> str:
        """Return the id to send for the next call.

        Args:
            stored: The id of the call in the history; may be anything.
            own: Whether the receiving provider and model made it.
        """
        given = self._fitting(stored, own=own) or self._made(stored)
        count = 1
        while given in self._used:
            count += 1
            given = self._made(f"{stored}\0{count}")
        self._used.add(given)
        return given

    def _fitting(self, stored: str, *, own: bool) -> str | None:
        if self._api == RESPONSES:
            # Pi stores both ids of a Responses call as `call_id|item_id`.
            stored = stored.partition("|")[0]
            rule = _RESPONSES_ID
        elif self._api == ANTHROPIC:
            rule = _ANTHROPIC_ID
        elif self._mistral:
            rule = _MISTRAL_ID
        else:
            rule = _OWN_CHAT_ID if own else _CHAT_ID
        return stored if rule.fullmatch(stored) and not _MADE_HERE.fullmatch(stored) else None

    def _made(self, stored: str) -> str:
        return _hash(stored, 9) if self._mistral else f"pi_{_hash(stored, 24)}"


def sent_tool_name(name: str) -> str:
    """Return a tool's name as every protocol accepts it: itself, or its fitting characters and a hash of the whole."""
    if _NAME.fullmatch(name):
        return name
    return f"{_NOT_IN_NAME.sub('_', name)[:_NAME_ROOM]}_{_hash(name, 8)}"
