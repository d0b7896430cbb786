"""Differences from Pi that follow from one decision and so meet any case: each rule says what ours must give instead.

A rule gets the replay, the step and our result, and returns the result that is right for us, or None when the step is
not its business or ours is not what the decision leads to (the step then fails). Rules about labels, names and settings
are in `session_fact_rules`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pi_sessions.branch_summary import prepare_branch_entries
from pi_sessions.errors import PiSessionError
from pi_sessions.formats.derived import FACT_TYPES
from pi_sessions.times import parse_time
from pi_sessions.tokens import estimate_tokens
from tests.conformance import session_pure as pure
from tests.conformance.session_compare import records_of
from tests.conformance.session_replay import NEW_ID, Handle, Replay

Json = Any


@dataclass(frozen=True)
class Refused:
    """The operation was refused with an error of this code."""

    code: str


@dataclass(frozen=True)
class Rule:
    """One decision.

    Attributes:
        name: Short name of the decision.
        pi: What Pi does.
        ours: What we do.
        why: Why that is better for the person.
        expect: Returns what ours must be, or None.
    """

    name: str
    pi: str
    ours: str
    why: str
    expect: Callable[[Replay, Json, Json], Json | None]


def _file(replay: Replay, step: Json) -> str | None:
    file = (step.get("args") or {}).get("file")
    return None if file is None else replay.folder.name_of(file)


def _changed_outside(replay: Replay, file: str) -> bool:
    by = ("write_file", "delete_file", "replace_file_by_folder")
    return any(one["op"] in by and _file(replay, one) == file for one in replay.case["steps"])


def source_untouched(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A file that was opened, copied or exported still holds exactly what its input gave."""
    file = _file(replay, step)
    content = replay.folder.inputs.get(file or "")
    if content is None or _changed_outside(replay, file or ""):
        return None
    text = content.decode(errors="replace")
    answers = {
        "read_file": {"exists": True, "text": replay.shown(text)},
        "line_count": text.count("\n"),
        "same_bytes": True,
        "exists": True,
    }
    return answers.get(step["op"])


def _handle(replay: Replay, step: Json) -> Handle | None:
    return replay.handles.get(step.get("on") or "")


