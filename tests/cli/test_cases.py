"""People's bugs as they show in a terminal: the cases about text, ids, folders, times and long chains."""

import json
import re
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from tests.cli.launcher import NOW_MS, Terminal, ticking

DAY_MS = 86_400_000
CASES = Path(__file__).parents[2] / "fixtures" / "cases"
READING = [
    ["ls"],
    ["tree", "--all"],
    ["log", "--full"],
    ["show"],
    ["show", "@"],
    ["context"],
    ["ops"],
    ["label"],
    ["branch"],
]


def rows(shell: Terminal, *more: str, **context: str) -> list[dict[str, object]]:
    """Return the sessions that ls lists."""
    found: list[dict[str, object]] = json.loads(shell.ok("ls", "--json", "-n", "50", *more, **context).out)["sessions"]
    return found


def take_in(shell: Terminal, *names: str) -> None:
    """Import files of the cases, one by one."""
    for name in names:
        shell.ok("import", str(CASES / name))


def control_characters(text: str) -> set[str]:
    """Return control characters, direction marks and surrogates in a text, line feeds apart."""
    return {
        char for char in text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in "\u202e\u2066\ufeff"
    } - {"\n"}


def test_s01_a_header_alone_is_a_session_without_messages(shell: Terminal) -> None:
    take_in(shell, "s01-not-a-session/header-only.jsonl")
    (session,) = rows(shell)
    assert session["messageCount"] == 0
    assert "(no messages)" in shell.ok("ls").out
    for name in ("empty.jsonl", "events.log"):
        path = CASES / "s01-not-a-session" / name
        before = path.read_bytes()
        ran = shell.run("import", str(path))
        assert ran.code == 1
        assert ran.lines[0].startswith("refused")
        assert name in ran.lines[0]
        assert path.read_bytes() == before


