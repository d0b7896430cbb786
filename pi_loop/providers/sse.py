"""Server-sent events, byte for byte as the specification says.

Bytes go in as they come from the network, whole events come out; how the bytes were cut makes no difference. Lines are
split before they are decoded, so a character that arrives in two reads is never seen half. Comments, `id` and `retry`
are skipped: nothing here reconnects.

Differs from the specification in one point: an event that the end of the stream leaves without its empty line counts,
marked as not `ended`, because servers leave that line out.

Source: WHATWG HTML, "Server-sent events".
"""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data lines joined with LF, and its name, empty if it has none.

    `ended` is false for the last event of a stream that stopped before the empty line.
    """

    data: str
    name: str = ""
    ended: bool = True


class EventDecoder:
    """Turns the bytes of one stream into its events."""

    __slots__ = ("_at_start", "_data", "_name", "_pieces", "_skip_lf")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._skip_lf = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next bytes.

        Returns:
            The events that these bytes complete, in order.
        """
        events: list[ServerEvent] = []
        if self._skip_lf and chunk:
            # The CR that ended the last chunk has ended its line already; a LF right after it belongs to it.
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        start = 0
        for end in _LINE_END.finditer(chunk):
            self._pieces.append(chunk[start : end.start()])
            start = end.end()
            line = b"".join(self._pieces)
            self._pieces.clear()
            event = self._line(line)
            if event is not None:
                events.append(event)
            self._skip_lf = start == len(chunk) and end.group() == b"\r"
        if start < len(chunk):
            self._pieces.append(chunk[start:])
        return events

    def end(self) -> list[ServerEvent]:
        """Say that the stream is over; what is still open comes out as an event that is not `ended`."""
        line = b"".join(self._pieces)
        self._pieces.clear()
        if line:
            self._line(line)
        event = self._dispatch(ended=False)
        return [] if event is None else [event]

    def _line(self, raw: bytes) -> ServerEvent | None:
        if self._at_start:
            self._at_start = False
            raw = raw.removeprefix(_BOM)
        if not raw:
            return self._dispatch(ended=True)
        if raw[:1] == b":":
            return None
        field, _, value = raw.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self, *, ended: bool) -> ServerEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return ServerEvent("\n".join(data), name, ended) if data else None
