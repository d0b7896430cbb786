"""View of `ops`: what was done, newest first, or one operation with all it changed."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import WHEN_CELLS
from pi_session_cli.render.summary import facts
from pi_session_cli.render.wire import operation_json
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Change, Operation


class Operations(Record):
    """Operations to show.

    Attributes:
        operations: Newest first.
        one: Show the single operation with all its changes.
        sessions: Whether each row names its session.
    """

    operations: tuple[Operation, ...]
    one: bool = False
    sessions: bool = False


def lines(data: Operations, screen: Screen) -> Iterator[str]:
    """Yield one line per operation, or everything about one."""
    if data.one:
        yield from whole(data.operations[0], screen)
        return
    for operation in data.operations:
        state = f" (undone by {operation.undone_by})" if operation.undone_by is not None else ""
        whose = f"{one_line(operation.session_id)}  " if data.sessions else ""
        start = f"{operation.id:>6}  {screen.when(operation.time_ms):<{WHEN_CELLS}}  {whose}"
        text = screen.line(f"{deed(operation)}{state}", len(start))
        yield f"{start}{screen.paint(text, 'dim') if state else text}"


def deed(operation: Operation) -> str:
    """Return command and summary, without saying the same twice."""
    if operation.summary.startswith(operation.command):
        return operation.summary
    return f"{operation.command}: {operation.summary}"


def whole(operation: Operation, screen: Screen) -> Iterator[str]:
    """Yield an operation's facts and each change it made."""
    told = [
        ("operation", f" {operation.id}"),
        ("session", operation.session_id),
        ("time", screen.full_time(operation.time_ms)),
        ("command", operation.command),
        ("did", operation.summary),
        ("undoes", f"operation {operation.undoes}" if operation.undoes is not None else None),
        ("state", f"undone by operation {operation.undone_by}" if operation.undone_by is not None else "stands"),
    ]
    yield from facts(told, screen)
    yield ""
    for change in operation.changes:
        yield f"  {screen.line(described(change), 2)}"


def described(change: Change) -> str:
    """Return a change as `branch main: a1b2c3d4 -> 77aa01f3`."""
    before, after = ("nothing" if value is None else one_line(str(value)) for value in (change.before, change.after))
    return f"{change.kind} {change.name}: {before} -> {after}"


def to_json(data: Operations) -> dict[str, object]:
    """Return the operations."""
    if data.one:
        return operation_json(data.operations[0])
    return {"operations": [operation_json(operation) for operation in data.operations]}
