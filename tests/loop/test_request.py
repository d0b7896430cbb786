"""What a request makes of histories that providers refuse; recorded cases, for each protocol they concern."""

import re
import subprocess
import sys

import pytest

from pi_loop.bodies import BodyOptions, body_for
from pi_loop.request import CONTINUE, INTERRUPTED, build_request, wire_messages
from pi_loop.target import CHAT, Target
from pi_sessions.context import ContextMessage
from pi_sessions.messages import parse_messages
from tests.loop.request_support import (
    CLAUDE,
    GLM,
    GPT,
    KIMI,
    PNG,
    TARGETS,
    Json,
    accepted,
    answer,
    call,
    case_entries,
    codes,
    context_at,
    given,
    image,
    result,
    system,
    text,
    user,
)

every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.model)


def shape(messages: tuple[Json, ...]) -> list[object]:
    """Return roles and texts, calls and results of a request's messages."""
    made: list[object] = []
    for message in messages:
        if message["role"] == "toolResult":
            made.append((message["toolCallId"], message["content"][0]["text"]))
        else:
            parts = [block.get("id") or block.get("text") or "thinking" for block in message["content"]]
            made.append((message["role"], *parts))
    return made


# --- calls and results ------------------------------------------------------------------------------------------


@every_target
def test_a_result_on_another_branch_than_its_call_is_a_stray_there_and_missing_here(target: Target) -> None:
    entries = case_entries("s08")
    request, _ = accepted(context_at(entries, "c0000005"), target)
    assert codes(request.repairs) == [("stray_result", "c0000004")]
    assert shape(request.messages) == [
        ("user", "Shared start: which licence is used?"),
        ("assistant", "Branch B answer: I have not looked yet."),
        ("user", "Branch B follow-up: and the version?"),
    ]
    request, _ = accepted(context_at(entries, "c0000002"), target)
    assert codes(request.repairs) == [("missing_result", "c0000002")]
    assert shape(request.messages)[1:] == [("assistant", "Reading the file.", "call_A1"), ("call_A1", INTERRUPTED)]


@every_target
def test_chained_compactions_leave_pairs_whole(target: Target) -> None:
    entries = case_entries("s09")
    request, body = accepted(context_at(entries, "d000000b"), target)
    assert [line[0] if isinstance(line, tuple) else line for line in shape(request.messages)] == [
        "user",
        *("assistant", "call_w1", "assistant", "call_e2", "assistant", "call_e3"),
        "user",
    ]
    assert ("call_e2", INTERRUPTED) in shape(request.messages)
    assert "OUTER SUMMARY" in request.messages[0]["content"][0]["text"]
    assert "INNER SUMMARY" not in str(body)
    assert codes(request.repairs) == [("missing_result", "d0000005"), ("stray_result", "d0000007")]
    assert accepted(context_at(entries, "d000000b"), target)[1] == body


@every_target
def test_results_come_in_call_order_and_a_missing_one_is_an_error(target: Target) -> None:
    request, _ = accepted(context_at(case_entries("s10"), "e0000005"), target)
    assert shape(request.messages)[2:] == [
        ("call_1", "a = 1"),
        ("call_2", INTERRUPTED),
        ("call_3", "c = 3"),
        ("user", "I stopped you. Just tell me what a is."),
    ]
    assert [message["isError"] for message in request.messages[2:5]] == [False, True, False]
    assert codes(request.repairs) == [("missing_result", "e0000002")]


def test_anthropic_gets_all_results_in_one_user_message_before_its_text() -> None:
    _, body = accepted(context_at(case_entries("s10"), "e0000005"), CLAUDE)
    last = body["messages"][-1]["content"]
    assert [block.get("tool_use_id") or block["text"] for block in last] == [
        *("call_1", "call_2", "call_3"),
        "I stopped you. Just tell me what a is.",
    ]
    assert last[1]["is_error"] is True


@every_target
def test_a_result_stored_after_a_user_message_moves_up(target: Target) -> None:
    history = given(user("a"), answer(call("c1")), user("b"), result("c1", "late"), answer(text("ok")), user("c"))
    request, _ = accepted(history, target)
    assert shape(request.messages)[2:4] == [("c1", "late"), ("user", "b")]
    assert codes(request.repairs) == [("moved_result", "e3")]


