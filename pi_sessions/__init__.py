"""Conversations with coding agents as append-only trees in one SQLite file.

Public names are loaded when they are first used, so that a command pays only for what it needs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.base import LEAF, UNSET
    from pi_sessions.context import Context, ContextMessage, Model
    from pi_sessions.errors import PiSessionError
    from pi_sessions.results import (
        Branch,
        Change,
        ImportResult,
        KeptBranch,
        Label,
        LeafMove,
        Operation,
        Problem,
        Session,
        UndoResult,
    )
    from pi_sessions.store import SessionStore
    from pi_sessions.stored import StoredEntry
    from pi_sessions.writer import Writer

__version__ = "0.1.0"

_HOMES = {
    "LEAF": "base",
    "UNSET": "base",
    "Context": "context",
    "ContextMessage": "context",
    "Model": "context",
    "PiSessionError": "errors",
    "Branch": "results",
    "Change": "results",
    "ImportResult": "results",
    "KeptBranch": "results",
    "Label": "results",
    "LeafMove": "results",
    "Operation": "results",
    "Problem": "results",
    "Session": "results",
    "UndoResult": "results",
    "SessionStore": "store",
    "StoredEntry": "stored",
    "Writer": "writer",
}

__all__ = [
    "LEAF",
    "UNSET",
    "Branch",
    "Change",
    "Context",
    "ContextMessage",
    "ImportResult",
    "KeptBranch",
    "Label",
    "LeafMove",
    "Model",
    "Operation",
    "PiSessionError",
    "Problem",
    "Session",
    "SessionStore",
    "StoredEntry",
    "UndoResult",
    "Writer",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{home}", fromlist=[name])
    return getattr(module, name)
