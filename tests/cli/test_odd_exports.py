"""Whatever was imported, every form of file can be written of it, and read again: nothing is too odd."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_session_cli.commands.export import FORMS, Form
from pi_sessions.errors import NothingToExportError
from pi_sessions.formats.exports import Export
from pi_sessions.formats.json_values import value_text
from pi_sessions.formats.registry import format_named
from pi_sessions.stored import StoredEntry
from tests.loop.histories import trees
from tests.sessions.pi_files import check
from tests.sessions.pure_strategies import JSON_VALUES, chain, wild_tree
from tests.sessions.test_export_losses import SESSION

KINDS = ("text", "thinking", "toolCall", "image", "image_reference", "document", "web_search_call", "mystery")
BLOCK_FIELDS = (
    *("text", "thinking", "thinkingSignature", "redacted", "id", "name", "arguments", "data", "mimeType", "source"),
    *("image_url", "codex", "codexKind", "argumentsText", "namespace", "textSignature"),
)
TYPES = st.sampled_from([{"type": kind} for kind in KINDS] + [{}]) | st.builds(lambda kind: {"type": kind}, JSON_VALUES)
BLOCK_VALUES = JSON_VALUES | st.sampled_from(('{"type":"reasoning"}', "a"))
BLOCKS = JSON_VALUES | st.builds(
    lambda kind, fields: {**kind, **fields},
    TYPES,
    st.dictionaries(st.sampled_from(BLOCK_FIELDS), BLOCK_VALUES, max_size=4),
)
MESSAGE_FIELDS = (
    *("provider", "api", "model", "usage", "stopReason", "rawStopReason", "errorMessage", "responseId", "timestamp"),
    *("toolCallId", "toolName", "isError", "details", "codexKind", "claudeCode", "note"),
)
MESSAGES = st.builds(
    lambda role, content, fields: ("message", {"message": {"role": role, **content, **fields}}),
    st.sampled_from(("user", "assistant", "assistant", "toolResult", "system", "custom", "bashExecution")),
    st.builds(lambda content: {"content": content}, st.lists(BLOCKS, max_size=4) | JSON_VALUES) | st.just({}),
    st.dictionaries(
        st.sampled_from(MESSAGE_FIELDS), JSON_VALUES | st.sampled_from(("openai", "anthropic", "openai-responses"))
    ),
)
NOTE_KINDS = ("x", "codex.user-instructions", "codex.kept", "claude-code.meta", "claude-code.command")
NOTES = st.builds(
    lambda kind, content, details: ("custom_message", {"customType": kind, "content": content, "details": details}),
    st.sampled_from(NOTE_KINDS) | JSON_VALUES,
    st.lists(BLOCKS, max_size=3) | JSON_VALUES,
    JSON_VALUES,
)
RECORDS = st.builds(
    lambda kind, data: ("custom", {"customType": kind, "data": data}),
    st.sampled_from(("codex.turn_context", "codex.reasoning", "codex.x", "claude-code.summary", "claude-code.system")),
    JSON_VALUES | st.dictionaries(st.sampled_from(("type", "model", "effort", "message", "uuid")), JSON_VALUES),
)
SETTINGS = st.builds(
    lambda kind, name, value: (kind, {name: value}),
    st.sampled_from(("model_change", "thinking_level_change", "session_info", "compaction", "context_edit", "label")),
    st.sampled_from(("modelId", "thinkingLevel", "name", "summary", "firstKeptEntryId", "targetId", "details")),
    JSON_VALUES | st.sampled_from(("e0", "e1")),
)


def paths() -> st.SearchStrategy[list[StoredEntry]]:
    """Return a strategy for one path of entries whose parts may be of any type."""
    items = st.lists(MESSAGES | MESSAGES | NOTES | RECORDS | SETTINGS, min_size=1, max_size=7)
    return items.map(lambda drawn: chain(*drawn))


def exports_of(entries: list[StoredEntry]) -> Iterator[Export]:
    """Yield the path to the last entry and the whole tree; no import leaves infinite numbers in an entry."""
    stored = [StoredEntry.from_dict(json.loads(value_text(entry.to_dict())[0])) for entry in entries]
    export = Export(SESSION, tuple(stored), entries[-1].id)
    yield export
    yield export.replace(whole_tree=True)


def written(form: Form, export: Export) -> str | None:
    """Return a file's text; counting its losses works whenever writing it does."""
    try:
        text = "".join(form.write(export))
    except NothingToExportError:
        return None
    losses = form.losses(export)
    assert all(type(number) is int and number > 0 for number in losses.values())
    return text


def all_written(form: Form, entries: list[StoredEntry]) -> None:
    """Write the entries in a form, and read back what another program would."""
    for export in exports_of(entries):
        text = written(form, export)
        format = format_named(form.name)
        if text is None or format is None or form.name not in ("claude-code", "codex", "pi", "markdown"):
            continue
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"file{form.ending}"
            path.write_text(text, encoding="utf-8")
            for session in format.read(str(path)):
                check(session)


EXAMPLES: list[Any] = [
    None, 5, "text", {}, [None], [5], ["text"], [{}], [{"type": None}], [{"type": ["text"]}], [{"type": "text"}],
    [{"type": "text", "text": 5}], [{"type": "text", "text": {"a": 1}}], [{"type": "thinking"}],
    [{"type": "thinking", "thinking": 1, "thinkingSignature": 5}], [{"type": "toolCall"}],
    [{"type": "toolCall", "id": ["a"], "name": {"b": 1}, "arguments": "no"}], [{"type": "image"}],
    [{"type": "image", "data": 5, "mimeType": None}], [{"text": "no type"}],
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("content", EXAMPLES, ids=str)
def test_a_content_of_any_type_goes_out_in_every_form(form: Form, content: object) -> None:
    roles = ("user", "assistant", "toolResult", "system", "custom")
    told: list[tuple[str, dict[str, Any]]] = [
        ("message", {"message": {"role": role, "content": content}}) for role in roles
    ]
    told += [("custom_message", {"customType": "x", "content": content})]
    told += [("compaction", {"summary": content, "firstKeptEntryId": "e1"})]
    all_written(form, chain(*told))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@settings(max_examples=50, deadline=None)
@given(entries=paths())
def test_odd_messages_go_out_in_every_form(form: Form, entries: list[StoredEntry]) -> None:
    all_written(form, entries)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@settings(max_examples=30, deadline=None)
@given(entries=wild_tree() | trees())
def test_wild_trees_go_out_in_every_form(form: Form, entries: list[StoredEntry]) -> None:
    all_written(form, entries)
