"""`export`: give a session back as a file, in the form it is needed in."""

from __future__ import annotations

import sys

from pi_session_cli.answers import Answer, Done
from pi_session_cli.declare import ENTRY_HELP, SESSION_ARGUMENT, Command, Option
from pi_sessions.errors import BranchError, TargetError, UsageError
from pi_sessions.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pi_session_cli.invocation import Invocation
    from pi_sessions.formats.exports import Export
    from pi_sessions.reading import Reading
    from pi_sessions.results import Session

PATH, EITHER, TREE = "path", "either", "tree"
LAST, TOOLS, THINKING = "--last", "--tools", "--no-thinking"


class Form(Record):
    """A form of file.

    Attributes:
        name: What `--format` calls it.
        ending: How names of such files end; the first form with an ending is the one it stands for.
        module, function: What writes it: a function from an `Export` to the file's lines.
        losses_function: What counts what the file will not hold, beside the writer; None for a view that nobody reads
            back.
        title: For the help.
        holds: `path` (it cannot hold a tree), `either` (the path unless the tree is wanted), `tree` (the tree unless an
            entry or a branch is named).
        redact: Whether secrets are replaced unless `--no-redact` is given.
        takes: Which of `--last`, `--tools` and `--no-thinking` mean something for it.
    """

    name: str
    ending: str
    module: str
    title: str
    function: str = "export_lines"
    losses_function: str | None = "export_losses"
    holds: str = PATH
    redact: bool = False
    takes: tuple[str, ...] = ()

    @property
    def write(self) -> Callable[[Export], Iterator[str]]:
        """Its writer, loaded now."""
        __import__(self.module)
        writer: Callable[[Export], Iterator[str]] = getattr(sys.modules[self.module], self.function)
        return writer

    def losses(self, export: Export) -> dict[str, int]:
        """Return what the file will not hold or says differently: `{what: how many}`."""
        if self.losses_function is None:
            return {}
        __import__(self.module)
        told: dict[str, int] = getattr(sys.modules[self.module], self.losses_function)(export)
        return told


FORMS = (
    Form("pi", ".jsonl", "pi_sessions.formats.pi_export", "Pi session file", holds=EITHER),
    Form("json", ".json", "pi_sessions.formats.json_export", "one JSON object with everything", holds=EITHER),
    Form(
        "markdown",
        ".md",
        "pi_sessions.formats.markdown",
        "Markdown to read and to import again",
        takes=(LAST, TOOLS, THINKING),
    ),
    Form(
        "html",
        ".html",
        "pi_sessions.formats.html",
        "one safe page with the tree",
        losses_function=None,
        holds=TREE,
        redact=True,
        takes=(TOOLS, THINKING),
    ),
    Form(
        "openai",
        ".openai.json",
        "pi_loop.message_lists",
        "Chat Completions messages",
        "openai_lines",
        "openai_losses",
        takes=(LAST,),
    ),
    Form(
        "anthropic",
        ".anthropic.json",
        "pi_loop.message_lists",
        "Anthropic messages",
        "anthropic_lines",
        "anthropic_losses",
        takes=(LAST,),
    ),
    Form(
        "claude-code", ".claude.jsonl", "pi_sessions.formats.claude_code_writer", "Claude Code resumes it", holds=EITHER
    ),
    Form("codex", ".codex.jsonl", "pi_sessions.formats.codex_writer", "Codex resumes it"),
)

