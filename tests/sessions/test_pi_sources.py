"""Which files are Pi sessions, which are refused and why, and how folders are searched."""

import os
from pathlib import Path

import pytest

from pi_sessions.errors import SourceError
from pi_sessions.formats.pi import find_pi_files, read_pi_file
from tests.sessions.pi_files import (
    CASES,
    answer,
    check,
    codes,
    header,
    make_inputs,
    read,
    recorded_case,
    recorded_cases,
    tree,
    user,
    write,
)


def refusal(path: str | Path) -> str:
    before = Path(path).read_bytes() if Path(path).is_file() else None
    with pytest.raises(SourceError) as caught:
        read_pi_file(str(path))
    assert before is None or Path(path).read_bytes() == before
    assert str(path) in caught.value.message
    return caught.value.message.removeprefix(str(path)).strip()


def test_files_that_are_no_sessions_are_refused_with_a_reason(tmp_path: Path) -> None:
    """The case `s01-not-a-session`, and what else a path can be."""
    case = CASES / "s01-not-a-session"
    assert refusal(case / "empty.jsonl") == "is empty"
    assert refusal(case / "events.log") == "is not a Pi session: it has no session header"
    assert refusal(write(tmp_path, "", "   ", "")) == "is not a Pi session: it has no session header"
    assert refusal(write(tmp_path, "garbage")) == "is not a Pi session: it has no session header"
    assert refusal(tmp_path) == "is a directory"
    assert refusal(tmp_path / "missing.jsonl") == "does not exist"
    with pytest.raises(SourceError, match="no file name"):
        read_pi_file("a\0b")


def test_a_header_alone_is_a_session() -> None:
    session = read_pi_file(str(CASES / "s01-not-a-session" / "header-only.jsonl"))
    check(session)
    assert (session.entries, session.leaf, session.lines_read) == ((), None, 1)


def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "is not a regular file"


def test_bytes_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.jsonl").write_bytes(bytes(range(256)) * 400)
    assert refusal(tmp_path / "noise.jsonl").startswith("is not a Pi session")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("s03-nul-padding/nul-line.jsonl", "a Claude Code transcript"),
        ("s03-nul-padding/nul-prefix.jsonl", "a Claude Code transcript"),
        ("s06-dangling-parent/dangling-parent.jsonl", "a Claude Code transcript"),
        ("s07-child-before-parent/child-before-parent.jsonl", "a Claude Code transcript"),
        ("s11-empty-blocks/empty-blocks.jsonl", "a Claude Code transcript"),
        ("s15-split-assistant-message/split-message.jsonl", "a Claude Code transcript"),
        ("samples/claude-code-reduced.jsonl", "a Claude Code transcript"),
        ("samples/claude-code-compact-after-rewind-reduced.jsonl", "a Claude Code transcript"),
        ("s02-torn-records/rollout-torn-then-repeated.jsonl", "a Codex rollout"),
        ("s18-repeated-image/rollout-compacted-image.jsonl", "a Codex rollout"),
        ("samples/codex-reduced.jsonl", "a Codex rollout"),
    ],
)
def test_sessions_of_other_agents_are_named(name: str, reason: str) -> None:
    assert refusal(CASES / name) == f"is not a Pi session: it looks like {reason}"


def test_a_file_that_lost_its_header_is_recovered(tmp_path: Path) -> None:
    """Pi writes such a file when its own is deleted while it runs; the file's name tells the id."""
    path = write(tmp_path, user("a", None), answer("b", "a"), name="2026-01-01T00-00-00-000Z_0199-abc.jsonl")
    session = read_pi_file(path)
    check(session)
    assert session.id == "0199-abc"
    assert tree(session) == {"a": None, "b": "a"}
    assert codes(session) == [(None, "header_missing")]
    assert session.created_ms == 1767225660000
    same = read(tmp_path, user("a", None), answer("b", "a"))
    assert same.id == read(tmp_path, user("a", None), answer("b", "a")).id


def test_a_header_behind_the_first_entry_counts(tmp_path: Path) -> None:
    session = read(tmp_path, user("a", None), header(), answer("b", "a"))
    assert session.id == "s1"
    assert codes(session) == [(2, "header_late")]


@pytest.mark.parametrize("bad", [5, None, "", ["x"]])
def test_a_header_whose_id_is_no_text_gets_one(tmp_path: Path, bad: object) -> None:
    session = read(tmp_path, header(id=bad), user("a", None))
    assert session.id.startswith("pi-")
    assert read(tmp_path, header(id=bad), user("a", None), answer("b", "a")).id == session.id
    assert codes(session) == [(1, "header_id")]


def test_odd_headers_are_read(tmp_path: Path) -> None:
    session = read(tmp_path, header(cwd=7, timestamp="nonsense", parentSession=["x"]), user("a", None))
    assert (session.cwd, session.created_ms, session.parent_ref) == ("", 1767225660000, None)
    assert session.header["cwd"] == 7


