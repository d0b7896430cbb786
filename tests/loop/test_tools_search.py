"""The tools grep and find on real folders."""

import re
import subprocess
from pathlib import Path

import pytest

from pi_loop.tools.searching import glob_expression
from tests.loop.tool_world import ToolWorld, details, told


@pytest.fixture
def world(tmp_path: Path) -> ToolWorld:
    world = ToolWorld(tmp_path / "work")
    world.file("a.py", "import os\nprint(os.name)\n# the end\n")
    world.file("src/b.ts", "const name = 1;\n")
    world.file("src/deep/c.ts", "let x = 'NAME';\n")
    world.file("node_modules/m.js", "name\n")
    return world


def test_grep_shows_file_and_line(world: ToolWorld) -> None:
    assert world.text("grep", pattern="name") == "a.py:2: print(os.name)\nsrc/b.ts:1: const name = 1;"
    assert world.text("grep", pattern="name", path="a.py") == "a.py:2: print(os.name)"
    assert world.text("grep", pattern="nothing here") == "No matches found"


def test_grep_options(world: ToolWorld) -> None:
    assert "src/deep/c.ts:1" in world.text("grep", pattern="name", ignoreCase=True)
    assert world.text("grep", pattern="os.name)", literal=True) == "a.py:2: print(os.name)"
    assert world.text("grep", pattern="name", glob="*.ts") == "src/b.ts:1: const name = 1;"
    assert world.text("grep", pattern="name", glob="src/*.ts") == "src/b.ts:1: const name = 1;"
    assert world.text("grep", pattern="name", glob="!*.ts") == "a.py:2: print(os.name)"
    assert (
        world.text("grep", pattern="print", context=1) == "a.py-1- import os\na.py:2: print(os.name)\na.py-3- # the end"
    )


def test_grep_says_what_it_left_out(world: ToolWorld) -> None:
    world.file("many.txt", "hit\n" * 150)
    outcome = world.call("grep", pattern="hit")
    assert "[100 matches limit reached. Use limit=200 for more, or refine pattern]" in told(outcome.result)
    assert details(outcome.result)["matchLimitReached"] == 100
    assert told(outcome.result).count(": hit") == 100
    assert "limit reached" not in world.text("grep", pattern="hit", limit=150)
    world.file("wide.txt", "wide" + "x" * 900)
    assert "... [truncated]" in world.text("grep", pattern="wide")


def test_grep_skips_what_is_no_text(world: ToolWorld) -> None:
    world.file("binary", b"\0name\n")
    (world.folder / "loop").symlink_to(world.folder)
    assert "binary" not in world.text("grep", pattern="name")
    assert "loop" not in world.text("grep", pattern="name")


def test_a_bad_pattern_is_an_error_of_the_call(world: ToolWorld) -> None:
    assert world.error("grep", pattern="(").startswith("Invalid pattern: ")
    assert "Path not found" in world.error("grep", pattern="x", path="zzz")
    assert "outside" in world.error("grep", pattern="x", path="..")
    assert "Not a directory" in world.error("find", pattern="*", path="a.py")


def test_a_pattern_that_takes_for_ever_can_be_aborted(world: ToolWorld) -> None:
    world.file("trap.txt", "a" * 60 + "!")
    started = world.folder / "started"
    started.touch()
    outcome, took = world.aborted_when(started.exists, "grep", pattern="(a+)+$")
    assert (outcome.is_error, told(outcome.result)) == (True, "Operation aborted")
    assert took < 1


def test_a_module_of_the_project_is_not_taken_for_ours(world: ToolWorld) -> None:
    world.file("json.py", "raise SystemExit('gotcha')")
    world.file("pi_loop/__init__.py", "raise SystemExit('gotcha')")
    assert "a.py:2" in world.text("grep", pattern="name")


def test_find_matches_names_or_paths(world: ToolWorld) -> None:
    assert world.text("find", pattern="*.ts") == "src/b.ts\nsrc/deep/c.ts"
    assert world.text("find", pattern="src/**/*.ts") == "src/b.ts\nsrc/deep/c.ts"
    assert world.text("find", pattern="src/*") == "src/b.ts\nsrc/deep/"
    assert world.text("find", pattern="*.{py,js}") == "a.py"
    assert world.text("find", pattern="B.*") == "No files found matching pattern"
    assert world.text("find", pattern="zzz") == "No files found matching pattern"
    limited = world.call("find", pattern="*", limit=1)
    assert "[1 results limit reached. Use limit=2 for more, or refine pattern]" in told(limited.result)


def test_ignored_files_are_those_git_ignores(world: ToolWorld) -> None:
    subprocess.run(["git", "init", "-q"], cwd=world.folder, check=True)
    world.file(".gitignore", "*.log\n/build/\n!keep.log\n")
    world.file("sub/.gitignore", "local\n!b.log\n")
    for name in ("a.log", "keep.log", "build/x", "sub/build/y", "sub/local", "sub/b.log", "local", "sub/plain"):
        world.file(name, "mark\n")
    found = {line.partition(":")[0] for line in world.text("grep", pattern="mark").split("\n")}
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=world.folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    marked = {name for name in listed if (world.folder / name).read_text() == "mark\n"}
    assert found == marked
    inside = {line.partition(":")[0] for line in world.text("grep", pattern="mark", path="sub").split("\n")}
    assert {f"sub/{name}" for name in inside} == {name for name in marked if name.startswith("sub/")}


@pytest.mark.parametrize(
    ("glob", "fits", "not_these"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "other/a"]),
        ("[!a-c]?.{js,ts}", ["dx.js", "zz.ts"], ["ax.js", "d.js"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab(c).txt"]),
        ("[", ["["], ["a"]),
        ("{", ["{"], [""]),
    ],
)
def test_globs(glob: str, fits: list[str], not_these: list[str]) -> None:
    expression = re.compile(glob_expression(glob))
    assert all(expression.fullmatch(path) for path in fits)
    assert not any(expression.fullmatch(path) for path in not_these)
