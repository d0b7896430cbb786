"""`search` as people and programs meet it."""

import json
import shlex

import pytest

from tests.cli.launcher import Terminal
from tests.cli.test_cases import CASES, control_characters


@pytest.fixture
def found(talk: Terminal) -> Terminal:
    """Return a shell with a second attempt on a branch of its own."""
    talk.ok("rewind", "@-1")
    talk.ok("append", "Is the lease renewed?")
    return talk


def test_hits_say_where_they_are_and_how_to_get_there(found: Terminal) -> None:
    ran = found.ok("search", "lease")
    sid = "00000001-0000-7000-8000-000000000000"
    assert (
        ran.lines
        == [
            f"• {sid}  e0000004  Mar 02 09:00  name · main · lease bug",
            "    lease bug",
            f"    pi-session log {sid}",
            f"• {sid}  e0000005  Mar 02 09:00  user · main · lease bug",
            "    Is the lease renewed?",
            f"    pi-session fork {sid} --at e0000005",
            f"• {sid}  e0000001  Mar 02 09:00  user · main · lease bug",
            "    Why is the lease lost?",
            f"    pi-session fork {sid} --at e0000001",
        ]
        or ran.lines
    )
    told = json.loads(found.ok("search", "database lock", "--json").out)
    [hit] = told["hits"]
    assert (hit["active"], hit["branches"], hit["entryId"]) == (False, [], "e0000004")
    start, end = hit["marks"][0]
    assert hit["snippet"][start:end] == "database"
    for command in (hit["fork"], hit["rewind"]):
        found.ok(*shlex.split(command)[1:])


def test_matches_are_painted_only_in_colour_and_always_seen(found: Terminal) -> None:
    found.ok("append", "word " * 60 + "heron" + " word" * 60)
    for columns in (40, 60, 120):
        shown = found.ok("search", "heron", columns=columns)
        assert "\x1b[1;31mheron\x1b[0m" in shown.out
        plain = found.ok("search", "heron", columns=columns, env={"NO_COLOR": "1"})
        assert "heron" in plain.lines[1]
        assert len(plain.lines[1]) <= columns
        assert not control_characters(plain.out)


def test_nothing_found_is_said_and_is_no_failure(found: Terminal) -> None:
    ran = found.run("search", "zebrafish")
    assert (ran.code, ran.out) == (0, "")
    assert "Nothing found for zebrafish" in ran.err
    told = json.loads(found.ok("search", "zebrafish", "--json").out)
    assert told["hits"] == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["", "  "], 2),
        (["("], 0),
        (["(", "--regex"], 2),
        (["a AND", "--fts"], 2),
        (["a", "--fts", "--regex"], 2),
        (["a", "--branch", "nowhere"], 1),
        (["a", "-s", "nosuch"], 1),
        (["a", "--since", "whenever"], 2),
        (["a", "--role", "king"], 2),
    ],
)
def test_a_search_that_fails_never_looks_like_nothing_found(line: list[str], code: int, found: Terminal) -> None:
    ran = found.run("search", *line)
    assert ran.code == code, ran
    assert ran.err.startswith("Error:" if code else "Nothing found")


def test_a_damaged_index_is_an_error(found: Terminal) -> None:
    import sqlite3

    found.ok("search", "lease")
    connection = sqlite3.connect(found.env["PI_SESSION_DB"])
    with connection:
        connection.execute("update entry_index_data set block = x'00' where id > 10")
    connection.close()
    ran = found.run("search", "lease")
    assert ran.code == 3
    assert "damaged" in ran.err


def test_filters(found: Terminal) -> None:
    def ids(*line: str) -> list[str]:
        hits = json.loads(found.ok("search", "--json", *line).out)["hits"]
        return [hit["entryId"] for hit in hits if hit["kind"] == "entry"]

    assert ids("lease") == ["e0000005", "e0000001"]
    assert ids("the", "--role", "assistant") == ["e0000004", "e0000002"]
    assert ids("the", "--active") == ["e0000005", "e0000002", "e0000001"]
    assert ids("the", "--model", "sonnet", "--role", "assistant") == ["e0000004", "e0000002"]
    assert ids("lease", "--here") == ["e0000005", "e0000001"]
    assert json.loads(found.ok("search", "lease", "--here", "--json", cwd="/x").out)["hits"] == []
    assert ids("eas", "--substring", "-n", "1") == ids("leas", "-n", "1")
    assert ids("l(ea|oo)se r", "--regex") == ["e0000005"]
    assert ids("lease NOT lost", "--fts") == ["e0000005"]
    assert ids("-n", "3", "--", "-") == []


def test_an_import_ends_with_the_index(shell: Terminal) -> None:
    shell.ok("import", str(CASES / "s26-search-punctuation" / "search-punctuation.jsonl"))
    told = json.loads(shell.ok("search", "20.04", "--json").out)
    assert (told["indexed"], told["by"]) == (0, "index")


def test_s21_kind_what_is_found_is_safe_for_the_terminal(talk: Terminal) -> None:
    talk.ok("append", "heron \x1b[31m red \u202e evil \x07 \x9b2J")
    for columns in (None, 60):
        ran = talk.ok("search", "heron", columns=columns, env={"NO_COLOR": "1"})
        assert not control_characters(ran.out)
        assert "heron" in ran.out


def test_s18_kind_no_picture_is_found_or_shown(shell: Terminal) -> None:
    shell.ok("import", str(CASES / "s18-repeated-image" / "same-image-thrice.jsonl"))
    for line in (["iVBOR"], ["iVBOR", "--substring"], ["iVBOR", "--regex"]):
        assert json.loads(shell.ok("search", *line, "--json").out)["hits"] == []


def test_s19_heron_is_found(shell: Terminal) -> None:
    shell.ok("import", str(CASES / "s19-lone-surrogate" / "lone-surrogate.jsonl"))
    hits = json.loads(shell.ok("search", "heron", "--json").out)["hits"]
    assert [hit["entryId"] for hit in hits] == ["5a000003"]
    shell.ok("search", "cut", columns=60)
