"""`import`: take in the sessions of every agent, with a report of everything repaired, kept as custom or lost."""

from __future__ import annotations

import os

from pi_session_cli.answers import Answer
from pi_session_cli.declare import Argument, Command, Option
from pi_sessions.errors import CannotError, TargetError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_session_cli.render.imported import FileReport
    from pi_session_cli.taking_in import Intake
    from pi_sessions.formats.registry import Found

WATCH_S = 1.0
INTERRUPTED = 130
REPORT_BEGINS = '{\n "dryRun": '

COMMAND = Command(
    name="import",
    group="move",
    help="Take in the sessions of Pi, Claude Code, Codex and others",
    details=(
        "Files are known by their content, folders are searched, and --all finds what every tool keeps on this "
        "machine. Zip archives, such as the exports of ChatGPT and Claude.ai, and files ending in .gz or .zst are read "
        "as they lie. Sources are only read. Damage is repaired and reported by line; what has no place in a session "
        "is kept as custom entries; doing the same import again adds only what is new; files that are forks of each "
        "other share their entries. Conversations of subagents become sessions of their own; ls shows them with "
        "--subagents. A single session becomes the current one here. A file in which nothing was said yet is reported "
        "as waiting and stored once something is. --watch goes on until Ctrl-C and brings new turns in as they are "
        "written. Exit code 1 when anything was lost or refused."
    ),
    examples=(
        "pi-session import ~/.claude ~/.codex",
        "pi-session import --all --dry-run",
        "pi-session import talk.jsonl --report report.json",
    ),
    json=(
        "One object: dryRun, totals, files (path, format, status, sessionId, child, added, shared, grown, branch, "
        "lines, repairs, losses, unknown, kept, reason). A status is new, grown, unchanged, removed, waiting (nothing "
        "said yet, not stored) or refused. With --watch one line for each session that got something new."
    ),
    arguments=(Argument("paths", "PATH", "File, folder, or a tool's data folder", required=False, repeatable=True),),
    options=(
        Option("all", ("--all",), "Everything the known tools keep on this machine; asks first"),
        Option("yes", ("--yes", "-y"), "Do not ask"),
        Option("dry_run", ("--dry-run",), "Say what would happen and store nothing"),
        Option(
            "report",
            ("--report",),
            "Also write the report as JSON to a file, a new one or an earlier report",
            "text",
            "FILE",
        ),
        Option("restore", ("--restore",), "Bring back sessions that were removed"),
        Option("watch", ("--watch",), "Go on and bring in what is new (of PATH, else of all known tools)"),
    ),
    writes=True,
)


class Rehearsed(Exception):
    """Ends a dry run's transaction, so that it is rolled back."""


def run(
    ctx: Invocation,
    paths: tuple[str, ...],
    *,
    all: bool,
    yes: bool,
    dry_run: bool,
    report: str | None,
    restore: bool,
    watch: bool,
) -> Answer:
    """Import everything below the paths."""
    from pi_session_cli.taking_in import Intake, default_places

    if all and paths:
        raise UsageError("--all and a path exclude each other", hint="leave out one of the two")
    if watch and (dry_run or report is not None or restore):
        raise UsageError("--watch goes with paths and --all only", hint="import once with these options, then watch")
    if not paths and not all and not watch:
        raise UsageError("There is nothing to import", hint="name files or folders, or find everything: import --all")
    usual = [] if paths else default_places(ctx)
    wanted = [whole_path(ctx, path) for path in paths] or [place for place in usual if os.path.exists(place)]
    if report is not None:
        check_report(ctx, report)
    if all and not watch and not wanted:
        return nowhere(ctx, usual, report, dry_run)
    if watch:
        return watching(ctx, wanted)
    if dry_run:
        return answer(rehearse(ctx, wanted, restore), ctx, report, dry_run=True)
    if os.path.exists(ctx.store_path):
        with ctx.change_store() as store:
            intake = Intake(store, restore=restore)
            return answer(take_all(ctx, intake, intake.find(wanted), ask=all and not yes), ctx, report, intake=intake)
    # A store is made only for something to put in.
    sources, refused = Intake(None).find(wanted)
    if not sources:
        return answer(refused, ctx, report)
    agreed(ctx, sources, ask=all and not yes)
    with ctx.change_store(create=True) as store:
        intake = Intake(store, restore=restore)
        return answer(take_all(ctx, intake, (sources, refused), ask=False), ctx, report, intake=intake)


def whole_path(ctx: Invocation, path: str) -> str:
    """Return a path as the caller means it, without `.` and `..` where that is the same place.

    Raises:
        UsageError: it is empty, which would mean the directory itself.
    """
    if not path.strip():
        raise UsageError("The path is empty", hint="name a file or a folder; . is the current directory")
    meant = os.path.join(ctx.place, os.path.expanduser(path))
    short = os.path.normpath(meant)
    # Behind a link, `..` leads elsewhere than the text says.
    same = ".." not in path.split("/") or (os.path.exists(short) and os.path.samefile(short, os.path.realpath(meant)))
    return short if same else meant


def take_all(
    ctx: Invocation, intake: Intake, found: tuple[list[Found], list[FileReport]], *, ask: bool, index: bool = True
) -> list[FileReport]:
    """Import what was found, bring the search index up to date, and report on each file.

    Args:
        ask: Ask before.
        index: False leaves the search index as it is.
    """
    from pi_session_cli.taking_in import progress_for
    from pi_sessions.search_index import catch_up_if_free

    sources, refused = found
    agreed(ctx, sources, ask=ask)
    intake.place = ctx.place if len(sources) == 1 else None
    with progress_for(ctx, sources) as progress:
        intake.progress = progress
        done = refused + list(intake.take(sources))
        if index and intake.store is not None:
            progress.indexing()
            catch_up_if_free(intake.store.connection)
    return done


