"""Wrong input: one `Error:` line, a `Hint:` line, the right exit code, no traceback, nothing changed."""

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pi_session_cli.catalog import NAMES
from tests.cli.launcher import Ran, Terminal


def refused(ran: Ran, code: int, *words: str) -> Ran:
    """Check that a command was refused as it should be."""
    lines = ran.err.splitlines()
    assert ran.code == code, ran
    assert lines[0].startswith("Error: "), ran
    assert sum(line.startswith("Error: ") for line in lines) == 1
    assert sum(line.startswith("Hint: ") for line in lines) == 1, ran
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err
    return ran


def digest(folder: Path) -> str:
    """Return a digest of every session file and store below a folder, as they stand after a checkpoint."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.db")))).hexdigest()


def test_no_such_session(talk: Terminal) -> None:
    refused(talk.run("log", "nosuch"), 1, "nosuch")


def test_no_such_entry(talk: Terminal) -> None:
    refused(talk.run("rewind", "nosuch"), 1, "nosuch")


@pytest.mark.parametrize("text", ["", " ", "\t"])
@pytest.mark.parametrize("command", [["log"], ["fork"], ["export"], ["rm"], ["show"], ["show", "-s"]])
def test_an_empty_name_is_refused(command: list[str], text: str, talk: Terminal) -> None:
    refused(talk.run(*command, text), 1, "empty")


def test_an_empty_entry_is_refused(talk: Terminal) -> None:
    refused(talk.run("rewind", ""), 1, "empty")
    refused(talk.run("fork", "--at", " "), 1, "empty")


def test_an_unknown_pi_session_id_is_never_passed_over(talk: Terminal) -> None:
    refused(talk.run("log", env={"PI_SESSION_ID": "gone"}), 1, "PI_SESSION_ID")
    assert talk.ok("log", env={"PI_SESSION_ID": ""}).lines


def test_reading_commands_never_make_a_store(shell: Terminal) -> None:
    lines = {"show": ["x"], "rewind": ["@"], "switch": ["b"], "name": ["x"], "rm": ["x"], "label": ["@", "x"]}
    lines |= {"omit": ["@"], "append": ["text"], "import": ["nothing-there"], "branch": ["b"]}
    lines |= {"merge": ["b"], "summarize": ["@-2..@"]}
    lines |= {"search": ["x"], "diff": ["x"], "scrub": ["a secret", "--yes"]}
    for name in NAMES:
        if name not in ("new", "run", "resume", "browse", "demo", "help", "config", "models"):
            ran = shell.run(name, *lines.get(name, []))
            assert ran.code in (1, 3), (name, ran)
            assert not list(shell.folder.iterdir()), name


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("{", "is no script: it is not JSON: "),
        ('"hello"', "is no script: it is neither a list of steps nor an object with steps"),
        ('{"text": "x"}', "is no script: steps is missing"),
        ('["a", 5]', "step 2: it is neither a text nor an object nor a list of events"),
        ('["a", {"txt": "x"}]', "step 2: txt is not known; known are text, thinking, calls, "),
        ('[{"calls": [{"name": "ls"}, {"nam": "ls"}]}]', "step 1: calls 2, name is missing"),
        ('[{"calls": [{"name": "ls", "id": "a", "x": 1}]}]', "calls 1, x is not known; known are name, arguments, id"),
        ('["a", {"text": 5}]', "step 2: text is no string"),
        ('[{"stopReason": "end"}]', "step 1: stopReason: input should be 'stop'"),
        ('[["x"]]', "step 1: event 1 is no object"),
        ("[1, 2, 3, 4, 5]", "step 3: it is neither a text nor an object nor a list of events; and 2 more"),
    ],
)
def test_a_script_that_is_none_is_told_by_its_step(shell: Terminal, script: str, problem: str) -> None:
    path = shell.folder / "script.json"
    path.write_text(script)
    ran = refused(shell.run("run", "x", "--script", str(path), cwd=str(shell.folder)), 1, problem)
    assert "a script is a JSON list of steps" in ran.err
    assert "validation error" not in ran.err


def test_ls_without_any_store_says_how_to_begin(tmp_path: Path) -> None:
    shell = Terminal(tmp_path, env={"PI_SESSION_DB": ""})
    ran = shell.ok("ls")
    assert ran.out == ""
    assert "pi-session import" in ran.err
    assert json.loads(shell.ok("ls", "--json").out)["sessions"] == []
    assert not list(tmp_path.iterdir())


def test_a_named_store_that_is_not_there(shell: Terminal) -> None:
    refused(shell.run("ls", "--db", str(shell.folder / "typo.db")), 3, "typo.db")


def test_a_directory_in_place_of_a_store(shell: Terminal) -> None:
    refused(shell.run("ls", "--db", str(shell.folder)), 3, "directory")
    refused(shell.run("new", "--db", str(shell.folder)), 3, "directory")


def test_a_file_that_is_no_database(shell: Terminal) -> None:
    path = shell.folder / "notes.txt"
    path.write_text("these are my notes, not a database at all\n" * 50)
    before = path.read_bytes()
    for line in (["ls"], ["new"], ["log"], ["append", "x"]):
        refused(shell.run(*line, "--db", str(path)), 3, "notes.txt")
    assert path.read_bytes() == before


def test_a_database_of_another_program(shell: Terminal) -> None:
    path = shell.folder / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("create table t(x)")
    other.close()
    before = path.read_bytes()
    refused(shell.run("new", "--db", str(path)), 3, "another program")
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(talk: Terminal) -> None:
    path = Path(talk.env["PI_SESSION_DB"])
    store = sqlite3.connect(path)
    store.execute("pragma user_version = 999")
    store.close()
    for line in (["ls"], ["append", "x"], ["log"]):
        refused(talk.run(*line), 3, "newer pi-session", "999")


@pytest.mark.parametrize("column", ["entries.payload", "entries.id", "sessions.name", "labels.text"])
def test_texts_that_are_not_utf_8_are_damage(column: str, talk: Terminal) -> None:
    talk.ok("name", "lease bug")
    talk.ok("label", "@", "here")
    table, name = column.split(".")
    with sqlite3.connect(talk.env["PI_SESSION_DB"]) as store:
        store.execute(f"update {table} set {name} = cast(x'61ff' as text)")
    store.close()
    for line in (["ls"], ["log"], ["tree"], ["show", "@"], ["export"], ["search", "lease"], ["rewind", "@-1"]):
        ran = talk.run(*line)
        if ran.code:
            refused(ran, 3, "damaged")
    refused(talk.run("tree"), 3, "damaged")


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes_over_a_store_give_no_traceback(seed: int, talk: Terminal) -> None:
    path = Path(talk.env["PI_SESSION_DB"])
    with sqlite3.connect(path) as store:
        store.execute("pragma wal_checkpoint(truncate)")
    store.close()
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    start = chance.randrange(100, len(content) - 600)
    for _ in range(300):
        content[start + chance.randrange(600)] = chance.randrange(256)
    path.write_bytes(content)
    for line in (["ls"], ["log"], ["tree"], ["ops"], ["append", "x"]):
        ran = talk.run(*line)
        if ran.code:
            refused(ran, ran.code)
            assert ran.code in (1, 3)


def test_a_locked_store_can_be_read_and_says_who_is_in_the_way(talk: Terminal) -> None:
    holder = sqlite3.connect(talk.env["PI_SESSION_DB"], isolation_level=None)
    holder.execute("begin immediate")
    try:
        refused(talk.run("append", "late", env={"PI_SESSION_BUSY_TIMEOUT_S": "0"}), 3, "holds the store")
        refused(talk.run("rewind", "@-1", env={"PI_SESSION_BUSY_TIMEOUT_S": "0"}), 3, "nothing was changed")
        assert len(talk.ok("ls").lines) == 1
    finally:
        holder.execute("rollback")
        holder.close()
    assert "late" not in talk.ok("log").out


def test_a_new_store_in_a_place_that_cannot_be_written(shell: Terminal) -> None:
    refused(shell.run("new", "--db", "/proc/nowhere/s.db"), 3, "cannot be made")


@pytest.mark.parametrize("line", [["append", "x"], ["rewind", "@-1"], ["fork"], ["undo"], ["name", "n"]])
def test_a_read_only_file_is_read_but_not_written(line: list[str], talk: Terminal) -> None:
    """Through SQLite itself, since the tests may run as a user whom permissions do not stop."""
    path = Path(talk.env["PI_SESSION_DB"])
    store = sqlite3.connect(path)
    store.execute("pragma wal_checkpoint(truncate)")
    store.close()
    before = digest(talk.folder)
    script = (
        "import sqlite3, sys\n"
        "real = sqlite3.connect\n"
        "sqlite3.connect = lambda name, **more: real(name.replace('mode=rw', 'mode=ro'), **more)\n"
        "from tests.cli.launcher import main\n"
        "sys.exit(main(sys.argv[1:], cwd='/proj/demo'))\n"
    )
    run = subprocess.run([sys.executable, "-c", script, *line], env={**os.environ, **talk.env}, capture_output=True)
    refused(Ran(run.returncode, run.stdout, run.stderr.decode()), 3, "cannot be written")
    assert digest(talk.folder) == before


def test_import_refuses_what_is_no_session_and_leaves_it_alone(shell: Terminal) -> None:
    empty, log, folder = shell.folder / "empty.jsonl", shell.folder / "events.log", shell.folder / "folder"
    empty.write_bytes(b"")
    log.write_text("2026-03-02 started\n2026-03-02 stopped\n")
    folder.mkdir()
    before = log.read_bytes()
    for path in (empty, log, shell.folder / "missing.jsonl"):
        ran = shell.run("import", str(path))
        assert ran.code == 1
        assert path.name in ran.out
        assert ran.lines[0].startswith("refused")
        assert json.loads(shell.run("import", str(path), "--json").out)["totals"]["refused"] == 1
    assert log.read_bytes() == before
    assert empty.read_bytes() == b""
    assert not Path(shell.env["PI_SESSION_DB"]).exists()


def test_export_does_not_replace_a_file_unless_forced(talk: Terminal) -> None:
    target = talk.folder / "talk.jsonl"
    target.write_text("mine")
    refused(talk.run("export", "-o", str(target)), 1, "--force")
    assert target.read_text() == "mine"
    talk.ok("export", "-o", str(target), "--force")
    assert target.read_text().count("\n") >= 5
    assert sorted(path.name for path in talk.folder.glob("talk*")) == ["talk.jsonl"]


def test_export_to_impossible_places(talk: Terminal) -> None:
    refused(talk.run("export", "-o", str(talk.folder), "--format", "pi"), 1, "directory")
    refused(talk.run("export", "-o", str(talk.folder / "none" / "talk.jsonl")), 1, "Cannot write")
    refused(talk.run("export", "-o", str(talk.folder / "none" / "talk.html")), 1, "Cannot write")
    refused(talk.run("export", "--format", "docx", "-o", "talk.docx"), 2, "--format")


def test_export_of_nothing(shell: Terminal) -> None:
    shell.ok("new")
    refused(shell.run("export"), 1, "--all-branches")


def test_forking_before_an_answer_names_messages_that_would_do(talk: Terminal) -> None:
    ran = refused(talk.run("fork", "--before", "@"), 1, "--at")
    users = [entry["id"] for entry in json.loads(talk.ok("log", "--json").out)["entries"][0::2]]
    assert all(user in ran.err for user in users)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["rewind"], 2),
        (["rewind", "@", "--start"], 2),
        (["fork", "--at", "@", "--before", "@"], 2),
        (["append"], 2),
        (["append", "x", "--json-lines", "-"], 2),
        (["label", "@"], 2),
        (["label", "@", " "], 2),
        (["label", "--clear"], 2),
        (["name", "x", "--clear"], 2),
        (["branch", "--delete"], 2),
        (["branch", "main", "--delete", "--rename", "x"], 2),
        (["branch", "b", "--delete", "--at", "@"], 2),
        (["omit", "@", "--replace", "x", "--restore"], 2),
        (["undo", "--op", "1", "--steps", "2"], 2),
        (["tree", "--user", "--all"], 2),
        (["ls", "--since", "soon"], 2),
        (["ops", "first"], 2),
        (["config", "nothing"], 2),
        (["help", "nothing"], 2),
        (["nothing"], 2),
        (["ls", "--bogus"], 2),
        (["switch", "nowhere"], 1),
        (["branch", "main"], 1),
        (["branch", "main", "--delete"], 1),
        (["undo", "--op", "999"], 1),
        (["redo"], 1),
        (["ops", "999"], 1),
        (["rewind", "@-99"], 1),
        (["rewind", "@x"], 1),
        (["omit", "@", "--restore"], 1),
        (["append", "--json-lines", "missing.jsonl"], 1),
        (["append", "x", "--expect", "e0000001"], 1),
        (["append", "x", "--branch", "nowhere"], 1),
        (["new", "--id", "-bad-"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_refused_commands_change_nothing(line: list[str], code: int, talk: Terminal) -> None:
    before = talk.ok("ops", "--all", "--json").out, talk.ok("export", "--all-branches").raw
    refused(talk.run(*line), code)
    assert (talk.ok("ops", "--all", "--json").out, talk.ok("export", "--all-branches").raw) == before


def test_with_json_a_failure_is_one_object_on_stdout(talk: Terminal) -> None:
    ran = refused(talk.run("rewind", "nosuch", "--json"), 1)
    assert json.loads(ran.out)["error"]["code"] == "entry_not_found"
    assert json.loads(ran.out)["error"]["hint"]
    usage = refused(talk.run("ls", "--json", "--bogus"), 2)
    assert json.loads(usage.out)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"role":"user","content":"ok"}\n{"role":"user"}\n', 2),
        (b'\n{"role":"user","content":"ok"}\nnot json\n', 3),
        (b"[1]\n", 1),
        (b'{"type":"message"}\n', 1),
        (b'{"no":"type"}\n', 1),
        (b'{"role":"user","content":"\xff"}\n', 1),
        (b'{"role":"user","content":"ok","n":1e400}\n', 1),
        (b'{"role":"user","content":"ok","n":NaN}\n', 1),
        (b'{"role":"user","content":"ok"}\n' + b"[" * 100_000 + b"\n", 2),
        (b'{"role":"user","content":"ok","n":' + b"[" * 950 + b"]" * 950 + b"}\n", 1),
    ],
)
def test_a_bad_json_line_is_named_and_nothing_is_stored(content: bytes, line: int, talk: Terminal) -> None:
    before = talk.ok("log", "--json").out
    refused(talk.run("append", "--json-lines", "-", stdin=content), 1, f"Line {line}:")
    assert talk.ok("log", "--json").out == before


@pytest.mark.parametrize(
    "line", [["append", "-"], ["append", ""], ["append", "text", " "], ["append", "--role", "system", ""]]
)
def test_an_empty_message_is_refused(line: list[str], talk: Terminal) -> None:
    before = talk.ok("log", "--json").out
    refused(talk.run(*line, stdin=b"\n"), 1, "empty")
    assert talk.ok("log", "--json").out == before


def test_halves_of_surrogate_pairs_are_replaced_and_counted(talk: Terminal) -> None:
    line = b'{"role":"user","content":"half \\ud83d and \\udc00, whole \\ud83d\\ude00"}'
    ran = talk.ok("append", "--json-lines", "-", stdin=line)
    assert ran.err.splitlines()[1].startswith("2 halves of surrogate pairs")
    told = json.loads(talk.ok("log", "--json", "--last", "1").out)["entries"][0]["message"]["content"]
    assert told == "half \ufffd and \ufffd, whole \U0001f600"


def test_deeply_nested_values_are_stored_and_exported(talk: Terminal) -> None:
    """As deep as they are accepted, everything that reads them can read them."""
    line = b'{"role":"user","content":"deep","n":' + b"[" * 890 + b"]" * 890 + b"}"
    talk.ok("append", "--json-lines", "-", stdin=line)
    for words in (
        ["export"],
        ["export", "--format", "html"],
        ["export", "--format", "markdown"],
        ["log"],
        ["tree"],
        ["context"],
    ):
        talk.ok(*words)


@pytest.mark.parametrize("kept", ["nowhere0", 5])
def test_a_compaction_that_keeps_from_nowhere_is_refused(kept: object, talk: Terminal) -> None:
    before = talk.ok("context", "--json").out
    line = json.dumps({"type": "compaction", "summary": "S", "firstKeptEntryId": kept, "tokensBefore": 77})
    refused(talk.run("append", "--json-lines", "-", stdin=line.encode()), 1)
    assert talk.ok("context", "--json").out == before
    first = json.loads(talk.ok("log", "--json").out)["entries"][1]["id"]
    talk.ok("append", "--json-lines", "-", stdin=line.replace(json.dumps(kept), json.dumps(first)).encode())
    assert len(json.loads(talk.ok("context", "--json").out)["messages"]) == 4


def test_settings_that_make_no_sense_are_named(talk: Terminal) -> None:
    refused(talk.run("ls", env={"PI_SESSION_LIMIT": "many"}), 1, "PI_SESSION_LIMIT")
    for text in ("limit = 'x'\n", "colour = 'red'\n", "limit = [\n", "color = 'pink'\n"):
        path = talk.folder / "config.toml"
        path.write_text(text)
        refused(talk.run("ls", env={"PI_SESSION_CONFIG": str(path)}), 1, "config.toml")


def program(talk: Terminal, shell_line: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which `pi-session` is the program itself."""
    text = shell_line.replace("pi-session", f"{sys.executable} -m pi_session_cli")
    env = {**os.environ, **talk.env}
    return subprocess.run(["bash", "-c", f"set -o pipefail; {text}"], env=env, cwd=talk.folder, capture_output=True)


