"""CPU time of hot commands through the installed script, as multiples of a bare interpreter.

    python -m tests.cli.startup_times [ROUNDS]

Each round runs every command once, so that slow phases of the machine hit all alike; medians are compared. Loading a
module list is the test (`test_startup.py`); times are figures to look at.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pi_session_cli

SCRIPT = str(Path(sys.executable).with_name("pi-session"))
SAMPLE = str(Path(pi_session_cli.__file__).parent / "demo" / "sample.jsonl")
COMMANDS = {
    "ls": (2.5, ["ls"]),
    "ls --json": (2.5, ["ls", "--json"]),
    "fork": (2.5, ["fork", "0195c0de"]),
    "rewind": (2.5, ["rewind", "--exact", "aaf94beb", "-s", "0195c0de"]),
    "label": (2.5, ["label", "@", "here", "-s", "0195c0de"]),
    "undo": (2.5, ["undo", "0195c0de"]),
    "show": (3.5, ["show", "0195c0de"]),
    "log": (3.5, ["log", "0195c0de"]),
    "tree": (3.5, ["tree", "0195c0de"]),
    "context": (3.5, ["context", "0195c0de"]),
    "context --json": (3.5, ["context", "0195c0de", "--json"]),
}


def cpu_ms(command: list[str], env: dict[str, str]) -> float:
    """Return the CPU time of one run, milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main(rounds: int) -> None:
    """Print one line per command: median, multiple of bare Python, bound."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "PI_SESSION_DB": f"{folder}/sessions.db", "PYTHONDONTWRITEBYTECODE": ""}
        subprocess.run([SCRIPT, "import", SAMPLE], env=env, capture_output=True, check=True)
        lines = {name: [SCRIPT, *line] for name, (_, line) in COMMANDS.items()}
        lines |= {"bare": [sys.executable, "-c", "pass"], "import re": [sys.executable, "-c", "import re"]}
        times: dict[str, list[float]] = {name: [] for name in lines}
        for _ in range(rounds):
            for name, command in lines.items():
                times[name].append(cpu_ms(command, env))
    bare = statistics.median(times["bare"])
    print(f"bare interpreter {bare:.1f} ms, import re {statistics.median(times['import re']) / bare:.2f} times")
    for name, (bound, _) in COMMANDS.items():
        median = statistics.median(times[name])
        print(f"{name:<15} {median:6.1f} ms  {median / bare:5.2f} times (bound {bound})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
