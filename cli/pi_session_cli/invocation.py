"""One invocation of the program: who calls, from where, with which settings; and the store behind it.

Commands get this as `ctx`. It opens the store as the settings say and turns what people type into sessions and
entries, so that every command names them alike.
"""

from __future__ import annotations

from pi_session_cli.settings import Settings
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO, TypeVar

    from pi_session_cli.render.screen import Screen
    from pi_sessions.base import StoreBase
    from pi_sessions.ids import Clock, NewId
    from pi_sessions.operation_log import OperationLog
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

    Part = TypeVar("Part", bound=StoreBase)

SESSION_VARIABLE = "PI_SESSION_ID"


class Invocation:
    """What a command may use.

    Attributes:
        environ: The environment.
        place: Directory whose current session is meant.
        settings: Values in force.
        stdin, stdout, stderr: Streams; commands read stdin and leave the others to `render/`.
        as_json: Whether `--json` was given.
        screen: How stdout can be drawn on.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        place: str,
        settings: Settings,
        stdin: TextIO,
        stdout: TextIO,
        stderr: TextIO,
        as_json: bool,
        screen: Screen,
        clock: Clock,
        new_id: NewId,
        new_session_id: NewId,
    ) -> None:
        self.environ = environ
        self.place = place
        self.settings = settings
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.as_json = as_json
        self.screen = screen
        self.clock = clock
        self.new_id = new_id
        self.new_session_id = new_session_id

    @property
    def store_path(self) -> str:
        """The store's file."""
        path = str(self.settings.get("db").value)
        if path.startswith("~"):
            import os

            path = os.path.expanduser(path)
        return path

    def read_store(self) -> Reading:
        """Open the store without ever writing to it or making it."""
        from pi_sessions.reading import Reading

        return self.read_part(Reading)

    def read_part(self, part: type[Part]) -> Part:
        """Open more of the store than `Reading`, without ever writing to it or making it."""
        return self._open(part, create=False, read_only=True)

    def move_store(self, *, create: bool = False) -> OperationLog:
        """Open the store to move pointers, change facts and append; no more of it is loaded."""
        from pi_sessions.operation_log import OperationLog

        return self._open(OperationLog, create=create, read_only=False)

    def change_store(self, *, create: bool = False, durable: bool = False) -> SessionStore:
        """Open the whole store for writing; only `new`, `import` and `run` may make it, runs are always durable."""
        from pi_sessions.store import SessionStore

        return self._open(SessionStore, create=create, read_only=False, durable=durable)

    def _open(self, part: type[Part], *, create: bool, read_only: bool, durable: bool = False) -> Part:
        timeout = self.settings.get("busy_timeout_s").value
        return part.open(
            self.store_path,
            create=create,
            read_only=read_only,
            durable=durable or bool(self.settings.get("durable").value),
            busy_timeout_s=float(timeout or 0),
            clock=self.clock,
            new_id=self.new_id,
            new_session_id=self.new_session_id,
        )

    def session(self, store: Reading, reference: str | None, *, removed: bool = False) -> Session:
        """Return the session a person means.

        Args:
            reference: What was typed; None for the current session.
            removed: A removed session will do, too.

        Raises:
            SessionNotFoundError: there is none, or PI_SESSION_ID names an unknown one.
            AmbiguousReferenceError: it could be several; the error lists them.
        """
        from pi_sessions.refs import resolve_session

        known = self.environ.get(SESSION_VARIABLE) or None
        return resolve_session(store, reference, env_id=known, place=self.place, removed=removed)

    def entry(self, store: Reading, reference: str, session: str | None) -> tuple[Session, str | None]:
        """Return the session and the entry a person means; None is the place before the first entry.

        Args:
            reference: ENTRY or SESSION:ENTRY.
            session: What `--session` says, None when it was not given.

        Raises:
            UsageError: `--session` and SESSION:ENTRY name different sessions.
            EntryNotFoundError, AmbiguousReferenceError: as for sessions.
        """
        from pi_sessions.errors import CannotError, EntryNotFoundError, InvalidReferenceError, SessionNotFoundError
        from pi_sessions.refs import resolve_entry, splits

        first: CannotError | None = None
        try:
            here = self.session(store, session)
            return here, resolve_entry(store, here.id, reference)
        except (EntryNotFoundError, InvalidReferenceError, SessionNotFoundError) as error:
            if ":" not in reference:
                raise
            first = error
        # A label or branch may hold a colon, and so may a session's name: only now can it part SESSION from ENTRY.
        for inside, entry in splits(reference):
            try:
                here = self.session(store, inside)
            except (InvalidReferenceError, SessionNotFoundError):
                continue
            if session is not None and self.session(store, session).id != here.id:
                raise UsageError(f"{reference} is not in the session --session names", hint="leave out one of the two")
            return here, resolve_entry(store, here.id, entry)
        raise first


def option(session: Session, given: str | None) -> str:
    """Return ` -s ID` for a command to type next, or nothing when the current session is meant anyway."""
    return f" -s {session.id}" if given else ""


def argument(session: Session, given: str | None) -> str:
    """Return ` ID` for a command to type next, or nothing when the current session is meant anyway."""
    return f" {session.id}" if given else ""