def test_a_reader_that_goes_away_is_no_failure(talk: Terminal) -> None:
    sid = json.loads(talk.ok("ls", "--json").out)["sessions"][0]["id"]
    talk.ok("append", *(f"line {number} " + "x" * 5000 for number in range(100)))
    run = program(talk, f"pi-session log {sid} --full | head -1")
    assert run.returncode == 0
    assert run.stderr == b""


def test_a_full_disk_under_the_answer_is_said(talk: Terminal) -> None:
    run = program(talk, "pi-session ls > /dev/full")
    assert run.returncode == 1
    assert run.stderr.startswith(b"Error: Cannot write the answer")
    assert b"Hint: " in run.stderr
    assert b"Traceback" not in run.stderr
    assert b"Exception ignored" not in run.stderr


def test_an_interrupt_is_130_and_no_traceback(talk: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from pi_session_cli.commands import ls

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ls, "run", interrupted)
    ran = talk.run("ls")
    assert ran.code == 130
    assert "Traceback" not in ran.err


def test_ctrl_c_while_waiting_for_input(talk: Terminal) -> None:
    command = [sys.executable, "-m", "pi_session_cli", "append", "-", "-s", "lease bug"]
    env = {**os.environ, **talk.env}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdin is not None
        # The program is ready for the signal once it has read what there is; it then waits for more.
        run.stdin.write(b"half a mess")
        run.stdin.flush()
        wait_until_reading(run.pid)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
    assert run.returncode == 130
    assert out == b""
    assert err.decode().startswith("Interrupted.")
    assert b"Traceback" not in err
    assert len(json.loads(talk.ok("log", "--json").out)["entries"]) == 4


def wait_until_reading(pid: int) -> None:
    """Return when a process has emptied its standard input and sleeps in a read of it."""
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        loaded = Path(f"/proc/{pid}/maps").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "S" and "_json" in loaded:
            return
    raise AssertionError("the process never waited for input")
