"""The tools read, write, edit and ls on real files."""

import base64
import os
import resource
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_loop.tools.replacements import Edit, apply_edits, splice, to_line_feeds
from pi_loop.tools.truncation import truncate_head, truncate_tail
from pi_sessions.file_operations import file_operations
from tests.loop.tool_world import ToolWorld, details, pictures, told

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def world(tmp_path: Path) -> ToolWorld:
    return ToolWorld(tmp_path / "work")


def test_read_gives_the_text_as_it_is(world: ToolWorld) -> None:
    world.file("a.txt", "one\ntwo\n")
    assert world.text("read", path="a.txt") == "one\ntwo\n"
    assert world.text("read", path=str(world.folder / "a.txt")) == "one\ntwo\n"
    assert world.text("read", path="@a.txt") == "one\ntwo\n"


def test_read_takes_a_range_and_says_how_to_go_on(world: ToolWorld) -> None:
    world.file("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    shown = world.text("read", path="a.txt", offset=3, limit=2)
    assert shown == "line 3\nline 4\n\n[7 more lines in file. Use offset=5 to continue.]"
    assert world.error("read", path="a.txt", offset=12) == "Offset 12 is beyond end of file (11 lines total)"


def test_read_cuts_at_2000_lines_and_at_50_kb(world: ToolWorld) -> None:
    world.file("long.txt", "x\n" * 5000)
    outcome = world.call("read", path="long.txt")
    assert told(outcome.result).endswith("[Showing lines 1-2000 of 5001. Use offset=2001 to continue.]")
    assert details(outcome.result)["truncation"]["truncatedBy"] == "lines"
    world.file("wide.txt", ("y" * 1023 + "\n") * 100)
    assert "[Showing lines 1-50 of 101 (50.0KB limit). Use offset=51 to continue.]" in world.text(
        "read", path="wide.txt"
    )
    world.file("one.txt", "z" * 200_000)
    assert world.text("read", path="one.txt").startswith("[Line 1 is 195.3KB, exceeds 50.0KB limit. Use bash: sed")


def test_reading_ranges_page_through_the_whole_file(world: ToolWorld) -> None:
    lines = [f"{number} " + "w" * (number % 90) for number in range(4500)]
    world.file("many.txt", "\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        shown = world.text("read", path="many.txt", offset=len(seen) + 1).partition("\n\n[Showing")[0]
        seen += shown.split("\n")
    assert seen == lines


def test_a_picture_is_sent_as_one(world: ToolWorld) -> None:
    world.file("dot.png", PNG)
    result = world.call("read", path="dot.png").result
    assert told(result) == "Read image file [image/png]"
    assert base64.b64decode(pictures(result)[0].data) == PNG
    world.file("huge.png", PNG + bytes(4_000_000))
    assert "too large" in world.text("read", path="huge.png")


def test_what_is_no_file_is_said(world: ToolWorld) -> None:
    (world.folder / "sub").mkdir()
    os.mkfifo(world.folder / "pipe")
    assert "is a directory; use ls" in world.error("read", path="sub")
    assert "not a regular file" in world.error("read", path="pipe")
    assert world.error("read", path="none.txt") == "Cannot read none.txt: No such file or directory"


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "sub/../../secret", "link", "~/x", "a\0b"])
@pytest.mark.parametrize("name", ["read", "write", "edit"])
def test_nothing_outside_the_working_directory_is_touched(world: ToolWorld, name: str, path: str) -> None:
    outside = world.folder.parent / "secret"
    outside.write_text("untouched")
    (world.folder / "sub").mkdir()
    (world.folder / "link").symlink_to(outside)
    world.workspace.home = str(world.folder.parent)
    more = {"write": {"content": "x"}, "edit": {"edits": [{"oldText": "untouched", "newText": "x"}]}}.get(name, {})
    assert "outside the working directory" in world.error(name, path=path, **more) or "\0" in path
    assert outside.read_text() == "untouched"
    assert not (world.folder.parent / "x").exists()


def test_allowed_folders_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    world = ToolWorld(tmp_path / "work", allowed=(str(tmp_path / "other"),))
    world.text("write", path=str(tmp_path / "other" / "n.txt"), content="new")
    assert world.text("read", path="../other/n.txt") == "new"
    assert "outside" in world.error("read", path="../others.txt")


def test_a_vanished_working_directory_is_said_by_every_tool(world: ToolWorld) -> None:
    world.folder.rmdir()
    for name, arguments in {
        "read": {"path": "a"},
        "write": {"path": "a", "content": ""},
        "edit": {"path": "a", "edits": [{"oldText": "a", "newText": "b"}]},
        "bash": {"command": "true"},
        "grep": {"pattern": "a"},
        "find": {"pattern": "a"},
        "ls": {},
    }.items():
        assert "Working directory does not exist: " in world.error(name, **arguments)
    assert not world.folder.exists()


def test_write_makes_folders_and_keeps_line_ends(world: ToolWorld) -> None:
    assert world.text("write", path="a/b/c.txt", content="one\r\ntwo\n") == "Successfully wrote to a/b/c.txt"
    assert (world.folder / "a/b/c.txt").read_bytes() == b"one\r\ntwo\n"
    assert "Is a directory" in world.error("write", path="a", content="")


def test_what_is_no_regular_file_is_not_written_to(world: ToolWorld) -> None:
    os.mkfifo(world.folder / "pipe")
    (world.folder / "link").symlink_to("pipe")
    (world.folder / "sub").mkdir()
    edits = [{"oldText": "a", "newText": "b"}]
    for path in ("pipe", "link"):
        assert "is not a regular file" in world.error("write", path=path, content="x")
        assert "is not a regular file" in world.error("edit", path=path, edits=edits)
    assert world.error("write", path="sub", content="x") == "Is a directory: sub"
    world.workspace.everything = True
    assert "is not a regular file" in world.error("write", path="/dev/null", content="x")


@pytest.mark.parametrize("hard_link", [False, True])
def test_a_write_that_fails_leaves_the_file_as_it_was(world: ToolWorld, hard_link: bool) -> None:
    path = world.file("a.txt", "before\n")
    if hard_link:
        os.link(path, world.folder / "other.txt")
    names = sorted(os.listdir(world.folder))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        written = world.error("write", path="a.txt", content="x" * 10_000)
        edited = world.error("edit", path="a.txt", edits=[{"oldText": "before", "newText": "y" * 10_000}])
        new = world.error("write", path="new.txt", content="x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert written == edited == f"File too large: {path}"
    assert new == f"File too large: {world.folder / 'new.txt'}"
    assert path.read_text() == "before\n"
    assert sorted(os.listdir(world.folder)) == names


def test_writing_keeps_links_and_the_mode(world: ToolWorld) -> None:
    path = world.file("a.sh", "before\n")
    path.chmod(0o751)
    (world.folder / "soft").symlink_to("a.sh")
    world.text("write", path="soft", content="by the symbolic link")
    assert (world.folder / "soft").is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("by the symbolic link", 0o751)
    os.link(path, world.folder / "hard")
    world.text("edit", path="hard", edits=[{"oldText": "symbolic", "newText": "hard"}])
    assert path.read_text() == "by the hard link"
    assert path.samefile(world.folder / "hard")
    (world.folder / "dangling").symlink_to("later/new.txt")
    world.text("write", path="dangling", content="made")
    assert (world.folder / "later/new.txt").read_text() == "made"
    plain = world.file("plain", "")
    assert (world.folder / "later/new.txt").stat().st_mode == plain.stat().st_mode


def test_edit_replaces_exactly_what_was_named(world: ToolWorld) -> None:
    path = world.file("a.py", "def f():\n    return 1\n\ndef g():\n    return 2\n")
    edits = [{"oldText": "return 2", "newText": "return 22"}, {"oldText": "return 1", "newText": "return 11"}]
    outcome = world.call("edit", path="a.py", edits=edits)
    assert told(outcome.result) == "Successfully replaced 2 block(s) in a.py."
    assert path.read_text() == "def f():\n    return 11\n\ndef g():\n    return 22\n"
    shown = details(outcome.result)
    assert shown["firstChangedLine"] == 2
    assert "-2     return 1\n+2     return 11" in shown["diff"]
    assert shown["patch"].startswith("--- a.py\n+++ a.py\n@@ -1,6 +1,6 @@\n")


def test_a_diff_of_an_edit_shows_the_lines_around_it(world: ToolWorld) -> None:
    world.file("a.txt", "".join(f"{number}\n" for number in range(1, 101)))
    edits = [{"oldText": "\n10\n", "newText": "\nten\n"}, {"oldText": "\n90\n", "newText": "\nninety\n"}]
    shown = details(world.call("edit", path="a.txt", edits=edits).result)
    assert shown["diff"].split("\n")[:6] == ["     ...", "   6 6", "   7 7", "   8 8", "   9 9", "- 10 10"]
    assert shown["diff"].count("...") == 3
    assert shown["patch"].count("@@ -") == 2


def test_edit_keeps_line_ends_byte_order_mark_and_stray_bytes(world: ToolWorld) -> None:
    path = world.file("dos.txt", b"\xef\xbb\xbfone\r\ntwo \xff\r\nthree\r\n")
    world.text("edit", path="dos.txt", edits=[{"oldText": "one\n", "newText": "1\nand a half\n"}])
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\nand a half\r\ntwo \xff\r\nthree\r\n"


def test_edit_forgives_typographic_differences_and_touches_no_other_line(world: ToolWorld) -> None:
    path = world.file("a.md", "It’s “here”  \nkeep – this  \nlast\n")
    world.text("edit", path="a.md", edits=[{"oldText": 'It\'s "here"\n', "newText": "It is there\n"}])
    assert path.read_text() == "It is there\nkeep – this  \nlast\n"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([{"oldText": "nope", "newText": "x"}], "Could not find the exact text in a.txt"),
        ([{"oldText": "a", "newText": "x"}], "Found 2 occurrences of the text in a.txt"),
        ([{"oldText": "", "newText": "x"}], "oldText must not be empty in a.txt"),
        ([{"oldText": "b", "newText": "b"}], "No changes made to a.txt"),
        ([{"oldText": "a b", "newText": "x"}, {"oldText": "b a", "newText": "y"}], "edits[0] and edits[1] overlap"),
        ([], "edits must contain at least one replacement"),
    ],
)
def test_an_edit_that_does_not_fit_changes_nothing(world: ToolWorld, edits: list[object], said: str) -> None:
    path = world.file("a.txt", "a b a")
    assert said in world.error("edit", path="a.txt", edits=edits)
    assert path.read_text() == "a b a"


