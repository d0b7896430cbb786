"""`demo`: what the program does, shown on real sessions in a store of its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import Command, Option
from pi_sessions.errors import CannotError, TargetError
from pi_sessions.ids import new_entry_id, new_session_id

if TYPE_CHECKING:
    from typing import TextIO

    from pi_session_cli.invocation import Invocation

SAMPLE = "0195c0de"
STORE = "sessions.db"
COPY = "copy.db"

COMMAND = Command(
    name="demo",
    group="set up",
    help="Show what pi-session does, on real sessions",
    details=(
        "Imports a sample conversation and two long real ones (their words replaced) into a store of its own, looks at "
        "them, forks, rewinds, undoes, labels, exports and imports again; then a script plays the model in a run and "
        "in a conversation that is steered, compacted and exported. It needs no key and no network and never touches "
        "your own store. What it makes stays, to play with."
    ),
    examples=("pi-session demo", "pi-session demo --dir ./pi-session-demo"),
    json="One object: folder, store, commands (each: argv, code, for resume also typed), sameContext.",
    options=(Option("dir", ("--dir",), "Folder to work in (default: a new temporary one)", "text", "DIR"),),
)

# What the demo says, and the commands it runs; {dir} is the demo's folder.
STORY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Everything a folder holds comes in; the files themselves are only read.", ("import", "{dir}/sources")),
    ("Doing it again adds nothing.", ("import", "{dir}/sources/sample.jsonl")),
    ("All sessions, newest message first.", ("ls",)),
    (
        "The sample as a tree. An attempt that failed was left behind: it is still there, below on its own branch. "
        "The path to the leaf is marked.",
        ("tree", SAMPLE),
    ),
    (
        "What a model would be told if the conversation went on here: after a compaction that is the summary and what "
        "was kept.",
        ("context", SAMPLE),
    ),
    (
        "Fork from the labelled entry. Nothing is copied; the fork is the current session here from now on.",
        ("fork", SAMPLE, "--at", "renewal-works", "--name", "What if every job had a heartbeat"),
    ),
    ("Go on in the fork.", ("append", "What would a heartbeat thread for every job cost us?")),
    ("", ("append", "--role", "assistant", "One thread and one query every 20 minutes for each running job.")),
    ("Go back before that question. Its text is given back, to be asked better.", ("rewind", "@-1")),
    ("", ("append", "What would a heartbeat for every job cost, in queries and in threads?")),
    ("Both wordings are in the tree; the one left behind is a tip.", ("tree", "--user")),
    ("Undo takes back the latest operation, here the last question,", ("undo",)),
    ("and once more: the rewind.", ("undo",)),
    ("Redo restores exactly what undo replaced.", ("redo", "--steps", "2")),
    ("A label is a bookmark that stands for its entry everywhere.", ("label", "@", "better-question")),
    ("A named branch at an earlier entry, without moving.", ("branch", "as-it-was", "--at", "renewal-works")),
    ("Every move and every name was one operation that can be taken back.", ("ops",)),
    ("Take the whole tree out as a Pi session file,", ("export", "--all-branches", "-o", "{dir}/fork.jsonl")),
)
# The conversation that goes on: when each line is typed, and what.
TALK = (
    ("idle", "What did we learn? Write it down in notes.md, please."),
    ("speaking", "One line is enough."),
    ("question", "y"),
    ("idle", "/compact --dry-run --offline --to @-2"),
    ("idle", "/compact --offline --to @-2"),
    ("idle", "/undo"),
    ("idle", "/export -o talk.jsonl"),
    ("idle", "/quit"),
)
RUN: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "One question from the shell, answered with the reading tools. (A script plays the model.)",
        ("run", "Which files are here?", "--script", "{dir}/scripts/look.json"),
    ),
)
AGAIN: tuple[str, tuple[str, ...]] = (
    "and into another store: the same tree, the same context.",
    ("import", "{dir}/fork.jsonl", "--db", "{dir}/copy.db"),
)


class Stage:
    """Runs command lines as if typed in the demo's folder, and shows each with what it is for.

    Attributes:
        played: The command lines so far with their exit codes.
    """

    def __init__(self, ctx: Invocation, folder: str) -> None:
        self._ctx = ctx
        self._folder = folder
        self._place = os.path.join(folder, "work")
        self._environ = {
            **{name: value for name, value in ctx.environ.items() if not name.startswith("PI_SESSION")},
            "PI_SESSION_DB": os.path.join(folder, STORE),
        }
        self.played: list[dict[str, object]] = []

    def play(self, sentence: str, words: tuple[str, ...]) -> None:
        """Say what comes, run it, and show its answer as a person would see it.

        Raises:
            CannotError: the command failed, which the demo's commands never should.
        """
        from pi_session_cli.render.story import command_line, spoken

        argv = [word.format(dir=self._folder) for word in words]
        stream = self._ctx.stderr if self._ctx.as_json else self._ctx.stdout
        if not self._ctx.as_json:
            stream.write("".join(f"{line}\n" for line in (*spoken(sentence, self._ctx.screen), command_line(argv))))
            stream.flush()
        code = self._run(argv, quiet=self._ctx.as_json)
        self.played.append({"argv": argv, "code": code})
        if code:
            raise CannotError(f"The demo's command failed: {command_line(argv)}", hint="please report this")

    def talk(self, sentence: str, session: str) -> None:
        """Say what comes, and go on with a session: a script answers, and a person's lines are typed by the demo.

        Raises:
            CannotError: the session cannot be opened, which the demo's always can.
        """
        from io import StringIO

        from pi_session_cli.conversing import Wishes
        from pi_session_cli.interactive.rehearsal import Line, rehearse
        from pi_session_cli.main import prepare
        from pi_session_cli.parse import Parsed
        from pi_session_cli.render.story import command_line, spoken

        argv = ["resume", session, "--script", os.path.join(self._folder, "scripts", "talk.json")]
        ctx, out = self._ctx, StringIO() if self._ctx.as_json else self._ctx.stdout
        if not ctx.as_json:
            out.write("".join(f"{line}\n" for line in (*spoken(sentence, ctx.screen), command_line(argv))))
            out.flush()
        streams = (StringIO(), out, out)
        inner = prepare(
            Parsed(None, {"durable": True}),
            self._environ,
            streams,
            self._place,
            ctx.clock,
            new_entry_id,
            new_session_id,
        )
        rehearse(inner, session, Wishes(script=argv[-1]), tuple(Line(*line) for line in TALK))
        self.played.append({"argv": argv, "code": 0, "typed": [text for _, text in TALK]})

    def context_of(self, db: str) -> list[object]:
        """Return messages, model and thinking level of the current session in one of the demo's stores."""
        from io import StringIO

        answer = StringIO()
        self._run(["context", "--json", "--db", os.path.join(self._folder, db)], quiet=True, stdout=answer)
        context = json.loads(answer.getvalue())
        return [context[part] for part in ("messages", "model", "thinkingLevel")]

    def _run(self, argv: list[str], *, quiet: bool, stdout: TextIO | None = None) -> int:
        from io import StringIO

        from pi_session_cli.main import main

        hidden = StringIO()
        return main(
            argv,
            clock=self._ctx.clock,
            environ=self._environ,
            stdout=stdout or (hidden if quiet else self._ctx.stdout),
            stderr=hidden if quiet else self._ctx.stdout,
            cwd=self._place,
        )


