"""Starts the program in terminals without paying for its imports each time: one process has them and forks.

`python -m tests.cli.pty_server FD` is that process. It has one thread, so forking it is safe. Each request on the
socket `FD` is a JSON object (`argv`, `cwd`, `env`) with the terminal's descriptor; each answer is a child's exit code.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path

ROWS, COLUMNS = 30, 110
ROOT = Path(__file__).resolve().parents[2]


class TerminalServer:
    """The forking process, seen from the tests."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-W", "error", "-m", "tests.cli.pty_server", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self._socket = ours

    def start(self, argv: list[str], cwd: str, env: dict[str, str]) -> int:
        """Start the program in a new terminal; returns our end of it."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        request = json.dumps({"argv": argv, "cwd": cwd, "env": env}).encode()
        socket.send_fds(self._socket, [struct.pack("I", len(request))], [slave])
        self._socket.sendall(request)
        os.close(slave)
        return master

    def exit_code(self, timeout_s: float) -> int:
        """Wait for the end of the program that was started last; returns its exit code."""
        self._socket.settimeout(timeout_s)
        return int(struct.unpack("i", self._socket.recv(4, socket.MSG_WAITALL))[0])

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(10)


def serve(connection: socket.socket) -> None:
    """Fork a child for each request, one at a time."""
    import pi_loop.providers.scripted  # noqa: F401
    import pi_session_cli.commands.resume
    import pi_session_cli.interactive.resuming  # noqa: F401

    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, 4, 1)
        if not head:
            return
        request = json.loads(connection.recv(struct.unpack("I", head)[0], socket.MSG_WAITALL))
        child = os.fork()
        if not child:
            connection.close()
            run(request, descriptors[0])
        os.close(descriptors[0])
        _, status = os.waitpid(child, 0)
        connection.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))


def run(request: dict[str, object], terminal: int) -> None:
    """Become the program in its terminal."""
    from pi_session_cli.main import run as run_program

    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for descriptor in range(3):
        os.dup2(terminal, descriptor)
    # The streams of the process were made for other files.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.argv = ["pi-session", *request["argv"]]  # type: ignore[misc]
    run_program()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)
