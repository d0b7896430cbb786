"""The frame of all formats: detection, folders, any damage, and the way out and back for Claude Code and Codex."""

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import claude_code_writer, codex_writer
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.registry import FORMATS as KNOWN
from pi_sessions.formats.registry import find_sources, format_named, identify
from pi_sessions.formats.watching import Watcher
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.foreign_files import FORMATS, SAMPLES, context_of, read_all, read_as, take_in
from tests.sessions.pi_files import CASES, FIXTURES, check

CLAUDE = FORMATS / "claude-code"
CODEX = FORMATS / "codex"
# What is lost beside the entries of a path.
BESIDE_ENTRIES = (words.OFF_PATH, words.BRANCH_NAMES, words.ORIGINS, words.MARKED, words.CALLERS)
WRITERS = {"claude-code": claude_code_writer, "codex": codex_writer}
EVERY = {
    "claude-code": CLAUDE / "projects" / "-proj-bakery" / "5f1e0c2a-0000-4000-8000-00000000000a.jsonl",
    "codex": sorted((CODEX / "sessions").rglob("*.jsonl"))[0],
}


# --- detection ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [format.name for format in KNOWN])
def test_every_format_has_what_the_registry_asks_for(name: str, tmp_path: Path) -> None:
    format = format_named(name)
    assert format is not None
    assert format.importer
    assert all(Path(place).is_absolute() for place in format.places("/home/dev", {}))
    assert format.roots("/nowhere") == ()
    (tmp_path / "a.txt").write_bytes(b"plain text\n")
    assert format.detect(str(tmp_path / "a.txt"), b"plain text\n") is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (EVERY["claude-code"], "claude-code"),
        (EVERY["codex"], "codex"),
        (SAMPLES / "claude-code-reduced.jsonl", "claude-code"),
        (SAMPLES / "codex-reduced.jsonl", "codex"),
        (SAMPLES / "pi-v1-reduced.jsonl", "pi"),
        (SAMPLES / "pi-v2-hook-message.jsonl", "pi"),
        (next((CODEX / "archived_sessions").iterdir()), "codex"),
    ],
)
def test_a_file_is_known_by_its_content_not_by_its_name(path: Path, name: str, tmp_path: Path) -> None:
    renamed = tmp_path / "whatever.jsonl"
    renamed.write_bytes(path.read_bytes())
    found = identify(str(renamed))
    assert found.format is not None
    assert found.format.name == name


def test_what_is_no_session_is_refused_with_a_reason(tmp_path: Path) -> None:
    for name, content, reason in (("empty.jsonl", "", "is empty"), ("log.jsonl", "started\n", "no session file")):
        (tmp_path / name).write_text(content)
        found = identify(str(tmp_path / name))
        assert found.format is None
        assert reason in (found.reason or "")
    assert "does not exist" in (next(find_sources([str(tmp_path / "gone")])).reason or "")


def test_data_folders_of_tools_are_narrowed_and_companions_left_out(tmp_path: Path) -> None:
    home = tmp_path / ".claude"
    (home / "projects").mkdir(parents=True)
    (home / "history.jsonl").write_bytes((CLAUDE / "history.jsonl").read_bytes())
    (home / "debug.jsonl").write_text("{}\n")
    (home / "projects" / "a.jsonl").write_bytes(EVERY["claude-code"].read_bytes())
    assert [found.path for found in find_sources([str(home)])] == [str(home / "projects" / "a.jsonl")]
    found = [(Path(each.path).name[:7], each.format and each.format.name) for each in find_sources([str(CODEX)])]
    assert Counter(found) == Counter({("rollout", "codex"): 4})
    named = next(find_sources([str(home / "history.jsonl")]))
    assert (named.format, named.reason) == (None, f"{home / 'history.jsonl'} holds no conversation")


def test_a_path_named_twice_is_found_once() -> None:
    path = str(EVERY["codex"])
    assert len(list(find_sources([path, path, str(CODEX / "sessions" / "2026")]))) == 3


