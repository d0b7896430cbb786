"""What slash commands do to the conversation that is open."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pi_loop.runner_types import PhaseBusyError
from pi_session_cli.catalog import find
from pi_session_cli.interactive import slash
from pi_session_cli.parse import parse
from pi_session_cli.settings import THINKING
from pi_sessions.errors import CannotError, UsageError

if TYPE_CHECKING:
    from typing import Any

    from pi_loop.runner_types import Moved, RunOutcome
    from pi_session_cli.interactive.talk import Talk


class Moves:
    """Carries out slash commands.

    Args:
        talk: The conversation.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def command(self, typed: slash.Typed) -> None:
        """Carry out one command.

        Raises:
            PiSessionError: it cannot be; nothing has changed.
        """
        own = getattr(self, f"_{typed.name}", None)
        await self._talk.let_settle()
        if self._talk.is_working and typed.name not in (*slash.LOOKING, "help", "quit", "model", "thinking"):
            raise PhaseBusyError(f"/{typed.name} has to wait: the model is working", hint="Ctrl-C stops it")
        if own is not None:
            await own(typed.words)
        else:
            await self._by_command_line(typed.name, typed.words)

    # --- the program's own --------------------------------------------------------------------------------------

    async def _help(self, words: list[str]) -> None:
        printer, columns = self._talk.printer, self._talk.ctx.screen.columns or 80
        for line in slash.help_of(words[0], columns) if words else slash.help_lines():
            printer.write(printer.wording(line))

    async def _quit(self, words: list[str]) -> None:
        self._talk.leave()

    async def _model(self, words: list[str]) -> None:
        talk = self._talk.talk
        if not words:
            self._talk.printer.note(f"{talk.runner.model.provider}/{talk.runner.model.id}; {talk.access.offer()}")
            return
        model = talk.access.find(words[0])
        if not talk.scripted:
            talk.access.check(model)
        await talk.runner.set_model(model)
        self._talk.printer.note(f"Model: {model.provider}/{model.id}")
        self._talk.redraw()

    async def _thinking(self, words: list[str]) -> None:
        runner = self._talk.talk.runner
        if not words:
            self._talk.printer.note(f"Thinking: {runner.thinking_level or 'as the session has it'}")
            return
        if words[0] not in THINKING:
            raise UsageError(f"There is no thinking level {words[0]}", hint=f"one of {', '.join(THINKING)}")
        await runner.set_thinking_level(words[0])  # type: ignore[arg-type]
        self._talk.printer.note(f"Thinking: {words[0]}")

    async def _deferred(self, words: list[str]) -> None:
        what = words[0] if words else "wait"
        if what not in ("wait", "close"):
            raise UsageError(f"There is nothing to {what}", hint="/deferred wait, or /deferred close")
        if await self._talk.talk.runner.deferred_answer() is None:
            raise CannotError("The session waits for no answer", hint="send a prompt")
        work = self._talk.give_up_deferred if what == "close" else partial(self._talk.fetch_deferred, wait=True)
        self._talk.start(work)

    # --- by the runner ------------------------------------------------------------------------------------------

    async def _rewind(self, words: list[str]) -> None:
        values = read("rewind", words)
        if values is None or values.get("model") or values.get("script") or values["session"]:
            await self._by_command_line("rewind", words)
            return
        target = values["target"]
        if (target is None) != values["start"]:
            raise UsageError("Give either ENTRY or --start", hint="/tree shows the entries")
        runner = self._talk.talk.runner
        entry = self._entry(target) if target is not None else None
        moved = await runner.rewind(
            entry,
            exact=values["exact"],
            summarize=values["summarize"],
            focus=values["focus"],
            offline=values["offline"],
        )
        await self._moved(moved)

    async def _switch(self, words: list[str]) -> None:
        values = read("switch", words)
        if values is None or values.get("model") or values.get("script") or values["session"]:
            await self._by_command_line("switch", words)
            return
        moved = await self._talk.talk.runner.switch(
            values["branch"], summarize=values["summarize"], focus=values["focus"], offline=values["offline"]
        )
        await self._moved(moved)

    async def _compact(self, words: list[str]) -> None:
        values = read("compact", words)
        simple = values is not None and not any(
            values[name] for name in ("session", "dry_run", "keep", "first", "last", "model", "script", "json")
        )
        if values is None or not simple:
            await self._by_command_line("compact", words)
            return
        focus, offline = values["focus"], values["offline"]

        async def work() -> RunOutcome | None:
            await self._talk.talk.runner.compact(focus=focus, offline=offline)
            self._talk.printer.note("/undo takes it back")
            return None

        self._talk.start(work)

    async def _fork(self, words: list[str]) -> None:
        command = find("fork")
        assert command is not None
        argv = slash.argv_for(command, words, self._talk.talk.session.id)
        here = self._talk.talk.session.id
        code, answer = await slash.answer_of(self._talk.ctx, [*self._with_store(argv), "--json"], self._talk.out, here)
        if code:
            return
        forked = json.loads(answer)
        session_id = forked.get("id") or forked.get("sessionId")
        self._talk.printer.note(f"Forked from {self._talk.talk.session.id}; it stays as it is")
        self._talk.prefill = forked.get("editorText") or ""
        self._talk.wishes = self._talk.as_now()
        await self._talk.open(self._talk.store.session(session_id))

    # --- by the command line ------------------------------------------------------------------------------------

    async def _by_command_line(self, name: str, words: list[str]) -> None:
        command = find(name)
        assert command is not None
        argv = slash.argv_for(command, words, self._talk.talk.session.id)
        await slash.run_command(self._talk.ctx, self._with_store(argv), self._talk.out, self._talk.talk.session.id)
        if name in ("undo", "redo"):
            await self._follow_settings()
        if command.writes and not self._talk.is_working:
            await self._talk.refresh()

    async def _follow_settings(self) -> None:
        """Ask the model the session names now, where that was changed and can be used."""
        talk = self._talk.talk
        store, runner = self._talk.store, talk.runner
        context = store.context(talk.session.id, store.leaf(talk.session.id, runner.branch))
        if talk.scripted or context.model is None:
            return
        named = f"{context.model.provider}/{context.model.model_id}"
        model = talk.access.known(named)
        if named == f"{runner.model.provider}/{runner.model.id}" or model is None:
            return
        if talk.access.why_unusable(model) is None:
            self._talk.wishes = replace(self._talk.as_now(), model=named, thinking=context.thinking_level)
            self._talk.renew(talk.session)
            self._talk.printer.note(f"Model: {named}, as the session has it now")

    def _with_store(self, argv: list[str]) -> list[str]:
        return [argv[0], "--db", self._talk.ctx.store_path, *argv[1:]]

    def _entry(self, reference: str) -> str | None:
        _, entry = self._talk.ctx.entry(self._talk.store, reference, self._talk.talk.session.id)
        return entry

    async def _moved(self, moved: Moved) -> None:
        printer = self._talk.printer
        printer.note(f"{moved.branch} now ends at {moved.new_leaf or 'its start'}; /undo takes it back")
        if moved.entry_id:
            printer.note(f"What was left is summed up in {moved.entry_id}")
        self._talk.refill(moved.text or "")
        await self._talk.refresh()


def read(name: str, words: list[str]) -> dict[str, Any] | None:
    """Return what was typed after a command, None when the command line has to say what is wrong with it."""
    parsed = parse([name, *words], find, ())
    return None if parsed is None or parsed.help else dict(parsed.values)
