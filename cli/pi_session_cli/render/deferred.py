"""What is said about an answer that is to come later."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.messages import DeferredHandle

GIVEN_UP = "The answer that was to come later is given up; undo brings it back"
NOT_YET = "The answer is not there yet"
PASSED_OVER = "The answer that was to come later is passed over; undo brings it back"


def waits(handle: DeferredHandle) -> str:
    """Return what is waited for."""
    return f"The last answer is to come later: {one_line(f'{handle.provider}/{handle.model_id}, {handle.id}')}"


def untold(reason: str) -> str:
    """Return that the provider does not know that nobody waits any more."""
    return f"The provider was not told: {one_line(reason)}"


def commands(session_id: str, branch: str | None) -> tuple[str, str]:
    """Return the command lines that wait for the answer and give it up.

    Args:
        branch: Its branch when that is not the current one.
    """
    place = f"pi-session run --session {session_id}" + (f" --branch {branch}" if branch else "")
    return f"{place} --recover continue", f"{place} --recover close"
