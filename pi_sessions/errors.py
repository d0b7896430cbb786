"""What can go wrong, as one tree.

PiSessionError
|- CannotError                  the request makes no sense here        exit 1
|  |- SessionNotFoundError
|  |- EntryNotFoundError
|  |- AmbiguousReferenceError
|  |- InvalidReferenceError     empty, blank or malformed name of a session or entry
|  |- InvalidForkTargetError
|  |- InvalidEditError          a context edit Pi would refuse
|  |- InvalidEntryError         data that is no entry
|  |- BranchError               unknown, taken, malformed or current branch
|  |- LeafMovedError            append(expect=...) lost the race; nothing was written
|  |- NothingToUndoError
|  |- SourceError               a file that cannot be imported
|  |- TargetError               a file that cannot be written
|  `- NothingToExportError
|- UsageError                   the command was typed wrongly          exit 2
`- StoreError                   the store cannot be used               exit 3
   |- StoreNotFoundError
   |- StoreBusyError
   |- StoreTooNewError
   |- StoreFullError
   |- StoreReadOnlyError
   `- StoreDamagedError
"""

from __future__ import annotations


class PiSessionError(Exception):
    """Root of every error a person can act on.

    Args:
        message: What is wrong with which thing, without a full stop.
        hint: A command or choice that gets further; None when there is none.

    Attributes:
        code: Stable name of the class of error, part of `--json` output.
        exit_code: What the command line exits with.
    """

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CannotError(PiSessionError):
    """The request is understood but cannot be met."""

    code = "cannot"


class SessionNotFoundError(CannotError):
    code = "session_not_found"


class EntryNotFoundError(CannotError):
    code = "entry_not_found"


class AmbiguousReferenceError(CannotError):
    """A prefix or name fits several things.

    Args:
        candidates: Full ids (or names) that fit, in the order they are listed.
    """

    code = "ambiguous"

    def __init__(self, message: str, *, candidates: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.candidates = candidates


class InvalidReferenceError(CannotError):
    code = "invalid_reference"


class InvalidForkTargetError(CannotError):
    code = "invalid_fork_target"


class InvalidEditError(CannotError):
    code = "invalid_edit"


class InvalidEntryError(CannotError):
    code = "invalid_entry"


class BranchError(CannotError):
    code = "branch"


class LeafMovedError(CannotError):
    """Somebody else appended first; nothing was written.

    Args:
        expected: Entry id the writer believed to be the leaf; None before the first entry.
        actual: Entry id that is the leaf now.
    """

    code = "leaf_moved"

    def __init__(self, message: str, *, expected: str | None, actual: str | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class NothingToUndoError(CannotError):
    code = "nothing_to_undo"


class SourceError(CannotError):
    code = "source"


class TargetError(CannotError):
    code = "target"


class NothingToExportError(CannotError):
    code = "nothing_to_export"


class UsageError(PiSessionError):
    """The command line was typed wrongly."""

    code = "usage"
    exit_code = 2


class StoreError(PiSessionError):
    """The store file cannot be used."""

    code = "store"
    exit_code = 3


class StoreNotFoundError(StoreError):
    code = "store_not_found"


class StoreBusyError(StoreError):
    code = "store_busy"


class StoreTooNewError(StoreError):
    code = "store_too_new"


class StoreFullError(StoreError):
    code = "store_full"


class StoreReadOnlyError(StoreError):
    code = "store_read_only"


class StoreDamagedError(StoreError):
    code = "store_damaged"
