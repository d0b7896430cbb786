"""`search`: find what was said, in every session."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_sessions.errors import StoreError, StoreNotFoundError, StoreTooNewError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pi_session_cli.invocation import Invocation
    from pi_sessions.reading import Reading

MODES = ("substring", "regex", "fts")
ROLES = ("user", "assistant", "tool", "shell", "summary", "custom")
MANY = 4000

COMMAND = Command(
    name="search",
    group="inspect",
    help="Find what was said in any session",
    details=(
        "Looks through messages, thinking, tool calls and results, summaries, names and labels. Every word must be "
        "there and matches where a word begins with it; what stands in double quotes ('\"lease lost\"' in a shell) "
        "matches as whole words in that order. Where no word begins so, parts of words are found. No character is an "
        "operator unless --fts or --regex says so; write -- before a query that begins with a dash. Case and "
        "accents do not count. Each hit shows its session and branch, a dot where it lies on the path to the leaf, and "
        "the command that forks there. New entries are indexed when they are first searched."
    ),
    examples=(
        'pi-session search "lease lost"',
        "pi-session search lease --role user --since 30d",
        "pi-session search -s 7f3a --active --tool bash -- --dry-run",
        "pi-session search --regex 'lease|lock' --here",
    ),
    json=(
        "One object: query, mode, by (index or scan), whyScan, indexed, more, hits (kind, sessionId, sessionName, "
        "entryId, role, tools, timestamp, branches, active, snippet, marks, alsoIn, fork, rewind)."
    ),
    arguments=(Argument("words", "WORD", "What to look for; several must all be there", repeatable=True),),
    options=(
        SESSION_OPTION,
        Option("here", ("--here",), "Only sessions of this directory"),
        Option("role", ("--role",), "Only messages of this role", "choice", "ROLE", None, ROLES),
        Option("tool", ("--tool",), "Only calls and results of this tool", "text", "NAME"),
        Option("model", ("--model",), "Only where the model in force has this in its name", "text", "TEXT"),
        Option("since", ("--since",), "Only entries since then: 30m, 12h, 7d, 2w, or a date", "text", "WHEN"),
        Option("branch", ("--branch",), "Only the path of the branch of this name", "text", "NAME"),
        Option("active", ("--active",), "Only the path to the leaf"),
        Option("substring", ("--substring",), "Also inside words, from the start"),
        Option("regex", ("--regex",), "The query is a regular expression"),
        Option("fts", ("--fts",), "The query is an expression of SQLite's FTS5: lease AND (lost OR NEAR(a b))"),
        Option("sort", ("--sort",), "Which hits come first", "choice", "ORDER", "newest", ("newest", "best")),
        Option("limit", ("--limit", "-n"), "At most so many hits (default: the setting)", "int", "N", least=1),
    ),
)


def run(
    ctx: Invocation,
    words: tuple[str, ...],
    *,
    session: str | None,
    here: bool,
    role: str | None,
    tool: str | None,
    model: str | None,
    since: str | None,
    branch: str | None,
    active: bool,
    substring: bool,
    regex: bool,
    fts: bool,
    sort: str,
    limit: int | None,
) -> Answer:
    """Search and show a page of hits."""
    from pi_session_cli.commands.ls import parse_since, short_id
    from pi_session_cli.render.search import Found
    from pi_sessions.search import Filters, search

    query = " ".join(words)
    mode = chosen_mode(substring, regex, fts)
    since_ms = None if since is None else parse_since(since, ctx.clock())
    with open_store(ctx) as store:
        within = None if session is None else ctx.session(store, session).id
        filters = Filters(within, ctx.place if here else None, role, tool, model, since_ms, branch, active)
        result = search(
            store,
            query,
            mode=mode,
            filters=filters,
            sort=sort,
            limit=limit or int(ctx.settings.get("limit").value or 1),
            progress=progress(ctx),
        )
        shown = {hit.session.id for hit in result.hits}
        short = {each: short_id(store, each) if ctx.screen.columns else each for each in shown}
    found = Found(query, mode, result, short)
    said = [f"Searched without the index: {result.why_scan}"] if result.why_scan else []
    after: tuple[str, ...] = ()
    if not result.hits:
        said.append(f"Nothing found for {query}")
        after = hints(query, mode, filters)
    elif result.more:
        after = (f"more hits: pi-session search {query} -n {2 * len(result.hits)}",)
    return Answer("search", found, tuple(said), after)


def chosen_mode(substring: bool, regex: bool, fts: bool) -> str:
    """Return how the query is read.

    Raises:
        UsageError: two ways were asked for at once.
    """
    chosen = [mode for mode, holds in zip(MODES, (substring, regex, fts), strict=True) if holds]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other", hint="leave out one of the two")
    return chosen[0] if chosen else "words"


def open_store(ctx: Invocation) -> Reading:
    """Open the store for writing, so that the index can be brought up to date; else for reading, and it is scanned."""
    try:
        return ctx.move_store()
    except (StoreNotFoundError, StoreTooNewError):
        raise
    except StoreError:
        return ctx.read_store()


def progress(ctx: Invocation) -> Callable[[int], object] | None:
    """Return what tells about a long catch-up on a terminal."""
    if not ctx.stderr.isatty():
        return None

    def tell(done: int) -> None:
        if done >= MANY:
            ctx.stderr.write(f"\rIndexed {done:,} entries ")
            ctx.stderr.flush()

    return tell


def hints(query: str, mode: str, filters: object) -> tuple[str, ...]:
    """Return what gets further when nothing was found."""
    from pi_sessions.search import Filters

    if filters != Filters():
        return ("search everywhere: leave out the filters",)
    if mode == "words" and "*" in query:
        return ("leave out the *: words match from their beginning anyway",)
    return ("pi-session ls",)
