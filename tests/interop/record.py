"""Writes files of `fixtures/agents`: what Claude Code and Codex write in our scenarios, made neutral and short.

    python -m tests.interop.record

Paths of the machine, ids, ports and long texts (prompts of the tools, lists of their tools) are replaced, everything
else stays. An id of Codex keeps its beginning: it is a time by which rollouts are found.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.scenarios import SUMMARY, claude_code_works, codex_works

Json = Any

FOLDER = Path(__file__).parents[2] / "fixtures" / "agents"
LONGEST_TEXT, KEPT_TEXT, LONGEST_LIST = 400, 80, 4
# Lists of the tools and helpers a model may use.
LISTS = ("tools", "addedNames", "addedLines", "addedTypes")
_UUID = re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-)([47])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_AGENT = re.compile(r"\ba[0-9a-f]{16}\b")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_SYSTEM = re.compile(r"Linux \d[\w.+-]*")


class Neutral:
    """Replaces what tells of a machine; the same by the same."""

    def __init__(self, work: Path, home: Path) -> None:
        self._paths = [(str(work), "/proj/bakery"), (_slug(work), "-proj-bakery"), (str(home), "/home/mia")]
        self._ids: dict[str, str] = {}

    def text(self, given: str) -> str:
        """Replace within a text."""
        for path, name in self._paths:
            given = given.replace(path, name)
        given = _SYSTEM.sub("Linux 6.1", _PORT.sub("127.0.0.1:8080", given))
        return _AGENT.sub(self._agent, _UUID.sub(self._uuid, given))

    def value(self, given: Json) -> Json:
        """Replace and shorten within a JSON value."""
        if isinstance(given, str):
            short = len(given) <= LONGEST_TEXT or SUMMARY in given
            return given if short else given[:KEPT_TEXT] + " [and more]"
        if isinstance(given, list):
            return [self.value(each) for each in given]
        if not isinstance(given, dict):
            return given
        return {name: self.value(each[:LONGEST_LIST] if name in LISTS else each) for name, each in given.items()}

    def _uuid(self, found: re.Match[str]) -> str:
        number = len(self._ids) + 1
        start = found[1] if found[2] == "7" else f"{number:08x}-0000-"
        return self._ids.setdefault(found[0], f"{start}{found[2]}000-8000-{number:012x}")

    def _agent(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"a{len(self._ids) + 1:016x}")


def _slug(path: Path) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in str(path))


def write(file: Path, to: Path, neutral: Neutral) -> None:
    """Write a neutral copy of a file of JSON Lines."""
    lines = [json.loads(neutral.text(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    to.parent.mkdir(parents=True, exist_ok=True)
    made = (json.dumps(neutral.value(line), ensure_ascii=False, separators=(",", ":")) for line in lines)
    to.write_text("".join(f"{line}\n" for line in made), encoding="utf-8")


def main() -> None:
    made = {name: FOLDER / name for name in ("claude-code-2.1.332", "codex-0.171.0")}
    for folder in made.values():
        shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        claude, _session, _fork = claude_code_works(Path(work) / "claude")
        neutral = Neutral(claude.work, claude.home)
        for file in sorted(claude.project.rglob("*.jsonl")):
            place = neutral.text(f"projects/-proj-bakery/{file.relative_to(claude.project)}")
            write(file, made["claude-code-2.1.332"] / place, neutral)
        codex, _session, _fork = codex_works(Path(work) / "codex")
        neutral = Neutral(codex.work, codex.home)
        for file in codex.rollouts():
            write(file, made["codex-0.171.0"] / neutral.text(str(file.relative_to(codex.data))), neutral)


if __name__ == "__main__":
    main()
