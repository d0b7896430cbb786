"""`scrub`: take secrets out of the stored data for good."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_sessions.errors import CannotError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pi_session_cli.invocation import Invocation
    from pi_sessions.scrubbing import ScrubResult
    from pi_sessions.store import SessionStore

COMMAND = Command(
    name="scrub",
    group="care",
    help="Remove secrets from the stored data for good",
    details=(
        "Replaces a secret by a mark such as [redacted:api-key-1] in every entry of every session, in names, labels, "
        "operations and pictures, empties the search index, and writes the file anew, so that no byte of it is left. "
        "Ids, order and everything else stay. There is no undo. Files it was imported from, exports and backups are "
        "not touched. What is replaced: the texts given, with - the lines of standard input (they stay out of the "
        "shell's history), with --env the values of your own environment's keys, with --found all that looks like a "
        "secret. Asks first; --yes answers."
    ),
    examples=(
        "pi-session scrub --found --dry-run",
        "pi-session scrub --found -s 7f3a --yes",
        "echo sk-example-0123456789 | pi-session scrub - --yes",
    ),
    json=(
        "One object: dryRun, secrets (kind, mark, count, entries, elsewhere, sources), missing, sizeBefore, sizeAfter."
    ),
    arguments=(Argument("texts", "TEXT", "Secret to remove; - reads one per line", required=False, repeatable=True),),
    options=(
        Option("found", ("--found",), "All that looks like a key, token or password"),
        Option("env", ("--env",), "The values of this environment's keys"),
        SESSION_OPTION.replace(help="Look for --found in this session only (what is found goes everywhere)"),
        Option("dry_run", ("--dry-run",), "Say what would be replaced and change nothing"),
        Option("yes", ("--yes", "-y"), "Do not ask"),
    ),
    writes=True,
)


def run(
    ctx: Invocation, texts: tuple[str, ...], *, found: bool, env: bool, session: str | None, dry_run: bool, yes: bool
) -> Answer:
    """Find the secrets, ask, remove them."""
    from pi_sessions.scrubbing import ScrubResult, scrub

    if not texts and not found and not env:
        raise UsageError("There is nothing to remove", hint="give a text, - for standard input, --env or --found")
    if session is not None and not found:
        raise UsageError("-s goes with --found only", hint="a secret that is given is removed from every session")
    with ctx.change_store(durable=True) as store:
        secrets = given(ctx, texts) | (own(ctx) if env else {}) | (looked_for(ctx, store, session) if found else {})
        if not secrets:
            return Answer("scrub", ScrubResult((), 0, dry_run, 0, 0), ("Nothing here looks like a secret",))
        if not dry_run and not yes:
            agreed(ctx, scrub(store, secrets, dry_run=True))
        result = scrub(store, secrets, dry_run=dry_run)
    return Answer("scrub", result, said(result), ("pi-session scrub ... --yes",) if dry_run and result.secrets else ())


def given(ctx: Invocation, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the secrets that were typed or piped: value -> kind."""
    from pi_sessions.secrets import find_secrets

    values: list[str] = []
    for text in texts:
        values += [line.rstrip("\r") for line in ctx.stdin.read().split("\n")] if text == "-" else [text]
    secrets: dict[str, str] = {}
    for value in values:
        if value.strip():
            known = [found.kind for found in find_secrets(value) if found.value == value.strip()]
            secrets[value.strip()] = known[0] if known else "secret"
    if texts and not secrets:
        raise UsageError("The text to remove is empty", hint="give the secret itself")
    return secrets


def own(ctx: Invocation) -> dict[str, str]:
    """Return the values of the environment's keys: value -> kind."""
    from pi_sessions.secrets import environment_secrets

    return environment_secrets(ctx.environ)


def looked_for(ctx: Invocation, store: SessionStore, session: str | None) -> dict[str, str]:
    """Return what looks like a secret: value -> kind."""
    from pi_sessions.scrubbing import find_stored

    within = None if session is None else ctx.session(store, session).id
    return find_stored(store, session_id=within, progress=progress(ctx))


def progress(ctx: Invocation) -> Callable[[int], object] | None:
    """Return what tells about a long look on a terminal."""
    if not ctx.stderr.isatty():
        return None

    def tell(done: int) -> None:
        ctx.stderr.write(f"\rLooked at {done:,} entries ")
        ctx.stderr.flush()

    return tell


def agreed(ctx: Invocation, plan: ScrubResult) -> None:
    """Show the plan and ask, on a terminal.

    Raises:
        UsageError: there is no terminal to ask on.
        CannotError: the person said no.
    """
    from pi_session_cli.render.scrub import lines

    if not plan.secrets:
        return
    if not ctx.stdin.isatty():
        raise UsageError(
            "scrub cannot be undone and asks first", hint="answer with --yes, or look first: pi-session scrub --dry-run"
        )
    ctx.stderr.write("\n".join(lines(plan, ctx.screen)) + "\nThis cannot be undone. Go on? [y/N] ")
    ctx.stderr.flush()
    if ctx.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CannotError("Nothing was changed", hint="look at the plan: pi-session scrub --dry-run")


def said(result: ScrubResult) -> tuple[str, ...]:
    """Return what to know about it."""
    told = []
    if not result.secrets:
        told.append("The store holds none of it")
    elif not result.dry_run:
        told.append("This cannot be undone. Exports and backups made before still hold it; change the keys themselves")
    sources = list(dict.fromkeys(source for secret in result.secrets for source in secret.sources))
    if sources:
        shown = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
        told.append(f"Imported from {shown}: these files may still hold it and could bring it back")
    return tuple(told)
