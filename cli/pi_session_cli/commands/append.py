"""`append`: put messages or whole entries under the leaf, for people and for scripts."""

from __future__ import annotations

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import SESSION_OPTION, Argument, Command, Option
from pi_session_cli.invocation import argument
from pi_sessions.errors import CannotError, InvalidEntryError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_session_cli.invocation import Invocation
    from pi_sessions.stored import JsonObject

# Every reader of the store can go this deep.
DEEPEST = 900
TOO_DEEP = f"nested more than {DEEPEST} deep"
ROLES = ("user", "assistant", "system")

COMMAND = Command(
    name="append",
    group="run",
    help="Append messages to a session",
    details=(
        "Each TEXT becomes one message; `-` reads one from standard input. With --json-lines each line is a message or "
        "a whole entry in Pi's JSON, checked before anything is written: all lines are stored or none. "
        "The ids of the new entries are printed."
    ),
    examples=(
        'pi-session append "What does the lock protect?"',
        "git diff | pi-session append -",
        "pi-session append --json-lines entries.jsonl --expect 77aa01f3",
    ),
    json="One object: sessionId, branch, leaf, ids, and unfinishedRuns of the branch.",
    arguments=(Argument("texts", "TEXT", "Text of a message", required=False, repeatable=True),),
    options=(
        SESSION_OPTION,
        Option("role", ("--role",), "Who speaks", "choice", "ROLE", "user", ROLES),
        Option(
            "model", ("--model",), "Model of an assistant message (default: the one in force)", "text", "PROVIDER/MODEL"
        ),
        Option(
            "json_lines",
            ("--json-lines",),
            "Read messages or entries from a file, - for standard input",
            "text",
            "FILE",
        ),
        Option("branch", ("--branch",), "Append to this branch instead of the current one", "text", "BRANCH"),
        Option("expect", ("--expect",), "Refuse unless this entry is still the leaf", "text", "ENTRY"),
    ),
    writes=True,
)


def run(
    ctx: Invocation,
    texts: tuple[str, ...],
    *,
    session: str | None,
    role: str,
    model: str | None,
    json_lines: str | None,
    branch: str | None,
    expect: str | None,
) -> Answer:
    """Append to the session, as one operation."""
    if bool(texts) == (json_lines is not None):
        raise UsageError("Give either TEXT or --json-lines", hint='pi-session append "a message"')
    entries, mended = read_entries(ctx, json_lines) if json_lines is not None else (None, 0)
    spoken = [read_text(ctx) if text == "-" else text for text in texts]
    if not all(text.strip() for text in spoken):
        where = "Standard input" if "-" in texts else "The text"
        raise InvalidEntryError(
            f"{where} is empty: there is no message to append", hint='pi-session append "a message"'
        )
    with ctx.move_store() as store:
        here = ctx.session(store, session)
        if entries is None:
            named = model or here.model or "unknown/unknown"
            now = ctx.clock()
            entries = [{"type": "message", "message": message(role, text, named, now)} for text in spoken]
        guard = {} if expect is None else {"expect": ctx.entry(store, expect, here.id)[1]}
        into = branch or here.branch
        cut_off = tuple(run for run in store.cut_off_runs(here.id) if run.branch == into)
        what = f"append {len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
        with store.transaction():
            if into == here.branch:
                with store.recording(here.id, "append", what):
                    stored = store.append_many(here.id, entries, **guard)
            else:
                stored = store.append_many(here.id, entries, branch=into, **guard)
            store.check_compactions(stored)
    ids = [entry.id for entry in stored]
    said = [f"Appended {len(ids)} to {into}"]
    if mended:
        said.append(f"{mended} halves of surrogate pairs, which no text can hold, became U+FFFD")
    if cut_off:
        from pi_session_cli.render.cut_off import behind

        said.append(behind(into))
    return Answer(
        "done",
        Done({"sessionId": here.id, "branch": into, "leaf": ids[-1] if ids else here.leaf, "ids": ids}, tuple(ids)),
        tuple(said),
        (f"pi-session log{argument(here, session)} --last 5",),
        cut_off=cut_off,
    )