# --- watching -----------------------------------------------------------------------------------------------------


def test_a_look_tells_only_what_changed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    first = tmp_path / "sub" / "a.jsonl"
    first.write_text("1\n")
    watcher = Watcher([str(tmp_path), str(tmp_path / "later")])
    assert watcher.changed() == [str(first)]
    assert watcher.changed() == []
    with first.open("a") as file:
        file.write("2\n")
    second = tmp_path / "new" / "b.jsonl"
    second.parent.mkdir()
    second.write_text("1\n")
    assert set(watcher.changed()) == {str(first), str(second)}
    first.unlink()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "c.jsonl").write_text("1\n")
    assert watcher.changed() == [str(tmp_path / "later" / "c.jsonl")]
    assert watcher.changed() == []


# --- any damage ---------------------------------------------------------------------------------------------------


def facts_of(name: str, record: dict[str, Any]) -> list[str]:
    """Texts by which a record is known again in the stored entries."""
    if name == "codex":
        return [block["text"] for block in record["payload"].get("content") or []]
    content = (record.get("message") or {}).get("content") or []
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]


def telling(name: str) -> list[str]:
    """Lines whose texts appear nowhere else in the file."""
    if name == "codex":
        head = {"timestamp": "2026-04-02T08:00:00.000Z", "type": "session_meta", "payload": {"id": "t", "cwd": "/p"}}
        lines = [json.dumps(head)]
        for number in range(10):
            role = ("user", "assistant")[number % 2]
            kind = ("input_text", "output_text")[number % 2]
            payload = {"type": "message", "role": role, "content": [{"type": kind, "text": f"text {number} é \\ud83d"}]}
            stamp = f"2026-04-02T08:00:{number + 1:02d}.000Z"
            lines.append(json.dumps({"timestamp": stamp, "type": "response_item", "payload": payload}))
        return lines
    lines = []
    for number in range(11):
        stamp = f"2026-04-02T08:00:{number:02d}.000Z"
        role = ("user", "assistant")[number % 2]
        message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": f"text {number} é \\ud83d"}]}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "usage": {"output_tokens": 1}}
        record = {"parentUuid": f"u{number - 1}" if number else None, "sessionId": "t", "type": role,
                  "message": message, "uuid": f"u{number}", "timestamp": stamp}  # fmt: skip
        lines.append(json.dumps(record))
    return lines


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes, list[str]]:
    """A file after some damage, and the texts of the records that are still whole in it."""
    name = draw(st.sampled_from(["claude-code", "codex"]))
    items: list[tuple[bytes, list[str]]] = []
    for line in telling(name):
        items.append((line.encode(), facts_of(name, json.loads(line))))
    for _ in range(draw(st.integers(1, 6))):
        kinds = ["delete", "duplicate", "swap", "cut", "flip", "nul", "pad", "glue", "tear", "blank", "noise"]
        damage = draw(st.sampled_from(kinds))
        if not items:
            break
        at = draw(st.integers(0, len(items) - 1))
        raw, facts = items[at]
        if damage == "delete":
            del items[at]
        elif damage == "duplicate":
            items.insert(draw(st.integers(0, len(items))), items[at])
        elif damage == "swap":
            other = draw(st.integers(0, len(items) - 1))
            items[at], items[other] = items[other], items[at]
        elif damage == "cut":
            items[at] = (raw[: draw(st.integers(0, max(len(raw) - 1, 0)))], [])
        elif damage == "flip" and raw:
            place = draw(st.integers(0, len(raw) - 1))
            items[at] = (raw[:place] + bytes([raw[place] ^ (1 << draw(st.integers(0, 7)))]) + raw[place + 1 :], [])
        elif damage == "nul":
            items.insert(at, (b"\0" * draw(st.integers(1, 9)), []))
        elif damage == "pad":
            items[at] = (b"\0\0" + raw + b"\0", facts)
        elif damage == "glue" and at + 1 < len(items) and raw.startswith(b"{") and items[at + 1][1] and facts:
            following, more = items.pop(at + 1)
            items[at] = (raw + following, facts + more)
        elif damage == "tear" and facts:
            items[at] = (raw[: draw(st.integers(0, len(raw) - 1))] + raw, facts)
        elif damage == "blank":
            items.insert(at, (draw(st.sampled_from([b"", b"  ", b"\r"])), []))
        elif damage == "noise":
            items.insert(at, (draw(st.binary(max_size=30)).replace(b"\n", b""), []))
    whole = [fact for _raw, facts in items for fact in facts]
    return name, b"\n".join(raw for raw, _facts in items) + draw(st.sampled_from([b"\n", b""])), whole


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_every_whole_record_is_kept_whatever_happens_around_it(case: tuple[str, bytes, list[str]]) -> None:
    name, raw, whole = case
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(raw)
        found = identify(str(path))
        if found.format is None:
            assert not whole
            return
        if found.format.name != name:
            return
        sessions = read_all(path)
        lines = raw.count(b"\n") + (not raw.endswith(b"\n"))
        assert sessions[0].lines_read == lines
        stored = json.dumps([entry.to_dict() for session in sessions for entry in session.entries], ensure_ascii=False)
        for fact in whole:
            assert json.dumps(fact, ensure_ascii=False)[1:-1] in stored, fact


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(EVERY)), st.data())
def test_bytes_changed_anywhere_never_break_a_reader(name: str, data: st.DataObject) -> None:
    raw = bytearray(EVERY[name].read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=5))
        if not raw:
            return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(bytes(raw))
        found = identify(str(path))
        if found.format is not None:
            for session in found.format.read(str(path)):
                check(session)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(EVERY)), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=6,
), st.data())  # fmt: skip
def test_fields_of_any_shape_never_break_a_reader(name: str, value: object, data: st.DataObject) -> None:
    records = [json.loads(line) for line in EVERY[name].read_text(encoding="utf-8").splitlines()]
    record = data.draw(st.sampled_from(records))
    inner = record.get("payload" if name == "codex" else "message")
    place = inner if isinstance(inner, dict) and data.draw(st.booleans()) else record
    place[data.draw(st.sampled_from(sorted(place)))] = value
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in records) + "\n", encoding="utf-8")
        for session in read_as(name, path):
            check(session)


