"""View of `ls`: one line per session, newest message first, free text last."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import WHEN_CELLS
from pi_session_cli.render.width import pad, width
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.results import Session

NAME_CELLS = 60


class Listing(Record):
    """A page of sessions.

    Attributes:
        sessions: In order.
        short: What is shown of each session's id: on a terminal the beginning that names it alone, else all of it.
        current: Id of the session that is current here.
        ahead: Time of the last message by its writer's clock, where that was ahead, by session id.
        page: Number of the page, from 1.
        limit: Sessions on a full page.
        more: Whether there is another page.
        folders: Whether each session's folder is shown.
        cut_off: Ids of sessions with a run that was cut off, listed or not.
    """

    sessions: tuple[Session, ...]
    short: dict[str, str]
    current: str | None
    ahead: dict[str, int]
    page: int
    limit: int
    more: bool
    folders: bool
    cut_off: frozenset[str] = frozenset()


def lines(data: Listing, screen: Screen) -> Iterator[str]:
    """Yield one line per session, under headings on a terminal."""
    if not data.sessions:
        return
    ids = {session_id: one_line(short) for session_id, short in data.short.items()}
    wide = max(map(width, ids.values()))
    used = 2 + wide + 2 + WHEN_CELLS + 2 + 5 + 2
    if screen.columns is not None:
        yield screen.paint(f"  {'id':<{wide}}  {'last message':<{WHEN_CELLS}}  {'msgs':>5}  session", "dim")
    for session in data.sessions:
        here = session.id == data.current
        mark = screen.paint(screen.signs.leaf, "green") if here else " "
        when = f"{when_of(session, data, screen):<{WHEN_CELLS}}"
        text = screen.line(title(session, data, screen), used)
        yield (
            f"{mark} {screen.paint(pad(ids[session.id], wide), 'yellow')}  {screen.paint(when, 'dim')}"
            f"  {session.message_count:>5}  {text}"
        ).rstrip()


def when_of(session: Session, data: Listing, screen: Screen) -> str:
    """Return the time of the last message; a clock that was ahead is shown as it was, with `!`."""
    return screen.when(data.ahead.get(session.id, session.updated_ms))


def title(session: Session, data: Listing, screen: Screen) -> str:
    """Return marks, folder, name and first message of a session."""
    marks = [
        word
        for word, holds in (("pinned", session.pinned), ("archived", session.archived), ("removed", session.deleted))
        if holds
    ]
    marks += ["run cut off"] if session.id in data.cut_off else []
    marks += ["clock ahead"] if session.id in data.ahead else []
    parts = [f"({', '.join(marks)})"] if marks else []
    folder = session.cwd.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if data.folders and folder:
        parts.append(f"[{folder}]")
    told = one_line(session.first_message or "") or ("(no messages)" if not session.message_count else "")
    named = one_line(session.name or "", NAME_CELLS)
    parts.append(f" {screen.signs.dot} ".join(filter(None, (named, told))))
    return " ".join(parts)


def to_json(data: Listing) -> dict[str, object]:
    """Return the page."""
    from pi_session_cli.render.wire import session_json

    rows = []
    for session in data.sessions:
        row = session_json(session)
        row["current"] = session.id == data.current
        row["cutOff"] = session.id in data.cut_off
        row["clockAhead"] = session.id in data.ahead
        rows.append(row)
    return {"sessions": rows, "page": data.page, "limit": data.limit, "more": data.more}
