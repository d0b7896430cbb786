"""Streams with fields missing or of the wrong kind end as messages with a reason, not as mistakes of ours."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_loop.events import StreamDone
from pi_loop.providers.client import ASSEMBLERS
from pi_loop.providers.errors import Failure, ProviderError
from pi_loop.providers.sse import EventDecoder
from pi_loop.target import ANTHROPIC, CHAT, RESPONSES
from pi_sessions.messages import parse_message, to_wire
from tests.conformance.wire import BUNDLED
from tests.loop.provider_support import NOW_MS, model

PREFIXES = {"anth": ANTHROPIC, "chat": CHAT, "resp": RESPONSES}
STRANGE: list[Any] = [None, True, -1, 3.5, "", "text", "\ud83d", [], [None], {}, {"type": "text"}, [[1]], 10**30]


def payloads(path: Path) -> list[Any]:
    decoder = EventDecoder()
    events = decoder.feed(path.read_bytes()) + decoder.end()
    found = []
    for event in events:
        try:
            found.append(json.loads(event.data))
        except ValueError:
            continue
    return [payload for payload in found if isinstance(payload, dict)]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Give every container and key inside a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from places(inner)


def damaged(stream: list[Any], chance: random.Random) -> list[Any]:
    """Change one to three places of a stream: drop, replace, repeat or reorder."""
    stream = json.loads(json.dumps(stream))
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.2 and stream:
            place = chance.randrange(len(stream))
            stream.insert(place, stream[chance.randrange(len(stream))])
            continue
        everywhere = list(places(stream))
        if not everywhere:
            break
        container, key = chance.choice(everywhere)
        if chance.random() < 0.4:
            del container[key]
        else:
            container[key] = json.loads(json.dumps(chance.choice(STRANGE)))
    return [payload for payload in stream if isinstance(payload, dict)]


@pytest.mark.parametrize("prefix", sorted(PREFIXES))
def test_damaged_streams_end_in_a_storable_message(prefix: str) -> None:
    api = PREFIXES[prefix]
    chance = random.Random(prefix)
    streams = [payloads(path) for path in sorted((BUNDLED / "handwritten").glob(f"{prefix}-*.sse"))]
    streams = [stream for stream in streams if stream]
    ended = 0
    for _ in range(1500):
        stream = damaged(chance.choice(streams), chance)
        assembler = ASSEMBLERS[api](model(api), timestamp=NOW_MS, new_id=lambda: "new")
        try:
            events = [event for payload in stream for event in assembler.feed(payload)]
            events += assembler.finish()
            last = events[-1]
            assert isinstance(last, StreamDone)
            message = last.message
            ended += 1
        except ProviderError as error:
            message = assembler.fail(error.failure, NOW_MS).error
        text = json.dumps(to_wire(message), ensure_ascii=False)
        text.encode("utf-8")
        assert parse_message(json.loads(text)) == message
    assert 100 < ended < 1500


@pytest.mark.parametrize("prefix", sorted(PREFIXES))
def test_stream_cut_anywhere_keeps_what_had_arrived(prefix: str) -> None:
    """After every number of events the response can fail, and what it then holds is a beginning of the whole."""
    api = PREFIXES[prefix]
    for path in sorted((BUNDLED / "handwritten").glob(f"{prefix}-*.sse")):
        stream = payloads(path)
        for count in range(len(stream)):
            assembler = ASSEMBLERS[api](model(api), timestamp=NOW_MS, new_id=lambda: "new")
            shown = ""
            try:
                for payload in stream[:count]:
                    for event in assembler.feed(payload):
                        shown += getattr(event, "delta", "") if event.type == "text_delta" else ""
            except ProviderError:
                continue
            message = assembler.fail(Failure("aborted", "The request was aborted"), NOW_MS).error
            assert message.stop_reason == "aborted"
            assert message.text.startswith(shown)
            assert all(call.name for call in message.tool_calls)
