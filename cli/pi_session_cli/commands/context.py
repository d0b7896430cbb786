"""`context`: what the model would get."""

from __future__ import annotations

from pi_session_cli.answers import Answer
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_loop.target import Target
    from pi_session_cli.invocation import Invocation
    from pi_sessions.context import Context
    from pi_sessions.cut_off import UnfinishedRun

PROTOCOLS = ("anthropic", "responses", "chat")

COMMAND = Command(
    name="context",
    group="inspect",
    help="Show what the model would get, entry by entry",
    details=(
        "Bars tell what fills it: prompt, tools, summaries, files read, tool output, conversation; --window measures "
        "them against the model's window. Compactions and context edits applied, with the model and thinking level in "
        "force. Tokens are estimates of four characters each; the total builds on what the provider measured last. "
        "--request prints the body that would be sent in one of the three protocols, --explain lists what is repaired "
        "on the way, entry by entry; neither needs a key or a network."
    ),
    examples=(
        "pi-session context",
        "pi-session context 7f3a --at checkpoint-1",
        "pi-session context --request anthropic",
        "pi-session context --explain",
    ),
    json=(
        "One object: session, leaf, model, thinkingLevel, tokens (total, measured, estimated), window, shares, "
        "dearest, omitted, messages (entryId, tokens, sent, message). With --request or --explain: session, leaf, "
        "protocol, model, repairs (code, sentence, entryId, fault), and body with --request. Both: unfinishedRuns."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("at", ("--at",), f"Flatten here instead of the leaf: {ENTRY_HELP}", "text", "ENTRY"),
        Option(
            "request",
            ("--request",),
            "Print the request's body in this protocol",
            "choice",
            "PROTOCOL",
            None,
            PROTOCOLS,
        ),
        Option("explain", ("--explain",), "List what is repaired in the request and why"),
        Option("window", ("--window",), "Measure against the model's context window (takes half a second)"),
        Option("model", ("--model",), "Make the request for this model instead of the one in force", "text", "MODEL"),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    at: str | None,
    request: str | None,
    explain: bool,
    window: bool,
    model: str | None,
) -> Answer:
    """Flatten a path."""
    from pi_session_cli.render.context import Contents
    from pi_sessions.context import is_sent, latest_edits, project_entries
    from pi_sessions.tokens import believed_size, in_path_order

    asked = request is not None or explain
    if model is not None and not asked:
        raise UsageError("--model is for --request and --explain", hint="pi-session context --explain --model MODEL")
    with ctx.read_store() as store:
        here, leaf = (ctx.session(store, session), None) if at is None else ctx.entry(store, at, session)
        end = here.leaf if at is None else leaf
        context = store.context(here.id, end)
        cut_off = store.cut_off_runs(here.id)
    if asked:
        target = target_for(ctx, context, request, model)
        return made_request(here.id, end, context, target, cut_off, body=request is not None, explain=explain)
    projected = project_entries(context.entries)
    sent = [(entry, [message for message in given if is_sent(message)]) for entry, given in projected]
    size = believed_size(sent, in_path_order(context.entries))
    edits = latest_edits(context.entries)
    omitted = tuple(target for target, edit in edits.items() if edit.fields.get("replacement") is None)
    told = Contents(here, end, context, size, omitted, window_of(ctx, context) if window else None)
    said = () if context.messages else ("Nothing yet",)
    if window and context.messages and told.window is None:
        said = ("The window of the model in force is not known here",)
    return Answer("context", told, said, cut_off=cut_off)


def window_of(ctx: Invocation, context: Context) -> int | None:
    """Return the context window of the model in force, None when it is not known."""
    if context.model is None:
        return None
    from pi_session_cli.model_access import ModelAccess

    model = ModelAccess(ctx).known(f"{context.model.provider}/{context.model.model_id}")
    return model.context_window or None if model is not None else None


def target_for(ctx: Invocation, context: Context, protocol: str | None, named: str | None) -> Target:
    """Return the model a request is made for, as if it spoke the protocol that was asked for.

    Args:
        protocol: One of `PROTOCOLS`; None for the model's own.
        named: What `--model` says.
    """
    from pi_loop.target import ANTHROPIC, CHAT, RESPONSES, Target, target_of
    from pi_session_cli.model_access import ModelAccess

    apis = {"anthropic": ANTHROPIC, "responses": RESPONSES, "chat": CHAT}
    access = ModelAccess(ctx)
    in_force = f"{context.model.provider}/{context.model.model_id}" if context.model else ""
    model = access.find(named) if named is not None else access.known(in_force) if in_force else None
    if model is not None:
        target = target_of(model)
    else:
        provider, _, name = in_force.partition("/")
        target = Target(provider or "unknown", name or "unknown", CHAT)
    wanted = apis[protocol] if protocol else target.api if target.api in apis.values() else CHAT
    if wanted == target.api:
        return target
    return Target(**{**{name: getattr(target, name) for name in Target._fields}, "api": wanted})


def made_request(
    session: str,
    leaf: str | None,
    context: Context,
    target: Target,
    cut_off: tuple[UnfinishedRun, ...],
    *,
    body: bool,
    explain: bool,
) -> Answer:
    """Return the request for a context: its body, its repairs, or both."""
    from pi_loop.bodies import BodyOptions, body_for
    from pi_loop.request import build_request
    from pi_session_cli.render.request import RequestView, repair_lines

    built = build_request(context.messages, target)
    options = BodyOptions(reasoning=context.thinking_level, session_id=session)
    view = RequestView(session, leaf, target, built.repairs, body_for(built, options) if body else None)
    said = tuple(repair_lines(view)) if body and explain else ()
    shown = said if said or not explain or built.repairs else ("Nothing needs repair",)
    return Answer("request", view, shown, cut_off=cut_off)
