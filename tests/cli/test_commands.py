"""Each command does what its help says: flags, streams, JSON, current session."""

import json
from pathlib import Path

import pytest

from tests.cli.launcher import NOW_MS, Terminal, ticking

STAMP = "2026-01-05T09:00:00.000Z"


def entries(shell: Terminal, *more: str) -> list[str]:
    """Return the ids of the path to the leaf."""
    return [entry["id"] for entry in json.loads(shell.ok("log", "--json", *more).out)["entries"]]


def sessions(shell: Terminal, *more: str) -> list[dict[str, object]]:
    """Return the sessions that ls lists."""
    found: list[dict[str, object]] = json.loads(shell.ok("ls", "--json", *more).out)["sessions"]
    return found


def test_new_prints_the_id_and_makes_it_current(shell: Terminal) -> None:
    ran = shell.ok("new", "first", "--cwd", "sub")
    sid = ran.out.strip()
    assert "first" in ran.err
    (session,) = sessions(shell)
    assert (session["id"], session["name"], session["cwd"]) == (sid, "first", "/proj/demo/sub")
    assert session["current"] is True
    assert sessions(shell, "--here") == []
    assert json.loads(shell.ok("new", "--json", "--id", "given.id").out)["id"] == "given.id"


def test_append_texts_roles_and_standard_input(talk: Terminal) -> None:
    before = entries(talk)
    ids = talk.ok("append", "one", "-", "three", stdin=b"two\nlines\n").lines
    assert entries(talk) == before + ids
    told = json.loads(talk.ok("log", "--json", "--last", "3").out)["entries"]
    assert [entry["message"]["content"][0]["text"] for entry in told] == ["one", "two\nlines", "three"]
    answer = talk.ok("append", "--role", "assistant", "done").lines
    told = json.loads(talk.ok("show", answer[0], "-s", "lease bug", "--json").out)["entry"]["message"]
    assert (told["provider"], told["model"], told["stopReason"]) == ("anthropic", "claude-sonnet-4-5", "stop")


def test_append_json_lines_keeps_unknown_fields_and_splits_at_line_feeds_only(talk: Terminal) -> None:
    lines = [
        {"role": "user", "content": "a\u2028b", "ours": {"x": 1}},
        {"type": "model_change", "provider": "openai", "modelId": "gpt-5"},
        {"type": "from_the_future", "id": "feed0001", "data": [1]},
    ]
    content = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
    ran = talk.ok("append", "--json-lines", "-", "--json", stdin=content)
    told = json.loads(talk.ok("log", "--json", "--last", "3").out)["entries"]
    assert [entry["id"] for entry in told] == json.loads(ran.out)["ids"]
    assert told[0]["message"] == lines[0]
    assert told[2]["id"] == "feed0001"
    assert told[2]["data"] == [1]


