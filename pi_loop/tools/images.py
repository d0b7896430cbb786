"""Which files are pictures a model can look at, by their first bytes; and pictures as content blocks."""

import base64

from pi_sessions.messages import ImageContent

SNIFFED = 16
# Providers refuse a picture whose base64 is over 5 MB.
LARGEST_IMAGE = 3_750_000


def image_type(head: bytes) -> str | None:
    """Return the MIME type of a picture, None for anything else.

    Args:
        head: The first `SNIFFED` bytes of the file.
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_block(raw: bytes, mime_type: str) -> ImageContent:
    """Return a picture as a content block."""
    return ImageContent(data=base64.b64encode(raw).decode("ascii"), mime_type=mime_type)
