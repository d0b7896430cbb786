"""`branch`: list, make, rename and delete named pointers to leaves."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument, option
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation

COMMAND = Command(
    name="branch",
    group="branch",
    help="List, make, rename or delete branches",
    details=(
        "Without NAME the branches are listed, then the tips that no branch points to. With NAME one is made at the "
        "leaf, or at --at. Deleting takes a name away, never an entry."
    ),
    examples=(
        "pi-session branch",
        "pi-session branch attempt-2 --at @-1 --switch",
        "pi-session branch attempt-2 --rename monkeypatch",
        "pi-session branch attempt-1 --delete",
    ),
    json="Listing: sessionId, branches (name, leaf, current), tips. A change: sessionId and branch.",
    arguments=(Argument("name", "NAME", "Branch to make, rename or delete", required=False),),
    options=(
        SESSION_OPTION,
        Option("at", ("--at",), "Entry the new branch ends at (default: the leaf)", "text", "ENTRY"),
        Option("switch", ("--switch",), "Also make the new branch the current one"),
        Option("rename", ("--rename",), "New name for the branch", "text", "NEW"),
        Option("delete", ("--delete",), "Take the name away; its entries stay as a tip"),
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    name: str | None,
    *,
    session: str | None,
    at: str | None,
    switch: bool,
    rename: str | None,
    delete: bool,
) -> Answer:
    """List, or do one thing to one branch."""
    asked = [word for word, given in (("--rename", rename is not None), ("--delete", delete)) if given]
    making = at is not None or switch
    if len(asked) + making > 1:
        raise UsageError(f"{asked[0]} goes alone", hint="pi-session branch --help")
    if name is None:
        if asked or making:
            raise UsageError("Name the branch", hint="pi-session branch NAME, or pi-session branch to list them")
        return listing(ctx, session)
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        if rename is not None:
            branch = store.rename_branch(here.id, name, rename)
            line = f"Renamed {name} to {branch.name}"
        elif delete:
            branch = store.delete_branch(here.id, name)
            line = f"Deleted the name {name}, its entries stay; it ended at {branch.leaf or 'its start'}"
        else:
            leaf = here.leaf if at is None else ctx.entry(store, at, session)[1]
            branch = store.create_branch(here.id, name, at=leaf, switch=switch)
            line = f"Made {name}{' and switched to it' if switch else ''}, ending at {branch.leaf or 'the start'}"
    told = {"sessionId": here.id, "branch": {"name": branch.name, "leaf": branch.leaf, "current": branch.current}}
    after = () if delete or switch or rename else (f"pi-session switch {branch.name}{option(here, session)}",)
    return Answer("done", Done(told, (line,)), (), (*after, f"pi-session undo{argument(here, session)}"))


def listing(ctx: Invocation, session: str | None) -> Answer:
    """List the session's branches and tips."""
    from pi_session_cli.render.rows import Rows
    from pi_session_cli.render.wire import branch_json

    with ctx.read_store() as store:
        here = ctx.session(store, session)
        branches, tips = store.branches(here.id), store.tips(here.id)
    rows = [(branch.leaf or "-", branch.name) for branch in branches] + [(tip, "(tip, on no branch)") for tip in tips]
    told = {"sessionId": here.id, "branches": [branch_json(branch) for branch in branches], "tips": tips}
    current = next((place for place, branch in enumerate(branches) if branch.current), None)
    return Answer("rows", Rows(told, tuple(rows), current))
