"""Tells which files below some folders have changed, by looking: sizes and times only, on every system alike.

A look costs one stat per folder and per known file; folders are listed again only when their own time has changed, and
of very many files only a part is looked at each time.
"""

from __future__ import annotations

import os

from pi_sessions.formats.folders import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FILES_PER_LOOK = 5000
# A file changed this recently is looked at each time, however many there are.
RECENT_NS = 15 * 60 * 1_000_000_000


class Watcher:
    """Looks again and again.

    Args:
        roots: Files and folders, existing or not.
    """

    def __init__(self, roots: Iterable[str]) -> None:
        self.roots = tuple(roots)
        self._folders: dict[str, int] = {}
        self._paths: dict[tuple[int, int], str] = {}
        self._files: dict[str, tuple[int, int]] = {}
        self._turn = 0

    def changed(self) -> list[str]:
        """Return the files that are new or changed since the last look; all of them the first time."""
        found: list[str] = []
        for root in self.roots:
            if os.path.isdir(root):
                if root not in self._folders:
                    self._list(root, found)
            elif root not in self._files and os.path.exists(root):
                self._look_at(root, found)
        for folder in list(self._folders):
            self._look_into(folder, found)
        for path in self._due():
            self._look_at(path, found)
        return list(dict.fromkeys(found))

    def _due(self) -> list[str]:
        """Return the files to look at now."""
        paths = list(self._files)
        if len(paths) <= FILES_PER_LOOK:
            return paths
        newest = max(time for _size, time in self._files.values())
        recent = [path for path in paths if newest - self._files[path][1] < RECENT_NS]
        start = self._turn % len(paths)
        self._turn = start + FILES_PER_LOOK
        return recent + paths[start : start + FILES_PER_LOOK]

    def _look_into(self, folder: str, found: list[str]) -> None:
        try:
            time_ns = os.stat(folder).st_mtime_ns
        except OSError:
            self._folders.pop(folder, None)
            return
        if time_ns != self._folders.get(folder):
            self._list(folder, found)

    def _list(self, folder: str, found: list[str]) -> None:
        try:
            status = os.stat(folder)
            # A link may lead to a folder that is watched already, or to one that holds the link.
            folder_id = (status.st_dev, status.st_ino)
            known = self._paths.get(folder_id, folder)
            if known != folder and identity(known) == folder_id:
                return
            self._paths[folder_id] = folder
            self._folders[folder] = status.st_mtime_ns
            with os.scandir(folder) as entries:
                inside = sorted((entry.is_symlink(), entry.path, entry.is_dir()) for entry in entries)
        except OSError:
            self._folders.pop(folder, None)
            return
        for _link, path, is_folder in inside:
            if is_folder and path not in self._folders:
                self._list(path, found)
            elif not is_folder and path not in self._files:
                self._look_at(path, found)

    def _look_at(self, path: str, found: list[str]) -> None:
        try:
            status = os.stat(path)
        except OSError:
            self._files.pop(path, None)
            return
        now = (status.st_size, status.st_mtime_ns)
        if self._files.get(path) != now:
            self._files[path] = now
            # Changes of a database's log are changes of the database.
            found.append(path.removesuffix("-wal"))