def message(role: str, text: str, model: str, now_ms: int) -> JsonObject:
    """Return a message in Pi's form.

    Args:
        model: `provider/model`, for an assistant message.
        now_ms: Unix milliseconds.
    """
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if role == "system":
        return {"role": role, "content": text, "timestamp": now_ms}
    content = [{"type": "text", "text": text}]
    if role == "user":
        return {"role": role, "content": content, "timestamp": now_ms}
    provider, _, name = model.partition("/")
    counts = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    usage = {**counts, "totalTokens": 0, "cost": {**counts, "total": 0}}
    told = {"role": role, "content": content, "api": "unknown", "provider": provider, "model": name or provider}
    return {**told, "usage": usage, "stopReason": "stop", "timestamp": now_ms}


def read_text(ctx: Invocation) -> str:
    """Return standard input as one message, without its last line feed."""
    return ctx.stdin.read().removesuffix("\n")


def read_entries(ctx: Invocation, source: str) -> tuple[list[JsonObject], int]:
    """Return the checked entries of a JSON Lines source, and how many halves of surrogate pairs were replaced in them.

    Raises:
        InvalidEntryError: a line is no message and no entry; the message names the line.
        CannotError: the file cannot be read.
    """
    import os

    if source == "-":
        raw = ctx.stdin.buffer.read() if hasattr(ctx.stdin, "buffer") else ctx.stdin.read().encode()
    else:
        try:
            with open(os.path.join(ctx.place, source), "rb") as file:
                raw = file.read()
        except OSError as error:
            raise CannotError(
                f"Cannot read {source}: {error.strerror}", hint="name a file, or - for standard input"
            ) from error
    read = [read_line(line, number) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    if not read:
        raise InvalidEntryError(
            f"{'Standard input' if source == '-' else source} holds no entry", hint="one JSON object a line"
        )
    return [entry for entry, _ in read], sum(mended for _, mended in read)


def read_line(line: bytes, number: int) -> tuple[JsonObject, int]:
    """Return the entry on a line, as it came or around a bare message, and how many halves of pairs were replaced."""
    import json

    from pi_sessions.appending import draft_entry
    from pi_sessions.entries import parse_entry
    from pi_sessions.formats.json_text import has_surrogate_escape, mend_surrogates

    mended = 0
    try:
        text = line.decode("utf-8")
        if has_surrogate_escape(text):
            text, mended = mend_surrogates(text)
        value = json.loads(text, parse_float=finite, parse_constant=no_constant)
    except ValueError as error:
        raise refused(number, f"not JSON: {error}") from error
    except RecursionError as error:
        raise refused(number, TOO_DEEP) from error
    if depth(value) > DEEPEST:
        raise refused(number, TOO_DEEP)
    if not isinstance(value, dict):
        raise refused(number, "not a JSON object")
    entry = {"type": "message", "message": value} if "role" in value and "type" not in value else value
    try:
        parse_entry({"id": "00000000", "parentId": None, "timestamp": "1970-01-01T00:00:00.000Z", **entry})
        draft_entry(entry)
    except InvalidEntryError as error:
        raise refused(number, error.message) from error
    return entry, mended


def finite(text: str) -> float:
    """Return a number; one that is too large for a float is no number."""
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no JSON")


def depth(value: object) -> int:
    """Return how many lists and objects a value is nested in at most."""
    deepest = 0
    waiting = [(value, 1)]
    while waiting:
        one, level = waiting.pop()
        if isinstance(one, dict | list):
            deepest = max(deepest, level)
            inside = one.values() if isinstance(one, dict) else one
            waiting += [(each, level + 1) for each in inside if isinstance(each, dict | list)]
    return deepest


def refused(number: int, reason: str) -> InvalidEntryError:
    """Return the error for a line; nothing was written."""
    return InvalidEntryError(f"Line {number}: {reason}", hint="correct the line and try again; nothing was stored")
