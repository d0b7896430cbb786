"""Opens the session that `resume` is about, and says on leaving how to come back."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import anyio

from pi_session_cli.answers import Answer
from pi_session_cli.interactive.hanging_up import HUNG_UP, TERMINATED, has_gone
from pi_session_cli.interactive.picker import Picker
from pi_session_cli.interactive.talk import Talk

if TYPE_CHECKING:
    from pi_session_cli.conversing import Wishes
    from pi_session_cli.invocation import Invocation


def resume(ctx: Invocation, session: str | None, wishes: Wishes, recover: str | None, *, pick: bool) -> Answer:
    """Talk until the person leaves.

    Args:
        session: What was typed; None for the current session here.
        wishes: How answers are made.
        recover: What becomes of a run that was cut off; None asks.
        pick: Let the person choose the session.
    """
    # The program runs without collecting cycles, which suits commands that live for milliseconds only.
    gc.enable()
    ctx.settings.flags = {**ctx.settings.flags, "durable": True}
    with ctx.change_store() as store:
        here = None if pick else ctx.session(store, session)
        if here is None:
            code = 0
            try:
                here = anyio.run(Picker(store.sessions(limit=None), ctx.screen).pick, store)
            except (OSError, EOFError) as error:
                if not has_gone(error):
                    raise
                code = HUNG_UP
            if here is None:
                return Answer("written", None, ("Nothing was opened",), (), code)
        talk = Talk(ctx, store, wishes)
        anyio.run(talk.converse, here, recover)
        session_id, branch = talk.talk.session.id, talk.talk.runner.branch
        current = store.session(session_id).branch
    again = f"pi-session resume {session_id}" + (f" --branch {branch}" if branch not in (None, current) else "")
    code = HUNG_UP if talk.hung_up else TERMINATED if talk.terminated else 0
    return Answer("written", None, (), (again,), code)
