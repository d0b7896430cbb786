"""Finds the one result of each tool call, wherever on the path it was stored.

A result belongs to the nearest message before it that has a call with its id; among calls of one message that share an
id, to the first still open. The first result of a call counts. Everything else is a stray or a duplicate.
"""

from __future__ import annotations

from pi_sessions.context import blocks_of
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_sessions.stored import JsonObject


class Pairing(Record):
    """Which result answers which call; all places are indexes into the messages given.

    Attributes:
        results: By message and place of the call among that message's blocks: the place of its result.
        strays: Results without a call before them.
        duplicates: Results of calls that had one already.
        moved: Results that did not follow the message of their call or another result of it.
    """

    results: dict[tuple[int, int], int]
    strays: frozenset[int]
    duplicates: frozenset[int]
    moved: frozenset[int]


class _Calls:
    """The calls of one message that share an id, and how many of them are answered."""

    __slots__ = ("answered", "message", "places")

    def __init__(self, message: int) -> None:
        self.message = message
        self.places: list[int] = []
        self.answered = 0


def call_id_of(block: JsonObject) -> str:
    """Return a call's id as results name it; empty text when it has none."""
    stored = block.get("id")
    return stored if isinstance(stored, str) else ""


def is_call(block: JsonObject) -> bool:
    """Whether a block is a tool call that names a tool."""
    name = block.get("name")
    return block.get("type") == "toolCall" and isinstance(name, str) and bool(name.strip())


def pair_results(roles: Sequence[str], blocks: Sequence[Sequence[JsonObject]], result_ids: Sequence[str]) -> Pairing:
    """Pair the results of a history with its calls.

    Args:
        roles: Role of each message.
        blocks: Content of each message.
        result_ids: For each tool result the id of the call it answers; empty text elsewhere.
    """
    latest: dict[str, _Calls] = {}
    results: dict[tuple[int, int], int] = {}
    strays: set[int] = set()
    duplicates: set[int] = set()
    moved: set[int] = set()
    batch: int | None = None
    for index, role in enumerate(roles):
        if role == "assistant":
            batch = index
            for place, block in enumerate(blocks[index]):
                if not is_call(block):
                    continue
                calls = latest.get(call_id_of(block))
                if calls is None or calls.message != index:
                    calls = latest[call_id_of(block)] = _Calls(index)
                calls.places.append(place)
        elif role == "user":
            batch = None
        else:
            found = latest.get(result_ids[index])
            if found is None:
                strays.add(index)
            elif found.answered == len(found.places):
                duplicates.add(index)
            else:
                results[found.message, found.places[found.answered]] = index
                found.answered += 1
                if found.message != batch:
                    moved.add(index)
    return Pairing(results, frozenset(strays), frozenset(duplicates), frozenset(moved))


def results_by_call(messages: Sequence[JsonObject | None]) -> dict[tuple[int, int], int]:
    """Return which message holds the result of each call that has one.

    Args:
        messages: Of one path, root first; None where an entry holds none.

    Returns:
        Place of a call's message and of the call among its blocks: place of its result.
    """
    known = [message or {} for message in messages]
    roles = [message.get("role") for message in known]
    places = [place for place, role in enumerate(roles) if role in ("user", "assistant", "toolResult")]
    pairing = pair_results(
        [str(roles[place]) for place in places],
        [blocks_of(known[place].get("content")) for place in places],
        [_result_id(known[place]) for place in places],
    )
    return {(places[call], block): places[result] for (call, block), result in pairing.results.items()}


def _result_id(message: JsonObject) -> str:
    stored = message.get("toolCallId")
    return stored if message.get("role") == "toolResult" and isinstance(stored, str) else ""
