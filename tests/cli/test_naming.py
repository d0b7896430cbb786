"""Names people give and how they reach what they name: colons, @, PI_SESSION_ID, long ids, unknown models."""

import json

import pytest

from tests.cli.launcher import Terminal
from tests.cli.test_errors import refused


def leaf(talk: Terminal) -> str:
    return str(json.loads(talk.ok("ls", "--json").out)["sessions"][0]["leaf"])


def test_a_label_or_branch_with_a_colon_names_its_entry(talk: Terminal) -> None:
    end = leaf(talk)
    talk.ok("label", "@", "todo: check")
    talk.ok("branch", "fix: lease")
    for name in ("todo: check", "fix: lease"):
        assert json.loads(talk.ok("show", name, "--json").out)["entry"]["id"] == end
        assert json.loads(talk.ok("log", "--at", name, "--json").out)["entries"][-1]["id"] == end
        assert json.loads(talk.ok("branch", f"b-{name[:3]}", "--at", name, "--json").out)["branch"]["leaf"] == end


def test_a_session_with_a_colon_in_its_name_is_reached_and_so_are_its_entries(talk: Terminal) -> None:
    end = leaf(talk)
    talk.ok("name", "bug: the lease")
    talk.ok("label", "@", "todo: check")
    talk.ok("new", cwd="/elsewhere")
    assert json.loads(talk.ok("show", "bug: the lease", "--json", cwd="/elsewhere").out)["name"] == "bug: the lease"
    for name in ("bug: the lease:@", f"bug: the lease:{end}", "bug: the lease:todo: check"):
        assert json.loads(talk.ok("show", name, "--json", cwd="/elsewhere").out)["entry"]["id"] == end
    refused(talk.run("show", "bug: the lease:nothing", cwd="/elsewhere"), 1, "nothing")
    refused(talk.run("show", "nowhere:@", cwd="/elsewhere"), 1, "nowhere:@")


def test_a_branch_comes_before_the_beginning_of_an_id(talk: Terminal) -> None:
    """The order the manual gives: exact id, branch, label, beginning of an id."""
    entries = json.loads(talk.ok("log", "--json").out)["entries"]
    first, other = str(entries[0]["id"]), str(entries[1]["id"])
    talk.ok("branch", first[:-1] + "x", "--at", other)
    talk.ok("label", other, first[:4])
    assert json.loads(talk.ok("show", first[:4], "--json").out)["entry"]["id"] == other
    assert json.loads(talk.ok("show", first, "--json").out)["entry"]["id"] == first


@pytest.mark.parametrize("text", ["@", "@-1", "@home"])
def test_a_label_or_branch_that_begins_with_an_at_sign_is_refused(text: str, talk: Terminal) -> None:
    refused(talk.run("label", "@", text), 1, text)
    refused(talk.run("branch", text), 1, text)
    assert json.loads(talk.ok("label", "--json").out)["labels"] == []


def test_whatever_is_wrong_with_pi_session_id_the_variable_is_named(talk: Terminal) -> None:
    gone = str(json.loads(talk.ok("ls", "--json").out)["sessions"][0]["id"])
    talk.ok("rm", gone)
    for text in (gone, "ab", "nothing"):
        refused(talk.run("log", env={"PI_SESSION_ID": text}), 1, "PI_SESSION_ID", text)
    assert "was removed" in talk.run("log", env={"PI_SESSION_ID": gone}).err
    talk.ok("new", "--id", "abcd-1")
    talk.ok("new", "--id", "abcd-2")
    refused(talk.run("log", env={"PI_SESSION_ID": "abcd"}), 1, "PI_SESSION_ID", "abcd-1", "abcd-2")


def test_an_entry_that_is_left_out_already_is_not_left_out_again(talk: Terminal) -> None:
    talk.ok("omit", "@-1")
    before = talk.ok("export", "--all-branches").raw
    ran = talk.ok("omit", "@-1")
    assert "Already left out" in ran.out
    assert talk.ok("export", "--all-branches").raw == before
    talk.ok("omit", "@-1", "--replace", "shorter")
    before = talk.ok("export", "--all-branches").raw
    talk.ok("omit", "@-1", "--replace", "shorter")
    assert talk.ok("export", "--all-branches").raw == before
    talk.ok("omit", "@-1", "--restore")
    talk.ok("omit", "@-1")
    assert talk.ok("export", "--all-branches").raw != before


def test_very_long_ids_do_not_widen_every_row_of_the_context(talk: Terminal) -> None:
    line = {"type": "message", "id": "i" * 400, "message": {"role": "user", "content": "long id"}}
    talk.ok("append", "--json-lines", "-", stdin=json.dumps(line).encode())
    assert max(map(len, talk.ok("context").lines)) < 120
    assert json.loads(talk.ok("context", "--json").out)["messages"][-1]["entryId"] == "i" * 400


def test_what_is_not_known_of_a_typed_session_is_left_out(talk: Terminal) -> None:
    talk.ok("new")
    talk.ok("append", "a question")
    talk.ok("append", "--role", "assistant", "a typed answer")
    out = talk.ok("show").out + talk.ok("show", "@").out
    assert "unknown/unknown" not in out
    assert "cost" not in out
    talk.ok("append", "--role", "assistant", "--model", "anthropic/claude", "another")
    assert "anthropic/claude" in talk.ok("show").out


def test_a_shell_command_kept_out_of_the_context_is_marked_and_not_counted(talk: Terminal) -> None:
    before = json.loads(talk.ok("context", "--json").out)
    message = {"role": "bashExecution", "command": "env", "output": "x" * 4000, "exitCode": 0}
    talk.ok("append", "--json-lines", "-", stdin=json.dumps({**message, "excludeFromContext": True}).encode())
    told = json.loads(talk.ok("context", "--json").out)
    assert told["tokens"] == before["tokens"]
    assert told["shares"] == before["shares"]
    assert (told["messages"][-1]["tokens"], told["messages"][-1]["sent"]) == (0, False)
    out = talk.ok("context").out
    assert "shell: (not sent) $ env" in out
    assert "1 not sent" in out
    talk.ok("append", "--json-lines", "-", stdin=json.dumps(message).encode())
    assert json.loads(talk.ok("context", "--json").out)["tokens"]["total"] > before["tokens"]["total"] + 900