@every_target
def test_the_first_of_two_results_counts(target: Target) -> None:
    request, _ = accepted(given(user(), answer(call("c1")), result("c1", "one"), result("c1", "two")), target)
    assert shape(request.messages)[2:] == [("c1", "one")]
    assert codes(request.repairs) == [("duplicate_result", "e3")]


@every_target
def test_a_repeated_call_id_pairs_with_the_nearest_call_and_is_told_apart(target: Target) -> None:
    turn = (answer(call("call_0")), result("call_0", "first"), answer(call("call_0"), call("call_0")))
    request, _ = accepted(given(user(), *turn, result("call_0", "second"), result("call_0", "third")), target)
    results = [message for message in request.messages if message["role"] == "toolResult"]
    assert [message["content"][0]["text"] for message in results] == ["first", "second", "third"]
    assert results[0]["toolCallId"] == "call_0"
    assert len({message["toolCallId"] for message in results}) == 3


@every_target
def test_an_interrupted_call_does_not_take_the_result_of_a_later_one_with_its_id(target: Target) -> None:
    history = given(user("a"), answer(call("c")), user("b"), answer(call("c")), result("c", "of the second"))
    request, _ = accepted(history, target)
    assert [line[1] for line in shape(request.messages) if isinstance(line, tuple) and line[0] not in ("user",)][1] == (
        INTERRUPTED
    )
    assert codes(request.repairs)[0] == ("missing_result", "e1")
    assert request.messages[-1]["content"] == [text("of the second")]


# --- what is sent of an answer ----------------------------------------------------------------------------------


@every_target
def test_an_answer_that_was_cut_off_is_not_sent(target: Target) -> None:
    history = given(
        user("a"), answer(text("Half an ans"), call("c1"), stop="aborted"), user("b"), answer(stop="error"), user("c")
    )
    request, _ = accepted(history, target)
    assert shape(request.messages) == [("user", "a", "b", "c")]
    assert codes(request.repairs) == [("unfinished_answer", "e1"), ("unfinished_answer", "e3")]
    assert not any(repair.fault for repair in request.repairs)


@every_target
def test_a_cut_off_answer_keeps_its_calls_that_have_results(target: Target) -> None:
    history = given(user("a"), answer(text("t"), call("c1"), call("c2"), stop="aborted"), result("c1"), user("b"))
    request, _ = accepted(history, target)
    assert shape(request.messages)[1:3] == [("assistant", "t", "c1"), ("c1", "done")]


@every_target
def test_nothing_empty_is_sent(target: Target) -> None:
    """The same as case s11, as messages."""
    history = given(
        user("Make the folder and check it."),
        answer(text(""), call("toolu_f2", "Bash", {"command": "mkdir -p out"}), stop="toolUse"),
        result("toolu_f2", ""),
        answer({"type": "thinking", "thinking": "Nothing to say.", "thinkingSignature": "sig by anthropic/x;"}),
        answer(),
        user("   "),
        user("Are you done?"),
    )
    request, body = accepted(history, target)
    assert shape(request.messages)[1:] == [
        ("assistant", "toolu_f2"),
        ("toolu_f2", "(no tool output)"),
        ("user", "Are you done?"),
    ]
    skipped = [entry for code, entry in codes(request.repairs) if code == "empty_message"]
    assert skipped == ["e3", "e4", "e5"]
    if target.api == CHAT:
        assert body["messages"][1]["content"] is None


@every_target
def test_arguments_that_are_no_object_are_sent_as_one(target: Target) -> None:
    calls = (call("a", arguments='{"path": "x"}'), call("b", arguments=[1]), call("c", arguments="{oops"))
    request, _ = accepted(given(user(), answer(*calls)), target)
    sent = [block["arguments"] for block in request.messages[1]["content"]]
    assert sent == [{"path": "x"}, {}, {}]
    assert [code for code, _ in codes(request.repairs)].count("bad_arguments") == 1


