"""Events and messages on the wire, and the lazy view of a message being streamed."""

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pi_loop.agent import Agent
from pi_loop.draft import AssistantDraft
from pi_loop.events import (
    MessageUpdate,
    StreamDone,
    ToolExecutionEnd,
    ToolResult,
    event_to_wire,
    parse_event,
    parse_stream_event,
)
from pi_loop.partial import PartialLog
from pi_loop.types import Model, Request, StreamOptions
from pi_sessions.messages import (
    AssistantMessage,
    OtherContent,
    OtherMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    parse_message,
    parse_message_json,
    to_wire,
)

MODEL = Model(id="m", api="a", provider="p")

ZERO = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
USAGE = {**ZERO, "cacheWrite1h": 3, "cost": {"input": 0.1, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.1}}
WIRE_MESSAGES = [
    {
        "role": "system",
        "content": "",
        "sections": {"a": "x", "b": None},
        "toolsRemoved": [{"name": "t"}],
        "timestamp": 0,
    },
    {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "timestamp": 1.5},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "s"},
            {"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": None}, "argumentsError": "bad"},
            {"type": "hologram", "depth": 3},
        ],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "deferred",
        "deferred": {"provider": "p", "modelId": "m", "api": "a", "id": "d", "data": None},
        "timestamp": 1780000000000,
        "somethingNew": {"deep": [1, None]},
    },
    {"role": "toolResult", "toolCallId": "c", "toolName": "n", "content": [], "details": None, "isError": False},
    {"role": "bashExecution", "command": "ls", "output": "", "cancelled": False, "truncated": False, "exitCode": 0},
    {"role": "custom", "customType": "x", "content": "hi", "display": False, "details": {"a": 1}},
    {"role": "compactionSummary", "summary": "s", "tokensBefore": 5},
    {"role": "branchSummary", "summary": "s", "fromId": "root"},
    {"role": "note", "content": "kept", "n": None},
]


@pytest.mark.parametrize("data", WIRE_MESSAGES, ids=lambda data: data["role"])
def test_a_message_survives_a_round_trip(data: dict) -> None:
    assert to_wire(parse_message(data)) == data
    assert json.loads(parse_message_json(json.dumps(data)).model_dump_json()) == data


extra_fields = st.dictionaries(
    st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=6).map(lambda name: "x" + name),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.none() | st.text(), max_size=2),
    max_size=3,
)


@given(st.sampled_from(WIRE_MESSAGES), extra_fields)
def test_unknown_fields_survive_on_every_role(data: dict, extra: dict) -> None:
    assert to_wire(parse_message({**data, **extra})) == {**data, **extra}


@given(st.text(min_size=1).filter(lambda role: role not in {data["role"] for data in WIRE_MESSAGES}), extra_fields)
def test_unknown_roles_survive(role: str, extra: dict) -> None:
    message = parse_message({"role": role, **extra})
    assert isinstance(message, OtherMessage)
    assert to_wire(message) == {"role": role, **extra}


def test_absent_and_null_are_told_apart() -> None:
    base = {"role": "toolResult", "toolCallId": "c", "toolName": "n", "content": [], "isError": False}
    assert to_wire(parse_message({**base, "details": None})) == {**base, "details": None}
    assert to_wire(parse_message(base)) == base


def test_a_message_made_here_has_pis_whole_shape_and_one_read_here_has_what_it_had() -> None:
    made = to_wire(AssistantMessage(usage=Usage(input=1)))
    assert set(made) == {"role", "content", "api", "provider", "model", "usage", "stopReason"}
    assert set(made["usage"]) == {*ZERO, "cost"}
    partly = {"role": "toolResult", "toolCallId": "c", "toolName": "n", "usage": {"input": 1, "cost": {"total": 2}}}
    read = parse_message(partly)
    assert to_wire(read) == partly
    assert isinstance(read, ToolResultMessage)
    assert read.usage is not None
    assert (read.usage.output, read.is_error) == (0, False)


def test_a_null_content_is_an_empty_list() -> None:
    message = parse_message({"role": "user", "content": None})
    assert isinstance(message, UserMessage)
    assert message.content == []


def test_an_unknown_block_keeps_its_fields() -> None:
    message = AssistantMessage.model_validate({"content": [{"type": "hologram", "depth": 3}]})
    block = message.content[0]
    assert isinstance(block, OtherContent)
    assert (block.type, block.model_extra) == ("hologram", {"depth": 3})


def test_a_known_role_with_a_wrong_field_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse_message({"role": "toolResult", "content": []})


def test_messages_are_frozen() -> None:
    with pytest.raises(ValidationError):
        UserMessage(content="a").content = "b"