def saved_at_once(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A session is saved before its first message, with every entry that the steps appended to it."""
    recorded, handle = step.get("result"), _handle(replay, step)
    if (
        step["op"] in ("fork", "clone")
        and isinstance(recorded, dict)
        and handle is not None
        and handle.file is not None
    ):
        return {**recorded, "written": True} if not recorded["written"] else None
    file = _file(replay, step)
    if file in replay.folder.kept and step["op"] in ("exists", "read_file"):
        return _kept_file(replay, step, ours, file)
    if step["op"] == "list_files":
        return _with_kept_files(replay, step)
    if handle is None or handle.file is None:
        return None
    if step["op"] == "is_saved" and recorded is False:
        return True
    if step["op"] != "session_file" or recorded.get("exists") or not ours.get("exists"):
        return None
    header, *lines = [line for line in records_of(ours["text"]) if line != ""]
    told = header["type"] == "session" and os.path.basename(handle.file) == ours["name"]
    return ours if told and [line["id"] for line in lines] == _appended_ids(replay, step) else None


def _kept_file(replay: Replay, step: Json, ours: Json, file: str) -> Json | None:
    if step["op"] == "exists":
        return True
    if step["result"]["exists"] or not ours["exists"]:
        return None
    lines = [line for line in records_of(ours["text"]) if line != ""]
    entries = replay.store.entries(replay.folder.kept[file])
    return ours if [line["id"] for line in lines[1:]] == [entry.id for entry in entries] else None


def _with_kept_files(replay: Replay, step: Json) -> Json:
    """Return the recorded list with the files that Pi has not made yet: a header and a line for each entry."""
    names = {one["name"] for one in step["result"]}
    unsaved = [
        {"name": name, "lines": 1 + len(replay.store.entries(session_id))}
        for name, session_id in replay.folder.kept.items()
        if name not in names and "/" not in name
    ]
    return sorted([*step["result"], *unsaved], key=lambda one: one["name"])


def _appended_ids(replay: Replay, step: Json) -> list[str]:
    """Return the ids that the case records for the appends to a step's session before it."""
    ids: list[str] = []
    for one in replay.case["steps"]:
        if one is step:
            break
        if one.get("on") == step["on"]:
            if one["op"] in ("create", "create_in_memory"):
                ids = []
            elif one["op"].startswith(("append_", "set_", "branch_with_")) and isinstance(one.get("result"), str):
                ids.append(one["result"])
    return ids


def unsaved_can_be_cloned(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A session without a message is cloned like any other: all of its path, under a new id."""
    if step["op"] != "clone" or "error" not in step or isinstance(ours, Refused):
        return None
    source = _handle(replay, step)
    if source is None or not source.leaf or ours["header"]["id"] != NEW_ID or not ours["written"]:
        return None
    ids = [line["id"] for line in ours["entries"]]
    return ours if ids == [entry.id for entry in replay.store.path(source.session_id, at=source.leaf)] else None


def directory_itself(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Sessions are found by the directory itself, not by a folder name made of it."""
    return step["args"]["cwd"] if step["op"] == "session_folder_name" else None


def not_pis_command(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Pi's own command line is not ours."""
    return Refused("error") if step["op"] == "cli" else None


def made_by_pis_command(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Files that only Pi's command line made are not there."""
    named = _file(replay, step)
    by_cli = any(one["op"] == "cli" and one["result"]["exit"] == 0 for one in replay.case["steps"])
    made = step["op"] == "exists" and step["result"] is True and named not in replay.folder.inputs
    return False if made and by_cli and named is not None and named.endswith(".html") else None


def no_html_page(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """There is no HTML page yet, and nothing is written when one is asked for."""
    return Refused("cannot") if step["op"] == "export_html" else None


def unknown_entry(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """An entry that does not exist is refused by name."""
    handle = _handle(replay, step)
    names = {
        "context_at": ("leaf",),
        "get_branch": ("id",),
        "get_children": ("id",),
        "collect_for_branch_summary": ("oldLeaf", "target"),
    }
    if handle is None or "error" in step or step["op"] not in names:
        return None
    given = [step["args"][name] for name in names[step["op"]]]
    known = {entry.id for entry in replay.store.entries(handle.session_id)}
    return Refused("entry_not_found") if any(one is not None and one not in known for one in given) else None


def estimate_after_compaction(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """After a compaction the context's size is estimated message by message, and marked as an estimate."""
    handle, recorded = _handle(replay, step), step.get("result")
    if step["op"] != "stats" or handle is None or not recorded or not (usage := recorded["contextUsage"]):
        return None
    if usage["tokens"] is not None:
        return None
    messages = pure.context_of(replay.view(handle), handle.leaf).messages
    tokens = sum(estimate_tokens(one.message) for one in messages)
    filled = {**usage, "tokens": tokens, "percent": tokens / usage["contextWindow"] * 100, "estimated": True}
    return {**recorded, "contextUsage": filled}


def always_returns(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A look at a file with a cycle ends: the path visits each entry at most once."""
    recorded = step.get("result")
    if step["op"] != "probe" or not str(recorded.get("outcome")).startswith("never returns"):
        return None
    path = ours.get("branch", [])
    content = replay.folder.on_disk(step["args"]["file"]) or b""
    lines = content.count(b"\n")
    return ours if ours["outcome"] == "returns" and len(set(path)) == len(path) < lines else None


def foreign_file_does_not_matter(replay: Replay, step: Json, ours: Json) -> Json | None:
    """An append that the file system refuses to Pi goes to the store like any other."""
    handle = _handle(replay, step)
    if handle is None or not str((step.get("error") or {}).get("kind")).startswith("Error:"):
        return None
    return ours if step["op"].startswith("append_") and ours == handle.leaf else None


def nothing_to_sum_up(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A branch without anything to sum up is left without a summary."""
    recorded = step.get("result")
    if step["op"] != "navigate" or not recorded or not (made := recorded["summaryEntry"]):
        return None
    if made["summary"] != "No content to summarize":
        return None
    return {**recorded, "summaryEntry": None, "leaf": made["parentId"]}


def no_entries_without_id(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Numbers, texts, arrays, `true` and `{}` are no entries."""
    file = _file(replay, step) if step["op"] == "open" else getattr(_handle(replay, step), "file", None)
    lines = records_of(replay.folder.inputs.get(file or "", b"").decode(errors="replace"))
    strange = sum(bool(one) or one == {} for one in lines if _is_value(one) and not (isinstance(one, dict) and one))
    recorded = step.get("result")
    if not strange or not recorded:
        return None
    if step["op"] == "open":
        return {**recorded, "entries": recorded["entries"] - strange}
    if step["op"] != "snapshot":
        return None
    return {
        **recorded,
        "entry_count": recorded["entry_count"] - strange,
        "distinct_ids": recorded["distinct_ids"] - 1,
        "tree": {**recorded["tree"], "roots": [root for root in recorded["tree"]["roots"] if root is not None]},
    }


def _is_value(line: Json) -> bool:
    """Whether a line was JSON: `records_of` leaves other lines as text, which no JSON text looks like here."""
    return not isinstance(line, str) or line.isalnum()


def all_shows_all(replay: Replay, step: Json, ours: Json) -> Json | None:
    """The filter `all` shows every entry, indented by the rules of the display."""
    handle = _handle(replay, step)
    args = step.get("args") or {}
    if step["op"] != "tree_view" or handle is None or args.get("filter") != "all" or args.get("search"):
        return None
    view = replay.view(handle)
    path = [entry.id for entry in view.path(handle.leaf)]
    tree = pure.tree_form(view)
    roots, children = tree["roots"], tree["children"]

    def ordered(ids: list[str]) -> list[str]:
        return sorted(ids, key=lambda one: one not in path)

    def rows(id: str, indent: int, one_of_several: bool) -> list[Json]:
        below = ordered(list(children.get(id, [])))
        several = len(below) > 1
        inner = indent + 1 if several or (one_of_several and indent > 0) else indent
        return [{"id": id, "indent": indent}, *(row for one in below for row in rows(one, inner, several))]

    several = len(roots) > 1
    shown = [row for root in ordered(list(roots)) for row in rows(root, int(several), several)]
    return {"rows": shown, "selected": handle.leaf or shown[-1]["id"], "active_path": path[::-1]}


# files


def newest_activity(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """The newest message decides which session is the most recent, not the time of its file."""
    args = step.get("args") or {}
    if step["op"] not in ("most_recent", "continue_recent") or args.get("folder") is not None:
        return None
    cwd = None if args.get("cwd") is None else os.path.normpath(args["cwd"])
    best: tuple[int, str, list[Json]] | None = None
    for name, content in replay.folder.inputs.items():
        lines = [one for one in records_of(content.decode(errors="replace")) if isinstance(one, dict)]
        if not lines or lines[0].get("type") != "session" or cwd not in (None, lines[0]["cwd"]):
            continue
        spoken = [(one.get("message") or {}) for one in lines[1:] if one["type"] == "message"]
        times = [parse_time(one.get("timestamp")) or 0 for one in spoken if one.get("role") in ("user", "assistant")]
        newest = max(times or [parse_time(lines[0]["timestamp"]) or 0])
        if best is None or newest > best[0]:
            best = (newest, name, lines)
    if best is None:
        return None
    if step["op"] == "most_recent":
        return best[1]
    header, *entries = best[2]
    names = [one["name"].strip() or None for one in entries if one["type"] == "session_info"]
    return {
        "file": best[1],
        "entries": len(entries),
        "leaf": entries[-1]["id"],
        "cwd": header["cwd"],
        "name": names[-1] if names else None,
    }


def _same_import(replay: Replay, step: Json) -> Json | None:
    """Return the first step that imported the same file."""
    for one in replay.case["steps"]:
        if one is step:
            return None
        if one["op"] == "import" and one["args"]["file"] == step["args"]["file"] and "result" in one:
            return one
    return None


def imported_once(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Importing a file again finds the session that is there."""
    if step["op"] != "import" or "error" in step:
        return None
    first = _same_import(replay, step)
    return None if first is None else {**step["result"], "file": first["result"]["file"]}


def import_without_directory(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A session whose directory is gone is imported; the directory matters when work goes on."""
    if step["op"] != "import" or (step.get("error") or {}).get("kind") != "MissingSessionCwdError":
        return None
    file = step["args"]["file"]
    header = json.loads(replay.folder.inputs[replay.folder.name_of(file)].splitlines()[0])
    return {"file": f"$DIR/store/{os.path.basename(file)}", "id": header["id"], "cwd": replay.shown(header["cwd"])}


def no_stray_copies(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Neither importing again nor a refused import leaves a copy."""
    if step["op"] != "list_folder":
        return None
    stray = set()
    for one in replay.case["steps"]:
        if one is step:
            break
        if one["op"] == "import" and "error" in one:
            stray.add(os.path.basename(one["args"]["file"]))
        elif one["op"] == "import" and (first := _same_import(replay, one)):
            stray |= {os.path.basename(one["result"]["file"])} - {os.path.basename(first["result"]["file"])}
    kept = {os.path.basename(name) for name in replay.folder.kept}
    return [name for name in step["result"] if name not in stray or name in kept]


def nothing_to_open(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A missing or empty file is refused, and nothing comes to be in its place."""
    refused = {}
    for one in replay.case["steps"]:
        if one["op"] == "open":
            is_new = "error" not in one and one["result"]["id"] == NEW_ID
            refused[one["on"]] = _file(replay, one) if is_new else None
        if one is step:
            break
    if step["op"] == "open":
        return Refused("source") if refused.get(step["on"]) else None
    if refused.get(step.get("on")) and step.get("on") not in replay.handles:
        return Refused("session_not_found")
    file = _file(replay, step)
    if file is None or file not in refused.values():
        return None
    content = replay.folder.inputs.get(file)
    return {"exists": content is not None, "line_count": (content or b"").count(b"\n")}.get(step["op"])


def mark_skipped(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A byte order mark is left out and every record behind it is kept."""
    if step["op"] != "open" or "error" not in step or isinstance(ours, Refused):
        return None
    content = replay.folder.inputs.get(_file(replay, step) or "", b"")
    if not content.startswith(b"\xef\xbb\xbf"):
        return None
    header, *entries = [json.loads(line) for line in content.decode("utf-8-sig").splitlines() if line.strip()]
    return {"id": header["id"], "cwd": header["cwd"], "entries": len(entries)}


def long_header_found(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A session is found by its id however long its header is."""
    if step["op"] != "find_by_id" or step["result"] is not None or not ours:
        return None
    first = replay.folder.inputs.get(ours, b"{}").splitlines()[0]
    return ours if json.loads(first).get("id") == step["args"]["id"] else None


# summaries


def files_of_all_left_behind(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """The file lists of a branch summary cover every entry left behind, whether its message fits or not."""
    handle, recorded = _handle(replay, step), step.get("result")
    if handle is None or not step["op"].startswith("prepare_branch_entries"):
        return None
    view, args = replay.view(handle), step["args"]
    if "entries" in args:
        chosen = [view.by_id()[one] for one in args["entries"]]
    else:
        path = view.path(args["to"])
        chosen = path[next(place for place, entry in enumerate(path) if entry.id == args["from"]) :]
    files = prepare_branch_entries(chosen, 0).file_ops
    if step["op"] == "prepare_branch_entries":
        return {**recorded, "readFiles": list(files.read_only), "modifiedFiles": list(files.modified)}
    return {**recorded, "read": len(files.read), "edited": len(files.edited), "written": len(files.written)}


def facts_are_nothing_new(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """Labels and names after a compaction give nothing to compact."""
    handle = _handle(replay, step)
    if handle is None or step["op"] not in ("prepare_compaction", "compact"):
        return None
    path = replay.store.path(handle.session_id, at=handle.leaf)
    kinds = [entry.type for entry in path if entry.type not in FACT_TYPES]
    if not kinds or kinds[-1] != "compaction" or path[-1].type == "compaction":
        return None
    return NOTHING if step["op"] == "prepare_compaction" else {"compacted": False}


def aborted_is_no_summary(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """An aborted answer is refused."""
    replies = (step.get("args") or {}).get("replies") or []
    aborted = step["op"] == "compact" and any(one.get("stopReason") == "aborted" for one in replies)
    return Refused("summary_aborted") if aborted and "error" not in step else None


def true_count_of_cut(_replay: Replay, step: Json, ours: Json) -> Json | None:
    """The count of cut characters is the true one where the cut moves off a surrogate pair: one more than Pi's."""
    if step["op"] != "serialize" or not isinstance(ours, str):
        return None
    mark = re.compile(r"\[\.\.\. (\d+) more characters truncated\]")
    counts = [int(found) for found in mark.findall(ours)]
    recorded = step["result"]
    if isinstance(recorded, dict):
        smaller = mark.sub(lambda found: f"[... {int(found[1]) - 1} more characters truncated]", ours)
        return ours if counts and pure.short_text(smaller) == recorded else None
    recorded_counts = [int(found) for found in mark.findall(recorded)]
    plain = mark.sub("", ours) == mark.sub("", recorded)
    return ours if plain and all(a - b in (0, 1) for a, b in zip(counts, recorded_counts, strict=True)) else None


def unclosed_quote(replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A quote that is not closed makes a phrase to the end."""
    if step["op"] != "search" or step["args"]["query"].count('"') % 2 == 0:
        return None
    try:
        return pure.search(replay.library, {**step["args"], "query": step["args"]["query"] + '"'})
    except PiSessionError:
        return None


class _Nothing:
    """Stands for a result of null, which a rule cannot return as None."""


NOTHING = _Nothing()
