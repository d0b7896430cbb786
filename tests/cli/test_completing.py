"""What the prompt and the shell offer to complete."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from pi_loop.models.custom import ModelsConfig
from pi_session_cli import suggesting
from pi_session_cli.catalog import find
from pi_session_cli.interactive.completing import MOST, PromptCompleter
from pi_session_cli.shell_completion import harmless
from pi_session_cli.suggesting import Suggestion, kind_of, place_after
from pi_sessions import SessionStore
from tests.cli.launcher import Terminal


class Prompt:
    """A prompt in a store with two sessions; the newer one is open."""

    def __init__(self, shell: Terminal) -> None:
        self.path = str(shell.folder / "sessions.db")
        shell.ok("new", "other one")
        shell.ok("append", "said elsewhere")
        shell.ok("branch", "elsewhere")
        shell.ok("new", "open one")
        shell.ok("append", "Why is the lease lost?")
        shell.ok("append", "--role", "assistant", "The clock stalls.")
        shell.ok("branch", "as it was")
        shell.ok("label", "@-1", "question")
        with SessionStore.open(self.path, read_only=True) as store:
            session, other = store.sessions(limit=None)
            self.other = other.id
            self.ids = [entry.id for entry in store.path(session.id)]
        self.opened = 0
        self.talk: Any = SimpleNamespace(
            session=session,
            runner=SimpleNamespace(branch=None),
            workspace=SimpleNamespace(root=str(shell.folder / "root")),
            scripted=True,
            access=SimpleNamespace(config=ModelsConfig(), usable=list),
        )
        ctx: Any = SimpleNamespace(read_store=self.open, place=str(shell.folder), environ={"HOME": str(shell.folder)})
        self.completer = PromptCompleter(ctx, lambda: self.talk)

    def open(self) -> SessionStore:
        """Open the store for reading, and count it."""
        self.opened += 1
        return SessionStore.open(self.path, read_only=True)

    def offers(self, typed: str) -> dict[str, str]:
        """Return the whole line each completion makes, with what is told of it."""
        found = self.completer.get_completions(Document(typed), CompleteEvent())
        return {typed[: len(typed) + each.start_position] + each.text: each.display_meta_text for each in found}


@pytest.fixture
def prompt(shell: Terminal) -> Iterator[Prompt]:
    """Give a prompt."""
    prompt = Prompt(shell)
    yield prompt
    prompt.completer.close()


def test_commands_are_offered_with_what_they_do(prompt: Prompt) -> None:
    assert prompt.offers("/rew") == {"/rewind": "move the leaf to another entry"}
    assert "/thinking" in prompt.offers("/thk")
    assert {"/tree", "/model", "/quit"} < set(prompt.offers("/"))
    assert prompt.offers("/resum") == {}
    assert prompt.offers("say /rew") == {}
    assert prompt.opened == 0
    prompt.completer.close()
    assert [line for line in prompt.offers("/rewind ") if "--" not in line] == []


def test_values_are_those_of_the_open_session(prompt: Prompt) -> None:
    question, answer = prompt.ids
    assert prompt.offers("/rewind lease") == {f"/rewind {question}": "user: Why is the lease lost?"}
    assert next(iter(prompt.offers(f"/label {answer}"))) == f"/label {answer}"
    assert [line for line in prompt.offers("/show ") if not line.startswith("/show -")] == [
        "/show @",
        "/show question",
        "/show main",
        "/show 'as it was'",
        f"/show {answer}",
        f"/show {question}",
    ]
    assert list(prompt.offers("/switch as")) == ["/switch 'as it was'"]
    assert list(prompt.offers("/switch 'as it")) == ["/switch 'as it was'"]
    assert list(prompt.offers("/fork --before Why")) == [f"/fork --before {question}"]
    assert list(prompt.offers("/compact --keep question,clock")) == [f"/compact --keep question,{answer}"]
    assert next(iter(prompt.offers(f"/switch -s {prompt.other} e"))) == f"/switch -s {prompt.other} elsewhere"
    assert list(prompt.offers(f"/log {prompt.other} --at said").values()) == ["user: said elsewhere"]
    assert list(prompt.offers("/fork other")) == [f"/fork {prompt.other[:8]}"]
    assert prompt.offers("/rewind nowhere -s nothing --model") != {}
    assert prompt.offers("/switch -s nothing ma") == {}


def test_options_levels_models_and_files_are_offered(prompt: Prompt, shell: Terminal) -> None:
    root = shell.folder / "root"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "note one.txt").touch()
    (root / "evil\x1b[2J").touch()
    (shell.folder / "out put.html").touch()
    assert prompt.offers("/rewind --ex") == {"/rewind --exact": find_option("rewind", "--exact")}
    assert set(prompt.offers("/thinking h")) == {"/thinking high", "/thinking xhigh"}
    assert prompt.offers("/thinking high h") == {}
    assert prompt.offers("/thinking 'a' 'h") == {}
    assert "/model anthropic/claude-sonnet-5" in prompt.offers("/model sonnet-5")
    assert list(prompt.offers("read @de")) == ["read @deep"]
    assert list(prompt.offers("read\n@deep/n")) == ["read\n@deep/note one.txt"]
    assert list(prompt.offers("@")) == ["@deep"]
    assert prompt.offers("me@de") == {}
    assert list(prompt.offers("/export -o ou")) == ["/export -o 'out put.html'"]
    assert list(prompt.offers("/export -o 'out p")) == ["/export -o 'out put.html'"]
    assert list(prompt.offers("/export -o ~/out")) == [f"/export -o '{shell.folder}/out put.html'"]
    assert "/export --format markdown" in prompt.offers("/export --format mark")


def find_option(command: str, flag: str) -> str:
    """Return the help of an option, as far as it is shown."""
    declared = find(command)
    assert declared is not None
    option = suggesting.option_of(declared, flag)
    assert option is not None
    return option.help


def test_the_store_is_read_once_per_change(prompt: Prompt, shell: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    entries = suggesting.entries

    def counted(store: SessionStore, session_id: str, branch: str | None) -> Iterator[Suggestion]:
        read.append(session_id)
        return entries(store, session_id, branch)

    monkeypatch.setattr(suggesting, "entries", counted)
    for typed in ("/rewind ", "/rewind l", "/rewind le", "/show l"):
        prompt.offers(typed)
    assert len(read) == 1
    shell.ok("append", "A new question about leases")
    assert list(prompt.offers("/rewind leases").values()) == ["user: A new question about leases"]
    assert (len(read), prompt.opened) == (2, 1)


def test_of_a_long_path_the_newest_that_fit_are_offered() -> None:
    known = [Suggestion(f"{number:08x}", f"user: question {number}") for number in range(10_000, 0, -1)]
    found = suggesting.fitting(known, "question", MOST)
    assert [found[0].told, len(found)] == ["user: question 10000", MOST]
    assert suggesting.fitting(known, "00000010", MOST)[0].text == "00000010"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rewind", "entry"),
        ("rewind @", None),
        ("rewind --model", "model"),
        ("rewind --model=x", "entry"),
        ("rewind -s", "session"),
        ("rewind -- --start", None),
        ("fork", "session"),
        ("fork --at", "entry"),
        ("export -o", "path"),
        ("merge x --pick", "entry"),
        ("search --branch", "branch"),
        ("branch", "branch"),
        ("import a b", "path"),
        ("label @", None),
        ("diff main", "entry"),
        ("ls --since", None),
    ],
)
def test_what_comes_next_follows_from_the_declarations(line: str, expected: str | None) -> None:
    name, *words = line.split()
    command = find(name)
    assert command is not None
    declared = place_after(command, words).declared
    assert (kind_of(command, declared) if declared is not None else None) == expected


def shell_offers(shell: Terminal, line: str, **env: str) -> list[str]:
    """Return what bash gets for a line that ends where the cursor is."""
    asked = {"_PI_SESSION_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    command = [sys.executable, "-W", "error", "-m", "pi_session_cli"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PI_")}
    run = subprocess.run(
        command, cwd=shell.folder, env={**inherited, "HOME": str(shell.folder), **asked, **env}, capture_output=True
    )
    assert (run.returncode, run.stderr) == (0, b""), run.stderr
    return run.stdout.decode().split()


def test_a_shell_is_offered_sessions_branches_and_entries(prompt: Prompt, shell: Terminal) -> None:
    question, answer = prompt.ids
    store = {"PI_SESSION_DB": prompt.path, "PI_SESSION_ID": prompt.talk.session.id}
    assert shell_offers(shell, "pi-session rewind ", **store) == ["question", "main", answer, question]
    assert shell_offers(shell, f"pi-session switch -s {prompt.other} e", **store) == ["elsewhere"]
    assert set(shell_offers(shell, f"pi-session --db {prompt.path} log 0")) == {"00000001", "00000002"}
    assert shell_offers(shell, "pi-session rewind -s nothing ", **store) == []
    assert shell_offers(shell, "pi-session log ", PI_SESSION_DB=str(shell.folder / "none.db")) == []


def test_what_a_shell_is_given_is_no_program() -> None:
    told = Suggestion("main", "user: \\$(touch evil) `touch evil` \"; touch evil' [bold] is it fair?")
    odd = [Suggestion(text) for text in ("main$(x)", "ma in", "ma'in", "ma;in", "ma:in", "ma\\in", "other")]
    assert harmless([told, *odd], "ma") == [
        Suggestion("main", "user touch evil touch evil touch evil bold is it fair?")
    ]
