"""Plays a conversation without anybody at the keyboard: each line is typed when its moment has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anyio
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pi_session_cli.interactive.talk import Talk

if TYPE_CHECKING:
    from pi_session_cli.conversing import Wishes
    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import Session

LOOK_EVERY_S = 0.005


class Line(NamedTuple):
    """What is typed, and when: while the model is `idle` or `speaking`, or when a `question` is open."""

    when: str
    text: str


def rehearse(ctx: Invocation, session: str, wishes: Wishes, lines: tuple[Line, ...]) -> None:
    """Play a conversation to its end; what a person would see goes to the invocation's stdout.

    Raises:
        PiSessionError: the session cannot be opened.
    """
    with ctx.change_store() as store, create_pipe_input() as keys:
        here = ctx.session(store, session)
        with create_app_session(input=keys, output=DummyOutput()):
            talk = Talk(ctx, store, wishes)

            async def type_lines() -> None:
                for line in lines:
                    while not is_moment(talk, line):
                        await anyio.sleep(LOOK_EVERY_S)
                    before = talk.inputs
                    keys.send_text(line.text + "\r")
                    while talk.inputs == before:
                        await anyio.sleep(LOOK_EVERY_S)

            async def play(chosen: Session) -> None:
                await talk.converse(chosen, None, out=ctx.stdout, beside=type_lines)

            anyio.run(play, here)


def is_moment(talk: Talk, line: Line) -> bool:
    """Whether a line is to be typed now."""
    if not talk.prompt.app.is_running or talk.prompt.default_buffer.text:
        return False
    if line.when == "question":
        return talk.questions.is_open
    if line.when == "speaking":
        return bool(talk.printer.partial)
    return not talk.is_working
