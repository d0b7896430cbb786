"""Every command explains itself, and its examples work as typed."""

import json
import shlex
from pathlib import Path

import pytest

from pi_session_cli.catalog import NAMES, find
from pi_session_cli.declare import GROUPS, Command
from tests.cli.launcher import Terminal

HELLO = Path(__file__).parents[2] / "fixtures" / "scripts" / "hello.json"


def command_of(name: str) -> Command:
    """Return the declaration of a command."""
    command = find(name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", NAMES)
def test_help_is_complete(name: str, shell: Terminal) -> None:
    command = command_of(name)
    out = shell.ok(name, "--help").out
    assert command.name == name
    assert command.group in GROUPS
    assert out.splitlines()[0] == command.help
    assert not command.help.endswith(".")
    assert command.help[0].isupper()
    for option in command.every_option:
        assert all(flag in out for flag in option.flags)
        assert not option.help.endswith(".")
    assert command.examples
    for example in command.examples:
        assert f"  {example}\n" in out
        assert f"pi-session {name}" in example or "| pi-session" in example or "pi-session ls" in example
    assert "JSON" in out
    assert max(len(line) for line in out.splitlines() if line.strip() not in command.examples) <= 80
    assert shell.ok(name, "-h").out == out == shell.ok("help", name).out


def test_program_help_lists_every_command_by_group(shell: Terminal) -> None:
    out = shell.ok("--help").out
    assert out == shell.ok("-h").out == shell.ok("help").out == shell.ok().out
    for name in NAMES:
        assert f"  {name} " in out
        assert command_of(name).help in " ".join(out.split())
    assert not list(shell.folder.iterdir())


@pytest.mark.parametrize("columns", [44, 60, 80, 100])
def test_help_fits_the_terminal(columns: int, shell: Terminal) -> None:
    for name in ("", "import", "compact", "export"):
        out = shell.ok(*([name] if name else []), "--help", columns=columns, env={"NO_COLOR": "1"}).out
        examples = command_of(name).examples if name else ()
        lines = [line for line in out.splitlines() if line.strip() not in examples and "Usage:" not in line]
        assert max(map(len, lines)) <= columns


def test_help_is_bold_only_on_a_terminal(shell: Terminal) -> None:
    assert b"\x1b[1m" in shell.ok("--help", columns=80).raw
    assert b"\x1b" not in shell.ok("--help", columns=80, env={"NO_COLOR": "1"}).raw


def test_version(shell: Terminal) -> None:
    from pi_session_cli import VERSION

    assert shell.ok("--version").out == f"pi-session {VERSION}\n"


def test_a_mistyped_command_is_recognised(shell: Terminal) -> None:
    ran = shell.run("rewnd", "@")
    assert ran.code == 2
    assert "'rewind'" in ran.err


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("demo", "resume", "browse")])
def test_examples_work_as_typed(name: str, talk: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session that has what the examples name: entries, a label, branches, files, Pi's folder."""
    monkeypatch.setenv("HOME", str(talk.folder))
    talk.cwd = str(talk.folder)
    talk.ok("new", "--id", "7f3a0000-1111")
    ids = ["5c0d9e12", "aaaa0001", "aaaa0002", "aaaa0003", "aaaa0004", "77aa01f3"]
    middle = ["a1b20001", "c3d40001"]
    # What is said last stays as it is, up to 20,000 tokens: something must lie before that.
    long = 20_000 if name == "compact" else 10
    talk.ok("append", "--json-lines", "-", stdin=said(ids if name == "merge" else ids[:2] + middle + ids[2:], long))
    if name != "label":
        talk.ok("label", "aaaa0001", "checkpoint-1")
    talk.ok("branch", "attempt-1")
    for _ in range(4):
        talk.ok("pin")
    folder = talk.folder / ".pi" / "agent" / "sessions" / "--proj--"
    folder.mkdir(parents=True)
    talk.ok("export", "-o", str(folder / "2026_talk.jsonl"))
    for form, place in (("claude-code", ".claude/projects"), ("codex", ".codex/sessions")):
        (talk.folder / place).mkdir(parents=True)
        talk.ok("export", "--format", form, "-o", str(talk.folder / place / "rollout.jsonl"))
    if name != "export":
        talk.ok("export", "-o", "talk.jsonl")
    (talk.folder / "entries.jsonl").write_text('{"role":"user","content":"from a file"}\n')
    if name == "redo":
        talk.ok("undo", "--op", "12")
    if name == "merge":
        talk.ok("append", "--json-lines", "-", "--branch", "attempt-1", stdin=said(middle, long))
    for example in command_of(name).examples:
        words = shlex.split(example.rpartition("| ")[2].partition(" > ")[0])
        if name == "redo":
            prepare_redo(talk, words)
        if "--expect" in words or name == "rewind":
            talk.ok("rewind", "--exact", "77aa01f3")
        if "--restore" in words:
            talk.run("omit", "77aa01f3")
        if name == "run":
            words += ["--script", str(HELLO)]
        if "--focus" in words:
            words += ["--offline"]
        talk.ok(*words[1:], stdin=b"a diff\n")
        if name in ("compact", "merge") and "--dry-run" not in words:
            talk.ok("undo")


def said(ids: list[str], words: int) -> bytes:
    """Return messages with these ids as JSON Lines, a person's and an answer in turns, each of so many words."""
    entries = [
        {
            "type": "message",
            "id": entry,
            "message": {
                "role": ("user", "assistant")[place % 2],
                "content": [{"type": "text", "text": "lease " * words}],
            },
        }
        for place, entry in enumerate(ids)
    ]
    return "\n".join(map(json.dumps, entries)).encode()


def prepare_redo(talk: Terminal, words: list[str]) -> None:
    """Leave as many undone operations behind as the example restores."""
    steps = int(words[words.index("--steps") + 1]) if "--steps" in words else 1
    if "--op" not in words:
        for number in range(steps):
            talk.ok("name", f"n{number}")
        talk.ok("undo", "--steps", str(steps))
