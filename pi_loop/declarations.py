"""System messages as state: which tools are declared, what the prompt is, and what has to be announced. Pure.

The transcript's system messages, replayed in order, say what the model may call; `context.tools` says what can be
executed. `declare_tool_changes` writes the difference into the messages about to be added, so that after them the two
agree. Nothing here emits or stores a message.

Source: Pi 1.6.0, "Tool declarations".
"""

import json
from collections.abc import Iterable, Sequence

from pi_loop.types import AgentContext, Clock, Tool
from pi_sessions.messages import (
    Message,
    SystemMessage,
    ToolDeclaration,
    ToolReference,
    block_texts,
    to_wire,
)


def declared_tools(messages: Iterable[Message]) -> list[ToolDeclaration]:
    """Replay the tool declarations of all system messages; in each, removals count first."""
    tools: dict[str, ToolDeclaration] = {}
    for message in messages:
        if not isinstance(message, SystemMessage):
            continue
        for removed in message.tools_removed or ():
            tools.pop(removed.name, None)
        for added in message.tools_added or ():
            tools[added.name] = added
    return list(tools.values())


def replay_system_messages(messages: Sequence[Message]) -> SystemMessage | None:
    """Fold all system messages into one with the current prompt, sections and tools; None if there is none."""
    texts: list[str] = []
    sections: dict[str, str | None] = {}
    first: SystemMessage | None = None
    for message in messages:
        if not isinstance(message, SystemMessage):
            continue
        first = first or message
        text = "\n".join(block_texts(message.content))
        if text:
            texts.append(text)
        for name, value in (message.sections or {}).items():
            if value is None:
                sections.pop(name, None)
            else:
                sections[name] = value
    if first is None:
        return None
    replayed = SystemMessage(content="\n\n".join(texts), timestamp=first.timestamp)
    tools = declared_tools(messages)
    changes: dict[str, object] = {}
    if sections:
        changes["sections"] = sections
    if tools:
        changes["tools_added"] = tools
    return replayed.model_copy(update=changes)


def current_system_prompt(messages: Sequence[Message]) -> str:
    """Give the prompt in force: contents and sections that are not empty, joined by blank lines."""
    replayed = replay_system_messages(messages)
    if replayed is None:
        return ""
    parts = [*block_texts(replayed.content), *(value or "" for value in (replayed.sections or {}).values())]
    return "\n\n".join(part for part in parts if part)


def initial_system_message(prompt: str, tools: Sequence[Tool]) -> SystemMessage | None:
    """Make the leading system message for a prompt and tools; None if both are empty."""
    if not prompt and not tools:
        return None
    message = SystemMessage(content=prompt, timestamp=0)
    if not tools:
        return message
    return message.model_copy(update={"tools_added": [tool.declaration() for tool in tools]})


def declare_tool_changes(context: AgentContext, pending: Sequence[Message], clock: Clock) -> list[Message]:
    """Give the pending messages with the difference between declared and executable tools in them.

    The last pending system message carries it, in place of its own tool fields; without one, a new system message
    without text goes in front.

    Args:
        context: Messages so far and the executable tools.
        pending: Messages about to be added.
        clock: For the time of a new message.

    Source: Pi 1.6.0, "Tool declarations".
    """
    messages = list(pending)
    index = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], SystemMessage)), None)
    carrier = messages[index] if index is not None else None
    if index is not None and isinstance(carrier, SystemMessage):
        messages[index] = _with_tool_changes(carrier, [], [])
    declared = declared_tools([*context.messages, *messages])
    added, removed = _difference(declared, [tool.declaration() for tool in context.tools or ()])
    if index is not None and isinstance(carrier, SystemMessage):
        if added or removed or carrier.tools_added or carrier.tools_removed:
            messages[index] = _with_tool_changes(carrier, added, removed)
        else:
            # Nothing to say and nothing said: the caller's own message stays, as it is.
            messages[index] = carrier
        return messages
    if added or removed:
        messages.insert(0, _with_tool_changes(SystemMessage(content="", timestamp=clock()), added, removed))
    return messages


def _difference(
    declared: list[ToolDeclaration], wanted: list[ToolDeclaration]
) -> tuple[list[ToolDeclaration], list[ToolReference]]:
    declared_texts = {tool.name: _text(tool) for tool in declared}
    # Of two wanted tools with one name the later one counts here, the first one is executed.
    wanted_texts = {tool.name: _text(tool) for tool in wanted}
    added = [tool for tool in wanted if declared_texts.get(tool.name) != _text(tool)]
    removed = [ToolReference(name=tool.name) for tool in declared if wanted_texts.get(tool.name) != _text(tool)]
    return added, removed


def _text(tool: ToolDeclaration) -> str:
    # Declarations are equal if they read the same, key order included; other fields a file brought do not count.
    data = to_wire(tool)
    keys = ("name", "description", "parameters", "constrainedSampling")
    return json.dumps({key: data[key] for key in keys if key in data})


def _with_tool_changes(
    message: SystemMessage, added: list[ToolDeclaration], removed: list[ToolReference]
) -> SystemMessage:
    copy = message.model_copy(update={"tools_added": added or None, "tools_removed": removed or None})
    if not added:
        copy.model_fields_set.discard("tools_added")
    if not removed:
        copy.model_fields_set.discard("tools_removed")
    return copy
