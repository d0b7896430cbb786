"""`edit`: replaces exact pieces of a file; what is not replaced keeps its bytes, its line ends included.

Source: Pi 1.6.0, tool `edit`.
"""

import json

from pi_loop.abort import AbortSignal
from pi_loop.events import ToolResult
from pi_loop.tools.diffs import describe_change
from pi_loop.tools.replacements import Edit, apply_edits, splice, to_line_feeds
from pi_loop.tools.results import schema, string, text_argument, text_result
from pi_loop.tools.workspace import ToolError, Workspace, in_thread, regular_file
from pi_loop.tools.writing import write_whole
from pi_loop.types import OnUpdate, Tool
from pi_sessions.messages import JsonObject

_BOM = "\ufeff"


def edit_tool(workspace: Workspace) -> Tool:
    """Make the tool `edit`."""

    async def execute(call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: OnUpdate) -> ToolResult:
        path = text_argument(args, "path")
        edits = given_edits(args)
        absolute = workspace.resolve(path)
        async with workspace.changing(absolute, signal):
            details = await in_thread(edit_file, absolute, path, edits)
        return text_result(f"Successfully replaced {len(edits)} block(s) in {path}.", details)

    replacement = schema(
        ["oldText", "newText"],
        oldText=string(
            "Exact text for one targeted replacement. It must be unique in the original file and must not overlap "
            "with any other edits[].oldText in the same call."
        ),
        newText=string("Replacement text for this targeted edit."),
    )
    edits_schema: JsonObject = {
        "type": "array",
        "items": replacement,
        "description": (
            "One or more targeted replacements. Each edit is matched against the original file, not incrementally. "
            "Do not include overlapping or nested edits. If two changes touch the same block or nearby lines, merge "
            "them into one edit instead."
        ),
    }
    return Tool(
        name="edit",
        label="edit",
        description=(
            "Edit a single file using exact text replacement. Every edits[].oldText must match a unique, "
            "non-overlapping region of the original file. If two changes affect the same block or nearby lines, merge "
            "them into one edit instead of emitting overlapping edits. Do not include large unchanged regions just to "
            "connect distant changes."
        ),
        parameters=schema(
            ["path", "edits"], path=string("Path to the file to edit (relative or absolute)"), edits=edits_schema
        ),
        execute=execute,
        prepare_arguments=prepare_edits,
    )


def prepare_edits(args: JsonObject) -> JsonObject:
    """Read the forms some models use: edits as JSON text, one edit alone, `oldText` and `newText` beside the path."""
    prepared = dict(args)
    edits = prepared.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except ValueError:
            return args
    if _is_edit(edits):
        edits = [edits]
    if _is_edit(prepared):
        single = {"oldText": prepared.pop("oldText"), "newText": prepared.pop("newText")}
        edits = [*(edits if isinstance(edits, list) else []), single]
    if isinstance(edits, list):
        prepared["edits"] = edits
    return prepared


def edit_file(absolute: str, path: str, edits: list[Edit]) -> JsonObject:
    """Edit a file; blocking.

    Returns:
        The change for people and programs: `diff`, `patch`, `firstChangedLine`.

    Raises:
        ToolError: the file cannot be read, or an edit does not fit it; nothing was written.
        OSError: the system refused to write it; it is as it was.
    """
    details, content = planned_edit(absolute, path, edits)
    write_whole(absolute, path, content)
    return details


def planned_edit(absolute: str, path: str, edits: list[Edit]) -> tuple[JsonObject, bytes]:
    """Return what an edit would change, and the file as it would be; blocking, nothing is written.

    Raises:
        ToolError: the file cannot be read, or an edit does not fit it.
    """
    regular_file(absolute, path)
    with open(absolute, "rb") as file:
        raw = file.read()
    text = raw.decode("utf-8", "surrogateescape")
    bom = _BOM if text.startswith(_BOM) else ""
    content = text.removeprefix(_BOM)
    base = to_line_feeds(content)
    try:
        changed, replacements = apply_edits(base, edits, path)
    except ValueError as error:
        raise ToolError(str(error)) from error
    details = describe_change(path, base, changed)
    final = changed if content == base else splice(content, replacements)
    # Bytes that are no UTF-8 and were not touched go back as they came.
    return details, (bom + final).encode("utf-8", "surrogateescape")


def given_edits(args: JsonObject) -> list[Edit]:
    """Return the edits of a call.

    Raises:
        ToolError: there are none.
    """
    given = args.get("edits")
    listed = given if isinstance(given, list) else []
    edits = [Edit(str(one["oldText"]), _storable(str(one["newText"]))) for one in listed if isinstance(one, dict)]
    if not edits:
        raise ToolError("Edit tool input is invalid. edits must contain at least one replacement.")
    return edits


def _storable(text: str) -> str:
    """Return text without lone surrogates, which a model may send and no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_edit(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("oldText"), str) and isinstance(value.get("newText"), str)
