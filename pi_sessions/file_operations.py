"""Which files a conversation has read, written and edited, as its tool calls tell.

Pure. Summaries carry these lists on, so that files stay known when the calls that touched them are gone.

Source: Pi 1.6.0, summaries: file lists.
"""

from __future__ import annotations

import re

from pi_sessions.context import blocks_of
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pi_sessions.stored import JsonObject, StoredEntry

FILE_TOOLS = ("read", "write", "edit")
# Other agents' tools: what they do to a file, and the argument that names it.
_FOREIGN_TOOLS = {
    "Read": ("read", "file_path"),
    "Write": ("write", "file_path"),
    "Edit": ("edit", "file_path"),
    "MultiEdit": ("edit", "file_path"),
    "NotebookEdit": ("edit", "notebook_path"),
    "read_file": ("read", "file_path"),
    "write_file": ("write", "file_path"),
    "replace": ("edit", "file_path"),
}
_PATCH_START = "*** Begin Patch"
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)[ \t\r]*$", re.MULTILINE)


class FileOperations(Record):
    """Paths by what was done to them, each list sorted by UTF-16 units."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()

    @property
    def read_only(self) -> tuple[str, ...]:
        """Files that were read and not changed."""
        changed = {*self.written, *self.edited}
        return tuple(path for path in self.read if path not in changed)

    @property
    def modified(self) -> tuple[str, ...]:
        """Files that were written or edited."""
        return _sorted({*self.written, *self.edited})


def file_operations(messages: Iterable[JsonObject], *, carried: Sequence[StoredEntry] = ()) -> FileOperations:
    """Return the file operations of messages and of summaries made before.

    Args:
        messages: Calls of `read`, `write` and `edit` with a text `path` count, in answers and in the nested calls of
            tool results; and what stands for them with other agents (`Read`, `apply_patch`, ...).
        carried: Compaction or branch summary entries whose lists count too, unless a hook wrote them; their modified
            files count as edited.
    """
    found: dict[str, set[str]] = {tool: set() for tool in FILE_TOOLS}
    for entry in carried:
        details = entry.fields.get("details")
        if isinstance(details, dict) and not entry.fields.get("fromHook"):
            found["read"].update(_texts(details.get("readFiles")))
            found["edit"].update(_texts(details.get("modifiedFiles")))
    for message in messages:
        for tool, path in _file_calls(message):
            found[tool].add(path)
    return FileOperations(*(_sorted(found[tool]) for tool in FILE_TOOLS))


def file_section(operations: FileOperations) -> str:
    """Return the lists as the text that ends a summary, empty when there are none."""
    parts = []
    if operations.read_only:
        parts.append("<read-files>\n" + "\n".join(operations.read_only) + "\n</read-files>")
    if operations.modified:
        parts.append("<modified-files>\n" + "\n".join(operations.modified) + "\n</modified-files>")
    return "".join(f"\n\n{part}" for part in parts)


def _file_calls(message: JsonObject) -> Iterator[tuple[str, str]]:
    if message.get("role") == "assistant":
        content = message.get("content")
        calls = [block for block in blocks_of(content) if block.get("type") == "toolCall"]
    elif message.get("role") == "toolResult":
        nested = message.get("nestedCalls")
        calls = blocks_of(nested.get("calls")) if isinstance(nested, dict) else []
    else:
        return
    for call in calls:
        arguments = call.get("arguments")
        name = call.get("name")
        if not isinstance(arguments, dict) or not isinstance(name, str):
            continue
        path = arguments.get("path")
        if name in FILE_TOOLS and isinstance(path, str) and path:
            yield name, path
        elif name in _FOREIGN_TOOLS:
            tool, argument = _FOREIGN_TOOLS[name]
            path = arguments.get(argument)
            if isinstance(path, str) and path:
                yield tool, path
        elif name == "apply_patch" or name in ("shell", "exec_command", "local_shell"):
            yield from _patched(arguments)


def _patched(arguments: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield what a patch in a call's arguments does to which files."""
    for value in arguments.values():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if isinstance(text, str) and _PATCH_START in text:
                for done, path in _PATCHED.findall(text):
                    yield "write" if done == "Add" else "edit", path


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))