@every_target
def test_a_call_without_a_name_is_dropped_with_its_result(target: Target) -> None:
    request, _ = accepted(given(user(), answer(text("t"), call("c", "")), result("c"), user("b")), target)
    assert shape(request.messages)[1:] == [("assistant", "t"), ("user", "b")]
    assert codes(request.repairs) == [("nameless_call", "e1"), ("stray_result", "e2")]


# --- thinking ---------------------------------------------------------------------------------------------------


def thought(signature: str | None, **fields: object) -> Json:
    signed = {} if signature is None else {"thinkingSignature": signature}
    return {"type": "thinking", "thinking": "I think.", **signed, **fields}


def test_foreign_thinking_is_not_sent_and_the_pair_stays() -> None:
    messages = context_at(case_entries("s16"), "2a000008")
    request, body = accepted(messages, CLAUDE)
    assert "thinking" not in str(body["messages"])
    assert shape(request.messages)[3:5] == [("assistant", "call_cl"), ("call_cl", "1.2.0 - fixes")]
    assert codes(request.repairs) == [("foreign_thinking", "2a000002"), ("foreign_thinking", "2a000004")]


def test_thinking_goes_back_to_its_maker() -> None:
    messages = context_at(case_entries("s16"), "2a000008")
    _, body = accepted(messages, GLM)
    assert body["messages"][1]["reasoning_content"] == "List steps."
    assert "Need the file." not in str(body)
    request, body = accepted(messages, GPT)
    assert "List steps." not in str(body)
    assert codes(request.repairs) == [("foreign_thinking", "2a000002"), ("unsigned_thinking", "2a000004")]


@pytest.mark.parametrize(
    "other", [{"provider": "proxy"}, {"model": "claude-opus-4-5"}, {"api": CHAT}], ids=["provider", "model", "protocol"]
)
def test_a_signature_is_bound_to_provider_model_and_protocol(other: dict[str, str]) -> None:
    maker = CLAUDE.replace(**other)
    history = given(user(), answer(thought("sig"), text("t"), by=maker), user())
    assert "sig" not in str(accepted(history, CLAUDE)[1])
    own = given(user(), answer(thought("sig"), text("t")), user())
    assert accepted(own, CLAUDE)[1]["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "I think.",
        "signature": "sig",
    }


def test_redacted_thinking_goes_back_verbatim_and_unsigned_thinking_does_not() -> None:
    blocks = (thought("opaque", redacted=True), thought(None), thought(" "), text("t"))
    request, body = accepted(given(user(), answer(*blocks), user()), CLAUDE)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["redacted_thinking", "text"]
    assert body["messages"][1]["content"][0]["data"] == "opaque"
    assert codes(request.repairs) == [("unsigned_thinking", "e1")]


def test_an_empty_signature_is_replayed_where_the_server_made_it() -> None:
    target = CLAUDE.replace(compat={"allowEmptySignature": True})
    body = body_for(
        build_request(given(user(), answer(thought(None), text("t")), user()), target), BodyOptions(reasoning="low")
    )
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "I think.", "signature": ""}


ITEM = '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"sealed","status":null}'


def own_gpt_answer(*more: Json, reasoning: str = ITEM) -> Json:
    said = {**text("t"), "textSignature": '{"v":1,"id":"msg_1","phase":"commentary"}'}
    return answer(thought(reasoning), said, *more, by=GPT, stop="toolUse")