def test_s18_no_picture_is_ever_printed_and_each_has_a_fixed_cost(shell: Terminal) -> None:
    file = CASES / "s18-repeated-image" / "same-image-thrice.jsonl"
    take_in(shell, "s18-repeated-image/same-image-thrice.jsonl")
    images = re.findall(rb'"data":"([^"]+)"', file.read_bytes())
    assert len(images) == 3
    for line in READING:
        out = shell.ok(*line).raw
        assert images[0][:24] not in out, line
    assert "image" in shell.ok("log").out
    told = json.loads(shell.ok("context", "--json").out)["messages"]
    costs = [each["tokens"] for each in told if b'"image"' in json.dumps(each["message"]).encode()]
    assert costs
    assert all(0 < cost < len(images[0]) // 4 for cost in costs)
    assert re.findall(rb'"data":"([^"]+)"', shell.ok("export").raw) == images


def test_s19_lone_surrogates_break_nothing(shell: Terminal) -> None:
    take_in(shell, "s19-lone-surrogate/lone-surrogate.jsonl")
    for line in [*READING, ["export"], ["ls", "--json"], ["log", "--json"], ["tree", "--json"]]:
        assert "\\ud83d\\u2026" not in shell.ok(*line).raw.decode("utf-8")
    assert "Valid pair \N{ROCKET} and a cut one \N{REPLACEMENT CHARACTER}… end" in shell.ok("log").out
    assert "cut emoji title \N{REPLACEMENT CHARACTER}" in shell.ok("ls").out


def test_s20_line_separators_are_ordinary_characters(shell: Terminal) -> None:
    take_in(shell, "s20-line-separators/line-separators.jsonl")
    told = json.loads(shell.ok("log", "--json").out)["entries"]
    texts = [entry["message"]["content"][0]["text"] for entry in told]
    assert texts[0] == "A line\u2028separator, a paragraph\u2029separator, a next\u0085line."
    assert texts[1] == "Form\ffeed, vertical\u000btab and file\u001cseparator arrive escaped."
    assert len(texts) == 3
    exported = shell.folder / "again.jsonl"
    exported.write_bytes(shell.ok("export").raw)
    other = {"PI_SESSION_DB": str(shell.folder / "other.db")}
    shell.ok("import", str(exported), env=other)
    again = json.loads(shell.ok("log", "--json", env=other).out)["entries"]
    assert [entry["message"] for entry in again] == [entry["message"] for entry in told]


@pytest.mark.parametrize("columns", [None, 60, 120])
def test_s21_control_characters_never_reach_the_terminal(columns: int | None, shell: Terminal) -> None:
    files = sorted((CASES / "s21-control-characters").glob("*.jsonl"))
    take_in(shell, *(f"s21-control-characters/{file.name}" for file in files))
    listed = shell.ok("ls", columns=columns, env={"NO_COLOR": "1"})
    assert len(listed.lines) - (columns is not None) == len(files), "one row per session"
    assert not control_characters(listed.out)
    names = set()
    for session in rows(shell):
        names.add(session["name"])
        for line in (["tree", "--all"], ["log", "--full"], ["show"], ["context"], ["export", "--all-branches"]):
            ran = shell.ok(*line, str(session["id"]), columns=columns, env={"NO_COLOR": "1"})
            if line[0] != "export":
                assert not control_characters(ran.out), (session["id"], line)
            assert not control_characters(ran.err)
        ran = shell.ok("show", "@", "-s", str(session["id"]), columns=columns, env={"NO_COLOR": "1"})
        assert not control_characters(ran.out)
    assert "\x1b[2J\x1b[Hcleared" in names, "JSON keeps the name as it was"


@pytest.mark.parametrize("text", ["\x1b[31mred", "\u202etxt.exe", "a\rb", "\x9b2J", "tab\there", "\x7f\x00bell\x07"])
def test_s21_kind_names_labels_branches_and_errors_are_safe(text: str, talk: Terminal) -> None:
    """Whatever a person or a script can put in, no command gives it back raw to a terminal."""
    talk.run("name", text)
    talk.run("label", "@", text)
    talk.run("branch", f"b{text}")
    talk.run("append", text, "--role", "assistant", "--model", f"{text}/{text}")
    for line in [
        *READING,
        ["log", text],
        ["rewind", text],
        ["switch", text],
        ["ls", "--since", text],
        [text],
        ["undo"],
    ]:
        ran = talk.run(*line, columns=80, env={"NO_COLOR": "1"})
        assert not control_characters(ran.out), line
        assert not control_characters(ran.err), line


def test_s22_twenty_thousand_entries_in_one_chain(shell: Terminal) -> None:
    import subprocess

    maker = CASES / "s22-deep-chain" / "make_deep_chain.py"
    deep = shell.folder / "deep.jsonl"
    deep.write_bytes(subprocess.run([sys.executable, str(maker), "20000"], capture_output=True, check=True).stdout)
    began = time.monotonic()
    shell.ok("import", str(deep))
    assert len(shell.ok("tree").lines) == 20002
    assert len(json.loads(shell.ok("context", "--json").out)["messages"]) == 20000
    shell.ok("show")
    shell.ok("log", "--last", "3")
    shell.ok("fork")
    assert shell.ok("export").raw.count(b"\n") >= 20001
    shell.ok("rewind", "@-2")
    shell.ok("undo")
    assert time.monotonic() - began < 30


def test_s23_folders_are_told_apart_by_their_whole_path(shell: Terminal) -> None:
    files = sorted((CASES / "s23-colliding-folders").glob("*.jsonl"))
    take_in(shell, *(f"s23-colliding-folders/{file.name}" for file in files))
    folders = {file.stem: json.loads(file.read_text(encoding="utf-8").split("\n")[0])["cwd"] for file in files}
    assert len(set(folders.values())) == 6
    for stem, folder in folders.items():
        (session,) = rows(shell, "--here", cwd=folder)
        assert session["cwd"] == folder
        assert f"I belong to folder {stem}." in shell.ok("log", cwd=folder).out


def test_s24_a_deleted_folder_stops_no_reading(shell: Terminal) -> None:
    take_in(shell, "s24-deleted-folder/gone-cwd.jsonl")
    for line in [*READING, ["export"]]:
        shell.ok(*line)
    assert "not there any more" in shell.ok("show").out
    assert json.loads(shell.ok("show", "--json").out)["cwd"] == "/home/dev/worktrees/removed-branch"


def test_s24_kind_the_callers_own_folder_may_be_gone(talk: Terminal, tmp_path: Path) -> None:
    import os
    import subprocess

    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m pi_session_cli ls"
    env = {**os.environ, **talk.env}
    run = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    assert (run.returncode, len(run.stdout.splitlines())) == (0, 1), run.stderr


def test_s27_the_list_is_ordered_by_the_instant_of_the_last_message(
    shell: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.clock = ticking(NOW_MS + 8 * DAY_MS)
    names = ["c-future-clock", "b-newer", "d-odd-times", "a-older"]
    take_in(shell, *(f"s27-listing-order/{name}.jsonl" for name in names))
    first = [str(row["firstMessage"])[:5] for row in rows(shell)]
    assert first == ["Writt", "Newer", "Older", "No en"]
    listed = shell.ok("ls").lines
    assert "2031-01-01 !" in listed[0]
    assert "clock ahead" in listed[0]
    shell.ok("show", str(rows(shell)[2]["id"]))
    assert [str(row["firstMessage"])[:5] for row in rows(shell)] == first, "looking changes nothing"
    shell.ok("new", "today")
    shell.ok("append", "said now")
    assert rows(shell)[0]["firstMessage"] == "said now", "the future does not stay first for ever"
    hours = {}
    for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        found = re.search(r"(\w+ \d+ \d\d:\d\d) .*Newer", shell.ok("ls").out)
        assert found is not None
        hours[zone] = int(found[1][4:6]) * 24 + int(found[1][7:9])
        assert [str(row["firstMessage"])[:5] for row in rows(shell)][1:] == first
    assert (hours["Asia/Tokyo"] - hours["UTC"], hours["America/Los_Angeles"] - hours["UTC"]) == (9, -8)


def test_s27_odd_times_keep_the_order_of_the_file(shell: Terminal) -> None:
    take_in(shell, "s27-listing-order/d-odd-times.jsonl")
    told = json.loads(shell.ok("log", "--json").out)["entries"]
    assert [entry["id"] for entry in told] == ["cc000005", "cc000006", "cc000007"]
    out = shell.ok("log").out
    assert out.index("No entry") < out.index("Entry timestamp") < out.index("Third")


def test_s28_an_ambiguous_prefix_lists_the_candidates_and_does_nothing(shell: Terminal) -> None:
    take_in(shell, "s28-ambiguous-prefix/first.jsonl", "s28-ambiguous-prefix/second.jsonl")
    first, second = "019c5381-aaaa-7000-8000-000000000001", "019c5381-aaab-7000-8000-000000000002"
    before = shell.ok("ops", "--all", "--json").out
    for line in (["show"], ["log"], ["fork"], ["export"], ["rm"], ["tree"], ["context"], ["rewind", "@", "-s"]):
        ran = shell.run(*line, "019c5381-aaa")
        assert ran.code == 1
        assert first in ran.err
        assert second in ran.err
        assert json.loads(shell.run(*line, "019c5381-aaa", "--json").out)["error"]["candidates"] == [first, second]
    assert shell.ok("ops", "--all", "--json").out == before
    for name in ("019c5381-aaab", second.upper(), "019C5381-AAAB"):
        assert json.loads(shell.ok("show", name, "--json").out)["id"] == second


def test_s28_an_exact_entry_id_wins_over_longer_ones(shell: Terminal) -> None:
    take_in(shell, "s28-ambiguous-prefix/first.jsonl", "s28-ambiguous-prefix/second.jsonl")
    for number, sid in enumerate(("019c5381-aaaa", "019c5381-aaab")):
        told = json.loads(shell.ok("show", "a1b2", "-s", sid, "--json").out)
        assert told["entry"]["message"]["role"] == "user"
        assert told["children"] == [("a1b2c3d4", "a1b2c3d5")[number]]
    elsewhere = shell.run("show", "a1b2", cwd="/nowhere")
    assert elsewhere.code == 1
    assert "-s SESSION" in elsewhere.err
