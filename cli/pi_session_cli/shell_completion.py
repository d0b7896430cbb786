"""What the shell offers for a value: sessions, entries, branches of the store, and models.

Loaded only while a shell asks. What is offered comes from conversations and reaches the shell's own evaluation (zsh's
more than once), so only harmless characters go out, whatever the quoting on the way.
"""

from __future__ import annotations

import os
import re
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from pi_session_cli import suggesting
from pi_session_cli.parse import Parsed
from pi_session_cli.suggesting import Suggestion
from pi_sessions.errors import PiSessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pi_session_cli.declare import Argument, Command, Option
    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading

MOST = 200
_TEXT = re.compile(r"[\w./+-]+")
_UNSAFE = re.compile(r"[^\w .,?/+=%-]+")


def completer(command: Command, declared: Argument | Option) -> Callable[..., Any] | None:
    """Return what Typer asks for the values of an argument or option; None where nothing is known of them."""
    kind = suggesting.kind_of(command, declared)
    if kind in (None, "path") or declared.metavar in suggesting.JOINED:
        return None

    def offer(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
        # Options before the command's name count, too.
        before = ctx.parent.params if ctx.parent is not None else {}
        typed = {**before, **{name: value for name, value in ctx.params.items() if value is not None}}
        try:
            return [(each.text, each.told) for each in offered(command, kind, typed, incomplete)]
        except PiSessionError:
            return []

    return offer


def offered(command: Command, kind: str, typed: dict[str, Any], incomplete: str) -> list[Suggestion]:
    """Return what can be typed, as a shell may be given it.

    Args:
        kind: As `suggesting.kind_of` tells it.
        typed: Values on the line so far, by name.
        incomplete: The beginning of the value.

    Raises:
        PiSessionError: there is no store, or the session on the line is none.
    """
    from pi_session_cli.main import prepare
    from pi_sessions.ids import new_entry_id, new_session_id, system_clock

    parsed = Parsed(command, {"db": typed.get("db")})
    streams = sys.stdin, sys.stdout, sys.stderr
    ctx = prepare(parsed, os.environ, streams, None, system_clock, new_entry_id, new_session_id)
    if kind == "model":
        from pi_session_cli.model_access import ModelAccess

        return harmless((Suggestion(name) for name in ModelAccess(ctx).usable()), incomplete)
    with ctx.read_store() as store:
        return harmless(stored(ctx, store, kind, typed.get("session")), incomplete)


def stored(ctx: Invocation, store: Reading, kind: str, session: str | None) -> Iterable[Suggestion]:
    """Return what a store has of a kind.

    Raises:
        PiSessionError: there is no such session, or none here.
    """
    if kind == "session":
        return suggesting.sessions(store)
    here = ctx.session(store, session)
    return suggesting.branches(store, here.id) if kind == "branch" else suggesting.entries(store, here.id)


def harmless(found: Iterable[Suggestion], incomplete: str) -> list[Suggestion]:
    """Return what begins with what was typed and no shell can take for anything but a word."""

    def fit() -> Iterator[Suggestion]:
        for each in found:
            if each.text.startswith(incomplete) and _TEXT.fullmatch(each.text):
                yield Suggestion(each.text, " ".join(_UNSAFE.sub(" ", each.told).split()))

    return list(islice(fit(), MOST))
