"""Each file in fixtures/sessions flattens to its namesake `.context.json`; `--update-golden` rewrites those."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root, to_llm
from pi_sessions.formats.pi import ParsedSession, read_pi_file
from tests.sessions.pi_files import FIXTURES, by_id, check, export, reread, tree

SESSIONS = sorted((FIXTURES / "sessions").glob("*.jsonl"))


def flat(session: ParsedSession) -> dict[str, Any]:
    """What a person would want to know of a file: facts, tree, report and what a model sees."""
    path = path_to_root(by_id(session), session.leaf)
    context = build_context(active_entries(path), *path_settings(path))
    return {
        "id": session.id,
        "version": session.version,
        "name": session.name,
        "labels": {target: text for target, (text, _time_ms) in session.labels.items()},
        "leaf": session.leaf,
        "tree": tree(session),
        "lines": session.tally.as_dict(),
        "repairs": [f"line {one.line}: {one.code}: {one.message}" for one in session.repairs],
        "losses": [f"line {one.line}: {one.code}: {one.message}" for one in session.losses],
        "context": {
            "model": None if context.model is None else f"{context.model.provider}/{context.model.model_id}",
            "thinkingLevel": context.thinking_level,
            "messages": [
                {
                    "entry": one.entry_id,
                    "role": one.message["role"],
                    "model sees": [[seen["role"], seen.get("content")] for seen in to_llm(one.message)],
                }
                for one in context.messages
            ],
        },
    }


@pytest.mark.parametrize("source", SESSIONS, ids=[path.stem for path in SESSIONS])
def test_a_session_flattens_to_its_golden_file(source: Path, update_golden: bool) -> None:
    golden = source.with_suffix(".context.json")
    session = read_pi_file(str(source))
    check(session)
    text = json.dumps(flat(session), indent=1, ensure_ascii=False) + "\n"
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("source", SESSIONS, ids=[path.stem for path in SESSIONS])
def test_a_mended_session_goes_out_sound(tmp_path: Path, source: Path) -> None:
    """The export of whatever was read needs no repair and tells a model the same."""
    session = read_pi_file(str(source))
    back = reread(tmp_path, export(session))
    assert {one.code for one in back.repairs} <= {"no_message", "no_time"}
    assert back.losses == ()
    assert flat(back)["context"] == flat(session)["context"]
    assert (back.name, back.labels) == (session.name, session.labels)


def test_every_golden_file_has_its_session() -> None:
    assert {path.name.removesuffix(".context.json") for path in (FIXTURES / "sessions").glob("*.context.json")} == {
        path.stem for path in SESSIONS
    }
    assert len(SESSIONS) >= 12
