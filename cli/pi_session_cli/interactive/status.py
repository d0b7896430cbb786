"""What is said about the open session: at its opening, in the status line, and what the history keys bring back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pi_session_cli.interactive.slash import as_typed_here
from pi_session_cli.render import deferred
from pi_session_cli.render.opening import Opening
from pi_session_cli.render.safe import one_line
from pi_sessions.texts import content_text

if TYPE_CHECKING:
    from pi_session_cli.conversing import Conversation
    from pi_session_cli.interactive.talk import Talk
    from pi_sessions.store import SessionStore

HISTORY = 100


async def opening_of(store: SessionStore, talk: Conversation) -> Opening:
    """Return what to say about a session that was just opened; nothing is in progress yet."""
    from pi_loop.request import build_request
    from pi_loop.target import target_of

    runner = talk.runner
    tokens, window = await runner.context_usage()
    session = store.session(talk.session.id)
    branch = runner.branch or session.branch
    leaf = store.leaf(session.id, branch)
    context = store.context(session.id, leaf)
    spoken = [
        entry
        for entry in store.path(session.id, leaf)
        if entry.type == "message" and entry.role in ("user", "assistant")
    ]
    model = runner.model
    target = target_of(model)
    repairs = build_request(context.messages, target).repairs
    notes = list(talk.notes)
    alive = [run for run in store.unfinished_runs(session.id) if run.alive and run.branch == branch]
    notes += [f"{run.sentence()}; what you send goes on on a branch of its own" for run in alive]
    handle = await runner.deferred_answer()
    if handle is not None:
        notes.append(deferred.waits(handle))
    return Opening(
        session=session,
        branch=branch,
        branches=len(store.branches(session.id)),
        last=tuple(spoken[-2:]),
        model=f"{model.provider}/{model.id}",
        thinking=runner.thinking_level or context.thinking_level,
        tokens=tokens,
        window=window,
        repairs=tuple(repairs),
        notes=tuple(as_typed_here(note, session.id) for note in notes),
    )


def history_of(store: SessionStore, talk: Conversation) -> list[str]:
    """Return what the person has said in the session, oldest first."""
    leaf = store.leaf(talk.session.id, talk.runner.branch)
    texts = [
        content_text((entry.message or {}).get("content"))
        for entry in store.path(talk.session.id, leaf)
        if entry.role == "user"
    ]
    return [text for text in texts if text.strip()][-HISTORY:]


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
