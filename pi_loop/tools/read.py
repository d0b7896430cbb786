"""`read`: a file's lines, or a picture. Memory does not grow with the file.

Source: Pi 1.6.0, tool `read`. Differs in that pictures are not scaled down: one that is too large is said to be.
"""

from dataclasses import dataclass
from typing import Any

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.images import LARGEST_IMAGE, SNIFFED, image_block, image_type
from pi_loop.tools.results import number, number_argument, schema, string, text_argument, text_result
from pi_loop.tools.truncation import MAX_BYTES, MAX_LINES, format_size, truncate_head
from pi_loop.tools.workspace import ToolError, Workspace, check_abort, in_thread, regular_file
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject, TextContent

_PIECE = 1 << 16


@dataclass(slots=True)
class _Selection:
    """The lines asked for, as far as they can be shown, and how many the file has."""

    lines: list[str]
    first_line_bytes: int
    total: int


def read_tool(workspace: Workspace) -> Tool:
    """Make the tool `read`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        path = text_argument(args, "path")
        offset, limit = number_argument(args, "offset"), number_argument(args, "limit")
        absolute = workspace.resolve(path, reading=True)
        check_abort(signal)
        return await in_thread(read_file, absolute, path, offset, limit)

    return Tool(
        name="read",
        label="read",
        description=(
            "Read the contents of a file. Supports text files and images (jpg, png, gif, webp). Images are sent as "
            f"attachments. For text files, output is truncated to {MAX_LINES} lines or {MAX_BYTES // 1024}KB (whichever"
            " is hit first). Use offset/limit for large files. When you need the full file, continue with offset until "
            "complete."
        ),
        parameters=schema(
            ["path"],
            path=string("Path to the file to read (relative or absolute)"),
            offset=number("Line number to start reading from (1-indexed)"),
            limit=number("Maximum number of lines to read"),
        ),
        execute=execute,
    )


def read_file(absolute: str, path: str, offset: int | None, limit: int | None) -> ToolResult:
    """Read a file; blocking.

    Args:
        absolute: Where it is.
        path: As the model named it.
        offset: First line, from 1.
        limit: Most lines.

    Raises:
        ToolError: it cannot be read as asked.
    """
    size = regular_file(absolute, path).st_size
    with open(absolute, "rb") as file:
        head = file.read(SNIFFED)
        mime_type = image_type(head)
        if mime_type is not None:
            note = f"Read image file [{mime_type}]"
            if size > LARGEST_IMAGE:
                return text_result(f"{note}\nThe image is {format_size(size)}, too large to be shown.")
            block = image_block(head + file.read(), mime_type)
            return ToolResult(content=[TextContent(text=note), block])
        file.seek(0)
        start = max(0, offset - 1) if offset else 0
        selection = _select(file, start, limit)
    if start >= selection.total:
        raise ToolError(f"Offset {offset} is beyond end of file ({selection.total} lines total)")
    return _shown(selection, start, limit, path)


def _select(file: Any, start: int, limit: int | None) -> _Selection:
    end = None if limit is None else start + max(limit, 0)
    kept: list[str] = []
    stored = first_bytes = 0
    place, line, line_bytes = 0, bytearray(), 0
    ended = True
    while piece := file.readline(_PIECE):
        wanted = start <= place and (end is None or place < end)
        ended = piece.endswith(b"\n")
        if wanted and len(kept) <= MAX_LINES and stored <= MAX_BYTES:
            if line_bytes <= MAX_BYTES:
                line += piece
            line_bytes += len(piece)
            if ended:
                first_bytes = first_bytes if kept else line_bytes - 1
                kept.append(line[:-1].decode(errors="replace"))
                stored += len(line)
                line, line_bytes = bytearray(), 0
        place += ended
    # What follows the last line feed is a line, too, be it empty.
    if start <= place and (end is None or place < end) and len(kept) <= MAX_LINES and stored <= MAX_BYTES:
        first_bytes = first_bytes if kept else line_bytes
        kept.append(line.decode(errors="replace"))
    return _Selection(kept, first_bytes, place + 1)


def _shown(selection: _Selection, start: int, limit: int | None, path: str) -> ToolResult:
    shown = truncate_head("\n".join(selection.lines))
    first = start + 1
    details: JsonObject | None = {"truncation": shown.to_wire()} if shown.by else None
    if shown.first_line_too_long:
        text = (
            f"[Line {first} is {format_size(selection.first_line_bytes)}, exceeds {format_size(MAX_BYTES)} limit. "
            f"Use bash: sed -n '{first}p' {path} | head -c {MAX_BYTES}]"
        )
    elif shown.by:
        last = first + shown.output_lines - 1
        why = f" ({format_size(MAX_BYTES)} limit)" if shown.by == "bytes" else ""
        text = (
            f"{shown.content}\n\n[Showing lines {first}-{last} of {selection.total}{why}. "
            f"Use offset={last + 1} to continue.]"
        )
    elif limit is not None and start + max(limit, 0) < selection.total:
        left = selection.total - start - max(limit, 0)
        text = f"{shown.content}\n\n[{left} more lines in file. Use offset={first + max(limit, 0)} to continue.]"
    else:
        text = shown.content
    return text_result(text, details)