def test_edit_reads_the_forms_some_models_send(world: ToolWorld) -> None:
    path = world.file("a.txt", "1 2 3")
    world.text("edit", path="a.txt", oldText="1", newText="one")
    world.text("edit", path="a.txt", edits='[{"oldText": "2", "newText": "two"}]')
    world.text("edit", path="a.txt", edits={"oldText": "3", "newText": "three"})
    assert path.read_text() == "one two three"


@given(st.text("ab\n\r", max_size=30), st.integers(0, 30), st.integers(1, 6), st.text("xy\n", max_size=5))
def test_an_edit_leaves_the_bytes_around_it(original: str, start: int, length: int, new: str) -> None:
    base = to_line_feeds(original)
    piece = base[start : start + length]
    try:
        changed, replacements = apply_edits(base, [Edit(piece, new)], "f")
    except ValueError:
        return
    spliced = splice(original, replacements)
    assert to_line_feeds(spliced) == changed
    assert changed == base.replace(piece, new, 1)


def test_changes_of_one_file_wait_for_each_other(world: ToolWorld) -> None:
    path = world.file("count.txt", "".join(f"[{number}]" for number in range(30)))
    (world.folder / "same.txt").symlink_to(path)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                edits = [{"oldText": f"[{number}]", "newText": f"<{number}>"}]
                name = "count.txt" if number % 2 else "same.txt"
                tasks.start_soon(lambda name=name, edits=edits: world.acall("edit", path=name, edits=edits))

    anyio.run(main)
    assert path.read_text() == "".join(f"<{number}>" for number in range(30))
    assert not world.workspace._locks


