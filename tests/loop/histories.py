"""Histories for property tests: trees with all that has ever made a provider refuse, and clean ones."""

import json
from typing import Any

from hypothesis import strategies as st

from pi_loop.target import ANTHROPIC, CHAT, RESPONSES, Target
from pi_sessions.stored import StoredEntry
from tests.loop.request_support import CLAUDE, GLM, GPT, KIMI, PNG

Json = dict[str, Any]

MAKERS = (
    CLAUDE,
    GPT,
    GLM,
    KIMI,
    CLAUDE.replace(model="claude-opus-4-5"),
    GPT.replace(api=CHAT),
    CLAUDE.replace(provider="proxy"),
)
TEXTS = ("", " \n", "hello", "second", "rocket 🚀", "cut \ud83d here", "\udc00", "joined \ud83d\ude80")
CALL_IDS = (
    "call_0",
    "call_1|fc_aa",
    "call_1|fc_bb",
    "call_1",
    "Bash:0",
    "Bash_0",
    "ends_",
    "",
    "x" * 70,
    "call_9|" + "fc_a1B2" * 40,
    "pi_157c0e31d6234ce7831700c9",
    "ünï\ud800",
)
NAMES = ("read", "bash", "mcp.server/tool", "n" * 80, "", None)
ARGUMENTS: tuple[object, ...] = (
    {},
    {"path": "a"},
    {"\ud800k": ["\udc00", 1.5]},
    [],
    "no json",
    '{"a":1}',
    None,
    {"n": float("nan")},
)
STOPS = ("stop", "toolUse", "length", "error", "aborted", "pending", "deferred", None)
IDS = tuple(f"e{place}" for place in range(12))

texts = st.sampled_from(TEXTS)
text_blocks = st.builds(lambda value: {"type": "text", "text": value}, texts)
image_blocks = st.builds(
    lambda data, mime: {"type": "image", "data": data, "mimeType": mime},
    st.sampled_from((PNG, "", "AAAA")),
    st.sampled_from(("image/png", "image/jpeg", "image/bmp", "text/plain")),
)
odd_blocks = st.sampled_from(({"type": "document"}, {"type": "toolCall", "name": 3}, {}, {"type": "text"}))
inputs = st.one_of(texts, st.lists(st.one_of(text_blocks, image_blocks, odd_blocks), max_size=3), st.none())


def thinking_of(maker: Target, number: int, kind: str) -> Json:
    """Return a thinking block as a maker's protocol stores it; it names its maker wherever a checker looks."""
    mark = f"by {maker.provider}/{maker.model};"
    block: Json = {"type": "thinking", "thinking": f"thought {mark}"}
    if kind == "unsigned":
        return block
    if kind == "garbage":
        return {**block, "thinkingSignature": f"gAAAA {mark}"}
    if maker.api == ANTHROPIC:
        redacted = {"redacted": True, "thinking": ""} if kind == "redacted" else {}
        return {**block, "thinkingSignature": f"signed {number} {mark}", **redacted}
    if maker.api == RESPONSES:
        held = None if kind == "redacted" else f"sealed {mark}"
        item: Json = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": held}
        return {**block, "thinkingSignature": json.dumps(item)}
    return {**block, "thinkingSignature": "reasoning_content"}


@st.composite
def answers(draw: st.DrawFn) -> Json:
    """Draw an answer by any model, whole or cut."""
    maker = draw(st.sampled_from(MAKERS))
    thinking = st.builds(
        thinking_of,
        st.just(maker),
        st.integers(0, 3),
        st.sampled_from(("signed", "signed", "redacted", "unsigned", "garbage")),
    )
    calls = st.builds(
        lambda call_id, name, arguments: {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments},
        st.sampled_from(CALL_IDS),
        st.sampled_from(NAMES),
        st.sampled_from(ARGUMENTS),
    )
    signature = st.sampled_from(("msg_1", '{"v":1,"id":"msg_2","phase":"commentary"}', "{broken", "m" * 90))
    signed = st.builds(lambda value, mark: {"type": "text", "text": value, "textSignature": mark}, texts, signature)
    content = draw(st.lists(st.one_of(thinking, calls, calls, text_blocks, signed, odd_blocks), max_size=4))
    named = {"api": maker.api, "provider": maker.provider, "model": maker.model}
    return {"role": "assistant", "content": content, **named, "stopReason": draw(st.sampled_from(STOPS))}


