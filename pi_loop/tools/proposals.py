"""What a call would do, whole, for the person who is asked about it: the command, the file, the diff.

Nothing is changed here, and nothing of a call is left out; how much of it is drawn at once is the terminal's business.

Source: ours; Pi 1.6.0 does not ask.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pi_loop.tools.edit import given_edits, planned_edit
from pi_loop.tools.workspace import ToolError, Workspace, os_error_text
from pi_sessions.messages import JsonObject

# A path may hold what no system takes, such as a null byte or half of a character.
_FAULTS = (ToolError, OSError, ValueError)
Kind = Literal["command", "content", "diff", "arguments"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that waits for a person's word.

    Args:
        title: What it would do, in a line.
        kind: What `text` is.
        text: The whole of it; as a model wrote it, so not safe for a terminal.
        fault: Why it would fail as things are; None when it would not.
    """

    title: str
    kind: Kind
    text: str
    fault: str | None = None


def proposal_of(workspace: Workspace, name: str, args: JsonObject) -> Proposal:
    """Return what a call would do; blocking, as files are looked at.

    Args:
        workspace: Where it would work.
        name: The tool.
        args: Its arguments.
    """
    maker = _MAKERS.get(name)
    proposal = None if maker is None else maker(workspace, args)
    return proposal or Proposal(name, "arguments", json.dumps(args, ensure_ascii=False, indent=2))


def _command(workspace: Workspace, args: JsonObject) -> Proposal | None:
    command, limit = args.get("command"), args.get("timeout")
    if not isinstance(command, str):
        return None
    until = "" if limit is None else f", for at most {limit} s"
    return Proposal(f"A shell command in {_quoted(workspace.root)}{until}", "command", command)


def _content(workspace: Workspace, args: JsonObject) -> Proposal | None:
    path, content = args.get("path"), args.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return None
    lines = content.count("\n") + (not content.endswith("\n"))
    size = f"{lines:,} {'line' if lines == 1 else 'lines'}" if content else "no content"
    try:
        state = os.stat(workspace.resolve(path))
    except FileNotFoundError:
        return Proposal(f"A new file {_file(workspace, path)} with {size}", "content", content)
    except _FAULTS as error:
        return Proposal(f"The file {_quoted(path)} with {size}", "content", content, _fault(error))
    title = f"{_file(workspace, path)}, now {state.st_size:,} bytes, would be replaced by {size}"
    return Proposal(title, "content", content)


def _diff(workspace: Workspace, args: JsonObject) -> Proposal | None:
    path = args.get("path")
    if not isinstance(path, str):
        return None
    try:
        edits = given_edits(args)
    except (ToolError, KeyError):
        return None
    try:
        details, _ = planned_edit(workspace.resolve(path), path, edits)
    except _FAULTS as error:
        told = [
            f"{sign}{line}"
            for edit in edits
            for sign, text in (("-", edit.old), ("+", edit.new))
            for line in text.split("\n")
        ]
        return Proposal(f"A change of {_quoted(path)}", "diff", "\n".join(told), _fault(error))
    return Proposal(f"A change of {_file(workspace, path)}", "diff", str(details["diff"]))


def _fault(error: Exception) -> str:
    return os_error_text(error) if isinstance(error, OSError) else str(error)


def _file(workspace: Workspace, path: str) -> str:
    """Return a file's name, with the one it really has where links lead elsewhere."""
    absolute = workspace.absolute(path)
    real = os.path.realpath(absolute)
    plain = os.path.join(os.path.realpath(workspace.root), os.path.relpath(absolute, workspace.root))
    return _quoted(path) if real == os.path.normpath(plain) else f"{_quoted(path)} (that is {_quoted(real)})"


def _quoted(path: str) -> str:
    return json.dumps(path, ensure_ascii=False)


_MAKERS: dict[str, Callable[[Workspace, JsonObject], Proposal | None]] = {
    "bash": _command,
    "write": _content,
    "edit": _diff,
}
