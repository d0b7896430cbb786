"""The operations of the case format by name: what each does with a `Replay`, and how one step is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pi_sessions.base import check_session_id
from tests.conformance import session_lists as lists
from tests.conformance import session_pure as pure
from tests.conformance.session_replay import NEW_ID, Handle, Replay

Json = Any

Operation = Callable[[Replay, Json, "str | None"], Json]

WORKING_DIRECTORY = "<working directory>"


class UnknownOperationError(Exception):
    """A case names an operation the replay does not know."""


def play(replay: Replay, step: Json) -> Json:
    """Play one step and return its result as the case would show it.

    Raises:
        PiSessionError: the operation was refused.
        UnknownOperationError: no such operation.
    """
    replay.at(step["at"])
    op, on, args = step["op"], step.get("on"), step.get("args") or {}
    if op in OPERATIONS:
        result = OPERATIONS[op](replay, args, on)
    elif op in LOOKS:
        result = LOOKS[op](replay, replay.handle(on), args)
    else:
        try:
            result = pure.stateless(op, args)
        except KeyError as error:
            raise UnknownOperationError(op) from error
    return replay.shown(result)


def _masked(replay: Replay, handle: Handle, args: Json) -> Json:
    shown = pure.snapshot(replay.view(handle), digest=bool(args.get("digest")))
    return {**shown, "header": {**shown["header"], "id": NEW_ID, "cwd": WORKING_DIRECTORY}}


def _context_at(replay: Replay, handle: Handle, args: Json) -> Json:
    return pure.context_form(replay.store.context(handle.session_id, at=args["leaf"]))


def _branch(replay: Replay, handle: Handle, args: Json) -> Json:
    return [entry.id for entry in replay.store.path(handle.session_id, at=args["id"])]


def _children(replay: Replay, handle: Handle, args: Json) -> Json:
    return replay.store.children(handle.session_id, args["id"])


def _appending(kind: str, *names: str) -> Operation:
    return lambda replay, args, on: replay.append(on, kind, {name: args[name] for name in names if name in args})


def _validate_session_id(_replay: Replay, args: Json, _on: str | None) -> str:
    check_session_id(args["id"])
    return "valid"


def _viewed(look: Callable[..., Json]) -> Callable[[Replay, Handle, Json], Json]:
    return lambda replay, handle, args: look(replay.view(handle), args)


def _viewed_alone(look: Callable[[pure.View], Json]) -> Callable[[Replay, Handle, Json], Json]:
    return lambda replay, handle, _args: look(replay.view(handle))


def _snapshot(replay: Replay, handle: Handle, args: Json) -> Json:
    return pure.snapshot(replay.view(handle), digest=bool(args.get("digest")))


LOOKS: dict[str, Callable[[Replay, Handle, Json], Json]] = {
    "snapshot": _snapshot,
    "digest": lambda replay, handle, args: _snapshot(replay, handle, {**args, "digest": True}),
    "snapshot_without_id": _masked,
    "context_at": _context_at,
    "get_branch": _branch,
    "get_children": _children,
    "leaf": _viewed_alone(pure.leaf_form),
    "entries": lambda replay, handle, _args: len(replay.store.entries(handle.session_id)),
    "type_counts": _viewed_alone(pure.type_counts),
    "tree_view": _viewed(pure.tree_view),
    "prepare_compaction": _viewed(pure.prepare_form),
    "collect_for_branch_summary": _viewed(pure.collect_form),
    "prepare_branch_entries": _viewed(pure.branch_entries_form),
    "prepare_branch_entries_digest": _viewed(pure.branch_entries_digest),
    "stats": _viewed(pure.stats),
    "forkable_messages": _viewed_alone(pure.forkable_messages),
    "forkable_messages_count": lambda replay, handle, _args: len(pure.forkable_messages(replay.view(handle))),
    "last_assistant_text": _viewed_alone(pure.last_text),
    "export_jsonl": lambda replay, handle, _args: replay.export_text(handle),
    "is_saved": lambda _replay, handle, _args: handle.file is not None,
}

OPERATIONS: dict[str, Operation] = {
    "create": Replay.create,
    "create_in_memory": lambda replay, args, on: replay.create(args, on, in_memory=True),
    "open": Replay.open,
    "append_message": Replay.append_message,
    "append_model_change": _appending("model_change", "provider", "modelId"),
    "append_thinking_level": _appending("thinking_level_change", "thinkingLevel"),
    "append_usage": _appending("usage", "kind", "provider", "model", "usage", "note"),
    "append_compaction": Replay.append_compaction,
    "append_custom": _appending("custom", "customType", "data"),
    "append_custom_message": _appending("custom_message", "customType", "content", "display", "details"),
    "append_context_edit": Replay.append_context_edit,
    "set_session_name": Replay.set_session_name,
    "set_label": Replay.set_label,
    "move_leaf": Replay.move_leaf,
    "reset_leaf": Replay.reset_leaf,
    "branch_with_summary": Replay.branch_with_summary,
    "navigate": Replay.navigate,
    "compact": Replay.compact,
    "fork": Replay.fork,
    "clone": Replay.clone,
    "clone_digest": Replay.clone_digest,
    "fork_from": Replay.fork_from,
    "import": Replay.import_file,
    "read_file": Replay.read_file,
    "session_file": Replay.session_file,
    "exists": Replay.exists,
    "list_files": Replay.list_files,
    "list_folder": lambda replay, args, _on: replay.folder.names_in(args["folder"]),
    "line_count": lambda replay, args, _on: replay.lines_in(args["file"]),
    "line_ends": Replay.line_ends,
    "same_bytes": lambda replay, args, _on: replay.folder.same_bytes(args["file"]),
    "write_file": Replay.write_file,
    "delete_file": Replay.delete_file,
    "replace_file_by_folder": Replay.replace_file_by_folder,
    "export_html": Replay.export_html,
    "validate_session_id": _validate_session_id,
    **lists.OPERATIONS,
}