def test_file_tracking_sees_the_paths(world: ToolWorld) -> None:
    calls = [
        {"type": "toolCall", "id": name, "name": name, "arguments": {"path": f"{name}.txt"}}
        for name in ("read", "write", "edit")
    ]
    assert all("path" in world.tools[call["name"]].parameters["required"] for call in calls)
    found = file_operations([{"role": "assistant", "content": calls}])
    assert (found.read_only, found.modified) == (("read.txt",), ("edit.txt", "write.txt"))


def test_ls_sorts_marks_folders_and_says_what_it_left_out(world: ToolWorld) -> None:
    for name in ("b.txt", ".hidden", "A.txt", "sub/x"):
        world.file(name, "")
    assert world.text("ls") == ".hidden\nA.txt\nb.txt\nsub/"
    limited = world.call("ls", limit=2)
    assert told(limited.result) == ".hidden\nA.txt\n\n[2 entries limit reached. Use limit=4 for more]"
    assert details(limited.result) == {"entryLimitReached": 2}
    (world.folder / "empty").mkdir()
    assert world.text("ls", path="empty") == "(empty directory)"
    assert "Not a directory" in world.error("ls", path="b.txt")
    assert "Path not found" in world.error("ls", path="zzz")


@given(st.lists(st.text("aé\u20ac", max_size=8), max_size=12), st.integers(1, 6), st.integers(1, 40))
def test_truncation_keeps_whole_lines_within_the_limits(lines: list[str], most: int, size: int) -> None:
    text = "\n".join(lines)
    for cut, from_start in ((truncate_head, True), (truncate_tail, False)):
        kept = cut(text, max_lines=most, max_bytes=size)
        assert len(kept.content.encode()) <= size
        assert kept.content == text if kept.by is None else kept.output_lines <= most
        if kept.by is not None and not kept.last_line_partial and kept.output_lines:
            shown = kept.content.split("\n")
            all_lines = text.split("\n")[: -1 if text.endswith("\n") else None]
            assert shown == (all_lines[: len(shown)] if from_start else all_lines[-len(shown) :])
