"""Rules for labels, names, settings and other handles' entries, which stand elsewhere in our results than in Pi's.

Both results are compared without them, and they themselves by what they say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pi_sessions.formats.derived import FACT_TYPES
from tests.conformance.session_compare import differences, records_of
from tests.conformance.session_replay import Replay
from tests.conformance.session_rules import Refused

Json = Any


def without(snapshot: Json, ids: Collection[str]) -> Json:
    """Return a snapshot without some entries: their children hang on the nearest entry above that is left."""
    children = snapshot["tree"]["children"]
    parents = {child: parent for parent, below in children.items() for child in below}

    def above(entry_id: str | None) -> str | None:
        while entry_id in ids:
            entry_id = parents.get(entry_id or "")
        return entry_id

    kept: dict[str, set[str]] = {}
    roots = {root for root in snapshot["tree"]["roots"] if root not in ids}
    for child in parents:
        if child not in ids:
            parent = above(parents[child])
            if parent is None:
                roots.add(child)
            else:
                kept.setdefault(parent, set()).add(child)
    gone = len({*parents, *snapshot["tree"]["roots"]} & set(ids))
    return {
        **snapshot,
        "entry_count": snapshot["entry_count"] - gone,
        "distinct_ids": snapshot["distinct_ids"] - gone,
        "leaf": above(snapshot["leaf"]),
        "branch_leaf_to_root": [one for one in snapshot["branch_leaf_to_root"] if one not in ids],
        "tree": {"roots": sorted(roots), "children": {name: sorted(below) for name, below in kept.items()}},
        "context_entries": [one for one in snapshot["context_entries"] if one not in ids],
    }


def _core_header(header: Json) -> Json:
    names = ("type", "version", "id", "timestamp", "cwd", "parentSession")
    return {name: value for name, value in header.items() if name in names}


def labels_of_a_copy(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A copy sees labels where they were set; without label entries it is what Pi's copy is, header additions aside."""
    if "error" in step or isinstance(ours, Refused) or not _can_be_stripped(step["op"], ours):
        return None
    made = [one for one in replay.case["steps"] if (one.get("args") or {}).get("into") == step["on"]]
    made = [one for one in made if one["at"] <= step["at"] and "result" in one]
    if not made:
        return None
    recorded = step["result"]
    if step["op"] == "leaf":
        parents = {line["id"]: line["parentId"] for line in made[-1]["result"]["entries"] if line["type"] == "label"}
        leaf = recorded["leaf"]
        while leaf in parents:
            leaf = parents[leaf]
        return ours if leaf == ours["leaf"] and recorded["leaf"] in parents else None
    written_again = {line["id"] for line in made[-1]["result"]["entries"] if line["type"] == "label"}
    handle = replay.handle(step["on"])
    own = {entry.id for entry in replay.store.entries(handle.session_id) if entry.type == "label"}
    if step["op"] == "entries":
        return recorded - len(written_again) + len(own - _recorded_later(replay, step)) if own else None
    theirs = stripped(step["op"], recorded, written_again | own)
    origin = replay.store.session(handle.session_id).origin
    if step["op"] == "snapshot" and theirs["session_name"] is None and origin is not None:
        theirs["session_name"] = replay.store.session(origin).name
    mine = stripped(step["op"], ours, own)
    return ours if not differences(mine, theirs) else None


def _recorded_later(replay: Replay, step: Json) -> set[str]:
    """Return the ids of labels that steps set on a copy itself; both Pi and we count those."""
    steps = replay.case["steps"]
    return {
        one["result"] for one in steps if one["op"] == "set_label" and one.get("on") == step["on"] and "result" in one
    }


def _can_be_stripped(op: str, result: Json) -> bool:
    return op in ("leaf", "entries", "get_branch", "session_file", "type_counts") or (
        op == "snapshot" and "children" in result["tree"]
    )


def stripped(op: str, result: Json, ids: Collection[str]) -> Json:
    """Return the result of a look without some entries, and with the header fields Pi knows alone."""
    if op == "snapshot":
        left = without(result, ids)
        return {**left, "header": _core_header(left["header"])}
    if op == "get_branch":
        return [one for one in result if one not in ids]
    if op == "session_file":
        header, *lines = [one for one in records_of(result["text"]) if one != ""]
        return {**result, "text": [_core_header(header), *_unlabelled(lines)]}
    if op == "type_counts":
        return {kind: count for kind, count in result.items() if kind != "label"}
    return None


