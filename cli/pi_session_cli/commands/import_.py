"""`import`: take in session files, with a report of everything repaired or lost."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import Argument, Command, Option
from pi_sessions.errors import PiSessionError, SourceError, StoreError, TargetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render.imported import FileReport
    from pi_sessions.store import SessionStore

FILES_FOR_PROGRESS = 12

COMMAND = Command(
    name="import",
    group="move",
    help="Take in session files or whole folders",
    details=(
        "Pi's session files of version 1 to 3; in ~/.pi they are found by themselves. The files are only read. Damage "
        "is repaired and reported by line; doing the same import again adds nothing; files that are forks of each "
        "other share their entries. A single session becomes the current one here. Exit code 1 when anything was lost "
        "or refused."
    ),
    examples=(
        "pi-session import ~/.pi",
        "pi-session import talk.jsonl --dry-run",
        "pi-session import ~/.pi --report report.json",
    ),
    json=(
        "One object: dryRun, totals, files (path, status, sessionId, added, shared, branch, lines, repairs, "
        "losses, reason)."
    ),
    arguments=(Argument("paths", "PATH", "File, folder, or ~/.pi", repeatable=True),),
    options=(
        Option("dry_run", ("--dry-run",), "Say what would happen and store nothing"),
        Option("report", ("--report",), "Also write the report as JSON to a file", "text", "FILE"),
        Option("restore", ("--restore",), "Bring back sessions that were removed"),
    ),
    writes=True,
)


class Rehearsed(Exception):
    """Ends a dry run's transaction, so that it is rolled back."""


def run(ctx: Invocation, paths: tuple[str, ...], *, dry_run: bool, report: str | None, restore: bool) -> Answer:
    """Import every file below the paths."""
    from pi_session_cli.render.imported import Report, to_json

    files, refused = find(ctx, paths)
    place = ctx.place if len(files) == 1 else None
    if dry_run:
        done = rehearse(ctx, files, restore)
    elif files:
        with ctx.change_store(create=True) as store:
            done = list(take_in(ctx, store, files, place, restore))
    else:
        done = []
    told = Report(tuple(refused + done), dry_run)
    if report is not None:
        write_report(ctx, report, to_json(told))
    stored = [each for each in done if each.session_id is not None and each.added]
    after: tuple[str, ...] = ()
    if stored and not dry_run:
        after = ("pi-session tree", f"pi-session undo --op {stored[0].op}") if place is not None else ("pi-session ls",)
    said = (f"Report written to {report}",) if report is not None else ()
    return Answer(
        "imported", told, said, after, int(any(each.status == "refused" or each.losses for each in told.files))
    )


def find(ctx: Invocation, paths: Iterable[str]) -> tuple[list[str], list[FileReport]]:
    """Return the session files below the paths, each once, and a report for each file that is none."""
    import os

    from pi_session_cli.render.imported import refusal
    from pi_sessions.formats.pi import find_pi_files

    files: dict[str, None] = {}
    refused: list[FileReport] = []
    for path in paths:
        whole = os.path.join(ctx.place, os.path.expanduser(path))
        try:
            for found in find_pi_files(whole):
                if found.reason is None:
                    files[found.path] = None
                else:
                    refused.append(refusal(found.path, found.reason))
        except SourceError as error:
            refused.append(refusal(whole, error.message))
    return list(files), refused


def take_in(
    ctx: Invocation, store: SessionStore, files: list[str], place: str | None, restore: bool
) -> Iterator[FileReport]:
    """Import files one by one, each wholly or not at all, and report on each.

    Raises:
        StoreError: the store cannot be used; what was imported before stays.
    """
    from pi_session_cli.render.imported import refusal, report_of
    from pi_sessions.formats.pi import read_pi_file

    for path in with_progress(ctx, files):
        try:
            parsed = read_pi_file(path)
            yield report_of(parsed, store.import_session(parsed, place=place, restore=restore))
        except StoreError:
            raise
        except PiSessionError as error:
            yield refusal(path, error.message)


def rehearse(ctx: Invocation, files: list[str], restore: bool) -> list[FileReport]:
    """Report what an import would do; the store is left as it is, or not made at all."""
    import os
    import tempfile

    from pi_sessions.store import SessionStore

    done: list[FileReport] = []
    try:
        if os.path.exists(ctx.store_path):
            with ctx.change_store() as store, store.transaction():
                done += take_in(ctx, store, files, None, restore)
                raise Rehearsed
        with tempfile.TemporaryDirectory() as folder, SessionStore.open(os.path.join(folder, "dry-run.db")) as store:
            done += take_in(ctx, store, files, None, restore)
    except Rehearsed:
        pass
    return done


def with_progress(ctx: Invocation, files: list[str]) -> Iterator[str]:
    """Yield the files; many of them with a progress bar on a terminal."""
    if len(files) < FILES_FOR_PROGRESS or not ctx.stderr.isatty():
        yield from files
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(files, "Importing", console=Console(file=ctx.stderr), transient=True)


def write_report(ctx: Invocation, path: str, report: dict[str, object]) -> None:
    """Write the report as JSON.

    Raises:
        TargetError: the file cannot be written; the import itself is done.
    """
    import json
    import os

    try:
        with open(os.path.join(ctx.place, os.path.expanduser(path)), "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    except OSError as error:
        raise TargetError(
            f"Cannot write the report to {path}: {error.strerror}",
            hint="the import itself is done; do it again to see the report",
        ) from error
