"""Our own exports, taken back into the store they come from: nothing is added and nothing moves."""

import json
from pathlib import Path

import pytest

from pi_sessions.formats import claude_code_writer, codex_writer, markdown
from pi_sessions.formats.exports import read_export
from pi_sessions.formats.registry import identify
from pi_sessions.store import SessionStore
from pi_sessions.totals import session_totals
from tests.sessions.foreign_files import FORMATS, SAMPLES, take_in
from tests.sessions.pi_files import CASES, FIXTURES

WRITERS = {"claude-code": claude_code_writer, "codex": codex_writer, "markdown": markdown}
SOURCES = [
    *sorted((FIXTURES / "sessions").glob("*.jsonl")),
    *sorted(SAMPLES.glob("*.jsonl")),
    *sorted((FORMATS / "claude-code" / "projects").rglob("*.jsonl")),
    *sorted((FORMATS / "codex" / "sessions").rglob("*.jsonl")),
    *sorted((CASES / "s15-split-assistant-message").glob("*.jsonl")),
]


def entries_of(store: SessionStore) -> int:
    count: int = store.connection.execute("select count(*) from entries").fetchone()[0]
    return count


@pytest.mark.parametrize("name", sorted(WRITERS))
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem[-24:])
def test_an_export_that_comes_back_adds_nothing(tmp_path: Path, source: Path, name: str) -> None:
    found = identify(str(source))
    if found.format is None:
        assert found.reason is not None
        return
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        for number, sid in enumerate(take_in(store, source)):
            session = store.session(sid)
            if session.leaf is None or not store.entries(sid):
                continue
            text = "".join(WRITERS[name].export_lines(read_export(store, session, session.leaf, whole_tree=False)))
            path = tmp_path / f"{number}{'.md' if name == 'markdown' else '.jsonl'}"
            path.write_text(text, encoding="utf-8", errors="surrogatepass")
            back = identify(str(path))
            if back.format is None or back.format.name != name:
                continue
            before, cost = entries_of(store), session_totals(store.entries(sid)).cost
            for parsed in back.format.read(str(path)):
                result = store.import_session(parsed)
                assert result.added == 0, parsed.id
            assert entries_of(store) == before
            assert store.session(sid).leaf == session.leaf
            assert session_totals(store.entries(sid)).cost == cost


def test_what_was_edited_after_the_export_is_taken_in(tmp_path: Path) -> None:
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        sid = store.create_session(cwd="/p").id
        for text in ("First", "Second"):
            store.append_message(sid, {"role": "user", "content": text})
        session = store.session(sid)
        lines = list(codex_writer.export_lines(read_export(store, session, session.leaf, whole_tree=False)))
        text = "".join(lines).replace("Second", "Another")
        assert json.loads(lines[0])["type"] == "session_meta"
        path = tmp_path / "rollout.jsonl"
        path.write_text(text, encoding="utf-8")
        (parsed,) = list(codex_read(path))
        assert store.import_session(parsed).added == 1


def codex_read(path: Path) -> list:  # type: ignore[type-arg]
    found = identify(str(path))
    assert found.format is not None
    return list(found.format.read(str(path)))
