"""`run`: one prompt to its end, in scripts and in a terminal."""

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_loop.providers.errors import Failure
from tests.cli.launcher import Terminal as Shell
from tests.cli.pty_talk import LIMIT_S, PROGRAM, Person, Terminal
from tests.loop.test_tools_files import PNG


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    person = Person(tmp_path)
    yield person
    person.close()


def script(shell: Shell, *steps: object, **more: object) -> list[str]:
    path = shell.folder / "script.json"
    path.write_text(json.dumps({"steps": steps, **more}))
    return ["--script", str(path)]


def entries(shell: Shell) -> list[dict]:
    return json.loads(shell.ok("log", "--json", "--full").out)["entries"]


def messages(shell: Shell, role: str) -> list[dict]:
    return [entry["message"] for entry in entries(shell) if entry.get("message", {}).get("role") == role]


def said(shell: Shell) -> list[tuple[str, str]]:
    return [
        (entry["message"]["role"], "".join(block.get("text", "") for block in entry["message"]["content"]))
        for entry in entries(shell)
        if entry["type"] == "message" and entry["message"]["role"] in ("user", "assistant")
    ]


@pytest.fixture
def home(shell: Shell) -> Shell:
    """Return a shell in a folder of its own that exists."""
    folder = shell.folder / "work"
    folder.mkdir()
    shell.cwd = str(folder)
    return shell


def test_the_answer_is_on_stdout_and_the_talk_on_stderr(home: Shell) -> None:
    ran = home.ok("run", "Hi", *script(home, "Hello there."))
    assert ran.out == "Hello there.\n"
    assert "Stored in 00000001-" in ran.err
    assert "pi-session resume 00000001-0000-7000-8000-000000000000" in ran.err
    assert said(home) == [("user", "Hi"), ("assistant", "Hello there.")]
    assert home.ok("show").out


def test_it_begins_a_session_or_goes_on(home: Shell) -> None:
    home.ok("run", "one", *script(home, "1"))
    home.ok("run", "two", "--last", *script(home, "2"))
    home.ok("run", "three", "--session", "00000001", *script(home, "3"))
    home.ok("run", "four", *script(home, "4"), env={"PI_SESSION_ID": "00000001-0000-7000-8000-000000000000"})
    assert [text for role, text in said(home) if role == "user"] == ["one", "two", "three", "four"]
    forked = home.ok("run", "other", "--fork-from", "@-2", *script(home, "5"))
    assert "Stored in 00000002-" in forked.err
    assert [text for _, text in said(home)] == ["one", "1", "two", "2", "three", "other", "5"]
    home.ok("run", "new", *script(home, "6"))
    assert said(home) == [("user", "new"), ("assistant", "6")]


def test_nothing_is_stored_when_that_is_wanted(home: Shell) -> None:
    ran = home.ok("run", "Hi", "--no-session", *script(home, "Hello."))
    assert ran.out == "Hello.\n"
    assert "Stored" not in ran.err
    assert not (home.folder / "sessions.db").exists()


def test_the_prompt_comes_from_words_standard_input_and_files(home: Shell) -> None:
    (Path(home.cwd) / "note.txt").write_text("remember\n")
    (Path(home.cwd) / "dot.png").write_bytes(PNG)
    home.ok("run", "Look", "at", "-", "@note.txt", "@dot.png", *script(home, "ok"), stdin=b"this\n")
    message = messages(home, "user")[0]
    text, picture = message["content"]
    note, dot = f"{home.cwd}/note.txt", f"{home.cwd}/dot.png"
    assert text["text"] == f'<file name="{note}">\nremember\n\n</file>\n<file name="{dot}"></file>\nLook at this'
    assert (picture["mimeType"], base64.b64decode(picture["data"])) == ("image/png", PNG)
    home.ok("run", *script(home, "ok"), stdin=b"all of it\n")
    assert said(home)[0] == ("user", "all of it")
    ran = home.ok("run", "@here is text", *script(home, "ok"))
    assert said(home)[0] == ("user", "@here is text")
    assert 'There is no file "here is text": the words are sent as text' in ran.err


