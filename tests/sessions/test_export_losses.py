"""What an export says it does not hold is what is not in it: no more and no less, in every form."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_loop.message_lists import anthropic_lines, anthropic_losses, openai_lines, openai_losses
from pi_loop.request import INTERRUPTED
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats import export_losses as words
from pi_sessions.formats.exports import Export, read_export
from pi_sessions.formats.registry import identify
from pi_sessions.store import SessionStore
from pi_sessions.stored import StoredEntry
from tests.sessions.foreign_files import FORMATS, SAMPLES, take_in
from tests.sessions.pi_files import CASES, FIXTURES

LISTS = {"openai": (openai_lines, openai_losses), "anthropic": (anthropic_lines, anthropic_losses)}
SOURCES = [
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
    *sorted(SAMPLES.glob("*.jsonl")),
    *sorted((FORMATS / "claude-code" / "projects").rglob("*.jsonl")),
    *sorted((FORMATS / "codex" / "sessions").rglob("*.jsonl")),
    *sorted((FORMATS / "messages").glob("*.json")),
    *sorted((FORMATS / "gemini").glob("*.json*")),
    *sorted((FORMATS / "goose").glob("*.jsonl")),
    FORMATS / "chatgpt" / "conversations.json",
    FORMATS / "claude-ai" / "conversations.json",
    *sorted((CASES / "s08-result-on-wrong-branch").glob("*.jsonl")),
    *sorted((CASES / "s18-repeated-image").glob("*.jsonl")),
]
with SessionStore.open(":memory:") as empty_store:
    SESSION = empty_store.create_session(cwd="/proj")
# Each entry that is not in a list is counted in one of these, and only there.
ENTRY_WORDS = (
    words.OFF_PATH, words.COMPACTED, words.CUT, words.OMITTED, words.UNFINISHED, words.BLANK, words.STRAY,
    words.DUPLICATE, words.KEPT_OUT, words.CUSTOM, words.USAGE_ENTRIES, words.LABEL_TEXTS, words.NAMES,
    words.MODELS_CHANGED, words.LEVELS_CHANGED, words.EDITS, words.UNKNOWN,
)  # fmt: skip


def marked(entry: StoredEntry) -> StoredEntry:
    """Return an entry that says its own name wherever it says anything."""
    mark = f"§{entry.id}§"
    told = entry.to_dict()
    message = told.get("message")
    if isinstance(message, dict):
        told["message"] = _marked_message(message, mark)
        return StoredEntry.from_dict(told)
    told["mark"] = mark
    for name in ("summary", "modelId", "thinkingLevel", "name", "label"):
        if isinstance(told.get(name), str):
            told[name] = f"{told[name]}{mark}"
    if entry.type == "custom_message":
        told["content"] = _marked_content(told.get("content"), mark)
    if isinstance(told.get("replacement"), dict):
        told["replacement"] = {"content": f"§{told.get('targetId')}§edited"}
    return StoredEntry.from_dict(told)


def _marked_message(message: dict[str, Any], mark: str) -> dict[str, Any]:
    message = {**message}
    for name in ("command", "summary"):
        if isinstance(message.get(name), str):
            message[name] = f"{message[name]}{mark}"
    if "content" in message:
        message["content"] = _marked_content(message["content"], mark)
    return message


def _marked_content(content: object, mark: str) -> object:
    if not isinstance(content, list):
        return f"{content}{mark}" if isinstance(content, str) and content.strip() else content
    blocks: list[object] = []
    for place, block in enumerate(content):
        if isinstance(block, dict) and block.get("type") == "text" and str(block.get("text") or "").strip():
            block = {**block, "text": f"{block['text']}{mark}"}
        elif isinstance(block, dict) and block.get("type") == "toolCall" and isinstance(block.get("arguments"), dict):
            block = {**block, "arguments": {**block["arguments"], "mark": mark}}
        elif isinstance(block, dict) and block.get("type") == "thinking" and not block.get("redacted"):
            block = {**block, "thinking": f"{block.get('thinking')}{mark}thought {place}"}
        blocks.append(block)
    return blocks


def can_be_told(entry: StoredEntry) -> bool:
    """Whether an entry says something that is seen in a list, if it is there."""
    if entry.type == "context_edit":
        return False
    return f"§{entry.id}§" in marked(entry).payload.replace("\\u00a7", "§")


def exports_of(store: SessionStore, sid: str) -> Iterator[Export]:
    """Yield exports of a session: at each branch and tip, and of the last few messages."""
    session = store.session(sid)
    leaves = [branch.leaf for branch in store.branches(sid)] + store.tips(sid)
    for leaf in dict.fromkeys(leaf for leaf in leaves[:8] if leaf is not None):
        export = read_export(store, session, leaf, whole_tree=False)
        export = export.replace(entries=tuple(marked(entry) for entry in export.entries))
        yield export
        yield export.replace(last=2)


def text_of(lines: Iterator[str]) -> str:
    return "".join(lines)


@pytest.mark.parametrize("form", sorted(LISTS))
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem[-24:])
def test_a_list_counts_each_entry_that_is_not_in_it(tmp_path: Path, source: Path, form: str) -> None:
    if identify(str(source)).format is None:
        return
    write, losses = LISTS[form]
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for sid in take_in(store, source):
            everything = store.entries(sid)
            for export in exports_of(store, sid):
                if not any(entry.type in ("message", "custom_message", "compaction") for entry in export.entries):
                    continue
                checked(export, everything, text_of(write(export)), losses(export), form)


def checked(export: Export, everything: list[StoredEntry], text: str, lost: dict[str, int], form: str) -> None:
    """Compare the counts with what an independent look at the text finds."""
    path = {entry.id: entry for entry in export.entries}
    assert lost.get(words.OFF_PATH, 0) == len(everything) - len(path)
    seen = [as_edited(entry, text) for entry in path.values() if f"§{entry.id}§" in text]
    shown = {entry.id for entry in seen}
    missing = [entry for entry in path.values() if can_be_told(entry) and entry.id not in shown]
    untold = [entry for entry in path.values() if not can_be_told(entry)]
    counted = sum(lost.get(word, 0) for word in ENTRY_WORDS) - len(everything) + len(path) - facts(export)
    assert len(missing) <= counted <= len(missing) + len(untold), [(entry.id, entry.type) for entry in missing]
    parts(seen, text, lost, form)


def as_edited(entry: StoredEntry, text: str) -> StoredEntry:
    """Return an entry as a text shows it: with the content that an edit gave it."""
    edited = f"§{entry.id}§edited"
    if edited not in text:
        return entry
    told = entry.to_dict()
    (told if entry.type == "custom_message" else told["message"])["content"] = [{"type": "text", "text": edited}]
    return StoredEntry.from_dict(told)


def facts(export: Export) -> int:
    """Count facts about the session that no entry of the path says."""
    entries = export.entries
    labels = {(entry.fields.get("targetId"), entry.fields.get("label")) for entry in entries if entry.type == "label"}
    names = [entry.fields.get("name") for entry in entries if entry.type == "session_info"][-1:]
    ids = {entry.id for entry in entries}
    set_here = [
        label for label in export.labels if label.entry_id in ids and (label.entry_id, label.text) not in labels
    ]
    return len(set_here) + (export.session.name is not None and export.session.name not in names)


def parts(seen: list[StoredEntry], text: str, lost: dict[str, int], form: str) -> None:
    """Compare what is missing inside of the messages in a text."""
    told = json.loads(text)
    blocks = [block for entry in seen for block in blocks_in(entry.message or entry.fields)]
    thoughts = [f"§{entry.id}§thought {place}" for entry in seen if entry.message
                for place, block in enumerate(blocks_in(entry.message))
                if block.get("type") == "thinking" and not block.get("redacted")]  # fmt: skip
    hidden = [block for block in blocks if block.get("type") == "thinking" and block.get("redacted")]
    kept = text.count('"redacted_thinking"')
    unseen = sum(thought not in text for thought in thoughts) + len(hidden) - kept
    assert lost.get(words.THINKING, 0) == unseen
    pictures = sum(block.get("type") == "image" for block in blocks)
    assert lost.get(words.PICTURES, 0) == pictures - len(re.findall(r'"type": "image(?:_url)?"', text))
    assert lost.get(words.MADE_RESULTS, 0) == text.count(INTERRUPTED)
    answers = [entry.message for entry in seen if entry.message and entry.role == "assistant"]
    assert lost.get(words.MODELS, 0) == sum(answer.get("model") != told["model"] for answer in answers)
    used = [entry for entry in seen if re.search(r'"usage":\{[^}]*:[1-9]', entry.payload)]
    assert lost.get(words.USAGES, 0) == len(used)
    failed = sum(entry.message is not None and entry.message.get("isError") is True for entry in seen)
    assert failed == lost.get(words.FAILURES, 0) + text.count('"is_error": true') - (
        text.count(INTERRUPTED) if form == "anthropic" else 0
    )
    saying = [entry for entry in seen if entry.type in ("message", "custom_message", "branch_summary", "compaction")]
    talk = sum(entry.role not in ("toolResult", "system") for entry in saying)
    if form == "openai" and words.MOVED_PICTURES not in lost:
        written = sum(message["role"] in ("user", "assistant") for message in told["messages"])
        assert written == talk + lost.get(words.MADE_MESSAGES, 0) - lost.get(words.JOINED, 0)
    assert lost.get(words.FAILURES, 0) == (failed if form == "openai" else 0)


def blocks_in(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


# --- one of everything --------------------------------------------------------------------------------------------

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def answer(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    own = {"role": "assistant", "content": list(blocks), "provider": "anthropic", "model": "claude-x", "timestamp": 5}
    return {"type": "message", "message": {**own, "api": "anthropic-messages", "stopReason": "stop", **more}}


def call(name: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": name, "name": "bash", "arguments": {}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def picture(data: str = PNG, mime: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": mime}


def result(name: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    own = {"role": "toolResult", "toolCallId": name, "toolName": "bash", "content": list(blocks), **more}
    return {"type": "message", "message": own}


def said(content: object, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


EVERYTHING: list[dict[str, Any]] = [
    said("Be kind.", "system"),
    said("Be brief.", "system", id="x"),
    {"type": "model_change", "provider": "anthropic", "modelId": "claude-w"},
    {"type": "model_change", "provider": "anthropic", "modelId": "claude-x"},
    {"type": "thinking_level_change", "thinkingLevel": "high"},
    said([text("One"), text("Two"), picture(), picture("AAAA", "image/tiff"), {"type": "audio", "data": "AAAA"}]),
    answer(text("other model"), model="claude-w", usage={"input": 0}),
    answer(
        {"type": "thinking", "thinking": "Signed.", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "Not signed."},
        text("Look."),
        {**call("a|1"), "thoughtSignature": "s"},
        call("b"),
        usage={"input": 1, "cost": {"total": 0}},
    ),
    result("a|1", text("x"), text("y"), picture(), isError=True, details={"exit": 1}),
    result("a|1", text("again")),
    result("nobody", text("lost")),
    answer({"type": "thinking", "thinking": "Only this.", "thinkingSignature": "c2ln"}),
    answer(text("half"), stopReason="error", errorMessage="429"),
    answer(text("cut"), call("c"), call("d"), stopReason="aborted", errorMessage="stopped"),
    result("c"),
    said("  "),
    said("Three"),
    said("Four", note="n"),
    {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a"}},
    {
        "type": "message",
        "message": {"role": "bashExecution", "command": "env", "output": "", "excludeFromContext": True},
    },
    {"type": "message", "message": {"role": "mystery", "content": "?"}},
    {"type": "custom_message", "customType": "note", "content": "Mind this", "display": True, "details": 1},
    {"type": "branch_summary", "fromId": "x", "summary": "There", "details": {"readFiles": []}, "usage": {"output": 2}},
    {"type": "custom", "customType": "x", "data": 1},
    {"type": "usage", "kind": "compaction", "usage": {"input": 3}},
    {"type": "label", "targetId": "none", "label": "old"},
    {"type": "session_info", "name": "Old name"},
    {"type": "mystery", "a": 1},
    said("To be omitted"),
    said("To be edited"),
    {"type": "context_edit", "targetId": "none", "replacement": None},
]


def everything(store: SessionStore) -> str:
    """Make a session with one of everything on its path, and one entry beside it."""
    sid = store.create_session(cwd="/proj").id
    made = store.append_many(sid, EVERYTHING)
    store.append(sid, {"type": "context_edit", "targetId": made[-3].id, "replacement": None})
    store.append(sid, {"type": "context_edit", "targetId": made[-2].id, "replacement": {"content": "Edited"}})
    store.set_label(sid, made[5].id, "question")
    store.create_branch(sid, "other", at=made[5].id)
    store.set_pinned(sid, True)
    store.set_name(sid, "New name")
    return sid


ALWAYS = {
    words.OMITTED: 1, words.ORIGINALS: 1, words.UNFINISHED: 1, words.UNANSWERED: 1, words.BLANK: 2, words.STRAY: 1,
    words.DUPLICATE: 1, words.KEPT_OUT: 1, words.CUSTOM: 1, words.USAGE_ENTRIES: 1, words.LABEL_TEXTS: 2,
    words.NAMES: 2, words.MODELS_CHANGED: 1, words.LEVELS_CHANGED: 1, words.EDITS: 1, words.UNKNOWN: 2,
    words.BRANCH_NAMES: 1, words.FOLDERS: 1, words.MARKED: 1, words.PICTURES: 1, words.OTHER_BLOCKS: 1,
    words.USAGES: 2, words.MODELS: 1, words.DETAILS: 3, words.REASONS: 1, words.MORE_FIELDS: 2,
    words.MORE_BLOCK_FIELDS: 1, words.SUMMARIES_AS_TEXT: 1, words.SHELL_AS_TEXT: 1, words.NOTES_AS_TEXT: 1,
    words.JOINED_PROMPTS: 1, words.CALL_IDS: 1, words.MADE_RESULTS: 1, words.MOVED_PICTURES: 1, words.EMPTY_RESULTS: 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("openai", {words.THINKING: 2, words.FAILURES: 1, words.JOINED_TEXTS: 2}),
        ("anthropic", {words.THINKING: 1, words.JOINED_TEXTS: 1, words.MADE_TOOLS: 1}),
    ],
)
def test_a_list_of_one_of_everything_counts_it_all(tmp_path: Path, form: str, more: dict[str, int]) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        sid = everything(store)
        session = store.session(sid)
        export = read_export(store, session, session.leaf, whole_tree=False)
        lost = LISTS[form][1](export)
        assert {word: lost[word] for word in lost if word not in (words.STAMPS, words.JOINED)} == {**ALWAYS, **more}


@st.composite
def paths(draw: st.DrawFn) -> list[StoredEntry]:
    """Draw a path of anything in any order, with compactions and edits that reach back."""
    entries: list[StoredEntry] = []
    for number in range(draw(st.integers(1, 14))):
        ids = [entry.id for entry in entries]
        own = draw(st.sampled_from(EVERYTHING))
        kind = draw(st.sampled_from(["any"] * 6 + ["compaction", "omit", "edit"])) if ids else "any"
        if kind == "compaction":
            own = {"type": "compaction", "summary": "So far", "firstKeptEntryId": draw(st.sampled_from(ids))}
            own["tokensBefore"] = 7
        elif kind != "any":
            replacement = None if kind == "omit" else {"content": "Edited"}
            own = {"type": "context_edit", "targetId": draw(st.sampled_from(ids)), "replacement": replacement}
        base = {"id": f"e{number:02}x", "parentId": ids[-1] if ids else None, "timestamp": "2026-03-02T09:00:00.000Z"}
        entries.append(marked(StoredEntry.from_dict({**own, **base})))
    return entries


@pytest.mark.parametrize("form", sorted(LISTS))
@settings(max_examples=150, deadline=None)
@given(entries=paths(), last=st.none() | st.integers(1, 3))
def test_a_list_of_anything_counts_each_entry_that_is_not_in_it(
    form: str, entries: list[StoredEntry], last: int | None
) -> None:
    export = Export(SESSION, tuple(entries), entries[-1].id, last=last)
    write, losses = LISTS[form]
    try:
        written = text_of(write(export))
    except NothingToExportError:
        return
    checked(export, entries, written, losses(export), form)


def test_exports_count_the_entries_beside_the_path(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for source in SOURCES:
            if identify(str(source)).format is None:
                continue
            for sid in take_in(store, source):
                assert store.count_entries(sid) == len(store.entries(sid))


def test_every_word_is_said_of_one_and_of_many() -> None:
    every = [value for name, value in vars(words).items() if name.isupper() and isinstance(value, str)]
    every = [word for word in every if word not in words.FACTS]
    assert len(set(every)) == len(every) > 50
    assert list(words.counts_of(dict.fromkeys(every, 1))) == list(words.counts_of(dict.fromkeys(every, 2)))
    one, many = (words.sentence_of(dict.fromkeys(every, number), "x") for number in (1, 1234))
    assert len(one.split(", ")) == len(many.split(", ")) == len(every) - 2
    assert many.count("1,234") == len(every)
    assert "  " not in one + many
    assert words.sentence_of({}, "x") == ""


def test_words_of_a_writers_own_are_said_as_they_are() -> None:
    lost = {"odd in an answer": 2, words.JOINED: 1, words.LABEL_TEXTS: 1}
    told = "Not in the codex file: 1 label, 2 odd in an answer; otherwise: 1 message joined to the one before"
    assert words.sentence_of(lost, "codex") == told