COMMAND = Command(
    name="export",
    group="move",
    help="Write a session as a file: Pi, JSON, Markdown, HTML or a provider's messages",
    details=(
        f"Forms: {'; '.join(f'{form.name} ({form.title}, {form.ending})' for form in FORMS)}. The path to the leaf is "
        "written, or the whole tree with --all-branches; HTML always holds the whole tree unless --branch or --at "
        "names a path. HTML replaces likely secrets, other forms do with --redact, and without it say how many go out. "
        "What the file does not hold of the session is counted in one line, for every form but HTML. "
        "Without -o the file goes to standard output. An existing file is replaced only with --force."
    ),
    examples=(
        "pi-session export > talk.jsonl",
        "pi-session export 7f3a -o talk.html",
        "pi-session export --last 10 --tools none -o talk.md",
        "pi-session export 7f3a --format openai -o messages.json",
        "pi-session export 7f3a -o talk.jsonl --all-branches --redact",
    ),
    json=(
        "Without -o the file itself. With -o one object: sessionId, file, format, lines, bytes, losses, redacted, "
        "secrets, unfinishedRuns. redacted says of each mark how often it stands in the file (count) and where in the "
        "session it comes from (where); secrets counts likely secrets left in the file. "
        "losses counts what the file does not hold or says otherwise: {what: how many}."
    ),
    arguments=(SESSION_ARGUMENT,),
    options=(
        Option("output", ("--output", "-o"), "File to write", "text", "FILE"),
        Option("force", ("--force",), "Replace the file if it exists"),
        Option(
            "format",
            ("--format",),
            "Form of the file (default: by its ending, else pi)",
            "choice",
            "FORM",
            None,
            tuple(form.name for form in FORMS),
        ),
        Option("all_branches", ("--all-branches",), "Write the whole tree, not only the path to the leaf"),
        Option("branch", ("--branch", "-b"), "End the path at this branch's leaf", "text", "BRANCH"),
        Option("at", ("--at",), f"End the path here instead of at the leaf: {ENTRY_HELP}", "text", "ENTRY"),
        Option("last", ("--last", "-n"), "Only the last N messages (Markdown, messages)", "int", "N", least=1),
        Option(
            "tools",
            ("--tools",),
            "Tool calls and results in Markdown and HTML (default: folded)",
            "choice",
            "HOW",
            None,
            ("full", "folded", "none"),
        ),
        Option("no_thinking", ("--no-thinking",), "Leave thinking out of Markdown and HTML"),
        Option("redact", ("--redact",), "Replace likely secrets by marks"),
        Option("no_redact", ("--no-redact",), "Leave secrets in an HTML page"),
    ),
)


def run(
    ctx: Invocation,
    session: str | None,
    *,
    output: str | None,
    force: bool,
    format: str | None,
    all_branches: bool,
    branch: str | None,
    at: str | None,
    last: int | None,
    tools: str | None,
    no_thinking: bool,
    redact: bool,
    no_redact: bool,
) -> Answer:
    """Export to standard output or to a file."""
    from pi_session_cli import VERSION
    from pi_sessions.formats.export_losses import pending_losses, sentence_of
    from pi_sessions.formats.exports import TOOLS_FOLDED, read_export

    form = form_of(output, format)
    if branch is not None and at is not None:
        raise UsageError("--branch and --at both say where the path ends", hint="give one of them")
    if redact and no_redact:
        raise UsageError("--redact and --no-redact exclude each other", hint="give one of them")
    if all_branches and form.holds == PATH:
        raise UsageError(
            f"The form {form.name} holds one path, not a tree", hint="take --format pi, json or html, or --branch NAME"
        )
    for flag, given in ((LAST, last), (TOOLS, tools), (THINKING, no_thinking)):
        if given and flag not in form.takes:
            able = [each.name for each in FORMS if flag in each.takes]
            raise UsageError(f"{flag} means nothing for the form {form.name}", hint=f"it does for {', '.join(able)}")
    with ctx.read_store() as store:
        here, leaf = end_of(ctx, store, session, branch, at)
        whole = all_branches or (form.holds == TREE and branch is None and at is None)
        export = read_export(store, here, leaf, whole_tree=whole)
        cut_off = store.cut_off_runs(here.id)
    export = export.replace(
        last=last, tools=tools or TOOLS_FOLDED, thinking=not no_thinking, made_by=f"pi-session {VERSION}"
    )
    export, lines, told, said = safe_lines(ctx, form, export, redact or (form.redact and not no_redact))
    lost = {**form.losses(export), **pending_losses(export, cut_off)}
    if lost:
        said = (*said, sentence_of(lost, form.name))
    told = {**told, "losses": lost}
    if output is None:
        return Answer("raw", lines, said, cut_off=cut_off)
    import os

    path = os.path.join(ctx.place, os.path.expanduser(output))
    written, size = write_file(path, lines, force=force)
    told = {"sessionId": here.id, "file": path, "format": form.name, "lines": written, "bytes": size, **told}
    done = Done(told, (f"Wrote {written} lines ({size:,} bytes) to {output}",))
    return Answer("done", done, said, next_steps(ctx, form, here, output), cut_off=cut_off)


def next_steps(ctx: Invocation, form: Form, session: Session, output: str) -> tuple[str, ...]:
    """Return the command lines by which the program that a file is for goes on with it."""
    import shlex

    if form.name == "claude-code":
        return (f"claude --resume {shlex.quote(output)}",)
    if form.name != "codex":
        return ()
    from pi_sessions.formats.foreign_ids import as_uuid
    from pi_sessions.times import format_time

    # Codex finds a rollout by its folder and name.
    thread, began = as_uuid(session.id), format_time(session.created_ms)[:19].replace(":", "-")
    folder = f"{ctx.environ.get('CODEX_HOME') or '~/.codex'}/sessions/{began[:10].replace('-', '/')}"
    return (
        f"mkdir -p {folder} && cp {shlex.quote(output)} {folder}/rollout-{began}-{thread}.jsonl",
        f"codex resume {thread}",
    )