tool_results = st.builds(
    lambda call_id, content, error: {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "read",
        "content": content,
        "isError": error,
    },
    st.sampled_from((*CALL_IDS, None)),
    inputs,
    st.booleans(),
)
SHOWN = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
branches = st.sampled_from((SHOWN, {"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/x"}, None, True, 7))
unions = st.dictionaries(
    st.sampled_from(("oneOf", "anyOf", "allOf")),
    st.one_of(st.none(), st.lists(st.recursive(branches, lambda inner: st.builds(lambda a: {"anyOf": [a]}, inner)))),
)
parameters = st.one_of(
    st.none(),
    st.just(SHOWN),
    st.builds(
        lambda kinds, properties, required, more: {**kinds, **properties, **required, **more, "$defs": {"x": more}},
        st.sampled_from(({}, {"type": "object"}, {"type": "string"}, {"type": None}, {"type": ["object", "null"]})),
        st.sampled_from(({}, {"properties": {}}, {"properties": None}, {"properties": [1]}, {"properties": {"a": 1}})),
        st.sampled_from(({}, {"required": None}, {"required": ["a", "a", 1]}, {"enum": [{}]}, {"not": {}})),
        unions,
    ),
)
system_messages = st.builds(
    lambda content, sections, added, removed: {
        "role": "system",
        "content": content,
        "sections": sections,
        "toolsAdded": added,
        "toolsRemoved": removed,
    },
    texts,
    st.one_of(st.none(), st.dictionaries(st.sampled_from(("a", "b")), st.one_of(texts, st.none()))),
    st.lists(
        st.builds(
            lambda name, parameters: {"name": name, "description": "d", "parameters": parameters},
            st.sampled_from(NAMES),
            parameters,
        ),
        max_size=2,
    ),
    st.lists(st.builds(lambda name: {"name": name}, st.sampled_from(NAMES)), max_size=1),
)
other_messages = st.sampled_from(
    (
        {"role": "bashExecution", "command": "ls", "output": "\udfff", "exitCode": 0},
        {"role": "bashExecution", "command": "ls", "excludeFromContext": True},
        {"role": "custom", "customType": "note", "content": "noted"},
        {"role": "hologram", "content": "?"},
    )
)
messages = st.one_of(
    answers(),
    answers(),
    tool_results,
    tool_results,
    st.builds(lambda content: {"role": "user", "content": content}, inputs),
    system_messages,
    other_messages,
)
own_fields = st.one_of(
    st.builds(lambda first: {"type": "compaction", "summary": "S", "firstKeptEntryId": first}, st.sampled_from(IDS)),
    st.builds(
        lambda target, replacement: {"type": "context_edit", "targetId": target, "replacement": replacement},
        st.sampled_from(IDS),
        st.sampled_from((None, {"content": "edited"}, {"content": []})),
    ),
    st.just({"type": "branch_summary", "summary": "B", "fromId": "e0"}),
    st.just({"type": "custom_message", "customType": "note", "content": "said"}),
)


stored_messages = st.builds(lambda value: {"type": "message", "message": value}, messages)
stored = st.one_of(*[stored_messages] * 5, own_fields)


@st.composite
def trees(draw: st.DrawFn) -> list[StoredEntry]:
    """Draw a tree of entries; a parent is mostly the entry before, sometimes any earlier one."""
    drawn = draw(st.lists(stored, min_size=5, max_size=len(IDS)))
    entries: list[StoredEntry] = []
    for place, fields in enumerate(drawn):
        parent = None
        if place:
            back = draw(st.sampled_from((1, 1, 1, 1, 1, 1, 2, 3)))
            parent = IDS[max(0, place - back)]
        entries.append(StoredEntry.from_dict({**fields, "id": IDS[place], "parentId": parent}))
    return entries


@st.composite
def clean_runs(draw: st.DrawFn, target: Target) -> list[Json]:
    """Draw what a target's own runs leave behind, up to where it would be asked next."""
    made: list[Json] = [{"role": "system", "content": "Be brief.", "toolsAdded": [{"name": "read"}]}]
    named = {"api": target.api, "provider": target.provider, "model": target.model}
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        made.append({"role": "user", "content": [{"type": "text", "text": f"Question {number}"}]})
        for count in [*draw(st.lists(st.integers(1, 2), max_size=2)), 0]:
            number += 1
            thinking = [thinking_of(target, number, "signed")] if target.reasoning else []
            said = {"type": "text", "text": f"Answer {number}"}
            ids = [f"call_{number}_{place}" for place in range(count)]
            calls = [{"type": "toolCall", "id": call_id, "name": "read", "arguments": {"n": number}} for call_id in ids]
            stop = "toolUse" if count else "stop"
            made.append({"role": "assistant", "content": [*thinking, said, *calls], **named, "stopReason": stop})
            output = [{"type": "text", "text": "out"}]
            made += [
                {"role": "toolResult", "toolCallId": call_id, "toolName": "read", "content": output} for call_id in ids
            ]
    made.append({"role": "user", "content": "And now?"})
    return made