def agreed(ctx: Invocation, sources: list[Found], *, ask: bool) -> None:
    """Ask whether to go on, on a terminal.

    Raises:
        UsageError: there is no terminal to ask on.
        CannotError: the person said no.
    """
    if not ask or not sources:
        return
    from pi_session_cli.render.imported import found_lines

    if not ctx.stdin.isatty():
        raise UsageError(
            f"import --all found {len(sources):,} sources and asks before it takes them in",
            hint="answer with --yes, or look first: pi-session import --all --dry-run",
        )
    ctx.stderr.write("\n".join(found_lines(sources)) + "\nTake all of this in? [y/N] ")
    ctx.stderr.flush()
    if ctx.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CannotError("Nothing was imported", hint="name single files or folders instead")


def answer(
    done: list[FileReport], ctx: Invocation, report: str | None, *, intake: Intake | None = None, dry_run: bool = False
) -> Answer:
    """Return the report on everything."""
    from pi_session_cli.render.imported import Report, to_json

    told = Report(tuple(done), dry_run)
    if report is not None:
        write_report(ctx, report, to_json(told))
    said = [f"Report written to {report}"] if report is not None else []
    stored = [each for each in done if each.session_id is not None and each.added]
    after: tuple[str, ...] = ()
    if stored and not dry_run:
        single = intake is not None and intake.place is not None
        after = ("pi-session tree", f"pi-session undo --op {stored[0].op}") if single else ("pi-session ls",)
    code = int(any(each.status == "refused" or each.losses for each in told.files))
    if intake is not None and intake.interrupted:
        said.append("Interrupted: every session is wholly in or wholly out; do the same import again to go on")
        code = INTERRUPTED
    return Answer("imported", told, tuple(said), after, code)


def nowhere(ctx: Invocation, places: list[str], report: str | None, dry_run: bool) -> Answer:
    """Return the report on a machine where no tool keeps anything, with the places that were looked at."""
    told = answer([], ctx, report, dry_run=dry_run)
    looked = "None of the known tools keeps sessions here; looked for: " + ", ".join(places)
    said = (looked, "To import from elsewhere, name files or folders", *told.said)
    return Answer(told.view, told.data, said, told.next, told.code)


def rehearse(ctx: Invocation, wanted: list[str], restore: bool) -> list[FileReport]:
    """Report what an import would do; the store is left as it is, or not made at all."""
    import tempfile

    from pi_session_cli.taking_in import Intake
    from pi_sessions.store import SessionStore

    done: list[FileReport] = []
    try:
        if os.path.exists(ctx.store_path):
            with ctx.change_store() as store, store.transaction():
                intake = Intake(store, restore=restore)
                done += take_all(ctx, intake, intake.find(wanted), ask=False, index=False)
                raise Rehearsed
        with tempfile.TemporaryDirectory() as folder, SessionStore.open(os.path.join(folder, "dry-run.db")) as store:
            intake = Intake(store)
            done += take_all(ctx, intake, intake.find(wanted), ask=False, index=False)
    except Rehearsed:
        pass
    return done


def watching(ctx: Invocation, wanted: list[str]) -> Answer:
    """Import what is there, then what comes, until Ctrl-C."""
    import time

    from pi_session_cli.taking_in import watched_lines

    if not wanted:
        raise UsageError("None of the known tools keeps sessions here", hint="name a folder to watch")
    store = ctx.change_store(create=True)
    lines = watched_lines(ctx, store, wanted, wait=lambda: time.sleep(WATCH_S))
    return Answer("watched", lines, code=INTERRUPTED)


def check_report(ctx: Invocation, path: str) -> None:
    """Refuse to write a report over anything but an earlier report, before anything is imported.

    Raises:
        TargetError: there is another file, perhaps the very source, or nothing can be written there.
    """
    meant = whole_path(ctx, path)
    if os.path.isdir(meant):
        raise TargetError(f"Cannot write the report to {path}: it is a directory", hint="name a file in it")
    if not os.path.exists(meant):
        folder = os.path.dirname(meant)
        if not os.path.isdir(folder):
            reason = "there is no such folder"
        elif not os.access(folder, os.W_OK):
            reason = "its folder may not be written"
        else:
            return
        hint = "name a file in another folder; nothing was imported"
        raise TargetError(f"Cannot write the report to {path}: {reason}", hint=hint)
    if not os.path.isfile(meant):
        # A terminal or a pipe.
        return
    if not os.access(meant, os.W_OK):
        raise TargetError(f"Cannot write the report to {path}: it may not be written", hint="name another file")
    try:
        with open(meant, encoding="utf-8", errors="replace") as file:
            begins = file.read(len(REPORT_BEGINS))
    except OSError as error:
        raise TargetError(f"Cannot write the report to {path}: {error.strerror}", hint="name another file") from error
    if begins not in ("", REPORT_BEGINS):
        raise TargetError(f"{path} exists and is no report of an import", hint="name a new file; nothing was imported")


def write_report(ctx: Invocation, path: str, report: dict[str, object]) -> None:
    """Write the report as JSON.

    Raises:
        TargetError: the file cannot be written; the import itself is done.
    """
    import json

    try:
        with open(whole_path(ctx, path), "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    except OSError as error:
        raise TargetError(
            f"Cannot write the report to {path}: {error.strerror}",
            hint="the import itself is done; do it again to see the report",
        ) from error
