"""What a search finds, where it says that lies, and that the index keeps up without slowing anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_sessions.errors import CannotError, UsageError
from pi_sessions.formats.pi import read_pi_file
from pi_sessions.search import Filters, SearchResult, search
from pi_sessions.search_index import catch_up, forget_segments, is_behind
from pi_sessions.search_query import SIGNS, indexed_form
from pi_sessions.store import SessionStore
from tests.sessions.pi_files import CASES
from tests.sessions.stores import open_store, rows_in, steps_of
from tests.strategies import answer, message, user


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def say(store: SessionStore, *texts: str) -> str:
    """Make a session of user messages and return its id."""
    session_id = store.create_session(cwd="/proj").id
    store.append_many(session_id, [user(text) for text in texts])
    return session_id


def found(store: SessionStore, query: str, *, mode: str = "words", **filters: Any) -> list[str]:
    """Return the ids of the entries a search finds, in its order."""
    result = search(store, query, mode=mode, filters=Filters(**filters))
    return [str(hit.entry_id) for hit in result.hits if hit.kind == "entry"]


QUERIES = [
    tuple(line.split("\t"))
    for line in (CASES / "s26-search-punctuation" / "queries.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


@pytest.fixture(scope="module")
def punctuation(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_store(tmp_path_factory.mktemp("s26") / "s.db") as opened:
        opened.import_session(read_pi_file(str(CASES / "s26-search-punctuation" / "search-punctuation.jsonl")))
        yield opened


@pytest.mark.parametrize(("query", "expected"), QUERIES)
@pytest.mark.parametrize("read_only", [False, True])
def test_s26_every_query_finds_its_entry(query: str, expected: str, read_only: bool, punctuation: SessionStore) -> None:
    catch_up(punctuation.connection)
    if expected.startswith("(error"):
        with pytest.raises(UsageError):
            search(punctuation, query)
        return
    if read_only:
        with SessionStore.open(punctuation.file, read_only=True) as reader:
            ids = found(reader, query)
    else:
        ids = found(punctuation, query)
    assert expected.startswith("(no error") or expected[:8] in ids


@pytest.mark.parametrize(
    "query", ['"', "*", "NEAR", "NEAR(", "-", "(", ")", "a OR", "^x", 'a"b', "col:x", "{", "'", "\\", "%", "_"]
)
def test_signs_of_the_index_language_are_harmless(query: str, punctuation: SessionStore) -> None:
    for mode in ("words", "substring"):
        for hit in search(punctuation, query, mode=mode).hits:
            assert hit.session.id == "00000000-0000-7000-8000-000000000126"


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("Le café est fermé", ["café", "cafe", "CAFÉ", "ferme", "caf"]),
        ("数据库锁定了怎么办", ["数据库", "锁", "锁定", "怎么办"]),
        ("データベースのロックが失われた", ["ロック", "失われた", "ース"]),
        ("데이터베이스 잠금이 사라졌다", ["잠금", "데이터", "베이스"]),
        ("ฐานข้อมูลถูกล็อก", ["ข้อมูล", "ล็อก"]),
        ("Блокировка базы потеряна", ["блокировка", "БАЗЫ", "потер", "рована"[:3]]),
        ("η κλειδαριά χάθηκε", ["κλειδαρια", "ΧΆΘΗΚΕ"]),
        ("قفل قاعدة البيانات", ["قاعدة", "البيان"]),
        ("修复lease丢失的bug", ["lease", "丢失", "lease丢失", "bug"]),
        ("ship it \N{ROCKET} now", ["\N{ROCKET}", "it \N{ROCKET}", "now"]),
        ("Straße nach İstanbul", ["straße", "stanbul"]),
        ('he said "yes" to C:\\temp\\x & <b>', ['"yes" to', "C:\\temp", "& <b>", "temp"]),
        ("line one\nline two\ttabbed", ['"one line"', '"two tabbed"', "tabbed"]),
        ("call get_user_by_id(42)", ["get_user_by_id", "user_by", "er_by_i", "get_user_by_id(42)"]),
    ],
)
def test_words_phrases_beginnings_and_parts_are_found_in_every_script(
    text: str, queries: list[str], store: SessionStore
) -> None:
    say(store, "something else altogether", text)
    for query in queries:
        assert found(store, query) == ["e002"], query
        with SessionStore.open(store.file, read_only=True) as reader:
            assert "e002" in found(reader, query)


def test_escaped_json_is_found_by_the_scan_as_well(store: SessionStore) -> None:
    """Agents written in Python store `\\u65e5`, those in Go `\\u003c`."""
    session_id = store.create_session(cwd="/proj").id
    source = Path(store.file).with_name("escaped.jsonl")
    source.write_text(
        '{"type":"session","version":3,"id":"esc","timestamp":"2026-03-02T09:00:00.000Z","cwd":"/p"}\n'
        '{"type":"message","id":"a1","parentId":null,"timestamp":"2026-03-02T09:00:00.000Z","message":'
        '{"role":"user","content":"\\u65e5\\u672c \\ud83d\\ude80 \\u003cdiv\\u003e caf\\u00e9"}}\n'
    )
    store.import_session(read_pi_file(str(source)))
    assert session_id
    for query in ("日本", "\N{ROCKET}", "<div>", "café"):
        for mode in ("words", "substring"):
            assert found(store, query, mode=mode) == ["a1"], (query, mode)


def test_all_words_must_be_there_and_a_phrase_in_its_order(store: SessionStore) -> None:
    say(store, "the lease was lost", "lost: the lease", "only the lease")
    assert set(found(store, "lease lost")) == {"e001", "e002"}
    assert found(store, '"the lease was"') == ["e001"]
    assert found(store, 'lost "the lease"') == ["e002", "e001"]
    assert found(store, '"lease lost"') == []


def test_everything_an_entry_says_is_searched_and_no_picture_and_no_id(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    call = {
        "type": "toolCall",
        "id": "call_pelican",
        "name": "bash",
        "arguments": {"command": "ls", "env": {"A": "heron"}},
    }
    store.append_many(
        session_id,
        [
            message("assistant", [{"type": "thinking", "thinking": "albatross"}, call], provider="p", model="m"),
            message("toolResult", [{"type": "text", "text": "osprey"}], toolCallId="call_pelican", toolName="bash"),
            {"type": "message", "message": {"role": "bashExecution", "command": "echo", "output": "kestrel"}},
            {"type": "custom_message", "customType": "note", "content": "magpie", "display": True},
            {"type": "branch_summary", "fromId": "e001", "summary": "bittern"},
            {"type": "compaction", "summary": "cormorant", "firstKeptEntryId": "e001", "tokensBefore": 1},
            message("assistant", [], stopReason="error", errorMessage="dunnock"),
            message("user", [{"type": "image", "mimeType": "image/png", "data": "pelican" * 20}]),
            {"type": "custom", "customType": "state", "data": {"x": "pelican"}},
        ],
    )
    birds = ["heron", "osprey", "kestrel", "magpie", "bittern", "cormorant", "dunnock"]
    assert found(store, "albatross") == ["e001"]
    assert [found(store, bird)[0] for bird in birds] == [f"e{number:03}" for number in range(1, 8)]
    for mode in ("words", "substring", "regex"):
        assert found(store, "pelican", mode=mode) == []


def test_names_and_labels_are_found(store: SessionStore) -> None:
    session_id = say(store, "one", "two")
    store.set_name(session_id, "The Lease Bug")
    store.set_label(session_id, "e001", "lease-found")
    hits = search(store, "lease").hits
    assert [(hit.kind, hit.entry_id) for hit in hits] == [("name", "e002"), ("label", "e001")]
    assert hits[0].snippet[hits[0].marks[0][0] : hits[0].marks[0][1]] == "Lease"


def test_accents_do_not_count_in_names_and_in_a_store_that_is_only_read(store: SessionStore) -> None:
    session_id = say(store, "le café", "caf\u00e9 au lait")
    store.set_name(session_id, "Über Café")
    with SessionStore.open(store.file, read_only=True) as reader:
        assert found(reader, "cafe") == ["e002", "e001"]
        assert search(reader, "uber").hits[0].kind == "name"
    assert found(store, "cafe") == ["e002", "e001"]
    assert search(store, "UBER cafe").hits[0].kind == "name"


def test_a_hit_knows_its_branch_and_whether_it_is_active(store: SessionStore) -> None:
    session_id = say(store, "start", "heron one")
    store.rewind(session_id, "e001")
    store.append(session_id, answer("heron two"))
    store.create_branch(session_id, "idea", at="e001")
    store.append(session_id, user("heron three"), branch="idea")
    told = {hit.entry_id: (hit.branches, hit.active) for hit in search(store, "heron").hits}
    assert told == {"e002": ((), False), "e003": (("main",), True), "e004": (("idea",), False)}
    assert found(store, "heron", active=True) == ["e003"]
    assert found(store, "heron", branch="idea") == ["e004"]
    assert search(store, "start").hits[0].branches == ("main", "idea")
    with pytest.raises(CannotError):
        search(store, "heron", filters=Filters(branch="nowhere"))


def test_filters_narrow(store: SessionStore) -> None:
    first = say(store, "heron a")
    store.append(first, answer("heron b", provider="zai", model="glm"))
    store.append(first, message("toolResult", [{"type": "text", "text": "heron c"}], toolCallId="x", toolName="read"))
    second = store.create_session(cwd="/other").id
    store.clock.now_ms += 86_400_000  # type: ignore[attr-defined]
    store.append(second, user("heron d"))
    assert found(store, "heron") == ["e004", "e003", "e002", "e001"]
    assert found(store, "heron", session_id=first) == ["e003", "e002", "e001"]
    assert found(store, "heron", cwd="/other") == ["e004"]
    assert found(store, "heron", role="user") == ["e004", "e001"]
    assert found(store, "heron", role="tool") == ["e003"]
    assert found(store, "heron", tool="read") == ["e003"]
    assert found(store, "heron", model="GLM") == ["e003", "e002"]
    assert found(store, "heron", since_ms=store.clock()) == ["e004"]
    limited = search(store, "heron", limit=2)
    assert (len(limited.hits), limited.more) == (2, True)
    assert {hit.entry_id for hit in search(store, "heron", sort="best").hits} == {"e001", "e002", "e003", "e004"}


def test_a_shared_entry_is_one_hit_and_survives_the_removal_of_its_writer(store: SessionStore) -> None:
    session_id = say(store, "heron")
    fork = store.fork(session_id).id
    [hit] = search(store, "heron").hits
    assert (hit.session.id, hit.shared) == (session_id, (fork,))
    assert search(store, "heron", filters=Filters(session_id=fork)).hits[0].session.id == fork
    store.delete_session(session_id)
    [hit] = search(store, "heron").hits
    assert (hit.session.id, hit.shared) == (fork, ())
    store.delete_session(fork)
    assert search(store, "heron").hits == ()


def test_expressions_and_patterns_only_when_asked_for(store: SessionStore) -> None:
    say(store, "lease lost", "lease kept", "lock lost")
    assert found(store, "lease NOT lost", mode="fts") == ["e002"]
    assert found(store, "lease|lock") == []
    assert found(store, r"l[eo](ase|ck) lost$", mode="regex") == ["e003", "e001"]
    for mode, query in (("fts", "lease AND ("), ("fts", " "), ("regex", "("), ("regex", ""), ("words", " ")):
        with pytest.raises(UsageError):
            search(store, query, mode=mode)


def test_a_store_that_cannot_be_written_is_scanned_and_says_so(store: SessionStore) -> None:
    say(store, "the heron")
    with SessionStore.open(store.file, read_only=True) as reader:
        result = search(reader, "heron")
        assert [hit.entry_id for hit in result.hits] == ["e001"]
        assert result.by == "scan"
        assert result.why_scan
        with pytest.raises(CannotError):
            search(reader, "heron", mode="fts")
    catch_up(store.connection)
    with SessionStore.open(store.file, read_only=True) as reader:
        assert search(reader, "heron").by == "index"


def test_a_held_store_is_scanned(store: SessionStore) -> None:
    say(store, "the heron")
    with SessionStore.open(store.file, busy_timeout_s=0) as other, store.transaction():
        store.connection.execute("update sessions set pinned = 1")
        result = search(other, "heron")
    assert (result.by, len(result.hits)) == ("scan", 1)


def test_a_catch_up_that_was_interrupted_goes_on(store: SessionStore) -> None:
    say(store, *(f"heron {number}" for number in range(10)))
    say(store, "heron again")

    class Interrupted(Exception):
        pass

    def stop(done: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        catch_up(store.connection, batch=4, progress=stop)
    assert rows_in(store, "entry_index_docsize") == 4
    assert is_behind(store.connection)
    assert catch_up(store.connection, batch=4) == 7
    assert not is_behind(store.connection)
    assert len(found(store, "heron")) == 11
    assert rows_in(store, "entry_index_docsize") == 11


def test_entries_between_indexed_ones_are_indexed_too(store: SessionStore) -> None:
    """A new entry in an older segment has a smaller key than the latest that was indexed."""
    session_id = say(store, "one", "two")
    store.fork(session_id)
    other = say(store, "far behind")
    catch_up(store.connection)
    store.append(session_id, user("heron in the old segment"))
    store.rewind(session_id, "e001")
    store.append(session_id, user("heron in a new one"))
    store.append(other, user("heron at the end"))
    assert search(store, "heron").indexed == 3
    assert len(found(store, "heron")) == 3


def test_an_append_does_nothing_for_the_index(store: SessionStore) -> None:
    session_id = say(store, "one")
    before = steps_of(store, lambda: store.append(session_id, user("two")))
    search(store, "one")
    rows = rows_in(store, "entry_index_docsize")
    assert abs(steps_of(store, lambda: store.append(session_id, user("two"))) - before) <= 1
    assert rows_in(store, "entry_index_docsize") == rows


def test_the_index_takes_at_most_half_the_size_of_the_text(store: SessionStore) -> None:
    from tests.benchmarks.data import messages

    session_id = store.create_session(cwd="/proj").id
    store.append_many(session_id, [{"type": "message", "message": each} for each in messages(4000)])
    catch_up(store.connection)
    text = sum(len(" ".join(str(b.get("text")) for b in each["content"])) for each in messages(4000))
    [[size]] = store.connection.execute("select sum(length(block)) from entry_index_data").fetchall()
    assert size <= text / 2


def test_segments_can_be_forgotten(store: SessionStore) -> None:
    say(store, "heron")
    say(store, "heron too")
    catch_up(store.connection)
    with store.transaction():
        forget_segments(store.connection, [1])
    rows = store.connection.execute("select rowid from entry_index where entry_index match 'heron'").fetchall()
    assert [key >> 24 for (key,) in rows] == [2]
    store.connection.execute("insert into entry_index(entry_index) values('integrity-check')")


WORDS = st.sampled_from(
    ["lease", "lost", "Löwe", "日本", "語", "a_b", "x.y", "c++", '"', "*", "(", "été", "\N{ROCKET}"]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=5),
    st.lists(WORDS, min_size=1, max_size=2).map(" ".join),
)
def test_what_the_index_finds_the_scan_finds_too(punctuation: SessionStore, texts: list[str], query: str) -> None:
    within = Filters(session_id=say(punctuation, *texts))
    with SessionStore.open(punctuation.file, read_only=True) as reader:
        scanned = search(reader, query, filters=within)
    indexed: SearchResult = search(punctuation, query, filters=within)
    assert scanned.by == "scan"
    by_index = {hit.entry_id for hit in indexed.hits}
    by_scan = {hit.entry_id for hit in scanned.hits}
    assert by_index <= by_scan
    assert bool(by_index) == bool(by_scan)


def test_s19_what_surrounds_a_lone_surrogate_is_found(store: SessionStore) -> None:
    store.import_session(read_pi_file(str(CASES / "s19-lone-surrogate" / "lone-surrogate.jsonl")))
    assert found(store, "heron") == ["5a000003"]
    assert found(store, "\N{ROCKET}") == ["5a000001"]
    assert search(store, "cut emoji").hits[0].kind == "name"


def test_half_a_character_is_stored_as_a_replacement_sign(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    call = {
        "type": "toolCall",
        "id": "c",
        "name": "bash",
        "arguments": {"\ud800key": "heron \udc00", "two": "\ud83d\ude80"},
    }
    [entry] = store.append_many(session_id, [message("assistant", [call], provider="p\udfff", model="m")])
    said = store.entry(session_id, entry.id).message or {}
    assert said["content"][0]["arguments"] == {"\ufffdkey": "heron \ufffd", "two": "\N{ROCKET}"}
    assert said["provider"] == "p\ufffd"
    assert found(store, "heron") == [entry.id]


def test_half_a_character_that_is_stored_already_stops_no_search_and_no_export(store: SessionStore) -> None:
    session_id = say(store, "x")
    payload = '{"role":"user","content":"heron \\udc00 \\ud83d\\ude80"}'
    store.connection.execute("update entries set payload = ?", (payload,))
    for mode in ("words", "substring", "regex"):
        [hit] = search(store, "heron", mode=mode).hits
        assert hit.snippet == "heron \ufffd \N{ROCKET}"
    assert search(store, "heron \udc00").hits
    [entry] = store.entries(session_id)
    assert (entry.message or {})["content"] == "heron \ufffd \N{ROCKET}"


@pytest.mark.parametrize("mode", ["words", "substring"])
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("two cafe\u0301s there", "caf\u00e9s"),
        ("two caf\u00e9s there", "cafe\u0301s"),
        ("two cafe\u0301s there", "cafes"),
        ("\uff76\uff9e\uff72\uff84\uff9e", "ガイド"),
        ("ガイド", "\uff76\uff9e\uff72\uff84\uff9e"),
        ("ΟΔΟΣ here", "οδος"),
        ("οδοσ here", "οδος"),
        ("\uff21\uff22\uff23 wide", "\uff21\uff22\uff23"),
    ],
)
def test_however_a_character_is_written(store: SessionStore, text: str, query: str, mode: str) -> None:
    say(store, text)
    assert found(store, query, mode=mode) == ["e001"]


def test_inside_words_with_accents(store: SessionStore) -> None:
    say(store, "deux café", "wide \uff21\uff22\uff23")
    assert found(store, "afe", mode="substring") == ["e001"]
    assert found(store, "bc", mode="substring") == ["e002"]
    [hit] = search(store, "afe", mode="substring").hits
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["afé"]


def test_names_of_arguments_are_found_and_an_index_without_them_is_made_anew(store: SessionStore) -> None:
    session_id = store.create_session(cwd="/proj").id
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"herondepth": {"inner": 3}}}
    store.append_many(session_id, [message("assistant", [call], provider="p", model="m")])
    assert found(store, "herondepth") == ["e001"]
    store.connection.execute("insert into entry_index(entry_index) values('delete-all')")
    store.connection.execute("update indexed_sessions set written = 1 where sid = -1")
    assert is_behind(store.connection)
    result = search(store, "herondepth inner")
    assert (len(result.hits), result.by, result.indexed) == (1, "index", 1)


def test_an_expression_that_never_ends_is_stopped(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pi_sessions.search_query.LONGEST_MATCH_S", 0.2)
    say(store, "a" * 60 + "b")
    with pytest.raises(UsageError, match="took more than"):
        search(store, r"(a+)+$", mode="regex")
    assert found(store, "a+b", mode="regex") == ["e001"]


def test_signs_that_are_passed_over_have_one_form() -> None:
    signs = [chr(point) for point in range(0x80, 0x110000) if re.match(f"[{SIGNS}]", chr(point))]
    assert len(signs) > 2000
    for sign in signs:
        # A letter with an accent makes the whole text be looked up.
        assert indexed_form(f"é{sign}") == f"e{sign}"
    text = "".join(signs)
    assert indexed_form(text) == text


def test_operators_stay_operators_beside_letters_that_are_no_ascii(store: SessionStore) -> None:
    session = store.create_session()
    one = store.append(session.id, user("une élan"))
    store.append(session.id, user("une"))
    found = search(store, "élan OR absent", mode="fts")
    assert [hit.entry_id for hit in found.hits] == [one.id]


def test_many_entries_are_read_as_few_are(store: SessionStore) -> None:
    texts = ["plain", "halves \\ud83d", "déjà vu", "1e999"] * 200
    session = store.create_session()
    store.append_many(session.id, [user(f"{text} {number}") for number, text in enumerate(texts)])
    assert catch_up(store.connection) == len(texts)
    for word in ("plain", "halves", "deja", "1e999"):
        assert len(search(store, word, limit=500).hits) == 200
