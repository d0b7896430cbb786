"""Where an answer is drawn: how wide, with colour or not, with which signs, at what time."""

from __future__ import annotations

import time

from pi_session_cli.render.safe import one_line
from pi_sessions.records import Record

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
UNKNOWN_TIME = "unknown"
WHEN_CELLS = 12
PREVIEW = 200
LATEST_MS = 253_402_300_799_999  # the end of the year 9999
LONGEST = 100_000


class Signs(Record):
    """The drawing characters: one cell each, `ellipsis` apart."""

    leaf: str
    active: str
    fork: str
    last: str
    down: str
    dot: str
    ellipsis: str
    bar: str


UNICODE = Signs("▶", "•", "├─ ", "└─ ", "│  ", "·", "…", "█")
ASCII = Signs(">", "*", "|- ", "`- ", "|  ", "-", "...", "#")


class Screen(Record):
    """A place to draw on.

    Attributes:
        columns: Cells of a line; None when lines need not fit anything.
        colour: Whether escape sequences of our own may be written.
        signs: Drawing characters the output can show.
        now_ms: The current time, for saying "future".
    """

    columns: int | None
    colour: bool
    signs: Signs
    now_ms: int

    def paint(self, text: str, *styles: str) -> str:
        """Return safe text in colour, unchanged where there is none."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"

    def line(self, text: str, used: int = 0) -> str:
        """Return free text as one safe line: what fits after `used` cells, or a preview where nothing must fit."""
        if self.columns is None:
            line = one_line(text)
            return line if len(line) <= PREVIEW else line[:PREVIEW] + self.signs.ellipsis
        from pi_session_cli.render.width import fit

        return fit(one_line(text), max(self.columns - used, 8), self.signs.ellipsis)

    def whole(self, text: str) -> str:
        """Return text as one safe line, not cut."""
        return one_line(text, LONGEST)

    def when(self, time_ms: int | None) -> str:
        """Return a time of this year as `Mar 02 09:01`, else as a date, in local time; future ones are marked."""
        if time_ms is None or abs(time_ms) > LATEST_MS:
            return UNKNOWN_TIME
        try:
            moment = time.localtime(time_ms / 1000)
            now = time.localtime(self.now_ms / 1000)
        except (OverflowError, ValueError, OSError):
            return UNKNOWN_TIME
        if time_ms > self.now_ms + 60_000:
            return time.strftime("%Y-%m-%d", moment) + " !"
        if moment.tm_year == now.tm_year:
            return time.strftime("%b %d %H:%M", moment)
        return time.strftime("%Y-%m-%d", moment)

    def full_time(self, time_ms: int | None) -> str:
        """Return a time to the second with its offset, in local time."""
        if time_ms is None or abs(time_ms) > LATEST_MS:
            return UNKNOWN_TIME
        try:
            text = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(time_ms / 1000))
        except (OverflowError, ValueError, OSError):
            return UNKNOWN_TIME
        return text + (" (in the future)" if time_ms > self.now_ms + 60_000 else "")


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its word: `1 entry`, `1,200 entries`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
