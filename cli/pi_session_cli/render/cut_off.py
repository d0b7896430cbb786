"""Runs that were cut off, as commands tell of them: one line with what to type, or an object."""

from __future__ import annotations

from pi_session_cli.render.wire import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.cut_off import UnfinishedRun


def behind(branch: str) -> str:
    """Return the warning about what is put behind a run that was cut off."""
    return f"Warning: this stands behind a run that was cut off; going on with that will leave {branch} as it is"


def note(run: UnfinishedRun) -> str:
    """Return what there is to know about a run and the command that goes on with it, or closes it."""
    go_on, _ = commands(run)
    return f"Note: {run.sentence()}; {go_on} goes on with it, --recover close ends it as it stands"


def commands(run: UnfinishedRun) -> tuple[str, str]:
    """Return the command lines that continue and that close a run."""
    import shlex

    branch = "" if run.is_current else f" --branch {shlex.quote(run.branch)}"
    base = f"pi-session run --session {run.session_id}{branch} --recover"
    return f"{base} continue", f"{base} close"


def run_json(run: UnfinishedRun) -> dict[str, object]:
    """Return a run with what it left open; results of finished calls are not in the transcript yet."""
    go_on, close = commands(run)
    return {
        "run": run.run,
        "op": run.op,
        "command": run.command,
        "prompt": run.summary,
        "branch": run.branch,
        "leaf": run.leaf,
        "began": iso(run.began_ms),
        "accepted": [{"kind": each.kind, "message": each.message} for each in run.accepted],
        "calls": [
            {"toolCallId": call.call_id, "tool": call.tool, "arguments": call.arguments, "state": call.state}
            for call in run.calls
        ],
        "sentence": run.sentence(),
        "continue": go_on,
        "close": close,
    }
