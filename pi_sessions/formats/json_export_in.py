"""Our own JSON (`json_export`) as a format of the registry: detection, reading.

It is the form that holds all of a session, so that what is read back is the session that was exported.
"""

from __future__ import annotations

import re

from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"

_BEGINS = re.compile(rb'[\xef\xbb\xbf\s\0]*\{\s*"format"\s*:\s*"pi-session"')


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return none: a person saves exports anywhere."""
    return ()


def roots(path: str) -> tuple[str, ...]:
    """Return none: no tool keeps a folder of such files."""
    return ()


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is JSON that our export made."""
    return SESSION if _BEGINS.match(head) else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the one session of a file.

    Raises:
        SourceError: it cannot be read, is of a later version, or holds nothing of a session.
    """
    from pi_sessions.formats.json_export_reader import read_json_export

    yield read_json_export(path)
