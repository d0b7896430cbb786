"""What is said about the open session: at its opening, in the status line, and what the history keys bring back."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pi_loop.runner_run import believable_size
from pi_session_cli.interactive.slash import as_typed_here
from pi_session_cli.render import deferred
from pi_session_cli.render.opening import Opening
from pi_session_cli.render.safe import one_line
from pi_sessions.context import active_entries, build_context, path_settings
from pi_sessions.texts import content_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.conversing import Conversation
    from pi_session_cli.interactive.talk import Talk
    from pi_sessions.store import SessionStore
    from pi_sessions.stored import StoredEntry

HISTORY = 100
LAST = 2


async def opening_of(store: SessionStore, talk: Conversation) -> Opening:
    """Return what to say about a session that was just opened; nothing is in progress yet.

    All of it comes from one reading of the path, as decoding a long one is most of the work.
    """
    from pi_loop.request import build_request
    from pi_loop.target import target_of

    runner, model = talk.runner, talk.runner.model
    session = store.session(talk.session.id)
    branch = runner.branch or session.branch
    leaf = store.leaf(session.id, branch)
    path = store.path(session.id, leaf)
    named, level = path_settings(path)
    context = build_context(active_entries(path), named, level)
    repairs = build_request(context.messages, target_of(model)).repairs
    notes = list(talk.notes)
    alive = [run for run in store.unfinished_runs(session.id) if run.alive and run.branch == branch]
    notes += [f"{run.sentence()}; what you send goes on on a branch of its own" for run in alive]
    last = next((one.message for one in reversed(context.messages) if one.message.get("role") != "system"), {})
    handle = await runner.deferred_answer() if last.get("stopReason") == "deferred" else None
    if handle is not None:
        notes.append(deferred.waits(handle))
    return Opening(
        session=session,
        branch=branch,
        branches=len(store.branches(session.id)),
        last=tuple(reversed(list(islice(_said(path, "user", "assistant"), LAST)))),
        model=f"{model.provider}/{model.id}",
        thinking=runner.thinking_level or context.thinking_level,
        tokens=believable_size(path),
        window=model.context_window,
        repairs=tuple(repairs),
        notes=tuple(as_typed_here(note, session.id) for note in notes),
        waits=handle is not None,
        history=_history(path),
    )


def _said(path: list[StoredEntry], *roles: str) -> Iterator[StoredEntry]:
    """Yield the messages of some roles, newest first; no more is decoded than is looked at."""
    return (entry for entry in reversed(path) if entry.type == "message" and entry.role in roles)


def _history(path: list[StoredEntry]) -> tuple[str, ...]:
    """Return what the person has said last, oldest first."""
    texts = (content_text((entry.message or {}).get("content")) for entry in _said(path, "user"))
    return tuple(reversed(list(islice((text for text in texts if text.strip()), HISTORY))))


def toolbar(talk: Talk) -> str:
    """Return the status line."""
    runner = talk.talk.runner
    window = runner.model.context_window
    size = f"{talk.tokens / 1000:.1f}k" + (f"/{window // 1000}k" if window else "")
    branch = runner.branch or talk.talk.session.branch
    parts = [branch, f"{runner.model.provider}/{runner.model.id}", f"context {size}"]
    if talk.is_working:
        parts.append("working: Enter steers, Alt+Enter follows up, Ctrl-C stops")
    return " " + " | ".join(one_line(part) for part in parts)
