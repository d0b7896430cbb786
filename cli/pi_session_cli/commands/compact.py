"""`compact`: sum up the older part of a session's context."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_ARGUMENT, Command, Option
from pi_session_cli.invocation import argument
from pi_session_cli.summarizing import SUMMARY_OPTIONS, check_options
from pi_sessions.errors import UsageError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pi_session_cli.invocation import Invocation
    from pi_sessions.compaction import CompactionPlan
    from pi_sessions.compaction_range import RangePlan
    from pi_sessions.context import ContextMessage
    from pi_sessions.results import Session
    from pi_sessions.store import SessionStore

ENDS_SHOWN = 4

COMMAND = Command(
    name="compact",
    group="run",
    help="Sum up the older part of the context",
    details=(
        "A summary takes the place of the older messages for the model; the tree keeps them all. The last request "
        "stays word for word. Nothing is stored when the summary fails or the context would not become smaller. "
        "--to chooses the last entry that is summed up; with --from, too, only that range is."
    ),
    examples=(
        "pi-session compact --dry-run",
        "pi-session compact --offline",
        'pi-session compact --focus "the lease bug" --keep a1b2,c3d4',
        "pi-session compact --from a1b2 --to c3d4 --offline",
    ),
    json=(
        "One object: sessionId, dryRun, entryId, op, firstKeptEntryId, tokensBefore, tokensAfter, summarized, kept, "
        "verbatim, onlyInSummarized (files, decisions), summary; unfinishedRuns where a run of this branch was cut off."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("dry_run", ("--dry-run",), "Show what would go and what would stay, change nothing"),
        Option("keep", ("--keep",), "Entries that stay word for word, separated by commas", "text", "ENTRY,..."),
        Option("first", ("--from",), "Sum up from this entry on, leave what lies before it", "text", "ENTRY"),
        Option("last", ("--to",), "Sum up to this entry", "text", "ENTRY"),
        *SUMMARY_OPTIONS,
    ),
    writes=True,
)


class Ways(Record):
    """How the summary is made: from the messages' own words, by a named model, a script, or the session's model."""

    offline: bool
    model: str | None
    script: str | None


def run(
    ctx: Invocation,
    session: str | None,
    *,
    dry_run: bool,
    keep: str | None,
    first: str | None,
    last: str | None,
    focus: str | None,
    offline: bool,
    model: str | None,
    script: str | None,
) -> Answer:
    """Compact, or show what compacting would do."""
    from pi_loop.runner_types import NothingToCompactError
    from pi_sessions.compaction import CutError
    from pi_sessions.store import SessionStore

    check_options(offline=offline, model=model, script=script, command="compact")
    words = [word.strip() for word in (keep or "").split(",") if word.strip()]
    if keep is not None and not words:
        raise UsageError("--keep names no entry", hint="pi-session compact --keep a1b2,c3d4")
    ways = Ways(offline, model, script)
    with ctx.read_part(SessionStore) if dry_run else ctx.change_store() as store:
        here = ctx.session(store, session)
        kept = tuple(entry_id(ctx, store, here, word) for word in words)
        begin = None if first is None else entry_id(ctx, store, here, first)
        end = None if last is None else entry_id(ctx, store, here, last)
        again = argument(here, session)
        if begin is not None:
            done = sum_up_range(ctx, store, here, begin, end, kept, focus, ways, again, dry_run=dry_run)
            return with_note(done, store, here, dry_run=dry_run)
        first_kept = None if end is None else entry_after(store, here, end)
        act = preview if dry_run else compact
        try:
            done = act(ctx, store, here, kept, first_kept, focus, ways, again)
            return with_note(done, store, here, dry_run=dry_run)
        except CutError as error:
            if end is None or first_kept is None:
                raise
            hint = ends_near(store, here, end) or error.hint
            raise CutError(f"Summing up cannot end at {end}: {error}", hint=hint) from error
        except NothingToCompactError as error:
            if end is None:
                raise
            raise NothingToCompactError(
                f"There is nothing to compact up to {end}: no message lies there, or all of it was compacted before",
                hint=f"name a later entry of the context with --to; pi-session context{again} shows them",
            ) from error


def with_note(answer: Answer, store: SessionStore, here: Session, *, dry_run: bool) -> Answer:
    """Return an answer with what there is to know about a run of this branch that was cut off."""
    cut_off = tuple(run for run in store.cut_off_runs(here.id) if run.is_current)
    if not cut_off:
        return answer
    from pi_session_cli.render.cut_off import behind

    warning = () if dry_run else (behind(here.branch),)
    told: Answer = answer.replace(cut_off=cut_off, said=(*answer.said, *warning))
    return told


def entry_id(ctx: Invocation, store: SessionStore, here: Session, word: str) -> str:
    """Return the id of an entry a person names."""
    _, found = ctx.entry(store, word.strip(), here.id)
    if found is None:
        raise UsageError("There is no entry yet", hint="pi-session tree shows the entries")
    return found


def entry_after(store: SessionStore, here: Session, last: str) -> str:
    """Return the entry after one on the path to the leaf.

    Raises:
        UsageError: it is the leaf, or not on the path.
    """
    ids = [entry.id for entry in store.path(here.id)]
    if last not in ids[:-1]:
        raise UsageError(
            f"Nothing would stay after {last}" if last in ids else f"{last} is not on the path to the leaf",
            hint="pi-session context shows the entries",
        )
    return ids[ids.index(last) + 1]


def ends_near(store: SessionStore, here: Session, last: str) -> str:
    """Return which entries near one `--to` can name; empty if there are none."""
    from pi_sessions.compaction import possible_cuts

    ids = [entry.id for entry in store.path(here.id)]
    places = {entry_id: place for place, entry_id in enumerate(ids)}
    wanted = places[last]
    ends = sorted({places[cut] - 1 for cut in possible_cuts(store.path(here.id)) if places.get(cut)})
    near = sorted(sorted(ends, key=lambda place: abs(place - wanted))[:ENDS_SHOWN])
    return f"--to can be: {' '.join(ids[place] for place in near)}" if near else ""


def plan_for(
    ctx: Invocation, store: SessionStore, here: Session, first_kept: str | None, *, offline: bool, model: str | None
) -> CompactionPlan:
    """Return what `compact` would do, with the budgets of the model in force where it is known."""
    from pi_loop.runner_types import NothingToCompactError
    from pi_loop.types import UNKNOWN_MODEL
    from pi_session_cli.model_access import ModelAccess
    from pi_session_cli.summarizing import named_model, runner_settings
    from pi_sessions.compaction import prepare_compaction
    from pi_sessions.errors import CannotError

    asked = UNKNOWN_MODEL
    if not offline:
        try:
            asked = named_model(ModelAccess(ctx), here, model)
        except CannotError:
            if model is not None:
                raise
    plan = prepare_compaction(store.path(here.id), runner_settings(ctx).compaction(asked), first_kept=first_kept)
    if plan is None:
        raise NothingToCompactError(
            "There is nothing to compact: all of it is kept anyway, or was compacted just now",
            hint="choose the last entry to sum up: --to ENTRY",
        )
    return plan


def preview(
    ctx: Invocation,
    store: SessionStore,
    here: Session,
    keep: tuple[str, ...],
    first_kept: str | None,
    focus: str | None,
    ways: Ways,
    again: str,
) -> Answer:
    """Show what goes, what stays and what would be named only in the summary."""
    from pi_sessions.compaction_offline import offline_compaction
    from pi_sessions.compaction_preview import preview_compaction

    without_model = ways.offline or ways.script is not None
    plan = plan_for(ctx, store, here, first_kept, offline=without_model, model=ways.model)
    result = offline_compaction(plan, focus=focus, keep=keep or None) if ways.offline else None
    shown = preview_compaction(plan, keep=keep, tokens_after=None if result is None else result.tokens_after)
    json = told(here, None, None, shown.first_kept_id, shown.tokens_before, shown.tokens_after, shown.goes, shown.stays)
    json |= {
        "dryRun": True,
        "verbatim": list(shown.verbatim),
        "onlyInSummarized": {"files": list(shown.files), "decisions": list(shown.decisions)},
        "summary": None if result is None else result.summary,
    }
    after = f"{shown.tokens_after:,}" if shown.tokens_after is not None else f"{shown.tokens_staying:,} and the summary"
    lines = [f"{shown.tokens_before:,} tokens now, {after} afterwards (estimated)"]
    lines += listed("Summed up", shown.goes, shown.tokens_going, frozenset(shown.verbatim))
    lines += listed("Kept", shown.stays, shown.tokens_staying, frozenset())
    lines += named_only("Files named only in what is summed up", shown.files)
    lines += named_only("Decisions told only in what is summed up", shown.decisions)
    return Answer("done", Done(json, tuple(lines)), ("Nothing was changed",), (f"pi-session compact{again}",))


def compact(
    ctx: Invocation,
    store: SessionStore,
    here: Session,
    keep: tuple[str, ...],
    first_kept: str | None,
    focus: str | None,
    ways: Ways,
    again: str,
) -> Answer:
    """Store a compaction."""
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import CompactionDone
    from pi_session_cli.summarizing import run_with_model

    async def work(runner: SessionRunner) -> CompactionDone:
        return await runner.compact(focus=focus, keep=keep, first_kept=first_kept, offline=ways.offline)

    planned = here.leaf
    done = run_with_model(ctx, store, here, work, **ways.as_dict())
    result = done.result
    before, after = result.tokens_before, result.tokens_after
    stays = store.context(here.id).messages
    staying = {one.entry_id for one in stays}
    gone = [one for one in store.context(here.id, planned).messages if one.entry_id not in staying]
    json = told(here, done.entry_id, done.op, result.first_kept_id, before, after, gone, stays)
    json |= {"dryRun": False, "verbatim": result.details.get("keptEntries", []), "summary": result.summary}
    line = f"Compacted {result.tokens_before:,} tokens to {result.tokens_after:,} (estimated) in {done.entry_id}"
    said = (f"Kept word for word from {result.first_kept_id} on; the tree still has everything",)
    return Answer("done", Done(json, (line,)), said, (f"pi-session context{again}", f"pi-session undo{again}"))


def sum_up_range(
    ctx: Invocation,
    store: SessionStore,
    here: Session,
    first: str,
    last: str | None,
    keep: tuple[str, ...],
    focus: str | None,
    ways: Ways,
    again: str,
    *,
    dry_run: bool,
) -> Answer:
    """Sum up a range in the middle of the context, or show what that would do."""
    from pi_loop.runner import SessionRunner
    from pi_loop.runner_types import RangeDone
    from pi_session_cli.summarizing import run_with_model
    from pi_sessions.compaction_range import offline_range, plan_range

    if dry_run:
        plan = plan_range(store.path(here.id), first, last, keep=keep)
        result = offline_range(plan, focus=focus) if ways.offline else None
        return range_answer(here, plan, None, None if result is None else result.tokens_after, again)

    async def work(runner: SessionRunner) -> RangeDone:
        return await runner.compact_range(first, last, focus=focus, keep=keep, offline=ways.offline)

    done = run_with_model(ctx, store, here, work, **ways.as_dict())
    return range_answer(here, done.plan, done.op, done.result.tokens_after, again)


def range_answer(here: Session, plan: RangePlan, op: int | None, after: int | None, again: str) -> Answer:
    """Tell of a range that was, or would be, summed up."""
    from pi_sessions.compaction_preview import lost_mentions
    from pi_sessions.tokens import estimate_tokens

    files, decisions = lost_mentions(plan.goes, plan.stays)
    json = told(here, None if op is None else plan.holder, op, None, plan.tokens_before, after, plan.goes, plan.stays)
    json |= {"dryRun": op is None, "onlyInSummarized": {"files": list(files), "decisions": list(decisions)}}
    going = sum(estimate_tokens(one.message) for one in plan.goes)
    if op is not None:
        line = f"Summed up {len(plan.goes)} messages in {plan.holder}: {plan.tokens_before:,} tokens are {after:,} now"
        return Answer("done", Done(json, (line,)), (), (f"pi-session context{again}", f"pi-session undo{again}"))
    rest = f"{after:,}" if after is not None else f"{plan.tokens_before - going:,} and the summary"
    lines = [f"{plan.tokens_before:,} tokens now, {rest} afterwards (estimated)"]
    lines += listed("Summed up", plan.goes, going, frozenset())
    lines += named_only("Files named only in what is summed up", files)
    lines += named_only("Decisions told only in what is summed up", decisions)
    return Answer("done", Done(json, tuple(lines)), ("Nothing was changed",), ())


def told(
    here: Session,
    entry: str | None,
    op: int | None,
    first_kept: str | None,
    before: int,
    after: int | None,
    goes: Sequence[ContextMessage],
    stays: Sequence[ContextMessage],
) -> dict[str, object]:
    """Return what every form of the answer has for programs."""
    return {
        "sessionId": here.id,
        "entryId": entry,
        "op": op,
        "firstKeptEntryId": first_kept,
        "tokensBefore": before,
        "tokensAfter": after,
        "summarized": [one.entry_id for one in goes],
        "kept": list(dict.fromkeys(one.entry_id for one in stays)),
    }


def listed(title: str, messages: Sequence[ContextMessage], tokens: int, verbatim: frozenset[str]) -> list[str]:
    """Return messages as lines, those that stay word for word marked."""
    from pi_session_cli.render.words import ROLES, message_gist
    from pi_sessions.tokens import estimate_tokens

    lines = ["", f"{title}: {len(messages)} messages, {tokens:,} tokens"]
    for one in messages:
        role = str(one.message.get("role"))
        gist = " ".join(message_gist(one.message)[:160].split())
        mark = " (word for word)" if one.entry_id in verbatim else ""
        lines.append(f"{estimate_tokens(one.message):,} {one.entry_id} {ROLES.get(role, role)}{mark}: {gist}")
    return lines


def named_only(title: str, items: Sequence[str]) -> list[str]:
    """Return a list with a title; nothing when it is empty."""
    return ["", f"{title}:", *(f"- {item}" for item in items)] if items else []
