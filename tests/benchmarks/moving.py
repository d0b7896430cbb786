"""Moving pointers against one bare commit: fork, rewind, label and undo of a short and of a very long path."""

from __future__ import annotations

from itertools import cycle
from tempfile import TemporaryDirectory

from pi_sessions.store import SessionStore
from tests.benchmarks.data import bare, filled
from tests.benchmarks.measure import Piece, medians, show, show_ratio, show_time

LENGTHS = (10, 100_000)


def main() -> None:
    show("moves, whatever the length of the path")
    with TemporaryDirectory() as folder:
        limit = bare(folder, "limit")

        def commit() -> None:
            limit.execute("begin immediate")
            limit.execute("insert into entries(payload) values('x')")
            limit.execute("commit")

        variants = {"limit": commit}
        stores: list[SessionStore] = []
        for length in LENGTHS:
            store, session_id = filled(folder, f"path-{length}", length)
            stores.append(store)
            variants |= _moves(store, session_id, length)
        found = medians(variants, rounds=400)
        one_commit = found.pop("limit")
        show_time("bare commit", one_commit)
        for name, seconds in found.items():
            show_ratio(name, seconds, one_commit, "4 x" if name.startswith(("fork", "rewind")) else "-")
        for store in stores:
            store.close()
        limit.close()


def _moves(store: SessionStore, session_id: str, length: int) -> dict[str, Piece]:
    path = [entry.id for entry in store.path(session_id)]
    targets = cycle([path[2], path[-1]])
    texts = cycle(["one", "other"])

    def take_back() -> None:
        store.undo(session_id)
        store.redo(session_id)

    return {
        f"rewind, {length:,} entries": lambda: store.rewind(session_id, next(targets)),
        f"fork at the leaf, {length:,} entries": lambda: store.fork(session_id),
        f"fork at an entry, {length:,} entries": lambda: store.fork(session_id, at=path[4]),
        f"label, {length:,} entries": lambda: store.set_label(session_id, path[3], next(texts)),
        f"undo and redo, {length:,} entries": take_back,
    }
