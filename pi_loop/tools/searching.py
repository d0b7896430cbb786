"""The process that walks folders for `grep` and `find`: a query as JSON on standard input, an answer as JSON out.

It is a process of its own because a regular expression can take for ever, and only a process can be stopped then.
Files that git would ignore are left out, as are `.git` and `node_modules`; symbolic links are not followed.

Source: Pi 1.6.0, tools `grep` and `find` (there ripgrep and fd do this). Differs in that expressions are Python's.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from pathspec import GitIgnoreSpec

LONGEST_LINE = 500
LARGEST_FILE = 50 * 1024 * 1024
STORED_BYTES = 64 * 1024
SKIPPED = (".git", "node_modules")
Rules = tuple[tuple[str, GitIgnoreSpec], ...]


class QueryError(ValueError):
    """The query makes no sense."""


def answer(query: dict[str, Any]) -> dict[str, Any]:
    """Answer one query.

    Args:
        query: `kind` (`grep` or `find`), `path`, `pattern`, `limit`; for grep also `glob`, `ignoreCase`, `literal`,
            `context`.

    Raises:
        QueryError: the expression or the glob is none.
    """
    return _grep(query) if query["kind"] == "grep" else _find(query)


def walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield what lies under a folder: paths relative to it and whether they are folders, in order of their names."""
    stack: list[tuple[str, Rules]] = [("", _outer_rules(top))]
    while stack:
        folder, rules = stack.pop()
        absolute = os.path.join(top, folder)
        own = _rules_of(absolute)
        if own is not None:
            rules = (*rules, (absolute, own))
        try:
            entries = sorted(os.scandir(absolute), key=lambda entry: entry.name)
        except OSError:
            continue
        folders = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if (is_folder and entry.name in SKIPPED) or _is_ignored(entry.path, is_folder, rules):
                continue
            path = os.path.join(folder, entry.name)
            yield path, is_folder
            if is_folder:
                folders.append((path, rules))
        stack += reversed(folders)


def _outer_rules(top: str) -> Rules:
    """Return the rules of the folders above, up to the root of the repository."""
    above: list[tuple[str, GitIgnoreSpec]] = []
    folder = top
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ()
        folder = parent
        rules = _rules_of(folder)
        if rules is not None:
            above.append((folder, rules))
    excluded = os.path.join(folder, ".git", "info", "exclude")
    if os.path.isfile(excluded):
        above.append((folder, _read_rules(excluded)))
    return tuple(reversed(above))


def _rules_of(folder: str) -> GitIgnoreSpec | None:
    path = os.path.join(folder, ".gitignore")
    return _read_rules(path) if os.path.isfile(path) else None


def _read_rules(path: str) -> GitIgnoreSpec:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    usable = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            # One line that git would not understand either must not switch off the others.
            continue
        usable.append(line)
    return GitIgnoreSpec.from_lines(usable)


def _is_ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    for folder, spec in reversed(rules):
        verdict = spec.check_file(os.path.relpath(path, folder) + ("/" if is_folder else "")).include
        if verdict is not None:
            return verdict
    return False


def _grep(query: dict[str, Any]) -> dict[str, Any]:
    pattern = re.escape(query["pattern"]) if query["literal"] else query["pattern"]
    try:
        expression = re.compile(pattern, re.IGNORECASE if query["ignoreCase"] else 0)
    except (re.error, RecursionError) as error:
        raise QueryError(f"Invalid pattern: {error}") from error
    collected = _Matches(expression, query["limit"], query["context"])
    top = query["path"]
    if os.path.isdir(top):
        wanted = _glob(query["glob"]) if query["glob"] else None
        for path, is_folder in walk(top):
            if (
                not is_folder
                and (wanted is None or wanted(path))
                and not collected.search(os.path.join(top, path), path)
            ):
                break
    else:
        collected.search(top, os.path.basename(top))
    return collected.answer()


