"""Walks through a folder and all below it, links to folders included, each folder once."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def walk(folder: str, on_error: Callable[[OSError], None]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder with the names of its folders and files, like `os.walk`, sorted, the folder itself first.

    Links to folders are followed after everything that is really there, so that what can be reached both ways keeps
    its own path; a folder that was met before, such as one that holds the link, is not entered again.

    Args:
        on_error: Gets what kept a folder from being listed.
    """
    met: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        for place, folders, files in os.walk(waiting.pop(0), onerror=on_error):
            folder_id = identity(place)
            if folder_id is None or folder_id in met:
                folders.clear()
                continue
            met.add(folder_id)
            links = sorted(name for name in folders if os.path.islink(os.path.join(place, name)))
            waiting += [os.path.join(place, name) for name in links]
            folders[:] = sorted(set(folders) - set(links))
            yield place, folders, sorted(files)


def identity(folder: str) -> tuple[int, int] | None:
    """Return what tells a folder from all others whatever its path, None when it is gone."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
