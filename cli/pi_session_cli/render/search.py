"""View of `search`: each hit with its session, branch and words, and the command that forks there."""

from __future__ import annotations

from pi_session_cli.render.safe import block, one_line
from pi_session_cli.render.width import fit, width
from pi_session_cli.render.wire import iso
from pi_session_cli.render.words import ROLES
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.search import Hit, SearchResult

INDENT = "    "
NAME_CELLS = 40


class Found(Record):
    """What a search found.

    Attributes:
        query: As it was typed.
        mode: How it was read.
        short: What is shown of each session's id.
    """

    query: str
    mode: str
    result: SearchResult
    short: dict[str, str]


def lines(data: Found, screen: Screen) -> Iterator[str]:
    """Yield three lines per hit: where, what, and what to type."""
    for hit in data.result.hits:
        short = one_line(data.short[hit.session.id])
        mark = screen.paint(screen.signs.active, "green") if hit.active else " "
        ids = list(filter(None, (short, one_line(hit.entry_id or ""))))
        time = screen.when(hit.time_ms)
        used = sum(width(each) + 2 for each in (*ids, time)) + 2
        painted = [screen.paint(each, "yellow") for each in ids] + [screen.paint(time, "dim")]
        yield f"{mark} {'  '.join((*painted, screen.line(title(hit, screen), used)))}".rstrip()
        yield INDENT + marked(hit, screen)
        yield INDENT + screen.paint(one_line(command(hit, short)), "dim")


def title(hit: Hit, screen: Screen) -> str:
    """Return who speaks, on which branch, in which session, in how many others."""
    if hit.kind == "entry":
        who = ROLES.get(hit.role, hit.role.replace("_", " "))
        who += f" ({', '.join(dict.fromkeys(filter(None, hit.tools)))})" if any(hit.tools) else ""
    else:
        who = hit.kind
    branches = ", ".join(hit.branches) or "left behind"
    named = one_line(hit.session.name or hit.session.first_message or "", NAME_CELLS)
    also = f"also in {len(hit.shared)} other{'s' if len(hit.shared) > 1 else ''}" if hit.shared else ""
    return f" {screen.signs.dot} ".join(filter(None, (who, branches, named, also)))


def marked(hit: Hit, screen: Screen) -> str:
    """Return the snippet with its matches painted, cut so that the first of them is seen."""
    room = None if screen.columns is None else max(screen.columns - len(INDENT), 8)
    text, marks = hit.snippet, list(hit.marks)
    if room is not None and marks and marks[0][0] > room // 3:
        cut = marks[0][0] - room // 3
        text = screen.signs.ellipsis + text[cut:]
        marks = [(max(start - cut, 0) + len(screen.signs.ellipsis), end - cut + 1) for start, end in marks]
    parts: list[str] = []
    at = 0
    for start, end in [*marks, (len(text), len(text))]:
        for piece, is_match in ((text[at:start], False), (text[start:end], True)):
            safe = fit("".join(block(piece)), room, screen.signs.ellipsis)
            parts.append(screen.paint(safe, "bold", "red") if is_match else safe)
            room = None if room is None else room - width(safe)
            if room is not None and room <= 0:
                return "".join(parts)
        at = end
    return "".join(parts)


def command(hit: Hit, session: str) -> str:
    """Return the command that gets there."""
    if hit.entry_id is None:
        return f"pi-session show {session}"
    if hit.kind == "name":
        return f"pi-session log {session}"
    return f"pi-session fork {session} --at {hit.entry_id}"


def to_json(data: Found) -> dict[str, object]:
    """Return everything that was found."""
    result = data.result
    return {
        "query": data.query,
        "mode": data.mode,
        "by": result.by,
        "whyScan": result.why_scan,
        "indexed": result.indexed,
        "more": result.more,
        "hits": [hit_json(hit) for hit in result.hits],
    }


def hit_json(hit: Hit) -> dict[str, object]:
    """Return one hit."""
    return {
        "kind": hit.kind,
        "sessionId": hit.session.id,
        "sessionName": hit.session.name,
        "cwd": hit.session.cwd,
        "entryId": hit.entry_id,
        "role": hit.role,
        "tools": list(hit.tools),
        "timestamp": iso(hit.time_ms),
        "branches": list(hit.branches),
        "active": hit.active,
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "alsoIn": list(hit.shared),
        "fork": f"pi-session fork {hit.session.id} --at {hit.entry_id}" if hit.entry_id else None,
        "rewind": f"pi-session rewind {hit.session.id}:{hit.entry_id}" if hit.entry_id else None,
    }
