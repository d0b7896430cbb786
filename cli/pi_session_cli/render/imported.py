"""View of `import`: what became of each file, and every line that was repaired or lost."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.formats.parsed import ParsedSession, Repair
    from pi_sessions.results import ImportResult
    from pi_sessions.stored import JsonObject

FILES_SHOWN = 40
REPAIRS_SHOWN = 5
LOSSES_SHOWN = 20
STATUS_STYLES = {"refused": ("red",), "new": ("green",), "grown": ("green",)}


class FileReport(Record):
    """What became of one file.

    Attributes:
        status: `new`, `grown`, `unchanged`, `removed` (the person removed this session before) or `refused`.
        session_id: Session in the store, None for a refused file.
        added, shared: Entries that are new in the store, and that were there already.
        branch: Branch made because the session had gone on in the store, too.
        lines: Lines read.
        repairs, losses: What was mended and what could not be kept.
        reason: Why it was refused.
        op: Operation that takes the import back.
    """

    path: str
    status: str
    session_id: str | None = None
    added: int = 0
    shared: int = 0
    branch: str | None = None
    lines: int = 0
    repairs: tuple[Repair, ...] = ()
    losses: tuple[Repair, ...] = ()
    reason: str | None = None
    op: int | None = None


class Report(Record):
    """What became of all files."""

    files: tuple[FileReport, ...]
    dry_run: bool


def refusal(path: str, reason: str) -> FileReport:
    """Return the report on a file that was not taken in."""
    return FileReport(path, "refused", reason=reason)


def report_of(parsed: ParsedSession, result: ImportResult) -> FileReport:
    """Return the report on a file that was read."""
    status = "new" if result.created else "grown"
    if result.removed_before:
        status = "removed"
    elif result.unchanged:
        status = "unchanged"
    return FileReport(
        path=parsed.source,
        status=status,
        session_id=result.session.id,
        added=result.added,
        shared=result.shared,
        branch=result.new_branch,
        lines=parsed.lines_read,
        repairs=parsed.repairs,
        losses=parsed.losses,
        op=result.op,
    )


def lines(data: Report, screen: Screen) -> Iterator[str]:
    """Yield the notable files, then the totals."""
    notable = data.files
    if len(notable) > FILES_SHOWN:
        notable = tuple(
            each for each in data.files if each.repairs or each.losses or each.status in ("refused", "removed")
        )
    for each in notable:
        yield from file_lines(each, screen)
    yield from totals_lines(data)


def file_lines(each: FileReport, screen: Screen) -> Iterator[str]:
    """Yield what became of one file, with its damaged lines."""
    status = screen.paint(f"{each.status:<9}", *STATUS_STYLES.get(each.status, ("dim",)))
    if each.status == "refused":
        yield f"{status}  {screen.line(each.reason or each.path, 11)}"
        return
    parts = [one_line(str(each.session_id))]
    if each.added or each.status in ("new", "grown"):
        parts.append(count(each.added, "new entry", "new entries"))
    if each.shared:
        parts.append(f"{each.shared:,} shared")
    if each.branch:
        parts.append(f"on the new branch {one_line(each.branch)}")
    if each.repairs:
        parts.append(count(len(each.repairs), "repair"))
    if each.losses:
        parts.append(f"{count(len(each.losses), 'record')} lost")
    if each.status == "removed":
        parts.append("you removed it; --restore brings it back")
    text = "  ".join(parts)
    yield f"{status}  {text}  {screen.line(each.path, 13 + len(text))}"
    yield from damage(each.losses, "lost", LOSSES_SHOWN, screen)
    yield from damage(each.repairs, "repaired", REPAIRS_SHOWN, screen)


def damage(items: tuple[Repair, ...], word: str, most: int, screen: Screen) -> Iterator[str]:
    """Yield damaged lines by number."""
    for item in items[:most]:
        where = f"line {item.line}" if item.line is not None else "whole file"
        start = f"           {word}, {where}: "
        yield f"{start}{screen.line(item.message, len(start))}"
    if len(items) > most:
        yield f"           and {len(items) - most:,} more {word} (--report FILE lists them)"


def totals_lines(data: Report) -> Iterator[str]:
    """Yield the sums."""
    sums = totals(data)
    told = [
        count(sums["files"], "file"),
        f"{count(sums['added'], 'entry', 'entries')} {'would be ' if data.dry_run else ''}added",
    ]
    told.append(f"{sums['shared']:,} there already")
    told.append(count(sums["repairs"], "repair"))
    told.append(f"{count(sums['losses'], 'record')} lost")
    told.append(f"{count(sums['refused'], 'file')} refused")
    yield ", ".join(told) + (" (dry run: nothing was stored)" if data.dry_run else "")


def totals(data: Report) -> dict[str, int]:
    """Return the sums over all files."""
    return {
        "files": len(data.files),
        "sessions": len({each.session_id for each in data.files if each.session_id is not None}),
        "added": sum(each.added for each in data.files),
        "shared": sum(each.shared for each in data.files),
        "repairs": sum(len(each.repairs) for each in data.files),
        "losses": sum(len(each.losses) for each in data.files),
        "refused": sum(each.status == "refused" for each in data.files),
        "removed": sum(each.status == "removed" for each in data.files),
    }


def to_json(data: Report) -> dict[str, object]:
    """Return everything."""
    return {"dryRun": data.dry_run, "totals": totals(data), "files": [file_json(each) for each in data.files]}


def file_json(each: FileReport) -> JsonObject:
    """Return what became of one file."""
    return {
        "path": each.path,
        "status": each.status,
        "sessionId": each.session_id,
        "added": each.added,
        "shared": each.shared,
        "branch": each.branch,
        "lines": each.lines,
        "repairs": [repair_json(item) for item in each.repairs],
        "losses": [repair_json(item) for item in each.losses],
        "reason": each.reason,
        "op": each.op,
    }


def repair_json(item: Repair) -> JsonObject:
    """Return one repair or loss."""
    return {"line": item.line, "code": item.code, "message": item.message, "entryId": item.entry_id}
