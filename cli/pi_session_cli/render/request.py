"""View of `context --request` and `--explain`: the body that would be sent, and what was repaired in it."""

from __future__ import annotations

import json

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_session_cli.render.width import pad, width
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_loop.request import Repair
    from pi_loop.target import Target
    from pi_session_cli.render.screen import Screen
    from pi_sessions.stored import JsonObject


class RequestView(Record):
    """A request to show.

    Attributes:
        session: Its session's id.
        leaf: Entry it ends at.
        target: The model it is for.
        repairs: What differs from the context.
        body: What is sent; None when only the repairs were asked for.
    """

    session: str
    leaf: str | None
    target: Target
    repairs: tuple[Repair, ...]
    body: JsonObject | None


AS_IT_IS = True  # a body goes to a program


def lines(data: RequestView, screen: Screen) -> Iterator[str]:
    """Yield the body as JSON, or one line per repair."""
    if data.body is None:
        for line in repair_lines(data):
            yield screen.line(line)
        return
    # JSON escapes what could reach a terminal raw, all but what ASCII leaves out.
    text = json.dumps(data.body, ensure_ascii=screen.columns is not None, indent=2)
    yield text if is_encodable(text) else json.dumps(data.body, indent=2)


def is_encodable(text: str) -> bool:
    """Whether UTF-8 has every character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def repair_lines(data: RequestView) -> Iterator[str]:
    """Yield one line per repair: the entry, whether providers would refuse it as it is, what was done."""
    widest = max((width(one_line(each.entry_id or "request")) for each in data.repairs), default=0)
    for each in data.repairs:
        start = pad(one_line(each.entry_id or "request"), widest)
        yield f"{start}  {'fault ' if each.fault else 'adapts'}  {one_line(each.sentence)}"
    faults = sum(each.fault for each in data.repairs)
    if data.repairs:
        yield f"{count(len(data.repairs), 'repair')}, {faults} of them of what providers would refuse"


def to_json(data: RequestView) -> dict[str, object]:
    """Return the request for programs."""
    told: dict[str, object] = {
        "session": data.session,
        "leaf": data.leaf,
        "protocol": data.target.api,
        "model": {"provider": data.target.provider, "modelId": data.target.model},
        "repairs": [
            {"code": each.code, "sentence": each.sentence, "entryId": each.entry_id, "fault": each.fault}
            for each in data.repairs
        ],
    }
    return told if data.body is None else {**told, "body": data.body}
