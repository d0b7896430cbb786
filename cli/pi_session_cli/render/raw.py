"""View of `export` to standard output: the file itself, in UTF-8 whatever the terminal's encoding is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

BYTES_AT_ONCE = 1 << 16


def write(data: Iterable[str], stdout: TextIO) -> None:
    """Write lines as they come."""
    raw = getattr(stdout, "buffer", None)
    if raw is None:
        for line in data:
            stdout.write(line)
        return
    stdout.flush()
    waiting: list[bytes] = []
    size = 0
    for line in data:
        waiting.append(line.encode("utf-8"))
        size += len(waiting[-1])
        if size > BYTES_AT_ONCE:
            raw.write(b"".join(waiting))
            waiting, size = [], 0
    raw.write(b"".join(waiting))
