"""View of `import --watch`: a line for each session that got something new, written at once."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


def write(data: Iterable[str], stdout: TextIO) -> None:
    """Write lines as they come."""
    for line in data:
        stdout.write(line)
        stdout.flush()
