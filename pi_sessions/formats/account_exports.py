"""What exports of accounts have in common (ChatGPT, Claude.ai): one large file of conversations, read one by one.

A conversation is held at a time, and of a huge one a message. What a damaged stretch of the file cost is reported with
the conversation beside it.
"""

from __future__ import annotations

from pi_sessions.errors import SourceError
from pi_sessions.formats.json_items import JsonItems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.stored import JsonObject


def read_conversations(
    path: str,
    title: str,
    is_conversation: Callable[[JsonObject], bool],
    is_part: Callable[[JsonObject], bool],
    make: Callable[[JsonObject, Iterable[JsonObject] | None, int], ParsedSession | None],
    *,
    many: str,
) -> Iterator[ParsedSession]:
    """Read the conversations of a file.

    Args:
        path: The file.
        title: Whose export it is, for people.
        is_conversation: Whether an object is a conversation.
        is_part: Whether an object is worth keeping of a conversation that is torn.
        make: Returns the session of a conversation; its second argument are the whole parts of a torn one, its third
            the time of the file. None where there is nothing to keep.
        many: Field of a conversation that holds its messages; that of a huge one holds `Parts`.

    Raises:
        SourceError: the file cannot be read or holds no conversation.
    """
    items = JsonItems(path, is_conversation, is_part, many=(many,))
    waiting: ParsedSession | None = None
    for item in items:
        if item.parts is None and not is_conversation(item.value):
            items.skip(item.line, "an object that is no conversation was left out")
            continue
        session = make(item.value, item.parts, items.mtime_ms)
        if session is None:
            continue
        if waiting is not None:
            yield waiting
        waiting = _with_notes(session, items)
    if waiting is None:
        raise SourceError(f"{path} holds no conversation of {title}")
    yield _with_notes(waiting, items)


def _with_notes(session: ParsedSession, items: JsonItems) -> ParsedSession:
    repairs, losses = items.take_notes()
    if not repairs and not losses:
        return session
    changed: ParsedSession = session.replace(repairs=(*session.repairs, *repairs), losses=(*session.losses, *losses))
    return changed
