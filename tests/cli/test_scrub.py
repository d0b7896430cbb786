"""`scrub` asks, does what it says, and never shows a secret."""

import json
from pathlib import Path

import pytest

from tests.cli.launcher import Terminal
from tests.cli.test_cases import CASES

KEY = "sk-ant-api03-" + "aB3x" * 8


def file_bytes(shell: Terminal) -> bytes:
    """Return every byte of the store's files."""
    return b"".join(path.read_bytes() for path in shell.folder.glob("sessions.db*"))


@pytest.fixture
def leaky(talk: Terminal) -> Terminal:
    """Return a shell whose session holds a key in a message, a name and a label."""
    talk.ok("append", f"my key is {KEY}")
    talk.ok("name", f"about {KEY[:24]}")
    talk.ok("label", "@", f"has {KEY}")
    talk.ok("search", "key")
    return talk


def test_a_given_secret_is_gone_for_good(leaky: Terminal) -> None:
    assert KEY.encode() in file_bytes(leaky)
    ran = leaky.ok("scrub", KEY, "--yes")
    assert KEY[:16] not in ran.out + ran.err
    assert "anthropic-key became [redacted:anthropic-key-1]" in ran.out
    assert "e0000005" in ran.out
    assert "cannot be undone" in ran.err
    assert KEY[:20].encode() not in file_bytes(leaky)
    assert "my key is [redacted:anthropic-key-1]" in leaky.ok("log").out
    assert "about [redacted:anthropic-key-1]" in leaky.ok("show").out
    assert "has [redacted:anthropic-key-1]" in leaky.ok("label").out
    assert json.loads(leaky.ok("search", "my key", "--json").out)["hits"][0]["entryId"] == "e0000005"
    leaky.ok("undo", "--steps", "2")
    assert KEY[:20].encode() not in file_bytes(leaky)


def test_a_secret_may_come_through_a_pipe_or_from_the_environment(leaky: Terminal) -> None:
    told = json.loads(leaky.ok("scrub", "-", "--dry-run", "--json", stdin=f"{KEY}\n".encode()).out)
    assert (told["dryRun"], told["secrets"][0]["entries"][0]["entryId"]) == (True, "e0000005")
    env = {"ANTHROPIC_API_KEY": KEY, "HOME": str(leaky.folder), "PATH": "/usr/bin"}
    told = json.loads(leaky.ok("scrub", "--env", "--yes", "--json", env=env).out)
    assert told["secrets"][0]["mark"] == "[redacted:anthropic-api-key-1]"
    assert KEY[:20].encode() not in file_bytes(leaky)


def test_it_asks_first(leaky: Terminal) -> None:
    before = file_bytes(leaky)
    ran = leaky.run("scrub", "--found")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert file_bytes(leaky) == before
    plan = leaky.ok("scrub", "--found", "--dry-run")
    assert "would become" in plan.out
    assert KEY[:16] not in plan.out + plan.err


@pytest.mark.parametrize(
    ("line", "code"),
    [([], 2), (["abc", "--yes"], 1), (["x" * 9, "-s", "7f"], 2), (["", "--yes"], 2), (["e0000005"], 1)],
)
def test_what_makes_no_sense_is_refused(line: list[str], code: int, leaky: Terminal) -> None:
    assert leaky.run("scrub", *line).code == code


def test_nothing_to_find_is_said(leaky: Terminal) -> None:
    ran = leaky.ok("scrub", "never-was-here", "--yes")
    assert "holds none of it" in ran.err
    leaky.ok("scrub", "--found", "--yes")
    assert "looks like a secret" in leaky.ok("scrub", "--found", "--yes").err


def test_s29_every_secret_of_the_case_is_removed(shell: Terminal) -> None:
    raw = (CASES / "s29-secrets" / "secrets.jsonl.in").read_bytes()
    source = Path(shell.folder, "secrets.jsonl")
    source.write_bytes(raw.replace(b"~", b""))
    shell.ok("import", str(source))
    ran = shell.ok("scrub", "--found", "--yes")
    assert str(source) in ran.err
    left = file_bytes(shell)
    for needle in (b"EXAMPLEEXAMPLE", b"exampleexampleex", b"IOSFODNN7", b"examplepass", b"xoxb-0"):
        assert needle not in left, needle
    assert b"4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39" in left
    assert b"00000000-0000-7000-8000-000000000129" in left
    assert shell.ok("tree", "--all").code == 0
    shell.ok("export", "--all-branches")
