"""SessionStore: every conversation as an append-only tree in one SQLite file.

    with SessionStore.open("sessions.db") as store:
        session = store.create_session(cwd="/proj/demo")
        store.append_message(session.id, {"role": "user", "content": "hello"})
        fork = store.fork(session.id)
        store.rewind(session.id, None)
        store.undo(session.id)

The only part of the program that runs SQL writes, in pieces by idea: appending, branching, operation_log, importing,
runs, summary_writes; reading and forest only read. Synchronous; one store object belongs to one thread at a time.
"""

from __future__ import annotations

from pi_sessions.connection import WriteTransaction, connect
from pi_sessions.ids import new_entry_id, new_session_id, system_clock
from pi_sessions.summary_writes import SummaryWrites
from pi_sessions.writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.ids import Clock, NewId
    from pi_sessions.results import Problem


class SessionStore(SummaryWrites):
    """One SQLite file with all sessions; open it with `SessionStore.open`, close it or use it in a `with` block."""

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
    ) -> SessionStore:
        """Open a store file, making it when it is missing.

        Args:
            path: The file; made with mode 0600 in a folder made with mode 0700.
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

    def __enter__(self) -> SessionStore:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def transaction(self) -> WriteTransaction:
        """Return a `with` block in which several calls become one transaction: all of them or none."""
        return self._write()

    def writer(self, session_id: str, branch: str | None = None) -> Writer:
        """Return a writer that keeps to its own branch when it loses a race (`pi_sessions.writer`)."""
        return Writer(self, session_id, branch)

    def create_own_branch(self, session_id: str, beside: str, at: str | None) -> str:
        """Make a branch named after another (`main-2`) at an entry and return its name; recorded as one operation."""
        with self._write():
            name = self._free_branch(self._sid(session_id), beside)
            self.create_branch(session_id, name, at=at)
            return name

    def verify(self, session_id: str | None = None) -> list[Problem]:
        """Check the invariants of the store, or of what one session sees; an empty list means sound."""
        from pi_sessions.verify import verify

        return verify(self, None if session_id is None else self._sid(session_id))