def test_a_word_with_spaces_that_names_a_file_is_that_file(home: Shell) -> None:
    folder = Path(home.cwd) / "my notes"
    folder.mkdir()
    (folder / "sp ace.txt").write_text("found")
    text = home.ok("run", "look", "@my notes/sp ace.txt", "--json", *script(home, "ok"))
    assert said(home)[0] == ("user", f'<file name="{folder}/sp ace.txt">\nfound\n</file>\nlook')
    assert text.err == ""
    for word in ("@my notes/no such.txt", "@./no such.txt", "@/no such.txt"):
        ran = home.run("run", "look", word, *script(home, "ok"))
        assert (ran.code, "no such.txt: No such file or directory" in ran.err) == (1, True), ran.err
    for word in ("@my friend, look", "@scope/pkg is broken", "@./first line\nof a text", "@ alone"):
        home.ok("run", word, *script(home, "ok"))
        assert said(home)[0] == ("user", word)


def test_what_is_no_text_is_not_sent_as_text(home: Shell) -> None:
    packed = bytes(range(256)) * 8
    (Path(home.cwd) / "packed.gz").write_bytes(packed)
    (Path(home.cwd) / "random").write_bytes(bytes(byte for byte in packed if byte)[::-1])
    for name in ("packed.gz", "random"):
        ran = home.run("run", "look", f"@{name}", *script(home, "ok"))
        assert ran.code == 1
        assert f"{home.cwd}/{name} is no text in UTF-8" in ran.err
        assert "turn it into text first" in ran.err
    ran = home.run("run", "-", *script(home, "ok"), stdin=packed)
    assert (ran.code, "Standard input is no text in UTF-8 (2,048 bytes)" in ran.err) == (1, True)
    assert not (home.folder / "sessions.db").exists()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_few_bytes_that_are_no_text_are_replaced_and_told(home: Shell, form: list[str]) -> None:
    (Path(home.cwd) / "latin.txt").write_bytes("Grüße aus Köln\n".encode("latin-1"))
    ran = home.ok("run", "look", "@latin.txt", *form, *script(home, "ok"))
    assert f"{home.cwd}/latin.txt: 3 bytes that are no UTF-8 were replaced by U+FFFD" in ran.err
    assert "Gr\ufffd\ufffde aus K\ufffdln" in said(home)[0][1]
    ran = home.ok("run", *form, *script(home, "ok"), stdin=b"caf\xe9 au lait\n")
    assert "Standard input: 1 byte that is no UTF-8 was replaced by U+FFFD" in ran.err
    assert said(home)[0] == ("user", "caf\ufffd au lait")


def test_a_picture_that_the_model_cannot_see_is_told(home: Shell) -> None:
    (Path(home.cwd) / "dot.png").write_bytes(PNG)
    blind, seeing = "deepseek/deepseek-v4-flash", "anthropic/claude-sonnet-5"
    ran = home.ok("run", "look", "@dot.png", "--model", blind, *script(home, "ok"))
    assert f"{blind} cannot see pictures: it is told only that there was one" in ran.err
    assert "cannot see" not in home.ok("run", "look", "@dot.png", "--model", seeing, *script(home, "ok")).err
    assert "cannot see" not in home.ok("run", "look", "@dot.png", *script(home, "ok")).err


def test_what_cannot_be_asked_is_wrong_usage(home: Shell) -> None:
    assert home.run("run", *script(home, "x")).code == 2
    assert home.run("run", "x", "--last", "--no-session", *script(home, "x")).code == 2
    assert home.run("run", "x", "--tools", "fly", *script(home, "x")).code == 2
    missing = home.run("run", "@nothing.txt", *script(home, "x"))
    assert (missing.code, "nothing.txt" in missing.err) == (1, True)
    assert home.run("run", "x", "--script", "nowhere.json").code == 1
    assert not (home.folder / "sessions.db").exists()


def test_json_lines_carry_deltas_and_stay_linear(home: Shell) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    ran = home.ok("run", "Hi", "--json", *script(home, words))
    events = [json.loads(line) for line in ran.lines]
    assert [events[0]["type"], events[-1]["type"]] == ["phase", "run_end"] or events[-1]["type"] == "run_end"
    deltas = [
        event["assistantMessageEvent"]["delta"]
        for event in events
        if event["type"] == "message_update" and event["assistantMessageEvent"]["type"] == "text_delta"
    ]
    assert "".join(deltas) == words
    assert len(deltas) == 300
    assert all(set(event) == {"type", "assistantMessageEvent"} for event in events if event["type"] == "message_update")
    assert not any("partial" in event.get("assistantMessageEvent", {}) for event in events)
    assert len(ran.out) < 300 * 150 + 6 * len(words)
    assert events[-1]["status"] == "done"
    assert ran.err == ""


