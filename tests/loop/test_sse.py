"""Server-sent events: however the bytes are cut, the events are the same."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.providers.sse import EventDecoder, ServerEvent


def decode(*chunks: bytes) -> list[ServerEvent]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.end()


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [ServerEvent("a"), ServerEvent("b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [ServerEvent("a"), ServerEvent("b")]),
        (b"data: a\r\rdata: b\r\r", [ServerEvent("a"), ServerEvent("b")]),
        (b"data: a\r\n\ndata: b\n\r\n", [ServerEvent("a"), ServerEvent("b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent("a")]),
        (b"data:a\ndata:  b\n\n", [ServerEvent("a\n b")]),
        (b"event: ping\ndata: {}\n\n", [ServerEvent("{}", "ping")]),
        (b"event: lonely\n\ndata: a\n\n", [ServerEvent("a")]),
        (b": comment\ndata: a\n: more\n\n", [ServerEvent("a")]),
        (b"id: 1\nretry: 3\nunknown: x\ndata: a\n\n", [ServerEvent("a")]),
        (b"data\n\ndata:\n\n", [ServerEvent(""), ServerEvent("")]),
        (b"\n\n\n", []),
        (b"data: a", [ServerEvent("a", ended=False)]),
        (b"data: a\n", [ServerEvent("a", ended=False)]),
        (b"data: \xe2\x82", [ServerEvent("�", ended=False)]),
        (b"", []),
        ("data: a\u2028b\u0085c\x0bd\n\n".encode(), [ServerEvent("a\u2028b\u0085c\x0bd")]),
        (b"dat: a\n\n", []),
        (b"data : a\n\n", []),
    ],
)
def test_stream_gives_its_events(raw: bytes, events: list[ServerEvent]) -> None:
    assert decode(raw) == events
    assert decode(*[raw[place : place + 1] for place in range(len(raw))]) == events


LINES = st.sampled_from(
    ["data: one", "data:zwei ü", "data", ": note", "event: x", "", "", "data: 🚀 “q”", "\ufeffdata: b", "id: 7"]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(
    lines=st.lists(st.tuples(LINES, ENDS), max_size=12),
    tail=st.sampled_from(["", "data: tail", "da"]),
    cuts=st.lists(st.integers(min_value=0, max_value=200), max_size=12),
)
def test_cuts_change_nothing(lines: list[tuple[str, str]], tail: str, cuts: list[int]) -> None:
    raw = ("".join(line + end for line, end in lines) + tail).encode()
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]
    assert decode(*pieces) == decode(raw)


def test_empty_reads_change_nothing() -> None:
    assert decode(b"data: a\r", b"", b"\n", b"\r\n") == [ServerEvent("a")]