def form_of(output: str | None, format: str | None) -> Form:
    """Return the form that is wanted: the one named, else by the longest ending that fits the file's name.

    Raises:
        UsageError: the file's ending names no form and none was given.
    """
    if format is not None:
        return next(form for form in FORMS if form.name == format)
    if output is None:
        return FORMS[0]
    fitting = [form for form in FORMS if output.lower().endswith(form.ending)]
    if not fitting:
        endings = ", ".join(dict.fromkeys(form.ending for form in FORMS))
        raise UsageError(
            f"The ending of {output} names no form of file", hint=f"use {endings}, or say the form: --format pi"
        )
    return max(fitting, key=lambda form: len(form.ending))


def end_of(
    ctx: Invocation, store: Reading, session: str | None, branch: str | None, at: str | None
) -> tuple[Session, str | None]:
    """Return the session and the entry at which the path ends.

    Raises:
        BranchError: there is no such branch.
    """
    if at is not None:
        return ctx.entry(store, at, session)
    here = ctx.session(store, session)
    if branch is None:
        return here, here.leaf
    found = next((each for each in store.branches(here.id) if each.name == branch), None)
    if found is None:
        raise BranchError(f"There is no branch {branch}", hint=f"list branches with: pi-session branch -s {here.id}")
    return here, found.leaf


def safe_lines(
    ctx: Invocation, form: Form, export: Export, redact: bool
) -> tuple[Export, Iterable[str], dict[str, object], tuple[str, ...]]:
    """Write an export with secrets replaced, or count them; what is counted is what stands in the file.

    Returns:
        What goes out and its lines; for programs, what was replaced and the number of likely secrets left in; what to
        say.
    """
    from pi_session_cli.render.screen import count
    from pi_sessions.formats.exports import redacted
    from pi_sessions.secrets import Redactor, environment_secrets

    ids = (export.session.id, *(entry.id for entry in export.entries))
    redactor = Redactor(known=environment_secrets(ctx.environ), keep=ids)
    safe = redacted(export, redactor)
    if not redactor.total:
        return export, form.write(export), {"redacted": [], "secrets": 0}, ()
    lines = list(form.write(safe))
    places: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for each in redactor.report():
        kinds[each.mark] = each.kind
        places.setdefault(each.mark, []).append(each.where)
    counts = {mark: sum(line.count(mark) for line in lines) for mark in kinds}
    counts = {mark: number for mark, number in counts.items() if number}
    number = sum(counts.values())
    if not redact:
        warning = f"Warning: {count(number, 'likely secret')} in this file; --redact replaces them"
        return export, form.write(export), {"redacted": [], "secrets": number}, (warning,) if number else ()
    told = [{"kind": kinds[mark], "mark": mark, "count": counts[mark], "where": places[mark]} for mark in counts]
    said = [f"Replaced {count(number, 'likely secret')}"] if number else []
    said += [f"  {mark} x{counts[mark]}, of {', '.join(places[mark])}" for mark in counts]
    return safe, lines, {"redacted": told, "secrets": 0}, tuple(said)


def write_file(path: str, lines: Iterable[str], *, force: bool) -> tuple[int, int]:
    """Write a file wholly or not at all.

    Args:
        force: Replace an existing file.

    Returns:
        Lines and bytes written.

    Raises:
        TargetError: it exists already, or cannot be written; nothing is left behind.
    """
    import os

    if os.path.isdir(path):
        raise TargetError(f"{path} is a directory", hint="name a file in it: -o FILE")
    if os.path.lexists(path) and not force:
        raise TargetError(f"{path} exists already", hint="pass --force to replace it, or name another file")
    # A device (say /dev/stdout) is written to directly; a file appears under its name only when it is complete.
    target = f"{path}.{os.getpid()}.part" if os.path.isfile(path) or not os.path.exists(path) else path
    count = size = 0
    try:
        with open(target, "wb") as file:
            for text in lines:
                data = text.encode("utf-8")
                size += file.write(data)
                count += data.count(b"\n")
            file.flush()
            if target != path:
                os.fsync(file.fileno())
        if target != path:
            os.replace(target, path)
    except OSError as error:
        raise TargetError(f"Cannot write {path}: {error.strerror}", hint="name another file with -o") from error
    finally:
        if target != path and os.path.exists(target):
            os.unlink(target)
    return count, size
