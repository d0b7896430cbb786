"""The system prompt: who the model is here, its tools, the rules, and the instructions files of the project.

Files are looked for where Pi looks: in the folder of its settings, then from the root down to the working directory,
one per folder. Reading files is all that happens here; the same files give the same prompt.

Source: Pi 1.6.0, system prompt and context files. Differs in that the prompt names this program.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pi_loop.types import Tool

NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
PREAMBLE = (
    "You are a coding assistant working in a terminal through pi-session. Help users inspect files, run commands, and "
    "modify code."
)
_SNIPPETS = {
    "read": "Read file contents",
    "bash": "Execute bash commands (ls, grep, find, etc.)",
    "edit": "Make precise file edits with exact text replacement, including multiple disjoint edits in one call",
    "write": "Create or overwrite files",
    "grep": "Search file contents for patterns (respects .gitignore)",
    "find": "Find files by glob pattern (respects .gitignore)",
    "ls": "List directory contents",
}
_RULES = {
    "read": ("Use read to examine files instead of cat or sed.",),
    "edit": (
        "Use edit for targeted changes. Batch changes to one file in a single call.",
        "Each edits[].oldText must exactly and uniquely match the original file. Keep matches short and "
        "non-overlapping; merge nearby changes without including large unchanged regions.",
    ),
    "write": ("Use write only for new files or complete rewrites.",),
}
_ALWAYS = ("Be concise in your responses", "Show file paths clearly when working with files")


@dataclass(frozen=True, slots=True)
class ContextFile:
    """An instructions file."""

    path: str
    content: str


def context_files(cwd: str, settings_folders: Iterable[str] = ()) -> list[ContextFile]:
    """Read the instructions files for a working directory, the most general first.

    Args:
        cwd: The working directory; one that is gone has no files of its own, its parents may.
        settings_folders: Folders whose file counts everywhere.
    """
    folders = [*settings_folders]
    above = []
    folder = os.path.abspath(cwd)
    while True:
        above.append(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    found: dict[str, ContextFile] = {}
    for folder in [*folders, *reversed(above)]:
        file = _file_in(folder)
        if file is not None and file.path not in found:
            found[file.path] = file
    return list(found.values())


def system_prompt(cwd: str, tools: Sequence[Tool], files: Sequence[ContextFile], *, own: str | None = None) -> str:
    """Return the system prompt.

    Args:
        cwd: Told to the model.
        tools: Those it may call.
        files: Instructions of the project.
        own: Replaces who the model is and the rules.
    """
    names = [tool.name for tool in tools]
    parts = [own] if own else [PREAMBLE, _section("tools", _told(names)), _section("rules", _rules(names))]
    if files:
        instructions = [
            f'<project_instructions path="{file.path}">\n{file.content}\n</project_instructions>' for file in files
        ]
        told = "\n\n".join(["Project-specific instructions and guidelines:", *instructions])
        parts.append(_section("project_context", told))
    parts.append(_section("cwd", cwd))
    return "\n\n".join(parts)


def _section(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


def _told(names: list[str]) -> str:
    return "\n".join(f"- {name}: {_SNIPPETS[name]}" for name in names if name in _SNIPPETS) or "(none)"


def _rules(names: list[str]) -> str:
    searches = ("grep", "find", "ls")
    rules = []
    if "bash" in names and not any(name in names for name in searches):
        rules.append("Use bash for file operations like ls, rg, find")
    rules += [rule for name in names for rule in _RULES.get(name, ())]
    return "\n".join(f"- {rule}" for rule in (*rules, *_ALWAYS))


def _file_in(folder: str) -> ContextFile | None:
    for name in NAMES:
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        try:
            with open(path, encoding="utf-8-sig", errors="replace") as file:
                return ContextFile(path, file.read())
        except OSError:
            # One that cannot be read is as good as none; the next name may be readable.
            continue
    return None
