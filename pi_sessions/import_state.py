"""Gives a session the branches and facts that an export of our own holds.

A session that is new here becomes the one that was exported. One that is there already keeps what its owner did since:
its branches only move forward, and what the export has on a branch that went another way becomes a new branch.
"""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pi_sessions.base import StoreBase
    from pi_sessions.formats.parsed import SessionState
    from pi_sessions.journal import Journal

MAIN = "main"


class Taken(Record):
    """What became of the branches.

    Attributes:
        branch, leaf: The branch that follows the export's current one, and the key of its leaf.
        moved: It moved.
        new: Name of a branch that was made because another went another way.
    """

    branch: str
    leaf: int | None
    moved: bool
    new: str | None


def begin_with(
    store: StoreBase, journal: Journal, sid: int, state: SessionState, key_of: Callable[[str | None], int | None]
) -> Taken:
    """Give a new session the branches and facts of an export.

    Args:
        key_of: Returns where an entry of the export lies in the store.
    """
    leaves = {name: key_of(leaf) for name, leaf in state.branches}
    for name, leaf in leaves.items():
        journal.set_branch(sid, name, leaf)
    if MAIN not in leaves:
        journal.drop_branch(sid, MAIN)
    journal.set_fact(sid, "branch", state.current)
    for name, value in (("archived", state.archived), ("pinned", state.pinned)):
        journal.set_fact(sid, name, int(value))
    store.connection.execute(
        "update sessions set origin_key = ? where sid = ? and origin is not null", (key_of(state.origin_entry), sid)
    )
    return Taken(state.current, leaves[state.current], moved=False, new=None)


def go_on_with(
    store: StoreBase,
    journal: Journal,
    sid: int,
    state: SessionState,
    key_of: Callable[[str | None], int | None],
    free_branch: Callable[[int, str], str],
) -> Taken:
    """Let the branches of a session that is there already follow those of an export.

    Args:
        key_of: As for `begin_with`.
        free_branch: Returns a name made of another that no branch of the session has.
    """
    is_on_path = store.forest.is_on_path
    here: dict[str, int | None] = dict(
        store.connection.execute("select name, leaf from branches where sid = ?", (sid,)).fetchall()
    )
    followed, moved, new = state.current, False, None
    for name, told in state.branches:
        leaf = key_of(told)
        if leaf is None or any(other is not None and is_on_path(leaf, other) for other in here.values()):
            continue
        now = here.get(name)
        goes_on = name not in here or now is None or is_on_path(now, leaf)
        target = name if goes_on else free_branch(sid, name)
        journal.set_branch(sid, target, leaf)
        here[target] = leaf
        if not goes_on:
            new = new or target
        if name == state.current:
            followed, moved = target, goes_on
    return Taken(followed, here.get(followed), moved, new)