def test_responses_items_go_back_whole_with_their_ids() -> None:
    _, body = accepted(given(user(), own_gpt_answer(call("call_1|fc_1")), result("call_1|fc_1")), GPT)
    reasoning, message, function_call, output = body["input"][1:]
    assert reasoning == {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
    assert (message["id"], message["phase"]) == ("msg_1", "commentary")
    assert (function_call["id"], function_call["call_id"]) == ("fc_1", "call_1")
    assert output["call_id"] == "call_1"


@pytest.mark.parametrize("reasoning", ["no json", '{"id":"rs_1","type":"reasoning","summary":[]}'])
def test_items_whose_reasoning_cannot_be_replayed_go_without_ids(reasoning: str) -> None:
    history = given(user(), own_gpt_answer(call("call_1|fc_1"), reasoning=reasoning), result("call_1|fc_1"))
    _, body = accepted(history, GPT)
    assert [item.get("type") for item in body["input"]] == [None, "message", "function_call", "function_call_output"]
    assert not any("id" in item for item in body["input"])


def test_an_answer_that_comes_twice_sends_its_item_ids_once() -> None:
    _, body = accepted(given(user(), own_gpt_answer(), user(), own_gpt_answer(), user()), GPT)
    assert [item["id"] for item in body["input"] if "id" in item] == ["rs_1", "msg_1"]


# --- ids and names ----------------------------------------------------------------------------------------------


@every_target
def test_call_ids_fit_the_protocol_and_stay_apart(target: Target) -> None:
    messages = context_at(case_entries("s17"), "3a000009")
    request, body = accepted(messages, target)
    calls = [b["id"] for m in request.messages if m["role"] == "assistant" for b in m["content"]]
    assert [m["toolCallId"] for m in request.messages if m["role"] == "toolResult"] == calls
    assert len(set(calls)) == 4
    assert calls[2] == "Bash_0"
    if target.api != CHAT:
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent) for sent in calls)
    assert calls[1] == "Bash:0" or target != KIMI
    assert accepted(messages, target)[1] == body
    # The same id is the same in a request for an earlier place.
    earlier = build_request(context_at(case_entries("s17"), "3a000006"), target)
    assert [b["id"] for m in earlier.messages if m["role"] == "assistant" for b in m["content"]] == calls[:3]


def test_responses_ids_have_no_underscore_at_the_end() -> None:
    _, body = accepted(context_at(case_entries("s17"), "3a000009"), GPT)
    sent = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    assert sent[0] == "call_9f3"
    assert not any(call_id.endswith("_") or len(call_id) > 64 for call_id in sent)


@every_target
def test_an_id_that_looks_made_here_cannot_meet_a_made_one(target: Target) -> None:
    first, _ = accepted(given(user(), answer(call("Bash|:0")), result("Bash|:0")), target)
    made = first.messages[1]["content"][0]["id"]
    request, _ = accepted(given(user(), answer(call("Bash|:0"), call(made)), result(made), result("Bash|:0")), target)
    sent = [block["id"] for block in request.messages[1]["content"]]
    assert sent[0] == made
    assert sent[1] != made


@every_target
def test_tool_names_fit_and_are_found_again(target: Target) -> None:
    declared = [{"name": "mcp.server/tool", "description": "", "parameters": {}}, {"name": "read"}]
    history = given(system("S", toolsAdded=declared), user(), answer(call("c", "mcp.server/tool")), result("c"))
    request, _ = accepted(history, target)
    sent = request.messages[1]["content"][0]["name"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert [tool["name"] for tool in request.tools] == [sent, "read"]
    assert request.declared_name(sent) == "mcp.server/tool"
    assert request.declared_name("read") == "read"


OPEN = {"type": "object", "properties": {}}
UNION = {
    "description": "either",
    "anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}, "k": {"const": 1}}, "required": ["a", "k"]},
        {"properties": {"k": {"const": 2}}, "required": ["k"], "additionalProperties": False},
        {"type": "null"},
    ],
}
RECURSIVE = {"oneOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"allOf": [{"$ref": "#/$defs/n"}, UNION]}}}


@every_target
@pytest.mark.parametrize(
    ("declared", "sent", "repaired"),
    [
        ({}, OPEN, False),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}, False),
        ({"type": "object", "properties": None}, OPEN, True),
        ({"type": "object", "properties": [1]}, OPEN, True),
        ({"type": "object", "properties": {"a": 1}}, {"type": "object", "properties": {"a": {}}}, True),
        ({"type": None, "required": None}, OPEN, True),
        ({"type": "object", "oneOf": [7, {"$ref": "#/nowhere"}]}, OPEN, True),
        (
            UNION,
            {
                "type": "object",
                "description": "either",
                "properties": {"a": {"type": "string"}, "k": {"anyOf": [{"const": 1}, {"const": 2}]}},
                "required": ["k"],
            },
            True,
        ),
        (
            {"properties": {"a": {}}, "required": ["a"], "allOf": [{"required": ["b"]}, {"properties": {"b": {}}}]},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
            True,
        ),
    ],
)
def test_parameters_are_sent_as_one_object_without_unions_at_its_top(
    declared: Json, sent: Json, repaired: bool, target: Target
) -> None:
    tool = {"name": "read", "description": "", "parameters": declared}
    request, _ = accepted(given(system("S", toolsAdded=[tool]), user()), target)
    assert [each["parameters"] for each in request.tools] == [sent]
    assert [repair.code for repair in request.repairs] == ["bad_parameters"] * repaired


