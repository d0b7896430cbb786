"""Pi's session files as a format of the registry."""

from __future__ import annotations

import os

from pi_sessions.formats.pi_files import reason_against, session_folder
from pi_sessions.formats.pi_reader import read_pi_file
from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return Pi's session folder: `PI_CODING_AGENT_DIR` or `~/.pi/agent` (Pi 1.6.0, "File")."""
    agent = environ.get("PI_CODING_AGENT_DIR") or os.path.join(home, ".pi", "agent")
    return (os.path.join(os.path.expanduser(agent), "sessions"),)


def roots(path: str) -> tuple[str, ...]:
    """Return the session folder below Pi's data folder."""
    found = session_folder(path)
    return () if found == path else (found,)


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is a Pi session."""
    return SESSION if reason_against(path) is None else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the one session of a file."""
    yield read_pi_file(path)
