"""Makes the tools read, bash, edit, write, grep, find and ls, all working in one `Workspace`.

Which calls need a person's approval is decided in `approval`.
"""

from collections.abc import Callable, Iterable

from pi_loop.tools.bash import bash_tool
from pi_loop.tools.edit import edit_tool
from pi_loop.tools.ls import ls_tool
from pi_loop.tools.read import read_tool
from pi_loop.tools.search import find_tool, grep_tool
from pi_loop.tools.workspace import ToolError, Workspace
from pi_loop.tools.write import write_tool
from pi_loop.types import Tool
from pi_sessions.errors import UsageError

__all__ = ["ALL", "CHANGING", "READING", "ToolError", "Workspace", "chosen_names", "coding_tools"]

_MAKERS: dict[str, Callable[[Workspace], Tool]] = {
    "read": read_tool,
    "bash": bash_tool,
    "edit": edit_tool,
    "write": write_tool,
    "grep": grep_tool,
    "find": find_tool,
    "ls": ls_tool,
}
ALL = tuple(_MAKERS)
CHANGING = ("write", "edit", "bash")
READING = tuple(name for name in ALL if name not in CHANGING)


def chosen_names(text: str) -> tuple[str, ...]:
    """Return the tools a person names: `none`, `read` (those that change nothing), `all`, or a list with commas.

    A list that holds a single `read` is the group; the tool alone is `read,`.

    Raises:
        UsageError: there is no such tool.
    """
    groups = {"none": (), "read": READING, "all": ALL}
    if text in groups:
        return groups[text]
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = next((name for name in names if name not in ALL), None)
    if unknown is not None:
        raise UsageError(f"There is no tool {unknown}", hint=f"none, read, all, or some of {','.join(ALL)}")
    return names


def coding_tools(workspace: Workspace, names: Iterable[str] = ALL) -> list[Tool]:
    """Make tools.

    Args:
        workspace: Where they work.
        names: Which, in the order in which the model is told of them.
    """
    return [_MAKERS[name](workspace) for name in names]
