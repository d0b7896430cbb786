"""View of `import`: what became of each file, and every line that was repaired or lost."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count
from pi_sessions.formats.parsed import Repair
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.formats.parsed import ParsedSession
    from pi_sessions.formats.registry import Found
    from pi_sessions.origins import EarlierImport
    from pi_sessions.results import ImportResult
    from pi_sessions.stored import JsonObject

FILES_SHOWN = 40
REPAIRS_SHOWN = 5
KINDS_SHOWN = 4
LOSSES_SHOWN = 20
STATUS_STYLES = {"refused": ("red",), "new": ("green",), "grown": ("green",)}


class FileReport(Record):
    """What became of one session of a file, or of a file that was refused.

    Attributes:
        status: `new`, `grown`, `unchanged`, `removed` (the person removed this session before), `waiting` (nothing was
            said in it yet, so that it is not stored) or `refused`.
        session_id: Session in the store, None for a refused file or a waiting one.
        added, shared, grown: Entries that are new in the store, that were there already, and that became whole.
        branch: Branch made because the session had gone on in the store, too.
        lines: Lines read.
        repairs, losses: What was mended and what could not be kept.
        reason: Why it was refused, or waits.
        op: Operation that takes the import back.
        kept: `(kind, how many)` records without a place in a session that are kept as custom entries.
        unknown: Records of kinds nobody knows, with their lines; kept as custom entries, too.
        child: It is a subagent's conversation.
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
    format: str | None = None
    grown: int = 0
    kept: tuple[tuple[str, int], ...] = ()
    unknown: tuple[Repair, ...] = ()
    child: bool = False


class Report(Record):
    """What became of all files."""

    files: tuple[FileReport, ...]
    dry_run: bool


def refusal(path: str, reason: str, hint: str | None = None) -> FileReport:
    """Return the report on a file that was not taken in."""
    return FileReport(path, "refused", reason=f"{reason} ({hint})" if hint else reason)


def waiting_report(parsed: ParsedSession) -> FileReport:
    """Return the report on a session in which nothing was said yet."""
    return FileReport(
        parsed.source,
        "waiting",
        lines=parsed.lines_read,
        repairs=tuple(map(_light, parsed.repairs)),
        losses=tuple(map(_light, parsed.losses)),
        reason="nothing said yet",
        format=parsed.format,
        child=parsed.child_of is not None,
    )


def unchanged_report(path: str, format: str, earlier: EarlierImport) -> FileReport:
    """Return the report on a session whose source has not changed since it was imported."""
    told = (earlier.repairs, earlier.losses, earlier.unknown)
    mended, lost, unknown = (tuple(Repair(*each) for each in found) for found in told)
    return FileReport(
        path,
        "removed" if earlier.removed else "unchanged",
        earlier.session_id,
        shared=0 if earlier.removed else earlier.entries,
        lines=earlier.lines,
        repairs=mended,
        losses=lost,
        format=format,
        kept=earlier.kept,
        unknown=unknown,
    )


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
        repairs=tuple(map(_light, parsed.repairs)),
        losses=tuple(map(_light, parsed.losses)),
        op=result.op,
        format=parsed.format,
        grown=result.grown,
        kept=parsed.kept,
        unknown=parsed.unknown,
        child=parsed.child_of is not None,
    )


def _light(found: Repair) -> Repair:
    """Return a repair without the bytes it concerns, so that a report on many files stays small."""
    return found if found.original is None else Repair(found.line, found.code, found.message, found.entry_id)