def run(ctx: Invocation, *, dir: str | None) -> Answer:
    """Play the whole story and leave the store behind."""
    folder = prepare_folder(dir)
    stage = Stage(ctx, folder)
    for sentence, words in (*STORY, AGAIN):
        stage.play(sentence, words)
    same = stage.context_of(STORE) == stage.context_of(COPY)
    if not same:
        raise CannotError("The copy has another context than the original", hint="please report this")
    for sentence, words in RUN:
        stage.play(sentence, words)
    stage.talk(
        "Go on with the imported session. A script plays the model here, and the demo types: it steers the model in "
        "mid-sentence, approves a file, looks at a compaction before it is made, takes it back, and exports.",
        SAMPLE,
    )
    store = os.path.join(folder, STORE)
    return Answer(
        "done",
        Done({"folder": folder, "store": store, "commands": stage.played, "sameContext": same}),
        (f"Both stores give the same context. The demo's store stays in {folder}",),
        (
            f"export PI_SESSION_DB={store}",
            f"pi-session tree {SAMPLE}",
            f"pi-session fork {SAMPLE} --at @-3",
            "pi-session import ~/.pi  (in a new terminal: your own sessions, into your own store)",
        ),
    )


def prepare_folder(given: str | None) -> str:
    """Make the demo's folder and unpack the sessions it imports.

    Raises:
        TargetError: the folder cannot be made, or holds a demo already.
    """
    import gzip
    import shutil
    import tempfile

    try:
        folder = tempfile.mkdtemp(prefix="pi-session-demo-") if given is None else os.path.abspath(given)
        if os.path.exists(os.path.join(folder, STORE)):
            raise TargetError(f"There is a demo in {folder} already", hint="name another folder with --dir")
        for name in ("sources", "work"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        bundled = os.path.join(os.path.dirname(os.path.dirname(__file__)), "demo")
        shutil.copytree(os.path.join(bundled, "scripts"), os.path.join(folder, "scripts"), dirs_exist_ok=True)
        for name in sorted(name for name in os.listdir(bundled) if ".jsonl" in name):
            source = os.path.join(bundled, name)
            target = os.path.join(folder, "sources", name.removesuffix(".gz"))
            with (gzip.open if name.endswith(".gz") else open)(source, "rb") as packed, open(target, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    except OSError as error:
        raise TargetError(f"Cannot make the demo's folder: {error}", hint="name another with --dir") from error
    return folder
