"""A scrubbed secret is nowhere in the file's bytes; everything beside it stays."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pi_sessions.errors import CannotError, StoreBusyError
from pi_sessions.scrubbing import find_stored, scrub
from pi_sessions.search import search
from pi_sessions.search_index import catch_up
from pi_sessions.secret_spans import SecretSpans, core, replaced
from pi_sessions.store import SessionStore
from tests.sessions.stores import open_store
from tests.strategies import message, user

SECRET = 'Zx9-secret/with"quote\\and\nline-Ωμέγα-\N{ROCKET}'
PLAIN = "tok_0123456789abcdefXYZ"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def bytes_of(store: SessionStore) -> bytes:
    """Return every byte of the file, its log and its shared memory."""
    return b"".join(path.read_bytes() for path in sorted(Path(store.file).parent.glob("s.db*")))


def test_a_scrubbed_secret_is_in_no_byte_of_the_file(store: SessionStore) -> None:
    session_id = store.create_session(cwd=f"/proj/{PLAIN}", name=f"about {PLAIN}").id
    for number in range(200):
        store.append(session_id, user(f"filler {number} {PLAIN if number % 3 == 0 else ''}"))
    store.set_label(session_id, "e001", f"label {PLAIN}")
    store.set_name(session_id, f"again {PLAIN[:14]}…")
    store.create_branch(session_id, f"b-{PLAIN}", at="e002")
    picture = base64.b64encode(b"\x89PNG" + b"x" * 500 + PLAIN.encode() + b"y" * 500).decode()
    image = {"type": "image", "mimeType": "image/png", "data": picture}
    store.append(session_id, message("user", [{"type": "text", "text": f"before {PLAIN}"}, image]))
    forked = store.fork(session_id).id
    store.delete_session(forked)
    catch_up(store.connection)
    assert PLAIN.encode() in bytes_of(store)
    before = [(entry.id, entry.parent_id, entry.type, entry.time_ms) for entry in store.entries(session_id)]
    result = scrub(store, {PLAIN: "token"})
    assert PLAIN.encode() not in bytes_of(store)
    assert PLAIN[:12].encode() not in bytes_of(store)
    assert [(entry.id, entry.parent_id, entry.type, entry.time_ms) for entry in store.entries(session_id)] == before
    assert store.verify() == []
    [told] = result.secrets
    assert (told.mark, told.kind, len(told.entries)) == ("[redacted:token-1]", "token", 68)
    assert {"sessions", "labels", "operations", "branches", "blobs"} <= dict(told.elsewhere).keys()
    last = store.entry(session_id, "e201").message
    assert last is not None
    assert last["content"][0]["text"] == "before [redacted:token-1]"
    assert len(base64.b64decode(last["content"][1]["data"])) == len(base64.b64decode(picture))
    assert store.session(session_id).name == "again [redacted:token-1]…"
    hits = search(store, "filler 42")
    assert [hit.entry_id for hit in hits.hits] == ["e043"]
    assert search(store, PLAIN).hits == ()


def test_pictures_around_a_secret_come_back_byte_for_byte(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    pictures = [base64.b64encode(bytes([number]) * 900).decode() for number in range(3)]
    blocks: list[object] = []
    for picture in pictures:
        blocks += [
            {"type": "text", "text": f"{PLAIN} and {PLAIN}"},
            {"type": "image", "mimeType": "i", "data": picture},
        ]
    store.append(session_id, message("user", blocks))
    scrub(store, {PLAIN: "token"})
    content = (store.entry(session_id, "e001").message or {})["content"]
    assert [block["data"] for block in content if block["type"] == "image"] == pictures
    assert content[0]["text"] == "[redacted:token-1] and [redacted:token-1]"


@pytest.mark.parametrize("escapes", [True, False])
def test_however_json_escapes_it(escapes: bool, store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    inner = json.dumps({"key": SECRET}, ensure_ascii=escapes)
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"env": {SECRET: "x"}, "json": inner}}
    nested = json.dumps({"deeper": inner}, ensure_ascii=escapes)
    store.append(session_id, message("assistant", [{"type": "text", "text": SECRET}, call], provider="p", model="m"))
    store.append(session_id, user(nested))
    scrub(store, {SECRET: "secret"})
    texts = json.dumps([entry.to_dict() for entry in store.entries(session_id)])
    assert "Zx9" not in texts
    assert texts.count("[redacted:secret-1]") == 4
    assert store.verify() == []


def test_an_escaped_payload_is_found(store: SessionStore) -> None:
    """Bytes as another program may have written them: every character as an escape."""
    session_id = store.create_session(cwd="/proj").id
    store.append(session_id, user("x"))
    escaped = "".join(f"\\u{ord(char):04X}" for char in PLAIN)
    store.connection.execute("update entries set payload = ?", (f'{{"role":"user","content":"a {escaped} b"}}',))
    scrub(store, {PLAIN: "token"})
    assert (store.entry(session_id, "e001").message or {})["content"] == "a [redacted:token-1] b"


def test_the_search_for_secrets_finds_and_removes_them_all(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    keys = ["sk-ant-api03-" + "aB3" * 12, "ghp_" + "A1b2" * 9]
    store.append(session_id, user(f"use {keys[0]} and GITHUB_TOKEN={keys[1]}"))
    store.append(session_id, user("the commit is 4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39"))
    assert find_stored(store) == {keys[0]: "anthropic-key", keys[1]: "github-token"}
    scrub(store, find_stored(store, session_id=session_id))
    assert not any(key.encode() in bytes_of(store) for key in keys)
    assert find_stored(store) == {}
    assert "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39" in store.entry(session_id, "e002").payload


def test_a_second_secret_gets_another_mark(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    store.append(session_id, user(f"{PLAIN} and other-secret-value"))
    scrub(store, {PLAIN: "token"})
    assert scrub(store, {"other-secret-value": "token"}).secrets[0].mark == "[redacted:token-2]"
    assert store.entry(session_id, "e001").message == {
        "role": "user",
        "content": "[redacted:token-1] and [redacted:token-2]",
    }


def test_a_dry_run_changes_nothing(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    store.append(session_id, user(PLAIN))
    before = list(store.connection.iterdump())
    assert scrub(store, {PLAIN: "token", "nowhere-to-be-found": "x"}, dry_run=True).missing == 1
    assert list(store.connection.iterdump()) == before


def test_short_texts_and_ids_are_refused(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj", id="a-session-id").id
    store.append(session_id, user("a-session-id"))
    for text in ("abc", "session-id"):
        with pytest.raises(CannotError):
            scrub(store, {text: "x"})


def test_a_reader_of_old_pages_is_said(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    store.append(session_id, user(PLAIN))
    store.connection.execute("pragma busy_timeout = 50")
    with SessionStore.open(store.file) as reader:
        reader.connection.execute("begin")
        reader.connection.execute("select * from entries").fetchall()
        with pytest.raises(StoreBusyError):
            scrub(store, {PLAIN: "token"})
        reader.connection.execute("rollback")
    assert scrub(store, {PLAIN: "token"}).missing == 1
    assert PLAIN.encode() not in bytes_of(store)


PLAIN_TEXT = st.text(st.characters(categories=("L", "N", "Zs", "So")), max_size=20)


@settings(max_examples=300, deadline=None)
@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20), st.integers(0, 1), st.booleans())
def test_a_secret_between_any_texts_is_found_and_json_stays_json(
    secret: str, before: str, after: str, depth: int, ascii_only: bool
) -> None:
    check_found(secret, before, after, depth, ascii_only)


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=6, max_size=30), PLAIN_TEXT, PLAIN_TEXT, st.integers(2, 3), st.booleans())
def test_a_secret_is_found_in_json_inside_json(
    secret: str, before: str, after: str, depth: int, ascii_only: bool
) -> None:
    check_found(secret, before, after, depth, ascii_only)


def check_found(secret: str, before: str, after: str, depth: int, ascii_only: bool) -> None:
    """Check that nothing is left of a secret in a text that was made JSON so many times."""
    assume(len(core(secret)) >= 6)
    text = before + secret + after
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)
    clean = replaced(text, SecretSpans(secret).in_text(text), "[mark]")
    for _ in range(depth):
        clean = json.loads(clean)
    assert "[mark]" in clean
    assert core(secret) not in clean.replace("[mark]", "")


def leaky_answer(store: SessionStore) -> str:
    """Store a conversation with numbers, tool calls and words of the format, and return its session."""
    session_id = store.create_session(cwd="/proj").id
    store.append(session_id, message("user", "my pin is 123456", timestamp=1711234567890))
    arguments = {"pin": 123456, "other": 1234567, "name123456": "x123456y", "json": '{"pin":123456,"role":"user"}'}
    call = {"type": "toolCall", "id": "call-1", "name": "bash", "arguments": arguments}
    said = {"type": "text", "text": "assistant toolCall timestamp content message stopReason"}
    store.append(
        session_id,
        message("assistant", [said, call], api="a", provider="p", model="m", stopReason="toolUse", timestamp=1234567),
    )
    return session_id


def test_digits_of_a_timestamp_stay_and_numbers_that_are_the_secret_go(store: SessionStore) -> None:
    session_id = leaky_answer(store)
    [told] = scrub(store, {"123456": "secret"}).secrets
    assert len(told.entries) == 2
    first, second = (entry.message or {} for entry in store.entries(session_id))
    assert first == {"role": "user", "content": "my pin is [redacted:secret-1]", "timestamp": 1711234567890}
    assert second["timestamp"] == 1234567
    arguments = second["content"][1]["arguments"]
    assert json.loads(arguments.pop("json")) == {"pin": "[redacted:secret-1]", "role": "user"}
    assert arguments == {
        "pin": "[redacted:secret-1]",
        "other": 1234567,
        "name[redacted:secret-1]": "x[redacted:secret-1]y",
    }
    assert store.verify() == []


@pytest.mark.parametrize(
    "word", ["assistant", "toolCall", "timest", "content", "message", "stopReason", "arguments", "secret", "redacted"]
)
def test_words_of_the_format_are_replaced_in_texts_only(word: str, store: SessionStore) -> None:
    session_id = leaky_answer(store)
    store.append(session_id, user(f"say {word} here"))
    before = [entry.to_dict() for entry in store.entries(session_id)]
    scrub(store, {word: "secret"})
    after = [entry.to_dict() for entry in store.entries(session_id)]
    assert word not in after[2]["message"]["content"]
    for old, new in zip(before, after, strict=True):
        assert list(old["message"]) == list(new["message"])
        for name in ("role", "api", "provider", "model", "stopReason", "timestamp"):
            assert old["message"].get(name) == new["message"].get(name)
    assert after[1]["message"]["content"][1] == before[1]["message"]["content"][1]
    assert store.verify() == []
    assert scrub(store, {word: "secret"}).missing == 1
    store.undo(session_id)


@pytest.mark.parametrize("part", ['"pin":123456', "my-model-name", 'user","content":"my pin'])
def test_what_an_entry_is_made_of_is_refused_and_nothing_changes(part: str, store: SessionStore) -> None:
    session_id = leaky_answer(store)
    store.append(session_id, message("assistant", [], api="a", provider="p", model="my-model-name"))
    before = list(store.connection.iterdump())
    with pytest.raises(CannotError, match="nothing was changed"):
        scrub(store, {part: "secret"})
    assert list(store.connection.iterdump()) == before


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_secret_in_base64_goes_too(before: str, store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    encoded = base64.b64encode(f"{before}{PLAIN}".encode()).decode()
    store.append(session_id, user(f"Authorization: Basic {encoded}"))
    scrub(store, {PLAIN: "token"})
    assert encoded[4:-4] not in store.entry(session_id, "e001").payload
    assert encoded[4:-4].encode() not in bytes_of(store)
