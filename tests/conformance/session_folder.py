"""The case folder as the steps of a case see it: files on disk, and beside them the files Pi would keep for sessions.

Our store keeps no session files. Where a step names the file of a session, its text is the session written as Pi keeps
it: the header, then every entry in the order of appending.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

Json = Any


class CaseFolder:
    """Files of one case.

    Args:
        root: Where the case's files are made; shown as `$DIR`.
        fixtures: Folder with the gzip files that inputs may name.

    Attributes:
        kept: Name of a session's file inside the folder -> session id, for sessions that only the store holds.
    """

    def __init__(self, root: Path, fixtures: Path) -> None:
        self.root = root
        self.fixtures = fixtures
        self.kept: dict[str, str] = {}
        self.inputs: dict[str, bytes] = {}

    def add_input(self, given: Json) -> None:
        """Make an input file."""
        content = self._content(given)
        path = self.root / given["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.inputs[given["name"]] = content
        if "mtime" in given:
            moment = datetime.fromisoformat(given["mtime"]).timestamp()
            os.utime(path, (moment, moment))

    def make_folders(self, steps: Json) -> None:
        """Make the folders that no input makes but the steps show: listed without lines, or an import's directory."""
        for step in steps:
            result = step.get("result")
            if step["op"] == "list_files":
                for name in (one["name"] for one in result if one["lines"] is None):
                    self.path(name).mkdir(exist_ok=True)
            elif step["op"] == "import" and result and result["cwd"].startswith("$DIR"):
                self.path(result["cwd"]).mkdir(parents=True, exist_ok=True)

    def _content(self, given: Json) -> bytes:
        if "text" in given:
            return self.real(given["text"]).encode()
        if "base64" in given:
            return base64.b64decode(given["base64"])
        if "fixture" in given:
            with gzip.open(self.fixtures / given["fixture"]) as file:
                return file.read()
        run = given["text_with_run"]
        return self.real(f"{run['before']}{run['char'] * run['times']}{run['after']}").encode()

    def real(self, text: str) -> str:
        """Return text with `$DIR` replaced by the folder."""
        return text.replace("$DIR", str(self.root))

    def shown(self, value: Json) -> Json:
        """Return a result with the folder shown as `$DIR`."""
        if isinstance(value, str):
            return value.replace(str(self.root), "$DIR")
        if isinstance(value, list):
            return [self.shown(one) for one in value]
        if isinstance(value, dict):
            return {name: self.shown(one) for name, one in value.items()}
        return value

    def name_of(self, file: str) -> str:
        """Return the name inside the folder of a file given by name or by `$DIR` path."""
        return os.path.relpath(self.path(file), self.root)

    def path(self, file: str) -> Path:
        """Return where a file lies or would lie."""
        return self.root / self.real(file)

    def on_disk(self, file: str) -> bytes | None:
        """Return the bytes of a file on disk, None when there is none."""
        path = self.path(file)
        return path.read_bytes() if path.is_file() else None

    def session_of(self, file: str) -> str | None:
        """Return the session kept under a file name that is not on disk."""
        return None if self.path(file).exists() else self.kept.get(self.name_of(file))

    def file_of(self, session_id: str) -> str | None:
        """Return the name of the file Pi would keep a session in."""
        return next((name for name, kept in self.kept.items() if kept == session_id), None)

    def free_name(self, folder: str, name: str) -> str:
        """Return a name in a folder, numbered as Pi numbers copies when it is taken."""
        stem = name.removesuffix(".jsonl")
        names = (f"{folder}/{stem}{number}.jsonl" for number in ("", *(f"-{count}" for count in range(1, 1000))))
        return next(one for one in names if one not in self.kept and not self.path(one).exists())

    def names_in(self, folder: str) -> list[str]:
        """Return the sorted names in a folder, those of kept sessions included."""
        place = self.path(folder)
        on_disk = [one.name for one in place.iterdir()] if place.is_dir() else []
        kept = [name for name in self.kept if os.path.normpath(os.path.dirname(name) or ".") == self.name_of(folder)]
        return sorted({*on_disk, *(os.path.basename(name) for name in kept)})

    def session_files(self) -> list[str]:
        """Return the names of the session files directly in the folder, on disk or kept."""
        return [name for name in self.names_in(".") if name.endswith(".jsonl") and not self.path(name).is_dir()]

    def write(self, file: str, text: str) -> None:
        """Write a file from outside."""
        path = self.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.real(text))

    def delete(self, file: str) -> None:
        """Delete a file from outside; the store does not notice."""
        self.path(file).unlink(missing_ok=True)

    def put_folder_in_place(self, file: str) -> None:
        """Put a folder where a file was."""
        path = self.path(file)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)

    def same_bytes(self, file: str) -> bool:
        """Whether a file still holds what its input gave."""
        return self.on_disk(file) == self.inputs.get(self.name_of(file))


def digest(content: bytes) -> str:
    """Return a name for bytes."""
    return hashlib.sha256(content).hexdigest()
