"""New ids and the clock, both injectable so that tests need no chance and no time.

`Clock` gives Unix milliseconds; `NewId` gives an id that the caller still checks for being free.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], int]
    NewId = Callable[[], str]


def system_clock() -> int:
    """Return the current time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def new_entry_id() -> str:
    """Return 8 random hex digits, the form of Pi's entry ids (Pi 1.6.0, session file)."""
    return os.urandom(4).hex()


def new_session_id() -> str:
    """Return a UUIDv7: 48 bits of Unix milliseconds, then chance (RFC 9562, section 5.7; Pi 1.6.0, session id)."""
    stamp = system_clock().to_bytes(6, "big")
    chance = bytearray(os.urandom(10))
    chance[0] = 0x70 | (chance[0] & 0x0F)
    chance[2] = 0x80 | (chance[2] & 0x3F)
    text = (stamp + bytes(chance)).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
