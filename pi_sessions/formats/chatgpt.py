"""ChatGPT's account export as a format of the registry: `conversations.json`.

Source: the data export of chatgpt.com, as of 2026 (mapping of nodes, `current_node`).
"""

from __future__ import annotations

from pi_sessions.formats.registry import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pi_sessions.formats.parsed import ParsedSession

IMPORTER = "1"


def places(home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return none: a person saves the export anywhere."""
    return ()


def roots(path: str) -> tuple[str, ...]:
    """Return none: an unpacked export is searched like any folder."""
    return ()


def detect(path: str, head: bytes) -> str | None:
    """Tell whether a file is an export of ChatGPT."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not start.startswith((b"[", b"{")) or b'"mapping"' not in head:
        return None
    return SESSION if b'"parent"' in head and (b'"current_node"' in head or b'"author"' in head) else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the conversations, one by one.

    Raises:
        SourceError: it cannot be read, or holds no conversation.
    """
    from pi_sessions.formats.chatgpt_reader import read_export

    return read_export(path)
