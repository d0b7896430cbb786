"""Limits of what a tool tells the model: whole lines from the head or from the tail, up to a number of lines and bytes.

Pure. Whichever limit is met first counts. A line is cut only where the tail is one over-long line.

Source: Pi 1.6.0, tools: truncation (2000 lines, 50 KB).
"""

from dataclasses import dataclass
from typing import Literal

from pi_sessions.messages import JsonObject

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
NO_LIMIT = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A text and how much of it is left.

    Args:
        by: Which limit cut it; None when nothing was cut.
        last_line_partial: Whether the tail is the end of one line.
        first_line_too_long: Whether the first line alone is over the limit of bytes; nothing is left then.
    """

    content: str
    by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_too_long: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    def to_wire(self) -> JsonObject:
        """Return it as Pi stores it in a result's details; the text itself is in the result."""
        return {
            "truncated": self.by is not None,
            "truncatedBy": self.by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_too_long,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


def truncate_head(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Keep the first whole lines of a text."""
    lines = _lines(text)
    total = len(text.encode())
    kept, size = _fitting(lines, max_lines, max_bytes)
    whole = kept == len(lines) and total <= max_bytes
    content = text if whole else "\n".join(lines[:kept])
    return Truncation(
        content=content,
        by=None if whole else "lines" if kept == max_lines else "bytes",
        total_lines=len(lines),
        total_bytes=total,
        output_lines=kept,
        output_bytes=total if whole else size,
        first_line_too_long=not whole and kept == 0,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def truncate_tail(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Keep the last whole lines of a text, or the end of the last line where that alone is too long."""
    lines = _lines(text)
    total = len(text.encode())
    kept, size = _fitting(lines[::-1], max_lines, max_bytes)
    whole = kept == len(lines) and total <= max_bytes
    partial = not whole and kept == 0
    content = text if whole else "\n".join(lines[len(lines) - kept :])
    if partial:
        content = lines[-1].encode()[-max_bytes:].decode(errors="ignore")
        kept, size = 1, len(content.encode())
    return Truncation(
        content=content,
        by=None if whole else "lines" if kept == max_lines and not partial else "bytes",
        total_lines=len(lines),
        total_bytes=total,
        output_lines=kept,
        output_bytes=total if whole else size,
        last_line_partial=partial,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def _fitting(lines: list[str], max_lines: int, max_bytes: int) -> tuple[int, int]:
    """Return how many of the first lines fit, and their bytes with the line feeds between them."""
    size = 0
    for number, line in enumerate(lines):
        more = len(line.encode()) + (number > 0)
        if number == max_lines or size + more > max_bytes:
            return number, size
        size += more
    return len(lines), size


def _lines(text: str) -> list[str]:
    lines = text.split("\n") if text else []
    return lines[:-1] if text.endswith("\n") else lines


def format_size(size: int) -> str:
    """Return a number of bytes for people, as Pi does."""
    if size < 1024:
        return f"{size}B"
    return f"{size / 1024:.1f}KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f}MB"
