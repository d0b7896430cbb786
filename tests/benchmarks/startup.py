"""CPU time of whole commands through the installed script, output piped, against a bare `python -c pass`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from tempfile import TemporaryDirectory

from tests.benchmarks.data import filled
from tests.benchmarks.measure import show, show_ratio, show_time

ROUNDS = 15
MOVES, LOOKS = "2.5 x", "3.5 x"


def main() -> None:
    show("start-up, CPU time of a whole process")
    script = os.path.join(os.path.dirname(sys.executable), "pi-session")
    with TemporaryDirectory() as folder:
        store, session_id = filled(folder, "store", 60)
        first = store.path(session_id)[0].id
        store.close()
        # Compiled modules are part of an installation, so they may be written here too; the first round does it.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**inherited, "PI_SESSION_DB": store.file, "PI_SESSION_ID": session_id, "HOME": folder}
        commands = {
            "ls": MOVES,
            "fork": MOVES,
            f"rewind {first}": MOVES,
            f"label {first} here": MOVES,
            "undo": MOVES,
            "show": LOOKS,
            "log": LOOKS,
            "tree": LOOKS,
            "context": LOOKS,
        }
        times: dict[str, list[float]] = {"": [], **{command: [] for command in commands}}
        for number in range(ROUNDS + 1):
            for command, found in times.items():
                typed = [script, *command.split(), "--json"] if command else [sys.executable, "-c", "pass"]
                used = cpu_seconds(typed, environment)
                if number:
                    found.append(used)
    bare = statistics.median(times.pop(""))
    show_time("python -c pass", bare)
    for command, found in times.items():
        name = " ".join(word if word != first else "ENTRY" for word in command.split())
        show_ratio(f"pi-session {name} --json", statistics.median(found), bare, commands[command])


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the user and system time of a process that must end well."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return used.ru_utime + used.ru_stime