@every_target
def test_parameters_that_refer_to_themselves_end(target: Target) -> None:
    tool = {"name": "read", "parameters": RECURSIVE}
    request, _ = accepted(given(system("S", toolsAdded=[tool]), user()), target)
    sent = request.tools[0]["parameters"]
    assert (list(sent["properties"]), sent["required"]) == (["a", "k"], ["k"])


# --- system messages --------------------------------------------------------------------------------------------


@every_target
def test_system_messages_anywhere_add_up_to_one_prompt_and_tool_list(target: Target) -> None:
    history = given(
        system("Base.", sections={"a": "A1", "b": "B"}, toolsAdded=[{"name": "read"}, {"name": "bash"}]),
        user("q"),
        answer(call("c")),
        system("", sections={"a": None, "b": "B2"}, toolsRemoved=[{"name": "bash"}], toolsAdded=[{"name": "edit"}]),
        result("c"),
        system("More."),
        user("r"),
    )
    request, body = accepted(history, target)
    assert request.system == "Base.\n\nMore.\n\nB2"
    assert [tool["name"] for tool in request.tools] == ["read", "edit"]
    assert request.repairs == ()
    assert str(body).count("Base.") == 1


# --- images and text --------------------------------------------------------------------------------------------


def test_a_model_without_vision_gets_one_text_for_images_in_a_row() -> None:
    history = given(user([text("look"), image(), image()]), answer(call("c")), result("c", [image()]))
    request, body = accepted(history, GLM)
    assert shape(request.messages) == [
        ("user", "look", "(image omitted: model does not support images)"),
        ("assistant", "c"),
        ("c", "(tool image omitted: model does not support images)"),
    ]
    assert PNG not in str(body)
    assert [code for code, _ in codes(request.repairs)] == ["image_omitted", "image_omitted"]


def test_images_in_results_go_where_the_protocol_has_a_place() -> None:
    history = given(
        user(), answer(call("a"), call("b")), result("a", [text("seen"), image()]), result("b"), user("next")
    )
    anthropic = accepted(history, CLAUDE)[1]["messages"][-1]["content"]
    assert [block["type"] for block in anthropic[0]["content"]] == ["text", "image"]
    responses = accepted(history, GPT)[1]["input"][3]["output"]
    assert [part["type"] for part in responses] == ["input_text", "input_image"]
    chat = accepted(history, KIMI)[1]["messages"]
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in chat[-1]["content"]] == ["text", "image_url", "text"]


def test_images_of_results_are_sent_before_the_next_answer_or_at_the_end() -> None:
    seen = (answer(call("a")), result("a", [image()]))
    chat = accepted(given(user(), *seen, *seen), KIMI)[1]["messages"]
    assert [message["role"] for message in chat] == ["user", *("assistant", "tool", "user") * 2]
    assert [part["type"] for part in chat[-1]["content"]] == ["text", "image_url"]