def test_every_file_of_a_folder_is_named_with_its_state(tmp_path: Path) -> None:
    """The recorded case `list-damaged-files`: what Pi hides or lists without a word."""
    make_inputs(recorded_case("list-damaged-files"), tmp_path)
    (tmp_path / "j.jsonl").mkdir()
    found = find_pi_files(str(tmp_path))
    assert [os.path.basename(file.path) for file in found] == [f"{name}.jsonl" for name in "abcdefghij"]
    assert [file.reason for file in found if file.reason] == [f"{tmp_path / 'j.jsonl'} is a directory"]
    told = {}
    for file in found[:-1]:
        session = read_pi_file(file.path)
        check(session)
        told[os.path.basename(file.path)[0]] = [code for _line, code in codes(session)] + [
            loss.code for loss in session.losses
        ]
    assert told == {
        "a": ["torn"],
        "b": ["torn"],
        "c": ["header_late"],
        "d": ["byte_order_mark"],
        "e": [],
        "f": ["cut_off"],
        "g": ["no_message"],
        "h": ["header_id"],
        "i": ["not_an_object"],
    }


def test_pi_s_own_layout_is_found(tmp_path: Path) -> None:
    home = tmp_path / ".pi"
    first = home / "agent" / "sessions" / "--home-dev-a--"
    second = home / "agent" / "sessions" / "--home-dev-b--"
    first.mkdir(parents=True)
    second.mkdir()
    one = write(first, header(), user("a", None), name="2026_x.jsonl")
    two = write(second, header(id="s2"), name="2026_y.jsonl")
    write(second, "not this", name="notes.txt")
    write(home / "agent", "settings", name="history.jsonl")
    for start in (home, home / "agent", home / "agent" / "sessions"):
        assert [(file.path, file.reason) for file in find_pi_files(str(start))] == [(one, None), (two, None)]
    assert [file.path for file in find_pi_files(str(second))] == [two]


def test_a_plain_folder_is_searched_to_the_bottom(tmp_path: Path) -> None:
    deep = tmp_path / "sessions" / "x" / "y"
    deep.mkdir(parents=True)
    (tmp_path / "sessions" / "loop").symlink_to(tmp_path, target_is_directory=True)
    one = write(deep, header())
    two = write(tmp_path, "garbage", name="bad.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")
    found = {file.path: file.reason for file in find_pi_files(str(tmp_path))}
    assert found == {
        one: None,
        two: f"{two} is not a Pi session: it has no session header",
        str(tmp_path / "gone.jsonl"): f"{tmp_path / 'gone.jsonl'} does not exist",
        str(tmp_path / "pipe.jsonl"): f"{tmp_path / 'pipe.jsonl'} is not a regular file",
    }


def test_a_single_file_is_found_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, header(), name="backup.bak")
    assert [(file.path, file.reason) for file in find_pi_files(path)] == [(path, None)]
    with pytest.raises(SourceError, match="does not exist"):
        find_pi_files(str(tmp_path / "missing"))


def test_a_glance_judges_as_the_reader_does(tmp_path: Path) -> None:
    """Also when the header stands far down, and for each file of the recorded cases."""
    late = write(tmp_path, *["{oops"] * 200, header())
    assert [file.reason for file in find_pi_files(late)] == [None]
    for name in recorded_cases("damaged", "migrate", "list", "resume"):
        folder = tmp_path / name
        make_inputs(recorded_case(name), folder)
        for file in find_pi_files(str(folder)) if folder.exists() else ():
            if file.reason is None:
                check(read_pi_file(file.path))
            else:
                assert f"{file.path} {refusal(file.path)}" == file.reason


@pytest.mark.parametrize(
    ("name", "cwd"),
    [
        ("dash-1", "/home/dev/a-b/c"),
        ("dash-2", "/home/dev/a/b-c"),
        ("hangul-1", "/home/dev/proj/외주/app"),
        ("hangul-2", "/home/dev/proj/개인/app"),
        ("space", "/home/dev/a b/c"),
        ("windows", "C:\\Users\\dev\\My Projects\\żółw"),
    ],
)
def test_the_directory_is_taken_from_the_header(name: str, cwd: str) -> None:
    """The case `s23-colliding-folders`: six directories that Pi's folder names mix up."""
    assert read_pi_file(str(CASES / "s23-colliding-folders" / f"{name}.jsonl")).cwd == cwd


def test_a_directory_that_is_gone_does_not_matter() -> None:
    """The case `s24-deleted-folder`."""
    session = read_pi_file(str(CASES / "s24-deleted-folder" / "gone-cwd.jsonl"))
    assert session.cwd == "/home/dev/worktrees/removed-branch"
    assert len(session.entries) == 2