def test_append_expect_guards_against_other_writers(talk: Terminal) -> None:
    leaf = entries(talk)[-1]
    talk.ok("append", "mine", "--expect", leaf)
    ran = talk.run("append", "late", "--expect", leaf, "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["error"]["code"] == "leaf_moved"


def test_append_to_another_branch_leaves_the_current_one(talk: Terminal) -> None:
    talk.ok("branch", "side", "--at", "@-1")
    before = entries(talk)
    talk.ok("append", "on the side", "--branch", "side")
    assert entries(talk) == before
    talk.ok("switch", "side")
    assert "on the side" in talk.ok("log").out


def test_rewind_to_a_user_message_gives_its_text_back(talk: Terminal) -> None:
    path = entries(talk)
    ran = talk.ok("rewind", "@-1")
    assert ran.out == "How do we fix it?\n"
    assert path[1] in ran.err
    assert entries(talk) == path[:2]
    assert entries(talk) == path[:2], "the leaf is stored"


def test_rewind_exact_start_and_to_an_answer(talk: Terminal) -> None:
    path = entries(talk)
    assert talk.ok("rewind", "--exact", path[2]).out == ""
    assert entries(talk) == path[:3]
    assert talk.ok("rewind", path[1]).out == ""
    assert entries(talk) == path[:2]
    told = json.loads(talk.ok("rewind", "--start", "--json").out)
    assert (told["oldLeaf"], told["newLeaf"], told["editorText"]) == (path[1], None, None)
    assert entries(talk) == []
    assert "there already" in talk.ok("rewind", "--start").err


def test_text_given_back_is_raw_in_a_pipe_and_safe_on_a_terminal(talk: Terminal) -> None:
    talk.ok("append", "colour \x1b[31mred\nsecond")
    assert talk.ok("rewind", "@-1").out == "colour \x1b[31mred\nsecond\n"
    talk.ok("undo")
    assert talk.ok("rewind", "@-1", columns=80).out == "colour \\x1b[31mred\nsecond\n"


def test_fork_shares_the_path_and_becomes_current(talk: Terminal) -> None:
    path = entries(talk)
    origin = sessions(talk)[0]["id"]
    fork = talk.ok("fork", "--at", path[1]).out.strip()
    assert entries(talk) == path[:2]
    told = json.loads(talk.ok("show", "--json").out)
    assert (told["id"], told["origin"], told["originEntry"]) == (fork, origin, path[1])
    talk.ok("rm", str(origin))
    assert entries(talk) == path[:2], "deleting the origin harms no fork"


def test_fork_before_a_user_message_and_of_the_whole_tree(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("rewind", path[1])
    talk.ok("append", "another way")
    told = json.loads(talk.ok("fork", "--before", path[2], "--json").out)
    assert (told["leaf"], told["editorText"]) == (path[1], "How do we fix it?")
    ran = talk.run("fork", "lease bug")
    assert ran.code == 1, "two sessions have that name now"
    origin = told["origin"]
    first = talk.ok("fork", origin, "--before", path[0])
    assert first.lines[1] == "Why is the lease lost?"
    assert entries(talk) == []
    talk.ok("fork", origin, "--all-branches")
    assert len(json.loads(talk.ok("tree", "--json").out)["rows"]) == 5


def test_session_colon_entry_names_both(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("new", "other")
    assert json.loads(talk.ok("show", f"lease bug:{path[1]}", "--json").out)["entry"]["id"] == path[1]
    talk.ok("rewind", f"lease bug:{path[1]}")
    assert entries(talk, "lease bug") == path[:2]
    ran = talk.run("rewind", f"lease bug:{path[0]}", "-s", "other")
    assert ran.code == 2


def test_branches_are_made_renamed_deleted_and_switched(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("branch", "early", "--at", path[1], "--switch")
    assert entries(talk) == path[:2]
    talk.ok("branch", "early", "--rename", "older")
    listed = json.loads(talk.ok("branch", "--json").out)
    assert {(each["name"], each["current"]) for each in listed["branches"]} == {("main", False), ("older", True)}
    talk.ok("switch", "main")
    assert entries(talk) == path
    talk.ok("branch", "older", "--delete")
    assert [each["name"] for each in json.loads(talk.ok("branch", "--json").out)["branches"]] == ["main"]


def test_what_a_rewind_leaves_behind_is_listed_as_a_tip(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("rewind", path[1])
    talk.ok("append", "other way")
    assert json.loads(talk.ok("branch", "--json").out)["tips"] == [path[3]]
    assert "(tip)" in talk.ok("tree").out


def test_labels_name_entries(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("label", path[1], "checkpoint 1")
    assert path[1] in talk.ok("label").out
    assert [row["label"] for row in json.loads(talk.ok("tree", "--labeled", "--json").out)["rows"]] == ["checkpoint 1"]
    talk.ok("rewind", "checkpoint 1")
    assert entries(talk) == path[:2]
    talk.ok("label", "checkpoint 1", "--clear")
    assert talk.ok("label").out == ""


def test_omit_replace_and_restore_change_the_context_only(talk: Terminal) -> None:
    def told() -> list[object]:
        messages = json.loads(talk.ok("context", "--json").out)["messages"]
        return [each["message"]["content"] for each in messages]

    path, before = entries(talk), told()
    talk.ok("omit", path[1])
    assert told() == [before[0], *before[2:]]
    assert json.loads(talk.ok("context", "--json").out)["omitted"] == [path[1]]
    talk.ok("omit", path[1], "--replace", "shorter")
    assert told()[1] == [{"type": "text", "text": "shorter"}]
    talk.ok("omit", path[1], "--restore")
    assert told() == before
    talk.ok("omit", path[0])
    talk.ok("undo")
    assert told() == before


def test_undo_and_redo_go_several_steps(talk: Terminal) -> None:
    path = entries(talk)
    talk.ok("rewind", path[2])
    talk.ok("rewind", path[0], "--exact")
    talk.ok("name", "renamed")
    ran = talk.ok("undo", "--steps", "3")
    assert entries(talk) == path
    assert len(ran.lines) == 4
    assert sessions(talk)[0]["name"] == "lease bug"
    talk.ok("redo", "--steps", "3")
    assert entries(talk) == path[:1]
    assert sessions(talk)[0]["name"] == "renamed"
    assert "Nothing more to undo" in talk.ok("undo", "--steps", "99").err


def test_undo_by_number_keeps_later_entries_on_a_branch_and_names_it(talk: Terminal) -> None:
    path = entries(talk)
    op = json.loads(talk.ok("rewind", path[1], "--json").out)["op"]
    talk.ok("append", "later")
    ran = talk.ok("undo", "--op", str(op), "--json")
    (kept,) = json.loads(ran.out)["keptBranches"]
    assert entries(talk) == path
    talk.ok("switch", kept["name"])
    assert "later" in talk.ok("log").out


def test_a_removed_session_comes_back_with_undo(talk: Terminal) -> None:
    (session,) = sessions(talk)
    ran = talk.ok("rm", "lease bug")
    assert sessions(talk) == []
    assert [each["id"] for each in sessions(talk, "--removed")] == [session["id"]]
    assert talk.run("log").code == 1
    command = ran.err.split("Next: ")[1].split("\n")[0].split()
    talk.ok(*command[1:])
    assert len(entries(talk)) == 4


def test_undoing_a_fork_goes_back_to_its_origin(talk: Terminal) -> None:
    path = entries(talk)
    (before,) = sessions(talk)
    talk.ok("fork", "--at", path[0])
    talk.ok("undo")
    assert entries(talk) == path
    assert [each["id"] for each in sessions(talk)] == [before["id"]]


def test_ops_lists_and_shows(talk: Terminal) -> None:
    path = entries(talk)
    op = json.loads(talk.ok("rewind", path[1], "--json").out)["op"]
    listed = json.loads(talk.ok("ops", "--json").out)["operations"]
    assert [each["op"] for each in listed] == sorted((each["op"] for each in listed), reverse=True)
    one = json.loads(talk.ok("ops", str(op), "--json").out)
    assert one["changes"][0] | {"sessionId": None} == {
        "kind": "branch",
        "sessionId": None,
        "name": "main",
        "before": path[3],
        "after": path[1],
    }
    assert f"{path[3]} -> {path[1]}" in talk.ok("ops", str(op)).out
    assert len(json.loads(talk.ok("ops", "--all", "--limit", "2", "--json").out)["operations"]) == 2


def test_names_archive_and_pin_are_facts_with_reverses(talk: Terminal) -> None:
    assert talk.ok("name").out == "lease bug\n"
    talk.ok("name", "two\nlines")
    assert talk.ok("name").out == "two lines\n"
    talk.ok("name", "--clear")
    assert talk.ok("name").out == ""
    talk.ok("pin")
    assert "(pinned)" in talk.ok("ls").out
    talk.ok("archive")
    assert sessions(talk) == []
    assert len(sessions(talk, "--all")) == len(sessions(talk, "--archived")) == 1
    talk.ok("archive", "--off")
    talk.ok("pin", "--off")
    assert "pinned" not in talk.ok("ls").out
    assert sessions(talk, "--archived") == []


def test_ls_pages_and_filters(shell: Terminal) -> None:
    for number in range(5):
        shell.ok("new", *([f"named {number}"] if number % 2 else []), cwd=f"/proj/{number}")
        shell.ok("append", f"hello {number}", cwd=f"/proj/{number}")
    model = "openai/gpt-5"
    shell.ok("append", "--role", "assistant", "--model", model, "yes", cwd="/proj/3")
    first = json.loads(shell.ok("ls", "--limit", "2", "--json").out)
    assert [each["cwd"] for each in first["sessions"]] == ["/proj/3", "/proj/4"]
    assert first["more"] is True
    pages = [shell.ok("ls", "-n", "2", "--page", str(page)).lines for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert shell.ok("ls", "--limit", "2", "--page", "4").out == ""
    assert len(sessions(shell, "--named")) == 2
    assert [each["cwd"] for each in sessions(shell, "--model", "GPT")] == ["/proj/3"]
    assert [each["cwd"] for each in json.loads(shell.ok("ls", "--here", "--json", cwd="/proj/1").out)["sessions"]] == [
        "/proj/1"
    ]
    shell.clock = ticking(NOW_MS + 7_200_000)
    assert sessions(shell, "--since", "1h") == []
    assert len(sessions(shell, "--since", "3h")) == 5
    assert len(sessions(shell, "--since", "2026-03-02")) == 5
    assert sessions(shell, "--since", "2026-03-03T00:00:00Z") == []


def test_ls_shows_the_shortest_good_beginning_of_an_id_on_a_terminal(shell: Terminal) -> None:
    for sid in ("0199aaaa-0001-7000-8000-000000000001", "0199aaaa-0002-7000-8000-000000000001", "0200bbbb-1"):
        shell.ok("new", "--id", sid)
    lines = shell.ok("ls", columns=80, env={"NO_COLOR": "1"}).lines[1:]
    shown = [line[2:].split()[0] for line in lines]
    assert sorted(shown) == ["0199aaaa-0001", "0199aaaa-0002", "0200bbbb"]
    for short in shown:
        shell.ok("show", short)


def test_tree_filters_search_and_json(talk: Terminal) -> None:
    lines = [
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}],
         "api": "x", "provider": "p", "model": "m", "usage": {}, "stopReason": "toolUse"},
        {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": [], "isError": True},
        {"role": "user", "content": "and the needle"},
    ]  # fmt: skip
    talk.ok("append", "--json-lines", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    picture = talk.ok("tree").out
    assert "tools: read (2 entries, 1 failed)" in picture
    assert "tools" not in talk.ok("tree", "--no-tools").out
    assert all("user:" in line for line in talk.ok("tree", "--user").lines[2:])
    assert "tool: read: failed" in talk.ok("tree", "--all").out
    assert [row["text"] for row in json.loads(talk.ok("tree", "--search", "NEEDLE", "--json").out)["rows"]] == [
        "and the needle"
    ]
    folded = [row["folded"] for row in json.loads(talk.ok("tree", "--json").out)["rows"]]
    assert sorted(map(len, folded)) == [0, 0, 0, 0, 0, 2]


def test_a_tree_nested_beyond_the_screen_still_shows_words(shell: Terminal) -> None:
    shell.ok("new")
    shell.ok("append", "root")
    for depth in range(24):
        shell.ok("append", f"left {depth}")
        shell.ok("rewind", "@-1")
        shell.ok("append", f"right {depth}")
    lines = shell.ok("tree", columns=60, env={"NO_COLOR": "1"}).lines
    assert max(map(len, lines)) <= 60
    assert all("user:" in line for line in lines[2:])


def test_log_shortens_outputs_unless_asked_for_all(talk: Terminal) -> None:
    output = "\n".join(f"row {number}" for number in range(50))
    message = {"role": "bashExecution", "command": "seq 50", "output": output, "exitCode": 0}
    talk.ok("append", "--json-lines", "-", stdin=json.dumps(message).encode())
    short, whole = talk.ok("log", "--last", "1").out, talk.ok("log", "--last", "1", "--full").out
    assert "row 7" in short
    assert "row 49" not in short
    assert "42 more lines" in short
    assert "row 49" in whole
    assert "(4 entries before)" in short


def test_context_counts_tokens_and_names_the_model(talk: Terminal) -> None:
    told = json.loads(talk.ok("context", "--json").out)
    assert told["model"] == {"provider": "anthropic", "modelId": "claude-sonnet-4-5"}
    assert told["thinkingLevel"] == "off"
    assert told["tokens"]["total"] == sum(each["tokens"] for each in told["messages"])
    at = entries(talk)[0]
    assert len(json.loads(talk.ok("context", "--at", at, "--json").out)["messages"]) == 1


def test_show_tells_sessions_from_entries(talk: Terminal) -> None:
    path = entries(talk)
    assert json.loads(talk.ok("show", "lease bug", "--json").out)["totals"]["totalMessages"] == 4
    assert json.loads(talk.ok("show", path[2], "--json").out)["children"] == [path[3]]
    assert json.loads(talk.ok("show", "@", "--json").out)["branches"] == ["main"]
    assert "How do we fix it?" in talk.ok("show", path[2]).out
    talk.ok("label", path[1], "cp")
    assert json.loads(talk.ok("show", "cp", "--json").out)["entry"]["id"] == path[1]
    assert talk.run("show", "zz").code == 1


def test_export_and_import_again_give_the_same(talk: Terminal, tmp_path: Path) -> None:
    talk.ok("label", "@", "end")
    talk.ok("rewind", "@-1")
    talk.ok("append", "another way")
    before = json.loads(talk.ok("context", "--json").out)["messages"]
    file = tmp_path / "out.jsonl"
    talk.ok("export", "-o", str(file), "--all-branches")
    assert talk.ok("export", "--all-branches").raw == file.read_bytes()
    other = {"PI_SESSION_DB": str(tmp_path / "other.db")}
    ran = talk.ok("import", str(file), "--json", env=other)
    assert json.loads(ran.out)["totals"]["added"] == 5
    assert json.loads(talk.ok("context", "--json", env=other).out)["messages"] == before
    assert talk.ok("name", env=other).out == "lease bug\n"
    assert "end" in talk.ok("label", env=other).out
    again = json.loads(talk.ok("import", str(file), "--json", env=other).out)
    assert (again["files"][0]["status"], again["totals"]["added"]) == ("unchanged", 0)


def test_export_is_utf8_whatever_the_terminal_speaks(talk: Terminal) -> None:
    talk.ok("append", "żółw 🚀")
    assert talk.ok("export").raw == talk.ok("export", encoding="cp1252").raw
    assert "żółw 🚀" in talk.ok("export", encoding="ascii").raw.decode()
    told = talk.ok("context", "--json", encoding="cp1252").raw.decode("ascii")
    assert json.loads(told)["messages"][-1]["message"]["content"][0]["text"] == "żółw 🚀"


def test_import_dry_run_stores_nothing_and_report_tells_all(talk: Terminal, tmp_path: Path) -> None:
    file, report = tmp_path / "out.jsonl", tmp_path / "report.json"
    talk.ok("export", "-o", str(file))
    text = file.read_text() + '{"torn": tr\n'
    file.write_text(text)
    fresh = {"PI_SESSION_DB": str(tmp_path / "fresh.db")}
    ran = talk.run("import", str(file), "--dry-run", "--report", str(report), env=fresh)
    assert "dry run" in ran.out
    assert not (tmp_path / "fresh.db").exists()
    (told,) = json.loads(report.read_text())["files"]
    assert told["added"] == 4
    damaged = [item["line"] for item in told["repairs"] + told["losses"]]
    assert damaged == [len(text.splitlines())]
    assert (ran.code == 1) == bool(told["losses"])
    listed = talk.ok("ls", "--json").out
    talk.run("import", str(file), "--dry-run")
    assert talk.ok("ls", "--json").out == listed
    assert file.read_text() == text


def test_a_removed_session_is_not_brought_back_by_import_unless_asked(talk: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    talk.ok("export", "-o", str(file))
    fresh = {"PI_SESSION_DB": str(tmp_path / "fresh.db")}
    talk.ok("import", str(file), env=fresh)
    talk.ok("rm", "lease bug", env=fresh)
    ran = talk.ok("import", str(file), env=fresh)
    assert "--restore" in ran.out
    assert json.loads(talk.ok("ls", "--json", env=fresh).out)["sessions"] == []
    talk.ok("import", str(file), "--restore", env=fresh)
    assert len(json.loads(talk.ok("ls", "--json", env=fresh).out)["sessions"]) == 1


def test_the_current_session_is_per_directory(shell: Terminal) -> None:
    shell.ok("new", "a", cwd="/a")
    shell.ok("new", "b", cwd="/b")
    assert shell.ok("name", cwd="/a").out == "a\n"
    assert shell.ok("name", cwd="/b").out == "b\n"
    assert shell.run("name", cwd="/c").code == 1
    other = json.loads(shell.ok("ls", "--json").out)["sessions"][0]["id"]
    assert shell.ok("name", cwd="/c", env={"PI_SESSION_ID": other}).code == 0


def test_settings_come_from_flag_then_environment_then_file(talk: Terminal) -> None:
    file = talk.folder / "config.toml"
    file.write_text('limit = 3\ncolor = "never"\ndurable = true\n')
    env = {"PI_SESSION_CONFIG": str(file), "PI_SESSION_LIMIT": "7"}
    told = {each["name"]: each for each in json.loads(talk.ok("config", "--json", env=env).out)["settings"]}
    assert (told["limit"]["value"], told["limit"]["source"]) == (7, "PI_SESSION_LIMIT")
    assert (told["color"]["value"], told["color"]["source"]) == ("never", str(file))
    assert told["durable"]["value"] is True
    assert told["db"]["source"] == "PI_SESSION_DB"
    assert told["busy_timeout_s"]["source"] == "default"
    flag = json.loads(talk.ok("config", "--json", "--db", "x.db", env=env).out)["settings"]
    assert next(each for each in flag if each["name"] == "db") == {"name": "db", "value": "x.db", "source": "flag"}
    assert talk.ok("config", "limit", env=env).out == "7\n"


@pytest.mark.parametrize("flag", [[], ["--durable"]])
def test_durable_waits_for_the_disk(flag: list[str], talk: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from pi_sessions import base

    seen = []
    real = base.connect

    def watching(path: str, **more: object) -> object:
        seen.append(more["durable"])
        return real(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(base, "connect", watching)
    talk.ok("label", "@", "x", *flag)
    assert seen == [bool(flag)]


def test_undo_names_the_session_it_touched(talk: Terminal) -> None:
    (first,) = sessions(talk)
    talk.ok("new", "other")
    talk.ok("append", "hello")
    talk.ok("rm", str(first["id"]))
    undone = talk.ok("undo").out
    (left,) = sessions(talk)
    assert left["id"] != first["id"]
    assert f"In the session {left['id']} (other), main ends at " in undone


def test_ids_that_begin_alike_are_told_apart(shell: Terminal, tmp_path: Path) -> None:
    ids = [f"5f1e0000-0000-4000-8000-{number:012d}" for number in range(1, 4)]
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "5f1e", "timestamp": STAMP, "cwd": "/w"}]
    for place, entry_id in enumerate(ids):
        message = {"role": "user", "content": f"question {place}"}
        parent = ids[place - 1] if place else None
        lines.append({"type": "message", "id": entry_id, "parentId": parent, "timestamp": STAMP, "message": message})
    file = tmp_path / "alike.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.ok("import", str(file))
    for columns in (60, 80, 120):
        told = shell.ok("context", "5f1e", columns=columns, env={"NO_COLOR": "1"}).out.splitlines()
        assert columns == 60 or [entry_id for entry_id in ids if any(entry_id in line for line in told)] == ids
        assert all(len(line) <= columns for line in told)
        drawn = shell.ok("tree", "5f1e", columns=columns, env={"NO_COLOR": "1"}).out.splitlines()
        assert [entry_id for entry_id in ids if any(entry_id in line for line in drawn)] == ids
        assert all(len(line) <= columns for line in drawn)
        assert all("question" in line or "quest" in line or "user:" in line for line in drawn if "5f1e0000-" in line)
