"""Large binary content, stored once per store by hash and given back byte for byte.

Pictures arrive as base64 inside JSON text. `take_out` cuts each run of base64 out of the text and remembers where it
stood; `put_back` inserts it again. Because places are offsets and not marks in the text, nothing a person writes can be
mistaken for one, and whatever was cut comes back exactly.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    Cut = tuple[int, str]

# Shorter ones stay in the text.
SHORTEST = 1024
# A run of base64 shows in every 64th character of the text, too, at 16 places or more. Looking there first takes a
# third of the time of looking for the names, which would be an eighth of the time of an import.
_APART = 64
_SAMPLED = re.compile(rf"[A-Za-z0-9+/]{{{SHORTEST // _APART - 1}}}")
_WHOLE = re.compile(rf"[A-Za-z0-9+/]{{{_APART}}}")
# Compiled (and cached by `re`) with the first text that may hold a picture; most commands never meet one.
_BASE64 = (
    r'(?:"data"\s*:\s*"|data:[A-Za-z0-9.+/-]{1,80};base64,)'
    rf"(?P<run>[A-Za-z0-9+/]{{{SHORTEST},}}={{0,2}})"
)
EXTRA_OFFSET = 1 << 40


def take_out(text: str) -> tuple[str, list[Cut]]:
    """Cut base64 runs out of JSON text.

    Args:
        text: Any text; only values named `data` and base64 data URLs of at least 1,024 characters are cut.

    Returns:
        The shorter text, and for each cut its offset in the shorter text and the run itself.
    """
    if not _has_long_run(text) or ('"data"' not in text and ";base64," not in text):
        return text, []
    kept: list[str] = []
    cuts: list[Cut] = []
    at = 0
    length = 0
    for match in re.finditer(_BASE64, text):
        start, end = match.span("run")
        kept.append(text[at:start])
        length += start - at
        cuts.append((length, match["run"]))
        at = end
    if not cuts:
        return text, []
    kept.append(text[at:])
    return "".join(kept), cuts


def _has_long_run(text: str) -> bool:
    """Whether a text may hold a run of base64 that is long enough (cheap, may say yes too often)."""
    if len(text) < SHORTEST:
        return False
    for found in _SAMPLED.finditer(text[::_APART]):  # noqa: SIM110
        # The last of 15 places lies in the run, and the 16th behind it, even where the first ones lie before it.
        if _WHOLE.match(text, (found.end() - 1) * _APART):
            return True
    return False


def store_cuts(connection: sqlite3.Connection, key: int, cuts: list[Cut], offset: int = 0) -> None:
    """Store cut runs for an entry, each distinct content once.

    Args:
        connection: In a write transaction.
        key: The entry.
        cuts: From `take_out`.
        offset: 0 for cuts of the payload, `EXTRA_OFFSET` for cuts of the extra fields.
    """
    from hashlib import sha256

    for at, run in cuts:
        try:
            content = a2b_base64(run)
            encoded = b2a_base64(content, newline=False).decode() == run
        except ValueError:
            encoded = False
        if not encoded:
            content = run.encode()
        digest = sha256(b"%d" % encoded + content).digest()
        connection.execute(
            "insert into blobs(hash, encoded, bytes) values(?, ?, ?) on conflict do nothing", (digest, encoded, content)
        )
        connection.execute("insert into entry_blobs(key, at, hash) values(?, ?, ?)", (key, at + offset, digest))


def put_back(connection: sqlite3.Connection, key: int, payload: str, extra: str | None) -> tuple[str, str | None]:
    """Return an entry's payload and extra fields with the cut runs in their places again."""
    cuts: list[Cut] = []
    extra_cuts: list[Cut] = []
    for at, encoded, content in connection.execute(
        "select at, encoded, bytes from entry_blobs join blobs using(hash) where key = ? order by at", (key,)
    ):
        run = b2a_base64(content, newline=False).decode() if encoded else content.decode()
        if at >= EXTRA_OFFSET:
            extra_cuts.append((at - EXTRA_OFFSET, run))
        else:
            cuts.append((at, run))
    return _insert(payload, cuts), _insert(extra, extra_cuts) if extra is not None else None


def _insert(text: str, cuts: list[Cut]) -> str:
    parts: list[str] = []
    at = 0
    for offset, run in cuts:
        parts += (text[at:offset], run)
        at = offset
    parts.append(text[at:])
    return "".join(parts)