# --- out and back -------------------------------------------------------------------------------------------------


def exported(store: SessionStore, sid: str, name: str, *, whole_tree: bool = False) -> tuple[str, dict[str, int]]:
    session = store.session(sid)
    export = read_export(store, session, session.leaf, whole_tree=whole_tree)
    return "".join(WRITERS[name].export_lines(export)), WRITERS[name].export_losses(export)


def said(entries: list[StoredEntry]) -> list[object]:
    return [(entry.id, entry.type, entry.fields) for entry in entries]


SOURCES = [
    *sorted(CLAUDE.rglob("*.jsonl")),
    *sorted(CODEX.rglob("*.jsonl")),
    *sorted(SAMPLES.iterdir()),
    CASES / "s15-split-assistant-message" / "split-message.jsonl",
    CASES / "s18-repeated-image" / "rollout-compacted-image.jsonl",
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
]


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("path", [path for path in SOURCES if path.stem not in ("history", "session_index")],
                         ids=lambda path: path.stem[-24:])  # fmt: skip
def test_out_and_back_gives_the_same_entries_or_says_what_is_missing(path: Path, name: str, tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for number, sid in enumerate(take_in(store, path)):
            session = store.session(sid)
            if session.leaf is None:
                continue
            text, losses = exported(store, sid, name)
            file = tmp_path / f"{number}.jsonl"
            file.write_text(text, encoding="utf-8")
            (back,) = read_as(name, file)
            check(back)
            assert (back.id, back.losses, back.repairs) == (sid, (), ())
            by_id = {entry.id: entry for entry in back.entries}
            read: list[StoredEntry] = []
            at = back.leaf
            while at is not None:
                read.insert(0, by_id[at])
                at = read[0].parent_id
            before = store.path(sid)
            assert (words.ORIGINS in losses) == (session.origin is not None and back.parent_ref is None)
            assert (words.CALLERS in losses) == (session.parent_session is not None and back.child_of is None)
            assert losses.get(words.OFF_PATH, 0) == len(store.entries(sid)) - len(before)
            losses = {what: number for what, number in losses.items() if what not in BESIDE_ENTRIES}
            if not any(entry.type == "label" for entry in before):
                losses.pop(words.LABEL_TEXTS, None)
            if losses:
                assert {entry.id for entry in read} <= {entry.id for entry in before}
                missing = [each for each in said(before) if each not in said(read)]
                assert missing
                assert len(missing) <= sum(losses.values())
                continue
            assert said(read) == said(before)
            again = store.import_session(back)
            assert (again.session.id, again.added, again.new_branch) == (sid, 0, None)


def test_a_whole_tree_goes_to_claude_code_and_back(tmp_path: Path) -> None:
    path = SAMPLES / "claude-code-compact-after-rewind-reduced.jsonl"
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, path)
        text, losses = exported(store, sid, "claude-code", whole_tree=True)
        file = tmp_path / "a.jsonl"
        file.write_text(text, encoding="utf-8")
        (back,) = read_as("claude-code", file)
        assert losses == {}
        assert {entry.id: entry.parent_id for entry in back.entries} == {
            entry.id: entry.parent_id for entry in store.entries(sid)
        }
        assert back.leaf == store.leaf(sid)


