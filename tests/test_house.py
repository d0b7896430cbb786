"""The rules of the house that no other tool checks: who may import whom, and who may touch the outside world."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "pi_sessions": ROOT / "pi_sessions",
    "pi_loop": ROOT / "pi_loop",
    "pi_session_cli": ROOT / "cli" / "pi_session_cli",
}
BELOW = {"pi_sessions": set(), "pi_loop": {"pi_sessions"}, "pi_session_cli": {"pi_sessions", "pi_loop"}}
NOT_IN_THE_STORE = {"asyncio", "anyio", "httpx", "rich", "typer", "socket", "urllib", "subprocess", "pi_loop"}
STORE_MODULES = {
    "store",
    "base",
    "connection",
    "forest",
    "appending",
    "branching",
    "importing",
    "operation_log",
    "reading",
    "runs",
    "summary_writes",
}
OUTSIDE_WORLD = {"environ", "getenv", "exit", "_exit"}


def modules(package: str) -> list[Path]:
    return sorted(PACKAGES[package].rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Yield the full names a module imports, those only for type checkers left out."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for body in node.body
        for inner in ast.walk(body)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    allowed = BELOW[package] | {package}
    for path in modules(package):
        ours = {name.split(".")[0] for name in imported(path)} & set(PACKAGES)
        assert ours <= allowed, f"{name_of(path)} imports {sorted(ours - allowed)}"


def test_the_store_needs_no_network_no_event_loop_and_no_terminal() -> None:
    for path in modules("pi_sessions"):
        found = {name.split(".")[0] for name in imported(path)} & NOT_IN_THE_STORE
        assert not found, f"{name_of(path)} imports {sorted(found)}"


def test_only_the_runner_joins_loop_and_store() -> None:
    """The runner and its parts, `runner_*.py`; of the rest, nothing needs a store even for its types."""
    for path in modules("pi_loop"):
        if path.parent == PACKAGES["pi_loop"] and path.stem.split("_")[0] == "runner":
            continue
        found = {name.split(".")[1] for name in imported(path) if name.startswith("pi_sessions.")} & STORE_MODULES
        assert not found, f"{name_of(path)} imports the store: {sorted(found)}"


@pytest.mark.parametrize("package", ["pi_sessions", "pi_loop"])
def test_only_the_command_line_reads_the_environment_prints_or_exits(package: str) -> None:
    for path in modules(package):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "sys"):
                assert node.attr not in OUTSIDE_WORLD, f"{name_of(path)}:{node.lineno} uses {node.value.id}.{node.attr}"
            is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            assert not is_print or path.name == "trace.py", f"{name_of(path)}:{getattr(node, 'lineno', 0)} prints"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is_for(package: str) -> None:
    for path in modules(package):
        text = path.read_text("utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{name_of(path)} has no docstring"


def test_no_module_hides_another_packages_name() -> None:
    taken = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert taken & set(sys.stdlib_module_names) == set()
