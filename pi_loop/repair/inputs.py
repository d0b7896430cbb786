"""What a model is shown of a user message or a tool result: text and images it can take, nothing empty."""

from __future__ import annotations

import binascii

from pi_loop.repair.well_formed import well_formed_text
from pi_sessions.context import blocks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.repair.report import Report
    from pi_loop.target import Target
    from pi_sessions.stored import JsonObject

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
NO_VISION_USER = "(image omitted: model does not support images)"
NO_VISION_TOOL = "(tool image omitted: model does not support images)"
NO_OUTPUT = "(no tool output)"
_HEAD_CHARS = 24


def input_blocks(content: object, target: Target, report: Report, entry_id: str, *, tool: bool) -> list[JsonObject]:
    """Return the text and image blocks of a message that can be sent, maybe none.

    Args:
        content: Text or blocks, as stored.
        target: Tells whether images can be sent.
        report: Told about everything left out.
        entry_id: The entry the message comes from.
        tool: Whether this is a tool's result; the text that stands for an image says so.

    Source: Pi 1.6.0, request building: images for models without vision, one text for several in a row.
    """
    sent: list[JsonObject] = []
    for block in blocks_of(content):
        kind = block.get("type")
        if kind == "text":
            text = block.get("text")
            if isinstance(text, str) and text.strip():
                sent.append({"type": "text", "text": reported_text(text, report, entry_id)})
            else:
                report.fault("empty_block", "An empty text block is not sent", entry_id)
        elif kind == "image":
            made = _image(block, target, report, entry_id, tool=tool)
            if made["type"] == "image" or not sent or sent[-1] != made:
                sent.append(made)
        else:
            report.fault("unknown_block", f"A block of type {kind!r} cannot be sent in this place", entry_id)
    return sent


def reported_text(text: str, report: Report, entry_id: str) -> str:
    """Return the text without lone surrogates, and say so where there were any."""
    clean = well_formed_text(text)
    if clean is not text:
        report.fault("lone_surrogate", "Half of a character (a lone surrogate) is sent as U+FFFD", entry_id)
    return clean


def _image(block: JsonObject, target: Target, report: Report, entry_id: str, *, tool: bool) -> JsonObject:
    data, mime = block.get("data"), block.get("mimeType")
    if not target.vision:
        report.adapt("image_omitted", f"{target.model} takes no images: a text stands for the image", entry_id)
        return {"type": "text", "text": NO_VISION_TOOL if tool else NO_VISION_USER}
    if not isinstance(data, str) or not data.strip():
        report.fault("image_omitted", "An image without data cannot be sent: a text stands for it", entry_id)
        return {"type": "text", "text": "(image omitted: it has no data)"}
    shown = _type_of(data) or mime
    if shown not in IMAGE_TYPES:
        sentence = f"No provider takes images of type {shown!r}: a text stands for the image"
        report.fault("image_omitted", sentence, entry_id)
        return {"type": "text", "text": "(image omitted: unsupported image type)"}
    if shown != mime:
        report.fault("image_type", f"An image said to be {mime!r} is sent as what it is, {shown}", entry_id)
    return {"type": "image", "data": data, "mimeType": shown}


def _type_of(data: str) -> str | None:
    """Return the type that the first bytes of base64 data show; providers refuse an image under another type."""
    try:
        head = binascii.a2b_base64(data[:_HEAD_CHARS])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else None