def test_a_model_that_is_missing_is_said_and_none_is_taken_instead(home: Shell) -> None:
    ran = home.run("run", "Hi")
    assert (ran.code, "No model is named" in ran.err) == (1, True)
    ran = home.run("run", "Hi", "--model", "anthropic/claude-sonnet-5", env={"OPENAI_API_KEY": "sk-test"})
    assert ran.code == 1
    assert "anthropic/claude-sonnet-5 cannot be used: There is no API key for anthropic" in ran.err
    assert "openai/" in ran.err
    assert "sk-test" not in ran.err
    failed = json.loads(home.run("run", "Hi", "--model", "no-such-model", "--json").out)
    assert failed["error"]["code"] == "model_not_found"
    assert not (home.folder / "sessions.db").exists()


def test_a_session_keeps_its_model_and_never_gets_another_one_silently(home: Shell) -> None:
    home.ok("run", "Hi", "--model", "anthropic/claude-sonnet-5", *script(home, "Hello."))
    assert json.loads(home.ok("context", "--json").out)["model"]["modelId"] == "claude-sonnet-5"
    ran = home.run("run", "again", "--last", env={"OPENAI_API_KEY": "sk-test", "PI_SESSION_MODEL": "openai/gpt-5"})
    assert ran.code == 1
    assert "anthropic/claude-sonnet-5 cannot be used" in ran.err
    assert len(said(home)) == 2


def test_a_failed_run_exits_with_4_and_leaves_a_valid_transcript(home: Shell) -> None:
    ran = home.run("run", "Hi", *script(home, {"text": "Half an", "error": "invalid request: no"}))
    assert ran.code == 4
    assert ran.out == "Half an\n"
    assert "The text before this is the beginning of an answer that failed" in ran.err
    assert "Error: invalid request: no" in ran.err
    assert entries(home)[-1]["message"]["stopReason"] == "error"
    home.ok("run", "again", "--last", *script(home, "Fine."))
    assert said(home)[-1] == ("assistant", "Fine.")


def attempts(home: Shell, *steps: object, **more: object) -> list[str]:
    """Return a script whose failing answers are asked for again at once."""
    (home.folder / "config.toml").write_text("[retry]\nbaseDelayMs = 0\n")
    home.env["PI_SESSION_CONFIG"] = str(home.folder / "config.toml")
    return script(home, *steps, **more)


FAILING = {"text": "partial", "error": "529 overloaded"}


def test_what_was_written_of_failed_attempts_is_told_apart_on_stderr(home: Shell) -> None:
    answer = {"text": "Whole.", "calls": [{"name": "ls"}]}
    ran = home.ok("run", "Hi", *attempts(home, FAILING, answer, {"error": "529 overloaded"}, "And done.\n"))
    assert ran.out == "partial\nWhole.\nAnd done.\n"
    assert ran.err.count("is the beginning of an answer that failed") == 1
    assert ran.err.count("asking again in 0 s") == 2


def test_an_answer_that_ended_at_the_token_limit_is_told(home: Shell) -> None:
    ran = home.ok("run", "Hi", *script(home, {"text": "Half an", "stopReason": "length"}))
    assert ran.out == "Half an\n"
    assert "The answer was cut off at the token limit" in ran.err
    assert "(cut off at the token limit)" in home.ok("log").out
    assert "stopped   cut off at the token limit" in home.ok("show", "@").out
    assert "(cut off at the token limit)" in home.ok("tree").out


def test_what_happened_and_what_to_do_are_two_sentences(home: Shell) -> None:
    failed = "The stream ended before the answer was complete\nThe answer is incomplete; send it again."
    told = "The stream ended before the answer was complete. The answer is incomplete; send it again."
    ran = home.run("run", "Hi", *script(home, {"error": failed}))
    assert f"Error: {told}\n" in ran.err
    assert f"(error: {told})" in home.ok("log").out
    assert f"error: {told}" in home.ok("show", "@").out
    assert f"(error: {told})" in home.ok("tree").out


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        (("--approve", "write"), 2, "--approve write: the model does not have it", "--tools read,grep,find,ls,write"),
        (("--approve", "write,bash", "--tools", "none"), 2, "bash,write: the model does not have them", "--tools all"),
        (("--allow", "/tmp:/no/such/place"), 1, "There is no folder /no/such/place", "--allow"),
        (("--recover", "continue"), 2, "--recover is for a session that is there already", "--last"),
        (("--recover", "close", "--no-session"), 2, "--no-session", "--help"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    home: Shell, words: tuple[str, ...], code: int, error: str, hint: str
) -> None:
    ran = home.run("run", "Hi", *words, *script(home, "x"))
    told, advice = ran.err.splitlines()
    assert (ran.code, told.startswith("Error: ")) == (code, True)
    assert error in told
    assert hint in advice
    assert not (home.folder / "sessions.db").exists()