def play(draft: AssistantDraft) -> list:
    return [
        draft.start(),
        draft.thinking_start(),
        draft.thinking_delta(0, "hm"),
        draft.thinking_end(0, ThinkingContent(thinking="hm", thinking_signature="s")),
        draft.text_start(),
        draft.text_delta(1, "he"),
        draft.text_delta(1, "llo\r\n"),
        draft.text_end(1),
        draft.toolcall_start("c", "n"),
        draft.toolcall_delta(2, '{"a":1}'),
        draft.toolcall_end(2, ToolCall(id="c", name="n", arguments={"a": 1})),
        draft.done("toolUse", usage=Usage(input=1)),
    ]


def test_every_event_has_the_partial_of_its_moment_whenever_it_is_read() -> None:
    events = play(AssistantDraft(MODEL, timestamp=5))
    forwards = [to_wire(event.partial) for event in events[:-1]]
    fresh = play(AssistantDraft(MODEL, timestamp=5))
    backwards = [to_wire(event.partial) for event in reversed(fresh[:-1])][::-1]
    assert forwards == backwards
    assert [len(wire["content"]) for wire in forwards] == [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3]
    assert [wire["content"][1]["text"] for wire in forwards[4:8]] == ["", "he", "hello\r\n", "hello\r\n"]
    assert {wire["stopReason"] for wire in forwards} == {"pending"}


def test_stream_events_have_pis_names_and_can_be_read_back() -> None:
    for event in play(AssistantDraft(MODEL, timestamp=5)):
        wire = event_to_wire(event)
        assert event_to_wire(parse_stream_event(json.loads(json.dumps(wire)))) == wire
    done = play(AssistantDraft(MODEL, timestamp=5))[-1]
    assert isinstance(done, StreamDone)
    assert (done.reason, done.message.stop_reason, done.message.usage.input) == ("toolUse", "toolUse", 1)


def test_an_update_has_the_message_on_the_wire_unless_it_is_left_out() -> None:
    update = MessageUpdate(assistant_message_event=play(AssistantDraft(MODEL, timestamp=5))[5])
    wire = event_to_wire(update)
    assert wire["message"] == wire["assistantMessageEvent"]["partial"]
    assert event_to_wire(parse_event(wire)) == wire
    assert event_to_wire(update, partials=False) == {
        "type": "message_update",
        "assistantMessageEvent": {"type": "text_delta", "contentIndex": 1, "delta": "he"},
    }


def test_a_result_says_only_what_the_tool_said() -> None:
    event = ToolExecutionEnd(
        tool_call_id="c", tool_name="n", result=ToolResult(details=None, terminate="yes"), is_error=False
    )
    assert event_to_wire(event) == {
        "type": "tool_execution_end",
        "toolCallId": "c",
        "toolName": "n",
        "result": {"details": None, "terminate": "yes"},
        "isError": False,
    }


def test_a_draft_that_fails_keeps_what_had_arrived() -> None:
    draft = AssistantDraft(MODEL, timestamp=5)
    draft.text_start()
    draft.text_delta(0, "half")
    failed = draft.error("gone", aborted=True, response_id="r")
    assert to_wire(failed.error)["content"] == [{"type": "text", "text": "half"}]
    assert (failed.reason, failed.error.error_message, failed.error.response_id) == ("aborted", "gone", "r")


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=5)), max_size=30), st.data())
def test_a_view_is_the_prefix_of_what_was_written(deltas: list[tuple[int, str]], data: st.DataObject) -> None:
    log = PartialLog(AssistantMessage(model="m", stop_reason="pending"))
    for index in range(3):
        log.put_block(index, TextContent(text=""))
    texts, views = ["", "", ""], []
    for index, delta in deltas:
        texts[index] += delta
        views.append((log.append_text(index, delta), list(texts)))
    for view, expected in data.draw(st.permutations(views)):
        assert [block.text for block in view.message().content] == expected


def test_streaming_builds_no_message_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps streaming linear: the partial is built for the start and for whoever reads it, not for each delta."""
    built = 0
    build = PartialLog.build

    def counting(self: PartialLog, size: int, tail: int) -> AssistantMessage:
        nonlocal built
        built += 1
        return build(self, size, tail)

    monkeypatch.setattr(PartialLog, "build", counting)

    async def stream(model: Model, request: Request, options: StreamOptions):
        draft = AssistantDraft(model, timestamp=0)
        yield draft.start()
        yield draft.text_start()
        for _ in range(5000):
            yield draft.text_delta(0, "word ")
        yield draft.text_end(0)
        yield draft.done("stop")

    agent = Agent(stream, model=MODEL)
    seen = []
    agent.subscribe(lambda event, signal: seen.append(event.type))
    anyio.run(agent.prompt, "go")
    assert seen.count("message_update") == 5002
    assert built < 10
    message = agent.state.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.text == "word " * 5000


def test_the_result_message_of_a_tool_has_no_runtime_fields() -> None:
    assert set(ToolResultMessage.model_fields) & {"terminate", "structured_content"} == set()
