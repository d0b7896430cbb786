"""Completion in the prompt: slash commands with their help, then their values; files after an @.

Runs in a thread of its own, with a connection of its own to the store. What the store has is read when it is first
asked for, and again only when the store has changed since.
"""

from __future__ import annotations

import re
import shlex
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, FuzzyWordCompleter, PathCompleter
from prompt_toolkit.document import Document

from pi_session_cli import suggesting
from pi_session_cli.catalog import find
from pi_session_cli.declare import Option
from pi_session_cli.interactive import slash
from pi_session_cli.settings import THINKING
from pi_session_cli.suggesting import Suggestion
from pi_sessions.errors import PiSessionError
from pi_sessions.refs import resolve_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pi_session_cli.conversing import Conversation
    from pi_session_cli.declare import Argument, Command
    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading

MOST = 100
# Of the commands that are the conversation's own.
VALUES = {"thinking": THINKING, "deferred": ("wait", "close")}
# So much of a long text is looked at for the name of a file.
LONGEST_NAME = 1000
_LAST_WORD = re.compile(r"""(?:[^\s"']|"[^"]*(?:"|$)|'[^']*(?:'|$))*$""")
_FILE = re.compile(r"(?:^|\s)@(\S*)$")


class PromptCompleter(Completer):
    """Completes what is typed in a conversation.

    Args:
        ctx: The invocation.
        talk: Gives the conversation that is open.
    """

    def __init__(self, ctx: Invocation, talk: Callable[[], Conversation]) -> None:
        self._ctx = ctx
        self._talk = talk
        self._stored = Stored(ctx.read_store)

    def close(self) -> None:
        """Close the store."""
        self._stored.close()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what can stand at the cursor; nothing where the store cannot be read just now."""
        typed = document.text_before_cursor
        if not typed.startswith("/"):
            named = _FILE.search(typed[-LONGEST_NAME:])
            if named:
                for path, shown in self._paths(named[1], self._talk().workspace.root):
                    yield Completion(path, -len(named[1]), shown)
            return
        name, space, rest = typed[1:].partition(" ")
        if not space:
            yield from self._names.get_completions(Document(name), complete_event)
        elif name in slash.names():
            yield from self._values(name, rest)

    @cached_property
    def _names(self) -> FuzzyWordCompleter:
        return FuzzyWordCompleter(slash.names(), meta_dict=slash.told())

    @cached_property
    def _models(self) -> list[Suggestion]:
        """The models that can be switched to; a script answers for every one."""
        from pi_loop.models.registry import all_models

        talk = self._talk()
        known = [f"{model.provider}/{model.id}" for model in all_models(talk.access.config)] if talk.scripted else None
        return [Suggestion(name) for name in known or talk.access.usable()]

    def _values(self, name: str, rest: str) -> Iterator[Completion]:
        last = _LAST_WORD.search(rest)
        raw = last[0] if last else ""
        try:
            words = shlex.split(rest.removesuffix(raw))
        except ValueError:
            return
        try:
            typed = "".join(shlex.split(raw))
        except ValueError:
            # A quote that is still open.
            typed = raw.lstrip("\"'")
        command = find(name)
        if name in slash.OWN or command is None:
            values = self._models if name == "model" else [Suggestion(each) for each in VALUES.get(name, ())]
            yield from completions(suggesting.fitting(values if not words else (), typed, MOST), raw)
        else:
            yield from self._of_command(command, words, typed, raw)

    def _of_command(self, command: Command, words: list[str], typed: str, raw: str) -> Iterator[Completion]:
        declared, given = suggesting.place_after(command, words)
        takes_value = isinstance(declared, Option)
        if declared is not None and (takes_value or not typed.startswith("-")):
            kind = suggesting.kind_of(command, declared)
            if kind == "path":
                for path, shown in self._paths(typed, self._ctx.place):
                    yield Completion(shlex.quote(path), -len(raw), shown)
            before, part = suggesting.last_of_several(declared, typed)
            found = suggesting.fitting(self._offered(kind, declared, given), part, MOST)
            yield from completions(found, raw, before)
        if not takes_value and (not typed or typed.startswith("-")):
            yield from completions(suggesting.fitting(suggesting.flags(command), typed, MOST), raw)

    def _offered(self, kind: str | None, declared: Argument | Option, given: dict[str, str]) -> list[Suggestion]:
        if kind == "model":
            return self._models
        if kind == "session":
            return self._stored.sessions()
        if kind not in ("branch", "entry"):
            return [Suggestion(each) for each in (declared.choices if isinstance(declared, Option) else ())]
        talk = self._talk()
        named = given.get("session")
        if named is not None:
            return self._stored.inside(kind, named)
        return self._stored.inside(kind, talk.session.id, talk.runner.branch)

    def _paths(self, typed: str, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the paths that begin with what was typed, and what is shown of each."""
        if typed == "~" or typed.startswith("~/"):
            typed = self._ctx.environ.get("HOME", "~") + typed[1:]
        completer = PathCompleter(get_paths=lambda: [folder])
        for each in completer.get_completions(Document(typed), CompleteEvent()):
            if suggesting.is_harmless(each.text):
                yield typed + each.text, each.display_text


class Stored:
    """What a store has that can be named; each list is read once per change of the store.

    Args:
        open_store: Opens the store for reading.
    """

    def __init__(self, open_store: Callable[[], Reading]) -> None:
        self._open_store = open_store
        self._store: Reading | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._version = -1
        self._lists: dict[tuple[str, ...], list[Suggestion]] = {}

    def close(self) -> None:
        """Close the store; nothing is offered any more."""
        with self._lock:
            self._closed = True
            if self._store is not None:
                self._store.close()

    def sessions(self) -> list[Suggestion]:
        """Return the sessions."""
        return self._once(("session",), suggesting.sessions)

    def inside(self, kind: str, session: str, branch: str | None = None) -> list[Suggestion]:
        """Return what a session has.

        Args:
            kind: `branch` or `entry`.
            session: As it was typed, or its id.
            branch: Whose path the entries are of; None for the session's current one.
        """

        def read(store: Reading) -> Iterable[Suggestion]:
            session_id = resolve_session(store, session).id
            if kind == "branch":
                return suggesting.branches(store, session_id)
            return suggesting.entries(store, session_id, branch)

        return self._once((kind, session, branch or ""), read)

    def _once(self, name: tuple[str, ...], read: Callable[[Reading], Iterable[Suggestion]]) -> list[Suggestion]:
        with self._lock:
            if self._closed:
                return []
            try:
                self._store = self._store or self._open_store()
                version = self._store.connection.execute("pragma data_version").fetchone()[0]
                if version != self._version:
                    self._lists.clear()
                    self._version = version
                if name not in self._lists:
                    self._lists[name] = list(read(self._store))
            except PiSessionError:
                return []
            return self._lists[name]


def completions(found: Iterable[Suggestion], raw: str, before: str = "") -> Iterator[Completion]:
    """Yield what was found as it is to be typed.

    Args:
        raw: What stands there now, quotes included; it is replaced.
        before: What of it stays.
    """
    for each in found:
        yield Completion(shlex.quote(before + each.text), -len(raw), each.text, each.told)
