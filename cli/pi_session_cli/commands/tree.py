"""`tree`: the picture of a session."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="tree",
    group="inspect",
    help="Draw the session's tree",
    details=(
        "One line per entry: id, time, then the branches with who speaks and the first words. The leaf is marked, the "
        "path to it dotted; labels stand in brackets, branch names in parentheses. Runs of tool calls are folded into "
        "one line, settings and bookkeeping are left out; --all shows every entry."
    ),
    examples=("pi-session tree", "pi-session tree 7f3a --user", "pi-session tree --search lease"),
    json=(
        "One object: session, branches, tips, labels, rows (id, parentId, shownUnder, depth, type, role, "
        "timestamp, text, label, branches, active, leaf, folded), hidden, unfinishedRuns."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("user", ("--user", "-u"), "Only user messages"),
        Option("no_tools", ("--no-tools",), "Without tool calls and results"),
        Option("labeled", ("--labeled",), "Only labelled entries"),
        Option("all", ("--all", "-a"), "Every entry, nothing folded"),
        Option("search", ("--search",), "Only entries that contain all these words", "text", "WORDS"),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    user: bool,
    no_tools: bool,
    labeled: bool,
    all: bool,
    search: str | None,
) -> Answer:
    """Draw the tree."""
    from pi_session_cli.render.tree import Picture
    from pi_sessions.tree import build_tree, tree_rows

    chosen = [
        word
        for word, given in (("user-only", user), ("no-tools", no_tools), ("labeled-only", labeled), ("all", all))
        if given
    ]
    if len(chosen) > 1:
        raise UsageError("Choose one of --user, --no-tools, --labeled and --all", hint="pi-session tree --help")
    with ctx.read_store() as store:
        here = ctx.session(store, session)
        tree = build_tree(store.entries(here.id))
        labels = store.labels(here.id)
        cut_off = store.cut_off_runs(here.id)
        branches, tips = store.branches(here.id), store.tips(here.id)
    view = tree_rows(
        tree,
        here.leaf,
        {entry_id: label.text for entry_id, label in labels.items()},
        filter=chosen[0] if chosen else "default",
        search=search or "",
        fold_tools=not chosen and not search,
    )
    shown = sum(max(len(row.folded), 1) for row in view.rows)
    hidden = len(tree.entries) - shown
    after: tuple[str, ...] = ()
    if hidden and not all:
        after = (f"pi-session tree{argument(here, session)} --all  (shows {hidden} more)",)
    picture = Picture(here, tree, view, tuple(branches), labels, tuple(tips), hidden)
    return Answer("tree", picture, (), after, cut_off=cut_off)
