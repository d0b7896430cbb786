"""Claude.ai's account export as a format of the registry: `conversations.json`.

Source: the data export of claude.ai, as of 2026 (`chat_messages`).
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
    """Tell whether a file is an export of Claude.ai."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    known = start.startswith((b"[", b"{")) and b'"chat_messages"' in head and b'"uuid"' in head
    return SESSION if known else None


def read(path: str) -> Iterator[ParsedSession]:
    """Read the conversations, one by one.

    Raises:
        SourceError: it cannot be read, or holds no conversation.
    """
    from pi_sessions.formats.claude_ai_reader import read_export

    return read_export(path)