class _Matches:
    """Lines found so far."""

    def __init__(self, expression: re.Pattern[str], limit: int, context: int) -> None:
        self._expression = expression
        self._limit = limit
        self._context = context
        self._found = 0
        self._more = False
        self._cut = False
        self._lines: list[str] = []
        self._size = 0
        self._number = 0

    def answer(self) -> dict[str, Any]:
        return {
            "lines": self._lines,
            "matches": self._found,
            "limitReached": self._more,
            "linesCut": self._cut,
            "totalLines": self._number,
            "totalBytes": max(self._size - 1, 0),
        }

    def search(self, path: str, shown: str) -> bool:
        """Search one file; False when there is no need to go on."""
        lines = _text_lines(path)
        hits = [number for number, line in enumerate(lines) if self._expression.search(line)]
        room = self._limit - self._found
        self._more = self._more or len(hits) > room
        kept = hits[:room]
        self._found += len(kept)
        matching, last = set(kept), -1
        for hit in kept:
            first = max(hit - self._context, last + 1)
            last = min(hit + self._context, len(lines) - 1)
            for number in range(first, last + 1):
                sign = ":" if number in matching else "-"
                self._add(f"{shown}{sign}{number + 1}{sign} {self._shortened(lines[number])}")
        return not self._more

    def _shortened(self, line: str) -> str:
        if len(line) <= LONGEST_LINE:
            return line
        self._cut = True
        return f"{line[:LONGEST_LINE]}... [truncated]"

    def _add(self, line: str) -> None:
        if self._size <= STORED_BYTES:
            self._lines.append(line)
        self._size += len(line.encode("utf-8", "replace")) + 1
        self._number += 1


def _text_lines(path: str) -> list[str]:
    """Return the lines of a text file, none of a binary, huge or unreadable one."""
    try:
        if not os.path.isfile(path) or os.path.islink(path) or os.path.getsize(path) > LARGEST_FILE:
            return []
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return []
    if b"\0" in raw[:8192]:
        return []
    text = raw.decode("utf-8", "replace")
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if text.endswith("\n") else lines)]


def _find(query: dict[str, Any]) -> dict[str, Any]:
    wanted = _glob(query["pattern"], case=query["pattern"] != query["pattern"].lower())
    results: list[str] = []
    number = size = 0
    for path, is_folder in walk(query["path"]):
        if not wanted(path):
            continue
        if number == query["limit"]:
            return {"results": results, "number": number, "totalBytes": size - 1, "limitReached": True}
        number += 1
        shown = path + ("/" if is_folder else "")
        if size <= STORED_BYTES:
            results.append(shown)
        size += len(shown.encode("utf-8", "replace")) + 1
    return {"results": results, "number": number, "totalBytes": max(size - 1, 0), "limitReached": False}


def _glob(pattern: str, *, case: bool = True) -> Any:
    """Return a test of relative paths; a pattern without a slash is about names at any depth.

    Raises:
        QueryError: it is no glob.
    """
    negated = pattern.startswith("!")
    plain = re.sub(r"^(\./)+", "", pattern.removeprefix("!"))
    try:
        expression = re.compile(glob_expression(plain), 0 if case else re.IGNORECASE)
    except re.error as error:
        raise QueryError(f"Invalid glob {pattern!r}: {error}") from error
    whole = "/" in plain

    def fits(path: str) -> bool:
        return (expression.fullmatch(path if whole else os.path.basename(path)) is not None) != negated

    return fits


def glob_expression(pattern: str) -> str:
    """Return a glob as a regular expression for whole paths: `*`, `?`, `**`, `[...]`, `{a,b}`."""
    text, place, depth = "", 0, 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char == "*":
            if pattern.startswith("*", place):
                place += 1
                if pattern.startswith("/", place):
                    place += 1
                    text += "(?:.*/)?"
                else:
                    text += ".*"
            else:
                text += "[^/]*"
        elif char == "?":
            text += "[^/]"
        elif char == "[" and "]" in pattern[place + 1 :]:
            end = pattern.index("]", place + 1)
            inside = pattern[place:end].replace("\\", "\\\\")
            text += f"[{'^' + inside[1:] if inside.startswith(('!', '^')) else inside}]"
            place = end + 1
        elif char == "{" and "}" in pattern[place:]:
            depth += 1
            text += "(?:"
        elif char == "}" and depth:
            depth -= 1
            text += ")"
        elif char == "," and depth:
            text += "|"
        elif char == "\\" and place < len(pattern):
            text += re.escape(pattern[place])
            place += 1
        else:
            text += re.escape(char)
    return text


def main() -> None:
    """Answer the query on standard input."""
    try:
        told = answer(json.load(sys.stdin))
    except QueryError as error:
        told = {"error": str(error)}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