def test_an_overflow_with_nothing_to_compact_names_what_else_helps(home: Shell) -> None:
    failed = Failure("overflow", "prompt is too long", status=400).text
    ran = home.run("run", "Hi", *script(home, {"error": failed}))
    assert ran.code == 4
    assert "Not compacted: There is nothing to compact" in ran.err
    assert "Error: prompt is too long (HTTP 400). The conversation is longer than the model can take:" in ran.err
    assert "shorten the last message" in ran.err


def test_reading_tools_work_and_others_are_not_offered(home: Shell) -> None:
    (Path(home.cwd) / "a.txt").write_text("alpha\n")
    calls = [{"name": "read", "arguments": {"path": "a.txt"}}, {"name": "bash", "arguments": {"command": "touch x"}}]
    ran = home.ok("run", "Look", *script(home, {"calls": calls}, "Done."))
    results = messages(home, "toolResult")
    assert [(one["toolName"], one["isError"]) for one in results] == [("read", False), ("bash", True)]
    assert results[1]["content"][0]["text"] == "Tool bash not found"
    assert '> read(path="a.txt")' in ran.err
    assert "failed: Tool bash not found" in ran.err
    assert not (Path(home.cwd) / "x").exists()


def test_a_call_that_nobody_can_approve_gets_an_error_and_does_not_hang(home: Shell) -> None:
    calls = [
        {"name": "bash", "arguments": {"command": "touch refused"}},
        {"name": "write", "arguments": {"path": "written", "content": "x"}},
    ]
    home.ok("run", "Go", "--tools", "all", "--approve", "write", *script(home, {"calls": calls}, "Done."))
    bash, write = messages(home, "toolResult")
    assert bash["isError"]
    assert "nobody is here to approve it" in bash["content"][0]["text"]
    assert write["details"] == {"approvedBy": "settings"}
    assert (Path(home.cwd) / "written").read_text() == "x"
    assert not (Path(home.cwd) / "refused").exists()


def test_tools_work_in_the_sessions_folder(home: Shell) -> None:
    other = home.folder / "other"
    other.mkdir()
    (other / "mark.txt").write_text("")
    home.ok("new", "--cwd", str(other))
    home.ok("run", "ls", "--last", *script(home, {"calls": [{"name": "ls"}]}, "ok"))
    results = messages(home, "toolResult")
    assert results[0]["content"][0]["text"] == "mark.txt"


def test_a_folder_that_is_gone_is_said_and_the_current_one_used(home: Shell) -> None:
    home.ok("new", "--cwd", "/gone/away")
    ran = home.ok("run", "pwd", "--last", *script(home, "ok"))
    assert f"The session's folder /gone/away is gone; working in {home.cwd} (--cwd DIR names another one)" in ran.err
    assert json.loads(home.ok("show", "--json").out)["cwd"] == "/gone/away"
    named = home.ok("run", "pwd", "--last", "--cwd", str(home.folder), *script(home, "ok"))
    assert "gone" not in named.err
    assert home.run("run", "x", "--last", "--cwd", "/gone/away", *script(home, "ok")).code == 1


def test_instructions_of_the_project_reach_the_model_once(home: Shell) -> None:
    (home.folder / "AGENTS.md").write_text("Always rhyme.")
    (Path(home.cwd) / "CLAUDE.md").write_text("Use tabs.")
    home.ok("run", "Hi", *script(home, "one"))
    home.ok("run", "Hi", "--last", *script(home, "two"))
    prompts = [message["sections"]["prompt"] for message in messages(home, "system")]
    assert len(prompts) == 1
    assert prompts[0].index("Always rhyme.") < prompts[0].index("Use tabs.")
    home.ok("run", "Hi", "--last", "--system", "You are a poet.", *script(home, "three"))
    body = json.loads(home.ok("context", "--request", "chat").out)
    assert body["messages"][0]["content"].startswith("You are a poet.")
    assert "Always rhyme." in body["messages"][0]["content"]


def test_undo_takes_a_whole_run_back(home: Shell) -> None:
    home.ok("run", "one", *script(home, "1"))
    home.ok("run", "two", "--last", *script(home, {"calls": [{"name": "ls"}]}, "2"))
    undone = home.ok("undo")
    assert "Files that the run changed are not restored" in undone.err
    assert said(home) == [("user", "one"), ("assistant", "1")]


