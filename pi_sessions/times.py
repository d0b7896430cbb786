"""Points in time: Unix milliseconds inside, ISO 8601 UTC with milliseconds in entries.

Pure, no clock. `ids.py` holds the clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST_NUMBER = 100_000_000
_LATEST_MS = 253_402_300_799_999


def format_time(time_ms: int) -> str:
    """Return Unix milliseconds as Pi writes them: `2026-03-01T10:00:01.000Z`.

    Raises:
        OverflowError: the time lies outside the years 1 to 9999.
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def parse_time(value: object) -> int | None:
    """Return the Unix milliseconds a timestamp stands for, or None when it cannot be read.

    Args:
        value: ISO 8601 text (a missing offset means UTC), or a number of seconds or milliseconds; numbers below
            10^11 count as seconds, since as milliseconds they would lie before 1973. Numbers too small to be
            either, and years that ISO 8601 text cannot name, are no times.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if value != value or not _LEAST_NUMBER <= abs(value) <= _LATEST_MS:
            return None
        return int(value * 1000) if abs(value) < 100_000_000_000 else int(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit() and len(text) > 8:
        return parse_time(float(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return round((moment - _EPOCH) / timedelta(milliseconds=1))
    except OverflowError:
        return None
