"""`export`: give a session back as a file."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import TargetError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pi_session_cli.invocation import Invocation
    from pi_sessions.results import Session
    from pi_sessions.stored import JsonObject

FORMATS = {"pi": ".jsonl"}

COMMAND = Command(
    name="export",
    group="move",
    help="Write a session as a Pi session file",
    details=(
        "The path to the leaf, or the whole tree with --all-branches, as JSON Lines of version 3 that Pi opens with "
        "the same context; name, labels and leaf included. Without -o it goes to standard output. An existing file is "
        "replaced only with --force."
    ),
    examples=("pi-session export > talk.jsonl", "pi-session export 7f3a -o talk.jsonl --all-branches"),
    json="Without -o the lines themselves. With -o one object: sessionId, file, format, lines, bytes.",
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("output", ("--output", "-o"), "File to write", "text", "FILE"),
        Option("force", ("--force",), "Replace the file if it exists"),
        Option("all_branches", ("--all-branches",), "Write the whole tree, not only the path to the leaf"),
        Option("at", ("--at",), f"End the path here instead of at the leaf: {ENTRY_HELP}", "text", "ENTRY"),
        Option(
            "format", ("--format",), "Form of the file (default: by its ending)", "choice", "FORM", None, tuple(FORMATS)
        ),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    output: str | None,
    force: bool,
    all_branches: bool,
    at: str | None,
    format: str | None,
) -> Answer:
    """Export to standard output or to a file."""
    from pi_sessions.formats.pi import pi_lines

    if output is not None:
        check_format(output, format)
    with ctx.read_store() as store:
        here, leaf = (ctx.session(store, session), None) if at is None else ctx.entry(store, at, session)
        end = here.leaf if at is None else leaf
        entries = store.entries(here.id) if all_branches else store.path(here.id, end)
        labels = {label.entry_id: (label.text, label.time_ms) for label in store.labels(here.id).values()}
    lines = pi_lines(header_of(here), entries, leaf=end, labels=labels, name=here.name, whole_tree=all_branches)
    if output is None:
        return Answer("raw", lines)
    import os

    path = os.path.join(ctx.place, os.path.expanduser(output))
    written, size = write_file(path, lines, force=force)
    told = {"sessionId": here.id, "file": path, "format": "pi", "lines": written, "bytes": size}
    return Answer("done", Done(told, (f"Wrote {written} lines ({size:,} bytes) to {output}",)))


def check_format(output: str, format: str | None) -> None:
    """See to it that the file's form is known.

    Raises:
        UsageError: its ending names no form and none was given.
    """
    if format is None and not any(output.endswith(ending) for ending in FORMATS.values()):
        raise UsageError(
            f"The ending of {output} names no form of file", hint="use .jsonl, or say the form: --format pi"
        )


def header_of(session: Session) -> JsonObject:
    """Return the file's header: what an import brought, with today's facts."""
    from pi_session_cli.render.wire import iso

    header = {"timestamp": iso(session.created_ms), **session.header, "id": session.id, "cwd": session.cwd}
    if session.origin and not header.get("parentSession") and not header.get("branchedFrom"):
        header["parentSession"] = session.origin
    return header


def write_file(path: str, lines: Iterable[str], *, force: bool) -> tuple[int, int]:
    """Write a file wholly or not at all.

    Args:
        force: Replace an existing file.

    Returns:
        Lines and bytes written.

    Raises:
        TargetError: it exists already, or cannot be written; nothing is left behind.
    """
    import os

    if os.path.isdir(path):
        raise TargetError(f"{path} is a directory", hint="name a file in it: -o FILE")
    if os.path.lexists(path) and not force:
        raise TargetError(f"{path} exists already", hint="pass --force to replace it, or name another file")
    # A device (say /dev/stdout) is written to directly; a file appears under its name only when it is complete.
    target = f"{path}.{os.getpid()}.part" if os.path.isfile(path) or not os.path.exists(path) else path
    count = size = 0
    try:
        with open(target, "wb") as file:
            for line in lines:
                size += file.write(line.encode("utf-8"))
                count += 1
            file.flush()
            if target != path:
                os.fsync(file.fileno())
        if target != path:
            os.replace(target, path)
    except OSError as error:
        if target != path and os.path.exists(target):
            os.unlink(target)
        raise TargetError(f"Cannot write {path}: {error.strerror}", hint="name another file with -o") from error
    return count, size
