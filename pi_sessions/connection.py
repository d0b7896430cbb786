"""Opening the SQLite file: permissions, pragmas, schema check, write transactions, and SQLite's errors in our words.

Every write goes through `WriteTransaction`, which begins with BEGIN IMMEDIATE: a deferred BEGIN that reads and then
writes fails at once when another process wrote in between, whatever the busy timeout.
"""

from __future__ import annotations

import os
import sqlite3
import time

from pi_sessions.errors import (
    PiSessionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreNotFoundError,
    StoreReadOnlyError,
    StoreTooNewError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any

SCHEMA_VERSION = 1
MEMORY = ":memory:"
APPLICATION_ID = 0x70695365
OLDEST_SQLITE = (3, 37, 0)
UNDECODABLE = "Could not decode to UTF-8"


def translate(error: sqlite3.Error, path: str) -> StoreError:
    """Say in our words what SQLite met.

    Args:
        error: What the sqlite3 module raised.
        path: The store's file, named in the message.
    """
    text = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusyError(
            f"Another process holds the store {path}", hint="try again when it is done; nothing was changed"
        )
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and "disk I/O" in text):
        return StoreFullError(
            f"The disk refused to write {path} ({text})", hint="free some space and try again; nothing was changed"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreReadOnlyError(
            f"The store {path} cannot be written ({text})",
            hint="check the permissions of the file and its folder, or name another with --db",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return StoreDamagedError(
            f"{path} is not a pi-session store", hint="name the right file with --db; this one was not changed"
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreDamagedError(
            f"The store {path} is damaged ({text})", hint="keep a copy of the file before anything else"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(
            f"The store {path} cannot be opened ({text})", hint="check that the folder exists and may be read"
        )
    return StoreError(f"The store {path} failed: {text}", hint="nothing was changed by this command")


class Cursor(sqlite3.Cursor):
    """The rows of a statement; SQLite reads most of them only when they are asked for, and can fail then, too."""

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            failure = _failure(error, self.connection)
            if failure is None:
                raise
            raise failure from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            failure = _failure(error, self.connection)
            if failure is None:
                raise
            raise failure from error

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        try:
            yield from iter(super().fetchone, None)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            failure = _failure(error, self.connection)
            if failure is None:
                raise
            raise failure from error


class Connection(sqlite3.Connection):
    """A connection whose failures are raised as `StoreError`."""

    path = ""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        try:
            # Made by `cursor`, which forgets cursors that are gone; those made directly are remembered for ever.
            return self.cursor(Cursor).execute(sql, parameters)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            failure = _failure(error, self)
            if failure is None:
                raise
            raise failure from error

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        try:
            return super().executemany(sql, rows)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            failure = _failure(error, self)
            if failure is None:
                raise
            raise failure from error


def _failure(error: sqlite3.Error | UnicodeDecodeError, connection: sqlite3.Connection) -> StoreError | None:
    """Return a failure in our words; None when the statement was wrong and not the file."""
    path = getattr(connection, "path", "")
    # Python decodes stored texts, names and messages itself; that they are no UTF-8 has no code of SQLite's.
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(UNDECODABLE):
        return StoreDamagedError(
            f"The store {path} is damaged (a text in it is not UTF-8)",
            hint="keep a copy of the file before anything else",
        )
    return None if _is_our_mistake(error) else translate(error, path)


def _is_our_mistake(error: sqlite3.Error) -> bool:
    """Whether the statement was wrong rather than the file: such an error stays an ordinary traceback."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in (
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    )


class WriteTransaction:
    """`with WriteTransaction(connection):` commits at the end, rolls back on any exception.

    Nested uses join the outer transaction, so that several methods make one change.

    Raises:
        StoreBusyError: another process held the write lock longer than the busy timeout.
        StoreFullError: the disk is full; nothing was changed.
    """

    __slots__ = ("connection", "outermost")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.outermost = False

    def __enter__(self) -> None:
        self.outermost = not self.connection.in_transaction
        if self.outermost:
            self.connection.execute("begin immediate")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.outermost:
            return
        if kind is not None:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            return
        try:
            self.connection.execute("commit")
        except PiSessionError:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise


def connect(
    path: str, *, create: bool = True, read_only: bool = False, durable: bool = False, busy_timeout_s: float = 30.0
) -> Connection:
    """Open a store file, making or migrating it where that is asked for.

    Args:
        path: The file. Its folder is made with mode 0700 and the file with 0600 when `create` makes them. `:memory:`
            is a store that ends with the connection.
        create: Whether a missing file may be made.
        read_only: Open without ever writing; a missing file is then an error whatever `create` says.
        durable: synchronous=FULL: a commit survives a power cut. Otherwise NORMAL: it survives a crash of the process.
        busy_timeout_s: How long to wait for another process, seconds.

    Raises:
        StoreNotFoundError: no such file, and none may be made.
        StoreTooNewError: the file was written by a newer schema.
        StoreDamagedError: the file is no store of ours.
        StoreError: it cannot be opened, made or migrated.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old for pi-session", hint="use a Python with SQLite 3.37 or newer"
        )
    if os.path.isdir(path):
        raise StoreError(f"{path} is a directory, not a store", hint="name a file with --db")
    if path != MEMORY and not os.path.exists(path):
        if read_only or not create:
            raise StoreNotFoundError(
                f"There is no store at {path}", hint="make one with: pi-session import PATH, or: pi-session new"
            )
        _make_file(path)
    connection = _open(path, read_only, busy_timeout_s)
    try:
        version = _check_version(connection, path)
        if version < SCHEMA_VERSION:
            if read_only and version == 0:
                # As an interruption leaves it between the making of the file and the first transaction.
                raise StoreNotFoundError(
                    f"There is no store at {path} yet: the file is empty",
                    hint="fill it with: pi-session import PATH, or: pi-session new",
                )
            if read_only:
                raise StoreDamagedError(f"{path} is of an older schema", hint="open it once with a command that writes")
            _upgrade(connection, path, busy_timeout_s)
        if not read_only:
            connection.execute("pragma foreign_keys = on")
            connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from error
    except PiSessionError:
        connection.close()
        raise
    return connection


def _make_file(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be made: {error.strerror}", hint="name another place with --db or PI_SESSION_DB"
        ) from error


def _open(path: str, read_only: bool, busy_timeout_s: float) -> Connection:
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    if path == MEMORY:
        quoted = MEMORY
    for mode in ("?mode=ro", "?immutable=1") if read_only else ("?mode=rw",):
        try:
            connection = sqlite3.connect(
                f"file:{quoted}{mode}",
                timeout=busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
                factory=Connection,
                uri=True,
            )
            connection.path = path
            connection.execute("pragma user_version").fetchone()
        except sqlite3.Error as error:
            failure = translate(error, path)
        except StoreError as error:
            connection.close()
            failure = error
        else:
            return connection
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            break
    raise failure


def _check_version(connection: Connection, path: str) -> int:
    # The application id first: once it is ours, the version is there too, whoever made the file meanwhile.
    application: int = connection.execute("pragma application_id").fetchone()[0]
    version: int = connection.execute("pragma user_version").fetchone()[0]
    if application != APPLICATION_ID:
        # One statement sees one state of a file that another process may be making right now.
        application, version, tables = connection.execute(
            "select (select application_id from pragma_application_id), (select user_version from pragma_user_version),"
            " (select count(*) from sqlite_master)"
        ).fetchone()
        if application != APPLICATION_ID and (version or application or tables):
            raise StoreDamagedError(
                f"{path} is an SQLite database of another program", hint="name the right file with --db"
            )
    if version > SCHEMA_VERSION:
        raise StoreTooNewError(
            f"{path} was written by a newer pi-session (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="upgrade pi-session; the file was not touched",
        )
    return version


def _upgrade(connection: Connection, path: str, busy_timeout_s: float) -> None:
    from pi_sessions.schema import migrate

    _use_write_ahead_log(connection, busy_timeout_s)
    with WriteTransaction(connection):
        if _check_version(connection, path) < SCHEMA_VERSION:
            migrate(connection)


def _use_write_ahead_log(connection: Connection, busy_timeout_s: float) -> None:
    """Switch to WAL, once per file; SQLite does not honour the busy timeout while changing the mode."""
    give_up = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
        except StoreBusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return
