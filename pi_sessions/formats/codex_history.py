"""Finds what a Codex fork goes on from: newer forks hold only their own turns and name a rollout and a place in it.

Reads the other rollout's records only; what is damaged in it is reported where that rollout itself is read.

Source: Codex 0.171 rollouts (`session_meta.history_base`, `ordinal`).
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta

from pi_sessions.errors import SourceError
from pi_sessions.formats.codex import is_record
from pi_sessions.formats.json_lines import JsonLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_sessions.stored import JsonObject

_THREAD = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ENDINGS = (".jsonl", ".jsonl.zst")
_LIVE, _ARCHIVED = "sessions", "archived_sessions"


def base_records(path: str, base: JsonObject) -> Iterator[JsonObject] | None:
    """Return the records a fork goes on from, its origin's header first.

    Args:
        path: The fork's rollout.
        base: Its `history_base`: a thread and the ordinal before which that thread's records count.

    Returns:
        None when the thread's rollout is not there, or is not named in a way we understand.
    """
    thread, end = base.get("thread_id"), base.get("end_ordinal_exclusive")
    if not isinstance(thread, str) or not _THREAD.fullmatch(thread) or not isinstance(end, int):
        return None
    found = _rollout_of(path, thread)
    return _records(found, end) if found is not None else None


def _records(path: str, end: int) -> Iterator[JsonObject]:
    try:
        for line, record in JsonLines(path, is_record):
            ordinal = record.get("ordinal", line - 1)
            if isinstance(ordinal, int) and ordinal >= end:
                return
            yield record
    except SourceError:
        return


def _rollout_of(path: str, thread: str) -> str | None:
    """Return a thread's rollout: beside the fork's own, or wherever Codex puts rollouts below the same data folder."""
    for folder in _folders(os.path.abspath(path), thread):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for ending in _ENDINGS:
            for name in names:
                if name.startswith("rollout-") and name.endswith(f"-{thread}{ending}"):
                    return os.path.join(folder, name)
    return None


def _folders(path: str, thread: str) -> Iterator[str]:
    """Yield the folders to look in, the likeliest first."""
    own = os.path.dirname(path)
    yield own
    home = own
    while os.path.basename(home) not in (_LIVE, _ARCHIVED):
        home, before = os.path.dirname(home), home
        if home == before:
            return
    home = os.path.dirname(home)
    yield from (os.path.join(home, _LIVE, day) for day in _days(thread))
    yield os.path.join(home, _ARCHIVED)
    for folder, _folders_in, _files in os.walk(os.path.join(home, _LIVE)):
        yield folder


def _days(thread: str) -> list[str]:
    """Return the day folders a thread's id speaks of: it begins with the time, the folders go by local time."""
    try:
        began = datetime.fromtimestamp(int(thread[:8] + thread[9:13], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return []
    return [(began + timedelta(days=days)).strftime("%Y/%m/%d") for days in (0, -1, 1)]
