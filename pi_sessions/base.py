"""What every part of the store shares: the file, the connection, the forest, the clock and the sources of ids.

Each part is a class of its own that builds on the one before (reading, appending, branching, operation_log, ...,
`SessionStore` last), and each can be opened, so that a command loads no more of the store than it needs.
"""

from __future__ import annotations

import re

from pi_sessions.connection import Connection, WriteTransaction, connect
from pi_sessions.errors import InvalidReferenceError, SessionNotFoundError
from pi_sessions.forest import Forest
from pi_sessions.ids import new_entry_id, new_session_id, system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Self

    from pi_sessions.ids import Clock, NewId

# Compiled (and cached by `re`) when a first id is given by hand; most commands never do.
_SESSION_ID = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


class Unset:
    """Type of the marks that stand for "not given" where None means something."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNSET: Final = Unset("UNSET")
LEAF: Final = Unset("LEAF")


class StoreBase:
    """Connection and helpers; the public face is `SessionStore`."""

    def __init__(
        self, connection: Connection, path: str, *, clock: Clock, new_id: NewId, new_session_id: NewId
    ) -> None:
        self.file = path
        self.connection = connection
        self.forest = Forest(connection)
        self.clock = clock
        self._new_id = new_id
        self._new_session_id = new_session_id

    @classmethod
    def open(
        cls,
        path: str,
        *,
        create: bool = True,
        read_only: bool = False,
        durable: bool = False,
        busy_timeout_s: float = 30.0,
        clock: Clock = system_clock,
        new_id: NewId = new_entry_id,
        new_session_id: NewId = new_session_id,
    ) -> Self:
        """Open a store file, making it when it is missing.

        Args:
            path: The file; made with mode 0600 in a folder made with mode 0700. `:memory:` ends with the connection.
            create: Whether a missing file may be made.
            read_only: Never write; a missing file is then an error.
            durable: Commits survive a power cut (synchronous=FULL), not only a crash of the process.
            busy_timeout_s: How long to wait for another process's write, seconds.
            clock: Gives Unix milliseconds.
            new_id, new_session_id: Give candidate ids.

        Raises:
            StoreNotFoundError: no such file, and none may be made.
            StoreTooNewError: a newer pi-session wrote it.
            StoreError: it cannot be opened, or is no store.
        """
        connection = connect(path, create=create, read_only=read_only, durable=durable, busy_timeout_s=busy_timeout_s)
        return cls(connection, path, clock=clock, new_id=new_id, new_session_id=new_session_id)

    def close(self) -> None:
        """Close the file; everything acknowledged is in it."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def transaction(self) -> WriteTransaction:
        """Return a `with` block in which several calls become one transaction: all of them or none."""
        return WriteTransaction(self.connection)

    def _write(self) -> WriteTransaction:
        return WriteTransaction(self.connection)

    def _sid(self, session_id: str) -> int:
        """Return a session's key in the database.

        Raises:
            SessionNotFoundError: there is no session with exactly this id.
        """
        row = self.connection.execute("select sid from sessions where id = ?", (session_id,)).fetchone()
        if row is None:
            raise no_session(session_id)
        sid: int = row[0]
        return sid

    def _current_branch(self, sid: int) -> str:
        name: str = self.connection.execute("select branch from sessions where sid = ?", (sid,)).fetchone()[0]
        return name

    def _leaf_key(self, sid: int, branch: str | None = None) -> int | None:
        """Return the key of a branch's leaf (the current branch by default), None before the first entry."""
        row = self.connection.execute(
            "select b.leaf from sessions s join branches b using(sid) where sid = ? and b.name = coalesce(?, s.branch)",
            (sid, branch),
        ).fetchone()
        return row[0] if row else None

    def _free_entry_id(self) -> str:
        while True:
            entry_id = self._new_id()
            if not self.connection.execute("select 1 from entries where id = ?", (entry_id,)).fetchone():
                return entry_id


def no_session(session_id: str) -> SessionNotFoundError:
    """Return the error for an id that no session has."""
    return SessionNotFoundError(f"There is no session {session_id}", hint="list them with: pi-session ls --all")


def check_session_id(session_id: str) -> str:
    """Return a session id that may be given by hand (Pi 1.6.0, session id).

    Raises:
        InvalidReferenceError: it is not letters, digits, `.`, `_`, `-`, beginning and ending with a letter or digit.
    """
    if not re.fullmatch(_SESSION_ID, session_id):
        raise InvalidReferenceError(
            f"Not a session id: {session_id!r}",
            hint="use letters, digits, '.', '_' and '-', beginning and ending with a letter or digit",
        )
    return session_id
