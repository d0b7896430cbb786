"""Sources read in a second process: what comes is what a plain read gives, whatever happens to that process."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_session_cli import taking_in
from pi_session_cli.taking_in import Intake
from pi_sessions.errors import SourceError
from pi_sessions.formats import ahead
from pi_sessions.formats.ahead import ReadAhead
from pi_sessions.formats.parsed import ParsedSession
from pi_sessions.formats.registry import Format, find_sources
from pi_sessions.store import SessionStore
from tests.benchmarks.mixed_sources import write_mixed_sources

FIXTURES = Path(__file__).parents[2] / "fixtures"
Sources = list[tuple[str, Format]]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_has_two_cores", lambda: True)
    # The first source is read here in any case.
    monkeypatch.setattr(ahead, "START_BYTES", 0)


@pytest.fixture
def mixed(tmp_path: Path) -> Sources:
    """Some sessions of three tools, 6 MB in all."""
    write_mixed_sources(str(tmp_path / "mixed"), 6_000_000)
    return sources_of(tmp_path / "mixed")


def sources_of(folder: Path) -> Sources:
    return [(found.path, found.format) for found in find_sources([str(folder)]) if found.format is not None]


def told(session: ParsedSession) -> dict[str, Any]:
    names = [name for name in type(session.entries[0]).__slots__ if name != "_fields"] if session.entries else []
    entries = [[getattr(entry, name) for name in names] for entry in session.entries]
    return session.as_dict() | {"entries": entries}


def outcome(sessions: Iterator[ParsedSession]) -> list[Any]:
    """Return what comes, an error included."""
    found: list[Any] = []
    try:
        found += map(told, sessions)
    except SourceError as error:
        found.append(error.message)
    return found


def process_of(reader: ReadAhead) -> Any:
    assert reader._process is not None
    return reader._process


def test_sessions_of_every_kind_come_as_a_plain_read_gives_them(mixed: Sources) -> None:
    sources = mixed + [source for source in sources_of(FIXTURES) if source[0].endswith(".jsonl")]
    assert len({format.name for _path, format in sources}) >= 5
    with ReadAhead(sources, least=0) as reader:
        process = process_of(reader)
        for path, format in sources:
            stamp, sessions = reader.read(path, format)
            assert stamp == format.stamp(path)
            assert outcome(sessions) == outcome(format.read(path))
        # It read all of this, and is still there.
        assert process.poll() is None
        assert reader._at == len(reader._jobs) - 1
    assert process.returncode is not None


def test_sources_may_be_left_out_and_be_others(mixed: Sources) -> None:
    with ReadAhead(mixed[1:], least=0) as reader:
        for place in (0, 2, 5, 1, 3):
            path, format = mixed[place]
            _stamp, sessions = reader.read(path, format)
            first = next(sessions)
            assert told(first) == told(next(iter(format.read(path))))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies_costs_nothing(mixed: Sources, end: signal.Signals) -> None:
    with ReadAhead(mixed, least=0) as reader:
        for place, (path, format) in enumerate(mixed):
            _stamp, sessions = reader.read(path, format)
            if place == 1:
                os.kill(process_of(reader).pid, end)
            assert [len(session.entries) for session in sessions] == [len(each.entries) for each in format.read(path)]
        assert reader._process is None


def test_a_process_that_cannot_begin_costs_nothing(mixed: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with ReadAhead(mixed, least=0) as reader:
        path, format = mixed[0]
        assert len(list(reader.read(path, format)[1])) == 1


def test_what_fails_there_is_read_here_from_where_it_failed(mixed: Sources, tmp_path: Path) -> None:
    """A file that nobody can read fails in both, with the error of a plain read; others come."""
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"type": "user"}\n')
    format = mixed[0][1]
    with ReadAhead([mixed[0], (str(odd), format), *mixed[1:]], least=0) as reader:
        with pytest.raises(SourceError) as plain:
            list(format.read(str(odd)))
        with pytest.raises(SourceError) as ahead_of:
            list(reader.read(str(odd), format)[1])
        assert ahead_of.value.message == plain.value.message
        assert reader._at == 0
        assert len(list(reader.read(*mixed[1])[1])) == 1
        assert reader._at == 1


def test_a_process_that_dies_within_a_source_leaves_the_rest_of_it_to_this_one(mixed: Sources, tmp_path: Path) -> None:
    lines = []
    for agent in ("", "a1", "a2", "a3"):
        told = {"type": "user", "sessionId": "s", "cwd": "/p", "parentUuid": None, "isSidechain": bool(agent)}
        told |= {"uuid": f"u{agent}", "timestamp": "2026-03-01T10:00:00.000Z"} | ({"agentId": agent} if agent else {})
        lines.append(json.dumps({**told, "message": {"role": "user", "content": "said " + agent}}))
    path = tmp_path / "claude.jsonl"
    path.write_text("\n".join(lines) + "\n")
    format = next(format for _path, format in mixed if format.name == "claude-code")
    expected = [session.id for session in format.read(str(path))]
    assert len(expected) == 4
    with ReadAhead([mixed[0], (str(path), format), *mixed[1:]], least=0) as reader:
        _stamp, sessions = reader.read(str(path), format)
        assert reader._at == 0
        found = [next(sessions).id, next(sessions).id]
        reader._end()
        assert found + [session.id for session in sessions] == expected


def test_this_process_reads_until_the_other_has_begun_and_then_a_share() -> None:
    jobs = {(f"{number}", "pi"): 1 << 20 for number in range(100)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "START_BYTES", 10 << 20)
        others = ahead._others(jobs)
    own = [int(path) for path, _format in jobs.keys() - set(others)]
    assert set(range(10)) < set(own)
    assert len(own) == pytest.approx(100 * ahead.OWN_SHARE, abs=1)


def test_little_is_read_without_another_process(mixed: Sources) -> None:
    for reader in (ReadAhead(mixed), ReadAhead(mixed[:1], least=0), ReadAhead([], least=0)):
        with reader:
            assert reader._process is None


def test_an_import_with_it_stores_what_one_without_it_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mixed"
    write_mixed_sources(str(folder), 4_000_000)
    monkeypatch.setattr(taking_in, "ReadAhead", lambda sources: ReadAhead(sources, least=0))
    stored = []
    for number, least in enumerate((0, 1 << 40)):
        monkeypatch.setattr(taking_in, "LEAST_BYTES", least)
        with SessionStore.open(str(tmp_path / f"{number}.db")) as store:
            reports = list(Intake(store).take([found for found in find_sources([str(folder)]) if found.format]))
            rows = store.connection.execute("select key, id, kind, ts, seq, payload, extra from entries order by key")
            sources = store.connection.execute("select source, format, importer, stamp from sources").fetchall()
            stored.append(
                (rows.fetchall(), sorted(sources), [(each.status, each.added, each.lines) for each in reports])
            )
            assert store.verify() == []
    assert stored[0] == stored[1]


def test_an_interrupted_import_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mixed"
    write_mixed_sources(str(folder), 3_000_000)
    monkeypatch.setattr(taking_in, "LEAST_BYTES", 0)
    begun: list[ReadAhead] = []
    processes = []

    def begin(sources: Any) -> ReadAhead:
        begun.append(ReadAhead(sources, least=0))
        return begun[-1]

    def interrupt(sources: list[Any]) -> Iterator[Any]:
        yield sources[0]
        processes.append(process_of(begun[0]))
        yield sources[1]

    monkeypatch.setattr(taking_in, "ReadAhead", begin)
    with SessionStore.open(str(tmp_path / "s.db")) as store:
        intake = Intake(store)
        found = [each for each in find_sources([str(folder)]) if each.format]
        plain = store.import_session
        taken: list[ParsedSession] = []

        def import_session(parsed: ParsedSession, **told: Any) -> Any:
            if taken:
                raise KeyboardInterrupt
            taken.append(parsed)
            return plain(parsed, **told)

        monkeypatch.setattr(store, "import_session", import_session)
        assert len(list(intake.take(found, shown=interrupt))) == 1
        assert intake.interrupted
    assert processes[0].returncode is not None
    assert begun[0]._process is None


def test_what_is_added_while_it_is_read_ahead_is_taken_in_by_the_next_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state that is remembered is the one before reading, however long the session waited."""
    folder = tmp_path / "mixed"
    write_mixed_sources(str(folder), 1_500_000)
    monkeypatch.setattr(taking_in, "LEAST_BYTES", 0)
    monkeypatch.setattr(taking_in, "ReadAhead", lambda sources: ReadAhead(sources, least=0))
    found = [each for each in find_sources([str(folder)]) if each.format]
    pi = next(each.path for each in found if "/pi/" in each.path)
    found.sort(key=lambda each: each.path == pi)

    def grow_before_the_last(sources: list[Any]) -> Iterator[Any]:
        for place, source in enumerate(sources):
            if place == len(sources) - 1:
                with open(pi, "a", encoding="utf-8") as file:
                    message = {"role": "user", "content": "later", "timestamp": 1_780_000_000_000}
                    entry = {"type": "message", "id": "later001", "parentId": None, "message": message}
                    file.write(json.dumps({**entry, "timestamp": "2026-06-01T00:00:00.000Z"}) + "\n")
            yield source

    with SessionStore.open(str(tmp_path / "s.db")) as store:
        list(Intake(store).take(found, shown=grow_before_the_last))
        list(Intake(store).take(found))
        assert store.connection.execute("select count(*) from entries where id = 'later001'").fetchone() == (1,)


def test_modules_in_the_current_directory_are_not_run(tmp_path: Path) -> None:
    sources = tmp_path / "mixed"
    write_mixed_sources(str(sources), 1_000_000)
    trap = tmp_path / "here"
    trap.mkdir()
    (trap / "pi_sessions.py").write_text("open('trapped', 'w')\n")
    shutil.copy(trap / "pi_sessions.py", trap / "pickle.py")
    before = os.getcwd()
    os.chdir(trap)
    try:
        with ReadAhead(sources_of(sources), least=0) as reader:
            for path, format in sources_of(sources):
                assert len(list(reader.read(path, format)[1])) == 1
    finally:
        os.chdir(before)
    assert not (trap / "trapped").exists()
