"""What we export, the real Pi opens with the same context; what the real Pi writes comes in and goes out the same.

Run by `make interop`; needs the packages that `install.sh` installs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.errors import PiSessionError, SourceError
from pi_sessions.formats.pi import ParsedSession, pi_lines, read_pi_file
from pi_sessions.store import SessionStore
from tests.conformance.session_folder import CaseFolder
from tests.interop.pi import read_files, write_files

Json = Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = FIXTURES / "conformance" / "sessions"
ENOUGH_FILES = 120
# Roles of messages that Pi makes of entries that are no messages; no model sees their time.
DATED_BY_ENTRY = ("compactionSummary", "branchSummary", "custom")


def bundled_files(folder: Path) -> Iterator[Path]:
    """Yield every bundled session file: inputs of recorded cases, both real sessions, our own, people's cases."""
    for case in sorted((CASES / "cases").glob("*.json")):
        made = CaseFolder(folder / case.stem, CASES / "fixtures")
        for given in json.loads(case.read_text(encoding="utf-8"))["inputs"]:
            made.add_input(given)
            yield made.root / given["name"]
    yield from sorted((FIXTURES / "sessions").glob("*.jsonl"))
    yield from sorted((FIXTURES / "cases").glob("*/*.jsonl"))


@pytest.fixture(scope="module")
def parsed_files(tmp_path_factory: pytest.TempPathFactory) -> list[ParsedSession]:
    """Every bundled file that is a Pi session."""
    found = []
    for file in bundled_files(tmp_path_factory.mktemp("inputs")):
        try:
            found.append(read_pi_file(str(file)))
        except SourceError:
            continue
    assert len(found) > ENOUGH_FILES
    return found


def context_of(store: SessionStore, session_id: str) -> Json:
    """Return our context in the form Pi gives its own."""
    context = store.context(session_id)
    model = None if context.model is None else {"provider": context.model.provider, "modelId": context.model.model_id}
    return {
        "messages": [message.message for message in context.messages],
        "thinkingLevel": context.thinking_level,
        "model": model,
    }


class Exports:
    """Files written by our exporter, and what Pi must say of them.

    Args:
        folder: Where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self.expected: list[Json] = []

    def add(self, store: SessionStore, session_id: str, *, whole_tree: bool = False) -> None:
        """Export a session as the command line does."""
        session = store.session(session_id)
        labels = {label.entry_id: (label.text, label.time_ms) for label in store.labels(session_id).values()}
        entries = store.entries(session_id) if whole_tree else store.path(session_id)
        header = {**session.header, "id": session.id, "cwd": session.cwd}
        lines = pi_lines(header, entries, leaf=session.leaf, labels=labels, name=session.name, whole_tree=whole_tree)
        file = self.folder / f"{len(self.files)}.jsonl"
        file.write_text("".join(lines), encoding="utf-8", newline="")
        written = {entry.id for entry in entries if entry.type != "label"}
        self.files.append(file)
        self.expected.append(
            {
                "id": session.id,
                "name": session.name,
                "labels": {entry_id: text for entry_id, (text, _time) in labels.items() if entry_id in written},
                "context": context_of(store, session_id),
                "entries": written,
                "source": session.header.get("id", session.id),
            }
        )

    def check(self) -> None:
        """Let Pi open all files and compare."""
        answers = read_files(self.files, self.folder)
        assert len(answers) == len(self.files)
        different = [
            f"{file.name} ({wanted['source']}): {what}"
            for file, wanted, answer in zip(self.files, self.expected, answers, strict=True)
            for what in differences(wanted, answer)
        ]
        assert different == []


def differences(wanted: Json, answer: Json) -> Iterator[str]:
    """Say in what Pi's answer is not what we want."""
    if "error" in answer:
        yield answer["error"]
        return
    for name in ("id", "name", "labels"):
        if answer[name] != wanted[name]:
            yield f"{name} is {answer[name]!r}, not {wanted[name]!r}"
    missing = wanted["entries"] - set(answer["entries"])
    if missing:
        yield f"entries are missing: {sorted(missing)}"
    yield from context_differences(wanted["context"], answer["context"])


def context_differences(wanted: Json, answer: Json) -> Iterator[str]:
    for name in ("thinkingLevel", "model"):
        if answer[name] != wanted[name]:
            yield f"{name} is {answer[name]!r}, not {wanted[name]!r}"
    if len(answer["messages"]) != len(wanted["messages"]):
        yield f"{len(answer['messages'])} messages, not {len(wanted['messages'])}"
    for number, (theirs, ours) in enumerate(zip(answer["messages"], wanted["messages"], strict=False)):
        if theirs.get("timestamp", 0) is None and theirs["role"] in DATED_BY_ENTRY:
            # An entry whose timestamp nobody can read goes out as it came: no time for Pi, a borrowed one here.
            theirs = {**theirs, "timestamp": ours["timestamp"]}
        if theirs != ours:
            yield f"message {number} is {json.dumps(theirs)[:300]}, not {json.dumps(ours)[:300]}"
            return