def test_a_compaction_of_ours_flattens_alike_after_the_way_through_either_tool(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        session = store.create_session(cwd="/proj")
        ids = [
            store.append_message(session.id, {"role": "user", "content": f"question {number}", "timestamp": number}).id
            for number in range(3)
        ]
        store.append(session.id, {"type": "compaction", "summary": "S", "firstKeptEntryId": ids[1], "tokensBefore": 9})
        store.append_message(session.id, {"role": "user", "content": "last", "timestamp": 3})
        for name in WRITERS:
            text, losses = exported(store, session.id, name)
            (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
            (back,) = read_as(name, tmp_path / f"{name}.jsonl")
            assert losses == {}
            assert context_of(back) == ["compactionSummary: S", "user: question 1", "user: question 2", "user: last"]


def test_records_for_claude_code_have_what_it_asks_for(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, SAMPLES / "pi-v1-reduced.jsonl")
        records = [json.loads(line) for line in exported(store, sid, "claude-code")[0].splitlines()]
    chain = [record for record in records if "uuid" in record]
    uuids = {record["uuid"] for record in chain}
    assert len(uuids) == len(chain)
    for record in chain:
        assert record["parentUuid"] is None or record["parentUuid"] in uuids
        assert len(record["uuid"]) == len(record["sessionId"]) == 36
        assert record["timestamp"].endswith("Z")
    answers = [record["message"]["content"] for record in chain if record["type"] == "assistant"]
    assert all(len(content) <= 1 for content in answers)


def test_lines_for_codex_have_what_it_asks_for(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        (sid,) = take_in(store, SAMPLES / "pi-v1-reduced.jsonl")
        lines = [json.loads(line) for line in exported(store, sid, "codex")[0].splitlines()]
    assert lines[0]["type"] == "session_meta"
    assert len(lines[0]["payload"]["id"]) == 36
    assert {"timestamp", "cwd", "originator", "cli_version", "source"} <= lines[0]["payload"].keys()
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    calls = {item["call_id"] for item in items if item["type"] == "function_call"}
    outputs = {item["call_id"] for item in items if item["type"] == "function_call_output"}
    assert outputs <= calls
    asked = [line["payload"]["message"] for line in lines if line["payload"].get("type") == "user_message"]
    assert asked[:1] == ["Read two files."]


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_there_must_be_something_to_write(name: str, tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        session = store.create_session(cwd="/proj")
        with pytest.raises(NothingToExportError):
            exported(store, session.id, name)