def lines(data: Report, screen: Screen) -> Iterator[str]:
    """Yield the notable files, then the totals."""
    notable = data.files
    if len(notable) > FILES_SHOWN:
        notable = tuple(
            each
            for each in data.files
            if each.repairs or each.losses or each.unknown or each.status in ("refused", "removed")
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
    parts = [one_line(str(each.reason if each.status == "waiting" else each.session_id))]
    if each.added or each.status in ("new", "grown"):
        parts.append(count(each.added, "new entry", "new entries"))
    if each.grown:
        parts.append(f"{count(each.grown, 'answer')} completed")
    if each.shared:
        parts.append(f"{each.shared:,} shared")
    if each.branch:
        parts.append(f"on the new branch {one_line(each.branch)}")
    if each.repairs:
        parts.append(count(len(each.repairs), "repair"))
    if each.losses:
        parts.append(f"{count(len(each.losses), 'record')} lost")
    if each.kept:
        kinds = ", ".join(f"{number} {one_line(kind)}" for kind, number in each.kept[:KINDS_SHOWN])
        kinds += ", ..." if len(each.kept) > KINDS_SHOWN else ""
        parts.append(f"kept as custom: {kinds}")
    if each.unknown:
        parts.append(f"{len(each.unknown):,} not understood")
    if each.child:
        parts.append("subagent")
    if each.status == "removed":
        parts.append("you removed it; --restore brings it back")
    text = "  ".join(parts)
    yield f"{status}  {text}  {screen.line(each.path, 13 + len(text))}"
    yield from damage(each.losses, "lost", LOSSES_SHOWN, screen)
    yield from damage(each.unknown, "not understood", REPAIRS_SHOWN, screen)
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
    if sums["kept"]:
        told.append(f"{count(sums['kept'], 'record')} kept as custom")
    if sums["unknown"]:
        told.append(f"{sums['unknown']:,} not understood")
    told.append(count(sums["repairs"], "repair"))
    told.append(f"{count(sums['losses'], 'record')} lost")
    told.append(f"{count(sums['refused'], 'file')} refused")
    yield ", ".join(told) + (" (dry run: nothing was stored)" if data.dry_run else "")


def totals(data: Report) -> dict[str, int]:
    """Return the sums over all files."""
    return {
        "files": len({each.path for each in data.files}),
        "sessions": len({each.session_id for each in data.files if each.session_id is not None}),
        "added": sum(each.added for each in data.files),
        "shared": sum(each.shared for each in data.files),
        "grown": sum(each.grown for each in data.files),
        "kept": sum(number for each in data.files for _kind, number in each.kept),
        "unknown": sum(len(each.unknown) for each in data.files),
        "repairs": sum(len(each.repairs) for each in data.files),
        "losses": sum(len(each.losses) for each in data.files),
        "refused": sum(each.status == "refused" for each in data.files),
        "removed": sum(each.status == "removed" for each in data.files),
    }


def to_json(data: Report) -> dict[str, object]:
    """Return everything."""
    return {
        "dryRun": data.dry_run,
        "totals": totals(data),
        "formats": by_format(data),
        "files": [file_json(each) for each in data.files],
    }


def by_format(data: Report) -> dict[str, dict[str, int]]:
    """Return the sums of each format."""
    names = dict.fromkeys(each.format for each in data.files if each.format is not None)
    return {
        name: totals(Report(tuple(each for each in data.files if each.format == name), data.dry_run)) for name in names
    }


def found_lines(sources: list[Found]) -> Iterator[str]:
    """Yield what was found, a line for each tool."""
    from pi_sessions.formats.registry import source_size

    tools: dict[str, list[str]] = {}
    for source in sources:
        if source.format is not None:
            tools.setdefault(source.format.title, []).append(source.path)
    for title, paths in tools.items():
        size = sum(map(source_size, paths))
        yield f"{title}: {count(len(paths), 'source')}, {size / 1_000_000:,.1f} MB"


def watch_line(each: FileReport) -> str:
    """Return one line on what a watched source brought."""
    if each.status == "refused":
        return f"refused  {one_line(each.reason or each.path)}"
    parts = [f"{each.status:<7}", one_line(str(each.session_id)), count(each.added, "new entry", "new entries")]
    if each.grown:
        parts.append(f"{count(each.grown, 'answer')} completed")
    if each.branch:
        parts.append(f"on the new branch {one_line(each.branch)}")
    if each.losses:
        parts.append(f"{count(len(each.losses), 'record')} lost")
    return "  ".join(parts)


def file_json(each: FileReport) -> JsonObject:
    """Return what became of one file."""
    return {
        "path": each.path,
        "format": each.format,
        "status": each.status,
        "sessionId": each.session_id,
        "added": each.added,
        "shared": each.shared,
        "grown": each.grown,
        "child": each.child,
        "branch": each.branch,
        "lines": each.lines,
        "repairs": [repair_json(item) for item in each.repairs],
        "losses": [repair_json(item) for item in each.losses],
        "unknown": [repair_json(item) for item in each.unknown],
        "kept": dict(each.kept),
        "reason": each.reason,
        "op": each.op,
    }


def repair_json(item: Repair) -> JsonObject:
    """Return one repair or loss."""
    return {"line": item.line, "code": item.code, "message": item.message, "entryId": item.entry_id}
