"""Our own exports, read into an empty store: the same entries, and every difference is one the export has counted."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_loop.message_lists import anthropic_lines, anthropic_losses, openai_lines, openai_losses
from pi_sessions.context import active_entries, project_entries
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import export_losses as words
from pi_sessions.formats import json_export, markdown, pi_export
from pi_sessions.formats.exports import TOOLS, TOOLS_FULL, TOOLS_NONE, Export, read_export
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import identify
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