def each_imported(
    parsed_files: list[ParsedSession], folder: Path, act: Callable[[SessionStore, str, Exports], None]
) -> Exports:
    """Import each file into a store of its own, do something with it and collect the exports."""
    exports = Exports(folder)
    for number, parsed in enumerate(parsed_files):
        with SessionStore.open(str(folder / f"{number}.db")) as store:
            session = store.import_session(parsed).session
            if session.leaf is not None:
                act(store, session.id, exports)
    assert len(exports.files) > ENOUGH_FILES
    return exports


def export_path(store: SessionStore, session_id: str, exports: Exports) -> None:
    exports.add(store, session_id)


def export_tree(store: SessionStore, session_id: str, exports: Exports) -> None:
    exports.add(store, session_id, whole_tree=True)


def export_forks(store: SessionStore, session_id: str, exports: Exports) -> None:
    """At the leaf, in the middle of the path, and of the whole tree; the middle one goes on."""
    path = store.path(session_id)
    exports.add(store, store.fork(session_id).id)
    middle = store.fork(session_id, at=path[len(path) // 2].id).id
    store.append_message(middle, {"role": "user", "content": "on another way", "timestamp": 1772442060000})
    exports.add(store, middle)
    exports.add(store, store.fork(session_id, all_branches=True).id, whole_tree=True)


def export_compacted(store: SessionStore, session_id: str, exports: Exports) -> None:
    """With a compaction that keeps the last third, one that keeps nothing, and a message after each."""
    path = [entry for entry in store.path(session_id) if entry.type != "label"]
    for kept in (path[-(len(path) // 3) - 1].id if path else None, None):
        compaction: Json = {"type": "compaction", "id": "c0ffee00" if kept else "c0ffee01", "summary": "What happened."}
        compaction |= {"firstKeptEntryId": kept or compaction["id"], "tokensBefore": 1000}
        store.append(session_id, compaction)
        store.append_message(session_id, {"role": "user", "content": "and then", "timestamp": 1772442060000})
        exports.add(store, session_id)


def export_labelled(store: SessionStore, session_id: str, exports: Exports) -> None:
    """With labels on the first and last entry, one cleared again, and a name."""
    path = [entry.id for entry in store.path(session_id) if entry.type != "label"]
    if path:
        for entry_id, text in ((path[0], "the start"), (path[-1], "the end"), (path[len(path) // 2], "mid")):
            store.set_label(session_id, entry_id, text)
        store.set_label(session_id, path[-1], None)
    store.set_name(session_id, "A name of ours")
    exports.add(store, session_id)
    exports.add(store, session_id, whole_tree=True)


def export_branched(store: SessionStore, session_id: str, exports: Exports) -> None:
    """Rewound to the middle and gone on there, on a named branch; then back on the first branch, leaf in the middle."""
    path = [entry.id for entry in store.path(session_id)]
    first = store.session(session_id).branch
    store.create_branch(session_id, "other-way", at=path[len(path) // 2], switch=True)
    store.append_message(session_id, {"role": "user", "content": "another try", "timestamp": 1772442060000})
    exports.add(store, session_id, whole_tree=True)
    store.switch(session_id, first)
    store.rewind(session_id, path[len(path) // 3])
    exports.add(store, session_id, whole_tree=True)
    exports.add(store, session_id)


@pytest.mark.parametrize(
    "act", [export_path, export_tree, export_forks, export_compacted, export_labelled, export_branched]
)
def test_pi_opens_what_we_export_with_the_same_context(
    parsed_files: list[ParsedSession], tmp_path: Path, act: Callable[[SessionStore, str, Exports], None]
) -> None:
    exports = each_imported(parsed_files, tmp_path, act)
    exports.check()
    print(f"{act.__name__}: {len(exports.files)} files opened by Pi with our context")


def test_sessions_that_pi_writes_come_in_and_go_out_with_the_same_context(tmp_path: Path) -> None:
    made = write_files(tmp_path)
    assert len(made) == 8
    exports = Exports(tmp_path)
    with SessionStore.open(str(tmp_path / "store.db")) as store:
        for theirs in made:
            parsed = read_pi_file(theirs["file"])
            assert (parsed.repairs, parsed.losses) == ((), ())
            session = store.import_session(parsed).session
            assert (session.id, session.cwd, session.name) == (theirs["id"], theirs["cwd"], theirs["name"])
            assert {label.entry_id: label.text for label in store.labels(session.id).values()} == theirs["labels"]
            assert [entry.id for entry in store.entries(session.id)] == theirs["entries"]
            assert session.leaf == theirs["leaf"]
            assert list(context_differences(theirs["context"], context_of(store, session.id))) == []
            exports.add(store, session.id)
            exports.add(store, session.id, whole_tree=True)
    exports.check()


def test_pi_refuses_a_file_that_is_none(tmp_path: Path) -> None:
    """The driver reports errors as errors: a check of the checks above."""
    file = tmp_path / "none.jsonl"
    file.write_text('{"no":"session"}\n', encoding="utf-8")
    [answer] = read_files([file], tmp_path)
    assert "not a valid pi session" in answer["error"]
    with pytest.raises(PiSessionError):
        read_pi_file(str(file))
