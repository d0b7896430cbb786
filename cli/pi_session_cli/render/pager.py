"""Shows a long answer through the person's pager, as git does."""

from __future__ import annotations

import shlex
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLES = ("PI_SESSION_PAGER", "PAGER")
DEFAULT = "less"
LESS = "FRX"


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """Return the pager to start, None when none is wanted or its name makes no sense."""
    text = next((environ[name] for name in VARIABLES if name in environ), DEFAULT)
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    return words if words and words != ["cat"] else None


def page(lines: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Show lines in a pager and wait until the person has left it.

    Returns:
        False when there is none to start; then nothing was shown.
    """
    command = pager_command(environ)
    if command is None:
        return False
    # F ends at once what fits, R lets colours through, X leaves the text on the screen.
    env = {"LESS": LESS, "LESSCHARSET": "utf-8", **environ}
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env)
    except OSError:
        return False
    assert process.stdin is not None
    text: bytes | None = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    while True:
        try:
            process.communicate(text)
            return True
        except KeyboardInterrupt:
            text = None  # Ctrl-C belongs to the pager.
