"""Our own exports, read into an empty store: the same entries, and every difference is one the export has counted."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pi_loop.message_lists import anthropic_lines, anthropic_losses, openai_lines, openai_losses
from pi_sessions.context import active_entries, entry_messages, latest_edits, path_to_root, project_entries
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import claude_code_writer, codex_writer, json_export, markdown, pi_export
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.exports import TOOLS, TOOLS_FULL, TOOLS_NONE, Export, read_export
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import format_named, identify
from pi_sessions.results import Session
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.foreign_files import FORMATS, SAMPLES, take_in
from tests.sessions.pi_files import CASES, FIXTURES, check
from tests.sessions.test_export_losses import SESSION, everything, paths

LISTS = {"openai": (openai_lines, openai_losses), "anthropic": (anthropic_lines, anthropic_losses)}
# `None`: a session with one of everything.
SOURCES: list[Path | None] = [
    None,
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
    *sorted(SAMPLES.glob("*.jsonl")),
    *sorted((FORMATS / "claude-code" / "projects").rglob("*.jsonl")),
    *sorted((FORMATS / "codex" / "sessions").rglob("*.jsonl")),
    *sorted((FORMATS / "messages").glob("*.json")),
    *sorted((FORMATS / "gemini").glob("*.json*")),
    *sorted((FORMATS / "goose").glob("*.jsonl")),
    FORMATS / "chatgpt" / "conversations.json",
    FORMATS / "claude-ai" / "conversations.json",
    *sorted((CASES / "s15-split-assistant-message").glob("*.jsonl")),
    *sorted((CASES / "s18-repeated-image").glob("*.jsonl")),
]
FACT_TYPES = ("label", "session_info")


def name_of(source: Path | None) -> str:
    return source.stem[-24:] if source else "everything"


def sessions_of(store: SessionStore, source: Path | None) -> Iterator[Session]:
    """Put a source into a store and yield its sessions that can be exported."""
    if source is not None and identify(str(source)).format is None:
        return
    for sid in [everything(store)] if source is None else take_in(store, source):
        session = store.session(sid)
        if session.leaf is not None:
            yield session


def read_back(path: Path, text: str, name: str) -> ParsedSession:
    """Read a text as the file it would be; it must be known for what it is, sound, and one session.

    What was without a time or a message before is so again.
    """
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    found = identify(str(path))
    assert found.format is not None
    assert found.format.name == name
    (session,) = found.format.read(str(path))
    check(session)
    assert (session.losses, session.unknown) == ((), ())
    assert {repair.code for repair in session.repairs} <= {"no_time", "no_message"}
    return session


# --- Pi -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole_tree", [True, False])
@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_a_pi_file_holds_the_entries(tmp_path: Path, source: Path | None, whole_tree: bool) -> None:
    with SessionStore.open(str(tmp_path / "a.db")) as store, SessionStore.open(str(tmp_path / "b.db")) as empty:
        for session in sessions_of(store, source):
            export = read_export(store, session, session.leaf, whole_tree=whole_tree)
            lost = pi_export.export_losses(export)
            text = "".join(pi_export.export_lines(export))
            path = tmp_path / f"{session.id}.jsonl"
            back = empty.import_session(read_back(path, text, "pi")).session
            chosen = {entry.id: entry for entry in export.entries}
            assert {entry.id: entry.to_dict() for entry in empty.entries(back.id)} == {
                entry.id: {**entry.to_dict(), **above(entry, chosen)}
                for entry in export.entries
                if entry.type != "label"
            }
            assert lost.get(words.OFF_PATH, 0) == len(store.entries(session.id)) - len(chosen)
            assert (back.id, back.name, back.cwd, back.leaf) == (
                session.id, session.name, session.cwd, above_labels(session.leaf, chosen),
            )  # fmt: skip
            facts(store, empty, session, back, lost, chosen)


def above_labels(entry_id: str | None, entries: dict[str, StoredEntry]) -> str | None:
    while entry_id is not None and entries[entry_id].type == "label":
        entry_id = entries[entry_id].parent_id
    return entry_id


def above(entry: StoredEntry, entries: dict[str, StoredEntry]) -> dict[str, str | None]:
    return {"parentId": above_labels(entry.parent_id, entries)}


def facts(
    store: SessionStore,
    empty: SessionStore,
    session: Session,
    back: Session,
    lost: dict[str, int],
    chosen: dict[str, StoredEntry],
) -> None:
    """Compare what a store knows of a session beside its entries."""
    labels = {each.entry_id: each.text for each in empty.labels(back.id).values()}
    before = {each.entry_id: each.text for each in store.labels(session.id).values() if each.entry_id in chosen}
    assert labels.items() <= before.items()
    told = [entry.fields for entry in chosen.values() if entry.type == "label"]
    gone = [own for own in told if labels.get(str(own.get("targetId"))) != own.get("label")]
    assert lost.get(words.LABEL_TEXTS, 0) == len(before) - len(labels) + len(gone)
    now = {(each.name, each.leaf) for each in empty.branches(back.id)}
    then = {
        (each.name, above_labels(each.leaf, chosen) if each.leaf in chosen else each.leaf)
        for each in store.branches(session.id)
    }
    assert lost.get(words.BRANCH_NAMES, 0) == len(then - now)
    assert lost.get(words.ORIGINS, 0) == (session.origin != back.origin)
    assert lost.get(words.CALLERS, 0) == (session.parent_session != back.parent_session)
    marks = (session.archived != back.archived) + (session.pinned != back.pinned)
    assert lost.get(words.MARKED, 0) == marks


# --- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_json_of_the_whole_tree_holds_everything(tmp_path: Path, source: Path | None) -> None:
    with SessionStore.open(str(tmp_path / "a.db")) as store, SessionStore.open(str(tmp_path / "b.db")) as empty:
        for session in sessions_of(store, source):
            export = read_export(store, session, session.leaf, whole_tree=True)
            assert json_export.export_losses(export) == {}
            text = "".join(json_export.export_lines(export))
            back = empty.import_session(read_back(tmp_path / f"{session.id}.json", text, "pi-session")).session
            again = read_export(empty, back, back.leaf, whole_tree=True)
            assert "".join(json_export.export_lines(again)) == text


# --- message lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", sorted(LISTS))
@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_a_message_list_holds_what_a_model_is_told(tmp_path: Path, source: Path | None, form: str) -> None:
    """What comes back goes out as the same list."""
    with SessionStore.open(str(tmp_path / "a.db")) as store, SessionStore.open(str(tmp_path / "b.db")) as empty:
        for session in sessions_of(store, source):
            list_comes_back(read_export(store, session, session.leaf, whole_tree=False), form, empty, tmp_path)


@pytest.mark.parametrize("form", sorted(LISTS))
@settings(max_examples=60, deadline=None)
@given(entries=paths())
def test_a_list_of_anything_holds_what_a_model_is_told(form: str, entries: list[StoredEntry]) -> None:
    export = Export(SESSION, tuple(entries), entries[-1].id)
    with TemporaryDirectory() as folder, SessionStore.open(":memory:") as empty, suppress(NothingToExportError):
        list_comes_back(export, form, empty, Path(folder))


def list_comes_back(export: Export, form: str, empty: SessionStore, folder: Path) -> None:
    """Write a list, read it into a store, write it again."""
    write, losses = LISTS[form]
    lost, text = losses(export), "".join(write(export))
    read = read_back(folder / f"{export.session.id}.json", text, "messages")
    back = empty.import_session(read).session
    again = "".join(write(read_export(empty, back, back.leaf, whole_tree=False)))
    # An id made for a request is no id to be taken over: it is made anew, the same way.
    first, second = (json.loads(re.sub(r"pi_[0-9a-f]{24}", "pi_", each)) for each in (text, again))
    if not any(entry.role == "assistant" for entry in read.entries):
        # Only answers name a model.
        first.pop("model")
        second.pop("model")
    if words.MADE_TOOLS in lost:
        assert first.pop("tool_choice") == {"type": "none"}
    assert first == second
    if words.MOVED_PICTURES not in lost:
        made = lost.get(words.MADE_RESULTS, 0) + lost.get(words.MADE_MESSAGES, 0)
        given = project_entries(active_entries(export.path()))
        system = sum(entry.role == "system" and messages != [] for entry, messages in given)
        talk = [entry for entry in read.entries if entry.role != "system"]
        assert len(talk) == lost.get(words.STAMPS, 0) - system - lost.get(words.JOINED, 0) + made


# --- Markdown -------------------------------------------------------------------------------------------------------

COMPARED = (
    words.USAGES, words.DETAILS, words.MORE_FIELDS, words.MORE_BLOCK_FIELDS, words.THINKING, words.SIGNATURES,
    words.CALLS, words.PICTURE_BYTES, words.OTHER_BLOCKS,
)  # fmt: skip
MISSING_ENTRIES = (words.CUT, words.UNREAD_CALLS, words.CUSTOM, words.USAGE_ENTRIES)


@pytest.mark.parametrize("tools", TOOLS)
@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_a_document_holds_the_entries_less_what_it_counts(tmp_path: Path, source: Path | None, tools: str) -> None:
    with SessionStore.open(str(tmp_path / "a.db")) as store:
        for session in sessions_of(store, source):
            export = read_export(store, session, session.leaf, whole_tree=False)
            export = export.replace(tools=tools, thinking=tools == TOOLS_FULL, last=3 if tools == TOOLS_NONE else None)
            document_comes_back(tmp_path / f"{session.id}.md", export)


@settings(max_examples=60, deadline=None)
@given(entries=paths(), tools=st.sampled_from(TOOLS), thinking=st.booleans(), last=st.none() | st.integers(1, 3))
def test_a_document_of_anything_counts_what_it_does_not_hold(
    entries: list[StoredEntry], tools: str, thinking: bool, last: int | None
) -> None:
    export = Export(SESSION, tuple(entries), entries[-1].id, tools=tools, thinking=thinking, last=last)
    with TemporaryDirectory() as folder, suppress(NothingToExportError):
        document_comes_back(Path(folder) / "talk.md", export)


def document_comes_back(path: Path, export: Export) -> None:
    lost = markdown.export_losses(export)
    read = read_back(path, "".join(markdown.export_lines(export)), "markdown")
    after = {entry.id: entry.to_dict() for entry in read.entries}
    found: Counter[str] = Counter()
    missing = 0
    for entry in export.path():
        if entry.id in after:
            found += differences(entry.to_dict(), after.pop(entry.id))
        else:
            missing += entry.type not in FACT_TYPES
    assert after == {}
    parents = [entry.parent_id for entry in read.entries]
    assert parents == [None, *(entry.id for entry in read.entries[:-1])]
    told = sum(lost.get(word, 0) for word in MISSING_ENTRIES)
    labels = {entry.id for entry in export.path() if entry.type in FACT_TYPES}
    assert missing <= told <= missing + len(labels)
    assert {word: lost.get(word, 0) for word in COMPARED} == {word: found[word] for word in COMPARED}
    assert (read.name, read.cwd) == (export.session.name, export.session.cwd)


def differences(before: dict[str, Any], after: dict[str, Any]) -> Counter[str]:
    """Count what an entry has lost; what it still has must be the same."""
    found: Counter[str] = Counter()
    if before["type"] == "message" and "message" not in before:
        before = {**before, "message": {}}
    parts = [(before, after)]
    if isinstance(before.get("message"), dict):
        parts = [(before["message"], after["message"])]
        parts += [tuple({**each, "message": None} for each in (before, after))]  # type: ignore[list-item]
    for one, other in parts:
        fields_lost(one, other, found)
    return found


def fields_lost(before: dict[str, Any], after: dict[str, Any], found: Counter[str]) -> None:
    gone = {name: value for name, value in before.items() if name not in after and value is not None}
    assert after.keys() <= before.keys()
    usage = gone.pop("usage", None)
    found[words.USAGES] += any(flat(usage))
    found[words.DETAILS] += gone.pop("details", None) is not None
    found[words.MORE_FIELDS] += bool(gone)
    for name, value in after.items():
        if name == "parentId" or (name == "timestamp" and not str(before[name]).endswith("Z")):
            # Bridged (checked as a chain); a time nobody can read, or in another spelling.
            continue
        if name == "content":
            content_lost(before[name], value, found)
        else:
            assert value == before[name], name


def flat(usage: object) -> list[bool]:
    if isinstance(usage, dict):
        return [each for value in usage.values() for each in flat(value)]
    return [bool(usage)]


KEPT_OF = {"text": "text", "thinking": "thinking", "toolCall": "arguments", "image": "mimeType"}
GONE_AS = {"thinking": words.THINKING, "toolCall": words.CALLS}


def content_lost(before: object, after: object, found: Counter[str]) -> None:
    """Count the blocks a content has lost, and what the others have."""
    if isinstance(before, str) or before is None:
        assert after == before
        return
    assert isinstance(before, list)
    assert isinstance(after, list)
    left = [*after]
    for block in before:
        kind = block.get("type")
        shown = "image_reference" if kind == "image" else kind
        name = KEPT_OF.get(kind)
        if name and left and left[0].get("type") == shown and left[0].get(name) == block.get(name):
            kept = left.pop(0)
            gone = block.keys() - kept.keys()
            found[words.SIGNATURES] += "thinkingSignature" in gone
            found[words.PICTURE_BYTES] += kind == "image"
            found[words.MORE_BLOCK_FIELDS] += bool(gone - {"thinkingSignature", "data"})
        elif kind != "text" or block.get("text"):
            found[GONE_AS.get(kind, words.OTHER_BLOCKS)] += 1
    assert left == []


# --- Claude Code and Codex ------------------------------------------------------------------------------------------

AGENTS = {"claude-code": claude_code_writer, "codex": codex_writer}
FACTS_LOST = (words.OFF_PATH, words.BRANCH_NAMES, words.FOLDERS, words.ORIGINS, words.MARKED, words.CALLERS)


@pytest.mark.parametrize("form", AGENTS)
@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_an_agents_file_holds_the_entries_less_what_it_counts(tmp_path: Path, source: Path | None, form: str) -> None:
    with SessionStore.open(str(tmp_path / "a.db")) as store:
        for session in sessions_of(store, source):
            for leaf in {session.leaf, *(branch.leaf for branch in store.branches(session.id))} - {None}:
                agents_file_comes_back(
                    tmp_path / "file.jsonl", read_export(store, session, leaf, whole_tree=False), form
                )
            if form == "claude-code":
                export = read_export(store, session, session.leaf, whole_tree=True)
                agents_file_comes_back(tmp_path / "file.jsonl", export, form)


@pytest.mark.parametrize("form", AGENTS)
@settings(max_examples=100, deadline=None)
@given(entries=paths())
def test_an_agents_file_of_anything_counts_what_it_does_not_hold(form: str, entries: list[StoredEntry]) -> None:
    assume(form == "codex" or not keeps_across(entries))
    names = [str(entry.fields["name"]) for entry in entries if entry.type == "session_info"]
    session = SESSION.replace(name=names[-1] if names else None)
    export = Export(session, tuple(entries), entries[-1].id)
    with TemporaryDirectory() as folder, suppress(NothingToExportError):
        agents_file_comes_back(Path(folder) / "file.jsonl", export, form)


def keeps_across(entries: list[StoredEntry]) -> bool:
    """Whether a compaction keeps what stands before an earlier one; Claude Code has nothing before a boundary."""
    ids = [entry.id for entry in entries]
    places = [place for place, entry in enumerate(entries) if entry.type == "compaction"]
    return any(
        ids.index(str(entries[later].fields["firstKeptEntryId"])) <= earlier
        for earlier, later in itertools.pairwise(places)
    )


def agents_file_comes_back(path: Path, export: Export, form: str) -> None:
    """Write a file for an agent, read it into an empty store and compare it entry by entry with what it counted."""
    writer = AGENTS[form]
    lost, text = dict(writer.export_losses(export)), "".join(writer.export_lines(export))
    path.write_text(text, encoding="utf-8")
    format = format_named(form)
    assert format is not None
    (read,) = format.read(str(path))
    check(read)
    assert read.losses == ()
    with SessionStore.open(":memory:") as empty:
        back = empty.import_session(read).session
        after = {entry.id: entry for entry in empty.entries(back.id)}
        labels = empty.labels(back.id)
    session = export.session
    assert (back.id, back.name or "", len(labels)) == (session.id, session.name or "", 0)
    facts_lost = {word: lost.pop(word) for word in FACTS_LOST if word in lost}
    assert facts_lost.get(words.ORIGINS, 0) == (bool(session.origin) and session.origin != back.origin)
    assert facts_lost.get(words.FOLDERS, 0) == (session.cwd != back.cwd)
    assert facts_lost.get(words.OFF_PATH, 0) == export.beside
    hidden = lost.pop(words.HIDDEN, 0)
    said = [entry.fields for entry in export.entries if entry.type == "label"]
    told = [(own.get("targetId"), own.get("label")) for own in said]
    set_here = [label for label in export.labels if label.entry_id in {entry.id for entry in export.entries}]
    found = Counter({words.LABEL_TEXTS: sum((label.entry_id, label.text) not in told for label in set_here)})
    for entry in export.entries:
        if entry.type == "compaction" and entry.id in after:
            after[entry.id] = with_first_kept(entry, after[entry.id], export, after)
    for entry in export.entries:
        found += entry_lost(entry, after.pop(entry.id, None) or omission_again(entry, export, after))
        hidden -= odd_blocks(entry) if hidden else 0
    assert after == {}
    assert hidden <= 0
    assert lost == {word: number for word, number in found.items() if number}


def omission_again(entry: StoredEntry, export: Export, after: dict[str, StoredEntry]) -> StoredEntry | None:
    """Return the omission that came back for one, under an id of its own; each one once."""
    ids = {each.id for each in export.entries}
    told = (entry.fields.get("targetId"), entry.fields.get("replacement", 0))
    for other in after.values():
        omits = entry.type == other.type == "context_edit" and other.id not in ids and told[1] is None
        if omits and told == (other.fields["targetId"], other.fields["replacement"]):
            after.pop(other.id)
            return entry
    return None


def with_first_kept(
    before: StoredEntry, now: StoredEntry, export: Export, after: dict[str, StoredEntry]
) -> StoredEntry:
    """Return a compaction as it came back with what it named first; what it keeps must be the same."""
    path = path_to_root({entry.id: entry for entry in export.entries}, before.parent_id)
    ids = [entry.id for entry in path]
    then, here = (entry.fields.get("firstKeptEntryId") for entry in (before, now))
    edits = latest_edits(export.path())
    omitted = {target for target, edit in edits.items() if edit.fields["replacement"] is None}
    between = path[ids.index(then) : ids.index(here) if here in ids else len(path)] if then in ids else []
    for entry in between:
        assert entry.id not in after or entry.id in omitted or entry.role == "system" or says_nothing(entry)
    assert here in (before.id, *ids[ids.index(then) if then in ids else len(ids) :])
    return StoredEntry.from_dict({**now.to_dict(), "firstKeptEntryId": then})


def says_nothing(entry: StoredEntry) -> bool:
    """Whether an entry gives no message where a later compaction keeps it."""
    return entry.type == "compaction" or not entry_messages(entry)


def entry_lost(before: StoredEntry, after: StoredEntry | None) -> Counter[str]:
    """Count what an entry has lost in a file."""
    kind = before.role or "" if before.type == "message" and before.role not in TALK else before.type
    if after is None:
        return Counter([words.LABEL_TEXTS if kind == "label" else str(words.kind_word(kind))])
    found = Counter({words.MADE_TIMES: before.time_ms is None and after.time_ms is not None})
    if (before.type, before.role) != (after.type, after.role):
        found[words.text_word(kind)] += 1
        return found
    if before.time_ms is not None:
        assert before.time_ms == after.time_ms
    one, other = before.message, after.message
    if one is None or other is None:
        one, other = before.fields, after.fields
    else:
        found[words.MORE_FIELDS] += before.fields.keys() != {"message"}
    untimed = {"timestamp"} if "timestamp" not in one or before.time_ms is None else set()
    found[words.MADE_TIMES] |= "timestamp" in other and "timestamp" not in one
    if before.type in OWN:
        own = OWN[before.type]
        one, more = {name: one[name] for name in own if name in one}, one.keys() - own
        found[words.MORE_FIELDS] += bool(more)
    names = (one.keys() | other.keys()) - {"content"} - untimed
    different = {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}
    assert different == {}, before
    before_blocks, after_blocks = one.get("content"), other.get("content")
    if before_blocks != after_blocks:
        assert isinstance(before_blocks, list)
        assert isinstance(after_blocks, list)
        found += blocks_lost(before_blocks, after_blocks)
    return found


def blocks_lost(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    left = [*after]
    for block in before:
        if left and block.get("type") == left[0].get("type") and left[0].items() <= block.items():
            found[words.MORE_BLOCK_FIELDS] += left.pop(0) != block
        else:
            assert block["type"] == "thinking", (block, left)
            found[words.FOREIGN_THINKING] += 1
    assert left == []
    return found


OWN = {
    "custom_message": {"customType", "content", "display", "details"},
    "custom": {"customType", "data"},
    "session_info": {"name"},
    "thinking_level_change": {"thinkingLevel"},
}
TALK = ("user", "assistant", "toolResult")


def odd_blocks(entry: StoredEntry) -> int:
    """Count the blocks that not every agent has a place for."""
    content = (entry.message or {}).get("content")
    blocks = content if isinstance(content, list) else []
    return sum(block.get("type") not in ("text", "thinking", "toolCall") for block in blocks)
