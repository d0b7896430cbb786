"""View of `scrub`: kinds, marks and places. The secrets themselves are never shown."""

from __future__ import annotations

from pi_session_cli.render.safe import one_line
from pi_session_cli.render.screen import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pi_session_cli.render.screen import Screen
    from pi_sessions.scrubbing import ScrubbedSecret, ScrubResult

PLACES_SHOWN = 8


def lines(data: ScrubResult, screen: Screen) -> Iterator[str]:
    """Yield a line per secret, then the size of the file."""
    verb = "would become" if data.dry_run else "became"
    for secret in data.secrets:
        places = count(secret.count, "place")
        yield screen.line(f"{one_line(secret.kind)} {verb} {secret.mark} in {places}: {where(secret)}")
    if data.secrets and not data.dry_run:
        yield f"The file was written anew: {data.size_before:,} bytes before, {data.size_after:,} now"


def where(secret: ScrubbedSecret) -> str:
    """Return the places of one secret in words."""
    parts = [entry_id for _session, entry_id in secret.entries[:PLACES_SHOWN]]
    if len(secret.entries) > PLACES_SHOWN:
        parts.append(f"{len(secret.entries) - PLACES_SHOWN} more entries")
    parts += [f"{table} ({rows})" for table, rows in secret.elsewhere]
    return ", ".join(parts)


def to_json(data: ScrubResult) -> dict[str, object]:
    """Return what was replaced, without the secrets."""
    return {
        "dryRun": data.dry_run,
        "secrets": [
            {
                "kind": secret.kind,
                "mark": secret.mark,
                "count": secret.count,
                "entries": [{"sessionId": session, "entryId": entry} for session, entry in secret.entries],
                "elsewhere": dict(secret.elsewhere),
                "sources": list(secret.sources),
            }
            for secret in data.secrets
        ],
        "missing": data.missing,
        "sizeBefore": data.size_before,
        "sizeAfter": data.size_after,
    }
