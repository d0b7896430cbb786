"""`help`: the help of the program or of a command. `main` answers it before anything else is prepared."""

from __future__ import annotations

from pi_session_cli.declare import Argument, Command

COMMAND = Command(
    name="help",
    group="set up",
    help="Show help for a command",
    details="The same as COMMAND --help. Without a name the commands are listed.",
    examples=("pi-session help", "pi-session help rewind"),
    json="Help is text for people; --json changes nothing.",
    arguments=(Argument("command", "COMMAND", "Command to explain", required=False),),
)
