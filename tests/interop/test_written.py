"""What the real Claude Code and the real Codex write now comes in as `tests/sessions/test_recorded_agents.py` says.

Run by `make interop`; needs the packages that `install.sh` installs. The same scenarios, on the same server of the
test's own, are recorded by `record.py` for plain test runs.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.scenarios import claude_code_works, codex_works
from tests.sessions.agent_files import check_claude_code, check_codex, check_store


def test_claude_code(tmp_path: Path) -> None:
    claude, session, fork = claude_code_works(tmp_path)
    check_claude_code(claude.project, session, fork)
    files = [claude.transcript(session), claude.transcript(fork), *claude.project.rglob("agent-*.jsonl")]
    assert len(files) == 3
    check_store(tmp_path, files, answers=9)


def test_codex(tmp_path: Path) -> None:
    codex, session, fork = codex_works(tmp_path)
    check_codex(codex.data, session, fork)
    check_store(tmp_path, codex.rollouts(), answers=6)
