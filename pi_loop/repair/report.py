"""What a repair says of itself: a stable code, a sentence for people, and the entry it is about."""

from __future__ import annotations

from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Repair(Record):
    """One difference between the context and the request made of it.

    Attributes:
        code: Stable word for programs.
        sentence: What was done and why.
        entry_id: The entry it is about; None when it is about the request as a whole.
        fault: Whether providers would refuse the history as it is stored. Otherwise it is a matter of this model or
            of how requests are made.
    """

    code: str
    sentence: str
    entry_id: str | None
    fault: bool


class Report:
    """Collects repairs in order; the same repair of the same entry is said once."""

    def __init__(self) -> None:
        self._repairs: dict[Repair, None] = {}

    def fault(self, code: str, sentence: str, entry_id: str | None) -> None:
        """Note something providers would refuse."""
        self._repairs[Repair(code, sentence, entry_id or None, True)] = None

    def adapt(self, code: str, sentence: str, entry_id: str | None) -> None:
        """Note something changed for this model."""
        self._repairs[Repair(code, sentence, entry_id or None, False)] = None

    def __iter__(self) -> Iterator[Repair]:
        return iter(self._repairs)