def facts_in_exports(replay: Replay, step: Json, ours: Json) -> Json | None:
    """An export or copy carries the path as Pi's, and labels, name, parent and unknown header fields beside it."""
    if "error" in step or isinstance(ours, Refused) or step["op"] not in ("fork", "clone", "export_jsonl"):
        return None
    recorded = step["result"]
    if step["op"] == "export_jsonl":
        header, *lines = [one for one in records_of(ours) if one != ""]
        recorded_header, *recorded_lines = [one for one in records_of(recorded) if one != ""]
        handle = replay.handle(step["on"])
    else:
        header, lines = ours["header"], ours["entries"]
        recorded_header, recorded_lines = recorded["header"], recorded["entries"]
        handle = replay.handle(step["args"]["into"])
    facts = [line for line in lines if line["type"] in FACT_TYPES and len(line["id"]) == 16]
    told = {line["targetId"]: line["label"] for line in facts if line["type"] == "label"}
    written = {line["id"] for line in lines}
    labels = replay.store.labels(handle.session_id).values()
    wanted = {label.entry_id: label.text for label in labels if label.entry_id in written}
    session = replay.store.session(handle.session_id)
    names = [line["name"] for line in lines if line["type"] == "session_info"]
    extra = {name: value for name, value in header.items() if name not in recorded_header}
    allowed = {**session.header, "parentSession": replay.shown(replay.header(session).get("parentSession"))}
    right = (
        not differences(_unlabelled([one for one in lines if one not in facts]), _unlabelled(recorded_lines))
        and told == wanted
        and (names[-1] if names else None) == session.name
        and not differences({name: header[name] for name in recorded_header}, recorded_header)
        and all(allowed.get(name) == value for name, value in extra.items())
        and (
            step["op"] == "export_jsonl"
            or (ours["selectedText"], ours["written"]) == (recorded["selectedText"], handle.file is not None)
        )
    )
    return ours if right else None


def _unlabelled(lines: Iterable[Json]) -> list[Json]:
    lines = list(lines)
    lifted = {line["id"]: line["parentId"] for line in lines if line["type"] == "label"}
    kept = []
    for line in lines:
        parent = line["parentId"]
        while parent in lifted:
            parent = lifted[parent]
        if line["id"] not in lifted:
            kept.append({**line, "parentId": parent})
    return kept


def nothing_to_export(_replay: Replay, step: Json, _ours: Json) -> Json | None:
    """A path without entries is no export."""
    if step["op"] != "export_jsonl" or "error" in step:
        return None
    return Refused("nothing_to_export") if step["result"].count("\n") == 1 else None


def header_settings(replay: Replay, step: Json, ours: Json) -> Json | None:
    """The model and thinking level in a version-1 header are the first entries; everything else is as in Pi."""
    handle = replay.handles.get(step.get("on") or "")
    looks = ("open", "snapshot", "entries", "type_counts", "get_branch")
    if handle is None or "error" in step or step["op"] not in looks:
        return None
    header = replay.store.session(handle.session_id).header
    made = [one for one in replay.store.entries(handle.session_id) if len(one.id) == 16 and one.parent_id is None]
    if not made or made[0].type not in ("model_change", "thinking_level_change"):
        return None
    entries = [entry for entry in replay.store.entries(handle.session_id) if len(entry.id) == 16]
    ids = {entry.id for entry in entries if entry.type in ("model_change", "thinking_level_change")}
    recorded = step["result"]
    if step["op"] == "open":
        return {**recorded, "entries": recorded["entries"] + len(ids)}
    if step["op"] == "entries":
        return recorded + len(ids)
    if step["op"] == "type_counts":
        kinds = [entry.type for entry in entries if entry.id in ids]
        return recorded | {kind: recorded.get(kind, 0) + kinds.count(kind) for kind in kinds}
    if step["op"] == "get_branch":
        return [*(entry.id for entry in entries if entry.id in ids), *recorded]
    if "children" not in ours["tree"]:
        return None
    context = dict(recorded["context"])
    changed = any(one.type == "thinking_level_change" and one.id not in ids for one in replay.view(handle).entries)
    if not changed:
        context["thinkingLevel"] = header.get("thinkingLevel") or "off"
    if context["model"] is None and header.get("provider") and header.get("modelId"):
        context["model"] = {"provider": header["provider"], "modelId": header["modelId"]}
    told = {**recorded, "context": context}
    return ours if not differences(without(ours, ids), without(told, ())) else None


def other_handles_entries(replay: Replay, step: Json, ours: Json) -> Json | None:
    """A handle sees what another one has appended, and keeps its own leaf, path and context."""
    handle, recorded = replay.handles.get(step.get("on") or ""), step.get("result")
    if step["op"] != "snapshot" or handle is None or "children" not in ours["tree"]:
        return None
    if not any(one is not handle and one.session_id == handle.session_id for one in replay.handles.values()):
        return None
    seen = [one.id for one in replay.store.entries(handle.session_id)]
    theirs = {*recorded["tree"]["roots"], *(id for below in recorded["tree"]["children"].values() for id in below)}
    mine = without(ours, set(seen) - theirs)
    return ours if len(seen) == ours["entry_count"] and not differences(mine, without(recorded, ())) else None
