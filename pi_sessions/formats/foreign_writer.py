"""What the writers of other agents' files share: the text for entries their files have no record for, and the marks.

A mark (`foreign_ids`) makes a message that is read back the message that was written.
"""

from __future__ import annotations

from collections import Counter

from pi_sessions.context import entry_messages, to_llm
from pi_sessions.formats import export_losses as words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.formats.exports import Export
    from pi_sessions.stored import JsonObject, StoredEntry

# Fields of a message that a mark tells when the other program's record does not.
_TOLD = (
    "provider", "api", "model", "stopReason", "rawStopReason", "responseId", "timestamp", "usage", "errorMessage",
    "thinkingLevel", "providerThinkingLevel", "responseModel", "diagnostics", "durationMs", "endTurn", "toolName",
    "codexKind",
)  # fmt: skip


class ForeignWriter:
    """One file on its way out.

    Attributes:
        export: What goes out.
        losses: What the file does not hold of the entries, in the words of `export_losses`.
    """

    def __init__(self, export: Export) -> None:
        self.export = export
        self.losses: Counter[str] = Counter()
        self._out: list[str] = []

    def _texts_of(self, entry: StoredEntry, kind: str) -> list[object]:
        """Return the contents a model sees of an entry that goes out as text, and count it as such, or as missing.

        Args:
            entry: One that has no record of its own.
            kind: Its type, or its message's role.
        """
        told = [shown for message in entry_messages(entry) for shown in to_llm(message)]
        texts: list[object] = [shown.get("content") for shown in told if shown.get("role") == "user"]
        self.losses[words.text_word(kind) if texts else words.kind_word(kind) or kind] += 1
        return texts


def unlike(message: JsonObject, read: JsonObject, *more: str) -> JsonObject:
    """Return the part of a mark that makes a message the one that was written.

    Args:
        message: As it was written.
        read: What a reader takes from the record itself, as far as a mark can tell otherwise.
        more: Further fields that the mark tells.
    """
    told = {name: message.get(name) for name in (*_TOLD, *more) if message.get(name) != read.get(name)}
    return {"message": told} if told else {}


def marked(mark: JsonObject, more: JsonObject) -> JsonObject:
    """Return a mark whose message has further fields."""
    return {**mark, "message": {**mark.get("message", {}), **more}} if more else mark