def test_an_error_result_for_anthropic_holds_text_alone() -> None:
    history = given(user(), answer(call("a")), result("a", [image()], error=True))
    content = accepted(history, CLAUDE)[1]["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "text", "image"]
    assert content[0]["is_error"] is True


@every_target
def test_an_image_that_cannot_be_sent_is_said(target: Target) -> None:
    history = given(user([image(""), image(mime="image/jpeg"), image("AAAA", "image/bmp")]))
    request, body = accepted(history, target)
    if target.vision:
        assert [block["type"] for block in request.messages[0]["content"]] == ["text", "image", "text"]
        assert request.messages[0]["content"][1]["mimeType"] == "image/png"
        assert [code for code, _ in codes(request.repairs)] == ["image_omitted", "image_type", "image_omitted"]
    assert "image/jpeg" not in str(body)


def test_the_same_image_is_sent_each_time() -> None:
    entries = case_entries("s18", "same-image-thrice")
    request, _ = accepted(context_at(entries, entries[-1].id), CLAUDE)
    blocks = [block for message in request.messages for block in message["content"]]
    assert len([block for block in blocks if block["type"] == "image"]) == 3


@every_target
def test_lone_surrogates_become_replacement_characters(target: Target) -> None:
    request, body = accepted(context_at(case_entries("s19"), "5a000003"), target)
    assert request.messages[0]["content"][0]["text"] == "Valid pair \U0001f680 and a cut one \ufffd… end"
    assert request.messages[1]["content"][0]["arguments"] == {"command": "echo \ufffd", "\ufffdkey": "v"}
    assert request.messages[2]["content"][0]["text"] == "out \ufffd heron"
    assert codes(request.repairs) == [], "the store holds replacement characters already"
    assert "\ufffd" in str(body)


@every_target
def test_lone_surrogates_that_never_were_stored_become_replacement_characters(target: Target) -> None:
    cut = [ContextMessage("m1", {"role": "user", "content": "a cut one \ud83d… end", "timestamp": 1})]
    request, body = accepted(cut, target)
    assert shape(request.messages) == [("user", "a cut one \ufffd… end")]
    assert codes(request.repairs) == [("lone_surrogate", "m1")]
    assert "\ufffd" in str(body)


# --- beginning, end and other roles -----------------------------------------------------------------------------


@every_target
def test_a_request_ends_on_a_user_message(target: Target) -> None:
    request, _ = accepted(given(user("a"), answer(text("done"))), target)
    assert shape(request.messages) == [("user", "a"), ("assistant", "done"), ("user", CONTINUE)]
    assert codes(request.repairs) == [("answer_last", None)]


@every_target
def test_a_request_begins_with_a_user_message_and_is_never_empty(target: Target) -> None:
    request, _ = accepted(given(answer(text("hello")), user("b")), target)
    assert [message["role"] for message in request.messages] == ["user", "assistant", "user"]
    assert codes(request.repairs) == [("answer_first", None)]
    request, _ = accepted([], target)
    assert shape(request.messages) == [("user", CONTINUE)]


@every_target
def test_other_roles_are_user_texts_and_unknown_ones_are_named(target: Target) -> None:
    history = given(
        {"role": "compactionSummary", "summary": "S", "timestamp": 1},
        {"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 0},
        {"role": "bashExecution", "command": "secret", "output": "x", "excludeFromContext": True},
        {"role": "custom", "customType": "c", "content": "noted"},
        {"role": "hologram", "content": "?"},
    )
    request, body = accepted(history, target)
    assert len(request.messages) == 1
    assert "Ran `ls`" in str(body)
    assert "secret" not in str(body)
    assert codes(request.repairs) == [("unknown_role", "e4")]


@every_target
def test_neighbours_of_one_role_are_one_message(target: Target) -> None:
    history = given(user("a"), user("b"), answer(text("c")), answer(text("d"), call("x")), result("x"))
    request, _ = accepted(history, target)
    assert shape(request.messages) == [("user", "a", "b"), ("assistant", "c", "d", "x"), ("x", "done")]
    assert request.repairs == ()


def test_message_models_give_the_same_request_as_the_context() -> None:
    messages = context_at(case_entries("s10"), "e0000005")
    models = parse_messages([given_message.message for given_message in messages])
    assert build_request(wire_messages(models), CLAUDE).messages == build_request(messages, CLAUDE).messages


def test_building_a_request_and_body_imports_no_transport_and_no_pydantic() -> None:
    code = (
        "import sys, pi_loop.request, pi_loop.bodies.anthropic, pi_loop.bodies.openai_chat, "
        "pi_loop.bodies.openai_responses\n"
        "print(sorted({'httpx', 'anyio', 'pydantic', 'dataclasses', 'hashlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
