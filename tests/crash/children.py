"""Child processes for crash and race tests: forked warm, reporting over a pipe, killed or awaited.

A child is a fork of the test process with everything imported, so that starting one costs milliseconds. No store may be
open across a fork. A child leaves with `os._exit`: nothing of pytest runs in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

# Imported here once, not in each child that makes or checks a store.

Report = Callable[[Any], None]
Work = Callable[[Report], None]
Race = Callable[[Report], Iterator[None]]


class Child:
    """A running child process.

    Args:
        work: What it does; called with a function that sends one JSON value to the parent, written before it returns.
    """

    def __init__(self, work: Work) -> None:
        self._out, inlet = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads; idle ones that other tests left are not used in the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _run(work, inlet)
        os.close(inlet)
        self._reports = os.fdopen(self._out, "rb")

    def reports(self) -> Iterator[Any]:
        """Yield what the child reports, until it ends; a report cut by a kill is none."""
        for line in self._reports:
            if line.endswith(b"\n"):
                yield json.loads(line)

    def kill(self) -> None:
        """Stop it at once with SIGKILL; reports written before can still be read."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end and return its exit code, or the negative number of the signal that ended it."""
        self._reports.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _run(work: Work, inlet: int) -> None:
    code = 1
    try:
        work(lambda value: _send(inlet, value))
        code = 0
    except BaseException:  # noqa: BLE001  (the child ends here, whatever happened; the parent sees the exit code)
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _send(inlet: int, value: Any) -> None:
    line = json.dumps(value).encode() + b"\n"
    while line:
        line = line[os.write(inlet, line) :]


def run_together(works: list[Race]) -> list[list[Any]]:
    """Run several pieces of work at once, one process each, and return what each reported.

    Args:
        works: Generator functions: what stands before their only `yield` is preparation; what follows begins in all
            processes at once, when every one is prepared. Each must end well.
    """
    ready, prepared = os.pipe()
    gate, opener = os.pipe()

    def behind_gate(work: Race) -> Work:
        def prepare_and_work(report: Report) -> None:
            os.close(opener)
            for _ in work(report):
                os.write(prepared, b".")
                os.read(gate, 1)

        return prepare_and_work

    children = [Child(behind_gate(work)) for work in works]
    os.close(prepared)
    os.close(gate)
    for _ in works:
        # An end of file here means that a child failed; its exit code tells below.
        os.read(ready, 1)
    os.close(opener)
    os.close(ready)
    reported = [list(child.reports()) for child in children]
    assert [child.wait() for child in children] == [0] * len(children)
    return reported
