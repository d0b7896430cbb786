"""The options `run` and `resume` have in common, as plain data."""

from __future__ import annotations

from pi_session_cli.declare import Option
from pi_session_cli.settings import THINKING

MODEL = Option("model", ("--model",), "Model: provider/model or a part that fits one only", "text", "MODEL")
THINK = Option("thinking", ("--thinking",), "Thinking level", "choice", "LEVEL", None, THINKING)
TOOLS_HELP = "Tools of the model: none, read (those that change nothing), all, or a list"
SCRIPT = Option("script", ("--script",), "Let a script (JSON) answer instead of a model", "text", "FILE")
APPROVE_HELP = "Tools that may change things without being asked: none, all, or a list"
SYSTEM = Option("system", ("--system",), "System prompt instead of ours: a text or @FILE", "text", "TEXT")
ALLOW = Option("allow", ("--allow",), "Further folders for tools, joined by a colon; / lifts the limit", "text", "DIR")
CWD = Option("cwd", ("--cwd",), "Folder tools work in instead of the session's", "text", "DIR")
BRANCH = Option("branch", ("--branch",), "Work on this branch instead of the current one", "text", "BRANCH")
RECOVER = Option(
    "recover",
    ("--recover",),
    "What becomes of a run that was cut off, or of an answer that comes later",
    "choice",
    "ACTION",
    None,
    ("continue", "close"),
)


def conversation_options(*, tools: str, unasked: str) -> tuple[Option, ...]:
    """Return the options of a command that talks to a model.

    Args:
        tools: What `--tools` is when it is not given.
        unasked: What becomes of calls that `--approve` does not let through.
    """
    return (
        MODEL,
        THINK,
        Option("tools", ("--tools",), f"{TOOLS_HELP} (default: {tools})", "text", "TOOLS"),
        Option("approve", ("--approve",), f"{APPROVE_HELP} ({unasked})", "text", "TOOLS"),
        SYSTEM,
        ALLOW,
        CWD,
        SCRIPT,
        RECOVER,
    )
