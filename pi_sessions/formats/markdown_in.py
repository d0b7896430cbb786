"""Markdown of our own export as a format of the registry: detection, reading. Other Markdown is nobody's.

Source: `pi-session-markdown/1` (`markdown`).
"""

from __future__ import annotations

from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return none: a person saves exports anywhere."""
    return ()


def roots(path: str) -> tuple[str, ...]:
    """Return none: no tool keeps a folder of such files."""
    return ()


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is Markdown that our export made."""
    start = head.lstrip(b"\xef\xbb\xbf")
    front = start.startswith(b"---") and b"pi-session-markdown/" in start[:4096]
    return SESSION if front or b"\n<!-- pi-session entry {" in head else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the one session of a file.

    Raises:
        SourceError: it cannot be read, is of a later version, or holds no entry.
    """
    from pi_sessions.formats.markdown_in_reader import read_markdown

    yield read_markdown(path)
