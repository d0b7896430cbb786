"""What fills a context: its tokens by kind, and its dearest entries. Pure, by the estimates of `tokens`."""

from __future__ import annotations

from pi_sessions.context import is_sent
from pi_sessions.tokens import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pi_sessions.context import Context
    from pi_sessions.stored import JsonObject

SHARES = ("system", "tools", "summary", "files read", "tool output", "conversation")
READERS = frozenset(("read", "view", "cat", "open", "read_file", "readfile", "view_file", "notebookread"))


def context_shares(context: Context) -> dict[str, int]:
    """Return the estimated tokens of a context by kind, in the order of `SHARES`; kinds without any are 0.

    Tool calls count as conversation: the model wrote them. Files read are the results of tools whose name says so.
    """
    shares = dict.fromkeys(SHARES, 0)
    for each in context.messages:
        message = each.message
        tokens = estimate_tokens(message) if is_sent(message) else 0
        if message.get("role") == "system":
            declared = estimate_tokens({"role": "system", "toolsAdded": message.get("toolsAdded")})
            shares["tools"] += declared
            shares["system"] += max(tokens - declared, 0)
        else:
            shares[kind_of(message)] += tokens
    return shares


def kind_of(message: JsonObject) -> str:
    """Return the kind of a message that is no system message."""
    role = message.get("role")
    if role in ("compactionSummary", "branchSummary"):
        return "summary"
    if role == "toolResult":
        return "files read" if str(message.get("toolName") or "").lower() in READERS else "tool output"
    return "tool output" if role == "bashExecution" else "conversation"


def dearest(context: Context, number: int) -> list[tuple[str, int]]:
    """Return the entries that take the most tokens, dearest first: id and estimated tokens.

    Args:
        number: At most so many; an entry of a single token is never among them.
    """
    sums: dict[str, int] = {}
    for each in context.messages:
        sums[each.entry_id] = sums.get(each.entry_id, 0) + estimate_tokens(each.message) * is_sent(each.message)
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return [(entry_id, tokens) for entry_id, tokens in ordered[:number] if tokens > 1]