def test_content_does_not_reach_a_terminal_raw(home: Shell) -> None:
    nasty = "before \x1b[2J\x07 after \u202e end\r\nnext"
    assert home.ok("run", "x", *script(home, {"text": nasty, "chunk": 1}), columns=80).raw == (
        b"before \\x1b[2J\\x07 after \\u202e end\nnext\n"
    )
    piped = home.ok("run", "x", *script(home, {"text": nasty, "chunk": 3})).raw.decode()
    assert piped == nasty + "\n"


def test_ctrl_c_ends_the_run_with_130_and_keeps_what_was_said(person: Person) -> None:
    option = person.script({"text": "one two three", "stall": True, "after": 3})
    with Terminal([*PROGRAM_RUN, "Hi", *option], person.work, person.env) as terminal:
        terminal.sees("one two three")
        terminal.presses("\x03")
        assert terminal.ends() == 130
    assert person.messages()[-1]["stopReason"] == "aborted"
    assert person.spoken()[-1] == ("assistant", "one two three")
    assert person.run("run", "go on", "--last", *person.script("Yes.")).returncode == 0


def test_two_runs_at_once_go_on_on_branches_of_their_own(person: Person) -> None:
    person.run("run", "zero", *person.script("0"))
    slow = person.start("run", "first", "--last", *person.script({"text": "1", "calls": [WAIT]}, "done", pace_ms=1),
                        "--tools", "all", "--approve", "all")  # fmt: skip
    person.until((person.work / "ready").exists)
    quick_script = person.script_path.with_name("quick.json")
    quick_script.write_text('["2"]')
    quick = person.run("run", "second", "--last", "--script", str(quick_script))
    (person.work / "go").touch()
    _, err = slow.communicate(timeout=LIMIT_S)
    assert slow.returncode == 0, err
    assert quick.returncode == 0, quick.stderr
    assert quick.stderr.count("main is being written to by process") == 1
    assert "on main-2, beside main\n" in quick.stderr
    command = next(line for line in quick.stderr.splitlines() if "--branch" in line).partition("pi-session ")[2].split()
    assert command[0] == "resume"
    assert command[-2:] == ["--branch", "main-2"]
    person.run("switch", "main-2")
    assert [text for _, text in person.spoken()] == ["zero", "0", "second", "2"]
    person.run("switch", "main")
    assert [text for _, text in person.spoken()] == ["zero", "0", "first", "1", "done"]


@pytest.mark.parametrize("action", ["continue", "close"])
def test_a_killed_run_is_told_and_dealt_with(person: Person, action: str) -> None:
    calls = [{"name": "bash", "arguments": {"command": "touch ready; echo x >> ran; sleep 60"}}]
    process = person.start(
        "run", "work", *person.script({"calls": calls}, "never"), "--tools", "all", "--approve", "all"
    )
    person.until((person.work / "ready").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    refused = person.run("run", "next", "--last", *person.script("x"))
    assert refused.returncode == 1
    told = 'The last run on main (“work”) was cut off; may have run: bash(command="touch ready; echo x'
    assert told in refused.stderr
    # Closing asks no model.
    script = person.script("Recovered.") if action == "continue" else []
    ran = person.run("run", "--last", "--recover", action, *script, "--tools", "all")
    assert ran.returncode == 0, ran.stderr
    assert "may have run: bash" in ran.stderr
    assert (person.work / "ran").read_text() == "x\n"
    results = [message for message in person.messages() if message["role"] == "toolResult"]
    assert [one["isError"] for one in results] == [True]
    assert (person.spoken()[-1] == ("assistant", "Recovered.")) == (action == "continue")
    assert person.run("run", "next", "--last", *person.script("Fine.")).returncode == 0


def test_a_reader_that_leaves_ends_the_run_quietly(person: Person) -> None:
    option = person.script({"text": "word " * 20000}, pace_ms=0.01)
    command = f"{' '.join(PROGRAM_RUN)} Hi {' '.join(option)} | head -c 5"
    done = subprocess.run(["sh", "-c", command], cwd=person.work, env=person.env, capture_output=True, text=True)
    assert done.stdout == "word "
    assert "Traceback" not in done.stderr
    person.until_idle()
    assert person.messages()[-1]["stopReason"] == "aborted"


PROGRAM_RUN = [*PROGRAM, "run"]
WAIT = {"name": "bash", "arguments": {"command": "touch ready; while [ ! -e go ]; do sleep 0.02; done"}}
